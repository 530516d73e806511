//! Ring all-reduce.

use super::ring_all_gather::all_gather;
use super::ring_reduce_scatter::reduce_scatter;
use super::{Algorithm, Operation, Span, Transfers};

/// A ring reduce-scatter followed by a ring all-gather (Patarasuk and Yuan, 2009). Each rank sends `2 (n - 1) / n`
/// times the data size, which is optimal.
///
/// With `ranks_per_server`, channel `c` enters each server at its rank `c` and leaves it at the rank before that. The
/// channels therefore use different NICs, like the rings of NCCL.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "ring-all-reduce",
    operation: Operation::AllReduce,
    description: "ring reduce-scatter, then ring all-gather",
    check: |collective| {
        if collective.ranks_per_server.is_some() {
            collective.check_servers()?;
        }
        collective.check_channel_parts(collective.ranks.len())
    },
    count_messages: |collective| {
        collective.count_transfers(collective.ranks.len(), 2 * (collective.ranks.len() - 1))
    },
    add_transfers: |channel, transfers| {
        // Without servers, a rotation by zero ranks of a single group keeps the order.
        let server = channel.collective.ranks_per_server.map_or(1, |ranks| ranks as usize);
        let shift = channel.index as usize % server;
        let ring: Vec<usize> =
            (0..channel.ranks()).map(|i| i / server * server + (i % server + shift) % server).collect();
        all_reduce(transfers, &ring, channel.data);
    },
};

/// Adds a ring all-reduce between these ranks.
pub(super) fn all_reduce(transfers: &mut Transfers, ring: &[usize], data: Span) {
    reduce_scatter(transfers, ring, data);
    all_gather(transfers, ring, data);
}

#[cfg(test)]
mod tests {
    use crate::patterns::test_hosts::{connection_ends, hosts};
    use crate::patterns::{Algorithm, Collective, Pattern, PatternError, TrafficClass};
    use poseidon_types::Bytes;

    #[test]
    fn each_channel_leaves_the_servers_at_another_rank() {
        let ring = Algorithm::from_name("ring-all-reduce").expect("the algorithm exists");
        let collective = Collective {
            channels: 2,
            ranks_per_server: Some(2),
            ..Collective::new(ring, hosts(0..4), Bytes::new(800))
        };
        let traffic = collective.generate(&TrafficClass::new(1, "ring")).expect("the pattern is valid");
        let first = [(0, 1), (1, 2), (2, 3), (3, 0)];
        let second = [(1, 0), (0, 3), (3, 2), (2, 1)];
        assert_eq!(connection_ends(&traffic), [first, second].concat());
        let odd = Collective { ranks_per_server: Some(3), ..collective };
        let error = odd.generate(&TrafficClass::new(1, "ring")).expect_err("three does not divide four");
        assert!(!matches!(error, PatternError::UnusedSetting { .. }), "{error}");
    }
}
