//! Many to one.

use super::error::{check_above_zero, check_ends};
use super::pairs::Twins;
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::Amount;
use poseidon_types::Picos;

/// Many to one, each over a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incast {
    /// Who sends.
    pub senders: Vec<u32>,
    /// To whom.
    pub target: u32,
    /// How much each sends.
    pub amount: Amount,
    /// When the first begin.
    pub start: Picos,
    /// How the others follow.
    pub stagger: Stagger,
}

/// Not all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stagger {
    /// So many begin together.
    pub together: u32,
    /// And the next so much later.
    pub every: Picos,
}

impl Stagger {
    /// All at once.
    pub const NONE: Self = Self { together: u32::MAX, every: Picos::ZERO };

    /// How much later than the first the sender with this number begins.
    fn delay(self, sender: u64) -> Picos {
        self.every * (sender / u64::from(self.together))
    }
}

impl Pattern for Incast {
    fn expected_messages(&self) -> f64 {
        self.senders.len() as f64
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        check_above_zero(self.amount.bytes().is_some_and(|size| size.is_zero()), "size")?;
        check_above_zero(self.stagger.together == 0, "how many begin together")?;
        let mut traffic = Traffic::default();
        let mut twins = Twins::default();
        for (sender, &from) in (0..).zip(&self.senders) {
            check_ends(from, self.target)?;
            let twin = twins.next(from, self.target);
            let connection = traffic.connect(class.connection(from, self.target, twin));
            traffic.send(connection, self.start + self.stagger.delay(sender), self.amount);
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Bytes;

    fn starts_us(stagger: Stagger) -> Vec<u64> {
        let incast = Incast {
            senders: (0..16).collect(),
            target: 16,
            amount: Amount::Exactly(Bytes::new(1_000_000)),
            start: Picos::ZERO,
            stagger,
        };
        let traffic = incast.traffic(&Class::new(1, "incast")).expect("a pattern");
        assert!(traffic.connections.iter().all(|connection| connection.to == 16));
        traffic.messages.iter().map(|message| message.at.get() / 1_000_000).collect()
    }

    #[test]
    fn two_begin_every_20_us() {
        // VAI + SF section III-D: 16 to 1.
        let stagger = Stagger { together: 2, every: Picos::new(20_000_000) };
        assert_eq!(starts_us(stagger), [0, 0, 20, 20, 40, 40, 60, 60, 80, 80, 100, 100, 120, 120, 140, 140]);
    }

    #[test]
    fn all_begin_at_once() {
        assert_eq!(starts_us(Stagger::NONE), [0; 16]);
    }
}
