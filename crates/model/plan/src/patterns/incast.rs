//! Incast traffic, in which many senders send to one receiver.

use super::error::{check_above_zero, check_ends};
use super::pairs::PairCounters;
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::Amount;
use poseidon_types::{HostId, Picos};

/// An incast from many senders to one receiver. Each sender uses a separate connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incast {
    /// The senders.
    pub senders: Vec<HostId>,
    /// The receiver.
    pub target: HostId,
    /// The amount of data that each sender sends.
    pub amount: Amount,
    /// The start time of the first group of senders.
    pub start: Picos,
    /// How the senders' start times are staggered.
    pub stagger: Stagger,
}

/// Staggered start times. Groups of senders start one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stagger {
    /// The number of senders that start at the same time.
    pub group_size: u32,
    /// The time between the starts of consecutive groups.
    pub interval: Picos,
}

impl Stagger {
    /// All senders start at the same time.
    pub const NONE: Self = Self { group_size: u32::MAX, interval: Picos::ZERO };

    /// Returns the start offset of sender number `sender`.
    fn delay(self, sender: u64) -> Picos {
        self.interval * (sender / u64::from(self.group_size))
    }
}

impl Pattern for Incast {
    fn expected_messages(&self) -> f64 {
        self.senders.len() as f64
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        check_above_zero(self.amount.bytes().is_some_and(|size| size.is_zero()), "size")?;
        check_above_zero(self.stagger.group_size == 0, "the number of senders that start together")?;
        let mut traffic = Traffic::default();
        let mut counters = PairCounters::default();
        for (sender, &from) in (0..).zip(&self.senders) {
            check_ends(from, self.target)?;
            let number = counters.next(from, self.target);
            let connection = traffic.add_connection(class.connection(from, self.target, number));
            traffic.add_message(connection, self.start + self.stagger.delay(sender), self.amount);
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;
    use poseidon_types::Bytes;

    fn starts_us(stagger: Stagger) -> Vec<u64> {
        let incast = Incast {
            senders: hosts(0..16),
            target: HostId::new(16),
            amount: Amount::Exactly(Bytes::new(1_000_000)),
            start: Picos::ZERO,
            stagger,
        };
        let traffic = incast.generate(&TrafficClass::new(1, "incast")).expect("the pattern is valid");
        assert!(traffic.connections.iter().all(|connection| connection.to == incast.target));
        traffic.messages.iter().map(|message| message.start.get() / 1_000_000).collect()
    }

    #[test]
    fn two_senders_start_every_20_us() {
        // The 16-to-1 incast from VAI + SF section III-D.
        let stagger = Stagger { group_size: 2, interval: Picos::new(20_000_000) };
        assert_eq!(starts_us(stagger), [0, 0, 20, 20, 40, 40, 60, 60, 80, 80, 100, 100, 120, 120, 140, 140]);
    }

    #[test]
    fn all_senders_start_at_the_same_time() {
        assert_eq!(starts_us(Stagger::NONE), [0; 16]);
    }
}
