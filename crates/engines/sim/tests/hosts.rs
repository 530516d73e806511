//! Host behaviour: loss recovery, ACKs, ECN echo and message dependencies.

mod common;

use common::{run, us};
use poseidon_plan::patterns::{ClosedLoop, ConnectionReuse, Pattern, Traffic, TrafficClass};
use poseidon_plan::switch::{AnyMarkPolicy, PerQueue, Stamp, Step};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::transport::{Acks, Echo, Recovery};
use poseidon_plan::{Plan, Topology};
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{Bytes, ConnectionId, HostId, Nanos, Picos};

/// Builds a plan in which eight hosts each send 1 MB to one host.
fn incast(law: &str) -> Plan {
    let ends: Vec<_> = (1..=8).map(|from| (from, 0)).collect();
    let mut plan = plans::plan(Topology::star(9, LINK), law, &ends);
    plan.switch.stamp = Stamp::Off;
    plan.stop = us(1_000_000);
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(1_000_000));
    }
    plan
}

#[test]
fn both_recovery_modes_deliver_all_data_and_go_back_n_sends_more_packets() {
    let mut plan = incast("fixed");
    plan.laws[0].set("window", "16 packets").expect("the value is valid");
    // The buffer has space for 100 of the 128 packets in flight.
    plan.switch.buffer = PerQueue { size: Bytes::new(410_000) }.into();
    let packets_sent = |recovery| {
        let mut plan = plan.clone();
        plan.transport.recovery = recovery;
        let (rows, report) = run(&plan);
        assert_eq!((rows.messages.len(), report.delivered_bytes), (8, Bytes::new(8_000_000)), "{recovery:?}");
        assert!(report.dropped > 20, "{recovery:?}: {report:?}");
        let retransmitted: u64 = rows.messages.iter().map(|row| u64::from(row.retransmitted)).sum();
        assert_eq!(retransmitted, report.retransmitted, "every retransmission belongs to a message");
        report.sent
    };
    let selective = packets_sent(Recovery::Selective { reordering: 3 });
    let go_back_n = packets_sent(Recovery::GoBackN);
    println!("packets sent for 1960: selective {selective}, go-back-n {go_back_n}");
    assert!(go_back_n > selective && selective > 1_960);
}

#[test]
fn coalesced_acks_are_fewer_and_arrive_before_their_deadline() {
    let mut plan = incast("dctcp");
    let (_, per_packet) = run(&plan);
    assert_eq!(per_packet.replies, per_packet.delivered);
    plan.transport.acks = Acks::Coalesced { packets: 4, delay: Nanos::from_micros(20) };
    let (rows, coalesced) = run(&plan);
    assert_eq!(rows.messages.len(), 8);
    let per_ack = coalesced.delivered as f64 / coalesced.replies as f64;
    println!("{per_ack:.2} packets per ACK");
    assert!((3.5..=4.0).contains(&per_ack), "{coalesced:?}");
    // The last packet of a message is acknowledged immediately. Earlier packets are acknowledged when the
    // delay expires.
    let mut plan = plans::plan(Topology::star(2, LINK), "fixed", &[(0, 1)]);
    plan.laws[0].set("window", "2 packets").expect("the value is valid");
    plan.transport.acks = Acks::Coalesced { packets: 4, delay: Nanos::from_micros(20) };
    plan.messages[0].amount = Amount::Exactly(Bytes::new(3 * 4_096));
    let (rows, _) = run(&plan);
    // The expected time covers two packets, the 20 us delay and their ACK, and then the third packet and its
    // ACK.
    let two_packets = plan.one_way_delay(HostId::new(0), HostId::new(1), plan.data_size())
        + LINK.rate.send_time_ceil(plan.data_size());
    let ack_delay = us(20) - LINK.rate.send_time_ceil(plan.data_size());
    let expected = two_packets
        + ack_delay
        + plan.one_way_delay(HostId::new(1), HostId::new(0), plan.ack_size())
        + plan.base_rtt(HostId::new(0), HostId::new(1));
    assert_eq!(rows.messages[0].acknowledged, expected);
}

#[test]
fn every_echo_mode_reports_marks() {
    let count_echoes = |echo, acks| {
        let mut plan = incast("dctcp");
        plan.switch.mark = Step { threshold: Bytes::new(100_000) }.into();
        plan.transport.echo = echo;
        plan.transport.acks = acks;
        (plan.watched_connections, plan.log_decisions) = (plans::connection_ids(0..8), true);
        let (rows, report) = run(&plan);
        assert_eq!(rows.messages.len(), 8);
        (rows.decisions.iter().filter(|row| row.marked).count() as u64, report)
    };
    let coalesced = Acks::Coalesced { packets: 8, delay: Nanos::from_micros(50) };
    let (exact, report) = count_echoes(Echo::Exact, Acks::EveryPacket);
    assert_eq!(exact, report.marks, "each mark is echoed by one ACK");
    let (_, report) = count_echoes(Echo::Exact, coalesced);
    let mut unmarked = incast("dctcp");
    unmarked.transport.acks = coalesced;
    let (_, unmarked) = run(&unmarked);
    assert!(report.marks > 0 && report.replies > unmarked.replies, "mark changes trigger ACKs");
    let (latched, report) = count_echoes(Echo::UntilReduced, Acks::EveryPacket);
    assert!(latched > report.marks, "the echo continues until CWR: {latched} {report:?}");
    let gap = Nanos::from_micros(50);
    let (cnps, report) = count_echoes(Echo::Notification { gap }, Acks::EveryPacket);
    assert_eq!(cnps, report.replies - report.delivered, "CNPs report marks, and ACKs do not");
    let max_cnps = 8 * (report.ended.get() / 50_000_000 + 1);
    assert!(cnps > 0 && cnps <= max_cnps, "at most one CNP per gap and connection: {cnps}");
}

/// Checks that a registered policy can be selected by name.
#[test]
fn every_tenth_packet_is_marked_and_every_mark_is_echoed() {
    let mut plan = plans::plan(Topology::star(2, LINK), "fixed", &[(0, 1)]);
    plan.messages[0].amount = Amount::Exactly(Bytes::new(1_000 * 4_096));
    let mut mark = AnyMarkPolicy::from_name("every").expect("the policy is registered");
    mark.set("packets", "10").expect("the value is valid");
    plan.switch.mark = mark;
    (plan.watched_connections, plan.log_decisions) = (plans::connection_ids([0]), true);
    let (rows, report) = run(&plan);
    let echoed: Vec<u32> = rows.decisions.iter().filter(|row| row.marked).map(|row| row.packet).collect();
    assert_eq!((report.marks, echoed), (100, (0..100).map(|i| 10 * i + 9).collect()));
}

/// Checks that the maximum time value means "never" and does not overflow.
#[test]
fn maximum_times_never_expire() {
    let mut plan = incast("dctcp");
    plan.transport.min_rto = Nanos::MAX;
    plan.transport.first_rto = Nanos::MAX;
    plan.transport.echo = Echo::Notification { gap: Nanos::MAX };
    plan.transport.acks = Acks::Coalesced { packets: 4, delay: Nanos::MAX };
    plan.switch.mark = Step { threshold: Bytes::new(10_000) }.into();
    let (rows, report) = run(&plan);
    assert_eq!((rows.messages.len(), report.timeouts), (8, 0), "{report:?}");
    assert!(report.replies <= report.delivered, "one CNP per connection: {report:?}");
}

#[test]
fn open_ended_message_stops_on_time_and_reports_its_size() {
    let mut plan = plans::plan(Topology::star(2, LINK), "poseidon", &[(0, 1)]);
    plan.messages[0].amount = Amount::Until(us(500));
    let (rows, report) = run(&plan);
    let row = rows.messages[0];
    let rtt = plan.base_rtt(HostId::new(0), HostId::new(1));
    assert!(row.acknowledged > us(500) && row.acknowledged <= us(500) + rtt + rtt, "{row:?}");
    assert_eq!((row.size, report.in_flight), (report.delivered_bytes, 0));
    assert!(row.size > Bytes::new(12_000_000), "{row:?}");
}

#[test]
fn messages_of_a_connection_finish_in_order() {
    let mut plan = plans::plan(Topology::star(2, LINK), "poseidon", &[(0, 1)]);
    let message = |start, size| Message {
        connection: ConnectionId::new(0),
        start: us(start),
        amount: Amount::Exactly(Bytes::new(size)),
    };
    plan.messages = vec![message(0, 1_000_000), message(1, 10), message(100, 1_000_000)];
    let (rows, _) = run(&plan);
    let order: Vec<u32> = rows.messages.iter().map(|row| row.message.get()).collect();
    assert_eq!(order, [0, 1, 2]);
    assert_eq!(rows.received.len(), 3);
    // A message is acknowledged only after it has been received.
    let pairs = rows.received.iter().zip(&rows.messages);
    assert!(
        pairs
            .clone()
            .all(|(received, row)| received.message == row.message && received.time < row.acknowledged)
    );
}

fn plan_with_traffic(hosts: u32, traffic: &Traffic) -> Plan {
    let mut plan = plans::plan(Topology::star(hosts, LINK), "fixed", &[(0, 1)]);
    plan.laws[0].set("window", "32768 packets").expect("the value is valid");
    plan.stop = us(1_000_000);
    plan.connections.clone_from(&traffic.connections);
    plan.messages.clone_from(&traffic.messages);
    plan.dependencies.clone_from(&traffic.dependencies);
    plan
}

#[test]
fn closed_loop_waits_for_the_ack_and_the_think_time() {
    let think = us(10);
    let pattern = ClosedLoop {
        ends: vec![(HostId::new(0), HostId::new(1))],
        size: Bytes::new(4_096),
        count: 5,
        spread: Picos::ZERO,
        connections: ConnectionReuse::OneConnection,
        start: us(1),
        think,
    };
    let traffic =
        pattern.generate(&TrafficClass::new(1, "loop")).expect("the pattern is valid").into_plan_order();
    let plan = plan_with_traffic(2, &traffic);
    let (rows, _) = run(&plan);
    let starts: Vec<Picos> = rows.messages.iter().map(|row| row.start).collect();
    let expected: Vec<Picos> =
        (0..5).map(|i| us(1) + (plan.base_rtt(HostId::new(0), HostId::new(1)) + think) * i).collect();
    assert_eq!(starts, expected);
}
