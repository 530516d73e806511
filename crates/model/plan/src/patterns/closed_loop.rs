//! One message after the other.

use super::arrivals::spread;
use super::error::{check_above_zero, check_ends};
use super::pairs::Twins;
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::{Amount, Event};
use poseidon_types::{Bytes, Picos};

/// Senders that send one message after the other: the next begins when the one before is acknowledged and the sender has thought
/// about it (RPM fig. 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedLoop {
    /// From whom to whom.
    pub ends: Vec<(u32, u32)>,
    /// How large a message is.
    pub size: Bytes,
    /// How many each sends.
    pub count: u32,
    /// From one message's end to the next one's beginning.
    pub think: Picos,
    /// Over what.
    pub over: Over,
    /// When they begin.
    pub start: Picos,
    /// Each begins at a time of its own, drawn from `start` to so much later.
    pub spread: Picos,
}

/// What the messages of a sender are sent over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// One connection, which keeps its window.
    OneConnection,
    /// A new connection for each, which begins with the law's first window.
    NewConnections,
}

impl Pattern for ClosedLoop {
    fn expected_messages(&self) -> f64 {
        self.ends.len() as f64 * f64::from(self.count)
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        check_above_zero(self.size.is_zero(), "size")?;
        let mut traffic = Traffic::default();
        let mut twins = Twins::default();
        for &(from, to) in &self.ends {
            check_ends(from, to)?;
            // Above the counters of its messages.
            let sender = twins.next(from, to) << 32;
            // The connection and the message before.
            let mut before = None;
            for counter in 0..self.count {
                let connection = match (self.over, before) {
                    (Over::OneConnection, Some((connection, _))) => connection,
                    (Over::OneConnection | Over::NewConnections, _) => {
                        traffic.connect(class.connection(from, to, sender | u64::from(counter)))
                    }
                };
                let at = match before {
                    None => self.start + spread(class.chance_of(from, to, sender), self.spread),
                    Some(_) => self.think,
                };
                let message = traffic.send(connection, at, Amount::Exactly(self.size));
                if let Some((_, before)) = before {
                    traffic.wait(message, Event::Acknowledged, before);
                }
                before = Some((connection, message));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::After;

    fn rpm(over: Over) -> Traffic {
        let pattern = ClosedLoop {
            ends: vec![(0, 10), (1, 11)],
            size: Bytes::new(14_600),
            count: 3,
            think: "1 ms".parse().expect("a time"),
            over,
            start: Picos::new(5),
            spread: Picos::ZERO,
        };
        pattern.traffic(&Class::new(1, "loop")).expect("a pattern")
    }

    #[test]
    fn each_message_waits_for_the_one_before() {
        let traffic = rpm(Over::OneConnection);
        let at: Vec<u64> = traffic.messages.iter().map(|message| message.at.get()).collect();
        let think = 1_000_000_000;
        assert_eq!(at, [5, think, think, 5, think, think]);
        let waits = |message, then| After { message, event: Event::Acknowledged, then };
        assert_eq!(traffic.after, [waits(0, 1), waits(1, 2), waits(3, 4), waits(4, 5)]);
    }

    #[test]
    fn connections_are_kept_or_new() {
        assert_eq!(rpm(Over::OneConnection).connections.len(), 2);
        let new = rpm(Over::NewConnections);
        assert_eq!(new.connections.len(), 6);
        assert_ne!(new.connections[0].entropy, new.connections[1].entropy, "each finds its own way");
    }
}
