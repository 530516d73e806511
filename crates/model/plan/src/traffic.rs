//! Connections and the messages they carry. A flow that is sent once is a connection with one message; a persistent
//! connection keeps its law's window from one message to the next.

use poseidon_types::{Bytes, Picos};

/// One direction of a connection between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The sender's number.
    pub from: u32,
    /// The receiver's number.
    pub to: u32,
    /// Which of the plan's laws it runs.
    pub law: u32,
    /// What its packets are hashed by, beside their ends: connections with the same number and ends share a path.
    pub entropy: u32,
    /// The queue its packets wait in, at hosts and switches; lower goes first.
    pub priority: u8,
}

/// Something to send over a connection. A connection sends its messages in the order of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The connection's index in the plan.
    pub connection: u32,
    /// When the application hands it over; for a message that waits for others ([`After`]), how long after the last of them.
    pub at: Picos,
    /// How much it is.
    pub amount: Amount,
}

/// How much a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This much.
    Exactly(Bytes),
    /// As much as goes until this time: a long flow that stops. It must be the only message of its connection.
    Until(Picos),
}

impl Amount {
    /// As much as goes until the run ends.
    pub const ENDLESS: Self = Self::Until(Picos::MAX);

    /// How much, where that is known before.
    pub const fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Exactly(bytes) => Some(bytes),
            Self::Until(_) => None,
        }
    }
}

/// A message waits for another: how collectives and request-response traffic are made. It may wait for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct After {
    /// What is waited for.
    pub message: u32,
    /// Until when.
    pub event: Event,
    /// What waits: a later message of the plan, sent by the host where the event happens.
    pub then: u32,
}

/// What a message may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The other message is whole at its receiver.
    Received,
    /// The other message is acknowledged whole at its sender.
    Acknowledged,
}
