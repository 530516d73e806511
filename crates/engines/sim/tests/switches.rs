//! Switch features: PFC, priorities, reverse marking, link failures, load balancing and circuits.

mod common;

use common::{run, us};
use poseidon_laws::AnyParams;
use poseidon_laws::plb::PlbParams;
use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::records::{DropCause, MemorySink};
use poseidon_plan::switch::{CodelTofino, MarkDirection, Pause, PerQueue, RecordCarrier, Stamp, Step};
use poseidon_plan::topology::{Edge, Edges, Node, Rotor};
use poseidon_plan::traffic::Amount;
use poseidon_plan::transport::{AnyPathPolicy, Echo, Recovery};
use poseidon_plan::{Backend, Link, Plan, PlanError, Report, SwitchPort, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{BitRate, Bytes, Fraction, HostId, Nanos, Picos, PortId, SwitchId};

/// Builds a plan in which `senders` hosts send to one host, with windows that exceed every buffer.
fn large_window_incast(senders: u32, size: u64) -> Plan {
    let ends: Vec<_> = (1..=senders).map(|from| (from, 0)).collect();
    let mut plan = plans::plan(Topology::star(senders + 1, LINK), "fixed", &ends);
    plan.laws[0].set("window", "1000 packets").expect("the value is valid");
    plan.stop = us(50_000);
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(size));
    }
    plan
}

/// Returns the bytes that each connection had received by its last sample.
fn received_bytes(rows: &MemorySink) -> Vec<u64> {
    let last = rows.receivers.iter().map(|row| row.time).max().expect("there are samples");
    rows.receivers.iter().filter(|row| row.time == last).map(|row| row.received.get()).collect()
}

#[test]
fn pfc_prevents_the_drops_of_drop_tail() {
    let mut plan = large_window_incast(30, 1_000_000);
    let memory = Bytes::new(2_000_000);
    plan.switch.buffer = PerQueue { size: memory }.into();
    let (_, lossy) = run(&plan);
    assert!(lossy.dropped > 1_000, "{lossy:?}");
    for alpha in [Fraction::ratio(1, 8), Fraction::ratio(1, 1), Fraction::ratio(8, 1)] {
        plan.switch.pause = Pause::Pfc { memory, alpha, resume: Bytes::new(3_000) };
        let (rows, report) = run(&plan);
        assert_eq!((report.dropped, report.retransmitted, rows.messages.len()), (0, 0, 30), "{report:?}");
        assert!(report.pauses > 30, "{report:?}");
    }
}

#[test]
fn pfc_pauses_spread_upstream_without_drops() {
    // Three pods of a fat tree send to one host, so pauses spread from its rack through the cores to the
    // senders.
    let ends: Vec<_> = (4..16).map(|from| (from, 0)).collect();
    let mut plan = plans::plan(Topology::fat_tree(4, LINK), "fixed", &ends);
    plan.laws[0].set("window", "1000 packets").expect("the value is valid");
    plan.stop = us(5_000);
    let memory = Bytes::new(600_000);
    plan.switch.pause = Pause::Pfc { memory, alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
    // Watch the last link, an uplink from a sender's rack and a downlink from a core switch.
    plan.watched_ports = plans::switch_ports(&[(0, 0), (2, 2), (16, 0)]);
    plan.sample_every = us(10);
    let (rows, report) = run(&plan);
    assert_eq!(report.dropped, 0, "{report:?}");
    for watched in &plan.watched_ports {
        let queue_lengths = rows
            .queues
            .iter()
            .filter(|row| SwitchPort::new(row.switch, row.port) == *watched)
            .map(|row| row.queued);
        assert!(queue_lengths.max() > Some(Bytes::new(10_000)), "{watched:?}: the queue is short");
    }
    // The receiver's link is never idle.
    let rate = report.delivered_bytes.get() as f64 * 8.0 / 5e6;
    assert!(rate > 195.0, "{rate} Gbps");
}

/// Checks that traffic continues if a link flaps while its peer is paused or becomes paused, and that no
/// packet is dropped for lack of buffer space.
#[test]
fn pfc_survives_a_link_flap() {
    for flap_ns in [50, 300, 2_000, 50_000] {
        for down_ns in (5_000..9_000).step_by(331) {
            let mut plan = large_window_incast(6, 500_000);
            let memory = Bytes::new(700_000);
            plan.switch.pause =
                Pause::Pfc { memory, alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
            let change = |ns: u64, event| plans::link_change(Picos::new(ns * 1_000), 0, 3, event);
            plan.link_changes =
                vec![change(down_ns, LinkEvent::Down), change(down_ns + flap_ns, LinkEvent::Up)];
            let (rows, report) = run(&plan);
            assert_eq!(rows.messages.len(), 6, "flap of {flap_ns} ns at {down_ns} ns: {report:?}");
            assert!(
                rows.drops.iter().all(|row| row.cause == DropCause::Link) && report.pauses > 0,
                "{report:?}"
            );
        }
    }
}

/// PFC frames skip the pipeline, so they can arrive at the same time as data packets. This happens often here
/// because the pipeline delay is a multiple of a PFC frame's send time.
#[test]
fn pfc_frames_are_processed_before_simultaneous_data() {
    let ends: Vec<_> = (0..16).map(|from| (from, from % 3)).filter(|(a, b)| a != b).collect();
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(512_000) };
    let mut plan = plans::plan(Topology::fat_tree(4, link), "fixed", &ends);
    plan.laws[0].set("window", "500 packets").expect("the value is valid");
    plan.stop = us(500);
    plan.switch.pipeline = Picos::new(512_000);
    plan.transport.mtu = Bytes::new(1_024);
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(300_000), alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
    let run_on = |threads| {
        let simulator =
            Simulator::with_threads(core::num::NonZeroU32::new(threads).expect("the number is not zero"));
        simulator.run(&plan, &mut MemorySink::default()).expect("the plan runs")
    };
    let single = run_on(1);
    assert!(single.pauses > 100 && single.dropped == 0, "{single:?}");
    for threads in [2, 3, 4, 8] {
        assert_eq!(run_on(threads), single, "{threads} threads");
    }
}

#[test]
fn memory_below_the_headroom_is_rejected() {
    let mut plan = large_window_incast(3, 1_000);
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(10_000), alpha: Fraction::ratio(1, 8), resume: Bytes::ZERO };
    let error =
        Simulator::default().run(&plan, &mut MemorySink::default()).expect_err("the plan is rejected");
    assert!(matches!(error, PlanError::Headroom { .. }), "{error}");
    // The bytes sent at 200 Gbps in 2 * 245 ns + 600 ns, plus three packets and eight PFC frames.
    assert_eq!(plan.headroom(LINK), Bytes::new(27_250 + 3 * 4_096 + 512));
}

#[test]
fn higher_priority_takes_the_whole_link() {
    let mut plan = plans::plan(Topology::star(3, LINK), "fixed", &[(1, 0), (2, 0)]);
    plan.laws[0].set("window", "200 packets").expect("the value is valid");
    plan.switch.priorities = 2;
    plan.connections[0].priority = 1;
    plan.stop = us(1_000);
    plan.messages[1].start = us(500);
    (plan.watched_connections, plan.sample_every) = (plans::connection_ids([0, 1]), us(500));
    let (rows, _) = run(&plan);
    let received_at = |time: Picos| -> Vec<u64> {
        rows.receivers.iter().filter(|row| row.time == time).map(|row| row.received.get()).collect()
    };
    let (half, whole) = (received_at(us(500)), received_at(us(1_000)));
    assert!(half[0] > 12_300_000 && half[1] == 0, "the first flow gets the whole link: {half:?}");
    assert!(whole[0] - half[0] < 500_000, "the first flow waits: {whole:?}");
    assert!(whole[1] > 12_300_000, "the higher priority gets the whole link: {whole:?}");
}

/// Runs Cubic over a dumbbell whose far links have a delay of 100 us. A mark that travels back from the switch
/// saves 200 us.
fn run_with_marks(direction: MarkDirection) -> (MemorySink, Report) {
    let near = Link { rate: BitRate::from_gbps(10), delay: Picos::new(5_000_000) };
    let far = Link { rate: BitRate::from_gbps(10), delay: us(100) };
    let network = "h0 s0 10 Gbps 5 us\nh1 s0 10 Gbps 5 us\ns0 s1 10 Gbps 5 us\n\
                   h2 s1 10 Gbps 100 us\nh3 s1 10 Gbps 100 us";
    let topology = Topology::Edges(Edges::parse(network).expect("the list is valid"));
    assert_eq!((topology.host_link(HostId::new(0)), topology.host_link(HostId::new(3))), (near, far));
    let mut plan = plans::plan(topology, "cubic", &[(0, 2), (1, 3)]);
    plan.stop = us(40_000);
    plan.switch.stamp = Stamp::Off;
    plan.switch.mark =
        CodelTofino { target: Nanos::from_micros(50), interval: Nanos::from_micros(500) }.into();
    plan.switch.mark_direction = direction;
    plan.transport.mtu = Bytes::new(1_460);
    plan.transport.header = Bytes::new(40);
    plan.transport.echo = Echo::UntilReduced;
    plan.transport.min_rto = Nanos::from_millis(10);
    (plan.watched_connections, plan.log_decisions) = (plans::connection_ids([0, 1]), true);
    run(&plan)
}

#[test]
fn reverse_mark_reaches_the_sender_sooner() {
    // Returns the number of marked ACKs, and the time of the first marked ACK in us.
    let marked_acks = |rows: &MemorySink| {
        let marks = rows.decisions.iter().filter(|row| row.marked).count();
        (marks, rows.decisions.iter().find(|row| row.marked).map(|row| row.time.get() / 1_000_000))
    };
    let (rows, report) = run_with_marks(MarkDirection::Forward);
    let (forward_marks, forward_first) = marked_acks(&rows);
    assert!(report.marks > 5 && report.marks_carried == report.marks, "{report:?}");
    for direction in [MarkDirection::ReversePerFlow { counters: 1_024 }, MarkDirection::ReversePerPort] {
        let (rows, report) = run_with_marks(direction);
        let (marks, first) = marked_acks(&rows);
        let sooner = forward_first.expect("an ACK is marked") - first.expect("an ACK is marked");
        println!(
            "{direction:?}: first mark arrives {sooner} us sooner; {} marks, {marks} ACKs",
            report.marks
        );
        // The expected gain is twice the far delay, minus the wait for an ACK that carries the mark.
        assert!((190..=240).contains(&sooner), "{direction:?}: {sooner} us");
        // A reverse mark marks only one ACK, whereas a forward mark is echoed until CWR.
        assert!(marks as u64 <= report.marks && marks < forward_marks, "{marks} {forward_marks} {report:?}");
        // Every carried mark reaches the sender unless it is still in flight.
        assert!((marks as u64..=report.marks).contains(&report.marks_carried), "{marks} {report:?}");
    }
}

#[test]
fn traffic_avoids_a_failed_link_and_returns_after_recovery() {
    // Two racks and two spines. All packets of the connection use one spine.
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
    plan.laws[0].set("window", "40 packets").expect("the value is valid");
    plan.stop = us(3_000);
    plan.messages[0].amount = Amount::Exactly(Bytes::new(50_000_000));
    // Ports 1 and 2 of the first rack switch lead to the spines.
    (plan.watched_ports, plan.sample_every) = (plans::switch_ports(&[(0, 1), (0, 2)]), us(100));
    let sent = |rows: &MemorySink, port: u32, time_us: u64| {
        let row = rows.queues.iter().find(|row| row.port == PortId::new(port) && row.time == us(time_us));
        row.expect("the sample exists").sent.get()
    };
    let (rows, _) = run(&plan);
    let used_port = if sent(&rows, 1, 1_000) > 0 { 1 } else { 2 };
    let other_port = 3 - used_port;
    assert_eq!(sent(&rows, other_port, 1_000), 0, "the connection uses one path");
    plan.link_changes = vec![
        plans::link_change(us(500), 0, used_port, LinkEvent::Down),
        plans::link_change(us(1_000), 0, used_port, LinkEvent::Up),
    ];
    let (rows, report) = run(&plan);
    assert_eq!(sent(&rows, used_port, 500), sent(&rows, used_port, 1_000), "a failed link sends no packets");
    assert!(sent(&rows, other_port, 1_000) > 10_000_000, "the other path carries the traffic");
    assert!(
        sent(&rows, used_port, 1_500) > sent(&rows, used_port, 1_000) + 10_000_000,
        "the recovered link is used again"
    );
    assert_eq!(rows.messages.len(), 1, "{report:?}");
    // If both uplinks are down, there is no path, and packets are dropped.
    let both_uplinks = |event, time| (1..=2).map(move |port| plans::link_change(us(time), 0, port, event));
    plan.link_changes =
        both_uplinks(LinkEvent::Down, 500).chain(both_uplinks(LinkEvent::Up, 1_000)).collect();
    let (rows, report) = run(&plan);
    assert!(report.timeouts > 0 && rows.drops.iter().all(|row| row.cause == DropCause::Link), "{report:?}");
    assert!(!rows.drops.is_empty() && rows.messages.len() == 1, "{report:?}");
}

#[test]
fn rate_change_takes_effect() {
    let mut plan = plans::plan(Topology::star(2, LINK), "fixed", &[(0, 1)]);
    plan.laws[0].set("window", "200 packets").expect("the value is valid");
    plan.stop = us(2_000);
    plan.link_changes = vec![plans::link_change(us(1_000), 0, 1, LinkEvent::Rate(BitRate::from_gbps(50)))];
    (plan.watched_connections, plan.sample_every) = (plans::connection_ids([0]), us(1_000));
    let (rows, _) = run(&plan);
    let bytes: Vec<u64> = rows.receivers.iter().map(|row| row.received.get()).collect();
    let gbps = [bytes[0] as f64 * 8e-6, (bytes[1] - bytes[0]) as f64 * 8e-6];
    assert!((198.0..200.1).contains(&gbps[0]) && (49.5..50.6).contains(&gbps[1]), "{gbps:?}");
}

/// Builds a plan in which four hosts in one rack send to four hosts in another rack over four spines.
fn four_flows_over_four_spines() -> Plan {
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
    plan.watched_ports = plans::switch_ports(&[(0, 4), (0, 5), (0, 6), (0, 7)]);
    (plan.watched_connections, plan.sample_every) = (plans::connection_ids(0..4), us(1_000));
    plan
}

#[test]
fn spraying_balances_all_paths_and_flow_hashing_does_not() {
    let shares = |rows: &MemorySink| -> Vec<u64> {
        let last = rows.queues.iter().rev().take(4).map(|row| row.sent.get()).collect::<Vec<_>>();
        let total: u64 = last.iter().sum();
        last.iter().map(|sent| sent * 100 / total.max(1)).collect()
    };
    let mut plan = four_flows_over_four_spines();
    let hashed = shares(&run(&plan).0);
    assert!(hashed.contains(&0), "four flows rarely hash to four paths: {hashed:?}");
    plan.transport.load_balancing = AnyPathPolicy::SPRAY;
    plan.transport.recovery = Recovery::Selective { reordering: 64 };
    let (rows, report) = run(&plan);
    let sprayed = shares(&rows);
    assert!(sprayed.iter().all(|share| (24..=26).contains(share)), "{sprayed:?}");
    assert_eq!(report.dropped, 0);
}

#[test]
fn plb_finds_the_free_paths() {
    let mut plan = four_flows_over_four_spines();
    let rate = |rows: &MemorySink| received_bytes(rows).iter().sum::<u64>() as f64 * 8.0 / 20e6;
    let (rows, report) = run(&plan);
    let collided = rate(&rows);
    assert_eq!(report.repaths, 0);
    plan.transport.plb = Some(PlbParams::FALCON);
    let (rows, report) = run(&plan);
    let with_plb = rate(&rows);
    println!("hashed {collided:.0} Gbps, with PLB {with_plb:.0} Gbps after {} path changes", report.repaths);
    assert!(report.repaths > 0 && collided < 650.0 && with_plb > 700.0, "{collided} {with_plb}");
}

/// HPCC and PowerTCP do not read marks, so PLB detects congestion from the law's signal.
#[test]
fn plb_works_with_laws_that_ignore_marks() {
    for law in ["hpcc", "powertcp"] {
        let mut plan = four_flows_over_four_spines();
        plan.laws[0] = AnyParams::for_law(law).expect("the law exists");
        plan.switch.stamp = Stamp::HopRecords(RecordCarrier::Exact);
        let rate = |rows: &MemorySink| received_bytes(rows).iter().sum::<u64>() as f64 * 8.0 / 20e6;
        let (rows, report) = run(&plan);
        let collided = rate(&rows);
        assert_eq!(report.repaths, 0);
        plan.transport.plb = Some(PlbParams::FALCON);
        let (rows, report) = run(&plan);
        let with_plb = rate(&rows);
        println!(
            "{law}: hashed {collided:.0} Gbps, with PLB {with_plb:.0} Gbps after {} path changes",
            report.repaths
        );
        // A flow that has a path to itself must not keep changing paths.
        assert!((1..1_000).contains(&report.repaths), "{law}: {} path changes", report.repaths);
        assert!(with_plb > 1.05 * collided, "{law}: {collided} {with_plb}");
    }
}

/// A rack in a rotor topology sends to one other rack. In each cycle of three matchings, one matching gives
/// the rack a 100 Gbps circuit. The packet network carries 25 Gbps for the rest of the time.
#[test]
fn rotor_throughput_matches_its_schedule() {
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
    // The window keeps the queue full at both rates.
    plan.laws[0].set("window", "300 packets").expect("the value is valid");
    plan.switch.stamp = Stamp::Off;
    plan.transport.mtu = Bytes::new(1_000);
    plan.transport.min_rto = Nanos::from_millis(100);
    plan.transport.first_rto = Nanos::from_millis(100);
    plan.stop = us(735 * 8);
    (plan.watched_ports, plan.sample_every) = (plans::switch_ports(&[(0, 8), (0, 9)]), us(735));
    plan.watched_connections = plans::connection_ids(0..8);
    let (rows, report) = run(&plan);
    assert_eq!(report.dropped, 0, "{report:?}");
    let total_received = |time_us: u64| -> f64 {
        rows.receivers.iter().filter(|row| row.time == us(time_us)).map(|row| row.received.get() as f64).sum()
    };
    // Bytes per cycle: 225 us at 12.5 kB/us and 510 us at 3.125 kB/us.
    let per_cycle = 225.0 * 12_500.0 + 510.0 * 3_125.0;
    let seen = (total_received(735 * 8) - total_received(735 * 4)) / 4.0;
    println!("{:.0} kB per cycle, expected {:.0} kB", seen / 1e3, per_cycle / 1e3);
    assert!((seen / per_cycle - 1.0).abs() < 0.01, "{seen} {per_cycle}");
    // Port 8 is the packet link, and port 9 is the circuit.
    let sent = |port: u32, time_us: u64| {
        let row = rows
            .queues
            .iter()
            .find(|row| row.port == PortId::new(port) && row.time == us(time_us))
            .expect("the sample exists");
        row.sent.get() as f64
    };
    let per_cycle_on = |port| (sent(port, 735 * 8) - sent(port, 735 * 4)) / 4.0;
    assert!(
        (per_cycle_on(8) / (510.0 * 3_125.0) - 1.0).abs() < 0.01,
        "{} bytes on the packet link",
        per_cycle_on(8)
    );
    assert!(
        (per_cycle_on(9) / (225.0 * 12_500.0) - 1.0).abs() < 0.01,
        "{} bytes on the circuit",
        per_cycle_on(9)
    );
}

/// Checks that a regular topology and the equivalent list of links produce the same packets at the same
/// times.
#[test]
fn list_of_links_behaves_like_the_regular_topology() {
    let chain = Topology::Chain(poseidon_plan::topology::Chain {
        switches: 3,
        hosts: 2,
        host_link: LINK,
        middle_link: LINK,
    });
    let mut edges: Vec<Edge> = (0..6)
        .map(|host| Edge {
            a: Node::Host(HostId::new(host)),
            b: Node::Switch(SwitchId::new(host / 2)),
            link: LINK,
        })
        .collect();
    edges.extend((0..2).map(|left| Edge {
        a: Node::Switch(SwitchId::new(left)),
        b: Node::Switch(SwitchId::new(left + 1)),
        link: LINK,
    }));
    let link_list = Topology::Edges(Edges::new(edges).expect("the links form a network"));
    let run_on = |topology| {
        let mut plan = plans::plan(topology, "poseidon", &[(0, 4), (1, 3), (5, 2), (2, 0)]);
        plan.stop = us(2_000);
        plan.switch.mark = Step { threshold: Bytes::new(20_000) }.into();
        run(&plan)
    };
    assert_eq!(run_on(chain), run_on(link_list));
}
