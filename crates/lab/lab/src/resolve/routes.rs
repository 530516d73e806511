//! Resolves settings that depend on connection paths: shared uplinks, watched queues and fair shares.

use super::{
    PhaseWindow, ResolvedRun, TrafficGroup, WatchedBuffers, WatchedLinks, WatchedQueue, traffic_error,
    traffic_path,
};
use crate::oracle;
use crate::scenario::{
    KeyPath, OneOrMore, QueuePosition, Scenario, SpecError, SpecErrorKind, Subject, select_queue,
    select_switches,
};
use poseidon_plan::traffic::{Amount, Connection};
use poseidon_plan::{Backend, Link, Plan, SwitchPort, Topology};
use poseidon_types::{HostId, Picos, PortId, SwitchId};
use std::collections::BTreeMap;

/// Chooses the entropy of each flow that must share another flow's uplink.
pub(super) fn share_uplinks(
    resolved: &mut ResolvedRun,
    scenario: &Scenario,
    backend: &dyn Backend,
) -> Result<(), SpecError> {
    for (index, spec) in scenario.traffic.iter().enumerate() {
        let Some(other) = &spec.share_uplink_of else { continue };
        let error = |kind: SpecErrorKind| {
            traffic_error(kind.at(["share-uplink-of"]), traffic_path(index), &spec.name)
        };
        let find_group = |name: &str| resolved.groups.iter().find(|group| group.name == name);
        let (Some(other_group), Some(group)) = (find_group(other), find_group(&spec.name)) else {
            return Err(error(SpecErrorKind::UnknownUplinkTraffic { traffic: other.clone() }));
        };
        let Some(first) = first_connection(&resolved.plan, other_group) else { continue };
        let uplink =
            backend.routes(&resolved.plan, &[first]).first().and_then(|route| route.first().copied());
        for connection in group.connections.clone() {
            let entropy = find_entropy(&resolved.plan, connection as usize, uplink, backend)
                .ok_or_else(|| error(SpecErrorKind::NoSharedUplink { traffic: other.clone() }))?;
            resolved.plan.connections[connection as usize].entropy = entropy;
        }
    }
    Ok(())
}

fn first_connection(plan: &Plan, group: &TrafficGroup) -> Option<Connection> {
    plan.connections.get(group.connections.start as usize).copied()
}

/// Finds an entropy value that routes a connection over an uplink.
fn find_entropy(
    plan: &Plan,
    connection: usize,
    uplink: Option<SwitchPort>,
    backend: &dyn Backend,
) -> Option<u32> {
    const TRIES: u32 = 4_096;
    let connection = plan.connections[connection];
    // The search starts at the connection's current entropy, so that the result varies with the seed.
    let candidates: Vec<Connection> = (0..TRIES)
        .map(|step| Connection { entropy: connection.entropy.wrapping_add(step), ..connection })
        .collect();
    candidates.chunks(64).find_map(|candidates| {
        let routes = backend.routes(plan, candidates);
        let mut routed = candidates.iter().zip(routes);
        let found = routed.find(|(_, route)| route.first().copied() == uplink);
        found.map(|(candidate, _)| candidate.entropy)
    })
}

pub(super) fn watch_queues(
    resolved: &mut ResolvedRun,
    scenario: &Scenario,
    backend: &dyn Backend,
) -> Result<(), SpecError> {
    let names: Vec<&str> = resolved.groups.iter().map(|group| group.name.as_str()).collect();
    let mut queues = Vec::new();
    for (name, text) in &scenario.observe.queues {
        let path = KeyPath::new(["observe", "queues", name]);
        let error = |kind: SpecErrorKind| kind.at_path(path.clone()).about(Subject::Key(path.clone()));
        let (position, group) =
            select_queue(text, &names).map_err(|cause| error(SpecErrorKind::Selection(cause)))?;
        let group = resolved.groups.iter().find(|candidate| candidate.name == group);
        let first = group.and_then(|group| first_connection(&resolved.plan, group));
        let Some(first) = first else { continue };
        queues.push(find_queue(&resolved.plan, name, position, first, backend).map_err(error)?);
    }
    resolved.queues = queues;
    watch_ports(resolved, resolved.queues.iter().map(|queue| queue.port).collect());
    Ok(())
}

/// Finds a queue on a connection's path.
fn find_queue(
    plan: &Plan,
    name: &str,
    position: QueuePosition,
    connection: Connection,
    backend: &dyn Backend,
) -> Result<WatchedQueue, SpecErrorKind> {
    let route = backend.routes(plan, &[connection]).remove(0);
    let hop = match position {
        QueuePosition::LastHop => route.len().saturating_sub(1),
        QueuePosition::Hop(hop) => hop as usize,
        QueuePosition::Circuit => {
            let Topology::Rotor(rotor) = &plan.topology else { return Err(SpecErrorKind::NoCircuits) };
            // The circuit port follows the uplink port, and both serve the same queues.
            let rack = SwitchId::new(connection.from.get() / rotor.hosts);
            let port = SwitchPort::new(rack, PortId::new(rotor.hosts + 1));
            return Ok(WatchedQueue { name: name.to_owned(), port, rate: rotor.circuit_link.rate });
        }
    };
    let Some(port) = route.get(hop) else { return Err(SpecErrorKind::TooFewHops { hops: route.len() }) };
    let link = link_of(&plan.topology, *port).unwrap_or_else(|| plan.topology.host_link(connection.to));
    Ok(WatchedQueue { name: name.to_owned(), port: *port, rate: link.rate })
}

/// Returns the link of a switch port. Equal-cost paths may have links of different rates, so the link depends on the
/// route.
fn link_of(topology: &Topology, port: SwitchPort) -> Option<Link> {
    topology.ports(port.switch).get(port.port.index()).map(|(_, link)| *link)
}

fn watch_ports(resolved: &mut ResolvedRun, ports: Vec<SwitchPort>) {
    resolved.plan.watched_ports.extend(ports);
    resolved.plan.watched_ports.sort_unstable();
    resolved.plan.watched_ports.dedup();
}

pub(super) fn watch_buffers(
    resolved: &mut ResolvedRun,
    scenario: &Scenario,
    topology: &Topology,
    backend: &dyn Backend,
) -> Result<(), SpecError> {
    for (name, text) in &scenario.observe.buffers {
        let switches = observed_switches(("buffers", name), text, topology)?;
        let ports = ports_of(&resolved.plan, &switches, backend);
        watch_ports(resolved, ports);
        resolved.buffers.push(WatchedBuffers { name: name.clone(), switches });
    }
    Ok(())
}

pub(super) fn watch_links(
    resolved: &mut ResolvedRun,
    scenario: &Scenario,
    topology: &Topology,
    backend: &dyn Backend,
) -> Result<(), SpecError> {
    for (name, text) in &scenario.observe.links {
        let switches = observed_switches(("links", name), text, topology)?;
        let mut ports = ports_of(&resolved.plan, &switches, backend);
        ports.sort_unstable();
        ports.dedup();
        watch_ports(resolved, ports.clone());
        resolved.links.push(WatchedLinks { name: name.clone(), ports });
    }
    Ok(())
}

/// Selects the switches of one entry in a table of `[observe]`.
fn observed_switches(
    (table, name): (&str, &str),
    selectors: &OneOrMore,
    topology: &Topology,
) -> Result<Vec<SwitchId>, SpecError> {
    select_switches(selectors, topology).map_err(|error| {
        let path = KeyPath::new(["observe", table, name]);
        SpecErrorKind::Selection(error).at_path(path.clone()).about(Subject::Key(path))
    })
}

/// Returns all ports of these switches.
fn ports_of(plan: &Plan, switches: &[SwitchId], backend: &dyn Backend) -> Vec<SwitchPort> {
    let ports = |switch: &SwitchId| {
        let switch = *switch;
        (0..backend.port_count(plan, switch)).map(move |port| SwitchPort::new(switch, PortId::new(port)))
    };
    switches.iter().flat_map(ports).collect()
}

/// A long flow: its connection, its start and end times, and its route.
struct LongFlow {
    connection_index: usize,
    connection: Connection,
    start: Picos,
    end: Picos,
    route: Vec<SwitchPort>,
}

/// Assigns each long flow its max-min fair share, in every phase where the flow is active throughout the measured part.
pub(super) fn assign_fair_shares(resolved: &mut ResolvedRun, backend: &dyn Backend) {
    let flows = long_flows(resolved, backend);
    let shares: Vec<Vec<f64>> =
        resolved.phases.iter().map(|window| fair_shares(&resolved.plan, &flows, window)).collect();
    for (window, shares) in resolved.phases.iter_mut().zip(shares) {
        window.fair_shares = shares;
    }
}

fn long_flows(resolved: &ResolvedRun, backend: &dyn Backend) -> Vec<LongFlow> {
    let plan = &resolved.plan;
    let mut flows = Vec::new();
    for group in resolved.groups.iter().filter(|group| group.is_long) {
        for message in &group.messages.messages {
            let message = plan.messages[message.index()];
            if let Amount::Until(end) = message.amount {
                let connection_index = message.connection.index();
                let connection = plan.connections[connection_index];
                flows.push(LongFlow {
                    connection_index,
                    connection,
                    start: message.start,
                    end,
                    route: Vec::new(),
                });
            }
        }
    }
    let connections: Vec<Connection> = flows.iter().map(|flow| flow.connection).collect();
    for (flow, route) in flows.iter_mut().zip(backend.routes(plan, &connections)) {
        flow.route = route;
    }
    flows
}

/// A link: either a host's uplink or a switch port's link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkId {
    Host(HostId),
    Switch(SwitchPort),
}

/// Returns the fair share of each connection in a phase, as a payload rate in bits per second.
fn fair_shares(plan: &Plan, flows: &[LongFlow], window: &PhaseWindow) -> Vec<f64> {
    let payload_share = plan.transport.mtu.get() as f64 / plan.data_size().get() as f64;
    let runs_throughout = |flow: &&LongFlow| flow.start <= window.settled_at && flow.end >= window.end;
    let active: Vec<&LongFlow> = flows.iter().filter(runs_throughout).collect();
    let (mut link_indices, mut capacities) = (BTreeMap::new(), Vec::new());
    let mut oracle_flows = Vec::new();
    for flow in &active {
        let uplink = (LinkId::Host(flow.connection.from), plan.topology.host_link(flow.connection.from));
        let switch_links = flow.route.iter().filter_map(|port| {
            let link = link_of(&plan.topology, *port)?;
            Some((LinkId::Switch(*port), link))
        });
        let path = core::iter::once(uplink)
            .chain(switch_links)
            .map(|(id, link)| {
                *link_indices.entry(id).or_insert_with(|| {
                    capacities.push(link.rate);
                    capacities.len() - 1
                })
            })
            .collect();
        oracle_flows.push(oracle::Flow { links: path, limit: None });
    }
    let mut shares = vec![0.0; plan.connections.len()];
    for (flow, rate) in active.iter().zip(oracle::max_min(&capacities, &oracle_flows)) {
        shares[flow.connection_index] = rate * payload_share;
    }
    shares
}
