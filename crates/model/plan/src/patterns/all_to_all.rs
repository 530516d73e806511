//! Each host to each other.

use super::error::{check_above_zero, check_hosts};
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::Amount;
use poseidon_types::{Bytes, Picos};

/// Each host sends to each other, all at once: `n (n - 1)` messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllToAll {
    /// Who takes part; at least two.
    pub hosts: Vec<u32>,
    /// How much goes from each to each.
    pub size: Bytes,
    /// When.
    pub start: Picos,
}

impl Pattern for AllToAll {
    fn expected_messages(&self) -> f64 {
        let hosts = self.hosts.len() as f64;
        hosts * (hosts - 1.0).max(0.0)
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        check_hosts(&self.hosts, 2)?;
        check_above_zero(self.size.is_zero(), "size")?;
        let mut traffic = Traffic::default();
        // Everyone to the next first, then everyone to the one after: where a backend serves connections in their order, not
        // everyone begins with the same host.
        for shift in 1..self.hosts.len() {
            for (from, to) in self.hosts.iter().zip(self.hosts.iter().cycle().skip(shift)) {
                let connection = traffic.connect(class.connection(*from, *to, 0));
                traffic.send(connection, self.start, Amount::Exactly(self.size));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sends_to_each_other_once() {
        let all = AllToAll { hosts: vec![5, 6, 7], size: Bytes::new(9), start: Picos::ZERO };
        let traffic = all.traffic(&Class::new(1, "all")).expect("a pattern");
        let ends: Vec<_> = traffic.connections.iter().map(|c| (c.from, c.to)).collect();
        assert_eq!(ends, [(5, 6), (6, 7), (7, 5), (5, 7), (6, 5), (7, 6)]);
    }
}
