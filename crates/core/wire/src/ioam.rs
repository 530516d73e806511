//! The IOAM pre-allocated trace, carried in an IPv6 hop-by-hop option. The sender reserves the space, and each node
//! fills in its data.
//!
//! ```text
//!  0      : option type 0x31 (skip if unknown, may change)
//!  1      : option length, excluding bytes 0 and 1
//!  2      : rsvd:8
//!  3      : IOAM type 0 (pre-allocated trace)
//!  4..5   : namespace:16
//!  6..7   : NodeLen:5 | O:1 | L:1 | A:1 | rsvd:1 | RemainingLen:7, both in words
//!  8..10  : trace type:24, the fields that a node writes (see `ioam_node`)
//!  11     : rsvd:8
//!  12..   : data, filled from the end: the newest node is first
//! O  a node found no space    L  loopback     A  active measurement
//! ```
//!
//! The option must be aligned to four bytes. No checksum covers a hop-by-hop header. Linux can act as a transit node.
//! Linux writes the egress backlog in bytes as the queue depth, and it does not report the transit delay or the buffer
//! occupancy.
//!
//! Source: RFC 9197 section 4.4, RFC 9486 section 3.

use crate::bytes::{Field, load, low8, low16, store};
use crate::error::{Error, Result, check_len};
use crate::ioam_node::{Node, OPAQUE_ABSENT, TRANSIT_DELAY, TraceType};
use crate::quantiser::{DelayQuantiser, HopCount, LinearScale, Scale, max_over_hops};
use poseidon_types::{BitRate, Bytes, MaxHopDelay};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The size of the option excluding its data, in bytes.
pub const FIXED_BYTES: usize = 12;
/// The maximum size of the data, in words. The option's length field is one byte wide.
pub const MAX_DATA_WORDS: usize = 61;
const OPTION_TYPE: u8 = 0x31;
const PREALLOCATED: u8 = 0;
/// The number of bytes before the data that the length field includes.
const LENGTH_BEFORE_DATA: usize = 10;

const NODE_LEN: Field = Field::new(11, 5);
const OVERFLOW: Field = Field::new(10, 1);
const LOOPBACK: Field = Field::new(9, 1);
const ACTIVE: Field = Field::new(8, 1);
const REMAINING: Field = Field::new(0, 7);

/// Returns the hop-by-hop header size in bytes, including padding and room for `nodes` nodes of `node_words` words.
pub const fn header_bytes(node_words: usize, nodes: usize) -> usize {
    // The Next Header field, the header length and two bytes of padding precede the option.
    (4 + FIXED_BYTES + 4 * node_words * nodes).next_multiple_of(8)
}

/// Returns the quantiser for the maximum transit delay, for a trace with room for `nodes` nodes.
pub const fn quantiser(nodes: u8) -> DelayQuantiser<LinearScale> {
    DelayQuantiser { scale: TRANSIT_DELAY, hops: HopCount::Stacked { capacity: nodes } }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    option_type: u8,
    option_len: u8,
    reserved: u8,
    ioam_type: u8,
    namespace: U16,
    lengths: U16,
    trace_type: U32,
}

/// A view of a buffer that starts with the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails unless the buffer contains a complete pre-allocated trace whose lengths match its trace
    /// type.
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(buffer.as_ref(), FIXED_BYTES)?;
        let packet = Self { buffer };
        let layout = packet.layout();
        for (found, expected) in [(layout.option_type, OPTION_TYPE), (layout.ioam_type, PREALLOCATED)] {
            if found != expected {
                return Err(Error::BadKind { expected, found });
            }
        }
        let len = usize::from(layout.option_len);
        let data = len.saturating_sub(LENGTH_BEFORE_DATA) / 4;
        if len != LENGTH_BEFORE_DATA + 4 * data {
            return Err(Error::BadLength {
                field: "option length",
                expected: LENGTH_BEFORE_DATA + 4 * data,
                found: len,
            });
        }
        let expected = packet.trace_type().words();
        if packet.node_words() != expected {
            return Err(Error::BadLength { field: "node length", expected, found: packet.node_words() });
        }
        if packet.remaining_words() > data {
            return Err(Error::BadLength {
                field: "remaining length",
                expected: data,
                found: packet.remaining_words(),
            });
        }
        check_len(packet.buffer.as_ref(), FIXED_BYTES + 4 * data)?;
        Ok(packet)
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    fn lengths_field(&self, field: Field) -> usize {
        usize::from(low8(field.get(u64::from(self.layout().lengths.get()))))
    }

    /// Returns the data area.
    fn data(&self) -> &[u8] {
        let end = usize::from(self.layout().option_len) + 2;
        self.buffer.as_ref().get(FIXED_BYTES..end).unwrap_or(&[])
    }

    /// Returns the namespace ID. A node must not write data if it does not know the namespace.
    pub fn namespace(&self) -> u16 {
        self.layout().namespace.get()
    }

    /// Returns the number of fixed-data words per node.
    pub fn node_words(&self) -> usize {
        self.lengths_field(NODE_LEN)
    }

    /// Returns the number of free words.
    pub fn remaining_words(&self) -> usize {
        self.lengths_field(REMAINING)
    }

    /// Returns the O bit, which is set if a node ran out of space.
    pub fn is_overflowed(&self) -> bool {
        self.lengths_field(OVERFLOW) == 1
    }

    /// Returns the fields that each node writes.
    pub fn trace_type(&self) -> TraceType {
        TraceType::new(self.layout().trace_type.get() >> 8)
    }

    /// Returns the data of each node, newest node first.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let (fixed, trace_type) = (4 * self.node_words(), self.trace_type());
        let mut remaining_data = self.data().get(4 * self.remaining_words()..).unwrap_or(&[]);
        core::iter::from_fn(move || {
            let node = remaining_data.get(..fixed)?;
            let opaque = match trace_type.has_opaque() {
                // The first byte of the snapshot is the number of words that follow its first word.
                true => 4 + 4 * usize::from(*remaining_data.get(fixed)?),
                false => 0,
            };
            // A trace with neither fixed nor opaque data has no nodes.
            let next = remaining_data.get(fixed + opaque..).filter(|_| fixed + opaque > 0)?;
            remaining_data = next;
            Some(Node::parse(node, trace_type))
        })
    }

    /// Returns the maximum transit delay.
    pub fn telemetry(&self) -> MaxHopDelay {
        let delays = self
            .nodes()
            .map(|node| node.transit_delay.map(|code| TRANSIT_DELAY.decode_with_saturation(code)));
        max_over_hops(delays, self.is_overflowed())
    }

    /// Returns the longest queue drain time. Nodes must report the queue depth in bytes, as Linux does, and their
    /// egress rates must be known.
    pub fn queue_telemetry(&self, rate_of_node: impl Fn(u32) -> Option<BitRate>) -> MaxHopDelay {
        let delays = self.nodes().map(|node| {
            let rate = rate_of_node(node.node_id?).filter(|rate| !rate.is_zero())?;
            let queue = Bytes::new(u64::from(node.queue_depth?));
            Some((rate.send_time_ceil(queue).to_nanos_floor(), false))
        });
        max_over_hops(delays, self.is_overflowed())
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes a transit node's data into the last free words, or sets the O bit if there is not enough space. Returns
    /// whether the data was written. Unavailable fields are set to all ones, and the opaque snapshot is written as
    /// absent.
    pub fn update(&mut self, node: &Node) -> bool {
        let (fixed, trace_type, remaining) = (self.node_words(), self.trace_type(), self.remaining_words());
        let need = fixed + usize::from(trace_type.has_opaque());
        if need == 0 {
            return false;
        }
        let lengths = u64::from(self.layout().lengths.get());
        // RFC 9197 section 4.4.1: if there is not enough space, the node adds no data and sets the O bit.
        let Some(remaining) = remaining.checked_sub(need) else {
            self.set_lengths(OVERFLOW.set(lengths, 1));
            return false;
        };
        let offset = FIXED_BYTES + 4 * remaining;
        if let Some(bytes) = self.buffer.as_mut().get_mut(offset..offset + 4 * fixed) {
            node.emit(bytes, trace_type);
        }
        if trace_type.has_opaque() {
            // No Internet checksum covers the option.
            let _ = store(self.buffer.as_mut(), offset + 4 * fixed, &U32::new(OPAQUE_ABSENT));
        }
        self.set_lengths(REMAINING.set(lengths, remaining as u64));
        true
    }

    fn set_lengths(&mut self, lengths: u64) {
        let mut layout = self.layout();
        layout.lengths = U16::new(low16(lengths));
        let _ = store(self.buffer.as_mut(), 0, &layout);
    }
}

/// The parsed option, excluding its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The namespace ID.
    pub namespace: u16,
    /// The O bit, which is set if a node ran out of space.
    pub overflowed: bool,
    /// The L bit, which requests loopback.
    pub loopback: bool,
    /// The A bit, which marks active measurement traffic.
    pub active: bool,
    /// The fields that each node writes, which determine NodeLen.
    pub trace_type: TraceType,
    /// The size of the data in words, at most [`MAX_DATA_WORDS`].
    pub data_words: u8,
    /// The number of free words, at most `data_words`.
    pub remaining_words: u8,
}

impl Repr {
    /// Creates an empty trace with room for `nodes` nodes. Returns an error if that many nodes do not fit in the
    /// option.
    pub fn new(namespace: u16, trace_type: TraceType, nodes: usize) -> Result<Self> {
        let node_words = trace_type.words() + usize::from(trace_type.has_opaque());
        let words = node_words.saturating_mul(nodes);
        if words > MAX_DATA_WORDS {
            return Err(Error::TooManyHops {
                max: MAX_DATA_WORDS.checked_div(node_words).unwrap_or(0),
                found: nodes,
            });
        }
        Ok(Self {
            namespace,
            trace_type,
            data_words: low8(words as u64),
            remaining_words: low8(words as u64),
            ..Self::default()
        })
    }

    /// Parses an option.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self {
            namespace: packet.namespace(),
            overflowed: packet.is_overflowed(),
            loopback: packet.lengths_field(LOOPBACK) == 1,
            active: packet.lengths_field(ACTIVE) == 1,
            trace_type: packet.trace_type(),
            data_words: low8(packet.data().len() as u64 / 4),
            remaining_words: low8(packet.remaining_words() as u64),
        })
    }

    /// Returns the size of the option including its data, in bytes.
    pub const fn buffer_len(&self) -> usize {
        FIXED_BYTES + 4 * self.data_words as usize
    }

    /// Writes the option header to the start of `buffer`. The caller must zero the data area.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let data = usize::from(self.data_words);
        if data > MAX_DATA_WORDS {
            return Err(Error::BadLength { field: "data length", expected: MAX_DATA_WORDS, found: data });
        }
        check_len(buffer, self.buffer_len())?;
        let mut lengths = NODE_LEN.set(0, self.trace_type.words() as u64);
        lengths = OVERFLOW.set(lengths, u64::from(self.overflowed));
        lengths = LOOPBACK.set(lengths, u64::from(self.loopback));
        lengths = ACTIVE.set(lengths, u64::from(self.active));
        lengths = REMAINING.set(lengths, u64::from(self.remaining_words.min(self.data_words)));
        let layout = Layout {
            option_type: OPTION_TYPE,
            option_len: low8((LENGTH_BEFORE_DATA + 4 * data) as u64),
            reserved: 0,
            ioam_type: PREALLOCATED,
            namespace: U16::new(self.namespace),
            lengths: U16::new(low16(lengths)),
            trace_type: U32::new(self.trace_type.bits() << 8),
        };
        // No Internet checksum covers the option.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use poseidon_types::Nanos;

    /// The option from a test with Linux: namespace 123, five words per node, room for two nodes.
    const NEW: &str = "3132 0000 007b280a ca100000";
    const TRACE_TYPE: TraceType = TraceType::new(0xca_1000);

    fn new_option() -> std::vec::Vec<u8> {
        let mut bytes = hex(NEW);
        bytes.resize(FIXED_BYTES + 40, 0);
        bytes
    }

    fn node(delay: u32) -> Node {
        Node {
            hop_limit: 63,
            node_id: Some(77),
            ports: Some((10, 11)),
            transit_delay: Some(delay),
            queue_depth: Some(1_118),
            ..Node::default()
        }
    }

    #[test]
    fn sender_produces_the_golden_vector() {
        let repr = Repr::new(123, TRACE_TYPE, 2).expect("the option is large enough");
        let mut bytes = [0; 52];
        repr.emit(&mut bytes).expect("the buffer is large enough");
        assert_eq!(bytes[..], new_option());
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        assert_eq!(header_bytes(5, 2), 56);
        assert_eq!(Repr::new(123, TRACE_TYPE, 13), Err(Error::TooManyHops { max: 12, found: 13 }));
    }

    #[test]
    fn nodes_fill_the_data_from_the_end_and_set_the_overflow_flag() {
        let mut bytes = new_option();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
        assert!(packet.update(&node(700)) && packet.update(&node(300)));
        let delays: std::vec::Vec<_> = packet.nodes().map(|node| node.transit_delay).collect();
        assert_eq!(delays, [Some(300), Some(700)]);
        assert_eq!((packet.remaining_words(), packet.is_overflowed()), (0, false));
        assert!(!packet.update(&node(900)));
        assert!(packet.is_overflowed());
        let signal = packet.telemetry();
        assert_eq!((signal.worst.get(), signal.hops, signal.incomplete), (700, 2, true));
        // Fields appear in the order of their trace-type bits. The buffer occupancy is not available.
        assert_eq!(bytes[32..], hex("3f00004d 000a000b 000002bc 0000045e ffffffff"));
        assert_eq!(bytes[..12], hex("3132 0000 007b2c00 ca100000"));
    }

    #[test]
    fn queue_telemetry_converts_backlog_to_delay() {
        let mut bytes = new_option();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
        assert!(packet.update(&node(0)));
        // The queue holds 1118 bytes and drains at 1 Mbps, as in the test with Linux.
        let signal = packet.queue_telemetry(|id| (id == 77).then_some(BitRate::from_mbps(1)));
        assert_eq!(signal.delay(), Some(Nanos::new(8_944_000)));
        assert_eq!(packet.queue_telemetry(|_| None).delay(), None);
    }

    #[test]
    fn iteration_skips_opaque_snapshots() {
        let trace_type = TraceType::new(0x80_0002);
        let repr = Repr::new(1, trace_type, 2).expect("the option is large enough");
        let mut bytes = std::vec![0; repr.buffer_len()];
        repr.emit(&mut bytes).expect("the buffer is large enough");
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
        assert!(packet.update(&node(0)) && packet.update(&node(0)));
        assert_eq!(packet.nodes().count(), 2);
        assert_eq!(bytes[12..20], hex("3f00004d 00ffffff"));
        // A snapshot that extends past the end of the data stops the iteration.
        bytes[16] = 200;
        assert_eq!(Packet::new_checked(&bytes).expect("the header is valid").nodes().count(), 0);
    }

    #[test]
    fn invalid_and_short_options_are_rejected() {
        let bytes = new_option();
        for have in 0..bytes.len() {
            let need = if have < 12 { 12 } else { 52 };
            assert_eq!(Repr::parse(&bytes[..have]), Err(Error::Truncated { need, have }));
        }
        let parse_with_byte = |index: usize, value: u8| {
            let mut bytes = new_option();
            bytes[index] = value;
            Repr::parse(&bytes)
        };
        assert!(matches!(parse_with_byte(0, 0x11), Err(Error::BadKind { .. })));
        assert!(matches!(parse_with_byte(3, 1), Err(Error::BadKind { .. })));
        assert!(matches!(parse_with_byte(1, 9), Err(Error::BadLength { .. })));
        assert!(matches!(parse_with_byte(1, 0x33), Err(Error::BadLength { .. })));
        assert!(matches!(parse_with_byte(6, 0), Err(Error::BadLength { .. })));
        assert!(matches!(parse_with_byte(7, 11), Err(Error::BadLength { .. })));
        let mut huge = Repr::new(1, TRACE_TYPE, 1).expect("the option is large enough");
        huge.data_words = 62;
        assert!(huge.emit(&mut [0; 300]).is_err());
    }
}
