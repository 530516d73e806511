//! What switches do beside forwarding: flow control, priorities, reverse marks, links that fail.

mod common;

use common::{run, us};
use poseidon_laws::AnyParams;
use poseidon_laws::parts::plb::PlbParams;
use poseidon_plan::changes::{Change, LinkEvent};
use poseidon_plan::records::{DropCause, Kept};
use poseidon_plan::switch::{CodelTofino, Direction, Pause, PerQueue, RecordCarrier, Stamp, Step};
use poseidon_plan::topology::{Edge, Edges, End, Rotor};
use poseidon_plan::traffic::Amount;
use poseidon_plan::transport::{Echo, Recovery, Spread};
use poseidon_plan::{Backend, Link, Plan, PlanError, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};

/// `senders` hosts to one, with windows that no buffer holds.
fn blind_incast(senders: u32, size: u64) -> Plan {
    let ends: Vec<_> = (1..=senders).map(|from| (from, 0)).collect();
    let mut plan = plans::plan(Topology::star(senders + 1, LINK), "fixed", &ends);
    plan.laws[0].set("window", "1000 packets").expect("reads");
    plan.stop = us(50_000);
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(size));
    }
    plan
}

/// Bytes that each connection has received at the end, from its last sample.
fn received(kept: &Kept) -> Vec<u64> {
    let last = kept.receivers.iter().map(|row| row.at).max().expect("samples");
    kept.receivers.iter().filter(|row| row.at == last).map(|row| row.received.get()).collect()
}

#[test]
fn flow_control_never_drops_where_the_same_buffer_would() {
    let mut plan = blind_incast(30, 1_000_000);
    let memory = Bytes::new(2_000_000);
    plan.switch.buffer = PerQueue { size: memory }.into();
    let (_, lossy) = run(&plan);
    assert!(lossy.dropped > 1_000, "{lossy:?}");
    for alpha in [Fraction::ratio(1, 8), Fraction::ratio(1, 1), Fraction::ratio(8, 1)] {
        plan.switch.pause = Pause::Pfc { memory, alpha, resume: Bytes::new(3_000) };
        let (kept, report) = run(&plan);
        assert_eq!((report.dropped, report.retransmitted, kept.messages.len()), (0, 0, 30), "{report:?}");
        assert!(report.pauses > 30, "{report:?}");
    }
}

#[test]
fn flow_control_spreads_backwards_and_still_drops_nothing() {
    // Pods of a fat tree into one host: the pause goes from the rack to the cores and to the senders.
    let ends: Vec<_> = (4..16).map(|from| (from, 0)).collect();
    let mut plan = plans::plan(Topology::fat_tree(4, LINK), "fixed", &ends);
    plan.laws[0].set("window", "1000 packets").expect("reads");
    plan.stop = us(5_000);
    let memory = Bytes::new(600_000);
    plan.switch.pause = Pause::Pfc { memory, alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
    // The last link, an uplink of a sender's rack, and a core's way down.
    plan.watched = vec![(0, 0), (2, 2), (16, 0)];
    plan.sample_every = us(10);
    let (kept, report) = run(&plan);
    assert_eq!(report.dropped, 0, "{report:?}");
    for watched in &plan.watched {
        let fullest =
            kept.queues.iter().filter(|row| (row.switch, row.port) == *watched).map(|row| row.waiting);
        assert!(fullest.max() > Some(Bytes::new(10_000)), "{watched:?}: no queue");
    }
    // The receiver's link is never idle.
    let rate = report.delivered_bytes.get() as f64 * 8.0 / 5e6;
    assert!(rate > 195.0, "{rate} Gbps");
}

/// A link that flaps while its far end is stopped, or is being stopped: traffic goes on and nothing is dropped for want of room.
#[test]
fn flow_control_survives_a_flap() {
    for flap_ns in [50, 300, 2_000, 50_000] {
        for at_ns in (5_000..9_000).step_by(331) {
            let mut plan = blind_incast(6, 500_000);
            let memory = Bytes::new(700_000);
            plan.switch.pause =
                Pause::Pfc { memory, alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
            let at = |ns: u64, what| Change { at: Picos::new(ns * 1_000), switch: 0, port: 3, what };
            plan.changes = vec![at(at_ns, LinkEvent::Down), at(at_ns + flap_ns, LinkEvent::Up)];
            let (kept, report) = run(&plan);
            assert_eq!(kept.messages.len(), 6, "flap of {flap_ns} ns at {at_ns} ns: {report:?}");
            assert!(
                kept.drops.iter().all(|row| row.cause == DropCause::Link) && report.pauses > 0,
                "{report:?}"
            );
        }
    }
}

/// Pause frames do not pass the pipeline and may come in together with data that does. With a pipeline that is a multiple of a pause
/// frame's time they often do.
#[test]
fn flow_control_that_arrives_together_with_data_goes_first_on_any_number_of_threads() {
    let ends: Vec<_> = (0..16).map(|from| (from, from % 3)).filter(|(a, b)| a != b).collect();
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(512_000) };
    let mut plan = plans::plan(Topology::fat_tree(4, link), "fixed", &ends);
    plan.laws[0].set("window", "500 packets").expect("reads");
    plan.stop = us(500);
    plan.switch.pipeline = Picos::new(512_000);
    plan.transport.mtu = Bytes::new(1_024);
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(300_000), alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
    let run_on = |threads| {
        let simulator = Simulator::with_threads(core::num::NonZeroU32::new(threads).expect("some"));
        simulator.run(&plan, &mut Kept::default()).expect("runs")
    };
    let one = run_on(1);
    assert!(one.pauses > 100 && one.dropped == 0, "{one:?}");
    for threads in [2, 3, 4, 8] {
        assert_eq!(run_on(threads), one, "{threads} threads");
    }
}

#[test]
fn memory_that_does_not_hold_the_headroom_is_refused() {
    let mut plan = blind_incast(3, 1_000);
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(10_000), alpha: Fraction::ratio(1, 8), resume: Bytes::ZERO };
    let error = Simulator::default().run(&plan, &mut Kept::default()).expect_err("refused");
    assert!(matches!(error, PlanError::Headroom { .. }), "{error}");
    // 200 Gbps for twice 245 ns and 600 ns, three packets, eight pause frames.
    assert_eq!(plan.headroom(LINK), Bytes::new(27_250 + 3 * 4_096 + 512));
}

#[test]
fn a_higher_priority_goes_first_and_takes_what_it_wants() {
    let mut plan = plans::plan(Topology::star(3, LINK), "fixed", &[(1, 0), (2, 0)]);
    plan.laws[0].set("window", "200 packets").expect("reads");
    plan.switch.priorities = 2;
    plan.connections[0].priority = 1;
    plan.stop = us(1_000);
    plan.messages[1].at = us(500);
    (plan.watched_connections, plan.sample_every) = (vec![0, 1], us(500));
    let (kept, _) = run(&plan);
    let at = |at: Picos| -> Vec<u64> {
        kept.receivers.iter().filter(|row| row.at == at).map(|row| row.received.get()).collect()
    };
    let (half, whole) = (at(us(500)), at(us(1_000)));
    assert!(half[0] > 12_300_000 && half[1] == 0, "alone, it has the line: {half:?}");
    assert!(whole[0] - half[0] < 500_000, "then it waits: {whole:?}");
    assert!(whole[1] > 12_300_000, "while the other has the line: {whole:?}");
}

/// DCTCP over a dumbbell whose far link has 100 us: a mark that turns round at the switch is heard 200 us sooner.
fn marked(direction: Direction) -> (Kept, Report) {
    let near = Link { rate: BitRate::from_gbps(10), delay: Picos::new(5_000_000) };
    let far = Link { rate: BitRate::from_gbps(10), delay: us(100) };
    let network = "h0 s0 10 Gbps 5 us\nh1 s0 10 Gbps 5 us\ns0 s1 10 Gbps 5 us\nh2 s1 10 Gbps 100 us\nh3 s1 10 Gbps 100 us";
    let topology = Topology::Edges(Edges::parse(network).expect("reads"));
    assert_eq!((topology.host_link(0), topology.host_link(3)), (near, far));
    let mut plan = plans::plan(topology, "cubic", &[(0, 2), (1, 3)]);
    plan.stop = us(40_000);
    plan.switch.stamp = Stamp::Off;
    plan.switch.mark =
        CodelTofino { target: Nanos::from_micros(50), interval: Nanos::from_micros(500) }.into();
    plan.switch.marks_go = direction;
    plan.transport.mtu = Bytes::new(1_460);
    plan.transport.header = Bytes::new(40);
    plan.transport.echo = Echo::UntilReduced;
    plan.transport.min_rto = Nanos::from_millis(10);
    (plan.watched_connections, plan.log_decisions) = (vec![0, 1], true);
    run(&plan)
}

#[test]
fn a_mark_that_turns_round_at_the_switch_is_heard_sooner() {
    // From the packet that a mark is for to the ACK that tells of it.
    let heard = |kept: &Kept| {
        let marks = kept.decisions.iter().filter(|row| row.marked).count();
        (marks, kept.decisions.iter().find(|row| row.marked).map(|row| row.at.get() / 1_000_000))
    };
    let (kept, report) = marked(Direction::Forward);
    let (forward_marks, forward_first) = heard(&kept);
    assert!(report.marks > 5 && report.marks_taken == report.marks, "{report:?}");
    for direction in [Direction::ReversePerFlow { counters: 1_024 }, Direction::ReversePerPort] {
        let (kept, report) = marked(direction);
        let (marks, first) = heard(&kept);
        let sooner = forward_first.expect("marked") - first.expect("marked");
        println!("{direction:?}: first heard {sooner} us sooner; {} marks, {marks} ACKs", report.marks);
        // Twice the far link, less what the ACK that takes the mark along is behind the packet.
        assert!((190..=240).contains(&sooner), "{direction:?}: {sooner} us");
        // One ACK per mark, where an echo goes on until the sender says it has heard.
        assert!(marks as u64 <= report.marks && marks < forward_marks, "{marks} {forward_marks} {report:?}");
        // What ACKs took along is heard, but for those still on their way.
        assert!((marks as u64..=report.marks).contains(&report.marks_taken), "{marks} {report:?}");
    }
}

#[test]
fn a_link_that_fails_is_gone_round_and_comes_back() {
    // One rack to another over two spines; all packets of the connection take one of them.
    let topology = Topology::Tiers(poseidon_plan::topology::Tiers {
        pods: 1,
        racks: 2,
        hosts: 1,
        aggregation: 2,
        cores: 0,
        host_link: LINK,
        rack_link: LINK,
        core_link: LINK,
    });
    let mut plan = plans::plan(topology, "fixed", &[(0, 1)]);
    plan.laws[0].set("window", "40 packets").expect("reads");
    plan.stop = us(3_000);
    plan.messages[0].amount = Amount::Exactly(Bytes::new(50_000_000));
    // Ports 1 and 2 of the first rack lead to the spines.
    (plan.watched, plan.sample_every) = (vec![(0, 1), (0, 2)], us(100));
    let sent = |kept: &Kept, port: u32, at: u64| {
        let row = kept.queues.iter().find(|row| row.port == port && row.at == us(at));
        row.expect("a sample").sent.get()
    };
    let (kept, _) = run(&plan);
    let used = if sent(&kept, 1, 1_000) > 0 { 1 } else { 2 };
    let other = 3 - used;
    assert_eq!(sent(&kept, other, 1_000), 0, "one path");
    plan.changes = vec![
        Change { at: us(500), switch: 0, port: used, what: LinkEvent::Down },
        Change { at: us(1_000), switch: 0, port: used, what: LinkEvent::Up },
    ];
    let (kept, report) = run(&plan);
    assert_eq!(sent(&kept, used, 500), sent(&kept, used, 1_000), "nothing while it is down");
    assert!(sent(&kept, other, 1_000) > 10_000_000, "the other way carries all");
    assert!(sent(&kept, used, 1_500) > sent(&kept, used, 1_000) + 10_000_000, "and then it is back");
    assert_eq!(kept.messages.len(), 1, "{report:?}");
    // Both ends down: the other spine's way back has no second way, and what is sent meanwhile is lost.
    let both = |what, at| (1..=2).map(move |port| Change { at: us(at), switch: 0, port, what });
    plan.changes = both(LinkEvent::Down, 500).chain(both(LinkEvent::Up, 1_000)).collect();
    let (kept, report) = run(&plan);
    assert!(report.timeouts > 0 && kept.drops.iter().all(|row| row.cause == DropCause::Link), "{report:?}");
    assert!(!kept.drops.is_empty() && kept.messages.len() == 1, "{report:?}");
}

#[test]
fn a_link_that_changes_its_rate_carries_so_much() {
    let mut plan = plans::plan(Topology::star(2, LINK), "fixed", &[(0, 1)]);
    plan.laws[0].set("window", "200 packets").expect("reads");
    plan.stop = us(2_000);
    plan.changes =
        vec![Change { at: us(1_000), switch: 0, port: 1, what: LinkEvent::Rate(BitRate::from_gbps(50)) }];
    (plan.watched_connections, plan.sample_every) = (vec![0], us(1_000));
    let (kept, _) = run(&plan);
    let bytes: Vec<u64> = kept.receivers.iter().map(|row| row.received.get()).collect();
    let gbps = [bytes[0] as f64 * 8e-6, (bytes[1] - bytes[0]) as f64 * 8e-6];
    assert!((198.0..200.1).contains(&gbps[0]) && (49.5..50.6).contains(&gbps[1]), "{gbps:?}");
}

/// Four hosts of a rack to four of another, over four spines.
fn four_over_four() -> Plan {
    let topology = Topology::Tiers(poseidon_plan::topology::Tiers {
        pods: 1,
        racks: 2,
        hosts: 4,
        aggregation: 4,
        cores: 0,
        host_link: LINK,
        rack_link: LINK,
        core_link: LINK,
    });
    let ends: Vec<_> = (0..4).map(|from| (from, from + 4)).collect();
    let mut plan = plans::plan(topology, "swift", &ends);
    plan.stop = us(20_000);
    plan.switch.stamp = Stamp::Off;
    plan.watched = (4..8).map(|port| (0, port)).collect();
    (plan.watched_connections, plan.sample_every) = ((0..4).collect(), us(1_000));
    plan
}

#[test]
fn spraying_uses_all_ways_alike_and_hashing_does_not() {
    let shares = |kept: &Kept| -> Vec<u64> {
        let last = kept.queues.iter().rev().take(4).map(|row| row.sent.get()).collect::<Vec<_>>();
        let all: u64 = last.iter().sum();
        last.iter().map(|sent| sent * 100 / all.max(1)).collect()
    };
    let mut plan = four_over_four();
    let hashed = shares(&run(&plan).0);
    assert!(hashed.contains(&0), "four flows rarely hash to four ways: {hashed:?}");
    plan.transport.spread = Spread::PerPacket;
    plan.transport.recovery = Recovery::Selective { reordering: 64 };
    let (kept, report) = run(&plan);
    let sprayed = shares(&kept);
    assert!(sprayed.iter().all(|share| (24..=26).contains(share)), "{sprayed:?}");
    assert_eq!(report.dropped, 0);
}

#[test]
fn plb_finds_the_free_ways() {
    let mut plan = four_over_four();
    let rate = |kept: &Kept| received(kept).iter().sum::<u64>() as f64 * 8.0 / 20e6;
    let (kept, report) = run(&plan);
    let collided = rate(&kept);
    assert_eq!(report.repaths, 0);
    plan.transport.plb = Some(PlbParams::FALCON);
    let (kept, report) = run(&plan);
    let spread = rate(&kept);
    println!("hashed {collided:.0} Gbps, with PLB {spread:.0} Gbps after {} changes of path", report.repaths);
    assert!(report.repaths > 0 && collided < 650.0 && spread > 700.0, "{collided} {spread}");
}

/// HPCC and PowerTCP read no marks. They leave a congested path by the signal that they follow.
#[test]
fn plb_moves_laws_that_read_no_marks() {
    for law in ["hpcc", "powertcp"] {
        let mut plan = four_over_four();
        plan.laws[0] = AnyParams::of(law).expect("a law of the table");
        plan.switch.stamp = Stamp::HopRecords(RecordCarrier::Exact);
        let rate = |kept: &Kept| received(kept).iter().sum::<u64>() as f64 * 8.0 / 20e6;
        let (kept, report) = run(&plan);
        let collided = rate(&kept);
        assert_eq!(report.repaths, 0);
        plan.transport.plb = Some(PlbParams::FALCON);
        let (kept, report) = run(&plan);
        let spread = rate(&kept);
        println!(
            "{law}: hashed {collided:.0} Gbps, with PLB {spread:.0} Gbps after {} changes",
            report.repaths
        );
        // Four changes per flow and millisecond would be a flow that leaves a path it fills alone.
        assert!((1..1_000).contains(&report.repaths), "{law}: {} changes of path", report.repaths);
        assert!(spread > 1.05 * collided, "{law}: {collided} {spread}");
    }
}

/// A rack of a rotor sends to one other rack. In each week of three days it has one day of circuit at 100 Gbps; the rest of the time the
/// packet network carries 25 Gbps.
#[test]
fn a_rotor_carries_what_its_calendar_says() {
    let link = |gbps| Link { rate: BitRate::from_gbps(gbps), delay: us(1) };
    let rotor = Rotor {
        racks: 4,
        hosts: 8,
        host_link: link(25),
        packet_link: link(25),
        circuit_link: link(100),
        day: us(225),
        night: us(20),
        notice: Picos::ZERO,
    };
    let ends: Vec<_> = (0..8).map(|from| (from, from + 8)).collect();
    let mut plan = plans::plan(Topology::Rotor(rotor), "fixed", &ends);
    // Enough to keep the queue full, whatever serves it.
    plan.laws[0].set("window", "300 packets").expect("reads");
    plan.switch.stamp = Stamp::Off;
    plan.transport.mtu = Bytes::new(1_000);
    plan.transport.min_rto = Nanos::from_millis(100);
    plan.transport.first_rto = Nanos::from_millis(100);
    plan.stop = us(735 * 8);
    (plan.watched, plan.sample_every) = (vec![(0, 8), (0, 9)], us(735));
    (plan.watched_connections) = (0..8).collect();
    let (kept, report) = run(&plan);
    assert_eq!(report.dropped, 0, "{report:?}");
    let total = |at: u64| -> f64 {
        kept.receivers.iter().filter(|row| row.at == us(at)).map(|row| row.received.get() as f64).sum()
    };
    // Bytes in a week: 225 us at 12.5 kB/us and 510 us at 3.125 kB/us.
    let week = 225.0 * 12_500.0 + 510.0 * 3_125.0;
    let seen = (total(735 * 8) - total(735 * 4)) / 4.0;
    println!("{:.0} kB a week, calendar {:.0} kB", seen / 1e3, week / 1e3);
    assert!((seen / week - 1.0).abs() < 0.01, "{seen} {week}");
    // Port 8 is the packet link, port 9 the circuit.
    let sent = |port: u32, at: u64| {
        let row = kept.queues.iter().find(|row| row.port == port && row.at == us(at)).expect("a sample");
        row.sent.get() as f64
    };
    let by = |port| (sent(port, 735 * 8) - sent(port, 735 * 4)) / 4.0;
    assert!((by(8) / (510.0 * 3_125.0) - 1.0).abs() < 0.01, "{} by packets", by(8));
    assert!((by(9) / (225.0 * 12_500.0) - 1.0).abs() < 0.01, "{} by circuit", by(9));
}

/// The same network once as a shape and once link by link: the same packets at the same times.
#[test]
fn a_network_link_by_link_is_the_shape_it_describes() {
    let chain = Topology::Chain(poseidon_plan::topology::Chain {
        switches: 3,
        hosts: 2,
        host_link: LINK,
        middle_link: LINK,
    });
    let mut edges: Vec<Edge> =
        (0..6).map(|host| Edge { a: End::Host(host), b: End::Switch(host / 2), link: LINK }).collect();
    edges.extend((0..2).map(|left| Edge { a: End::Switch(left), b: End::Switch(left + 1), link: LINK }));
    let listed = Topology::Edges(Edges::new(edges).expect("a network"));
    let run_on = |topology| {
        let mut plan = plans::plan(topology, "poseidon", &[(0, 4), (1, 3), (5, 2), (2, 0)]);
        plan.stop = us(2_000);
        plan.switch.mark = Step { threshold: Bytes::new(20_000) }.into();
        run(&plan)
    };
    assert_eq!(run_on(chain), run_on(listed));
}
