//! Packet trimming, selective retransmission and ACKs per number of bytes, against closed forms and invariants.

mod common;

use common::{run, us};
use core::num::NonZeroU32;
use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{PerQueue, Red, SlowPort, Stamp, Step, Trim};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::transport::{Acks, AnyPathPolicy, PATH_POLICIES, Recovery};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, Nanos, Picos, PortId, SwitchId};

const LINK: Link = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_000) };

/// Returns a plan with trimming and a fixed window of 64 packets. Each connection sends one message of `packets` packets
/// of 1000 B at time zero.
fn plan(topology: Topology, ends: &[(u32, u32)], packets: u64) -> Plan {
    let mut plan = plans::plan(topology, "fixed", ends);
    plan.laws[0].set("window", "64 packets").expect("the value is valid");
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.stamp = Stamp::Off;
    plan.switch.priorities = 2;
    plan.switch.trim = Some(Trim { size: Bytes::new(64) });
    plan.transport.mtu = Bytes::new(1_000);
    plan.transport.min_rto = Nanos::from_millis(1);
    plan.transport.recovery = Recovery::TrimNacks;
    plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(16_384) };
    plan.transport.ack_priority = Some(0);
    plan.connections.iter_mut().for_each(|connection| connection.priority = 1);
    let message = |index| Message {
        connection: ConnectionId::from_index(index),
        start: Picos::ZERO,
        amount: Amount::Exactly(Bytes::new(packets * 1_000)),
    };
    plan.messages = (0..ends.len()).map(message).collect();
    plan
}

fn with_queue(mut plan: Plan, packets: u64) -> Plan {
    plan.switch.buffer = PerQueue { size: Bytes::new(packets * 1_000) }.into();
    plan
}

/// Checks the invariants of a run in which every message finished.
fn check_finished(plan: &Plan, rows: &MemorySink, report: &Report) {
    assert_eq!(rows.messages.len(), plan.messages.len(), "{report:?}");
    let payload: u64 = plan.messages.iter().filter_map(|m| m.amount.bytes()).map(Bytes::get).sum();
    assert_eq!(report.delivered_bytes.get(), payload);
    assert_eq!(rows.trims.iter().map(|row| row.trimmed).sum::<u64>(), report.trimmed);
    assert!(report.nacks <= report.trimmed);
    let retransmitted: u32 = rows.messages.iter().map(|row| row.retransmitted).sum();
    assert_eq!(u64::from(retransmitted), report.retransmitted);
    assert!(report.retransmitted <= report.nacks + report.timeouts, "{report:?}");
}

#[test]
fn queue_of_one_packet_trims_one_of_two_packets_that_arrive_together() {
    let mut trimmed_connections = Vec::new();
    for seed in 0..20 {
        let mut plan = with_queue(plan(Topology::star(3, LINK), &[(0, 2), (1, 2)], 2), 1);
        plan.seed = seed;
        let (rows, report) = run(&plan);
        check_finished(&plan, &rows, &report);
        // The first two packets arrive at 1.8 us; one leaves and one waits. At 2.6 us the queue empties, and the next
        // two packets arrive: one of them waits and the other is trimmed.
        assert_eq!((report.trimmed, report.trimmed_at_last_hop, report.nacks), (1, 1, 1));
        assert_eq!((report.retransmitted, report.timeouts, report.dropped), (1, 0, 0));
        assert_eq!(report.trimmed_bytes, Bytes::new(1_000));
        let trims: Vec<_> = rows.trims.iter().map(|row| (row.switch.get(), row.port.get())).collect();
        assert_eq!(trims, [(0, 2)]);
        // The header of 64 B leaves at 3.4 us and takes 51.2 ns and 1 us. The NACK leaves at once, and crosses two links
        // in 2 x 1.0512 us. The retransmission crosses two idle links in 2 x 1.8 us.
        let trimmed = rows.messages.iter().find(|row| row.retransmitted == 1).expect("a packet was trimmed");
        let received = rows.received.iter().find(|row| row.message == trimmed.message);
        assert_eq!(received.map(|row| row.time), Some(Picos::new(3_400_000 + 3 * 1_051_200 + 3_600_000)));
        assert_eq!(trimmed.acknowledged, Picos::new(3_400_000 + 5 * 1_051_200 + 3_600_000));
        // The other packet leaves after the header.
        let other = rows.received.iter().find(|row| row.message != trimmed.message);
        assert_eq!(other.map(|row| row.time), Some(Picos::new(3_400_000 + 51_200 + 1_800_000)));
        trimmed_connections.push(trimmed.message.get());
    }
    // Both the arriving and the newest queued packet are trimmed in some runs.
    assert!(trimmed_connections.contains(&0) && trimmed_connections.contains(&1), "{trimmed_connections:?}");
}

#[test]
fn two_senders_overflow_a_queue_after_it_has_filled() {
    for queue in [1_u64, 3, 8] {
        let plan = with_queue(plan(Topology::star(3, LINK), &[(0, 2), (1, 2)], 20), queue);
        let (rows, report) = run(&plan);
        check_finished(&plan, &rows, &report);
        // The queue grows by one packet per pair, and every later pair loses a packet. Retransmissions compete as well.
        assert!((20 - queue..=40).contains(&report.trimmed), "{queue}: {report:?}");
        assert_eq!((report.timeouts, report.dropped), (0, 0));
    }
}

#[test]
fn incast_trims_and_finishes_without_timeouts() {
    // The headers of five senders need a third of the receiver's link.
    let ends: Vec<_> = (0..5).map(|from| (from, 5)).collect();
    let plan = with_queue(plan(Topology::star(6, LINK), &ends, 200), 20);
    let (rows, report) = run(&plan);
    check_finished(&plan, &rows, &report);
    assert!(report.trimmed > 500, "{report:?}");
    assert_eq!((report.timeouts, report.dropped), (0, 0));
    assert_eq!((report.retransmitted, report.nacks), (report.trimmed, report.trimmed));
}

#[test]
fn timeouts_repair_headers_that_do_not_fit() {
    // A queue of one packet comes with space for 31 headers. Of the first 64 packets, one leaves and one waits.
    let ends: Vec<_> = (0..64).map(|from| (from, 64)).collect();
    let mut plan = with_queue(plan(Topology::star(65, LINK), &ends, 4), 1);
    plan.laws[0].set("window", "1 packets").expect("the value is valid");
    let (rows, report) = run(&plan);
    check_finished(&plan, &rows, &report);
    assert!(report.dropped >= 31 && report.timeouts >= report.dropped, "{report:?}");
    assert!(report.nacks + report.dropped >= report.trimmed, "{report:?}");
}

#[test]
fn packet_times_out_by_itself_after_the_minimum_timeout() {
    let mut plan = plan(Topology::star(2, LINK), &[(0, 1)], 3);
    // The switch drops packets that find the link down, and the host's own link stays up.
    let change = |at, event| plans::link_change(us(at), 0, 1, event);
    plan.link_changes = vec![
        change(0, poseidon_plan::link_changes::LinkEvent::Down),
        change(5, poseidon_plan::link_changes::LinkEvent::Up),
    ];
    plan.transport.min_rto = Nanos::from_micros(100);
    let (rows, report) = run(&plan);
    check_finished(&plan, &rows, &report);
    assert_eq!((report.timeouts, report.retransmitted, report.dropped), (3, 3, 3));
    // Packets left at 0, 0.8 and 1.6 us. Each times out 100 us later. The last one crosses two links of 1.8 us.
    assert_eq!(rows.received[0].time, Picos::new(101_600_000 + 3_600_000));
}

#[test]
fn receiver_acknowledges_every_16_kib_and_requests() {
    let mut plan = plan(Topology::star(2, LINK), &[(0, 1)], 1);
    plan.laws[0].set("window", "1000 packets").expect("the value is valid");
    plan.transport.mtu = Bytes::new(4_086);
    plan.transport.header = Bytes::new(64);
    plan.messages[0].amount = Amount::Exactly(Bytes::new(2_000_000));
    let (rows, report) = run(&plan);
    check_finished(&plan, &rows, &report);
    // 490 packets of 4150 B: the first, every fourth after it, and the last, which requests an ACK.
    assert_eq!((report.sent, report.replies), (490, 1 + 489 / 4 + 1));
    // Marks trigger an ACK for each packet.
    plan.switch.mark = Step { threshold: Bytes::ZERO }.into();
    plan.topology = Topology::star(3, LINK);
    plan.connections.push(plan.connections[0]);
    plan.connections[1].from = poseidon_types::HostId::new(2);
    plan.messages.push(Message { connection: ConnectionId::new(1), ..plan.messages[0] });
    let (_, report) = run(&plan);
    assert!(report.marks > 900 && report.replies >= report.marks, "{report:?}");
}

#[test]
fn full_window_requests_an_ack() {
    let mut plan = plan(Topology::star(2, LINK), &[(0, 1)], 30);
    plan.laws[0].set("window", "3 packets").expect("the value is valid");
    let (rows, report) = run(&plan);
    check_finished(&plan, &rows, &report);
    assert_eq!((report.retransmitted, report.timeouts), (0, 0));
    assert!(report.replies >= 10, "{report:?}");
}

#[test]
fn reordering_is_not_a_loss() {
    // Two spines, one of which has a quarter of the rate: sprayed packets arrive far out of order.
    let tiers = poseidon_plan::topology::Tiers {
        pods: 1,
        racks: 2,
        hosts: 1,
        aggregation: 2,
        cores: 0,
        host_link: LINK,
        rack_link: LINK,
        core_link: LINK,
    };
    for policy in ["spray", "oblivious", "bitmap", "reps", "reps-legacy", "mixed"] {
        let mut plan = plan(Topology::Tiers(tiers), &[(0, 1)], 400);
        plan.laws[0].set("window", "64 packets").expect("the value is valid");
        plan.transport.load_balancing = AnyPathPolicy::from_name(policy).expect("the policy exists");
        plan.slow_ports = vec![SlowPort { switch: SwitchId::new(0), port: PortId::new(1), divisor: 4 }];
        plan.switch.buffer = PerQueue { size: Bytes::new(1_000_000) }.into();
        let (rows, report) = run(&plan);
        check_finished(&plan, &rows, &report);
        assert_eq!((report.retransmitted, report.timeouts, report.trimmed), (0, 0, 0), "{policy}");
    }
}

#[test]
fn slow_port_has_a_fraction_of_the_rate_and_the_buffer() {
    let mut plan = with_queue(plan(Topology::star(2, LINK), &[(0, 1)], 1), 100);
    plan.slow_ports = vec![SlowPort { switch: SwitchId::new(0), port: PortId::new(1), divisor: 4 }];
    let (rows, _) = run(&plan);
    // 0.8 us on the first link and 3.2 us on the second.
    assert_eq!(rows.received[0].time, Picos::new(800_000 + 3_200_000 + 2_000_000));
    // A burst of 60 packets arrives four times as fast as it leaves: 25 packets fit in the queue, 15 leave meanwhile.
    // The others are trimmed, some of them again after their retransmission.
    plan.messages[0].amount = Amount::Exactly(Bytes::new(60_000));
    let (rows, report) = run(&plan);
    check_finished(&plan, &rows, &report);
    assert!((18..=100).contains(&report.trimmed), "{report:?}");
    plan.slow_ports.clear();
    assert_eq!(run(&plan).1.trimmed, 0);
}

#[test]
fn feedback_moves_traffic_away_from_a_slow_path() {
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let finish = |policy: &str| {
        let ends: Vec<_> = (0..16).map(|from| (from, (from + 8) % 16)).collect();
        let mut plan = with_queue(plan(Topology::fat_tree(4, link), &ends, 2_000), 170);
        plan.switch.mark = Red {
            min: Bytes::new(37_000),
            max: Bytes::new(145_000),
            probability: Fraction::ONE,
            ..Red::default()
        }
        .into();
        plan.transport.load_balancing = AnyPathPolicy::from_name(policy).expect("the policy exists");
        // The first core switch has slow links to all pods.
        plan.slow_ports = (0..4)
            .map(|port| SlowPort { switch: SwitchId::new(16), port: PortId::new(port), divisor: 4 })
            .collect();
        let (rows, report) = run(&plan);
        check_finished(&plan, &rows, &report);
        rows.messages.iter().map(|row| row.acknowledged).max().expect("messages finish")
    };
    let oblivious = finish("oblivious");
    for policy in ["bitmap", "reps", "mixed"] {
        let time = finish(policy);
        assert!(time.get() * 10 < oblivious.get() * 9, "{policy}: {time:?} against {oblivious:?}");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    for info in PATH_POLICIES {
        let mut ends: Vec<_> = (0..16).map(|from| (from, (from + 5) % 16)).collect();
        ends.extend((1..12).map(|from| (from, 0)));
        let mut plan = with_queue(plan(Topology::fat_tree(4, link), &ends, 150), 12);
        plan.switch.mark = Step { threshold: Bytes::new(5_000) }.into();
        plan.transport.min_rto = Nanos::from_micros(100);
        plan.transport.load_balancing = AnyPathPolicy::from_name(info.name).expect("the policy exists");
        plan.slow_ports = vec![SlowPort { switch: SwitchId::new(16), port: PortId::new(1), divisor: 4 }];
        let run = |threads| {
            let mut rows = MemorySink::default();
            let simulator = Simulator::with_threads(NonZeroU32::new(threads).expect("not zero"));
            let report = simulator.run(&plan, &mut rows).expect("the plan runs");
            (rows, report)
        };
        let (rows, report) = run(1);
        check_finished(&plan, &rows, &report);
        assert!(report.trimmed > 50 && report.retransmitted > 50, "{}: {report:?}", info.name);
        for threads in [2, 4] {
            let (other_rows, other) = run(threads);
            assert_eq!(other, report, "{}: {threads} threads", info.name);
            assert_eq!((other_rows.messages, other_rows.trims), (rows.messages.clone(), rows.trims.clone()));
        }
    }
}

#[test]
fn plans_that_trimming_cannot_run_are_refused() {
    let base = || plan(Topology::star(2, LINK), &[(0, 1)], 1);
    let refusal = |change: &dyn Fn(&mut Plan)| {
        let mut plan = base();
        change(&mut plan);
        Simulator::default()
            .run(&plan, &mut MemorySink::default())
            .expect_err("the plan is refused")
            .to_string()
    };
    assert!(refusal(&|plan| plan.connections[0].priority = 0).contains("priority 0"));
    assert!(refusal(&|plan| plan.transport.ack_priority = None).contains("priority 0"));
    assert!(refusal(&|plan| plan.transport.acks = Acks::EveryPacket).contains("need each other"));
    assert!(
        refusal(&|plan| plan.transport.recovery = Recovery::Selective { reordering: 3 })
            .contains("need each other")
    );
    assert!(refusal(&|plan| plan.switch.trim = Some(Trim { size: Bytes::new(1_000) })).contains("smaller"));
    let slow = |port, divisor| SlowPort { switch: SwitchId::new(0), port: PortId::new(port), divisor };
    assert!(refusal(&|plan| plan.slow_ports = vec![slow(0, 1)]).contains("divisor"));
    assert!(refusal(&|plan| plan.slow_ports = vec![slow(7, 4)]).contains("no such port"));
}

#[test]
fn one_flow_takes_as_long_as_in_uet_htsim() {
    // `uec_validate_outputs.csv`, one.cm with NSCC: 2 MB from host 0 to host 13 of a fat tree with 16 hosts take 176.2 us.
    let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let mut plan = plan(Topology::fat_tree(4, link), &[(0, 13)], 1);
    plan.transport.mtu = Bytes::new(4_086);
    plan.transport.header = Bytes::new(64);
    plan.transport.load_balancing = AnyPathPolicy::from_name("mixed").expect("the policy exists");
    plan.messages[0].amount = Amount::Exactly(Bytes::new(2_000_000));
    let (rows, report) = run(&plan);
    check_finished(&plan, &rows, &report);
    // The last full packet leaves after 489 x 332 ns, crosses five more links, and its ACK of 64 B crosses six. The short
    // last packet overtakes it on another path, or follows it after 160.8 ns.
    let last_full = 489 * 332_000 + 5 * 332_000 + 12 * 1_000_000 + 6 * 5_120;
    let acknowledged = rows.messages[0].acknowledged.get();
    assert!((last_full..=last_full + 160_800).contains(&acknowledged), "{acknowledged}");
    assert!((acknowledged as f64 / 176.2e6 - 1.0).abs() < 0.005, "{acknowledged}");
    // The reference sends 124 ACKs. A last packet that overtakes another one causes one more.
    assert_eq!(report.sent, 490);
    assert!((124..=125).contains(&report.replies), "{report:?}");
}
