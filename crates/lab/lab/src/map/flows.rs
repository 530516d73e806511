//! The flows that a map lists, with their routes.

use super::network::MapNetwork;
use crate::resolve::ResolvedRun;
use poseidon_plan::Backend;
use poseidon_plan::rings::Ring;
use poseidon_plan::traffic::Connection;
use poseidon_types::{HostId, Picos};

/// The maximum number of flows that a map lists.
pub(super) const MAX_FLOWS: usize = 5_000;

/// The flows of one traffic pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowGroup {
    pub(super) name: String,
    pub(super) law: String,
    /// The number of connections, of which the first ones are listed.
    pub(super) connections: usize,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// The number of the connection in the plan.
    pub(super) connection: usize,
    /// The index of the group.
    pub(super) group: usize,
    pub(super) from: HostId,
    pub(super) to: HostId,
    /// The channels of the egress ports from the sender's switch to the receiver.
    pub(super) route: Vec<usize>,
    /// When its first message starts, if the plan says so. A dependent message starts when another has finished.
    pub(super) start: Option<Picos>,
    /// The number of messages, or `None` if it belongs to a ring, of which a run records only some messages.
    pub(super) messages: Option<u64>,
}

/// The flows that a map lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flows {
    pub(super) groups: Vec<FlowGroup>,
    pub(super) flows: Vec<Flow>,
}

impl Flows {
    /// Lists the flows of a run: the first connections of each traffic pattern, at most [`MAX_FLOWS`] in total.
    pub(super) fn new(network: &MapNetwork, resolved: &ResolvedRun, backend: &dyn Backend) -> Self {
        let plan = &resolved.plan;
        let counts: Vec<usize> = resolved.groups.iter().map(|group| group.connections.len()).collect();
        let mut flows = Vec::new();
        for (index, (group, count)) in resolved.groups.iter().zip(share(&counts, MAX_FLOWS)).enumerate() {
            let numbers = group.connections.clone().take(count).map(|connection| connection as usize);
            flows.extend(numbers.filter_map(|number| Some((index, number, *plan.connections.get(number)?))));
        }
        let connections: Vec<Connection> = flows.iter().map(|(.., connection)| *connection).collect();
        let routes = backend.routes(plan, &connections);
        let mut messages: Vec<(u64, Option<Picos>)> = vec![(0, None); plan.connections.len()];
        for (message, is_dependent) in plan.messages.iter().zip(plan.dependent_mask()) {
            let (count, start) = &mut messages[message.connection.index()];
            *count += 1;
            if !is_dependent {
                *start = Some(start.map_or(message.start, |start| start.min(message.start)));
            }
        }
        let is_in_ring = |number: usize| {
            let is_in =
                |ring: &Ring| u32::try_from(number).is_ok_and(|number| ring.connections().contains(&number));
            plan.rings.iter().any(is_in)
        };
        let flows = flows.into_iter().zip(routes).map(|((group, number, connection), route)| Flow {
            connection: number,
            group,
            from: connection.from,
            to: connection.to,
            route: network.channels_on(&route),
            start: messages[number].1,
            messages: (!is_in_ring(number)).then_some(messages[number].0),
        });
        let groups = resolved.groups.iter().zip(&counts).map(|(group, connections)| FlowGroup {
            name: group.name.clone(),
            law: group.law.clone(),
            connections: *connections,
        });
        Self { groups: groups.collect(), flows: flows.collect() }
    }

    /// Returns the number of flows that are not listed.
    pub(super) fn omitted(&self) -> usize {
        self.groups.iter().map(|group| group.connections).sum::<usize>() - self.flows.len()
    }
}

/// Divides `limit` among groups. Groups that need less than an equal share leave the rest to the others.
fn share(counts: &[usize], limit: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|index| counts[*index]);
    let (mut shares, mut left) = (vec![0; counts.len()], limit);
    for (position, index) in order.iter().enumerate() {
        shares[*index] = counts[*index].min(left / (counts.len() - position));
        left -= shares[*index];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_share_the_limit() {
        assert_eq!(share(&[3, 2], 10), [3, 2]);
        assert_eq!(share(&[1_000, 2, 500], 10), [4, 2, 4]);
        assert_eq!(share(&[5, 5, 5], 10), [3, 3, 4]);
        assert_eq!(share(&[], 10), Vec::<usize>::new());
    }
}
