//! What hosts do around a law.

use poseidon_types::{Bytes, Nanos};

/// A host's transport: the same for all hosts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Payload of a full packet.
    pub mtu: Bytes,
    /// Bytes of headers in front of the payload, telemetry not counted.
    pub header: Bytes,
    /// Size of an ACK on the wire.
    pub ack: Bytes,
    /// When a packet fits a fractional window.
    pub eligibility: Eligibility,
    /// The shortest retransmission timeout.
    pub min_rto: Nanos,
}

/// When a packet fits a fractional window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// When the window holds it entirely: in flight + 1 ≤ window.
    Floor,
    /// When the window holds a part of it: in flight < window.
    Ceil,
}
