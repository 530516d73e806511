//! A run's result rows. Each row is one observation.

use crate::recording::NodePort;
use crate::stack::StackState;
use crate::topology::SwitchPort;
use core::ops::ControlFlow;
use poseidon_types::{
    BitRate, Bytes, ConnectionId, HopStack, MaxHopDelay, MessageId, Nanos, Packets, Picos, PortId, SwitchId,
};

/// Receives a run's rows in chronological order. By default, a sink ignores a row.
pub trait Sink {
    /// Records a fully acknowledged message.
    fn record_message(&mut self, _: MessageRow) {}
    /// Records a fully received message.
    fn record_received(&mut self, _: ReceivedRow) {}
    /// Records a dropped packet.
    fn record_drop(&mut self, _: DropRow) {}
    /// Records the number of packets that a port trimmed.
    fn record_trims(&mut self, _: TrimRow) {}
    /// Records the time for which PFC paused a port.
    fn record_pause_time(&mut self, _: PauseTimeRow) {}
    /// Records that a paused port waits for another one when the run ends.
    fn record_pause_wait(&mut self, _: PauseWaitRow) {}
    /// Records a sample of a watched port.
    fn record_queue(&mut self, _: QueueRow) {}
    /// Records a sample of a watched connection at its sender.
    fn record_sender(&mut self, _: SenderRow) {}
    /// Records a sample of a watched connection at its receiver.
    fn record_receiver(&mut self, _: ReceiverRow) {}
    /// Records one ACK's input to a watched connection's law and the law's decision.
    fn record_decision(&mut self, _: DecisionRow) {}

    /// Records an ECN mark. Only a [recording](crate::recording::Recording) has these and the following rows.
    fn record_mark(&mut self, _: MarkRow) {}
    /// Records the begin or the end of a PFC pause.
    fn record_pause(&mut self, _: PauseRow) {}
    /// Records the state of a watched connection's law.
    fn record_law_state(&mut self, _: LawStateRow) {}
    /// Records a packet at a captured port.
    fn record_packet(&mut self, _: PacketRow) {}

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
    /// The message size. For a long flow, this is the number of bytes sent. In a real stack, it includes the stack's
    /// headers and retransmissions.
    pub size: Bytes,
    /// The number of retransmitted packets. In a real stack, this is the number of packets that the connection declared
    /// lost between the start of the message and its last ACK.
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
///
/// The datagrams of a real stack have even numbers if they come from the connection's sender, and odd numbers if they
/// come from its receiver.
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

/// The number of packets that an egress port trimmed during the run. Ports that trimmed no packet have no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRow {
    /// The switch ID.
    pub switch: SwitchId,
    /// The egress port.
    pub port: PortId,
    /// The number of trimmed packets.
    pub trimmed: u64,
}

/// The time for which PFC paused at least one priority of a port. Ports that were never paused have no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseTimeRow {
    /// The port that did not send.
    pub port: NodePort,
    /// The total time.
    pub paused: Picos,
}

/// A port that waits for another port when the run ends: the packets that made a switch pause the first port wait in the
/// queue of the second port, which has been paused for a long time as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseWaitRow {
    /// The port that is paused.
    pub waiting: SwitchPort,
    /// The port of the next switch for which it waits.
    pub blocked_by: SwitchPort,
    /// The priority that is paused.
    pub priority: u8,
}

/// The reason that a switch drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// The buffer was full.
    Buffer,
    /// All links to the destination were down.
    Link,
    /// The link lost the packet.
    Loss,
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

impl SenderRow {
    /// Returns the sample of a connection in a real stack. The stack counts bytes, and the sample counts packets.
    pub fn from_stack(time: Picos, connection: ConnectionId, state: &StackState, mtu: Bytes) -> Self {
        let window = (u128::from(state.window.get()) << Packets::FRACTION_BITS) / u128::from(mtu.get());
        Self {
            time,
            connection,
            window: Packets::from_q24(u64::try_from(window).unwrap_or(u64::MAX)),
            in_flight: u32::try_from(state.in_flight.get().div_ceil(mtu.get())).unwrap_or(u32::MAX),
            srtt: state.srtt,
        }
    }
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

/// An ECN mark that a switch set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRow {
    /// The time at which the marked packet departed.
    pub time: Picos,
    /// The switch ID.
    pub switch: SwitchId,
    /// The egress port.
    pub port: PortId,
    /// The packet's connection.
    pub connection: ConnectionId,
    /// The packet's number within the connection. With reverse marking, an ACK carries the mark instead.
    pub packet: u32,
}

/// The begin or the end of a PFC pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseRow {
    /// The time at which the PFC frame arrived.
    pub time: Picos,
    /// The port that stops or continues to send.
    pub port: NodePort,
    /// The priority that is paused.
    pub priority: u8,
    /// Whether the pause begins. Otherwise, it ends.
    pub paused: bool,
}

/// The state of a watched connection's law after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LawStateRow {
    /// The time at which the ACK arrived.
    pub time: Picos,
    /// The connection ID.
    pub connection: ConnectionId,
    /// The number of the packet that triggered the ACK.
    pub packet: u32,
    /// The RTT sample.
    pub rtt: Nanos,
    /// The smoothed RTT.
    pub srtt: Nanos,
    /// The maximum hop delay on the path, as seen by the law, or `None` if there is no telemetry.
    pub hop_delay: Option<Nanos>,
    /// The law's target delay, or `None` if the law has none.
    pub target: Option<Nanos>,
    /// The congestion window after processing the ACK.
    pub window: Packets,
    /// The pacing rate after processing the ACK, or `None` if ACKs clock the connection.
    pub pacing_rate: Option<BitRate>,
    /// The number of packets in flight.
    pub in_flight: u32,
}

/// A packet at a captured port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRow {
    /// The time of the event.
    pub time: Picos,
    /// The captured port.
    pub port: NodePort,
    /// What happened to the packet at the port.
    pub event: PacketEvent,
    /// The packet.
    pub packet: CapturedPacket,
}

/// What happened to a captured packet at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketEvent {
    /// The packet's last bit arrived. At a switch, the pipeline delay has also passed.
    Received,
    /// The packet's first bit was sent.
    Sent,
    /// The switch dropped the packet instead of queueing it at the port.
    Dropped(DropCause),
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// The packet's connection. A PFC frame belongs to no connection and has the number zero.
    pub connection: ConnectionId,
    /// The kind.
    pub kind: CapturedKind,
    /// For data, the packet's number within the connection. For a reply, the number of the data packet that caused it.
    pub number: u32,
    /// For a reply, every packet below this number has arrived.
    pub cumulative_ack: u32,
    /// The packet's size on the wire.
    pub size: Bytes,
    /// The payload size.
    pub payload: Bytes,
    /// The priority. For a PFC frame, the priority that it pauses or resumes.
    pub priority: u8,
    /// Whether a data packet is marked (CE) or a reply echoes a mark (ECE).
    pub marked: bool,
    /// Whether a data packet reports a window reduction (CWR).
    pub cwr: bool,
    /// For data, the number of switches traversed so far.
    pub switches: u8,
    /// The telemetry.
    pub telemetry: CapturedTelemetry,
}

/// The kind of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapturedKind {
    /// Data.
    Data,
    /// An ACK.
    Ack,
    /// A NACK, which asks the sender to go back or reports a trimmed packet.
    Nack,
    /// A congestion notification packet.
    Cnp,
    /// A PFC frame that pauses its priority.
    Pause,
    /// A PFC frame that resumes its priority.
    Resume,
    /// Data that a switch trimmed to its header.
    Trimmed,
}

impl CapturedKind {
    /// Returns whether the packet travels from the sender of its connection to the receiver.
    pub const fn is_from_sender(self) -> bool {
        matches!(self, Self::Data | Self::Trimmed)
    }
}

/// The telemetry of a captured packet, before a wire format rounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "captures are short, and a row without an allocation can be copied"
)]
pub enum CapturedTelemetry {
    /// No telemetry.
    None,
    /// The maximum hop delay.
    MaxHopDelay {
        /// The delay on this packet's path so far.
        path: MaxHopDelay,
        /// For a reply, the delay on the data packet's path.
        reflected: MaxHopDelay,
    },
    /// One record per hop. A reply carries the records of the data packet.
    HopRecords(HopStack),
}

/// The rows of a [recording](crate::recording::Recording).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedRows {
    /// ECN marks.
    pub marks: Vec<MarkRow>,
    /// PFC pauses and their ends.
    pub pauses: Vec<PauseRow>,
    /// The states of watched connections' laws.
    pub law_states: Vec<LawStateRow>,
    /// Captured packets.
    pub packets: Vec<PacketRow>,
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
    /// Numbers of trimmed packets.
    pub trims: Vec<TrimRow>,
    /// Times for which PFC paused ports.
    pub pause_times: Vec<PauseTimeRow>,
    /// Paused ports that wait for others when the run ends.
    pub pause_waits: Vec<PauseWaitRow>,
    /// Samples of watched ports.
    pub queues: Vec<QueueRow>,
    /// Samples of watched connections at their senders.
    pub senders: Vec<SenderRow>,
    /// Samples of watched connections at their receivers.
    pub receivers: Vec<ReceiverRow>,
    /// Law decisions of watched connections.
    pub decisions: Vec<DecisionRow>,
    /// The rows of a recording.
    pub recorded: RecordedRows,
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

    fn record_trims(&mut self, row: TrimRow) {
        self.trims.push(row);
    }

    fn record_pause_time(&mut self, row: PauseTimeRow) {
        self.pause_times.push(row);
    }

    fn record_pause_wait(&mut self, row: PauseWaitRow) {
        self.pause_waits.push(row);
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

    fn record_mark(&mut self, row: MarkRow) {
        self.recorded.marks.push(row);
    }

    fn record_pause(&mut self, row: PauseRow) {
        self.recorded.pauses.push(row);
    }

    fn record_law_state(&mut self, row: LawStateRow) {
        self.recorded.law_states.push(row);
    }

    fn record_packet(&mut self, row: PacketRow) {
        self.recorded.packets.push(row);
    }
}
