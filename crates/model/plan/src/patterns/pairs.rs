//! Per-pair connections.

use super::{Traffic, TrafficClass};
use poseidon_types::{ConnectionId, HostId};
use std::collections::BTreeMap;

/// A pattern's persistent connections, one per host pair.
#[derive(Default)]
pub(super) struct PersistentConnections(BTreeMap<(HostId, HostId), ConnectionId>);

impl PersistentConnections {
    /// Returns the connection between two hosts. If the pair has no connection yet, adds a new connection to `traffic`.
    pub(super) fn find_or_add(
        &mut self,
        traffic: &mut Traffic,
        class: &TrafficClass,
        from: HostId,
        to: HostId,
    ) -> ConnectionId {
        *self.0.entry((from, to)).or_insert_with(|| traffic.add_connection(class.connection(from, to, 0)))
    }
}

/// Counts the connections between each pair of hosts. A connection's random numbers depend only on its host pair and
/// its count.
#[derive(Default)]
pub(super) struct PairCounters(BTreeMap<(HostId, HostId), u64>);

impl PairCounters {
    /// Returns the number of earlier connections between these hosts.
    pub(super) fn next(&mut self, from: HostId, to: HostId) -> u64 {
        let count = self.0.entry((from, to)).or_default();
        *count += 1;
        *count - 1
    }
}
