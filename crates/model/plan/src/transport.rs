//! Host configuration: packet sizes, ACKs, loss recovery and load balancing.

use poseidon_laws::plb::PlbParams;
pub use poseidon_policies::path::{AnyPathPolicy, Bitmap, Mixed, Oblivious, PATH_POLICIES, Reps, RepsLegacy};
use poseidon_types::{Bytes, Fraction, Nanos};

/// The transport configuration shared by all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The payload size of a full packet.
    pub mtu: Bytes,
    /// The header size of a data packet, excluding telemetry.
    pub header: Bytes,
    /// The size of an ACK on the wire, excluding telemetry.
    pub ack: Bytes,
    /// The rule that decides whether a packet fits in a fractional window.
    pub eligibility: Eligibility,
    /// The minimum retransmission timeout.
    pub min_rto: Nanos,
    /// The retransmission timeout before the first RTT sample.
    pub first_rto: Nanos,
    /// What the sender retransmits after a loss.
    pub recovery: Recovery,
    /// When a receiver sends an ACK.
    pub acks: Acks,
    /// How a receiver echoes ECN marks.
    pub echo: Echo,
    /// The ACK priority. If `None`, ACKs use the priority of the data that they acknowledge.
    pub ack_priority: Option<u8>,
    /// How packets are spread over equal-cost paths: the policy that chooses each packet's entropy value.
    pub load_balancing: AnyPathPolicy,
    /// The parameters for protective load balancing (PLB). If `None`, PLB is disabled.
    pub plb: Option<PlbParams>,
    /// Whether delay-based flows defend their share against buffer-filling flows (`poseidon_laws::coexistence`).
    pub coexistence: bool,
    /// Credits of receivers. If `None`, senders do not wait for credits.
    pub credits: Option<Credits>,
    /// What laws make of the delays of packets that took different paths.
    pub path_filter: PathFilter,
}

/// What laws make of the delays of packets that took different paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFilter {
    /// Each ACK reports the delays of its packet.
    Each,
    /// Each ACK reports the median of the latest eight packets.
    Median,
    /// Each ACK reports the largest of the latest eight packets.
    Max,
}

/// Credits of receivers (RCCC of Ultra Ethernet). A sender needs credit as well as space in its law's window.
///
/// A receiver sends pull packets at slightly less than its link rate, round robin over the connections with demand. A
/// connection starts with credit of its own, one `window`, until its receiver replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// The credit of one pull packet.
    pub pull: Bytes,
    /// The share of its link rate that a receiver asks for.
    pub rate: Fraction,
    /// The largest credit of a connection, in bandwidth-delay products of the sender's link and the network's RTT.
    pub window: Fraction,
    /// Whether receivers ask for less while marks or trims show that the network is oversubscribed.
    pub oversubscription: bool,
    /// The smallest share of its link rate to which oversubscription control lowers a receiver's rate: 0.9 divided by the
    /// oversubscription of the network.
    pub min_rate: Fraction,
    /// The network's RTT, between its most distant hosts.
    pub network_rtt: Nanos,
}

impl Credits {
    /// The values of uet-htsim (40ccb05), apart from the network's RTT, which depends on the network.
    pub const fn uet(network_rtt: Nanos, oversubscription: bool) -> Self {
        Self {
            pull: Bytes::new(16_384),
            rate: Fraction::ratio(99, 100),
            window: Fraction::ratio(3, 2),
            oversubscription,
            min_rate: Fraction::ratio(9, 10),
            network_rtt,
        }
    }
}

/// The rule that decides whether a packet fits in a fractional window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// The window must have room for the whole packet: in flight + 1 ≤ window.
    Floor,
    /// The window must have room for at least part of the packet: in flight < window.
    Ceil,
}

/// What the sender retransmits after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The sender retransmits only the missing packets. The receiver buffers out-of-order packets.
    Selective {
        /// The reordering threshold. A packet is considered lost when a packet sent this many positions later arrives.
        reordering: u32,
    },
    /// The sender retransmits all packets, starting with the first missing packet. The receiver discards out-of-order
    /// packets and sends one NACK (RoCE).
    GoBackN,
    /// The sender retransmits each packet that a NACK reports as trimmed, and each packet whose timeout expires. The
    /// timeout is the minimum retransmission timeout after the latest transmission of the packet. Reordering is never
    /// considered a loss. The receiver buffers out-of-order packets (Ultra Ethernet).
    TrimNacks,
}

/// When a receiver sends an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The receiver acknowledges every packet.
    EveryPacket,
    /// The receiver sends an ACK after several packets or a delay. Out-of-order packets and the end of a message
    /// trigger an immediate ACK.
    Coalesced {
        /// The number of packets per ACK.
        packets: u32,
        /// The maximum ACK delay.
        delay: Nanos,
    },
    /// The receiver sends an ACK after a number of bytes. A marked packet, a duplicate, the first packet, and a packet
    /// that requests an ACK trigger an immediate ACK. ACKs report the received bytes and up to 64 packets that arrived
    /// out of order (Ultra Ethernet).
    CoalescedBytes {
        /// The number of bytes per ACK, including headers.
        bytes: Bytes,
    },
}

/// How a receiver echoes ECN marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Every ACK indicates whether the acknowledged packets were marked.
    ///
    /// If ACKs are coalesced, the receiver also sends an ACK whenever the mark changes (DCTCP, RFC 8257 section 3.2).
    Exact,
    /// After a mark, every ACK echoes the mark until the sender sets CWR (RFC 3168 section 6.1.3).
    UntilReduced,
    /// The receiver sends separate congestion notification packets (DCQCN's CNPs). ACKs do not echo marks.
    Notification {
        /// The minimum time between two CNPs on the same connection.
        gap: Nanos,
    },
}
