//! Many to one, and the one advances.

use super::error::{check_above_zero, check_hosts, check_span};
use super::pairs::Pairs;
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::Amount;
use poseidon_types::{Bytes, Picos};

/// Every period, all senders send one message to the same target, and the target advances round robin (Poseidon section 5.4: 100
/// senders, 128 KiB, 2.1 ms). A pair of hosts keeps its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotatingIncast {
    /// Who sends.
    pub senders: Vec<u32>,
    /// To whom, in this order.
    pub targets: Vec<u32>,
    /// How much each sends.
    pub size: Bytes,
    /// From one incast to the next.
    pub period: Picos,
    /// When the first is.
    pub start: Picos,
    /// None begins from here on.
    pub until: Picos,
}

impl Pattern for RotatingIncast {
    fn expected_messages(&self) -> f64 {
        let span = self.until.get().saturating_sub(self.start.get());
        let incasts = span.div_ceil(self.period.get().max(1));
        self.senders.len() as f64 * incasts as f64
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        check_hosts(&self.senders, 1)?;
        check_hosts(&self.targets, 1)?;
        check_span(self.start, self.until)?;
        check_above_zero(self.size.is_zero(), "size")?;
        check_above_zero(self.period.is_zero(), "period")?;
        if let Some(host) = self.senders.iter().find(|host| self.targets.contains(host)) {
            return Err(PatternError::ToItself(*host));
        }
        let times = (0..).map(|k| self.start + self.period * k).take_while(|at| *at < self.until);
        let mut traffic = Traffic::default();
        let mut pairs = Pairs::default();
        for (at, target) in times.zip(self.targets.iter().cycle()) {
            for sender in &self.senders {
                let connection = pairs.connection(&mut traffic, class, *sender, *target);
                traffic.send(connection, at, Amount::Exactly(self.size));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_advances_and_each_sender_offers_half_a_gigabit() {
        // Poseidon section 5.4: 100 senders to the 24 hosts of a rack; 100 periods and one more.
        let rotating = RotatingIncast {
            senders: (100..200).collect(),
            targets: (0..24).collect(),
            size: Bytes::new(131_072),
            period: "2.1 ms".parse().expect("a time"),
            start: Picos::ZERO,
            until: "210 ms".parse().expect("a time"),
        };
        let traffic = rotating.traffic(&Class::new(1, "ri")).expect("a pattern");
        assert_eq!((traffic.messages.len(), traffic.connections.len()), (100 * 100, 100 * 24));
        let target =
            |incast: usize| traffic.connections[traffic.messages[incast * 100].connection as usize].to;
        assert_eq!((target(0), target(1), target(23), target(24)), (0, 1, 23, 0));
        // 131,072 B in 2.1 ms are 0.4993 Gbps.
        let bits: u64 = traffic.messages.iter().filter_map(|m| m.amount.bytes()).map(|b| b.get() * 8).sum();
        assert!((bits as f64 / 0.210 / 100.0 - 0.4993e9).abs() < 1e5);
    }
}
