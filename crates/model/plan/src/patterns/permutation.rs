//! Permutation traffic, in which each host sends to one other host.

use super::error::{check_above_zero, check_hosts};
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::random::RandomKey;
use crate::traffic::Amount;
use poseidon_types::{HostId, Picos};

/// Each host sends to one other host and receives from one other host. All derangements are equally likely.
///
/// If `receivers` is set, each host sends to one of them instead, and each receiver receives from at most one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    /// The senders: at least two, or at least one if `receivers` is set.
    pub hosts: Vec<HostId>,
    /// The receivers, at least as many as `hosts`. If `None`, the hosts send to each other.
    pub receivers: Option<Vec<HostId>>,
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
        let receivers = match &self.receivers {
            None => {
                check_hosts(&self.hosts, 2)?;
                draw_derangement(&self.hosts, class.random)
            }
            Some(receivers) => {
                check_hosts(&self.hosts, 1)?;
                check_hosts(receivers, self.hosts.len())?;
                draw_matching(&self.hosts, receivers, class.random)?
            }
        };
        check_above_zero(self.amount.bytes().is_some_and(|size| size.is_zero()), "size")?;
        let mut traffic = Traffic::default();
        for (from, to) in self.hosts.iter().zip(receivers) {
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

/// Draws a different receiver for each sender. No host sends to itself.
fn draw_matching(
    senders: &[HostId],
    receivers: &[HostId],
    random: RandomKey,
) -> Result<Vec<HostId>, PatternError> {
    if let ([sender], [receiver]) = (senders, receivers)
        && sender == receiver
    {
        return Err(PatternError::SelfTraffic(*sender));
    }
    let mut order = receivers.to_vec();
    for attempt in 0.. {
        random.nth(attempt).shuffle(&mut order);
        if order.iter().zip(senders).all(|(to, from)| to != from) {
            break;
        }
    }
    order.truncate(senders.len());
    Ok(order)
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
            let permutation = Permutation { hosts: hosts(0..n), receivers: None, amount: Amount::ENDLESS, start: Picos::ZERO };
            let traffic = permutation.generate(&TrafficClass::new(seed, "p")).expect("the pattern is valid");
            prop_assert!(traffic.connections.iter().all(|connection| connection.from != connection.to));
            let mut receivers: Vec<HostId> = traffic.connections.iter().map(|connection| connection.to).collect();
            receivers.sort_unstable();
            prop_assert_eq!(receivers, permutation.hosts);
        }

        #[test]
        fn each_sender_has_its_own_receiver(senders in 1u32..50, first in 0u32..60, extra in 1u32..9, seed: u64) {
            let receivers = hosts(first..first + senders + extra);
            let permutation = Permutation {
                hosts: hosts(0..senders),
                receivers: Some(receivers.clone()),
                amount: Amount::ENDLESS,
                start: Picos::ZERO,
            };
            let traffic = permutation.generate(&TrafficClass::new(seed, "p")).expect("the pattern is valid");
            prop_assert!(traffic.connections.iter().all(|connection| connection.from != connection.to));
            let mut used: Vec<HostId> = traffic.connections.iter().map(|connection| connection.to).collect();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), senders as usize);
            prop_assert!(used.iter().all(|host| receivers.contains(host)));
        }
    }
}
