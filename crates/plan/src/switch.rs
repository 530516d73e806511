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
}

/// What the switch writes into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Nothing: the switch does not speak telemetry.
    Off,
    /// The largest hop delay, exactly as measured.
    MaxHopDelay,
    /// One record per hop.
    HopRecords,
}
