//! Real stacks in the simulated network: goodput, shares, determinism and speed.

#![cfg(all(feature = "quinn", feature = "smoltcp"))]

use core::num::NonZeroU32;
use poseidon_laws::AnyParams;
use poseidon_plan::impairments::{LinkImpairment, RandomLoss};
use poseidon_plan::records::MemorySink;
use poseidon_plan::stack::{Controller, StackKind, StackLaw};
use poseidon_plan::switch::{PerQueue, Stamp};
use poseidon_plan::topology::Chain;
use poseidon_plan::traffic::Amount;
use poseidon_plan::transport::Acks;
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_stacks::STACKS;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos, PortId, SwitchId};

fn ms(millis: u64) -> Picos {
    Picos::from_nanos(Nanos::from_millis(millis))
}

fn run_on(threads: u32, plan: &Plan) -> (MemorySink, Report) {
    let threads = NonZeroU32::new(threads).expect("there is a thread");
    let simulator = Simulator { stacks: Some(&STACKS), ..Simulator::with_threads(threads) };
    let mut rows = MemorySink::default();
    let report = simulator.run(plan, &mut rows).expect("the plan runs");
    (rows, report)
}

fn stack_law(law: u32, stack: StackKind, controller: Controller) -> StackLaw {
    StackLaw { law, stack, controller: Some(controller) }
}

/// Packets of 1,500 bytes and their Ethernet header, and a buffer of 50 kB per queue.
fn ethernet(mut plan: Plan) -> Plan {
    plan.switch.stamp = Stamp::Off;
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.buffer = PerQueue { size: Bytes::new(50_000) }.into();
    plan.transport.mtu = Bytes::new(1_448);
    plan.transport.header = Bytes::new(70);
    plan.transport.min_rto = Nanos::from_millis(200);
    plan.transport.first_rto = Nanos::from_millis(1_000);
    plan
}

/// Flows from hosts 1 and up to host 0 over a link of 100 Mbit/s, with a round trip of 10 ms. Host links are ten times as
/// fast as the last one, so the queue is at the last switch.
fn dumbbell(senders: u32) -> Plan {
    let fast = Link { rate: BitRate::from_gbps(1), delay: Picos::from_nanos(Nanos::from_micros(500)) };
    let slow = Link { rate: BitRate::from_mbps(100), delay: ms(4) };
    let chain = Chain { switches: 2, hosts: senders, host_link: fast, middle_link: slow };
    let ends: Vec<_> = (0..senders).map(|host| (host, senders + host)).collect();
    let mut plan = ethernet(plans::plan(Topology::Chain(chain), "fixed", &ends));
    // The egress port of the first switch towards the second.
    (plan.watched_ports, plan.sample_every) = (plans::switch_ports(&[(0, senders)]), ms(1));
    plan.switch.buffer = PerQueue { size: Bytes::new(125_000) }.into();
    plan
}

/// Returns each connection's received bytes between two times.
fn received(rows: &MemorySink, plan: &Plan, from: Picos, to: Picos) -> Vec<f64> {
    let at = |time: Picos, index: usize| {
        let connection = plan.watched_connections[index];
        let row = rows.receivers.iter().rfind(|row| row.connection == connection && row.time <= time);
        row.map_or(0, |row| row.received.get())
    };
    (0..plan.watched_connections.len()).map(|index| (at(to, index) - at(from, index)) as f64).collect()
}

/// Returns the mean queueing delay at the watched port after a time, in ms.
fn mean_delay_ms(rows: &MemorySink, from: Picos) -> f64 {
    let delays: Vec<f64> =
        rows.queues.iter().filter(|row| row.time >= from).map(|row| row.delay.get() as f64 / 1e6).collect();
    delays.iter().sum::<f64>() / delays.len() as f64
}

/// The goodput of a long flow of quinn on an idle path is the rate of the link times the share of message bytes in a full
/// packet. smoltcp reaches more than half of it.
#[test]
fn goodput_on_an_idle_path_is_the_closed_form() {
    for (stack, controller, overhead) in [
        // Ethernet 18, IPv4 20, UDP 8; QUIC: flags 1, connection id 8, packet number 2 to 4, tag 16; stream frame
        // header about 1 + 1 + 8 + 2.
        (StackKind::Quinn, Controller::Cubic, 18 + 20 + 8 + 1 + 8 + 3 + 16 + 12),
        (StackKind::Quinn, Controller::NewReno, 18 + 20 + 8 + 1 + 8 + 3 + 16 + 12),
        // Ethernet 18, IPv4 20, TCP 20.
        (StackKind::Smoltcp, Controller::Cubic, 18 + 20 + 20),
        (StackKind::Smoltcp, Controller::Reno, 18 + 20 + 20),
    ] {
        let mut plan = dumbbell(1);
        plan.stop = ms(8_000);
        plan.stacks = vec![stack_law(0, stack, controller)];
        plan.watched_connections = plans::connection_ids(0..1);
        let (rows, _) = run_on(1, &plan);
        let goodput = received(&rows, &plan, ms(3_000), ms(8_000))[0] * 8.0 / 5.0 / 1e6;
        let full = 1_518.0;
        let expected = 100.0 * (full - f64::from(overhead)) / full;
        println!("{} {}: {goodput:.2} Mbit/s, closed form {expected:.2}", stack.name(), controller.name());
        // smoltcp does not pace, so slow start overflows the buffer of one BDP, and its recovery leaves the link idle.
        let tolerance = if stack == StackKind::Quinn { 0.02 } else { 0.5 };
        assert!((goodput / expected - 1.0).abs() < tolerance, "{goodput} Mbit/s instead of {expected}");
    }
}

/// quinn's CUBIC and our CUBIC law share a link. They share it equally if the receivers of both acknowledge every second
/// packet, as quinn's do. If the law's receiver acknowledges every packet, the law sends one packet for each that leaves
/// the full queue. quinn then sends two at once, and its second packet is lost more often (docs/howto/stacks.md).
#[test]
fn quinn_cubic_beside_the_cubic_law() {
    let cubic = AnyParams::for_law("cubic").expect("the law exists");
    let every_second = Acks::Coalesced { packets: 2, delay: Nanos::from_millis(25) };
    let run = |in_stack: &[u32], acks: Acks, start: u64| {
        let mut plan = dumbbell(2);
        plan.stop = ms(60_000);
        plan.transport.acks = acks;
        plan.laws = vec![cubic.clone(), cubic.clone()];
        plan.connections[1].law = 1;
        plan.messages[1].start = ms(start);
        plan.stacks =
            in_stack.iter().map(|law| stack_law(*law, StackKind::Quinn, Controller::Cubic)).collect();
        plan.watched_connections = plans::connection_ids(0..2);
        let (rows, _) = run_on(1, &plan);
        let bytes = received(&rows, &plan, ms(10_000), ms(60_000));
        (bytes[0] / (bytes[0] + bytes[1]), mean_delay_ms(&rows, ms(10_000)))
    };
    // The mean over several starts, because a share varies by a tenth with the start.
    let mean = |in_stack: &[u32], acks| {
        let starts = [0, 700, 1_400];
        let runs: Vec<_> = starts.iter().map(|start| run(in_stack, acks, *start)).collect();
        let sum = |value: fn(&(f64, f64)) -> f64| runs.iter().map(value).sum::<f64>() / starts.len() as f64;
        let (share, delay) = (sum(|run| run.0), sum(|run| run.1));
        println!(
            "quinn runs {in_stack:?}, {acks:?}: share of the first {share:.3}, mean queue {delay:.2} ms"
        );
        (share, delay)
    };
    let (share, delay) = mean(&[0], every_second);
    let (_, law_delay) = mean(&[], every_second);
    assert!((share / 0.5 - 1.0).abs() < 0.1, "quinn's share is {share:.3}");
    assert!(
        (delay / law_delay - 1.0).abs() < 0.1,
        "the mean queue is {delay:.2} instead of {law_delay:.2} ms"
    );
    let (share, _) = mean(&[0], Acks::EveryPacket);
    assert!(share < 0.4, "quinn's share is {share:.3}");
}

/// A plan with several racks, losses, and connections of both stacks and of the simulator's own transport.
fn mixed_plan() -> Plan {
    let link = Link { rate: BitRate::from_mbps(200), delay: ms(1) };
    let ends: Vec<_> = (0..12).map(|from| (from, (from + 5) % 16)).collect();
    let mut plan = ethernet(plans::plan(Topology::fat_tree(4, link), "cubic", &ends));
    plan.stop = ms(400);
    let laws = ["cubic", "fixed", "fixed", "timely"];
    plan.laws = laws.iter().map(|law| AnyParams::for_law(law).expect("the law exists")).collect();
    plan.stacks = vec![
        stack_law(1, StackKind::Quinn, Controller::Cubic),
        stack_law(2, StackKind::Smoltcp, Controller::Reno),
        StackLaw { law: 3, stack: StackKind::Quinn, controller: None },
    ];
    for (index, connection) in plan.connections.iter_mut().enumerate() {
        connection.law = u32::try_from(index % 4).expect("a small number");
    }
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(1_000_000));
    }
    let policy = RandomLoss { probability: Fraction::ratio(1, 100) }.into();
    plan.link_impairments = vec![LinkImpairment { switch: SwitchId::new(0), port: PortId::new(2), policy }];
    plan.watched_connections = plans::connection_ids(0..12);
    plan.sample_every = ms(10);
    plan
}

#[test]
fn results_do_not_depend_on_the_number_of_threads_or_the_run() {
    let plan = mixed_plan();
    let expected = run_on(1, &plan);
    assert!(!expected.0.messages.is_empty() && expected.1.dropped > 0, "{:?}", expected.1);
    for threads in [1, 2, 4] {
        let (rows, report) = run_on(threads, &plan);
        assert_eq!(report, expected.1, "{threads} threads");
        assert_eq!(rows, expected.0, "{threads} threads");
    }
}

/// 100 connections share 100 Mbit/s. Prints how many times faster than real time the run is.
#[test]
#[ignore = "measures speed; run it with --release"]
#[expect(clippy::disallowed_methods, reason = "the test measures real time")]
fn a_hundred_connections_run_faster_than_real_time() {
    let mut plan = dumbbell(100);
    plan.stop = ms(20_000);
    plan.stacks = vec![stack_law(0, StackKind::Quinn, Controller::Cubic)];
    let [one, two] = [1, 2].map(|threads| {
        let began = std::time::Instant::now();
        let (_, report) = run_on(threads, &plan);
        (20.0 / began.elapsed().as_secs_f64(), report.sent)
    });
    println!(
        "{{\"test\": \"stacks_speed\", \"times as fast as real time\": {:.1}, \"on two threads\": {:.1}, \"datagrams\": {}}}",
        one.0, two.0, one.1
    );
    let factor = one.0;
    assert!(factor >= 20.0, "{factor:.1} times as fast as real time");
}
