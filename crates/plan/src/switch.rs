//! What switches do with packets, apart from forwarding them: three separable things.

use poseidon_types::{Bytes, Fraction, Picos};

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    /// From the last bit of a packet in to its place in an egress queue.
    pub pipeline: Picos,
    /// How much may wait, and what happens to the rest.
    pub buffer: Buffer,
    /// Which packets get a congestion mark.
    pub mark: Mark,
    /// What the switch writes into packets.
    pub stamp: Stamp,
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Each queue holds this much.
    Static {
        /// Bytes per queue.
        per_queue: Bytes,
    },
    /// All queues share a memory; a queue may hold `alpha` times what is free (dynamic thresholds).
    Shared {
        /// Bytes in all.
        total: Bytes,
        /// The factor.
        alpha: Fraction,
    },
}

/// Which packets get a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// None.
    Off,
    /// Every packet that leaves more than this behind it in the queue (DCTCP's step).
    Step {
        /// Bytes.
        threshold: Bytes,
    },
    /// A share of the packets that rises from none at `min` bytes behind them to `probability` at `max`, and all beyond
    /// (RED on the instantaneous queue, as DCQCN uses it).
    Red {
        /// Bytes.
        min: Bytes,
        /// Bytes.
        max: Bytes,
        /// The share at `max`.
        probability: Fraction,
    },
    /// `CoDel` as RFC 8289 has it, with marks for drops.
    CodelRfc(Codel),
    /// `CoDel` as a Tofino program has it, which RPM builds on.
    CodelTofino(Codel),
}

/// `CoDel`'s two constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// A packet may wait this long.
    pub target: Picos,
    /// And longer for this long, before one is marked.
    pub interval: Picos,
}

/// What the switch writes into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Nothing: the switch does not speak telemetry.
    Off,
    /// The largest hop delay.
    MaxHopDelay(Carrier),
    /// One record per hop, exact and without bytes of its own.
    HopRecords,
}

/// What carries the largest hop delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Nothing that has bytes: laws see what was measured, to the nanosecond.
    Exact,
    /// The MHD shim behind UDP: 256 ns, saturating, four bytes; an ACK carries its own shim and the reflection.
    Shim,
}

impl Stamp {
    /// Bytes that telemetry adds to a data packet.
    pub const fn data_bytes(self) -> Bytes {
        match self {
            Self::MaxHopDelay(Carrier::Shim) => Bytes::new(4),
            Self::Off | Self::MaxHopDelay(Carrier::Exact) | Self::HopRecords => Bytes::ZERO,
        }
    }

    /// Bytes that telemetry adds to an ACK.
    pub const fn ack_bytes(self) -> Bytes {
        match self {
            Self::MaxHopDelay(Carrier::Shim) => Bytes::new(8),
            Self::Off | Self::MaxHopDelay(Carrier::Exact) | Self::HopRecords => Bytes::ZERO,
        }
    }
}
