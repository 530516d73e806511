//! The events that a host reports to a law, with one struct per event.

use poseidon_types::{Bytes, HopPath, Nanos};

/// An ACK and the signals that it carries.
///
/// A host sets the fields that it supplies and takes the rest from [`Ack::EMPTY`], so a new field does not break
/// existing hosts:
///
/// ```
/// use poseidon_laws::Ack;
/// use poseidon_laws::types::{Bytes, Nanos};
///
/// let ack = Ack {
///     now: Nanos::from_micros(30),
///     rtt: Nanos::from_micros(20),
///     packets: 1,
///     bytes: Bytes::new(4_096),
///     ..Ack::EMPTY
/// };
/// ```
///
/// [`build`](crate::registry::build) rejects a law if the host does not supply a signal that the law needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// When the ACK arrived, on the host's clock.
    pub now: Nanos,
    /// The raw NIC-to-NIC round-trip time of the acknowledged packet, without the receiver's processing time.
    pub rtt: Nanos,
    /// The number of newly acknowledged packets, cumulatively or selectively; zero for a duplicate ACK.
    pub packets: u32,
    /// The number of newly acknowledged bytes, cumulatively or selectively, without headers.
    pub bytes: Bytes,
    /// The newly acknowledged bytes that carried a congestion mark. Above zero if the ACK echoes a mark, even if it
    /// acknowledges nothing new.
    pub marked: Bytes,
    /// The bytes in flight after this ACK, without headers.
    pub in_flight: Bytes,
    /// Whether `rtt` may belong to another transmission of the packet, as after a retransmission (Karn's rule).
    pub rtt_ambiguous: bool,
    /// The cumulative acknowledgement: all bytes before this sequence number are acknowledged.
    pub acked_seq: u64,
    /// The sequence number of the next new byte to send. Laws use it to detect the end of a round trip.
    pub next_seq: u64,
    /// The largest queueing delay at any hop on the data path; `None` without telemetry.
    pub max_hop_delay: Option<Nanos>,
    /// The largest queueing delay at any hop on the ACK path; `None` without telemetry.
    pub reverse_max_hop_delay: Option<Nanos>,
    /// One record per hop on the data path; empty without telemetry.
    pub hops: HopPath<'a>,
    /// The time spent inside the two hosts.
    pub endpoint_delay: Nanos,
    /// The number of switches on the data path.
    pub hop_count: u8,
    /// Whether the circuit to the destination is up.
    pub circuit_up: bool,
    /// Whether the flow is application-limited: less than half of the window was in flight when the ACK arrived.
    pub app_limited: bool,
    /// A uniformly distributed random number, drawn for each ACK.
    pub random: u32,
}

impl Ack<'_> {
    /// An ACK that carries no signals. All numeric fields are zero.
    pub const EMPTY: Self = Self {
        now: Nanos::ZERO,
        rtt: Nanos::ZERO,
        packets: 0,
        bytes: Bytes::ZERO,
        marked: Bytes::ZERO,
        in_flight: Bytes::ZERO,
        rtt_ambiguous: false,
        acked_seq: 0,
        next_seq: 0,
        max_hop_delay: None,
        reverse_max_hop_delay: None,
        hops: HopPath::NONE,
        endpoint_delay: Nanos::ZERO,
        hop_count: 0,
        circuit_up: false,
        app_limited: false,
        random: 0,
    };
}

/// A packet loss that starts fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When the host detected the loss.
    pub now: Nanos,
}

/// A packet that a switch trimmed to its header, as the receiver's NACK reports it.
///
/// The payload did not arrive. The host reports every trimmed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// When the NACK arrived, on the host's clock.
    pub now: Nanos,
    /// The trimmed payload.
    pub bytes: Bytes,
    /// The bytes in flight without the trimmed packet.
    pub in_flight: Bytes,
    /// Whether the last switch before the receiver trimmed the packet. The receiver's link is then the bottleneck.
    pub last_hop: bool,
    /// The time from sending the packet to receiving the NACK; `None` if it may belong to another transmission.
    pub rtt: Option<Nanos>,
}

/// A retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// When the timer expired, on the host's clock.
    pub now: Nanos,
    /// The bytes that the host now considers lost, without headers; zero if the host does not know them.
    pub bytes: Bytes,
}
