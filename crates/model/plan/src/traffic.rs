//! Connections and their messages.
//!
//! A one-shot flow is a connection with one message. A persistent connection keeps its law's window between messages.

use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Picos};

/// One direction of a connection between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// The index of the connection's law in [`Plan::laws`](crate::Plan::laws).
    pub law: u32,
    /// An additional input to the ECMP hash. Connections with the same hosts and entropy take the same path.
    pub entropy: u32,
    /// The connection's priority queue at hosts and switches. Lower-numbered queues are served first.
    pub priority: u8,
}

/// A message. Each connection sends its messages in plan order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The connection that sends the message.
    pub connection: ConnectionId,
    /// The time at which the application submits the message. If the message has a [`Dependency`] or waits for a join
    /// ([`Joins`](crate::joins::Joins)), this is the delay after its last prerequisite.
    pub start: Picos,
    /// The message size.
    pub amount: Amount,
}

/// A message size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A fixed number of bytes.
    Exactly(Bytes),
    /// A long flow: as many bytes as the connection can send until this time. A connection with a long flow must have
    /// no other messages.
    Until(Picos),
}

impl Amount {
    /// As many bytes as the connection can send until the run ends.
    pub const ENDLESS: Self = Self::Until(Picos::MAX);

    /// Returns the number of bytes, or `None` for a long flow.
    pub const fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Exactly(bytes) => Some(bytes),
            Self::Until(_) => None,
        }
    }
}

/// A dependency between two messages. The dependent message starts after the prerequisite is received or acknowledged.
///
/// Dependencies model collectives and request-response traffic. A message may depend on several other messages. If
/// several messages wait for the same events, a join needs less memory ([`Joins`](crate::joins::Joins)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The message to wait for.
    pub prerequisite: MessageId,
    /// The event to wait for.
    pub event: Event,
    /// The message that waits. This message must come later in the plan, and its sender must be the host at which the
    /// event occurs.
    pub dependent: MessageId,
}

/// A message event that other messages can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The receiver has received the whole message.
    Received,
    /// The sender has received an ACK for the whole message.
    Acknowledged,
}
