//! Converts packet numbers of a connection into positions in its byte stream, as TCP numbers bytes.

use poseidon_plan::Plan;
use poseidon_types::{Bytes, ConnectionId};

/// The byte streams of all connections.
#[derive(Debug)]
pub(super) struct Streams {
    mtu: u64,
    /// For each connection, the index of its first message in `messages`. A final entry marks the end.
    offsets: Vec<u32>,
    /// The end of each message, grouped by connection, in the order in which the connection sends them.
    messages: Vec<MessageEnd>,
}

/// The end of a message: the number of packets and bytes of its connection up to here.
#[derive(Clone, Copy, Debug, Default)]
struct MessageEnd {
    packets: u64,
    bytes: u64,
}

impl Streams {
    pub(super) fn new(plan: &Plan) -> Self {
        let mtu = plan.transport.mtu.get().max(1);
        // A long flow is the only message of its connection, and all its packets are full.
        let long_flow = u64::from(u32::MAX) * mtu;
        let mut offsets: Vec<u32> = vec![0; plan.connections.len() + 1];
        for message in &plan.messages {
            offsets[message.connection.index() + 1] += 1;
        }
        for connection in 0..plan.connections.len() {
            offsets[connection + 1] += offsets[connection];
        }
        let mut next = offsets.clone();
        let mut messages = vec![MessageEnd::default(); plan.messages.len()];
        for message in &plan.messages {
            let connection = message.connection.index();
            let index = next[connection] as usize;
            let is_first = next[connection] == offsets[connection];
            let before = if is_first { MessageEnd::default() } else { messages[index - 1] };
            let bytes = message.amount.bytes().map_or(long_flow, Bytes::get);
            messages[index] = MessageEnd {
                packets: before.packets + bytes.div_ceil(mtu),
                bytes: before.bytes.saturating_add(bytes),
            };
            next[connection] += 1;
        }
        Self { mtu, offsets, messages }
    }

    /// Returns the number of bytes that a connection sends before a packet.
    pub(super) fn bytes_before(&self, connection: ConnectionId, packet: u32) -> u64 {
        let packet = u64::from(packet);
        let range = self.offsets[connection.index()] as usize..self.offsets[connection.index() + 1] as usize;
        let messages = &self.messages[range];
        let earlier = messages.partition_point(|end| end.packets <= packet);
        let start = earlier.checked_sub(1).map_or_else(MessageEnd::default, |last| messages[last]);
        start.bytes + (packet - start.packets) * self.mtu
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::Topology;
    use poseidon_plan::traffic::Amount;
    use poseidon_testkit::plans::{self, LINK};

    #[test]
    fn short_packets_at_the_end_of_messages_take_their_own_bytes() {
        let mut plan = plans::plan(Topology::fat_tree(4, LINK), "fixed", &[(0, 1), (2, 3)]);
        plan.transport.mtu = Bytes::new(1_000);
        let message = plan.messages[0];
        plan.messages = [2_500, 1_000, 10]
            .map(|size| poseidon_plan::traffic::Message {
                amount: Amount::Exactly(Bytes::new(size)),
                ..message
            })
            .to_vec();
        plan.messages.push(poseidon_plan::traffic::Message {
            connection: ConnectionId::new(1),
            amount: Amount::ENDLESS,
            ..message
        });
        let streams = Streams::new(&plan);
        let positions = |connection| {
            [0, 1, 2, 3, 4, 5].map(|packet| streams.bytes_before(ConnectionId::new(connection), packet))
        };
        assert_eq!(positions(0), [0, 1_000, 2_000, 2_500, 3_500, 3_510]);
        assert_eq!(positions(1), [0, 1_000, 2_000, 3_000, 4_000, 5_000]);
    }
}
