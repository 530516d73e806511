//! What a host tells a law: one struct per event.

use poseidon_types::{Bytes, HopPath, Nanos};

/// An ACK and all it carried. A host fills what it supplies and leaves the rest as [`Ack::EMPTY`] has it; a law
/// that needs a missing signal is refused when it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// When it arrived, on the host's clock.
    pub now: Nanos,
    /// The raw round-trip time of the packet it acknowledges, NIC to NIC, without the receiver's turn-around.
    pub rtt: Nanos,
    /// Packets newly acknowledged; zero for a duplicate.
    pub packets: u32,
    /// Bytes newly acknowledged.
    pub bytes: Bytes,
    /// Of those, the bytes that carried a congestion mark.
    pub marked: Bytes,
    /// Everything before this byte has been acknowledged.
    pub acked_seq: u64,
    /// The next new byte the host will send: an ACK beyond the value noted when a round trip began ends it.
    pub next_seq: u64,
    /// The largest queueing delay of any hop on the data path; `None` where no hop measured.
    pub max_hop_delay: Option<Nanos>,
    /// The same on this ACK's own way back.
    pub reverse_max_hop_delay: Option<Nanos>,
    /// One record per hop of the data path; empty where there is none.
    pub hops: HopPath<'a>,
    /// Time spent inside the two hosts.
    pub endpoint_delay: Nanos,
    /// Switches on the data path.
    pub hop_count: u8,
    /// Whether the circuit to the destination is up.
    pub circuit_up: bool,
    /// The flow did not use its window: it had less than half of it in flight when this ACK arrived.
    pub app_limited: bool,
    /// A uniformly random number, fresh for each ACK.
    pub chance: u32,
}

impl Ack<'_> {
    /// An ACK that says nothing.
    pub const EMPTY: Self = Self {
        now: Nanos::ZERO,
        rtt: Nanos::ZERO,
        packets: 0,
        bytes: Bytes::ZERO,
        marked: Bytes::ZERO,
        acked_seq: 0,
        next_seq: 0,
        max_hop_delay: None,
        reverse_max_hop_delay: None,
        hops: HopPath::NONE,
        endpoint_delay: Nanos::ZERO,
        hop_count: 0,
        circuit_up: false,
        app_limited: false,
        chance: 0,
    };
}

/// The host has found a hole and enters fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When it was found.
    pub now: Nanos,
}
