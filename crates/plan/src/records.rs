//! What happened: one row per fact. Columns carry their unit.

use poseidon_types::{Bytes, Nanos, Picos};

/// Takes the rows of a run as they come.
pub trait Sink {
    /// A message has been acknowledged whole.
    fn message(&mut self, row: MessageRow);
    /// A packet was dropped.
    fn drop(&mut self, row: DropRow);
    /// The state of a watched queue.
    fn queue(&mut self, row: QueueRow);
}

/// A finished message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Its index in the plan.
    pub message: u32,
    /// When the application handed it over.
    pub start: Picos,
    /// When its last byte was acknowledged at the sender.
    pub acknowledged: Picos,
    /// Its length.
    pub size: Bytes,
    /// Packets that had to be sent again.
    pub retransmitted: u32,
}

/// A dropped packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropRow {
    /// When.
    pub at: Picos,
    /// The switch.
    pub switch: u32,
    /// The connection it belonged to.
    pub connection: u32,
}

/// A queue at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// When.
    pub at: Picos,
    /// The switch.
    pub switch: u32,
    /// The egress port.
    pub port: u32,
    /// Bytes waiting.
    pub waiting: Bytes,
    /// How long the packet that left last had waited.
    pub delay: Nanos,
}

/// Keeps every row in memory: for tests and small runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Finished messages, in order of completion.
    pub messages: Vec<MessageRow>,
    /// Dropped packets.
    pub drops: Vec<DropRow>,
    /// Watched queues.
    pub queues: Vec<QueueRow>,
}

impl Sink for Kept {
    fn message(&mut self, row: MessageRow) {
        self.messages.push(row);
    }

    fn drop(&mut self, row: DropRow) {
        self.drops.push(row);
    }

    fn queue(&mut self, row: QueueRow) {
        self.queues.push(row);
    }
}
