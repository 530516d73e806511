//! The numbers of a plan's ring messages.

use super::{Ring, RingChannel, RingMessage, RingPlace};
use crate::traffic::{Amount, Message};
use poseidon_types::{Bytes, ConnectionId, MessageId};

/// A ring and the sizes of its channels.
///
/// Message numbers are sorted by repetition and connection, like those of a list of the same messages. Every connection
/// has the same number of message numbers in each repetition, so some numbers can be unused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// The ring.
    pub ring: Ring,
    channels: Vec<RingChannel>,
    /// The number of message numbers per connection and repetition.
    numbers_per_connection: u32,
    /// The [`RingRank`] of the ring's first rank.
    first_rank: u32,
}

/// A rank of one of a plan's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RingRank(u32);

impl RingLayout {
    /// Computes the layout of a ring for packets with this payload size. The ring must be valid.
    pub(super) fn new(ring: Ring, mtu: Bytes, first_rank: u32) -> Self {
        let channels: Vec<RingChannel> =
            (0..ring.channels).map(|index| RingChannel::new(&ring, index, mtu)).collect();
        let numbers_per_connection =
            u32::try_from(numbers_per_connection(&ring)).expect("the ring has fewer than 2^32 messages");
        Self { ring, channels, numbers_per_connection, first_rank }
    }

    /// Returns the number of messages of the ring.
    pub fn message_count(&self) -> u64 {
        let per_repetition: u64 = self.channels.iter().map(RingChannel::repetition_messages).sum();
        per_repetition * u64::from(self.ring.repetitions)
    }

    /// Returns the number of messages that a connection sends.
    pub fn messages_at(&self, place: RingPlace) -> u32 {
        self.repetition_messages_at(place) * self.ring.repetitions
    }

    /// Returns the number of packets that a connection sends. The number saturates.
    pub fn packets_at(&self, place: RingPlace) -> u64 {
        let sent = self.channels[place.channel as usize].sent(place.position);
        sent.packets.saturating_mul(self.ring.repetitions.into())
    }

    /// Returns the number of messages that a connection sends in one repetition.
    pub fn repetition_messages_at(&self, place: RingPlace) -> u32 {
        narrow(self.channels[place.channel as usize].sent(place.position).messages)
    }

    /// Returns the number of messages that a connection sends in the first step of a repetition.
    pub fn first_messages_at(&self, place: RingPlace) -> u32 {
        narrow(self.channels[place.channel as usize].first_messages(place.position))
    }

    /// Returns a message of a connection. `index` counts the connection's messages over all repetitions.
    pub fn message(&self, place: RingPlace, index: u32) -> RingMessage {
        self.channels[place.channel as usize].message(place.position, index)
    }

    /// Returns the number of a connection's message.
    pub fn message_id(&self, place: RingPlace, index: u32) -> MessageId {
        let per_repetition = self.repetition_messages_at(place);
        let (repetition, index) = (index / per_repetition, index % per_repetition);
        let connections = self.ring.channels * self.ring.ranks;
        let row = repetition * connections + place.channel * self.ring.ranks + place.position;
        MessageId::new(self.ring.first_message.get() + row * self.numbers_per_connection + index)
    }

    /// Returns the place and the index of a message, or `None` if the ring has no such message.
    pub fn find_message(&self, message: MessageId) -> Option<(RingPlace, u32)> {
        let (repetition, connection, index) =
            locate_message(&self.ring, self.numbers_per_connection, message)?;
        let place = self.ring.place(connection)?;
        let per_repetition = self.repetition_messages_at(place);
        (index < per_repetition).then_some((place, repetition * per_repetition + index))
    }

    /// Returns the number of message numbers, including those that are unused.
    pub fn number_count(&self) -> u64 {
        number_count(&self.ring)
    }

    /// Returns the numbers of all messages, in sorted order.
    pub fn message_ids(&self) -> impl Iterator<Item = MessageId> + '_ {
        let of_place = move |repetition: u32, place: RingPlace| {
            let count = self.repetition_messages_at(place);
            (0..count).map(move |index| self.message_id(place, repetition * count + index))
        };
        (0..self.ring.repetitions)
            .flat_map(move |repetition| self.ring.places().flat_map(move |place| of_place(repetition, place)))
    }

    /// Returns the number of a rank among the ranks of all rings.
    pub const fn rank_number(&self, rank: u32) -> RingRank {
        RingRank(self.first_rank + rank)
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).expect("a ring has fewer than 2^32 messages")
}

/// Returns the number of message numbers that each connection of a ring has in each repetition. The packet size has no
/// influence.
fn numbers_per_connection(ring: &Ring) -> u64 {
    // The first channel has the largest blocks.
    RingChannel::new(ring, 0, Bytes::new(1)).max_messages()
}

/// Returns the number of message numbers that a ring has.
pub(crate) fn number_count(ring: &Ring) -> u64 {
    let connections = u64::from(ring.channels).saturating_mul(ring.ranks.into());
    numbers_per_connection(ring).saturating_mul(connections).saturating_mul(ring.repetitions.into())
}

/// Returns the repetition and the connection of a message, and the index of the message on this connection in this
/// repetition.
fn locate_message(ring: &Ring, per_connection: u32, message: MessageId) -> Option<(u32, ConnectionId, u32)> {
    let offset = message.get().checked_sub(ring.first_message.get())?;
    let (row, connections) = (offset / per_connection, ring.channels * ring.ranks);
    let (repetition, connection) = (row / connections, row % connections);
    let id = ConnectionId::new(ring.first_connection.get() + connection);
    (repetition < ring.repetitions).then_some((repetition, id, offset % per_connection))
}

/// The layouts of a plan's rings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingTable {
    layouts: Vec<RingLayout>,
}

impl RingTable {
    /// Computes the layouts of a plan's rings for packets with this payload size. The plan must be valid.
    pub fn new(rings: &[Ring], mtu: Bytes) -> Self {
        let mut first_rank = 0;
        let layouts = rings.iter().map(|ring| {
            let layout = RingLayout::new(*ring, mtu, first_rank);
            first_rank += ring.ranks;
            layout
        });
        Self { layouts: layouts.collect() }
    }

    /// Returns the layouts, in the order of the plan.
    pub fn layouts(&self) -> &[RingLayout] {
        &self.layouts
    }

    /// Returns the layout and the place of a connection, or `None` if no ring has this connection.
    pub fn find_connection(&self, connection: ConnectionId) -> Option<(&RingLayout, RingPlace)> {
        // Rings are sorted by their connections.
        let after = self.layouts.partition_point(|layout| layout.ring.first_connection <= connection);
        let layout = &self.layouts[after.checked_sub(1)?];
        Some((layout, layout.ring.place(connection)?))
    }

    /// Returns the ring, the place and the index of a message, or `None` if no ring has this message.
    pub fn find_message(&self, message: MessageId) -> Option<(usize, RingPlace, u32)> {
        // Rings are sorted by their message numbers.
        let ring =
            self.layouts.partition_point(|layout| layout.ring.first_message <= message).checked_sub(1)?;
        let (place, index) = self.layouts[ring].find_message(message)?;
        Some((ring, place, index))
    }

    /// Returns a message. The start of a ring's message is the start of the ring.
    pub fn message(&self, message: MessageId) -> Option<Message> {
        let (ring, place, index) = self.find_message(message)?;
        let layout = &self.layouts[ring];
        let amount = Amount::Exactly(layout.message(place, index).size);
        Some(Message { connection: layout.ring.connection(place), start: layout.ring.start, amount })
    }

    /// Returns the ring of a rank, and the rank's number in this ring.
    pub fn find_rank(&self, rank: RingRank) -> Option<(usize, u32)> {
        let ring = self.layouts.partition_point(|layout| layout.first_rank <= rank.0).checked_sub(1)?;
        Some((ring, rank.0 - self.layouts[ring].first_rank))
    }
}

/// Returns the connection of a ring message, or `None` if no ring has a message with this number.
pub(crate) fn connection_of(rings: &[Ring], message: MessageId) -> Option<ConnectionId> {
    let after = rings.partition_point(|ring| ring.first_message <= message);
    let ring = rings.get(after.checked_sub(1)?)?;
    let per_connection = u32::try_from(numbers_per_connection(ring)).ok()?;
    Some(locate_message(ring, per_connection, message)?.1)
}

/// Assigns the numbers of the rings' messages, which follow those of `messages` other messages. If the numbers exceed 32
/// bits, the plan is rejected later.
pub(crate) fn number_rings(rings: &mut [Ring], messages: usize) {
    let mut first = messages as u64;
    for ring in rings {
        ring.first_message = MessageId::new(u32::try_from(first).unwrap_or(u32::MAX));
        first = first.saturating_add(number_count(ring));
    }
}
