//! Joins, which make messages wait for several events.

use crate::traffic::Event;
use poseidon_types::{JoinId, MessageId, Picos};

/// The joins of a plan.
///
/// A join waits for several message events at one host. It is complete when all of these events have happened and its
/// delay has passed. Other messages of this host can wait for the join.
///
/// `m` messages that wait for the same `n` events need `n + m` entries in a join, but `n m` dependencies. A message can
/// also wait for a join and for dependencies. The join's delay then models a computation that other data does not wait
/// for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joins {
    /// For each join, the time from its last event until it is complete.
    pub delays: Vec<Picos>,
    /// The events that joins wait for, in sorted order. Each join waits for at least one event.
    pub prerequisites: Vec<JoinPrerequisite>,
    /// The messages that wait for joins, in sorted order.
    pub dependents: Vec<JoinDependent>,
}

/// An event that a join waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JoinPrerequisite {
    /// The message to wait for.
    pub message: MessageId,
    /// The event to wait for. All events of a join must occur at the same host.
    pub event: Event,
    /// The join that waits.
    pub join: JoinId,
}

/// A message that waits for a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JoinDependent {
    /// The join to wait for.
    pub join: JoinId,
    /// The message that waits. This message must come later in the plan than all messages that the join waits for, and
    /// its sender must be the host at which their events occur.
    pub message: MessageId,
}

impl Joins {
    /// Returns whether there are no joins.
    pub const fn is_empty(&self) -> bool {
        self.delays.is_empty()
    }

    /// Returns the number of joins.
    pub const fn len(&self) -> usize {
        self.delays.len()
    }

    /// Returns the joins that wait for an event of a message. The prerequisites must be sorted.
    pub fn waiting_for(&self, message: MessageId, event: Event) -> impl Iterator<Item = JoinId> + '_ {
        let key = (message, event);
        let first = self.prerequisites.partition_point(|p| (p.message, p.event) < key);
        self.prerequisites[first..].iter().take_while(move |p| (p.message, p.event) == key).map(|p| p.join)
    }

    /// Returns the messages that wait for a join. The dependents must be sorted.
    pub fn dependents_of(&self, join: JoinId) -> impl Iterator<Item = MessageId> + '_ {
        let first = self.dependents.partition_point(|d| d.join < join);
        self.dependents[first..].iter().take_while(move |d| d.join == join).map(|d| d.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_find_their_joins_and_joins_find_their_messages() {
        let prerequisite = |message, event, join| JoinPrerequisite {
            message: MessageId::new(message),
            event,
            join: JoinId::new(join),
        };
        let dependent =
            |join, message| JoinDependent { join: JoinId::new(join), message: MessageId::new(message) };
        let joins = Joins {
            delays: vec![Picos::ZERO; 2],
            prerequisites: vec![
                prerequisite(1, Event::Received, 0),
                prerequisite(2, Event::Received, 0),
                prerequisite(2, Event::Received, 1),
                prerequisite(2, Event::Acknowledged, 1),
            ],
            dependents: vec![dependent(0, 3), dependent(1, 3), dependent(1, 4)],
        };
        let waiting = |message, event| {
            let joins = joins.waiting_for(MessageId::new(message), event);
            joins.map(JoinId::get).collect::<Vec<_>>()
        };
        assert_eq!(waiting(1, Event::Received), [0]);
        assert_eq!(waiting(2, Event::Received), [0, 1]);
        assert_eq!(waiting(2, Event::Acknowledged), [1]);
        assert!(waiting(1, Event::Acknowledged).is_empty() && waiting(3, Event::Received).is_empty());
        let messages = |join| joins.dependents_of(JoinId::new(join)).map(MessageId::get).collect::<Vec<_>>();
        assert_eq!((messages(0), messages(1), messages(2)), (vec![3], vec![3, 4], vec![]));
    }
}
