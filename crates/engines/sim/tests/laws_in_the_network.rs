//! The laws on packets: where queues settle, who gets what, and what happens when packets are lost.

mod common;

use common::{run, us};
use poseidon_plan::records::Kept;
use poseidon_plan::switch::{DelayCarrier, PerQueue, RecordCarrier, Silence, Stamp, Step};
use poseidon_plan::topology::Chain;
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Plan, Topology};
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::Bytes;

/// The delay at the one watched queue over the second half of the run, us.
fn delay_us(kept: &Kept, plan: &Plan) -> f64 {
    let late: Vec<f64> = (kept.queues.iter())
        .filter(|row| row.at.get() > plan.stop.get() / 2)
        .map(|row| row.delay.get() as f64 / 1_000.0)
        .collect();
    late.iter().sum::<f64>() / late.len() as f64
}

/// `senders` hosts to one receiver.
fn incast(law: &str, stamp: Stamp, senders: u32) -> Plan {
    let connections: Vec<_> = (1..=senders).map(|from| (from, 0)).collect();
    let mut plan = plans::plan(Topology::star(senders + 1, LINK), law, &connections);
    plan.switch.stamp = stamp;
    // The receiver's port.
    (plan.watched, plan.sample_every) = (vec![(0, 0)], us(10));
    plan
}

#[test]
fn poseidon_queues_as_its_target_says() {
    queues_as_the_target_says("distance");
}

#[test]
fn the_steady_update_queues_as_the_target_says() {
    queues_as_the_target_says("steady");
}

fn queues_as_the_target_says(update: &str) {
    for (flows, target) in [(2, 5.01), (3, 6.77), (10, 12.00), (20, 15.01), (50, 18.99), (100, 22.00)] {
        let mut plan = incast("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact), flows);
        plan.laws[0].set("update", update).expect("a parameter");
        let (kept, report) = run(&plan);
        let delay = delay_us(&kept, &plan);
        let rate = report.delivered_bytes.get() as f64 * 8.0 / 20e6;
        println!(
            "{flows} flows: {delay:.2} us, T {target:.2} us, {rate:.1} Gbps, {} decisions",
            report.decisions
        );
        assert!((delay / target - 1.0).abs() < 0.05, "{flows} flows: {delay} us against {target}");
        assert!(rate > 195.0, "{flows} flows: {rate} Gbps");
        assert_eq!(report.decisions_with_telemetry, report.decisions);
    }
}

/// What each watched connection received between two samples.
fn received_between(kept: &Kept, plan: &Plan, from: usize, to: usize) -> Vec<f64> {
    let flows = plan.connections.len();
    let at = |sample: usize| &kept.receivers[(sample - 1) * flows..sample * flows];
    at(from).iter().zip(at(to)).map(|(a, b)| (b.received - a.received).get() as f64).collect()
}

#[test]
fn the_steady_update_shares_a_line_among_flows_of_half_a_packet() {
    for (flows, target) in [(300, 26.77), (500, 28.99)] {
        let mut plan = incast("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact), flows);
        plan.laws[0].set("update", "steady").expect("a parameter");
        plan.laws[0].set("initial-window", "1 packets").expect("a parameter");
        (plan.watched_connections, plan.sample_every) = ((0..flows).collect(), us(50));
        plan.stop = us(20_001);
        let (kept, _) = run(&plan);
        let delay = delay_us(&kept, &plan);
        // The last 2 ms in samples of 50 us.
        let rates = received_between(&kept, &plan, 360, 400);
        let sum: f64 = rates.iter().sum();
        let jain = sum * sum / rates.iter().map(|rate| rate * rate).sum::<f64>() / f64::from(flows);
        println!("{flows} flows: {delay:.2} us, T {target:.2} us, Jain over 2 ms {jain:.4}");
        assert!((delay / target - 1.0).abs() < 0.02, "{flows} flows: {delay} us against {target}");
        assert!(jain > 0.995, "{flows} flows: {jain}");
    }
}

#[test]
fn poseidon_queues_less_than_swift() {
    let delay = |law, stamp| {
        let plan = incast(law, stamp, 20);
        delay_us(&run(&plan).0, &plan)
    };
    let (poseidon, swift) =
        (delay("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact)), delay("swift", Stamp::Off));
    println!("20 flows: poseidon {poseidon:.1} us, swift {swift:.1} us");
    assert!(poseidon < 0.7 * swift, "{poseidon} {swift}");
}

/// A victim over two congested hops, M flows beside it on the first and N on the second: Fig. 14a in small.
fn multi_hop(law: &str, settings: &[(&str, &str)], stamp: Stamp, m: u32, n: u32) -> f64 {
    let hosts = m.max(n) + 1;
    let chain = Topology::Chain(Chain { switches: 3, hosts, host_link: LINK, middle_link: LINK });
    let first = |i| i;
    let (second, third) = (|i| hosts + i, |i| 2 * hosts + i);
    // The victim crosses both middle links; the others one each.
    let mut connections = vec![(first(0), third(0))];
    connections.extend((1..=m).map(|i| (first(i), second(i))));
    connections.extend((1..=n).map(|i| (second(i), third(i))));
    let mut plan = plans::plan(chain, law, &connections);
    for (key, value) in settings {
        plan.laws[0].set(key, value).expect("a parameter");
    }
    plan.switch.stamp = stamp;
    // The victim sends a message as large as its fair share of the run, so that its end tells its rate.
    let fair_gbps = 200.0 / f64::from(m.max(n) + 1);
    let bytes = Bytes::new(2_500 * u64::from(200 / (m.max(n) + 1)) * 100);
    plan.messages[0].amount = Amount::Exactly(bytes);
    plan.stop = us(60_000);
    let (kept, report) = run(&plan);
    let Some(row) = kept.messages.iter().find(|row| row.message == 0) else {
        return 0.0;
    };
    assert_eq!(report.dropped, 0);
    let took_ns = (row.acknowledged - row.start).get() as f64 / 1_000.0;
    bytes.get() as f64 * 8.0 / took_ns / fair_gbps
}

#[test]
fn a_victim_over_two_hops_keeps_its_share_with_poseidon_and_not_with_swift() {
    for (m, n) in [(2, 2), (2, 9), (9, 2), (9, 9)] {
        let exact = Stamp::MaxHopDelay(DelayCarrier::Exact);
        let poseidon = multi_hop("poseidon", &[], exact, m, n);
        let steady = multi_hop("poseidon", &[("update", "steady")], exact, m, n);
        let swift = multi_hop("swift", &[], Stamp::Off, m, n);
        println!("({m}, {n}): share of fair: poseidon {poseidon:.3}, steady {steady:.3}, swift {swift:.3}");
        assert!((0.9..1.1).contains(&poseidon), "({m}, {n}): {poseidon}");
        assert!((0.9..1.1).contains(&steady), "({m}, {n}): {steady}");
        assert!(swift < 0.3, "({m}, {n}): {swift}");
    }
}

#[test]
fn every_law_delivers_what_it_was_given() {
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
        let (kept, report) = run(&plan);
        assert_eq!(kept.messages.len(), 8, "{law}: {report:?}");
        assert_eq!(report.delivered_bytes, Bytes::new(8_000_000), "{law}");
        assert_eq!(report.in_flight, 0, "{law}");
        println!("{law}: done after {} , {} drops", kept.messages[7].acknowledged, report.dropped);
    }
}

#[test]
fn lost_packets_are_sent_again_until_all_have_arrived() {
    // Buffers of ten packets under windows of 64: most of the first burst is lost.
    let mut plan = incast("fixed", Stamp::Off, 8);
    plan.switch.buffer = PerQueue { size: Bytes::new(41_000) }.into();
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(1_000_000));
    }
    plan.stop = us(1_000_000);
    let (kept, report) = run(&plan);
    println!("{} drops, {} packets sent", report.dropped, report.sent);
    assert_eq!(kept.messages.len(), 8, "{report:?}");
    assert!(report.dropped > 100, "{report:?}");
    assert_eq!(u64::try_from(kept.drops.len()), Ok(report.dropped));
    assert_eq!(report.delivered_bytes, Bytes::new(8_000_000));
}

#[test]
fn a_switch_that_does_not_stamp_is_unknown_and_not_empty() {
    let mut plan = incast("poseidon", Stamp::MaxHopDelay(DelayCarrier::Exact), 2);
    plan.silences = vec![Silence::always(0)];
    plan.stop = us(1_000);
    let (_, report) = run(&plan);
    assert!(report.decisions > 0);
    assert_eq!(report.decisions_with_telemetry, 0);
    // Of a thousand microseconds it is silent for three hundred, and so are the decisions, within a round trip.
    plan.silences = vec![Silence { switch: 0, from: us(400), until: us(700) }];
    let (_, report) = run(&plan);
    let silent = 1.0 - report.decisions_with_telemetry as f64 / report.decisions as f64;
    assert!((0.25..0.35).contains(&silent), "{silent}");
}

#[test]
fn the_shim_is_charged_and_costs_poseidon_little() {
    use poseidon_wire::{reflection, shim};
    let stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
    assert_eq!(stamp.data_bytes(), Bytes::new(shim::HEADER_BYTES as u64));
    assert_eq!(stamp.ack_bytes(), Bytes::new((shim::HEADER_BYTES + reflection::HEADER_BYTES) as u64));
    // Rounding down to 256 ns makes a queue look shorter by 128 ns on average.
    let plan = incast("poseidon", stamp, 10);
    let delay = delay_us(&run(&plan).0, &plan);
    println!("10 flows through the shim: {delay:.2} us, T 12.00 us");
    assert!((delay / 12.0 - 1.0).abs() < 0.05, "{delay}");
}
