//! What hosts do around a law.

use poseidon_laws::parts::plb::PlbParams;
use poseidon_types::{Bytes, Nanos};

/// A host's transport: the same for all hosts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Payload of a full packet.
    pub mtu: Bytes,
    /// Bytes of headers in front of the payload, telemetry not counted.
    pub header: Bytes,
    /// Size of an ACK on the wire, telemetry not counted.
    pub ack: Bytes,
    /// When a packet fits a fractional window.
    pub eligibility: Eligibility,
    /// The shortest retransmission timeout.
    pub min_rto: Nanos,
    /// The timeout before the first round trip has been measured.
    pub first_rto: Nanos,
    /// What is sent again after a loss.
    pub recovery: Recovery,
    /// When a receiver acknowledges.
    pub acks: Acks,
    /// How a receiver tells of marks.
    pub echo: Echo,
    /// The priority of ACKs; `None` for that of the data they acknowledge.
    pub ack_priority: Option<u8>,
    /// What chooses among equal paths.
    pub spread: Spread,
    /// When a connection changes its path, if ever.
    pub plb: Option<PlbParams>,
    /// Flows whose law holds a target delay keep their share beside flows that fill the buffer (`parts::coexistence`).
    pub coexistence: bool,
}

/// When a packet fits a fractional window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// When the window holds it entirely: in flight + 1 ≤ window.
    Floor,
    /// When the window holds a part of it: in flight < window.
    Ceil,
}

/// What is sent again after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// What is missing. A packet counts as lost when one sent this many later has arrived; a receiver keeps what comes early.
    Selective {
        /// Packets.
        reordering: u32,
    },
    /// Everything from the first packet missing: the receiver throws away what comes out of order and says so once
    /// (RoCE's NACK).
    GoBackN,
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Each packet.
    EveryPacket,
    /// Every so many packets, or after a while; at once where packets come out of order or a message ends.
    Coalesced {
        /// Packets per ACK.
        packets: u32,
        /// The longest wait.
        delay: Nanos,
    },
}

/// How a receiver tells of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Every ACK says whether what it acknowledges was marked; where ACKs are coalesced, one is sent whenever that changes
    /// (DCTCP, RFC 8257 section 3.2).
    Exact,
    /// Every ACK after a mark, until the sender says that it has reacted (RFC 3168 section 6.1.3).
    UntilReduced,
    /// Not on ACKs: a notification of its own, at most one per connection in this time (DCQCN's CNP).
    Notification {
        /// Between two.
        gap: Nanos,
    },
}

/// What chooses among equal paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The connection: all its packets take one path (ECMP).
    PerFlow,
    /// Each packet for itself (spraying).
    PerPacket,
}
