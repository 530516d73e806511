//! The message schedule: each connection's messages, their packet ranges and their dependencies. Both
//! endpoints know the schedule before the run starts.

use poseidon_plan::rings::RingTable;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, ConnectionId, MessageId};

/// The messages of all connections.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// For each connection, the index of its first message in `order`. A final entry marks the end.
    offsets: Vec<u32>,
    /// All messages, grouped by connection, in plan order.
    order: Vec<MessageId>,
    /// For each message, the sequence number following its last packet.
    end_seq: Vec<u32>,
    /// The number of dependencies and joins that each message waits for. Empty if no message waits.
    pub(crate) dependency_counts: Vec<u32>,
    /// The number of events that each join waits for.
    pub(crate) join_counts: Vec<u32>,
    /// The rings, whose messages follow those of the plan.
    pub(crate) rings: RingTable,
}

impl Schedule {
    pub(crate) fn new(plan: &Plan) -> Result<Self, PlanError> {
        let mut offsets = vec![0; plan.connections.len() + 1];
        for message in &plan.messages {
            offsets[message.connection.index() + 1] += 1;
        }
        for connection in 0..plan.connections.len() {
            offsets[connection + 1] += offsets[connection];
        }
        let mut next = offsets.clone();
        let mut packets = vec![0; plan.connections.len()];
        let mut order = vec![MessageId::default(); plan.messages.len()];
        let mut end_seq = Vec::with_capacity(plan.messages.len());
        for (index, message) in plan.messages.iter().enumerate() {
            let connection = message.connection.index();
            order[next[connection] as usize] = MessageId::from_index(index);
            next[connection] += 1;
            let message_packets = match message.amount {
                Amount::Exactly(bytes) => bytes.get().div_ceil(plan.transport.mtu.get()),
                Amount::Until(_) => u64::from(u32::MAX),
            };
            let sum = u64::from(packets[connection]) + message_packets;
            packets[connection] = u32::try_from(sum).map_err(|_| PlanError::Message {
                index,
                reason: "its connection carries more than 2^32 packets; use several connections",
            })?;
            end_seq.push(packets[connection]);
        }
        let mut dependency_counts = Vec::new();
        let mut join_counts = vec![0; plan.joins.len()];
        if !plan.dependencies.is_empty() || !plan.joins.is_empty() {
            dependency_counts.resize(plan.messages.len(), 0);
            for dependency in &plan.dependencies {
                dependency_counts[dependency.dependent.index()] += 1;
            }
            for dependent in &plan.joins.dependents {
                dependency_counts[dependent.message.index()] += 1;
            }
            for prerequisite in &plan.joins.prerequisites {
                join_counts[prerequisite.join.index()] += 1;
            }
        }
        let rings = RingTable::new(&plan.rings, plan.transport.mtu);
        check_packet_counts(&rings)?;
        Ok(Self { offsets, order, end_seq, dependency_counts, join_counts, rings })
    }

    /// Returns the message at `position` in a connection's message list.
    pub(crate) fn message(&self, connection: ConnectionId, position: u32) -> Option<MessageId> {
        let index = self.offsets[connection.index()] + position;
        if index < self.offsets[connection.index() + 1] {
            return Some(self.order[index as usize]);
        }
        let (layout, place) = self.rings.find_connection(connection)?;
        (position < layout.messages_at(place)).then(|| layout.message_id(place, position))
    }

    /// Returns the sequence number following a message's last packet.
    pub(crate) fn end_seq(&self, message: MessageId) -> u32 {
        self.end_seq.get(message.index()).copied().unwrap_or_else(|| self.ring_end_seq(message))
    }

    /// Returns the sequence number following the last packet of the message at `position` in a connection's message
    /// list, or `u32::MAX` if there is no such message.
    pub(crate) fn end_seq_at(&self, connection: ConnectionId, position: u32) -> u32 {
        self.message(connection, position).map_or(u32::MAX, |message| self.end_seq(message))
    }

    #[cold]
    fn ring_end_seq(&self, message: MessageId) -> u32 {
        let (ring, place, index) = self.rings.find_message(message).expect("the message exists");
        let end = self.rings.layouts()[ring].message(place, index).end_packets;
        u32::try_from(end).expect("the number of packets was checked")
    }

    /// Returns a message of the plan or of a ring. The start of a ring's message is the start of the ring.
    pub(crate) fn content(&self, plan: &Plan, message: MessageId) -> Message {
        match plan.messages.get(message.index()) {
            Some(message) => *message,
            None => self.rings.message(message).expect("the message exists"),
        }
    }

    pub(crate) fn has_dependencies(&self, message: MessageId) -> bool {
        self.dependency_counts.get(message.index()).is_some_and(|count| *count > 0)
    }
}

/// Rejects rings with a connection whose sequence numbers do not fit in 32 bits.
fn check_packet_counts(rings: &RingTable) -> Result<(), PlanError> {
    for (index, layout) in rings.layouts().iter().enumerate() {
        if layout.ring.places().any(|place| layout.packets_at(place) >= u32::MAX.into()) {
            let reason = "a connection carries more than 2^32 packets; use more channels";
            return Err(PlanError::Ring { index, reason });
        }
    }
    Ok(())
}

/// Returns the payload size of a message's last packet.
pub(crate) fn last_packet_payload(size: Bytes, mtu: Bytes) -> u16 {
    let remainder = size.get() % mtu.get();
    u16::try_from(if remainder == 0 { mtu.get() } else { remainder }).expect("an MTU fits in 16 bits")
}
