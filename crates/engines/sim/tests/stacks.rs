//! Connections in real transport stacks, with a small stack instead of a real one.

mod toy_stack;

use core::num::NonZeroU32;
use poseidon_laws::{AnyParams, BuildError};
use poseidon_plan::impairments::{AnyImpairPolicy, Jitter, LinkImpairment, RandomLoss, Reorder};
use poseidon_plan::recording::{NodePort, Recording};
use poseidon_plan::records::{DropCause, MemorySink, SenderRow};
use poseidon_plan::stack::{Controller, Side, StackKind, StackLaw};
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::switch::{DelayCarrier, MarkDirection, Pause, PerQueue, RecordCarrier, Stamp, Step};
use poseidon_plan::topology::{Chain, Node};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::transport::AnyPathPolicy;
use poseidon_plan::{Backend, Link, Plan, PlanError, Report, SwitchPort, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{self, LINK, connection_ids};
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, HostId, Nanos, Picos, PortId, SwitchId};
use toy_stack::{HEADER, LoggedArrival, LoggingFactory, OVERHEAD, ToyFactory};

/// Removes and returns all arrivals so far, sorted by time.
fn take_arrivals(toy: &ToyFactory) -> Vec<LoggedArrival> {
    let mut arrivals = core::mem::take(&mut *toy.arrivals.lock().expect("no test panics with the lock"));
    arrivals.sort_by_key(|logged| (logged.time, logged.connection, logged.side));
    arrivals
}

const SLOW: Link = Link { rate: BitRate::from_gbps(25), delay: Picos::new(1_000_000) };
/// A rate at which one byte does not take a whole number of picoseconds.
const ODD: Link = Link { rate: BitRate::from_mbps(3_333), delay: Picos::new(333_333) };
const TREE: Topology = Topology::fat_tree(4, LINK);

const fn us(us: u64) -> Picos {
    Picos::new(us * 1_000_000)
}

/// Returns a plan in which connection `i` sends one message of `size` bytes in a stack, starting at `i` us.
fn stack_plan(topology: Topology, endpoints: &[(u32, u32)], size: u64) -> Plan {
    let mut plan = plans::plan(topology, "fixed", endpoints);
    plan.stacks = vec![StackLaw { law: 0, stack: StackKind::Quinn, controller: Some(Controller::Cubic) }];
    plan.stop = us(100_000);
    plan.transport.header = Bytes::new(64);
    plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(size));
    }
    plan
}

fn simulator(threads: u32, factory: &'static dyn StackFactory) -> Simulator {
    let threads = NonZeroU32::new(threads).expect("the number is not zero");
    Simulator { stacks: Some(factory), ..Simulator::with_threads(threads) }
}

fn run_with(simulator: Simulator, plan: &Plan) -> (MemorySink, Report) {
    let mut rows = MemorySink::default();
    let report = simulator.run(plan, &mut rows).expect("the plan runs");
    (rows, report)
}

fn run(plan: &Plan, factory: &'static ToyFactory) -> (MemorySink, Report) {
    run_with(simulator(1, factory), plan)
}

/// Impairs all ports of the first `switches` switches.
fn impair(plan: &mut Plan, switches: u32, policy: &AnyImpairPolicy) {
    let ports = (0..switches).map(SwitchId::new).flat_map(|switch| {
        let count = Simulator::default().port_count(plan, switch);
        (0..count).map(move |port| (switch, PortId::new(port)))
    });
    plan.link_impairments =
        ports.map(|(switch, port)| LinkImpairment { switch, port, policy: policy.clone() }).collect();
}

/// Computes the arrival time of the last ACK of the only message under store-and-forward: a datagram leaves a node when
/// it has fully arrived and the previous datagram has left.
fn store_and_forward_time(plan: &Plan) -> Picos {
    let (connection, message) = (plan.connections[0], plan.messages[0]);
    let size = message.amount.bytes().expect("the message has a size").get();
    let full = ToyFactory::full_payload(plan);
    let datagrams = size.div_ceil(full);
    let overhead = HEADER + OVERHEAD + plan.switch.stamp.data_bytes().get();
    let bytes = |i: u64| overhead + if i + 1 == datagrams { size - (datagrams - 1) * full } else { full };
    let mut arrivals = vec![message.start; usize::try_from(datagrams).expect("the count is small")];
    let mut cross = |from, to, bytes: &dyn Fn(u64) -> u64| {
        let links = plan.topology.links_between(from, to);
        for (hop, link) in links.iter().enumerate() {
            let mut free = Picos::ZERO;
            for (i, arrival) in (0..).zip(&mut arrivals) {
                free = (*arrival).max(free) + link.rate.send_time_ceil(Bytes::new(bytes(i)));
                let pipeline = if hop + 1 < links.len() { plan.switch.pipeline } else { Picos::ZERO };
                *arrival = free + link.delay + pipeline;
            }
        }
    };
    cross(connection.from, connection.to, &bytes);
    cross(connection.to, connection.from, &|_| overhead);
    *arrivals.last().expect("there is a datagram")
}

#[test]
fn completion_time_on_an_idle_path_matches_the_closed_form() {
    let cases = [
        ("star", Topology::star(4, LINK), 0, 3),
        ("star at an odd rate", Topology::star(2, ODD), 1, 0),
        ("dumbbell with a slow middle", Topology::dumbbell(2, LINK, SLOW), 1, 2),
        ("dumbbell with slow edges", Topology::dumbbell(2, SLOW, LINK), 3, 0),
        ("fat tree, same rack", TREE, 0, 1),
        ("fat tree, other pod", TREE, 0, 15),
    ];
    for (name, topology, from, to) in cases {
        let factory: &'static ToyFactory = ToyFactory::leak(1_000, 100_000);
        let full = ToyFactory::full_payload(&stack_plan(topology.clone(), &[(from, to)], 1));
        for size in [1, 100, full, full + 1, 100_000, 1_000_000] {
            let mut plan = stack_plan(topology.clone(), &[(from, to)], size);
            plan.messages[0].start = Picos::new(12_345);
            let (rows, report) = run(&plan, factory);
            let row = rows.messages.first().unwrap_or_else(|| panic!("{name}, {size} B: not finished"));
            assert_eq!(row.acknowledged, store_and_forward_time(&plan), "{name}, {size} B");
            assert_eq!((row.start, row.size), (Picos::new(12_345), Bytes::new(size)), "{name}");
            assert_eq!((row.retransmitted, report.dropped, report.in_flight), (0, 0, 0), "{name}");
            assert_eq!(report.delivered_bytes, Bytes::new(size), "{name}, {size} B");
            // Every datagram is acknowledged by one datagram, which consists of a header.
            let datagrams = size.div_ceil(full);
            assert_eq!((report.sent, report.delivered), (2 * datagrams, 2 * datagrams), "{name}, {size} B");
            assert_eq!(report.sent_bytes, Bytes::new(size + 2 * datagrams * HEADER), "{name}, {size} B");
            let hops = u64::from(plan.topology.hops(HostId::new(from), HostId::new(to)));
            assert_eq!(report.packet_hops, 2 * datagrams * hops, "{name}, {size} B");
            assert_eq!((report.replies, report.decisions), (0, 0), "{name}");
        }
    }
}

#[test]
fn every_byte_arrives_despite_loss_jitter_reordering_and_small_buffers() {
    let policies: [AnyImpairPolicy; 4] = [
        RandomLoss { probability: Fraction::ratio(1, 50) }.into(),
        Jitter { max: Nanos::from_micros(3), keep_order: false }.into(),
        Reorder { probability: Fraction::ratio(1, 20), delay: Nanos::from_micros(5) }.into(),
        RandomLoss { probability: Fraction::ZERO }.into(),
    ];
    for policy in policies {
        let ends: Vec<_> = (4..16).map(|from| (from, 0)).collect();
        let mut plan = stack_plan(TREE, &ends, 200_000);
        // A second message per connection.
        for message in plan.messages.clone() {
            plan.messages.push(Message { start: us(20), amount: Amount::Exactly(Bytes::new(7)), ..message });
        }
        plan.switch.buffer = PerQueue { size: Bytes::new(20_000) }.into();
        impair(&mut plan, 20, &policy);
        let (rows, report) = run(&plan, ToyFactory::leak(8, 100));
        assert_eq!((rows.messages.len(), rows.received.len()), (24, 24), "{policy:?}: {report:?}");
        assert_eq!(report.delivered_bytes, Bytes::new(12 * 200_007), "{policy:?}");
        assert!(report.retransmitted > 20 && report.in_flight == 0, "{policy:?}: {report:?}");
        let retransmitted: u64 = rows.messages.iter().map(|row| u64::from(row.retransmitted)).sum();
        assert!(retransmitted >= report.retransmitted, "messages of a connection overlap: {policy:?}");
        let full_buffers = rows.drops.iter().filter(|row| row.cause == DropCause::Buffer).count();
        assert!(full_buffers > 10, "{policy:?}: {report:?}");
        // Datagrams from receivers have odd numbers, and some of them are lost too.
        if policy.name() == "random-loss" && report.dropped > full_buffers as u64 {
            assert!(rows.drops.iter().any(|row| row.packet % 2 == 1), "{policy:?}");
        }
    }
}

/// Returns a plan in which half of the connections run in stacks and the other half in the simulator's transport.
fn mixed_plan() -> Plan {
    let ends: Vec<_> = (0..16).chain(0..16).map(|from| (from, (from * 3 + 5) % 7)).collect();
    let ends: Vec<_> = ends.into_iter().filter(|(from, to)| from != to).collect();
    let mut plan = stack_plan(TREE, &ends, 300_000);
    plan.laws.push(AnyParams::for_law("poseidon").expect("the law is registered"));
    for (index, connection) in (0..).zip(&mut plan.connections) {
        connection.law = index % 2;
        connection.entropy = index;
    }
    plan.switch.buffer = PerQueue { size: Bytes::new(60_000) }.into();
    plan.switch.mark = Step { threshold: Bytes::new(20_000) }.into();
    plan.watched_connections = connection_ids(0..u32::try_from(ends.len()).expect("the number is small"));
    plan.sample_every = us(5);
    plan.log_decisions = true;
    plan
}

#[test]
fn result_does_not_depend_on_the_number_of_threads() {
    let factory: &'static ToyFactory = ToyFactory::leak(16, 150);
    let mut spraying = mixed_plan();
    spraying.transport.load_balancing = AnyPathPolicy::SPRAY;
    let mut impaired = mixed_plan();
    impair(&mut impaired, 20, &RandomLoss { probability: Fraction::ratio(1, 200) }.into());
    let mut flow_control = mixed_plan();
    flow_control.switch.pause =
        Pause::Pfc { memory: Bytes::new(1_000_000), alpha: Fraction::ratio(1, 8), resume: Bytes::new(5_000) };
    let mut hop_records = mixed_plan();
    hop_records.laws[1] = AnyParams::for_law("hpcc").expect("the law is registered");
    hop_records.switch.stamp = Stamp::HopRecords(RecordCarrier::HpccNs3);
    let mut reverse_marks = mixed_plan();
    reverse_marks.laws[1] = AnyParams::for_law("dctcp").expect("the law is registered");
    reverse_marks.switch.mark_direction = MarkDirection::ReversePerFlow { counters: 64 };
    let plans = [
        ("mixed", mixed_plan()),
        ("spraying", spraying),
        ("impaired", impaired),
        ("flow control", flow_control),
        ("hop records", hop_records),
        ("reverse marks", reverse_marks),
    ];
    for (name, plan) in plans {
        let single = run(&plan, factory);
        assert_eq!(single.0.messages.len(), plan.messages.len(), "{name}: every message finishes");
        assert!(single.1.marks > 20 && single.1.decisions > 100, "{name}: {:?}", single.1);
        assert_eq!(name == "flow control", single.1.pauses > 0, "{name}: {:?}", single.1);
        let in_stack = |connection: ConnectionId| plan.stack_of(connection).is_some();
        assert!(single.0.decisions.iter().all(|row| !in_stack(row.connection)), "{name}");
        assert!(single.0.senders.iter().any(|row| in_stack(row.connection)), "{name}");
        // Each window is a barrier, so a run with many threads takes long on a busy machine.
        let threads: &[u32] = if name == "mixed" { &[2, 4] } else { &[2] };
        for threads in threads.iter().copied() {
            let other = run_with(simulator(threads, factory), &plan);
            assert_eq!(other.1, single.1, "{name}: report with {threads} threads");
            assert!(other.0 == single.0, "{name}: rows with {threads} threads");
        }
        let wire_format = run_with(Simulator { wire_format_telemetry: true, ..simulator(1, factory) }, &plan);
        assert!(wire_format == single, "{name}: wire-format telemetry");
    }
}

#[test]
fn result_hash_covers_the_size_of_datagrams() {
    let hash = |size| run(&stack_plan(TREE, &[(0, 5)], size), ToyFactory::leak(8, 100)).1.result_hash;
    assert_eq!(hash(100), hash(100));
    assert_ne!(hash(100), hash(101));
}

#[test]
fn marks_and_telemetry_reach_the_stack() {
    let ends: Vec<_> = (1..9).map(|from| (from, 0)).collect();
    let mut plan = stack_plan(Topology::star(9, LINK), &ends, 400_000);
    plan.switch.mark = Step { threshold: Bytes::new(100_000) }.into();
    let toy: &'static ToyFactory = ToyFactory::leak(16, 100_000);
    let factory: &'static LoggingFactory = Box::leak(Box::new(LoggingFactory(toy)));
    let (_, report) = run_with(simulator(1, factory), &plan);
    let arrivals = take_arrivals(toy);
    assert_eq!(arrivals.len() as u64, report.delivered);
    let marked = arrivals.iter().filter(|logged| logged.arrival.marked).count() as u64;
    assert!(marked > 100 && marked == report.marks && marked == report.marks_carried, "{report:?}");
    assert!(arrivals.iter().all(|logged| logged.side == Side::Receiver || !logged.arrival.marked));
    let delays =
        arrivals.iter().map(|logged| logged.arrival.max_hop_delay.expect("the switch writes delays"));
    assert!(delays.clone().all(|delay| delay.hops == 1 && !delay.incomplete && !delay.saturated));
    // The last datagrams wait for the window of all other hosts. The shim rounds to steps of 256 ns.
    let longest = delays.clone().map(|delay| delay.worst).max().expect("datagrams arrived");
    assert!(longest > Nanos::from_micros(10) && delays.clone().all(|delay| delay.worst.get() % 256 == 0));
    run_with(Simulator { wire_format_telemetry: true, ..simulator(1, factory) }, &plan);
    assert_eq!(take_arrivals(toy), arrivals, "wire-format telemetry");
    for stamp in [Stamp::Off, Stamp::HopRecords(RecordCarrier::Exact)] {
        plan.switch.stamp = stamp;
        run_with(simulator(1, factory), &plan);
        assert!(take_arrivals(toy).iter().all(|logged| logged.arrival.max_hop_delay.is_none()), "{stamp:?}");
    }
}

#[test]
fn datagrams_without_ecn_are_neither_marked_nor_dropped_by_a_marking_policy() {
    let ends: Vec<_> = (1..9).map(|from| (from, 0)).collect();
    let mut plan = stack_plan(Topology::star(9, LINK), &ends, 400_000);
    plan.switch.mark = Step { threshold: Bytes::new(100_000) }.into();
    let factory = ToyFactory::leak(16, 100_000);
    factory.ecn = false;
    let (rows, report) = run(&plan, factory);
    assert_eq!((report.marks, report.dropped, rows.messages.len()), (0, 0, 8));
}

#[test]
fn plans_that_cannot_run_are_rejected() {
    let plan = stack_plan(TREE, &[(0, 5)], 1_000);
    let toy: &'static ToyFactory = ToyFactory::leak(8, 100);
    let reject = |simulator: Simulator, plan: &Plan| {
        simulator.run(plan, &mut MemorySink::default()).expect_err("the plan is rejected")
    };
    let error = reject(Simulator::default(), &plan).to_string();
    assert!(error.contains("real transport stacks") && error.contains("feature `stacks`"), "{error}");

    let mut small = plan.clone();
    small.transport.mtu = Bytes::new(99);
    assert!(
        matches!(reject(simulator(1, toy), &small), PlanError::Setting(reason) if reason.contains("toy"))
    );

    let mut per_port = plan.clone();
    per_port.switch.mark_direction = MarkDirection::ReversePerPort;
    let error = reject(simulator(1, toy), &per_port);
    assert!(matches!(error, PlanError::Unsupported(reason) if reason.contains("per-port")), "{error}");

    // Datagrams carry no hop records, so a stack cannot run HPCC.
    let mut hpcc = plan.clone();
    hpcc.laws[0] = AnyParams::for_law("hpcc").expect("the law is registered");
    hpcc.switch.stamp = Stamp::HopRecords(RecordCarrier::Exact);
    hpcc.stacks[0].controller = None;
    let error = reject(simulator(1, toy), &hpcc);
    let is_signal = |error: &BuildError| matches!(error, BuildError::MissingSignals { .. });
    assert!(matches!(&error, PlanError::Law { connection: 0, error } if is_signal(error)), "{error}");

    let host = NodePort::new(Node::Host(HostId::new(0)), PortId::new(0));
    let recording = Recording { captured_ports: vec![host], ..Recording::NOTHING };
    let error = simulator(1, toy).record(&plan, &recording, &mut MemorySink::default());
    assert!(matches!(error, Err(PlanError::Unsupported(reason)) if reason.contains("captures")));
}

#[test]
fn packets_and_bytes_are_conserved_when_a_run_is_cut() {
    let factory: &'static ToyFactory = ToyFactory::leak(16, 100);
    for stop in [us(3), us(10), Picos::new(23_456_789), us(50)] {
        let ends: Vec<_> = (4..16).map(|from| (from, 0)).collect();
        let mut plan = stack_plan(TREE, &ends, 1_000_000);
        plan.switch.buffer = PerQueue { size: Bytes::new(40_000) }.into();
        plan.stop = stop;
        // The simulator itself checks that packets and bytes balance.
        let (rows, report) = run(&plan, factory);
        assert!(report.in_flight > 0, "{stop}: {report:?}");
        assert_eq!(report.sent, report.delivered + report.dropped + report.in_flight, "{stop}: {report:?}");
        let other = run_with(simulator(4, factory), &plan);
        assert!(other == (rows, report), "{stop}: 4 threads");
    }
}

#[test]
fn long_flow_sends_at_line_rate_until_it_ends() {
    let mut plan = stack_plan(Topology::dumbbell(2, LINK, SLOW), &[(0, 2), (1, 3)], 1);
    let end = us(1_000);
    plan.messages[0].amount = Amount::Until(end);
    plan.messages[1].amount = Amount::ENDLESS;
    plan.stop = us(1_300);
    plan.watched_connections = connection_ids(0..2);
    plan.sample_every = us(100);
    let (rows, report) = run(&plan, ToyFactory::leak(64, 5_000));
    let row = rows.messages.first().expect("the first flow ends");
    assert_eq!(rows.messages.len(), 1, "the second flow never ends");
    // Both flows have 64 datagrams in flight when the first one ends, which take 171 us at 25 Gbps.
    assert!(row.acknowledged > end + us(160) && row.acknowledged < end + us(190), "{row:?}");
    assert_eq!(rows.received.len(), 1);
    let received = |connection: u32, time| {
        let row = rows.receivers.iter().find(|row| (row.connection.get(), row.time) == (connection, time));
        row.expect("the connection is sampled").received.get()
    };
    for connection in [0, 1] {
        let rate = (received(connection, us(1_000)) - received(connection, us(500))) as f64 * 8.0 / 500e3;
        // Of 4,164 B on the wire, 4,113 B are message bytes.
        let half = 12.5 * 4_113.0 / 4_164.0;
        assert!((rate / half - 1.0).abs() < 0.02, "connection {connection} gets {rate} Gbps, not {half}");
    }
    let total = received(0, us(1_300)) + received(1, us(1_300));
    assert_eq!(report.delivered_bytes, Bytes::new(total), "each byte counts once");
    let full = rows.senders.iter().filter(|row| row.in_flight > 60);
    assert!(
        full.clone().count() > 10 && full.clone().all(|row| row.window.floor() == 64),
        "the window is full"
    );
    // While both flows send, the queue contains nearly all of their datagrams.
    let both_send = |row: &&SenderRow| (us(500)..=end).contains(&row.time);
    let queueing = Nanos::from_micros(165)..Nanos::from_micros(180);
    assert!(full.filter(both_send).all(|row| queueing.contains(&row.srtt)));
}

#[test]
fn stacks_and_the_simulators_transport_share_the_wire_of_a_host() {
    let mut plan = stack_plan(Topology::star(3, LINK), &[(0, 1), (0, 2)], 1);
    plan.laws.push(plan.laws[0].clone());
    plan.laws[1].set("window", "100 packets").expect("the value is valid");
    plan.connections[1].law = 1;
    for message in &mut plan.messages {
        (message.start, message.amount) = (Picos::ZERO, Amount::ENDLESS);
    }
    plan.stop = us(500);
    plan.watched_ports = vec![
        SwitchPort::new(SwitchId::new(0), PortId::new(1)),
        SwitchPort::new(SwitchId::new(0), PortId::new(2)),
    ];
    plan.sample_every = us(500);
    let (rows, _) = run(&plan, ToyFactory::leak(100, 5_000));
    let [stack, own] = [1, 2].map(|port| {
        let row = rows.queues.iter().find(|row| row.port == PortId::new(port)).expect("the port is sampled");
        row.sent.get() as f64
    });
    assert!((stack / own - 1.0).abs() < 0.01, "the connections take turns: {stack} and {own} bytes");
}

#[test]
fn time_advances_if_a_stack_asks_for_timeouts_in_the_past() {
    let plan = stack_plan(TREE, &[(0, 5)], 100_000);
    let (regular_rows, regular) = run(&plan, ToyFactory::leak(8, 100));
    let factory = ToyFactory::leak(8, 100);
    factory.past_timeouts = true;
    let (rows, report) = run(&plan, factory);
    assert!(rows == regular_rows && report.result_hash == regular.result_hash);
}

#[test]
#[should_panic(expected = "packets have at most 4164 B")]
fn datagram_that_exceeds_a_packet_is_a_bug_of_the_stack() {
    let factory = ToyFactory::leak(8, 100);
    factory.excess = 1;
    run(&stack_plan(TREE, &[(0, 5)], 100_000), factory);
}

#[test]
fn datagrams_of_the_receiver_use_the_priority_of_acks() {
    let chain = Topology::Chain(Chain { switches: 2, hosts: 2, host_link: LINK, middle_link: SLOW });
    // The ACKs of the stack share a slow link with a long flow in the opposite direction.
    let mut plan = stack_plan(chain, &[(0, 2), (3, 1)], 100_000);
    plan.laws.push(plan.laws[0].clone());
    plan.laws[1].set("window", "500 packets").expect("the value is valid");
    plan.connections[1].law = 1;
    plan.messages[0].start = us(200);
    (plan.messages[1].start, plan.messages[1].amount) = (Picos::ZERO, Amount::ENDLESS);
    plan.messages.swap(0, 1);
    plan.switch.priorities = 2;
    for connection in &mut plan.connections {
        connection.priority = 1;
    }
    plan.stop = us(2_000);
    let latency = |plan: &Plan| {
        let (rows, _) = run(plan, ToyFactory::leak(100, 5_000));
        let row = rows.messages.iter().find(|row| row.start == us(200)).expect("the message finishes");
        row.acknowledged - row.start
    };
    let slow = latency(&plan);
    plan.transport.ack_priority = Some(0);
    let fast = latency(&plan);
    assert!(fast < us(60) && slow > us(300), "ACKs wait behind 500 packets: {fast} and {slow}");
}
