//! Switch configuration: buffers, PFC, ECN marking and telemetry.

use core::fmt;
pub use poseidon_policies::buffer::{AnyBufferPolicy, BUFFER_POLICIES, PerQueue, Shared};
pub use poseidon_policies::mark::{AnyMarkPolicy, CodelRfc, CodelTofino, MARK_POLICIES, Red, Step};
use poseidon_types::{Bytes, Fraction, Picos, PortId, SwitchId};

/// The maximum number of priorities per port. Ethernet has three priority bits.
pub const MAX_PRIORITIES: u8 = 8;

/// A priority for which ports have no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityTooHigh {
    /// The priority.
    pub priority: u8,
    /// The number of queues per port.
    pub queues: u8,
}

impl fmt::Display for PriorityTooHigh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { priority, queues } = *self;
        let needed = u16::from(priority) + 1;
        write!(f, "priority {priority} needs {needed} queues per port, but switch.priorities is {queues}; ")?;
        if priority < MAX_PRIORITIES {
            write!(f, "set switch.priorities = {needed}")
        } else {
            write!(f, "use priorities from 0 to {}", MAX_PRIORITIES - 1)
        }
    }
}

/// The configuration shared by all switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// The delay between receiving a packet's last bit and placing the packet in an egress queue.
    pub pipeline: Picos,
    /// The number of priority queues per port, at least one. The scheduler serves lower-numbered queues first.
    pub priorities: u8,
    /// The buffer policy, which decides whether to admit a packet.
    pub buffer: AnyBufferPolicy,
    /// Packet trimming. If `None`, switches drop packets that do not fit in the buffer.
    pub trim: Option<Trim>,
    /// Priority flow control, which prevents drops.
    pub pause: Pause,
    /// The ECN marking policy.
    pub mark: AnyMarkPolicy,
    /// Whether ports to hosts mark packets. If not, only ports to other switches do.
    pub mark_host_links: bool,
    /// The direction in which ECN marks travel.
    pub mark_direction: MarkDirection,
    /// The telemetry that the switch writes into packets.
    pub stamp: Stamp,
}

/// Packet trimming: a switch cuts a data packet that does not fit in the buffer to its header.
///
/// If a data packet finds its queue full, the switch trims either this packet or the newest packet in the queue, each
/// with probability 1/2. The header waits in the queue with the highest priority, which may hold twice as many bytes as
/// the buffer policy allows a queue. The receiver reports the trimmed packet to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// The size of a trimmed packet.
    pub size: Bytes,
}

/// A port whose link is slower than its topology states, in the direction that leaves the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowPort {
    /// The switch that sends on the link.
    pub switch: SwitchId,
    /// The egress port.
    pub port: PortId,
    /// The factor by which the rate, the buffer and the marking thresholds of the port are smaller. At least two.
    pub divisor: u8,
}

/// The policies of one switch that differ from the shared configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchOverride {
    /// The switch ID.
    pub switch: SwitchId,
    /// The switch's own buffer policy.
    pub buffer: Option<AnyBufferPolicy>,
    /// The switch's own ECN marking policy.
    pub mark: Option<AnyMarkPolicy>,
}

/// Whether switches pause their upstream neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// PFC is off. The switch drops packets that do not fit in the buffer.
    Off,
    /// Priority flow control (IEEE 802.1Qbb).
    ///
    /// Each ingress port and priority may use up to `alpha` times the free memory. Above this threshold, the switch
    /// pauses the upstream neighbor and stores packets that are already in flight in reserved headroom. The buffer
    /// policy is ignored, and no packets are dropped.
    Pfc {
        /// The memory per switch, including headroom.
        memory: Bytes,
        /// The pause threshold as a multiple of the free memory.
        alpha: Fraction,
        /// How far usage must fall below the threshold before the switch sends a resume frame.
        resume: Bytes,
    },
}

/// The direction in which ECN marks travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkDirection {
    /// The packet itself carries the mark to the receiver, which echoes it to the sender.
    Forward,
    /// The switch marks the same flow's next ACK in the reverse direction (RPM).
    ///
    /// All flows share a table of counters. If the switch has not seen an ACK from a flow for one second, the switch
    /// marks the flow's data packets instead.
    ReversePerFlow {
        /// The number of counters. A hash function maps each flow to a counter.
        counters: u32,
    },
    /// The switch marks the next ACK that arrives on the packet's egress port (per-port RPM).
    ReversePerPort,
}

/// The telemetry that a switch writes into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// No telemetry.
    Off,
    /// The maximum hop delay.
    MaxHopDelay(DelayCarrier),
    /// One record per hop.
    HopRecords(RecordCarrier),
}

/// The encoding of the maximum hop delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayCarrier {
    /// Adds no bytes to packets. Laws receive the exact delay in nanoseconds.
    Exact,
    /// The four-byte MHD shim after the UDP header, with saturating delay codes in steps of 256 ns. An ACK carries both
    /// its own shim and the echoed shim.
    Shim,
}

/// The encoding of hop records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCarrier {
    /// Adds no bytes to packets. Laws receive the exact values.
    Exact,
    /// The five-slot header from HPCC's public ns-3 artifact, which adds 42 bytes to data packets and ACKs. Byte
    /// counts are rounded, and the timestamp and the byte counter wrap.
    HpccNs3,
}

/// A period during which one switch writes no telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryOff {
    /// The switch ID.
    pub switch: SwitchId,
    /// The start of the period. Packets that leave the switch at or after this time get no telemetry from it.
    pub from: Picos,
    /// The end of the period. Packets that leave the switch at or after this time get telemetry again.
    pub until: Picos,
}

impl TelemetryOff {
    /// Returns a period that covers the whole run, for a switch that does not support telemetry.
    pub const fn always(switch: SwitchId) -> Self {
        Self { switch, from: Picos::ZERO, until: Picos::MAX }
    }
}

impl Stamp {
    /// Returns the number of bytes that telemetry adds to a data packet.
    pub const fn data_bytes(self) -> Bytes {
        match self {
            Self::MaxHopDelay(DelayCarrier::Shim) => Bytes::new(4),
            Self::HopRecords(RecordCarrier::HpccNs3) => Bytes::new(42),
            Self::Off | Self::MaxHopDelay(DelayCarrier::Exact) | Self::HopRecords(RecordCarrier::Exact) => {
                Bytes::ZERO
            }
        }
    }

    /// Returns the number of bytes that telemetry adds to an ACK.
    pub const fn ack_bytes(self) -> Bytes {
        match self {
            Self::MaxHopDelay(DelayCarrier::Shim) => Bytes::new(8),
            Self::HopRecords(RecordCarrier::HpccNs3) => Bytes::new(42),
            Self::Off | Self::MaxHopDelay(DelayCarrier::Exact) | Self::HopRecords(RecordCarrier::Exact) => {
                Bytes::ZERO
            }
        }
    }
}
