//! A run's result rows. Each row is one observation.

use core::ops::ControlFlow;
use poseidon_types::{Bytes, ConnectionId, MessageId, Nanos, Packets, Picos, PortId, SwitchId};

/// Receives a run's rows in chronological order.
pub trait Sink {
    /// Records a fully acknowledged message.
    fn record_message(&mut self, row: MessageRow);
    /// Records a fully received message.
    fn record_received(&mut self, row: ReceivedRow);
    /// Records a dropped packet.
    fn record_drop(&mut self, row: DropRow);
    /// Records a sample of a watched port.
    fn record_queue(&mut self, row: QueueRow);
    /// Records a sample of a watched connection at its sender.
    fn record_sender(&mut self, row: SenderRow);
    /// Records a sample of a watched connection at its receiver.
    fn record_receiver(&mut self, row: ReceiverRow);
    /// Records one ACK's input to a watched connection's law and the law's decision.
    fn record_decision(&mut self, row: DecisionRow);

    /// Called periodically to report progress. Returning `Break` stops the run; the report and all rows recorded so far
    /// remain valid.
    fn on_progress(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A fully acknowledged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// The message ID.
    pub message: MessageId,
    /// The time at which the application submitted the message.
    pub start: Picos,
    /// The time at which the ACK for the last byte reached the sender.
    pub acknowledged: Picos,
    /// The message size. For a long flow, this is the number of bytes sent.
    pub size: Bytes,
    /// The number of retransmitted packets.
    pub retransmitted: u32,
}

/// A fully received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedRow {
    /// The message ID.
    pub message: MessageId,
    /// The time at which the last missing byte arrived.
    pub time: Picos,
}

/// A dropped packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropRow {
    /// The time of the drop.
    pub time: Picos,
    /// The switch ID.
    pub switch: SwitchId,
    /// The packet's connection.
    pub connection: ConnectionId,
    /// The packet's number within the connection.
    pub packet: u32,
    /// The reason for the drop.
    pub cause: DropCause,
}

/// The reason that a switch drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// The buffer was full.
    Buffer,
    /// All links to the destination were down.
    Link,
}

/// A sample of an egress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// The sample time.
    pub time: Picos,
    /// The switch ID.
    pub switch: SwitchId,
    /// The egress port.
    pub port: PortId,
    /// The total bytes in all of the port's queues.
    pub queued: Bytes,
    /// The queueing delay of the last departed packet.
    pub delay: Nanos,
    /// The bytes sent since the start of the run.
    pub sent: Bytes,
}

/// A sample of a connection at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderRow {
    /// The sample time.
    pub time: Picos,
    /// The connection ID.
    pub connection: ConnectionId,
    /// The law's congestion window.
    pub window: Packets,
    /// The number of packets in flight.
    pub in_flight: u32,
    /// The smoothed RTT, or zero before the first RTT sample.
    pub srtt: Nanos,
}

/// A sample of a connection at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverRow {
    /// The sample time.
    pub time: Picos,
    /// The connection ID.
    pub connection: ConnectionId,
    /// The payload bytes received so far. Each byte counts only once.
    pub received: Bytes,
}

/// A law's input and decision for one ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionRow {
    /// The time at which the ACK arrived.
    pub time: Picos,
    /// The connection ID.
    pub connection: ConnectionId,
    /// The number of the packet that triggered the ACK.
    pub packet: u32,
    /// The RTT sample.
    pub rtt: Nanos,
    /// Whether the ACK echoed an ECN mark.
    pub marked: bool,
    /// The maximum hop delay on the path, as seen by the law, or `None` if there is no telemetry.
    pub hop_delay: Option<Nanos>,
    /// The longest queue on the path, as seen by the law, or `None` if there is no telemetry.
    pub hop_queue: Option<Bytes>,
    /// The congestion window after processing the ACK.
    pub window: Packets,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current time in the run.
    pub now: Picos,
    /// The number of packet-hops so far in the reporting shard.
    pub packet_hops: u64,
    /// The number of fully acknowledged messages so far.
    pub finished: u64,
}

/// A sink that stores all rows in memory. Intended for tests and small runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySink {
    /// Fully acknowledged messages.
    pub messages: Vec<MessageRow>,
    /// Fully received messages.
    pub received: Vec<ReceivedRow>,
    /// Dropped packets.
    pub drops: Vec<DropRow>,
    /// Samples of watched ports.
    pub queues: Vec<QueueRow>,
    /// Samples of watched connections at their senders.
    pub senders: Vec<SenderRow>,
    /// Samples of watched connections at their receivers.
    pub receivers: Vec<ReceiverRow>,
    /// Law decisions of watched connections.
    pub decisions: Vec<DecisionRow>,
}

impl Sink for MemorySink {
    fn record_message(&mut self, row: MessageRow) {
        self.messages.push(row);
    }

    fn record_received(&mut self, row: ReceivedRow) {
        self.received.push(row);
    }

    fn record_drop(&mut self, row: DropRow) {
        self.drops.push(row);
    }

    fn record_queue(&mut self, row: QueueRow) {
        self.queues.push(row);
    }

    fn record_sender(&mut self, row: SenderRow) {
        self.senders.push(row);
    }

    fn record_receiver(&mut self, row: ReceiverRow) {
        self.receivers.push(row);
    }

    fn record_decision(&mut self, row: DecisionRow) {
        self.decisions.push(row);
    }
}
