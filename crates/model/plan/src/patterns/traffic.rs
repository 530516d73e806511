//! Patterns put together, in the order of a plan.

use super::{Group, number};
use crate::traffic::{After, Amount, Connection, Event, Message};
use poseidon_types::Picos;

/// What patterns make, and their sum.
///
/// [`Traffic::connect`], [`Traffic::send`] and [`Traffic::wait`] make it, with indices of its own; [`Traffic::add`] and
/// [`Traffic::finish`] change the indices. A message may only wait for one that was sent before it here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Who may talk to whom.
    pub connections: Vec<Connection>,
    /// What they say.
    pub messages: Vec<Message>,
    /// Which messages wait for which.
    pub after: Vec<After>,
    /// Which messages belong together.
    pub groups: Vec<Group>,
}

impl Traffic {
    /// One more connection; its index.
    pub fn connect(&mut self, connection: Connection) -> u32 {
        self.connections.push(connection);
        number(self.connections.len() - 1)
    }

    /// One more message; its index. For one that will wait, `at` is how long after what it waits for.
    pub fn send(&mut self, connection: u32, at: Picos, amount: Amount) -> u32 {
        self.messages.push(Message { connection, at, amount });
        number(self.messages.len() - 1)
    }

    /// Lets `then` wait for an event of `message`.
    pub fn wait(&mut self, then: u32, event: Event, message: u32) {
        self.after.push(After { message, event, then });
    }

    /// Makes all messages one group, beside the groups that there are.
    #[must_use]
    pub fn grouped(mut self, name: &str) -> Self {
        let waits = self.waits();
        let at_once = self.messages.iter().zip(&waits).filter(|(_, waits)| !**waits);
        let start = at_once.map(|(message, _)| message.at).min().unwrap_or_default();
        let messages = (0..number(self.messages.len())).collect();
        self.groups.push(Group { name: name.into(), start, messages });
        self
    }

    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Adds what another pattern sends, over connections of its own.
    pub fn add(&mut self, other: Self) {
        let (connections, messages) = (number(self.connections.len()), number(self.messages.len()));
        self.connections.extend(other.connections);
        self.messages.extend(
            other.messages.into_iter().map(|m| Message { connection: m.connection + connections, ..m }),
        );
        self.after.extend(other.after.into_iter().map(|after| After {
            message: after.message + messages,
            then: after.then + messages,
            ..after
        }));
        self.groups.extend(other.groups.into_iter().map(|mut group| {
            group.messages.iter_mut().for_each(|message| *message += messages);
            group
        }));
    }

    /// The same in a plan's order: messages that wait for nothing in order of time, what is waited for before what waits, and
    /// dependencies sorted. Connections keep their indices.
    ///
    /// A message that waits is put where it could go at the earliest, were the network infinitely fast. Messages of one connection
    /// keep their order, as long as none that waits for nothing stands behind a later one.
    #[must_use]
    pub fn finish(mut self) -> Self {
        let earliest = self.earliest();
        let mut order: Vec<u32> = (0..number(self.messages.len())).collect();
        // Stable: what can go at the same time stays in order, so nobody waits for a later message.
        order.sort_by_key(|message| earliest[*message as usize]);
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old as usize] = number(new);
        }
        self.messages = order.iter().map(|old| self.messages[*old as usize]).collect();
        for after in &mut self.after {
            after.message = place[after.message as usize];
            after.then = place[after.then as usize];
        }
        self.after.sort_unstable();
        for group in &mut self.groups {
            group.messages.iter_mut().for_each(|message| *message = place[*message as usize]);
            group.messages.sort_unstable();
        }
        self
    }

    /// Per message: whether it waits for another.
    fn waits(&self) -> Vec<bool> {
        let mut waits = vec![false; self.messages.len()];
        for after in &self.after {
            waits[after.then as usize] = true;
        }
        waits
    }

    /// Per message: when it could go at the earliest.
    fn earliest(&self) -> Vec<Picos> {
        let mut after = self.after.clone();
        after.sort_unstable_by_key(|after| after.then);
        let mut after = after.iter().peekable();
        let mut earliest: Vec<Picos> = Vec::with_capacity(self.messages.len());
        // Per connection: its message before.
        let mut before = vec![Picos::ZERO; self.connections.len()];
        for (index, message) in self.messages.iter().enumerate() {
            let mut waits_until = None;
            while let Some(after) = after.next_if(|after| after.then as usize == index) {
                waits_until = waits_until.max(Some(earliest[after.message as usize]));
            }
            let before = &mut before[message.connection as usize];
            let time = waits_until.map_or(message.at, |until| (until + message.at).max(*before));
            *before = time.max(*before);
            earliest.push(time);
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::Class;
    use poseidon_types::Bytes;

    const BYTE: Amount = Amount::Exactly(Bytes::new(1));

    /// One connection whose messages are told apart by their size and go at these times; each `(then, message)` waits.
    fn line(times: &[u64], waits: &[(u32, u32)]) -> Traffic {
        let mut traffic = Traffic::default();
        let connection = traffic.connect(Class::new(1, "line").connection(0, 1, 0));
        for (size, at) in (1..).zip(times) {
            traffic.send(connection, Picos::new(*at), Amount::Exactly(Bytes::new(size)));
        }
        for (then, message) in waits {
            traffic.wait(*then, Event::Acknowledged, *message);
        }
        traffic.grouped("line")
    }

    #[test]
    fn messages_of_two_patterns_go_in_order_of_time() {
        let mut sum = line(&[10, 30], &[]);
        sum.add(line(&[20, 40], &[]));
        let sum = sum.finish();
        let at: Vec<u64> = sum.messages.iter().map(|message| message.at.get()).collect();
        let connection: Vec<u32> = sum.messages.iter().map(|message| message.connection).collect();
        assert_eq!((at, connection), (vec![10, 20, 30, 40], vec![0, 1, 0, 1]));
        let groups: Vec<_> =
            sum.groups.iter().map(|group| (group.start.get(), group.messages.clone())).collect();
        assert_eq!(groups, [(10, vec![0, 2]), (20, vec![1, 3])]);
    }

    #[test]
    fn what_waits_comes_behind_what_it_waits_for() {
        // The second waits 5 after the first (so 15 at the earliest), the third 10 after the second (25).
        let mut sum = line(&[10, 5, 10], &[(2, 1), (1, 0)]);
        sum.add(line(&[12, 20], &[]));
        let sum = sum.finish();
        let seen: Vec<_> =
            sum.messages.iter().map(|m| (m.connection, m.amount.bytes().unwrap().get())).collect();
        assert_eq!(seen, [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3)]);
        let after: Vec<_> = sum.after.iter().map(|after| (after.message, after.then)).collect();
        assert_eq!(after, [(0, 2), (2, 4)]);
        assert_eq!(sum.groups[0].messages, [0, 2, 4]);
    }

    #[test]
    fn finishing_twice_changes_nothing() {
        let mut sum = line(&[10, 0, 0, 7], &[(1, 0), (2, 1), (2, 0), (3, 2)]);
        sum.add(line(&[3, 12, 40], &[(2, 0)]));
        let once = sum.finish();
        assert_eq!(once.clone().finish(), once);
    }

    #[test]
    fn one_that_waits_does_not_overtake_on_its_connection() {
        // The second goes at 50; the third waits for the first alone, and could go at 10.
        let mut traffic = line(&[10, 50], &[]);
        let third = traffic.send(0, Picos::ZERO, BYTE);
        traffic.wait(third, Event::Acknowledged, 0);
        assert_eq!(traffic.clone().finish().messages, traffic.messages);
    }
}
