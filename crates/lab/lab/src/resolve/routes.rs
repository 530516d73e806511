//! What follows from the ways that connections go: shared uplinks, watched queues, fair shares.

use super::{BufferOf, QueueOf, Resolved, Window};
use crate::oracle;
use crate::scenario::{self, Place, Scenario};
use poseidon_plan::patterns::Racks;
use poseidon_plan::traffic::{Amount, Connection};
use poseidon_plan::{Backend, Topology};
use std::collections::BTreeMap;

/// Finds an entropy for each flow that is to take the uplink of another.
pub(super) fn share_uplinks(
    resolved: &mut Resolved,
    scenario: &Scenario,
    backend: &dyn Backend,
) -> Result<(), String> {
    const TRIES: u32 = 4_096;
    for spec in &scenario.traffic {
        let Some(other) = &spec.share_uplink_of else { continue };
        let group = |name: &str| resolved.groups.iter().find(|group| group.name == name);
        let (Some(with), Some(these)) = (group(other), group(&spec.name)) else {
            return Err(format!("traffic {:?}: share-uplink-of names no traffic {other:?}", spec.name));
        };
        let Some(first) = resolved.plan.connections.get(with.connections.start as usize).copied() else {
            continue;
        };
        let these = these.connections.clone();
        let uplink =
            backend.routes(&resolved.plan, &[first]).first().and_then(|route| route.first().copied());
        for index in these {
            let connection = resolved.plan.connections[index as usize];
            // From its own entropy on, so that seeds differ.
            let tries: Vec<Connection> = (0..TRIES)
                .map(|step| Connection { entropy: connection.entropy.wrapping_add(step), ..connection })
                .collect();
            let mut found = None;
            for few in tries.chunks(64) {
                let routes = backend.routes(&resolved.plan, few);
                found = few.iter().zip(routes).find(|(_, route)| route.first().copied() == uplink);
                if found.is_some() {
                    break;
                }
            }
            let Some((with, _)) = found else {
                return Err(format!(
                    "traffic {:?}: none of its paths shares the uplink of {other:?}; put both in one rack",
                    spec.name
                ));
            };
            resolved.plan.connections[index as usize].entropy = with.entropy;
        }
    }
    Ok(())
}

pub(super) fn watch_queues(
    resolved: &mut Resolved,
    scenario: &Scenario,
    backend: &dyn Backend,
) -> Result<(), String> {
    let names: Vec<&str> = resolved.groups.iter().map(|group| group.name.as_str()).collect();
    for (name, text) in &scenario.observe.queues {
        let (place, group) =
            scenario::queue(text, &names).map_err(|why| format!("observe.queues.{name}: {why}"))?;
        let group = resolved.groups.iter().find(|other| other.name == group);
        let first = group.and_then(|group| resolved.plan.connections.get(group.connections.start as usize));
        let Some(first) = first else { continue };
        let route = backend.routes(&resolved.plan, &[*first]).remove(0);
        let hop = match place {
            Place::LastHop => route.len().saturating_sub(1),
            Place::Hop(hop) => hop as usize,
            Place::Circuit => {
                let Topology::Rotor(rotor) = &resolved.plan.topology else {
                    return Err(format!("observe.queues.{name}: only a rotor has circuits"));
                };
                // The circuit is behind the uplink, and both serve the same queues.
                let port = (first.from / rotor.hosts, rotor.hosts + 1);
                resolved.queues.push(QueueOf { name: name.clone(), port, rate: rotor.circuit_link.rate });
                continue;
            }
        };
        let Some(port) = route.get(hop) else {
            return Err(format!("observe.queues.{name}: there are only {} hops on that way", route.len()));
        };
        let links = resolved.plan.topology.links_between(first.from, first.to);
        let link = links.get(hop + 1).copied().unwrap_or_else(|| resolved.plan.topology.host_link(first.to));
        resolved.queues.push(QueueOf { name: name.clone(), port: *port, rate: link.rate });
    }
    watch(resolved, resolved.queues.iter().map(|queue| queue.port).collect());
    Ok(())
}

fn watch(resolved: &mut Resolved, ports: Vec<(u32, u32)>) {
    resolved.plan.watched.extend(ports);
    resolved.plan.watched.sort_unstable();
    resolved.plan.watched.dedup();
}

pub(super) fn watch_buffers(
    resolved: &mut Resolved,
    scenario: &Scenario,
    racks: &Racks,
    backend: &dyn Backend,
) -> Result<(), String> {
    for (name, text) in &scenario.observe.buffers {
        // Switches of racks have the numbers of their racks.
        let switches =
            scenario::racks(text, racks).map_err(|why| format!("observe.buffers.{name}: {why}"))?;
        for switch in &switches {
            let ports = 0..backend.ports(&resolved.plan, *switch);
            watch(resolved, ports.map(|port| (*switch, port)).collect());
        }
        resolved.buffers.push(BufferOf { name: name.clone(), switches });
    }
    Ok(())
}

/// Gives each long flow its max-min fair share of each phase in which it runs from the moment that it is measured to its end.
pub(super) fn give_fair_shares(resolved: &mut Resolved, backend: &dyn Backend) {
    let plan = &resolved.plan;
    let mut long = Vec::new();
    for group in resolved.groups.iter().filter(|group| group.is_long) {
        for message in &group.messages.messages {
            let message = plan.messages[*message as usize];
            if let Amount::Until(until) = message.amount {
                long.push((message.connection, message.at, until));
            }
        }
    }
    let connections: Vec<Connection> = long.iter().map(|(c, ..)| plan.connections[*c as usize]).collect();
    let routes = backend.routes(plan, &connections);
    let payload = plan.transport.mtu.get() as f64 / plan.data_size().get() as f64;
    let shares = |window: &Window| {
        let mut fair = vec![0.0; plan.connections.len()];
        let runs = |i: &usize| long[*i].1 <= window.settled && long[*i].2 >= window.ends;
        let active: Vec<usize> = (0..long.len()).filter(runs).collect();
        let (mut links, mut capacities) = (BTreeMap::new(), Vec::new());
        let mut flows = Vec::new();
        for &i in &active {
            let connection = connections[i];
            let wires = plan.topology.links_between(connection.from, connection.to);
            // The sender's own wire, and every port on the way.
            let ports = core::iter::once((u32::MAX, connection.from)).chain(routes[i].iter().copied());
            let flow = ports
                .zip(&wires)
                .map(|(port, wire)| {
                    *links.entry(port).or_insert_with(|| {
                        capacities.push(wire.rate);
                        capacities.len() - 1
                    })
                })
                .collect();
            flows.push(oracle::Flow { links: flow, limit: None });
        }
        for (i, rate) in active.iter().zip(oracle::max_min(&capacities, &flows)) {
            fair[long[*i].0 as usize] = rate * payload;
        }
        fair
    };
    let fair: Vec<Vec<f64>> = resolved.phases.iter().map(shares).collect();
    for (window, fair) in resolved.phases.iter_mut().zip(fair) {
        window.fair = fair;
    }
}
