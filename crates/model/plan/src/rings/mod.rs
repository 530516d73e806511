//! Rings, whose messages are computed when they are due.
//!
//! A ring collective of `n` ranks has up to `2 n (n - 1)` messages per channel, which all follow the same rule. A
//! [`Ring`] holds the rule. A backend computes a message from it when the message is due, so memory grows with the
//! number of ranks instead of the number of messages.
//!
//! A ring has `channels` times `ranks` connections. In each channel, the connection at position `i` goes from the rank
//! at position `i` to the rank at position `i + 1`. In each repetition, it sends one block per step:
//!
//! - The messages of the first step start when the rank starts the repetition.
//! - Each message of a later step starts when the rank has received the same message from the previous position, and
//!   has started the repetition.
//! - A rank starts the next repetition `compute_gap` after it has received all messages of the previous one, in all
//!   channels.

mod blocks;
mod check;
mod layout;
mod progress;
mod sample;

pub use blocks::{RingChannel, RingMessage};
pub use layout::{RingLayout, RingRank, RingTable};
pub use progress::{RingEvent, RingProgress};
pub use sample::{RingSample, RingSamples};

pub(crate) use check::{InvalidRing, check_rings};
pub(crate) use layout::{connection_of, number_count, number_rings};

use core::ops::Range;
use poseidon_types::{Bytes, ConnectionId, MessageId, Picos};

/// A ring collective between several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The first number of the ring's messages. The numbers of rings follow those of
    /// [`Plan::messages`](crate::Plan::messages).
    pub first_message: MessageId,
    /// The first of the ring's connections, which are sorted by channel and position.
    pub first_connection: ConnectionId,
    /// The number of ranks.
    pub ranks: u32,
    /// The number of channels.
    pub channels: u32,
    /// The number of consecutive ranks that form a server. Channel `c` enters each server at its rank `c`, modulo this
    /// number. With 1, the ranks have the same order in all channels.
    pub ranks_per_server: u32,
    /// The data of all channels.
    pub size: Bytes,
    /// The size of the largest message. If `None`, a block is one message.
    pub chunk: Option<Bytes>,
    /// The number of steps in a repetition.
    pub steps: u32,
    /// In step `s`, position `i` sends block `i - lag - s`, modulo the number of ranks.
    pub lag: u32,
    /// The number of repetitions.
    pub repetitions: u32,
    /// The time from the end of a repetition at a rank until the rank starts the next repetition.
    pub compute_gap: Picos,
    /// The time at which all ranks start the first repetition.
    pub start: Picos,
}

/// A connection of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// The channel.
    pub channel: u32,
    /// The position of the sender in the channel.
    pub position: u32,
}

impl Ring {
    /// Returns the numbers of the ring's connections.
    pub fn connections(&self) -> Range<u32> {
        let first = self.first_connection.get();
        first..first.saturating_add(self.channels.saturating_mul(self.ranks))
    }

    /// Returns the place of a connection, or `None` if it does not belong to the ring.
    pub fn place(&self, connection: ConnectionId) -> Option<RingPlace> {
        let index = connection.get().checked_sub(self.first_connection.get())?;
        let place = RingPlace { channel: index / self.ranks, position: index % self.ranks };
        (place.channel < self.channels).then_some(place)
    }

    /// Returns all places of the ring, in the order of its connections.
    pub fn places(&self) -> impl Iterator<Item = RingPlace> + use<> {
        let Self { ranks, channels, .. } = *self;
        (0..channels).flat_map(move |channel| (0..ranks).map(move |position| RingPlace { channel, position }))
    }

    /// Returns the connection at a place.
    pub fn connection(&self, place: RingPlace) -> ConnectionId {
        ConnectionId::new(self.first_connection.get() + place.channel * self.ranks + place.position)
    }

    /// Returns the place whose sender receives the messages of a place.
    pub const fn next(&self, place: RingPlace) -> RingPlace {
        RingPlace { position: (place.position + 1) % self.ranks, ..place }
    }

    /// Returns the place whose messages the sender of a place receives.
    pub const fn previous(&self, place: RingPlace) -> RingPlace {
        RingPlace { position: (place.position + self.ranks - 1) % self.ranks, ..place }
    }

    /// Returns the rank that sends at a place.
    pub const fn rank(&self, place: RingPlace) -> u32 {
        let server = self.ranks_per_server;
        let local = (place.position % server + place.channel % server) % server;
        place.position / server * server + local
    }

    /// Returns the place at which a rank sends in a channel.
    pub const fn place_of(&self, channel: u32, rank: u32) -> RingPlace {
        let server = self.ranks_per_server;
        let local = (rank % server + server - channel % server) % server;
        RingPlace { channel, position: rank / server * server + local }
    }
}
