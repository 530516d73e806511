//! Rings with many messages, which a plan stores as a rule.

use super::transfers::RankConnection;
use super::{Collective, ring_all_gather, ring_all_reduce, ring_reduce_scatter};
use crate::patterns::{CollectiveRuns, Group, PatternError, Traffic, TrafficClass, count_u32};
use crate::rings::Ring;
use poseidon_types::{ConnectionId, MessageId};

/// A ring with more messages than this is stored as a [`Ring`].
pub const MAX_EXPANDED_MESSAGES: u64 = 100_000;

impl Collective {
    /// Returns the rule of the messages, or `None` if the ranks do not form a single ring.
    pub(super) fn ring(&self) -> Option<Ring> {
        if self.groups != 1 {
            return None;
        }
        let hops = count_u32(self.ranks.len()) - 1;
        let (steps, lag) = if *self.algorithm == ring_all_reduce::ALGORITHM {
            (2 * hops, 1)
        } else if *self.algorithm == ring_reduce_scatter::ALGORITHM {
            (hops, 1)
        } else if *self.algorithm == ring_all_gather::ALGORITHM {
            (hops, 0)
        } else {
            return None;
        };
        Some(Ring {
            first_message: MessageId::new(0),
            first_connection: ConnectionId::new(0),
            ranks: count_u32(self.ranks.len()),
            channels: self.channels,
            ranks_per_server: self.ranks_per_server.unwrap_or(1),
            size: self.size,
            chunk: self.chunk,
            steps,
            lag,
            repetitions: self.repetitions,
            compute_gap: self.compute_gap,
            start: self.start,
        })
    }

    /// Returns whether [`Pattern::generate`](super::Pattern::generate) returns a ring instead of a list of messages.
    pub fn is_compact(&self) -> bool {
        self.check() == Ok(()) && self.ring().is_some() && self.count_messages() > MAX_EXPANDED_MESSAGES
    }

    /// Returns the number of entries that a ring needs in a plan and in its measurements.
    pub(super) fn compact_entries(&self) -> u64 {
        let ranks = self.ranks.len() as u64;
        ranks * u64::from(self.channels) + ranks * u64::from(self.repetitions)
    }

    /// Generates a ring whose messages are computed when they are due, even if there are only a few. Returns an error
    /// if the algorithm is not a single ring.
    pub fn generate_compact(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        self.check()?;
        let ring = self.ring().ok_or(PatternError::NotARing { algorithm: self.algorithm.name })?;
        let mut traffic = Traffic::default();
        for place in ring.places() {
            let (from, to) = (ring.rank(place), ring.rank(ring.next(place)));
            let number = RankConnection { from, to, channel: place.channel, lane: 0 }.number();
            let host = |rank: u32| self.ranks[rank as usize];
            traffic.add_connection(class.connection(host(from), host(to), number));
        }
        traffic.rings.push(ring);
        traffic.groups.push(Group { name: class.name.clone(), start: self.start, messages: Vec::new() });
        let runs = CollectiveRuns::of_ring(self.info(), self.ranks.clone(), self.repetitions);
        traffic.collectives.push(runs);
        Ok(traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;
    use crate::patterns::{Algorithm, Pattern};
    use crate::rings::RingTable;
    use crate::traffic::Message;
    use poseidon_types::{Bytes, Picos};
    use proptest::prelude::*;

    const RINGS: [&str; 3] = ["ring-all-reduce", "ring-all-gather", "ring-reduce-scatter"];

    fn collective(name: &str, ranks: u32, size: u64) -> Collective {
        let algorithm = Algorithm::from_name(name).expect("the algorithm exists");
        Collective::new(algorithm, hosts(0..ranks), Bytes::new(size))
    }

    /// Returns the sizes of each connection's messages, in order.
    fn sizes(connections: usize, messages: impl Iterator<Item = Message>) -> Vec<Vec<u64>> {
        let mut sizes = vec![Vec::new(); connections];
        for message in messages {
            sizes[message.connection.index()].push(message.amount.bytes().map_or(0, Bytes::get));
        }
        sizes
    }

    proptest! {
        #[test]
        fn compact_rings_have_the_messages_of_expanded_rings(
            name in proptest::sample::select(&RINGS[..]),
            servers in 1u32..4,
            ranks_per_server in 1u32..4,
            channels in 1u32..4,
            extra in 0u64..2_000,
            chunk in proptest::option::of(1u64..300),
            repetitions in 1u32..3,
        ) {
            let ranks = (servers * ranks_per_server).max(2);
            let uses_servers = name == "ring-all-reduce" && ranks.is_multiple_of(ranks_per_server);
            let collective = Collective {
                channels,
                chunk: chunk.map(Bytes::new),
                repetitions,
                ranks_per_server: uses_servers.then_some(ranks_per_server),
                start: Picos::new(5),
                ..collective(name, ranks, u64::from(ranks * channels) + extra)
            };
            let class = TrafficClass::new(3, "ring");
            let expanded = collective.generate_expanded(&class).expect("the pattern is valid").into_plan_order();
            let compact = collective.generate_compact(&class).expect("the pattern is valid").into_plan_order();
            prop_assert_eq!(&compact.connections, &expanded.connections);
            let table = RingTable::new(&compact.rings, Bytes::new(64));
            let [layout] = table.layouts() else { panic!("expected one ring") };
            prop_assert_eq!(layout.message_count(), expanded.messages.len() as u64);
            let connections = expanded.connections.len();
            let messages: Vec<Message> =
                layout.message_ids().map(|id| table.message(id).expect("the message exists")).collect();
            prop_assert_eq!(
                sizes(connections, messages.into_iter()),
                sizes(connections, expanded.messages.iter().copied())
            );
            for id in layout.message_ids() {
                let (_, place, index) = table.find_message(id).expect("the message exists");
                prop_assert_eq!(layout.message_id(place, index), id);
            }
        }
    }

    #[test]
    fn ring_with_many_messages_is_compact() {
        // 2 n (n - 1) messages: 99,904 for 224 ranks, and 100,800 for 225 ranks.
        assert!(!collective("ring-all-reduce", 224, 1_000_000).is_compact());
        let ring = collective("ring-all-reduce", 225, 1_000_000);
        assert!(ring.is_compact());
        let traffic = ring.generate(&TrafficClass::new(1, "ring")).expect("the pattern is valid");
        assert_eq!((traffic.connections.len(), traffic.messages.len(), traffic.rings.len()), (225, 0, 1));
        assert_eq!(ring.expected_messages(), 450.0);
        assert!(!collective("all-to-all", 1_000, 1_000_000).is_compact());
        let direct = collective("all-to-all", 4, 1_000);
        let error = direct.generate_compact(&TrafficClass::new(1, "direct"));
        assert_eq!(error, Err(PatternError::NotARing { algorithm: "all-to-all" }));
    }

    #[test]
    fn merged_rings_keep_their_connections_and_get_their_own_numbers() {
        let class = TrafficClass::new(1, "ring");
        let mut traffic =
            collective("ring-all-gather", 3, 30).generate(&class).expect("the pattern is valid");
        for _ in 0..2 {
            let ring = collective("ring-all-reduce", 4, 400).generate_compact(&class);
            traffic.merge(ring.expect("the pattern is valid"));
        }
        let traffic = traffic.into_plan_order();
        let firsts: Vec<_> = traffic
            .rings
            .iter()
            .map(|ring| (ring.first_connection.get(), ring.first_message.get()))
            .collect();
        assert_eq!(firsts, [(3, 6), (7, 30)]);
        assert_eq!(
            traffic.collectives.iter().map(|runs| runs.ring).collect::<Vec<_>>(),
            [None, Some(0), Some(1)]
        );
        let table = RingTable::new(&traffic.rings, Bytes::new(100));
        assert_eq!(table.find_message(MessageId::new(5)), None);
        let (ring, place, index) =
            table.find_message(MessageId::new(30 + 6 + 2)).expect("the message exists");
        assert_eq!((ring, place.channel, place.position, index), (1, 0, 1, 2));
        assert_eq!(table.find_message(MessageId::new(54)), None);
    }
}
