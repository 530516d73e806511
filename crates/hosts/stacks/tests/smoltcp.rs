//! TCP connections in smoltcp over a simulated path.

mod common;

use common::{CONNECTION, FRAME, Network, Path, first_difference, ms};
use poseidon_laws::AnyParams;
use poseidon_plan::Plan;
use poseidon_plan::stack::{Controller, Side, StackKind};
use poseidon_plan::stack_factory::StackFactory as _;
use poseidon_stacks::STACKS;
use poseidon_types::{Bytes, Nanos, Picos};

const MEGABYTE: u64 = 1_000_000;
const CONTROLLERS: [Controller; 2] = [Controller::Reno, Controller::Cubic];
/// Ethernet, IPv4 and TCP without options.
const HEADERS: u64 = 18 + 20 + 20;

fn plan(path: Path, controller: Controller) -> Plan {
    let law = AnyParams::for_law("cubic").expect("the law exists");
    path.plan(StackKind::Smoltcp, Some(controller), &law)
}

#[test]
fn transfer_reaches_the_closed_form_after_the_start() {
    for controller in CONTROLLERS {
        // No loss occurs: the queue has room for the socket buffer.
        let path = Path { queue: 5_000_000, ..Path::WAN };
        let network = Network::with_messages(plan(path, controller), path, &[10 * MEGABYTE], Picos::ZERO)
            .run(ms(5_000));
        assert_eq!(
            (network.received_numbers(), network.received_bytes()),
            (vec![0], 10 * MEGABYTE),
            "{controller:?}"
        );
        // The goodput of full packets: rate x payload / frame.
        let expected = path.rate.get() as f64 * (FRAME - HEADERS) as f64 / FRAME as f64;
        let goodput = network.goodput_of_second_half();
        assert!(
            (goodput / expected - 1.0).abs() <= 0.02,
            "{controller:?}: {goodput:.0}, expected {expected:.0}"
        );
        assert_eq!(network.drops, 0, "{controller:?}");
        network.assert_timers_are_rare();
    }
}

#[test]
fn messages_arrive_in_order_with_loss_and_reordering() {
    for controller in CONTROLLERS {
        let path = Path { losses: 10, reordered: 20, ..Path::WAN };
        let sizes = [100_000; 20];
        let network = Network::with_messages(plan(path, controller), path, &sizes, ms(20)).run(ms(600_000));
        let numbers: Vec<u32> = (0..20).collect();
        assert_eq!(network.received_numbers(), numbers, "{controller:?}");
        let acknowledged: Vec<u32> = network.acknowledged.iter().map(|(_, number)| *number).collect();
        assert_eq!(acknowledged, numbers, "{controller:?}");
        assert_eq!(network.received_bytes(), sizes.iter().sum::<u64>(), "{controller:?}");
        assert!(network.drops > 0 && network.sender_state().lost > 0, "{controller:?}");
        network.assert_timers_are_rare();
    }
}

#[test]
fn first_message_includes_the_handshake() {
    let path = Path::WAN;
    let network =
        Network::with_messages(plan(path, Controller::Cubic), path, &[1_000, 1_000], ms(500)).run(ms(2_000));
    let latency = |number: usize| network.received[number].0 - ms(500) * number as u64;
    assert!((ms(30)..ms(31)).contains(&latency(0)), "{}", latency(0));
    assert!((ms(10)..ms(11)).contains(&latency(1)), "{}", latency(1));
}

#[test]
fn datagrams_have_the_same_sizes_and_times_in_every_run() {
    for controller in CONTROLLERS {
        let run = |seed| {
            let path = Path { losses: 10, reordered: 20, ..Path::WAN };
            let mut plan = plan(path, controller);
            plan.seed = seed;
            Network::with_messages(plan, path, &[300_000, 10, 300_000], ms(30)).run(ms(100_000))
        };
        let (a, b) = (run(7), run(7));
        assert_eq!(first_difference(&a.log, &b.log), None);
        assert_eq!(a.first_datagram, b.first_datagram);
        // The initial sequence number depends on the seed.
        assert_ne!(a.first_datagram[24..28], run(8).first_datagram[24..28]);
    }
}

/// The datagrams are not ECN-capable, so congestion is only seen as loss.
#[test]
fn small_queue_causes_losses_and_the_transfer_completes() {
    for controller in CONTROLLERS {
        let path = Path { queue: 100_000, mark_above: Some(10_000), ..Path::WAN };
        let network = Network::with_messages(plan(path, controller), path, &[5 * MEGABYTE], Picos::ZERO)
            .run(ms(600_000));
        assert_eq!((network.received_numbers(), network.marks), (vec![0], 0), "{controller:?}");
        assert!(network.drops > 0, "{controller:?}");
    }
}

#[test]
fn long_flow_ends() {
    for controller in CONTROLLERS {
        let path = Path { queue: 5_000_000, ..Path::WAN };
        let network = Network::with_long_flow(plan(path, controller), path, ms(1_000)).run(ms(60_000));
        assert_eq!((network.received_numbers(), network.acknowledged.len()), (vec![0], 1), "{controller:?}");
        assert!(
            network.received_bytes() > 5 * MEGABYTE,
            "{controller:?}: {} bytes",
            network.received_bytes()
        );
        network.assert_timers_are_rare();
    }
}

#[test]
fn idle_connection_needs_no_timers() {
    let path = Path::WAN;
    let network =
        Network::with_messages(plan(path, Controller::Cubic), path, &[1_000], Picos::ZERO).run(ms(3_600_000));
    assert_eq!(network.acknowledged.len(), 1);
    assert!(network.timeouts < 20, "{} timeouts", network.timeouts);
}

#[test]
fn datagrams_fit_into_the_packets_of_the_plan() {
    let path = Path::WAN;
    let network =
        Network::with_messages(plan(path, Controller::Reno), path, &[MEGABYTE], Picos::ZERO).run(ms(5_000));
    let largest = network.log.iter().map(|sent| sent.size as u64).max();
    assert_eq!(largest, Some(FRAME - 18));
}

#[test]
fn unsuitable_plans_are_refused() {
    let mut small = plan(Path::WAN, Controller::Cubic);
    small.transport.mtu = Bytes::new(500);
    let error = STACKS.check(&small).expect_err("558 bytes have no room for 576").to_string();
    assert!(error.contains("set transport.mtu to at least 536 bytes"), "{error}");
}

#[test]
fn state_is_measured_from_the_headers() {
    let path = Path { queue: 5_000_000, ..Path::WAN };
    let network = Network::with_messages(plan(path, Controller::Cubic), path, &[20 * MEGABYTE], Picos::ZERO)
        .run(ms(400));
    let state = network.sender_state();
    assert!(state.in_flight.get() > 100_000 && state.srtt >= Nanos::from_millis(20), "{state:?}");
    assert_eq!((state.lost, state.window), (0, Bytes::ZERO));
    let idle = STACKS.create(&plan(path, Controller::Cubic), CONNECTION, Side::Sender).state();
    assert_eq!((idle.srtt, idle.in_flight), (Nanos::ZERO, Bytes::ZERO));
}
