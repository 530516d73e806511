//! IOAM's pre-allocated trace in an IPv6 hop-by-hop option: the sender reserves room, every node fills its part.
//!
//! ```text
//!  0      : option type 0x31 (skip if unknown, may change)
//!  1      : option length, without these two bytes
//!  2      : rsvd:8
//!  3      : IOAM type 0 (pre-allocated trace)
//!  4..5   : namespace:16
//!  6..7   : NodeLen:5 | O:1 | L:1 | A:1 | rsvd:1 | RemainingLen:7, both in words
//!  8..10  : trace type:24, which fields a node writes (see `ioam_node`)
//!  11     : rsvd:8
//!  12..   : data, filled from the end: the newest node lies first
//! O  a node found no room     L  loopback     A  active measurement
//! ```
//!
//! The option begins at a multiple of four. No checksum covers a hop-by-hop header. Linux is the switch to try
//! this with: it writes the egress backlog in bytes as queue depth, and leaves transit delay and buffer occupancy
//! unavailable.
//!
//! Source: RFC 9197 section 4.4, RFC 9486 section 3.

use crate::bytes::{Field, load, low8, low16, store};
use crate::error::{Error, Result, demand};
use crate::ioam_node::{Node, OPAQUE_ABSENT, TRANSIT_DELAY, TraceType};
use crate::quantiser::{DelayQuantiser, HopCount, Scale, Steps, worst_of};
use poseidon_types::{BitRate, Bytes, MaxHopDelay};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the option before its data.
pub const FIXED_BYTES: usize = 12;
/// The most data an option can hold, in words (its length is one byte).
pub const MAX_DATA_WORDS: usize = 61;
const OPTION_TYPE: u8 = 0x31;
const PREALLOCATED: u8 = 0;
/// Option bytes that the length counts before the data.
const COUNTED: usize = 10;

const NODE_LEN: Field = Field::new(11, 5);
const OVERFLOW: Field = Field::new(10, 1);
const LOOPBACK: Field = Field::new(9, 1);
const ACTIVE: Field = Field::new(8, 1);
const REMAINING: Field = Field::new(0, 7);

/// Bytes a packet grows by with room for `nodes` of `node_words` words: a whole hop-by-hop header with its padding.
pub const fn header_bytes(node_words: usize, nodes: usize) -> usize {
    // Next header, header length, and two bytes of padding before the option.
    (4 + FIXED_BYTES + 4 * node_words * nodes).next_multiple_of(8)
}

/// What the format does to the largest transit delay; `nodes` have room.
pub const fn quantiser(nodes: u8) -> DelayQuantiser<Steps> {
    DelayQuantiser { scale: TRANSIT_DELAY, hops: HopCount::Stacked { room: nodes } }
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

/// A view over bytes that begin with the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds a whole pre-allocated trace whose lengths agree with its trace type.
    pub fn new_checked(buffer: T) -> Result<Self> {
        demand(buffer.as_ref(), FIXED_BYTES)?;
        let packet = Self { buffer };
        let layout = packet.layout();
        for (found, expected) in [(layout.option_type, OPTION_TYPE), (layout.ioam_type, PREALLOCATED)] {
            if found != expected {
                return Err(Error::BadKind { expected, found });
            }
        }
        let len = usize::from(layout.option_len);
        let data = len.saturating_sub(COUNTED) / 4;
        if len != COUNTED + 4 * data {
            return Err(Error::BadLength { what: "option length", expected: COUNTED + 4 * data, found: len });
        }
        let expected = packet.trace_type().words();
        if packet.node_words() != expected {
            return Err(Error::BadLength { what: "node length", expected, found: packet.node_words() });
        }
        if packet.remaining_words() > data {
            return Err(Error::BadLength {
                what: "remaining length",
                expected: data,
                found: packet.remaining_words(),
            });
        }
        demand(packet.buffer.as_ref(), FIXED_BYTES + 4 * data)?;
        Ok(packet)
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    fn length(&self, field: Field) -> usize {
        usize::from(low8(field.get(u64::from(self.layout().lengths.get()))))
    }

    /// The data area.
    fn data(&self) -> &[u8] {
        let end = usize::from(self.layout().option_len) + 2;
        self.buffer.as_ref().get(FIXED_BYTES..end).unwrap_or(&[])
    }

    /// The namespace. A node must not write into one it does not know.
    pub fn namespace(&self) -> u16 {
        self.layout().namespace.get()
    }

    /// Words of fixed data per node.
    pub fn node_words(&self) -> usize {
        self.length(NODE_LEN)
    }

    /// Words still free.
    pub fn remaining_words(&self) -> usize {
        self.length(REMAINING)
    }

    /// O: a node found no room.
    pub fn is_overflowed(&self) -> bool {
        self.length(OVERFLOW) == 1
    }

    /// Which fields a node writes.
    pub fn trace_type(&self) -> TraceType {
        TraceType(self.layout().trace_type.get() >> 8)
    }

    /// The nodes, newest first.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let (fixed, kind) = (4 * self.node_words(), self.trace_type());
        let mut rest = self.data().get(4 * self.remaining_words()..).unwrap_or(&[]);
        core::iter::from_fn(move || {
            let own = rest.get(..fixed)?;
            let opaque = match kind.has_opaque() {
                // Its first byte says how many words follow the word it stands in.
                true => 4 + 4 * usize::from(*rest.get(fixed)?),
                false => 0,
            };
            // Without fixed and opaque data there is nothing to walk over.
            let next = rest.get(fixed + opaque..).filter(|_| fixed + opaque > 0)?;
            rest = next;
            Some(Node::parse(own, kind))
        })
    }

    /// The largest transit delay.
    pub fn telemetry(&self) -> MaxHopDelay {
        let delays = self.nodes().map(|node| node.transit_delay.map(|code| TRANSIT_DELAY.reading(code)));
        worst_of(delays, self.is_overflowed())
    }

    /// The largest time to drain a node's queue, for nodes that tell a queue depth in bytes and whose egress rate is
    /// known. This is what Linux gives.
    pub fn queue_telemetry(&self, rate_of_node: impl Fn(u32) -> Option<BitRate>) -> MaxHopDelay {
        let delays = self.nodes().map(|node| {
            let rate = rate_of_node(node.node_id?).filter(|rate| !rate.is_zero())?;
            let queue = Bytes::new(u64::from(node.queue_depth?));
            Some((rate.send_time_ceil(queue).to_nanos_floor(), false))
        });
        worst_of(delays, self.is_overflowed())
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a transit node does, and whether it wrote: fills the last free words, or sets O where they do not suffice.
    /// Fields it is asked for and cannot name are all ones; an opaque snapshot is written as absent.
    pub fn update(&mut self, node: &Node) -> bool {
        let (fixed, kind, remaining) = (self.node_words(), self.trace_type(), self.remaining_words());
        let need = fixed + usize::from(kind.has_opaque());
        if need == 0 {
            return false;
        }
        let lengths = u64::from(self.layout().lengths.get());
        // RFC 9197 section 4.4.1: a node that does not fit adds nothing and sets O.
        let Some(left) = remaining.checked_sub(need) else {
            self.set_lengths(OVERFLOW.set(lengths, 1));
            return false;
        };
        let at = FIXED_BYTES + 4 * left;
        if let Some(own) = self.buffer.as_mut().get_mut(at..at + 4 * fixed) {
            node.emit(own, kind);
        }
        if kind.has_opaque() {
            // No Internet checksum covers the option.
            let _ = store(self.buffer.as_mut(), at + 4 * fixed, &U32::new(OPAQUE_ABSENT));
        }
        self.set_lengths(REMAINING.set(lengths, left as u64));
        true
    }

    fn set_lengths(&mut self, lengths: u64) {
        let mut layout = self.layout();
        layout.lengths = U16::new(low16(lengths));
        let _ = store(self.buffer.as_mut(), 0, &layout);
    }
}

/// What the option says before its data, which nodes write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The namespace.
    pub namespace: u16,
    /// O.
    pub overflowed: bool,
    /// L.
    pub loopback: bool,
    /// A.
    pub active: bool,
    /// Which fields a node writes; gives NodeLen.
    pub trace_type: TraceType,
    /// Words of data, at most [`MAX_DATA_WORDS`].
    pub data_words: u8,
    /// Words still free, at most `data_words`.
    pub remaining_words: u8,
}

impl Repr {
    /// A fresh trace with room for `nodes`, or an error where so many do not fit the option.
    pub fn fresh(namespace: u16, trace_type: TraceType, nodes: usize) -> Result<Self> {
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

    /// Reads an option.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self {
            namespace: packet.namespace(),
            overflowed: packet.is_overflowed(),
            loopback: packet.length(LOOPBACK) == 1,
            active: packet.length(ACTIVE) == 1,
            trace_type: packet.trace_type(),
            data_words: low8(packet.data().len() as u64 / 4),
            remaining_words: low8(packet.remaining_words() as u64),
        })
    }

    /// Bytes of the option with its data.
    pub const fn buffer_len(&self) -> usize {
        FIXED_BYTES + 4 * self.data_words as usize
    }

    /// Writes the option's header at the start of `buffer` and leaves the bytes of the data alone: a sender zeroes
    /// them.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let data = usize::from(self.data_words);
        if data > MAX_DATA_WORDS {
            return Err(Error::BadLength { what: "data length", expected: MAX_DATA_WORDS, found: data });
        }
        demand(buffer, self.buffer_len())?;
        let mut lengths = NODE_LEN.set(0, self.trace_type.words() as u64);
        lengths = OVERFLOW.set(lengths, u64::from(self.overflowed));
        lengths = LOOPBACK.set(lengths, u64::from(self.loopback));
        lengths = ACTIVE.set(lengths, u64::from(self.active));
        lengths = REMAINING.set(lengths, u64::from(self.remaining_words.min(self.data_words)));
        let layout = Layout {
            option_type: OPTION_TYPE,
            option_len: low8((COUNTED + 4 * data) as u64),
            reserved: 0,
            ioam_type: PREALLOCATED,
            namespace: U16::new(self.namespace),
            lengths: U16::new(low16(lengths)),
            trace_type: U32::new(self.trace_type.0 << 8),
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

    /// The option of the run against Linux: namespace 123, five words per node, room for two.
    const FRESH: &str = "3132 0000 007b280a ca100000";
    const KIND: TraceType = TraceType(0xca_1000);

    fn fresh() -> std::vec::Vec<u8> {
        let mut bytes = hex(FRESH);
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
    fn the_sender_makes_the_vector() {
        let repr = Repr::fresh(123, KIND, 2).expect("fits");
        let mut bytes = [0; 52];
        repr.emit(&mut bytes).expect("fits");
        assert_eq!(bytes[..], fresh());
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        assert_eq!(header_bytes(5, 2), 56);
        assert_eq!(Repr::fresh(123, KIND, 13), Err(Error::TooManyHops { max: 12, found: 13 }));
    }

    #[test]
    fn nodes_fill_from_the_end_and_overflow_says_so() {
        let mut bytes = fresh();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
        assert!(packet.update(&node(700)) && packet.update(&node(300)));
        let delays: std::vec::Vec<_> = packet.nodes().map(|node| node.transit_delay).collect();
        assert_eq!(delays, [Some(300), Some(700)]);
        assert_eq!((packet.remaining_words(), packet.is_overflowed()), (0, false));
        assert!(!packet.update(&node(900)));
        assert!(packet.is_overflowed());
        let signal = packet.telemetry();
        assert_eq!((signal.worst.get(), signal.hops, signal.incomplete), (700, 2, true));
        // Fields in the order of their bits; the buffer occupancy is not available.
        assert_eq!(bytes[32..], hex("3f00004d 000a000b 000002bc 0000045e ffffffff"));
        assert_eq!(bytes[..12], hex("3132 0000 007b2c00 ca100000"));
    }

    #[test]
    fn backlog_and_rate_make_a_delay() {
        let mut bytes = fresh();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
        assert!(packet.update(&node(0)));
        // 1118 bytes at 1 Mbps, as in the run against Linux.
        let signal = packet.queue_telemetry(|id| (id == 77).then_some(BitRate::from_mbps(1)));
        assert_eq!(signal.delay(), Some(Nanos::new(8_944_000)));
        assert_eq!(packet.queue_telemetry(|_| None).delay(), None);
    }

    #[test]
    fn opaque_snapshots_are_stepped_over() {
        let kind = TraceType(0x80_0002);
        let repr = Repr::fresh(1, kind, 2).expect("fits");
        let mut bytes = std::vec![0; repr.buffer_len()];
        repr.emit(&mut bytes).expect("fits");
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
        assert!(packet.update(&node(0)) && packet.update(&node(0)));
        assert_eq!(packet.nodes().count(), 2);
        assert_eq!(bytes[12..20], hex("3f00004d 00ffffff"));
        // A snapshot that claims more than there is ends the walk.
        bytes[16] = 200;
        assert_eq!(Packet::new_checked(&bytes).expect("parses").nodes().count(), 0);
    }

    #[test]
    fn impossible_and_short_options_are_refused() {
        let bytes = fresh();
        for have in 0..bytes.len() {
            let need = if have < 12 { 12 } else { 52 };
            assert_eq!(Repr::parse(&bytes[..have]), Err(Error::Truncated { need, have }));
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = fresh();
            bytes[at] = to;
            Repr::parse(&bytes)
        };
        assert!(matches!(changed(0, 0x11), Err(Error::BadKind { .. })));
        assert!(matches!(changed(3, 1), Err(Error::BadKind { .. })));
        assert!(matches!(changed(1, 9), Err(Error::BadLength { .. })));
        assert!(matches!(changed(1, 0x33), Err(Error::BadLength { .. })));
        assert!(matches!(changed(6, 0), Err(Error::BadLength { .. })));
        assert!(matches!(changed(7, 11), Err(Error::BadLength { .. })));
        let mut huge = Repr::fresh(1, KIND, 1).expect("fits");
        huge.data_words = 62;
        assert!(huge.emit(&mut [0; 300]).is_err());
    }
}
