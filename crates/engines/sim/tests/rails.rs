//! Rail-optimised networks: routes, NIC rates and link failures.

mod common;

use common::{run, us};
use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::records::{DropCause, MemorySink};
use poseidon_plan::topology::{Rails, RailsTier};
use poseidon_plan::traffic::{Amount, Connection};
use poseidon_plan::{Backend, Link, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{BitRate, Bytes, ConnectionId, HostId, PortId, SwitchId};
use std::collections::BTreeSet;

/// Seven servers of four GPUs, in groups of three, three and one.
const RAILS: Rails = Rails {
    servers: 7,
    gpus: 4,
    servers_per_leaf: 3,
    spines: 3,
    local_link: Link { rate: BitRate::from_gbps(3_600), ..LINK },
    rail_link: LINK,
    spine_link: LINK,
};

fn plan(ends: &[(u32, u32)]) -> Plan {
    let mut plan = plans::plan(Topology::Rails(RAILS), "fixed", ends);
    plan.laws[0].set("window", "200 packets").expect("the value is valid");
    plan.stop = us(1_000);
    for message in &mut plan.messages {
        message.start = us(0);
    }
    plan
}

/// Returns the total rate at which connections received data in the second half of the run, in Gbps.
fn total_gbps(mut plan: Plan) -> f64 {
    plan.watched_connections = (0..plan.connections.len()).map(ConnectionId::from_index).collect();
    plan.sample_every = us(500);
    let rows = run(&plan).0;
    let received = |time| -> u64 {
        rows.receivers.iter().filter(|row| row.time == time).map(|row| row.received.get()).sum()
    };
    (received(us(1_000)) - received(us(500))) as f64 * 8.0 / 500e3
}

#[test]
fn every_route_uses_the_rail_of_its_receiver() {
    let plan = plan(&[]);
    let tier = |switch| RAILS.tier(switch);
    let mut spines = BTreeSet::new();
    for (from, to) in (0..28).flat_map(|from| (0..28).map(move |to| (from, to))).filter(|(a, b)| a != b) {
        let candidates: Vec<Connection> = (0..8)
            .map(|entropy| Connection {
                from: HostId::new(from),
                to: HostId::new(to),
                law: 0,
                entropy,
                priority: 0,
            })
            .collect();
        for route in Simulator::default().routes(&plan, &candidates) {
            let hops = plan.topology.hops(HostId::new(from), HostId::new(to));
            assert_eq!(route.len() + 1, hops as usize, "{from} {to}");
            let (server, rail) = (to / 4, to % 4);
            let last = route.last().expect("a route is not empty");
            assert_eq!((last.switch, last.port), (SwitchId::new(server), PortId::new(rail)), "{from} {to}");
            assert_eq!(route[0].switch, SwitchId::new(from / 4), "{from} {to}");
            if hops == 2 {
                continue;
            }
            assert_eq!(route[0].port, PortId::new(4 + rail), "{from} {to}");
            assert_eq!(tier(route[1].switch), RailsTier::Leaf { group: from / 12, rail }, "{from} {to}");
            if hops == 6 {
                assert!(matches!(tier(route[2].switch), RailsTier::Spine { .. }), "{from} {to}");
                assert_eq!(tier(route[3].switch), RailsTier::Leaf { group: to / 12, rail }, "{from} {to}");
                spines.insert(route[2].switch);
            }
        }
    }
    assert_eq!(spines.len(), 3, "flows use all spines");
}

#[test]
fn each_rail_has_its_own_capacity() {
    // Four GPUs send to the four GPUs of another server. Each flow has a rail of 200 Gbps to itself.
    let own_rails = total_gbps(plan(&[(0, 4), (1, 5), (2, 6), (3, 7)]));
    assert!((795.0..=800.5).contains(&own_rails), "{own_rails}");
    // All four send to one GPU, so they share its rail.
    let one_rail = total_gbps(plan(&[(0, 4), (1, 4), (2, 4), (3, 4)]));
    assert!((198.0..=200.5).contains(&one_rail), "{one_rail}");
    // One GPU uses all four rails at once, because its own link is faster.
    let one_sender = total_gbps(plan(&[(0, 4), (0, 5), (0, 6), (0, 7)]));
    assert!((795.0..=800.5).contains(&one_sender), "{one_sender}");
    // Inside a server, only the window limits a flow: 200 packets per round trip.
    let local_plan = plan(&[(0, 1)]);
    let rtt_ns = local_plan.base_rtt(HostId::new(0), HostId::new(1)).get() as f64 / 1_000.0;
    let (local, expected) = (total_gbps(local_plan), 200.0 * 4_096.0 * 8.0 / rtt_ns);
    assert!(expected > 2_900.0 && (local / expected - 1.0).abs() < 0.01, "{local} {expected}");
}

#[test]
fn law_starts_at_the_rate_of_the_nic() {
    let plan = plan(&[(0, 4), (0, 1)]);
    let line_rate = |index: usize| plan.path(&plan.connections[index]).line_rate;
    assert_eq!((line_rate(0), line_rate(1)), (BitRate::from_gbps(200), BitRate::from_gbps(3_600)));
    // The estimate of in-flight packets uses the same rate.
    let in_flight = |ends: &[(u32, u32)]| {
        let with = plans::plan(Topology::Rails(RAILS), "fixed", ends);
        Simulator::estimate_memory(&with)
    };
    assert!(in_flight(&[(0, 4)]) < in_flight(&[(0, 1)]));
}

#[test]
fn failed_spine_link_is_avoided_and_a_failed_rail_drops() {
    let drops = |rows: &MemorySink, from: u64| {
        rows.drops.iter().filter(|row| row.cause == DropCause::Link && row.time > us(from)).count()
    };
    let message = |mut plan: Plan| {
        plan.messages[0].amount = Amount::Exactly(Bytes::new(5_000_000));
        plan
    };
    // Leaf 7 has three servers, so its ports 3 to 5 lead to the spine.
    let mut plan = message(plan(&[(0, 12)]));
    plan.link_changes = (3..5).map(|port| plans::link_change(us(50), 7, port, LinkEvent::Down)).collect();
    let (rows, report) = run(&plan);
    assert_eq!(rows.messages.len(), 1, "{report:?}");
    assert_eq!(drops(&rows, 51), 0, "packets take the remaining spine switch");
    // Port 4 of server 0 is its NIC of rail 0. There is no other way to GPU 0 of another server.
    plan.link_changes = vec![plans::link_change(us(50), 0, 4, LinkEvent::Down)];
    let (rows, _) = run(&plan);
    assert!(rows.messages.is_empty() && drops(&rows, 51) > 0);
}
