//! A sample of a ring's messages, for measurements of single messages.

use super::{RingLayout, RingTable};
use crate::random::RandomKey;
use poseidon_types::MessageId;

/// A stratified random sample: one message of each group of consecutive message numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSample {
    first_message: MessageId,
    numbers: u64,
    /// The number of message numbers in a group.
    group_size: u32,
    random: RandomKey,
}

impl RingSample {
    /// Creates a sample of at most `limit` messages, or of all messages if there are not more.
    pub fn new(layout: &RingLayout, limit: u64) -> Self {
        let numbers = layout.number_count();
        let group_size = numbers.div_ceil(limit.max(1)).max(1);
        Self {
            first_message: layout.ring.first_message,
            numbers,
            group_size: u32::try_from(group_size).unwrap_or(u32::MAX),
            random: RandomKey::new(0, "ring sample"),
        }
    }

    /// Returns whether the sample contains every message.
    pub const fn is_complete(&self) -> bool {
        self.group_size == 1
    }

    /// Returns the number of groups. If a group's message number is unused, the group has no message.
    pub fn len(&self) -> usize {
        usize::try_from(self.numbers.div_ceil(self.group_size.into())).unwrap_or(usize::MAX)
    }

    /// Returns whether there are no groups.
    pub const fn is_empty(&self) -> bool {
        self.numbers == 0
    }

    /// Returns the message of a group, or `None` if the group is shorter than the others and its message is missing.
    pub fn message(&self, group: usize) -> Option<MessageId> {
        let offset = self.offset(group);
        let offset = u32::try_from(offset).ok().filter(|_| offset < self.numbers)?;
        Some(MessageId::new(self.first_message.get().checked_add(offset)?))
    }

    /// Returns the group of a message of the ring, or `None` if the message is not in the sample.
    pub fn group_of(&self, message: MessageId) -> Option<usize> {
        let offset = message.get().checked_sub(self.first_message.get())?;
        let group = (offset / self.group_size) as usize;
        (self.offset(group) == u64::from(offset)).then_some(group)
    }

    fn offset(&self, group: usize) -> u64 {
        let in_group = self.random.nth(group as u64).below(self.group_size);
        group as u64 * u64::from(self.group_size) + u64::from(in_group)
    }
}

/// The samples of all rings of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingSamples(Vec<RingSample>);

impl RingSamples {
    /// Creates a sample of at most `limit` messages for each ring.
    pub fn new(rings: &RingTable, limit: u64) -> Self {
        Self(rings.layouts().iter().map(|layout| RingSample::new(layout, limit)).collect())
    }

    /// Returns whether a message is in the sample of its ring. Returns `true` for messages of the plan's list.
    pub fn contains(&self, message: MessageId) -> bool {
        // Rings are sorted by their message numbers.
        let after = self.0.partition_point(|sample| sample.first_message <= message);
        after.checked_sub(1).is_none_or(|ring| self.0[ring].group_of(message).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rings::Ring;
    use poseidon_types::{Bytes, ConnectionId, Picos};

    fn table(ranks: u32) -> RingTable {
        let ring = Ring {
            first_message: MessageId::new(7),
            first_connection: ConnectionId::new(0),
            ranks,
            channels: 1,
            ranks_per_server: 1,
            size: Bytes::new(1_000_000),
            chunk: None,
            steps: 2 * (ranks - 1),
            lag: 1,
            repetitions: 1,
            compute_gap: Picos::ZERO,
            start: Picos::ZERO,
        };
        RingTable::new(&[ring], Bytes::new(1_000))
    }

    #[test]
    fn sample_has_one_message_of_each_group() {
        let table = table(100);
        let [layout] = table.layouts() else { panic!("expected one ring") };
        let sample = RingSample::new(layout, 500);
        let members: Vec<usize> = layout.message_ids().filter_map(|id| sample.group_of(id)).collect();
        // 19,800 messages in groups of 40.
        assert_eq!((sample.len(), sample.is_complete()), (495, false));
        assert_eq!(members, (0..495).collect::<Vec<_>>());
        for group in members {
            let message = sample.message(group).expect("every group is full");
            assert_eq!(sample.group_of(message), Some(group));
        }
        // The sampled positions on connections are spread over all steps.
        let steps = (0..495).filter_map(|group| layout.find_message(sample.message(group)?));
        let early = steps.filter(|(_, index)| *index < 99).count();
        assert!((200..295).contains(&early), "{early} of 495 messages belong to the first half");
    }

    #[test]
    fn small_ring_is_sampled_completely() {
        let table = table(5);
        let sample = RingSample::new(&table.layouts()[0], 40);
        assert!(sample.is_complete() && sample.len() == 40);
        let samples = RingSamples::new(&table, 40);
        assert!(
            (0..7).map(MessageId::new).chain(table.layouts()[0].message_ids()).all(|id| samples.contains(id))
        );
        let samples = RingSamples::new(&table, 10);
        assert_eq!(table.layouts()[0].message_ids().filter(|id| samples.contains(*id)).count(), 10);
    }
}
