//! Checks that completion times on unloaded paths match closed-form results to the picosecond.

use poseidon_laws::AnyParams;
use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{DelayCarrier, Pause, PerQueue, Stamp, Step, SwitchOverride};
use poseidon_plan::topology::{Edges, Rails, Rotor, Tiers};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, HostId, Nanos, Picos, SwitchId};

const FAST: Link = plans::LINK;
const SLOW: Link = Link { rate: BitRate::from_gbps(25), delay: Picos::new(1_000_000) };
/// A rate at which one byte does not take a whole number of picoseconds.
const ODD: Link = Link { rate: BitRate::from_mbps(3_333), delay: Picos::new(333_333) };

/// A rotor whose first circuit never ends and does not connect rack 0 to rack 2.
const STATIC_ROTOR: Rotor = Rotor {
    racks: 4,
    hosts: 2,
    host_link: FAST,
    packet_link: SLOW,
    circuit_link: ODD,
    day: Picos::new(u64::MAX / 4),
    night: Picos::new(1),
    notice: Picos::ZERO,
};
/// Five servers of four GPUs, in groups of two, two and one.
const RAILS: Rails = Rails {
    servers: 5,
    gpus: 4,
    servers_per_leaf: 2,
    spines: 3,
    local_link: Link { rate: BitRate::from_gbps(3_600), delay: Picos::new(100_000) },
    rail_link: FAST,
    spine_link: ODD,
};
const LINK_LIST: &str = "h0 s0 100 Gbps 1 us\ns0 s1 40 Gbps 500 ns\ns1 s2 25 Gbps 2 us\ns0 s3 1 Gbps 1 us
    s3 s1 1 Gbps 1 us\nh1 s1 10 Gbps 3 us\nh2 s2 3333 Mbps 77 ns";

fn plan(topology: Topology, from: u32, to: u32, size: u64) -> Plan {
    let mut plan = plans::plan(topology, "fixed", &[(from, to)]);
    plan.laws[0].set("window", "32768 packets").expect("the value is valid");
    plan.stop = Picos::from_nanos(Nanos::from_millis(1_000));
    plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
    plan.transport.header = Bytes::new(64);
    plan.transport.min_rto = Nanos::from_millis(100);
    plan.transport.first_rto = Nanos::from_millis(100);
    plan.messages[0] = Message {
        connection: ConnectionId::new(0),
        start: Picos::new(12_345),
        amount: Amount::Exactly(Bytes::new(size)),
    };
    plan
}

fn run(plan: &Plan) -> (MemorySink, Report) {
    let mut rows = MemorySink::default();
    let report = Simulator::default().run(plan, &mut rows).expect("the plan runs");
    (rows, report)
}

/// Computes the arrival time of the last ACK under store-and-forward: a packet leaves a node when it has
/// fully arrived and the previous packet has left.
fn store_and_forward_time(plan: &Plan) -> Picos {
    let connection = plan.connections[0];
    let message = plan.messages[0];
    let size = message.amount.bytes().expect("the message has a size").get();
    let (mtu, header) = (plan.transport.mtu.get(), plan.data_overhead().get());
    let packets = size.div_ceil(mtu);
    let bytes = |i: u64| header + if i + 1 == packets { size - (packets - 1) * mtu } else { mtu };
    let mut arrivals = vec![message.start; usize::try_from(packets).expect("the count is small")];
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
    cross(connection.to, connection.from, &|_| plan.ack_size().get());
    *arrivals.last().expect("there is a packet")
}

fn topologies() -> Vec<(&'static str, Topology, u32, u32)> {
    let mixed = Topology::Tiers(Tiers {
        pods: 4,
        racks: 2,
        hosts: 3,
        aggregation: 2,
        cores: 2,
        host_link: SLOW,
        rack_link: FAST,
        core_link: ODD,
    });
    vec![
        ("star", Topology::star(4, FAST), 0, 3),
        ("star at an odd rate", Topology::star(2, ODD), 1, 0),
        ("dumbbell with a slow middle", Topology::dumbbell(2, FAST, SLOW), 1, 2),
        ("dumbbell with slow edges", Topology::dumbbell(2, SLOW, FAST), 3, 0),
        (
            "parking lot",
            Topology::Chain(poseidon_plan::topology::Chain {
                switches: 5,
                hosts: 2,
                host_link: FAST,
                middle_link: ODD,
            }),
            1,
            8,
        ),
        ("fat tree, same rack", Topology::fat_tree(4, FAST), 0, 1),
        ("fat tree, same pod", Topology::fat_tree(4, FAST), 0, 3),
        ("fat tree, other pod", Topology::fat_tree(4, FAST), 0, 15),
        ("three tiers of three rates", mixed, 1, 20),
        ("Poseidon's Clos", Topology::poseidon_clos(12), 0, 24 * 10),
        ("PowerTCP's fat tree", Topology::powertcp_fat_tree(), 0, 255),
        ("VAI + SF's fat tree", Topology::vai_sf_fat_tree(), 0, 319),
        ("RPM's testbed", Topology::rpm_testbed(&[Nanos::from_millis(3); 10]), 4, 14),
        ("a rotor's packet network", Topology::Rotor(STATIC_ROTOR), 0, 5),
        ("a rotor, same rack", Topology::Rotor(STATIC_ROTOR), 0, 1),
        ("rails, same server", Topology::Rails(RAILS), 0, 3),
        ("rails, same group", Topology::Rails(RAILS), 0, 5),
        ("rails, other group", Topology::Rails(RAILS), 1, 18),
        ("a list of links", Topology::Edges(Edges::parse(LINK_LIST).expect("the list is valid")), 0, 2),
    ]
}

#[test]
fn completion_time_on_an_unloaded_path_matches_the_closed_form() {
    for (name, topology, from, to) in topologies() {
        for size in [1, 100, 4_096, 4_097, 8_192, 100_000, 1_000_000] {
            let plan = plan(topology.clone(), from, to, size);
            let (rows, report) = run(&plan);
            let row = rows.messages.first().unwrap_or_else(|| panic!("{name}, {size} B: not finished"));
            assert_eq!(row.acknowledged, store_and_forward_time(&plan), "{name}, {size} B");
            assert_eq!((row.retransmitted, report.dropped, report.in_flight), (0, 0, 0), "{name}, {size} B");
            assert_eq!(report.delivered_bytes, Bytes::new(size), "{name}, {size} B");
            let hops =
                u64::from(plan.topology.hops(HostId::new(from), HostId::new(to))) * 2 * size.div_ceil(4_096);
            assert_eq!(report.packet_hops, hops, "{name}, {size} B");
        }
    }
}

#[test]
fn priorities_pfc_and_marking_do_not_slow_an_unloaded_path() {
    for (name, topology, from, to) in topologies() {
        if matches!(topology, Topology::Rotor(_)) {
            continue;
        }
        let mut plan = plan(topology, from, to, 100_000);
        plan.switch.priorities = 4;
        plan.connections[0].priority = 2;
        plan.transport.ack_priority = Some(0);
        plan.switch.mark = Step { threshold: Bytes::new(10) }.into();
        plan.switch.pause = Pause::Pfc {
            memory: Bytes::new(1 << 34),
            alpha: Fraction::ratio(1, 8),
            resume: Bytes::new(3_000),
        };
        let (rows, report) = run(&plan);
        assert_eq!(rows.messages[0].acknowledged, store_and_forward_time(&plan), "{name}");
        assert_eq!(report.pauses, 0, "{name}");
    }
}

#[test]
fn one_packet_takes_the_base_rtt_of_the_plan() {
    for (name, topology, from, to) in topologies() {
        let plan = plan(topology, from, to, 4_096);
        let (rows, _) = run(&plan);
        let duration = rows.messages[0].acknowledged - rows.messages[0].start;
        assert_eq!(duration, plan.base_rtt(HostId::new(from), HostId::new(to)), "{name}");
    }
}

#[test]
fn same_plan_gives_the_same_result() {
    let plan = plan(Topology::fat_tree(4, FAST), 0, 15, 1_000_000);
    assert_eq!(run(&plan), run(&plan));
}

#[test]
fn invalid_plan_is_rejected_with_a_specific_error() {
    let valid = plan(Topology::star(4, FAST), 0, 3, 1_000);
    let error = |change: &dyn Fn(&mut Plan)| {
        let mut invalid = valid.clone();
        change(&mut invalid);
        Simulator::default()
            .run(&invalid, &mut MemorySink::default())
            .expect_err("the plan is rejected")
            .to_string()
    };
    assert_eq!(
        error(&|p| p.connections[0].to = HostId::new(4)),
        "connection 0: one of its hosts does not exist"
    );
    assert_eq!(
        error(&|p| p.connections[0].to = HostId::new(0)),
        "connection 0: its sender and receiver are the same host"
    );
    assert_eq!(
        error(&|p| p.messages[0].connection = ConnectionId::new(7)),
        "message 0: its connection does not exist"
    );
    assert_eq!(
        error(&|p| p.laws[0] = AnyParams::for_law("hpcc").expect("the law exists")),
        "connection 0: law \"hpcc\" needs hop-records; \
         the host supplies rtt, ecn-echo, max-hop-delay, reverse-max-hop-delay, hop-count"
    );
    assert_eq!(
        error(&|p| p.switch.buffer = PerQueue { size: Bytes::new(100) }.into()),
        "a buffer of 100 B does not hold one packet"
    );
    let own = |switch, buffer: Option<u64>, marks: bool| SwitchOverride {
        switch: SwitchId::new(switch),
        buffer: buffer.map(|size| PerQueue { size: Bytes::new(size) }.into()),
        mark: marks.then(|| Step { threshold: Bytes::new(10) }.into()),
    };
    assert_eq!(
        error(&|p| p.switch_overrides = vec![own(1, None, true)]),
        "policies of switch 1: the switch does not exist"
    );
    assert_eq!(
        error(&|p| p.switch_overrides = vec![own(0, None, false)]),
        "policies of switch 0: they do not differ from those of the other switches"
    );
    assert_eq!(
        error(&|p| p.switch_overrides = vec![own(0, Some(100), false)]),
        "a buffer of 100 B does not hold one packet"
    );
    assert_eq!(
        error(&|p| p.switch_overrides = vec![own(0, None, true), own(0, None, true)]),
        "switches: sort the switches with their own policies, and list each of them once"
    );
    let pfc = Pause::Pfc { memory: Bytes::new(1 << 30), alpha: Fraction::ONE, resume: Bytes::ZERO };
    let with_pfc = |p: &mut Plan, buffer| {
        (p.switch.pause, p.switch_overrides) = (pfc, vec![own(0, buffer, true)]);
    };
    assert_eq!(
        error(&|p| with_pfc(p, Some(100_000))),
        "policies of switch 0: PFC ignores buffer policies; leave out one of them"
    );
    let mut marks_only = valid.clone();
    with_pfc(&mut marks_only, None);
    assert_eq!(run(&marks_only).1.dropped, 0);
    assert_eq!(
        error(&|p| p.topology = Topology::star(5_000, FAST)),
        "this backend does not support a switch with more than 4096 ports"
    );
}
