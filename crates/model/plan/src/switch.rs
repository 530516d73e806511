//! What switches do with packets, apart from forwarding them: buffer, pause, mark, stamp.

pub use poseidon_policies::buffer::{AnyBuffer, BUFFERS, PerQueue, Shared};
pub use poseidon_policies::mark::{AnyMark, CodelRfc, CodelTofino, MARKS, Red, Step};
use poseidon_types::{Bytes, Fraction, Picos};

/// Most priorities that a port may have: what Ethernet's three bits tell apart.
pub const MOST_PRIORITIES: u8 = 8;

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// From the last bit of a packet in to its place in an egress queue.
    pub pipeline: Picos,
    /// Queues per port; a lower number always goes first. At least one.
    pub priorities: u8,
    /// How much may wait.
    pub buffer: AnyBuffer,
    /// Whether the switch before is told to wait, so that nothing needs to be dropped.
    pub pause: Pause,
    /// Which packets get a congestion mark.
    pub mark: AnyMark,
    /// Which way a mark goes.
    pub marks_go: Direction,
    /// What the switch writes into packets.
    pub stamp: Stamp,
}

/// Whether the node before is told to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Never: what finds no room is dropped.
    Off,
    /// Priority flow control (IEEE 802.1Qbb). Each ingress port and priority may hold `alpha` times what is free of the
    /// memory; beyond, its peer is told to stop, and what is already on the way goes into headroom that is set aside for it.
    /// The buffer policy is not asked: nothing is dropped.
    Pfc {
        /// Memory of a switch, headroom included.
        memory: Bytes,
        /// The factor.
        alpha: Fraction,
        /// The peer may go on once so much less than the threshold is held.
        resume: Bytes,
    },
}

/// Which way a mark goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// On with the packet to its receiver, which echoes it.
    Forward,
    /// Onto the next ACK of the same flow that passes the switch the other way (RPM). Flows share this many counters. A flow
    /// whose ACKs have not been seen for a second is marked forward.
    ReversePerFlow {
        /// Counters; flows are hashed to them.
        counters: u32,
    },
    /// Onto the next ACK that comes in at the port that the packet leaves by (RPM, per port).
    ReversePerPort,
}

/// What the switch writes into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Nothing: the switch does not speak telemetry.
    Off,
    /// The largest hop delay.
    MaxHopDelay(DelayCarrier),
    /// One record per hop.
    HopRecords(RecordCarrier),
}

/// What carries the largest hop delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayCarrier {
    /// Nothing that has bytes: laws see what was measured, to the nanosecond.
    Exact,
    /// The MHD shim behind UDP: 256 ns, saturating, four bytes; an ACK carries its own shim and the reflection.
    Shim,
}

/// What carries records of hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCarrier {
    /// Nothing that has bytes: laws see what was measured.
    Exact,
    /// The five slots of HPCC's public ns-3 artifact: 42 bytes on data packets and ACKs, counters that are rounded and wrap.
    HpccNs3,
}

/// A switch does not stamp for a while, as one that knows no telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The switch.
    pub switch: u32,
    /// What leaves from then on is not stamped.
    pub from: Picos,
    /// What leaves from then on is.
    pub until: Picos,
}

impl Silence {
    /// A switch that never stamps.
    pub const fn always(switch: u32) -> Self {
        Self { switch, from: Picos::ZERO, until: Picos::MAX }
    }
}

impl Stamp {
    /// Bytes that telemetry adds to a data packet.
    pub const fn data_bytes(self) -> Bytes {
        match self {
            Self::MaxHopDelay(DelayCarrier::Shim) => Bytes::new(4),
            Self::HopRecords(RecordCarrier::HpccNs3) => Bytes::new(42),
            Self::Off | Self::MaxHopDelay(DelayCarrier::Exact) | Self::HopRecords(RecordCarrier::Exact) => {
                Bytes::ZERO
            }
        }
    }

    /// Bytes that telemetry adds to an ACK.
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
