//! What happened: one row per fact. Columns carry their unit.

use core::ops::ControlFlow;
use poseidon_types::{Bytes, Nanos, Packets, Picos};

/// Takes the rows of a run as they come, in order of time.
pub trait Sink {
    /// A message has been acknowledged whole.
    fn message(&mut self, row: MessageRow);
    /// A message has arrived whole.
    fn received(&mut self, row: ReceivedRow);
    /// A packet was dropped.
    fn drop(&mut self, row: DropRow);
    /// The state of a watched queue.
    fn queue(&mut self, row: QueueRow);
    /// The state of a watched connection at its sender.
    fn sender(&mut self, row: SenderRow);
    /// The state of a watched connection at its receiver.
    fn receiver(&mut self, row: ReceiverRow);
    /// What the law of a watched connection saw and decided.
    fn decision(&mut self, row: DecisionRow);

    /// Told now and then how far the run is. To break off ends it there, with the rows so far and a valid report.
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A message acknowledged whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Its index in the plan.
    pub message: u32,
    /// When the application handed it over.
    pub start: Picos,
    /// When its last byte was acknowledged at the sender.
    pub acknowledged: Picos,
    /// Its length; for one that ended at a time, what was sent of it.
    pub size: Bytes,
    /// Packets that had to be sent again.
    pub retransmitted: u32,
}

/// A message that is whole at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedRow {
    /// Its index in the plan.
    pub message: u32,
    /// When its last missing byte arrived.
    pub at: Picos,
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
    /// Its number in the connection.
    pub packet: u32,
    /// Why.
    pub cause: DropCause,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// There was no room for it.
    Buffer,
    /// Every link that leads on was down.
    Link,
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
    /// Bytes waiting, all its queues together.
    pub waiting: Bytes,
    /// How long the packet that left last had waited.
    pub delay: Nanos,
    /// Bytes sent so far.
    pub sent: Bytes,
}

/// A connection at its sender, at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderRow {
    /// When.
    pub at: Picos,
    /// Its index in the plan.
    pub connection: u32,
    /// What its law allows in flight.
    pub window: Packets,
    /// Packets in flight.
    pub in_flight: u32,
    /// The smoothed round-trip time; zero before the first.
    pub srtt: Nanos,
}

/// A connection at its receiver, at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverRow {
    /// When.
    pub at: Picos,
    /// Its index in the plan.
    pub connection: u32,
    /// Payload that has arrived, each byte counted once.
    pub received: Bytes,
}

/// What a law saw in one ACK, and what it allows from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionRow {
    /// When.
    pub at: Picos,
    /// The connection's index in the plan.
    pub connection: u32,
    /// The packet that caused the ACK.
    pub packet: u32,
    /// The round-trip time.
    pub rtt: Nanos,
    /// Whether the ACK told of a mark.
    pub marked: bool,
    /// The largest delay at any hop of the packet's way, as the law read it; `None` where no hop said.
    pub hop_delay: Option<Nanos>,
    /// The largest queue at any hop, as the law read it; `None` where no hop said.
    pub hop_queue: Option<Bytes>,
    /// What the law allows in flight.
    pub window: Packets,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The time in the run.
    pub now: Picos,
    /// Packet-hops so far, of the part that reports.
    pub packet_hops: u64,
    /// Messages acknowledged so far.
    pub finished: u64,
}

/// Keeps every row in memory: for tests and small runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Messages acknowledged whole.
    pub messages: Vec<MessageRow>,
    /// Messages received whole.
    pub received: Vec<ReceivedRow>,
    /// Dropped packets.
    pub drops: Vec<DropRow>,
    /// Watched queues.
    pub queues: Vec<QueueRow>,
    /// Watched connections at their senders.
    pub senders: Vec<SenderRow>,
    /// Watched connections at their receivers.
    pub receivers: Vec<ReceiverRow>,
    /// Decisions of watched connections.
    pub decisions: Vec<DecisionRow>,
}

impl Sink for Kept {
    fn message(&mut self, row: MessageRow) {
        self.messages.push(row);
    }

    fn received(&mut self, row: ReceivedRow) {
        self.received.push(row);
    }

    fn drop(&mut self, row: DropRow) {
        self.drops.push(row);
    }

    fn queue(&mut self, row: QueueRow) {
        self.queues.push(row);
    }

    fn sender(&mut self, row: SenderRow) {
        self.senders.push(row);
    }

    fn receiver(&mut self, row: ReceiverRow) {
        self.receivers.push(row);
    }

    fn decision(&mut self, row: DecisionRow) {
        self.decisions.push(row);
    }
}
