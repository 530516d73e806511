//! The messages of one channel of a ring, computed from its block sizes.

use super::Ring;
use poseidon_types::Bytes;

/// One channel of a ring.
///
/// The data of the channel is divided into one block per rank. The sizes of the blocks differ by at most one byte, and
/// larger blocks come first. In step `s`, ring position `i` sends block `i - lag - s`, modulo the number of ranks. A
/// block that is larger than a chunk becomes several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingChannel {
    ranks: u64,
    steps: u64,
    lag: u64,
    /// The number of blocks that are one byte larger than the others.
    larger_blocks: u64,
    larger: Block,
    smaller: Block,
    /// The size of the largest message.
    chunk: u64,
    mtu: u64,
}

/// The messages and packets of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    bytes: u64,
    messages: u64,
    packets: u64,
}

/// A message of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingMessage {
    /// The repetition to which the message belongs.
    pub repetition: u32,
    /// The step within the repetition.
    pub step: u32,
    /// The number of the chunk within its block.
    pub chunk: u32,
    /// The message size.
    pub size: Bytes,
    /// The number of packets that the connection has sent when this message ends.
    pub end_packets: u64,
}

/// What a connection sends in several steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) messages: u64,
    pub(super) packets: u64,
}

impl RingChannel {
    pub(super) fn new(ring: &Ring, index: u32, mtu: Bytes) -> Self {
        let (channels, ranks) = (u64::from(ring.channels), u64::from(ring.ranks));
        let data = ring.size.get() / channels + u64::from(u64::from(index) < ring.size.get() % channels);
        let (chunk, mtu) = (ring.chunk.map_or(u64::MAX, Bytes::get), mtu.get());
        let block = |bytes: u64| Block {
            bytes,
            messages: bytes.div_ceil(chunk),
            packets: packets_of_chunks(bytes, chunk, mtu, u64::MAX),
        };
        Self {
            ranks,
            steps: ring.steps.into(),
            lag: ring.lag.into(),
            larger_blocks: data % ranks,
            larger: block(data / ranks + 1),
            smaller: block(data / ranks),
            chunk,
            mtu,
        }
    }

    /// Returns the number of messages that all positions send in one repetition.
    pub(super) const fn repetition_messages(&self) -> u64 {
        let larger = self.larger_blocks * self.larger.messages;
        (larger + (self.ranks - self.larger_blocks) * self.smaller.messages) * self.steps
    }

    /// Returns the largest number of messages that a position can send in one repetition. The number saturates.
    pub(super) const fn max_messages(&self) -> u64 {
        let block = if self.larger_blocks > 0 { self.larger } else { self.smaller };
        self.steps.saturating_mul(block.messages)
    }

    /// Returns what a position sends in one repetition.
    pub(super) fn sent(&self, position: u32) -> Sent {
        self.sent_before(position, self.steps)
    }

    /// Returns the number of messages that a position sends in the first step. They wait for no other message of their
    /// repetition.
    pub(super) fn first_messages(&self, position: u32) -> u64 {
        self.block(self.block_number(position, 0)).messages
    }

    /// Returns a message of a position. `index` counts the messages of the position over all repetitions.
    pub(super) fn message(&self, position: u32, index: u32) -> RingMessage {
        let sent = self.sent(position);
        let (repetition, index) = (u64::from(index) / sent.messages, u64::from(index) % sent.messages);
        let (step, chunk) = self.find_step(position, index);
        let block = self.block(self.block_number(position, step));
        let in_block = packets_of_chunks(block.bytes, self.chunk, self.mtu, chunk + 1);
        let before = repetition * sent.packets + self.sent_before(position, step).packets;
        let narrow = |value: u64| u32::try_from(value).expect("a ring has fewer than 2^32 messages");
        RingMessage {
            repetition: narrow(repetition),
            step: narrow(step),
            chunk: narrow(chunk),
            size: Bytes::new(self.chunk.min(block.bytes - chunk * self.chunk.min(block.bytes))),
            end_packets: before + in_block,
        }
    }

    /// Returns the step and the chunk of a message within its repetition.
    fn find_step(&self, position: u32, index: u64) -> (u64, u64) {
        if self.larger.messages == self.smaller.messages || self.larger_blocks == 0 {
            return (index / self.smaller.messages, index % self.smaller.messages);
        }
        // Find the last step before which at most `index` messages are sent.
        let (mut first, mut last) = (0, self.steps - 1);
        while first < last {
            let middle = (first + last).div_ceil(2);
            if self.sent_before(position, middle).messages <= index {
                first = middle;
            } else {
                last = middle - 1;
            }
        }
        (first, index - self.sent_before(position, first).messages)
    }

    /// Returns what a position sends before a step.
    fn sent_before(&self, position: u32, step: u64) -> Sent {
        let larger = self.count_larger(self.block_number(position, 0), step);
        let smaller = step - larger;
        Sent {
            messages: larger * self.larger.messages + smaller * self.smaller.messages,
            packets: (larger.saturating_mul(self.larger.packets))
                .saturating_add(smaller.saturating_mul(self.smaller.packets)),
        }
    }

    /// Returns the number of the block that a position sends in a step.
    fn block_number(&self, position: u32, step: u64) -> u64 {
        (u64::from(position) + 2 * self.ranks - self.lag - step % self.ranks) % self.ranks
    }

    fn block(&self, number: u64) -> Block {
        if number < self.larger_blocks { self.larger } else { self.smaller }
    }

    /// Counts the larger blocks among `count` blocks in descending order, beginning with block `first`. Block 0 is
    /// followed by the last block.
    fn count_larger(&self, first: u64, count: u64) -> u64 {
        let (rounds, rest) = (count / self.ranks, count % self.ranks);
        let below = |block: u64| block.min(self.larger_blocks);
        let in_rest = match (first + 1).checked_sub(rest) {
            Some(last) => below(first + 1) - below(last),
            None => {
                let wrapped = rest - (first + 1);
                below(first + 1) + self.larger_blocks - below(self.ranks - wrapped)
            }
        };
        rounds * self.larger_blocks + in_rest
    }
}

/// Returns the number of packets in the first `count` chunks of a block. Each chunk starts with a new packet.
fn packets_of_chunks(bytes: u64, chunk: u64, mtu: u64, count: u64) -> u64 {
    if let Some(end) = chunk.checked_mul(count).filter(|end| *end <= bytes) {
        return end / chunk * chunk.div_ceil(mtu);
    }
    let rest = bytes % chunk;
    bytes / chunk * chunk.div_ceil(mtu) + rest.div_ceil(mtu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{ConnectionId, MessageId, Picos};
    use proptest::prelude::*;

    fn ring(ranks: u32, channels: u32, size: u64, chunk: Option<u64>, steps: u32, lag: u32) -> Ring {
        Ring {
            first_message: MessageId::new(0),
            first_connection: ConnectionId::new(0),
            ranks,
            channels,
            ranks_per_server: 1,
            size: Bytes::new(size),
            chunk: chunk.map(Bytes::new),
            steps,
            lag,
            repetitions: 3,
            compute_gap: Picos::ZERO,
            start: Picos::ZERO,
        }
    }

    /// Returns the messages of a position, one after the other.
    fn expanded(ring: &Ring, channel: u32, position: u32, mtu: u64) -> Vec<RingMessage> {
        let part = |total: u64, parts: u64, index: u64| total / parts + u64::from(index < total % parts);
        let data = part(ring.size.get(), ring.channels.into(), channel.into());
        let n = i64::from(ring.ranks);
        let (mut messages, mut end_packets) = (Vec::new(), 0);
        for repetition in 0..ring.repetitions {
            for step in 0..ring.steps {
                let block = (i64::from(position) - i64::from(ring.lag) - i64::from(step))
                    .rem_euclid(n)
                    .cast_unsigned();
                let mut rest = part(data, n.cast_unsigned(), block);
                for chunk in 0.. {
                    if rest == 0 {
                        break;
                    }
                    let size = ring.chunk.map_or(rest, |chunk| chunk.get().min(rest));
                    end_packets += size.div_ceil(mtu);
                    messages.push(RingMessage {
                        repetition,
                        step,
                        chunk,
                        size: Bytes::new(size),
                        end_packets,
                    });
                    rest -= size;
                }
            }
        }
        messages
    }

    proptest! {
        #[test]
        fn messages_follow_the_blocks(
            ranks in 2u32..9,
            channels in 1u32..4,
            extra in 0u64..5_000,
            chunk in proptest::option::of(1u64..700),
            phases in 1u32..3,
            lag in 0u32..2,
            mtu in 1u64..300,
        ) {
            let size = u64::from(ranks * channels) + extra;
            let ring = ring(ranks, channels, size, chunk, phases * (ranks - 1), lag);
            for index in 0..channels {
                let channel = RingChannel::new(&ring, index, Bytes::new(mtu));
                let mut messages = 0;
                for position in 0..ranks {
                    let expected = expanded(&ring, index, position, mtu);
                    let sent = channel.sent(position);
                    prop_assert_eq!(sent.messages * u64::from(ring.repetitions), expected.len() as u64);
                    prop_assert!(sent.messages <= channel.max_messages());
                    let in_first_step = |message: &&RingMessage| (message.repetition, message.step) == (0, 0);
                    let first = expected.iter().filter(in_first_step).count() as u64;
                    prop_assert_eq!(channel.first_messages(position), first);
                    for (number, expected) in (0..).zip(&expected) {
                        prop_assert_eq!(channel.message(position, number), *expected);
                    }
                    messages += sent.messages;
                    let last = expected.iter().rfind(|message| message.repetition == 0);
                    prop_assert_eq!(Some(sent.packets), last.map(|message| message.end_packets));
                }
                prop_assert_eq!(channel.repetition_messages(), messages);
            }
        }
    }

    #[test]
    fn chunk_sizes_can_make_the_number_of_messages_differ() {
        // Blocks of 11, 11, 10 and 10 bytes with chunks of 10 bytes: the larger blocks have two messages.
        let ring = ring(4, 1, 42, Some(10), 6, 1);
        let channel = RingChannel::new(&ring, 0, Bytes::new(4));
        // Position 0 sends the blocks 3, 2, 1, 0, 3 and 2. A message of 10 bytes has three packets.
        assert_eq!(channel.sent(0), Sent { messages: 8, packets: 20 });
        let message = channel.message(0, 3);
        assert_eq!((message.step, message.chunk, message.size.get(), message.end_packets), (2, 1, 1, 10));
    }
}
