//! All-to-all traffic.

use super::error::{check_above_zero, check_hosts};
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::Amount;
use poseidon_types::{Bytes, HostId, Picos};

/// Every host sends a message to every other host at the same time, for a total of `n (n - 1)` messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllToAll {
    /// The hosts, at least two.
    pub hosts: Vec<HostId>,
    /// The message size.
    pub size: Bytes,
    /// The time at which all hosts start sending.
    pub start: Picos,
}

impl Pattern for AllToAll {
    fn expected_messages(&self) -> f64 {
        let hosts = self.hosts.len() as f64;
        hosts * (hosts - 1.0).max(0.0)
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        check_hosts(&self.hosts, 2)?;
        check_above_zero(self.size.is_zero(), "size")?;
        let mut traffic = Traffic::default();
        // Each host starts with the next host in the list. If all hosts used the same order, a backend that serves
        // connections in order would overload the first receiver.
        for shift in 1..self.hosts.len() {
            for (from, to) in self.hosts.iter().zip(self.hosts.iter().cycle().skip(shift)) {
                let connection = traffic.add_connection(class.connection(*from, *to, 0));
                traffic.add_message(connection, self.start, Amount::Exactly(self.size));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::{connection_ends, hosts};

    #[test]
    fn each_host_sends_to_every_other_host_once() {
        let pattern = AllToAll { hosts: hosts(5..8), size: Bytes::new(9), start: Picos::ZERO };
        let traffic = pattern.generate(&TrafficClass::new(1, "all")).expect("the pattern is valid");
        assert_eq!(connection_ends(&traffic), [(5, 6), (6, 7), (7, 5), (5, 7), (6, 5), (7, 6)]);
    }
}
