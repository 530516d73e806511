//! Permutation traffic, in which each host sends to one other host.

use super::error::{check_above_zero, check_hosts};
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::random::RandomKey;
use crate::traffic::Amount;
use poseidon_types::{HostId, Picos};

/// Each host sends to one other host and receives from one other host. All derangements are equally likely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    /// The hosts, at least two.
    pub hosts: Vec<HostId>,
    /// The amount of data that each host sends.
    pub amount: Amount,
    /// The time at which all hosts start sending.
    pub start: Picos,
}

impl Pattern for Permutation {
    fn expected_messages(&self) -> f64 {
        self.hosts.len() as f64
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        check_hosts(&self.hosts, 2)?;
        check_above_zero(self.amount.bytes().is_some_and(|size| size.is_zero()), "size")?;
        let mut traffic = Traffic::default();
        for (from, to) in self.hosts.iter().zip(draw_derangement(&self.hosts, class.random)) {
            let connection = traffic.add_connection(class.connection(*from, to, 0));
            traffic.add_message(connection, self.start, self.amount);
        }
        Ok(traffic.grouped(&class.name))
    }
}

/// Returns a random permutation of the hosts in which no host keeps its position.
///
/// About 1/e of all permutations are derangements, so the function shuffles the hosts until it finds a derangement.
fn draw_derangement(hosts: &[HostId], random: RandomKey) -> Vec<HostId> {
    let mut order = hosts.to_vec();
    for attempt in 0.. {
        random.nth(attempt).shuffle(&mut order);
        if order.iter().zip(hosts).all(|(to, from)| to != from) {
            break;
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn all_derangements_of_four_hosts_are_equally_likely() {
        // There are nine derangements. Each has an expected count of 1,000, with a standard deviation of 30.
        let mut counts = BTreeMap::<Vec<HostId>, u32>::new();
        for seed in 0..9_000 {
            *counts.entry(draw_derangement(&hosts(0..4), RandomKey::new(seed, "p"))).or_default() += 1;
        }
        assert_eq!(counts.len(), 9);
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn each_host_sends_to_one_host_and_receives_from_one(n in 2u32..200, seed: u64) {
            let permutation = Permutation { hosts: hosts(0..n), amount: Amount::ENDLESS, start: Picos::ZERO };
            let traffic = permutation.generate(&TrafficClass::new(seed, "p")).expect("the pattern is valid");
            prop_assert!(traffic.connections.iter().all(|connection| connection.from != connection.to));
            let mut receivers: Vec<HostId> = traffic.connections.iter().map(|connection| connection.to).collect();
            receivers.sort_unstable();
            prop_assert_eq!(receivers, permutation.hosts);
        }
    }
}
