//! Credits of receivers (RCCC), against closed forms and invariants.

mod common;

use common::{run, us};
use poseidon_laws::AnyParams;
use poseidon_plan::impairments::{LinkImpairment, RandomLoss};
use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{PerQueue, Red, Stamp, Trim};
use poseidon_plan::topology::Tiers;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::transport::{Acks, AnyPathPolicy, Credits, Mixed, Recovery};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, Nanos, Picos, PortId, SwitchId};

const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
/// The RTT of two links in each direction.
const RTT: Nanos = Nanos::new(4_800);
/// A packet with its header.
const PACKET: u64 = 4_150;

/// Returns a plan in which each connection sends one message of `bytes` at time zero, with trimming, credits and no other
/// limit.
fn plan(topology: Topology, ends: &[(u32, u32)], bytes: u64) -> Plan {
    let mut plan = plans::plan(topology, "fixed", ends);
    plan.laws[0].set("window", "32768 packets").expect("the value is valid");
    plan.stop = us(20_000);
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.stamp = Stamp::Off;
    plan.switch.priorities = 2;
    plan.switch.trim = Some(Trim { size: Bytes::new(64) });
    plan.switch.buffer = PerQueue { size: Bytes::new(20 * PACKET) }.into();
    plan.transport.mtu = Bytes::new(PACKET - 64);
    plan.transport.header = Bytes::new(64);
    plan.transport.min_rto = Nanos::from_micros(100);
    plan.transport.recovery = Recovery::TrimNacks;
    plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(16_384) };
    plan.transport.ack_priority = Some(0);
    plan.transport.credits = Some(Credits::uet(RTT, false));
    plan.connections.iter_mut().for_each(|connection| connection.priority = 1);
    let message = |index| Message {
        connection: ConnectionId::from_index(index),
        start: Picos::ZERO,
        amount: Amount::Exactly(Bytes::new(bytes)),
    };
    plan.messages = (0..ends.len()).map(message).collect();
    plan
}

/// Returns the times at which the messages were received, in order.
fn received(rows: &MemorySink) -> Vec<f64> {
    let mut times: Vec<f64> = rows.received.iter().map(|row| row.time.get() as f64 * 1e-6).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Returns the microseconds that 100 Gbps needs for a payload with headers.
fn wire_us(payload: u64) -> f64 {
    (payload.div_ceil(PACKET - 64) * 64 + payload) as f64 * 8.0 / 100e3
}

fn star(hosts: u32) -> Topology {
    Topology::star(hosts, LINK)
}

#[test]
fn one_flow_gets_99_percent_of_the_link() {
    let finish = |bytes| {
        let (rows, report) = run(&plan(star(2), &[(0, 1)], bytes));
        assert_eq!((report.trimmed, report.timeouts, report.retransmitted), (0, 0, 0));
        received(&rows)[0]
    };
    // Without credits, 1 % less.
    let per_10_mb = finish(20_000_000) - finish(10_000_000);
    let expected = wire_us(10_000_000) / 0.99;
    assert!((per_10_mb / expected - 1.0).abs() < 0.002, "{per_10_mb} us, {expected} us");
}

#[test]
fn short_flow_needs_no_credit_but_its_own() {
    // 1.5 products are 90,000 B.
    let with_credits = plan(star(2), &[(0, 1)], 80_000);
    let mut without = with_credits.clone();
    without.transport.credits = None;
    let times = [with_credits, without].map(|plan| received(&run(&plan).0)[0]);
    assert!((times[0] - times[1]).abs() < 0.1, "{times:?}");
}

#[test]
fn incast_shares_the_link_equally_and_is_trimmed_only_while_it_speculates() {
    for senders in [2, 8, 32] {
        let ends: Vec<_> = (0..senders).map(|from| (from, senders)).collect();
        let plan = plan(star(senders + 1), &ends, 1_000_000);
        let (rows, report) = run(&plan);
        let times = received(&rows);
        assert_eq!(times.len(), senders as usize, "{report:?}");
        let (first, last) = (times[0], times[times.len() - 1]);
        assert!(last / first < 1.04, "{senders} senders: {first} to {last} us");
        let ideal = f64::from(senders) * wire_us(1_000_000) / 0.99;
        assert!(last > 0.99 * ideal && last < 1.04 * ideal + 20.0, "{senders} senders: {last} of {ideal} us");
        let speculated = u64::from(senders) * (90_000 / PACKET + 2);
        assert!(report.trimmed <= speculated, "{} of {speculated}", report.trimmed);
    }
}

#[test]
fn window_and_credit_must_both_allow_a_packet() {
    let mut plan = plan(star(2), &[(0, 1)], 1_000_000);
    plan.laws[0].set("window", "2 packets").expect("the value is valid");
    let both = received(&run(&plan).0)[0];
    plan.transport.credits = None;
    let window_only = received(&run(&plan).0)[0];
    assert!((both / window_only - 1.0).abs() < 0.01, "{both} {window_only}");
    assert!(both > 2.0 * wire_us(1_000_000), "two packets per RTT are less than half of the link");
}

#[test]
fn lost_credits_and_demands_are_repeated() {
    let ends: Vec<_> = (0..4).map(|from| (from, 4)).collect();
    let mut plan = plan(star(5), &ends, 500_000);
    let impair = |port| LinkImpairment {
        switch: SwitchId::new(0),
        port: PortId::new(port),
        policy: RandomLoss { probability: Fraction::ratio(1, 20) }.into(),
    };
    plan.link_impairments = (0..5).map(impair).collect();
    for seed in 0..5 {
        plan.seed = seed;
        let (rows, report) = run(&plan);
        assert_eq!(rows.messages.len(), 4, "{report:?}");
    }
}

#[test]
fn later_messages_of_an_idle_connection_start() {
    let mut plan = plan(star(2), &[(0, 1)], 300_000);
    for start in [us(100), us(1_000), us(1_001)] {
        plan.messages.push(Message { start, ..plan.messages[0] });
    }
    let (rows, report) = run(&plan);
    assert_eq!((rows.messages.len(), report.timeouts), (4, 0), "{report:?}");
    for row in &rows.messages {
        let time = (row.acknowledged - row.start).get() as f64 * 1e-6;
        assert!(time < 2.0 * wire_us(300_000) + 20.0, "{row:?}");
    }
}

#[test]
fn oversubscription_control_halves_the_trims_within_the_network() {
    // A leaf with eight hosts and uplinks for two of them.
    let topology = Topology::Tiers(Tiers {
        pods: 1,
        racks: 2,
        hosts: 8,
        aggregation: 2,
        cores: 0,
        host_link: LINK,
        rack_link: LINK,
        core_link: LINK,
    });
    let ends: Vec<_> = (0..8).map(|from| (from, 8 + from)).collect();
    let trims = |oversubscription| {
        let mut plan = plan(topology.clone(), &ends, 4_000_000);
        plan.switch.mark = Red {
            min: Bytes::new(4 * PACKET),
            max: Bytes::new(16 * PACKET),
            probability: Fraction::ONE,
            ..Red::default()
        }
        .into();
        plan.transport.load_balancing = AnyPathPolicy::SPRAY;
        // Four times oversubscribed.
        let min_rate = Fraction::ratio(9, 40);
        plan.transport.credits =
            Some(Credits { min_rate, ..Credits::uet(Nanos::new(9_000), oversubscription) });
        let (rows, report) = run(&plan);
        assert_eq!(rows.messages.len(), 8, "{report:?}");
        report.trimmed - report.trimmed_at_last_hop
    };
    let (without, with) = (trims(false), trims(true));
    assert!(with * 2 < without, "{with} trims with control, {without} without");
}

/// The default network of uet-htsim for 16 hosts, with flows of 2 MB.
fn reference_plan(ends: &[(u32, u32)], law: &str, credits: bool) -> Plan {
    let network_rtt = Nanos::new(14_023);
    let mut plan = plan(Topology::fat_tree(4, LINK), ends, 2_000_000);
    let mut params = AnyParams::for_law(law).expect("the law exists");
    let settings: &[(&str, &str)] = match (law, credits) {
        ("nscc", false) => &[("network-rtt", "14023 ns")],
        ("nscc", true) => &[("network-rtt", "14023 ns"), ("credits", "true")],
        _ => &[("window", "32768 packets")],
    };
    settings.iter().for_each(|(name, value)| params.set(name, value).expect("the value is valid"));
    plan.laws = vec![params];
    plan.switch.buffer = PerQueue { size: Bytes::new(43 * PACKET) }.into();
    let (min, max) = (Bytes::new(9 * PACKET), Bytes::new(35 * PACKET));
    plan.switch.mark = Red { min, max, probability: Fraction::ONE, ..Red::default() }.into();
    // With credits, the reference marks only within the network, not at the receivers' links.
    plan.switch.mark_host_links = !credits;
    plan.transport.load_balancing = Mixed { paths: 64 }.into();
    plan.transport.credits = credits.then(|| Credits::uet(network_rtt, law == "fixed"));
    plan
}

/// A name, the ends of the flows, the law, whether receivers give credits, and the reference's tail in microseconds.
type Case<'a> = (&'static str, &'a [(u32, u32)], &'static str, bool, f64);

/// The tail in the reference's results (`uec_validate_outputs.csv`), in microseconds.
#[test]
fn tails_are_those_of_the_reference_at_16_hosts() {
    let incast: Vec<_> = (1..16).map(|from| (from, 0)).collect();
    let cases: [Case<'_>; 6] = [
        ("one flow, NSCC", &[(0, 13)], "nscc", false, 176.2),
        ("one flow, RCCC", &[(0, 13)], "fixed", true, 177.4),
        ("one flow, both", &[(0, 13)], "nscc", true, 177.4),
        ("incast, NSCC", &incast, "nscc", false, 2_478.5),
        ("incast, RCCC", &incast, "fixed", true, 2_464.4),
        ("incast, both", &incast, "nscc", true, 2_462.9),
    ];
    let mut failed = Vec::new();
    for (name, ends, law, credits, reference) in cases {
        let (rows, report) = run(&reference_plan(ends, law, credits));
        assert_eq!(rows.messages.len(), ends.len(), "{name}: {report:?}");
        let times = rows.messages.iter().map(|row| row.acknowledged.get() as f64 * 1e-6);
        let (first, tail) = times.fold((f64::INFINITY, 0.0), |(a, b), time| (time.min(a), time.max(b)));
        println!("{name}: {first:.1} to {tail:.1} us ({reference}), {} retransmitted", report.retransmitted);
        if (tail / reference - 1.0).abs() > 0.05 {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "more than 5 % from the reference: {failed:?}");
}
