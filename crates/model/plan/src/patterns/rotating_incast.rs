//! Periodic incasts with rotating receivers.

use super::error::{check_above_zero, check_hosts, check_interval};
use super::pairs::PersistentConnections;
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::Amount;
use poseidon_types::{Bytes, HostId, Picos};

/// Periodic incasts. In each period, all senders send one message to the same target. Targets take turns.
///
/// Poseidon section 5.4 uses 100 senders, 128 KiB messages and a period of 2.1 ms. Each pair of hosts uses one
/// persistent connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotatingIncast {
    /// The senders.
    pub senders: Vec<HostId>,
    /// The receivers, in round-robin order.
    pub targets: Vec<HostId>,
    /// The message size per sender.
    pub size: Bytes,
    /// The message size per sender in the last period, if it differs: a burst on connections that were limited by their
    /// application before.
    pub last_size: Option<Bytes>,
    /// The time between consecutive incasts.
    pub period: Picos,
    /// The start time of the first incast.
    pub start: Picos,
    /// The end of the pattern. No incast starts at or after this time.
    pub until: Picos,
}

impl Pattern for RotatingIncast {
    fn expected_messages(&self) -> f64 {
        let span = self.until.get().saturating_sub(self.start.get());
        let incasts = span.div_ceil(self.period.get().max(1));
        self.senders.len() as f64 * incasts as f64
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        check_hosts(&self.senders, 1)?;
        check_hosts(&self.targets, 1)?;
        check_interval(self.start, self.until)?;
        check_above_zero(self.size.is_zero(), "size")?;
        check_above_zero(self.last_size.is_some_and(|size| size.is_zero()), "last-size")?;
        check_above_zero(self.period.is_zero(), "period")?;
        if let Some(host) = self.senders.iter().find(|host| self.targets.contains(host)) {
            return Err(PatternError::SelfTraffic(*host));
        }
        let times = (0..).map(|k| self.start + self.period * k).take_while(|time| *time < self.until);
        let mut traffic = Traffic::default();
        let mut connections = PersistentConnections::default();
        for (time, target) in times.zip(self.targets.iter().cycle()) {
            let is_last = time + self.period >= self.until;
            let size = self.last_size.filter(|_| is_last).unwrap_or(self.size);
            for sender in &self.senders {
                let connection = connections.find_or_add(&mut traffic, class, *sender, *target);
                traffic.add_message(connection, time, Amount::Exactly(size));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;

    #[test]
    fn targets_take_turns_and_each_sender_offers_half_a_gbps() {
        // Poseidon section 5.4: 100 senders send to the 24 hosts in a rack for 100 periods.
        let rotating = RotatingIncast {
            senders: hosts(100..200),
            targets: hosts(0..24),
            size: Bytes::new(131_072),
            last_size: None,
            period: "2.1 ms".parse().expect("the time is valid"),
            start: Picos::ZERO,
            until: "210 ms".parse().expect("the time is valid"),
        };
        let traffic = rotating.generate(&TrafficClass::new(1, "ri")).expect("the pattern is valid");
        assert_eq!((traffic.messages.len(), traffic.connections.len()), (100 * 100, 100 * 24));
        let target = |incast: usize| {
            let connection = traffic.messages[incast * 100].connection;
            traffic.connections[connection.index()].to.get()
        };
        assert_eq!((target(0), target(1), target(23), target(24)), (0, 1, 23, 0));
        // Each sender sends 131,072 bytes every 2.1 ms, which is 0.4993 Gbps.
        let bits: u64 = traffic.messages.iter().filter_map(|m| m.amount.bytes()).map(|b| b.get() * 8).sum();
        assert!((bits as f64 / 0.210 / 100.0 - 0.4993e9).abs() < 1e5);
    }

    #[test]
    fn only_the_last_period_has_another_size() {
        let incast = |until: &str, last_size| RotatingIncast {
            senders: hosts(0..2),
            targets: hosts(2..3),
            size: Bytes::new(1_000),
            last_size: Some(Bytes::new(last_size)),
            period: "1 ms".parse().expect("the time is valid"),
            start: Picos::ZERO,
            until: until.parse().expect("the time is valid"),
        };
        for until in ["3 ms", "2.1 ms"] {
            let class = TrafficClass::new(1, "ri");
            let traffic = incast(until, 50_000).generate(&class).expect("the pattern is valid");
            let sizes = traffic.messages.iter().filter_map(|message| message.amount.bytes());
            let sizes: Vec<u64> = sizes.map(Bytes::get).collect();
            assert_eq!(sizes, [1_000, 1_000, 1_000, 1_000, 50_000, 50_000], "{until}");
            assert_eq!(traffic.connections.len(), 2, "each pair keeps its connection");
            assert!(incast(until, 0).generate(&class).is_err());
        }
    }
}
