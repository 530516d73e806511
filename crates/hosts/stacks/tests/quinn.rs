//! QUIC connections in quinn over a simulated path.

mod common;

use common::{CONNECTION, FRAME, Network, Path, first_difference, ms};
use poseidon_laws::AnyParams;
use poseidon_plan::stack::{Controller, Side, StackKind};
use poseidon_plan::stack_factory::StackFactory as _;
use poseidon_plan::switch::{DelayCarrier, Stamp};
use poseidon_plan::{Plan, PlanError};
use poseidon_quic::Config;
use poseidon_stacks::{STACKS, is_deterministic};
use poseidon_types::{BitRate, Bytes, Nanos, Picos};
use std::thread;

const MEGABYTE: u64 = 1_000_000;
const CONTROLLERS: [Controller; 3] = [Controller::NewReno, Controller::Cubic, Controller::Bbr];
const REPEATABLE: [Controller; 2] = [Controller::NewReno, Controller::Cubic];
/// Ethernet, IPv4 and UDP.
const OVERHEAD: u64 = 46;
/// A short header with a packet number of two bytes, the authentication tag, and a STREAM frame with an offset of four bytes.
const QUIC_BYTES: u64 = (1 + 8 + 2) + 16 + (1 + 1 + 4);
const PREFIX_BYTES: u64 = 16;

fn law(name: &str) -> AnyParams {
    AnyParams::for_law(name).expect("the law exists")
}

/// Returns Poseidon with the parameters that the adapter uses for the path's rate.
fn poseidon() -> AnyParams {
    Config::for_rate(Path::WAN.rate).law
}

fn plan(path: Path, controller: Controller) -> Plan {
    path.plan(StackKind::Quinn, Some(controller), &law("cubic"))
}

fn law_plan(path: Path, law: &AnyParams) -> Plan {
    path.plan(StackKind::Quinn, None, law)
}

/// Returns the goodput of full packets at the path's rate: rate x payload / frame.
fn closed_form(rate: BitRate, headers: u64) -> f64 {
    rate.get() as f64 * (FRAME - OVERHEAD - headers) as f64 / FRAME as f64
}

fn assert_close(value: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{what}: {value:.0}, expected {expected:.0}");
}

#[test]
fn transfer_reaches_the_closed_form_after_the_start() {
    for controller in CONTROLLERS {
        let path = Path::WAN;
        let network = Network::with_messages(plan(path, controller), path, &[10 * MEGABYTE], Picos::ZERO)
            .run(ms(5_000));
        assert_eq!(
            (network.received_numbers(), network.received_bytes()),
            (vec![0], 10 * MEGABYTE),
            "{controller:?}"
        );
        let expected = closed_form(path.rate, QUIC_BYTES);
        assert_close(network.goodput_of_second_half(), expected, 0.02, controller.name());
        network.assert_timers_are_rare();
    }
}

#[test]
fn messages_arrive_in_order_without_loss() {
    for controller in CONTROLLERS {
        let path = Path { queue: 5_000_000, ..Path::WAN };
        let sizes: Vec<u64> = (1..=40).map(|number| 5_000 * number).collect();
        let network = Network::with_messages(plan(path, controller), path, &sizes, ms(1)).run(ms(20_000));
        let numbers: Vec<u32> = (0..40).collect();
        assert_eq!(network.received_numbers(), numbers, "{controller:?}");
        let acknowledged: Vec<u32> = network.acknowledged.iter().map(|(_, number)| *number).collect();
        assert_eq!(acknowledged, numbers, "{controller:?}");
        assert_eq!((network.received_bytes(), network.drops), (sizes.iter().sum(), 0), "{controller:?}");
    }
}

#[test]
fn every_byte_arrives_once_with_loss_and_reordering() {
    for controller in CONTROLLERS {
        let path = Path { losses: 10, reordered: 20, ..Path::WAN };
        let sizes = [300_000; 20];
        let network = Network::with_messages(plan(path, controller), path, &sizes, ms(20)).run(ms(120_000));
        let mut numbers = network.received_numbers();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20).collect::<Vec<u32>>(), "{controller:?}: each message arrives once");
        assert_eq!(
            (network.received_bytes(), network.acknowledged.len()),
            (sizes.iter().sum(), 20),
            "{controller:?}"
        );
        assert!(network.drops > 0 && network.sender_state().lost > 0, "{controller:?}");
        network.assert_timers_are_rare();
    }
}

/// quinn allows 256 streams at a time, and the receiver raises the limit as messages arrive.
#[test]
fn more_messages_than_streams_complete() {
    let path = Path::WAN;
    let sizes = [2_000; 1_000];
    let network =
        Network::with_messages(plan(path, Controller::Cubic), path, &sizes, Picos::ZERO).run(ms(10_000));
    assert_eq!((network.received.len(), network.received_bytes()), (1_000, 2_000_000));
}

#[test]
fn first_message_includes_the_handshake() {
    let path = Path::WAN;
    let network =
        Network::with_messages(plan(path, Controller::Cubic), path, &[1_000, 1_000], ms(500)).run(ms(2_000));
    let latency = |number: usize| network.received[number].0 - ms(500) * number as u64;
    // One round trip of the handshake precedes the first message.
    assert!((ms(30)..ms(32)).contains(&latency(0)), "{}", latency(0));
    assert!((ms(10)..ms(11)).contains(&latency(1)), "{}", latency(1));
}

/// Runs a transfer with losses and returns the log and the first datagram.
fn lossy_run(seed: u64, make: impl Fn(Path) -> Plan) -> Network {
    let path =
        Path { losses: 10, reordered: 20, mark_above: Some(100_000), has_telemetry: true, ..Path::WAN };
    let mut plan = make(path);
    plan.seed = seed;
    Network::with_messages(plan, path, &[500_000, 10, 700_000], ms(30)).run(ms(30_000))
}

#[test]
fn datagrams_have_the_same_sizes_and_times_in_every_run_and_thread() {
    let plans: Vec<Box<dyn Fn(Path) -> Plan + Send + Sync>> = vec![
        Box::new(|path| plan(path, REPEATABLE[0])),
        Box::new(|path| plan(path, REPEATABLE[1])),
        Box::new(|path| law_plan(path, &poseidon())),
        Box::new(|path| law_plan(path, &law("bbr"))),
    ];
    for make in &plans {
        let here = lossy_run(7, make);
        let there = thread::scope(|scope| {
            scope.spawn(|| lossy_run(7, make).log).join().expect("the run does not panic")
        });
        assert_eq!(first_difference(&here.log, &there), None);
        assert_eq!(here.received.len(), 3);
    }
}

/// The handshake has the same datagram sizes with every seed. The connection IDs differ.
#[test]
fn seed_changes_connection_ids_and_not_the_sizes_of_the_handshake() {
    let path = Path::WAN;
    let run = |seed| {
        let mut plan = plan(path, Controller::NewReno);
        plan.seed = seed;
        Network::with_messages(plan, path, &[100_000], Picos::ZERO).run(ms(1_000))
    };
    let (a, b) = (run(1), run(2));
    // The destination ID begins after the first byte, the version and its length. Header protection covers four bits of
    // the first byte, and its key depends on the ID.
    assert_ne!(a.first_datagram[6..14], b.first_datagram[6..14]);
    assert_eq!(a.first_datagram[0] & 0xf0, b.first_datagram[0] & 0xf0);
    assert_eq!(a.first_datagram[1..6], b.first_datagram[1..6]);
    let sizes = |network: &Network, side| -> Vec<usize> {
        network.log.iter().filter(|sent| sent.side == side).map(|sent| sent.size).collect()
    };
    assert_eq!(sizes(&a, Side::Sender), sizes(&b, Side::Sender));
    // Later ACKs depend on the packet numbers that quinn skips at random.
    assert_eq!(sizes(&a, Side::Receiver)[..3], sizes(&b, Side::Receiver)[..3]);
    assert_eq!(first_difference(&a.log, &run(1).log), None);
}

#[test]
fn marks_reduce_the_window_without_losses() {
    for controller in REPEATABLE {
        let run = |mark_above| {
            let path = Path { queue: 5_000_000, mark_above, ..Path::WAN };
            Network::with_messages(plan(path, controller), path, &[5 * MEGABYTE], Picos::ZERO).run(ms(5_000))
        };
        let (marked, unmarked) = (run(Some(50_000)), run(None));
        assert!(marked.log.iter().all(|sent| sent.is_ecn_capable), "validation of ECN succeeds");
        assert_eq!((marked.drops, unmarked.drops, unmarked.marks), (0, 0, 0));
        assert!(marked.marks > 0);
        assert!(
            2 * marked.max_window < unmarked.max_window,
            "{controller:?}: {} and {}",
            marked.max_window,
            unmarked.max_window
        );
        assert!(marked.mean_queueing_delay() < unmarked.mean_queueing_delay() / 3.0, "{controller:?}");
        assert_eq!(marked.received_bytes(), 5 * MEGABYTE);
    }
}

#[test]
fn laws_run_in_quinn() {
    let path = Path { queue: 5_000_000, ..Path::WAN };
    for (law, min_share) in [(poseidon(), 0.85), (law("timely"), 0.0), (law("cubic"), 0.9)] {
        let plan = law_plan(path, &law);
        let network = Network::with_messages(plan, path, &[10 * MEGABYTE], Picos::ZERO).run(ms(60_000));
        let name = law.law_name();
        assert_eq!(
            (network.received_numbers(), network.received_bytes()),
            (vec![0], 10 * MEGABYTE),
            "{name}"
        );
        let expected = closed_form(path.rate, QUIC_BYTES + PREFIX_BYTES);
        let share = network.goodput_of_second_half() / expected;
        assert!((min_share..1.01).contains(&share), "{name}: {share:.3} of the closed form");
        // CUBIC needs losses.
        assert!(network.drops == 0 || name == "cubic", "{name}: {} drops", network.drops);
        network.assert_timers_are_rare();
    }
}

/// With telemetry, Poseidon holds the queue of the worst hop near its target, between 0.3 and 4.3 ms.
#[test]
fn telemetry_reaches_the_law() {
    let run = |has_telemetry| {
        let path = Path { queue: 5_000_000, has_telemetry, ..Path::WAN };
        let mut plan = law_plan(path, &poseidon());
        plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Exact);
        Network::with_messages(plan, path, &[20 * MEGABYTE], Picos::ZERO).run(ms(20_000))
    };
    let (with, without) = (run(true), run(false));
    assert_eq!((with.received_bytes(), without.received_bytes()), (20 * MEGABYTE, 20 * MEGABYTE));
    assert_ne!(first_difference(&with.log, &without.log), None, "telemetry changes the law's decisions");
    let delay = with.mean_queueing_delay();
    assert!((0.000_1..0.005).contains(&delay), "the mean queueing delay is {delay} s");
}

#[test]
fn long_flow_ends() {
    for controller in CONTROLLERS {
        let path = Path::WAN;
        let network = Network::with_long_flow(plan(path, controller), path, ms(1_000)).run(ms(20_000));
        assert_eq!(network.received_numbers(), [0], "{controller:?}");
        assert_eq!(network.acknowledged.len(), 1, "{controller:?}");
        let expected = closed_form(path.rate, QUIC_BYTES) / 8.0;
        let received = network.received_bytes() as f64;
        assert!(
            (0.8 * expected..1.2 * expected).contains(&received),
            "{controller:?}: {received} bytes in 1 s"
        );
        network.assert_timers_are_rare();
    }
}

/// A connection that has nothing to do sets no timer, so the run ends by itself long before its limit.
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
    for stamp in [Stamp::Off, Stamp::MaxHopDelay(DelayCarrier::Shim)] {
        for controller in [Some(Controller::Cubic), None] {
            let path = Path::WAN;
            let mut plan = path.plan(StackKind::Quinn, controller, &poseidon());
            plan.switch.stamp = stamp;
            let size = plan.data_size();
            let network = Network::with_messages(plan, path, &[MEGABYTE], Picos::ZERO).run(ms(5_000));
            let largest = network.log.iter().map(|sent| sent.size as u64).max().unwrap_or(0);
            assert_eq!(Bytes::new(largest + OVERHEAD) + stamp.data_bytes(), size, "{stamp:?} {controller:?}");
        }
    }
}

#[test]
fn jumbo_packets_are_used() {
    let path = Path { queue: 5_000_000, ..Path::WAN };
    let mut plan = plan(path, Controller::Cubic);
    plan.transport.mtu = Bytes::new(9_000);
    let network = Network::with_messages(plan, path, &[5 * MEGABYTE], Picos::ZERO).run(ms(5_000));
    assert_eq!(network.received_bytes(), 5 * MEGABYTE);
    let full = network.log.iter().filter(|sent| sent.size == 9_000 + 58 - 46).count();
    assert!(full > 500, "{full} full packets");
}

#[test]
fn unsuitable_plans_are_refused() {
    let path = Path::WAN;
    let mut small = plan(path, Controller::Cubic);
    small.transport.mtu = Bytes::new(1_187);
    let error = STACKS.check(&small).expect_err("1,245 bytes have no room for a QUIC datagram").to_string();
    assert!(error.contains("set transport.mtu to at least 1188 bytes"), "{error}");
    small.transport.mtu = Bytes::new(1_188);
    assert_eq!(STACKS.check(&small), Ok(()));

    let records = law_plan(path, &law("hpcc"));
    let error = STACKS.check(&records).expect_err("the adapter has no hop records");
    assert!(matches!(error, PlanError::Law { connection: 0, .. }), "{error}");
    assert_eq!(STACKS.check(&law_plan(path, &poseidon())), Ok(()));
}

#[test]
fn state_describes_the_connection() {
    let path = Path { queue: 5_000_000, ..Path::WAN };
    let network = Network::with_messages(plan(path, Controller::Cubic), path, &[20 * MEGABYTE], Picos::ZERO)
        .run(ms(300));
    let state = network.sender_state();
    assert!(state.window >= state.in_flight && state.in_flight.get() > 100_000, "{state:?}");
    assert!(state.srtt >= Nanos::from_millis(20), "{state:?}");
    assert_eq!(state.lost, 0);
    let idle = STACKS.create(&plan(path, Controller::Cubic), CONNECTION, Side::Sender).state();
    assert_eq!((idle.srtt, idle.window), (Nanos::ZERO, Bytes::ZERO));
}

#[test]
fn only_bbr_of_quinn_is_random() {
    for controller in CONTROLLERS {
        assert_eq!(is_deterministic(StackKind::Quinn, Some(controller)), controller != Controller::Bbr);
    }
    assert!(is_deterministic(StackKind::Quinn, None));
}
