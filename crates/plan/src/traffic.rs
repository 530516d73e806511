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
}

/// Something to send over a connection; messages of one connection are sent in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The connection's index in the plan.
    pub connection: u32,
    /// When the application hands it over.
    pub at: Picos,
    /// How long it is; `None` for a message that never ends.
    pub size: Option<Bytes>,
}
