//! Laws in simulated networks: equilibrium queues, fairness and loss recovery.

mod common;

use common::{run, us};
use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{DelayCarrier, PerQueue, RecordCarrier, Stamp, Step, TelemetryOff};
use poseidon_plan::topology::Chain;
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Plan, Topology};
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{Bytes, MessageId, SwitchId};

/// Returns the mean delay at the watched queue over the second half of the run, in us.
fn mean_delay_us(rows: &MemorySink, plan: &Plan) -> f64 {
    let delays: Vec<f64> = (rows.queues.iter())
        .filter(|row| row.time.get() > plan.stop.get() / 2)
        .map(|row| row.delay.get() as f64 / 1_000.0)
        .collect();
    delays.iter().sum::<f64>() / delays.len() as f64
}

/// Builds a plan in which `senders` hosts send to one receiver.
fn incast(law: &str, stamp: Stamp, senders: u32) -> Plan {
    let connections: Vec<_> = (1..=senders).map(|from| (from, 0)).collect();
    let mut plan = plans::plan(Topology::star(senders + 1, LINK), law, &connections);
    plan.switch.stamp = stamp;
    // Watch the receiver's port.
    (plan.watched_ports, plan.sample_every) = (plans::switch_ports(&[(0, 0)]), us(10));
    plan
}

#[test]
fn poseidon_queue_settles_at_the_target() {
    assert_queue_settles_at_target("distance");
}

#[test]
fn steady_update_queue_settles_at_the_target() {
    assert_queue_settles_at_target("steady");
}

fn assert_queue_settles_at_target(update: &str) {
    for (flows, target) in [(2, 5.01), (3, 6.77), (10, 12.00), (20, 15.01), (50, 18.99), (100, 22.00)] {
        let mut plan = incast("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact), flows);
        plan.laws[0].set("update", update).expect("the value is valid");
        let (rows, report) = run(&plan);
        let delay = mean_delay_us(&rows, &plan);
        let rate = report.delivered_bytes.get() as f64 * 8.0 / 20e6;
        println!(
            "{flows} flows: {delay:.2} us, T {target:.2} us, {rate:.1} Gbps, {} decisions",
            report.decisions
        );
        assert!((delay / target - 1.0).abs() < 0.05, "{flows} flows: {delay} us instead of {target}");
        assert!(rate > 195.0, "{flows} flows: {rate} Gbps");
        assert_eq!(report.decisions_with_telemetry, report.decisions);
    }
}

/// Returns the bytes that each watched connection received between two samples.
fn received_between(rows: &MemorySink, plan: &Plan, from: usize, to: usize) -> Vec<f64> {
    let flows = plan.connections.len();
    let rows_of = |sample: usize| &rows.receivers[(sample - 1) * flows..sample * flows];
    rows_of(from).iter().zip(rows_of(to)).map(|(a, b)| (b.received - a.received).get() as f64).collect()
}

#[test]
fn steady_update_is_fair_with_windows_of_half_a_packet() {
    for (flows, target) in [(300, 26.77), (500, 28.99)] {
        let mut plan = incast("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact), flows);
        plan.laws[0].set("update", "steady").expect("the value is valid");
        plan.laws[0].set("initial-window", "1 packets").expect("the value is valid");
        (plan.watched_connections, plan.sample_every) = (plans::connection_ids(0..flows), us(50));
        plan.stop = us(20_001);
        let (rows, _) = run(&plan);
        let delay = mean_delay_us(&rows, &plan);
        // Use the last 2 ms, in samples of 50 us.
        let rates = received_between(&rows, &plan, 360, 400);
        let sum: f64 = rates.iter().sum();
        let jain = sum * sum / rates.iter().map(|rate| rate * rate).sum::<f64>() / f64::from(flows);
        println!("{flows} flows: {delay:.2} us, T {target:.2} us, Jain over 2 ms {jain:.4}");
        assert!((delay / target - 1.0).abs() < 0.02, "{flows} flows: {delay} us instead of {target}");
        assert!(jain > 0.995, "{flows} flows: {jain}");
    }
}

#[test]
fn poseidon_has_a_shorter_queue_than_swift() {
    let delay = |law, stamp| {
        let plan = incast(law, stamp, 20);
        mean_delay_us(&run(&plan).0, &plan)
    };
    let (poseidon, swift) =
        (delay("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact)), delay("swift", Stamp::Off));
    println!("20 flows: poseidon {poseidon:.1} us, swift {swift:.1} us");
    assert!(poseidon < 0.7 * swift, "{poseidon} {swift}");
}

/// Returns the rate of a victim over two congested hops, as a fraction of its fair rate. M other flows share
/// the first hop and N other flows share the second hop, as in a small version of Fig. 14a.
fn victim_share(law: &str, settings: &[(&str, &str)], stamp: Stamp, m: u32, n: u32) -> f64 {
    let hosts = m.max(n) + 1;
    let chain = Topology::Chain(Chain { switches: 3, hosts, host_link: LINK, middle_link: LINK });
    let first = |i| i;
    let (second, third) = (|i| hosts + i, |i| 2 * hosts + i);
    // The victim crosses both middle links, and every other flow crosses one middle link.
    let mut connections = vec![(first(0), third(0))];
    connections.extend((1..=m).map(|i| (first(i), second(i))));
    connections.extend((1..=n).map(|i| (second(i), third(i))));
    let mut plan = plans::plan(chain, law, &connections);
    for (key, value) in settings {
        plan.laws[0].set(key, value).expect("the value is valid");
    }
    plan.switch.stamp = stamp;
    // The victim sends one message. Its rate follows from its completion time.
    let fair_gbps = 200.0 / f64::from(m.max(n) + 1);
    let bytes = Bytes::new(2_500 * u64::from(200 / (m.max(n) + 1)) * 100);
    plan.messages[0].amount = Amount::Exactly(bytes);
    plan.stop = us(60_000);
    let (rows, report) = run(&plan);
    let Some(row) = rows.messages.iter().find(|row| row.message == MessageId::new(0)) else {
        return 0.0;
    };
    assert_eq!(report.dropped, 0);
    let duration_ns = (row.acknowledged - row.start).get() as f64 / 1_000.0;
    bytes.get() as f64 * 8.0 / duration_ns / fair_gbps
}

#[test]
fn victim_over_two_hops_gets_its_fair_share_with_poseidon_but_not_with_swift() {
    for (m, n) in [(2, 2), (2, 9), (9, 2), (9, 9)] {
        let exact = Stamp::MaxHopDelay(DelayCarrier::Exact);
        let poseidon = victim_share("poseidon", &[], exact, m, n);
        let steady = victim_share("poseidon", &[("update", "steady")], exact, m, n);
        let swift = victim_share("swift", &[], Stamp::Off, m, n);
        println!("({m}, {n}): share of fair: poseidon {poseidon:.3}, steady {steady:.3}, swift {swift:.3}");
        assert!((0.9..1.1).contains(&poseidon), "({m}, {n}): {poseidon}");
        assert!((0.9..1.1).contains(&steady), "({m}, {n}): {steady}");
        assert!(swift < 0.3, "({m}, {n}): {swift}");
    }
}

#[test]
fn every_law_delivers_all_messages() {
    let table = [
        ("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact)),
        ("swift", Stamp::Off),
        ("hpcc", Stamp::HopRecords(RecordCarrier::Exact)),
        ("powertcp", Stamp::HopRecords(RecordCarrier::Exact)),
        ("theta-powertcp", Stamp::Off),
        ("timely", Stamp::Off),
        ("dcqcn", Stamp::Off),
        ("dctcp", Stamp::Off),
        ("cubic", Stamp::Off),
        ("bbr", Stamp::Off),
        ("fixed", Stamp::Off),
    ];
    for (law, stamp) in table {
        let mut plan = incast(law, stamp, 8);
        plan.switch.mark = Step { threshold: Bytes::new(200_000) }.into();
        for message in &mut plan.messages {
            message.amount = Amount::Exactly(Bytes::new(1_000_000));
        }
        plan.stop = us(100_000);
        let (rows, report) = run(&plan);
        assert_eq!(rows.messages.len(), 8, "{law}: {report:?}");
        assert_eq!(report.delivered_bytes, Bytes::new(8_000_000), "{law}");
        assert_eq!(report.in_flight, 0, "{law}");
        println!("{law}: done after {}, {} drops", rows.messages[7].acknowledged, report.dropped);
    }
}

#[test]
fn lost_packets_are_retransmitted_until_all_arrive() {
    // With windows of 64 packets and buffers for ten packets, most of the first burst is lost.
    let mut plan = incast("fixed", Stamp::Off, 8);
    plan.switch.buffer = PerQueue { size: Bytes::new(41_000) }.into();
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(1_000_000));
    }
    plan.stop = us(1_000_000);
    let (rows, report) = run(&plan);
    println!("{} drops, {} packets sent", report.dropped, report.sent);
    assert_eq!(rows.messages.len(), 8, "{report:?}");
    assert!(report.dropped > 100, "{report:?}");
    assert_eq!(u64::try_from(rows.drops.len()), Ok(report.dropped));
    assert_eq!(report.delivered_bytes, Bytes::new(8_000_000));
}

#[test]
fn decisions_have_no_telemetry_while_it_is_off() {
    let mut plan = incast("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact), 2);
    plan.telemetry_off = vec![TelemetryOff::always(SwitchId::new(0))];
    plan.stop = us(1_000);
    let (_, report) = run(&plan);
    assert!(report.decisions > 0);
    assert_eq!(report.decisions_with_telemetry, 0);
    // Telemetry is off for 300 of 1000 us. The fraction of decisions without telemetry matches this to within
    // one RTT.
    plan.telemetry_off = vec![TelemetryOff { switch: SwitchId::new(0), from: us(400), until: us(700) }];
    let (_, report) = run(&plan);
    let without_telemetry = 1.0 - report.decisions_with_telemetry as f64 / report.decisions as f64;
    assert!((0.25..0.35).contains(&without_telemetry), "{without_telemetry}");
}

#[test]
fn shim_overhead_is_counted_and_barely_affects_poseidon() {
    use poseidon_wire::{reflection, shim};
    let stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
    assert_eq!(stamp.data_bytes(), Bytes::new(shim::HEADER_BYTES as u64));
    assert_eq!(stamp.ack_bytes(), Bytes::new((shim::HEADER_BYTES + reflection::HEADER_BYTES) as u64));
    // Rounding down to a multiple of 256 ns makes a queue look 128 ns shorter on average.
    let plan = incast("poseidon", stamp, 10);
    let delay = mean_delay_us(&run(&plan).0, &plan);
    println!("10 flows through the shim: {delay:.2} us, T 12.00 us");
    assert!((delay / 12.0 - 1.0).abs() < 0.05, "{delay}");
}
