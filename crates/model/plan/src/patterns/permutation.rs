//! Each host to one other.

use super::error::{check_above_zero, check_hosts};
use super::{Class, Pattern, PatternError, Traffic};
use crate::chance::Chance;
use crate::traffic::Amount;
use poseidon_types::Picos;

/// Each host sends to one other, and each receives from one: a derangement, each as likely as any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    /// Who takes part; at least two.
    pub hosts: Vec<u32>,
    /// How much each sends.
    pub amount: Amount,
    /// When.
    pub start: Picos,
}

impl Pattern for Permutation {
    fn expected_messages(&self) -> f64 {
        self.hosts.len() as f64
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        check_hosts(&self.hosts, 2)?;
        check_above_zero(self.amount.bytes().is_some_and(|size| size.is_zero()), "size")?;
        let mut traffic = Traffic::default();
        for (from, to) in self.hosts.iter().zip(derangement(&self.hosts, class.chance)) {
            let connection = traffic.connect(class.connection(*from, to, 0));
            traffic.send(connection, self.start, self.amount);
        }
        Ok(traffic.grouped(&class.name))
    }
}

/// The hosts in an order in which none is where it was. One order in e has that, so we draw until one does.
fn derangement(hosts: &[u32], chance: Chance) -> Vec<u32> {
    let mut order = hosts.to_vec();
    for attempt in 0.. {
        chance.of(attempt).shuffle(&mut order);
        if order.iter().zip(hosts).all(|(to, from)| to != from) {
            break;
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_derangement_of_four_is_as_likely() {
        // There are nine; 1,000 each, with a deviation of 30.
        let mut seen = BTreeMap::<Vec<u32>, u32>::new();
        for seed in 0..9_000 {
            *seen.entry(derangement(&[0, 1, 2, 3], Chance::new(seed, "p"))).or_default() += 1;
        }
        assert_eq!(seen.len(), 9);
        assert!(seen.values().all(|count| (850..1_150).contains(count)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn each_sends_to_one_other_and_receives_from_one(n in 2u32..200, seed: u64) {
            let hosts: Vec<u32> = (0..n).collect();
            let permutation = Permutation { hosts, amount: Amount::ENDLESS, start: Picos::ZERO };
            let traffic = permutation.traffic(&Class::new(seed, "p")).expect("a pattern");
            prop_assert!(traffic.connections.iter().all(|connection| connection.from != connection.to));
            let mut to: Vec<u32> = traffic.connections.iter().map(|connection| connection.to).collect();
            to.sort_unstable();
            prop_assert_eq!(to, permutation.hosts);
        }
    }
}
