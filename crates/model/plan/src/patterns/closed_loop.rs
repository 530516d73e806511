//! Closed-loop traffic, in which each message starts after the previous message.

use super::arrivals::start_offset;
use super::error::{check_above_zero, check_ends};
use super::pairs::PairCounters;
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::{Amount, Event};
use poseidon_types::{Bytes, HostId, Picos};

/// Closed-loop senders. Each message starts one think time after the previous message is acknowledged (RPM fig. 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedLoop {
    /// The sender and receiver of each loop.
    pub ends: Vec<(HostId, HostId)>,
    /// The message size.
    pub size: Bytes,
    /// The number of messages per sender.
    pub count: u32,
    /// The delay between a message's acknowledgment and the start of the next message.
    pub think: Picos,
    /// Whether a sender's messages share one connection.
    pub connections: ConnectionReuse,
    /// The earliest start time.
    pub start: Picos,
    /// Each sender starts at a random time between `start` and `start + spread`.
    pub spread: Picos,
}

/// Whether a sender's messages share one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// All messages share one connection, which keeps its window between messages.
    OneConnection,
    /// Each message uses a new connection, which starts with the law's initial window.
    NewConnections,
}

impl Pattern for ClosedLoop {
    fn expected_messages(&self) -> f64 {
        self.ends.len() as f64 * f64::from(self.count)
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        check_above_zero(self.size.is_zero(), "size")?;
        let mut traffic = Traffic::default();
        let mut counters = PairCounters::default();
        for &(from, to) in &self.ends {
            check_ends(from, to)?;
            // The lower 32 bits hold the message counter.
            let sender = counters.next(from, to) << 32;
            // The previous message's connection and ID.
            let mut previous = None;
            for counter in 0..self.count {
                let connection = match (self.connections, previous) {
                    (ConnectionReuse::OneConnection, Some((connection, _))) => connection,
                    (ConnectionReuse::OneConnection | ConnectionReuse::NewConnections, _) => {
                        traffic.add_connection(class.connection(from, to, sender | u64::from(counter)))
                    }
                };
                let start = match previous {
                    None => self.start + start_offset(class.connection_key(from, to, sender), self.spread),
                    Some(_) => self.think,
                };
                let message = traffic.add_message(connection, start, Amount::Exactly(self.size));
                if let Some((_, previous)) = previous {
                    traffic.add_dependency(message, Event::Acknowledged, previous);
                }
                previous = Some((connection, message));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::ends;
    use crate::traffic::Dependency;
    use poseidon_types::MessageId;

    fn generate(connections: ConnectionReuse) -> Traffic {
        let pattern = ClosedLoop {
            ends: ends(&[(0, 10), (1, 11)]),
            size: Bytes::new(14_600),
            count: 3,
            think: "1 ms".parse().expect("the time is valid"),
            connections,
            start: Picos::new(5),
            spread: Picos::ZERO,
        };
        pattern.generate(&TrafficClass::new(1, "loop")).expect("the pattern is valid")
    }

    #[test]
    fn each_message_depends_on_the_previous_one() {
        let traffic = generate(ConnectionReuse::OneConnection);
        let starts: Vec<u64> = traffic.messages.iter().map(|message| message.start.get()).collect();
        let think = 1_000_000_000;
        assert_eq!(starts, [5, think, think, 5, think, think]);
        let dependency = |prerequisite, dependent| Dependency {
            prerequisite: MessageId::new(prerequisite),
            event: Event::Acknowledged,
            dependent: MessageId::new(dependent),
        };
        let expected = [(0, 1), (1, 2), (3, 4), (4, 5)];
        assert_eq!(traffic.dependencies, expected.map(|(first, second)| dependency(first, second)));
    }

    #[test]
    fn connections_are_reused_only_on_request() {
        assert_eq!(generate(ConnectionReuse::OneConnection).connections.len(), 2);
        let new = generate(ConnectionReuse::NewConnections);
        assert_eq!(new.connections.len(), 6);
        assert_ne!(
            new.connections[0].entropy, new.connections[1].entropy,
            "each connection has different entropy"
        );
    }
}
