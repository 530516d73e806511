//! P4-INT version 2.1 in "embed data" mode (MD). Each hop pushes the requested metadata onto a stack.
//!
//! ```text
//! shim   0      : Type:4 = 1 (MD) | NPT:2 | rsvd:2
//!        1      : Length:8, words after the shim
//!        2..3   : NPT 0: 0, DSCP:6, 0:2   NPT 1: original UDP port   NPT 2: 0, original IP protocol
//! header 4      : Ver:4 = 2 | D:1 | E:1 | M:1 | rsvd:1
//!        5      : rsvd:8
//!        6      : rsvd:3 | HopML:5, words that each hop pushes
//!        7      : RemainingHopCnt:8
//!        8..9   : instruction bitmap:16
//!        10..15 : domain id:16, domain instruction:16, domain flags:16
//! stack  16..   : newest hop first, HopML words each, in the order of the bitmap
//! D  the sink discards the packet     E  hop limit exceeded     M  MTU exceeded
//! ```
//!
//! A hop may change E, M, RemainingHopCnt and the domain flags. Each hop pushes exactly HopML words or none at all.
//! Unavailable values are set to all ones. The header does not carry the time and queue units; see [`Units`].
//!
//! Source: P4.org INT dataplane specification v2.1, "INT over TCP/UDP", "INT-MD". [`crate::int_hop`] defines the
//! instruction bits and the per-hop metadata.

use crate::bytes::{load, low8, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, check_len};
use crate::int_hop::{Hop, Instructions, Units};
use crate::quantiser::{DelayQuantiser, HopCount, Scale, TickScale, max_over_hops};
use poseidon_types::{BitRate, HopStack, MaxHopDelay};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The combined size of the shim and the header, in bytes.
pub const FIXED_BYTES: usize = 16;
const VERSION: u8 = 2;
const TYPE_MD: u8 = 1;
/// The size of the header after the shim, in words. The shim's Length field includes the header.
const HEADER_WORDS: usize = 3;
/// The maximum stack size in words. The shim's Length field is one byte wide and includes the header.
const MAX_STACK_WORDS: u8 = 252;

const DISCARD: u8 = 0b1000;
const HOP_LIMIT_EXCEEDED: u8 = 0b0100;
const MTU_EXCEEDED: u8 = 0b0010;

/// Returns the size in bytes after `hops` switches have each pushed `hop_words` words.
pub const fn header_bytes(hop_words: usize, hops: usize) -> usize {
    FIXED_BYTES + 4 * hop_words * hops
}

/// Returns the quantiser for the maximum hop latency, with a limit of `hops` hops. The stack holds at most 252 words.
pub fn quantiser(units: &Units, hop_words: u8, hops: u8) -> DelayQuantiser<TickScale> {
    let capacity = (MAX_STACK_WORDS / hop_words.max(1)).min(hops);
    DelayQuantiser { scale: units.latency_scale(), hops: HopCount::Stacked { capacity } }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    kind: u8,
    length: u8,
    next: U16,
    flags: u8,
    reserved: u8,
    hop_words: u8,
    remaining_hops: u8,
    instructions: U16,
    domain: U16,
    domain_instruction: U16,
    domain_flags: U16,
}

/// A view of a buffer that starts with the shim. The bytes after the stack are free space for more hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails if the stack is truncated or the lengths do not match the instructions.
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(buffer.as_ref(), FIXED_BYTES)?;
        let packet = Self { buffer };
        let layout = packet.layout();
        let kind = layout.kind >> 4;
        if kind != TYPE_MD {
            return Err(Error::BadKind { expected: TYPE_MD, found: kind });
        }
        let version = layout.flags >> 4;
        if version != VERSION {
            return Err(Error::BadVersion { expected: VERSION, found: version });
        }
        let length = usize::from(layout.length);
        if length < HEADER_WORDS {
            return Err(Error::BadLength { field: "shim length", expected: HEADER_WORDS, found: length });
        }
        let requested = packet.instructions().words();
        if packet.hop_words() < requested {
            return Err(Error::BadLength {
                field: "hop metadata length",
                expected: requested,
                found: packet.hop_words(),
            });
        }
        check_len(packet.buffer.as_ref(), packet.total_len())?;
        Ok(packet)
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    /// Returns the total size of the shim, header and stack, in bytes.
    fn total_len(&self) -> usize {
        4 + 4 * usize::from(self.layout().length)
    }

    /// Returns HopML, the number of words that each hop pushes.
    pub fn hop_words(&self) -> usize {
        usize::from(self.layout().hop_words & 0x1f)
    }

    /// Returns the number of hops that may still push metadata.
    pub fn remaining_hops(&self) -> u8 {
        self.layout().remaining_hops
    }

    /// Returns the instructions for each hop.
    pub fn instructions(&self) -> Instructions {
        Instructions(self.layout().instructions.get())
    }

    /// Returns the E bit, which is set if a hop saw a remaining hop count of zero.
    pub fn is_hop_limit_exceeded(&self) -> bool {
        self.layout().flags & HOP_LIMIT_EXCEEDED != 0
    }

    /// Returns the M bit, which is set if a hop had no room for its metadata.
    pub fn is_mtu_exceeded(&self) -> bool {
        self.layout().flags & MTU_EXCEEDED != 0
    }

    /// Returns the number of hops in the stack. If the stack contains extra words at the end, the source inserted them.
    pub fn hop_count(&self) -> usize {
        let words = usize::from(self.layout().length).saturating_sub(HEADER_WORDS);
        words.checked_div(self.hop_words()).unwrap_or(0)
    }

    /// Returns the per-hop metadata, newest hop first.
    pub fn hops(&self) -> impl DoubleEndedIterator<Item = Hop> + '_ {
        let (size, instructions) = (4 * self.hop_words(), self.instructions());
        (0..self.hop_count()).map(move |index| {
            let offset = FIXED_BYTES + index * size;
            let bytes = self.buffer.as_ref().get(offset..offset + size).unwrap_or(&[]);
            Hop::parse(bytes, instructions)
        })
    }

    /// Returns the maximum hop latency, which includes queueing delay and other device-specific delays.
    pub fn telemetry(&self, units: &Units) -> MaxHopDelay {
        let scale = units.latency_scale();
        max_over_hops(
            self.hops().map(|hop| hop.latency.map(|ticks| scale.decode_with_saturation(ticks))),
            self.is_hop_limit_exceeded() || self.is_mtu_exceeded(),
        )
    }

    /// Returns the hop records, first hop first, according to the HPCC++ profile (instructions `0xd500`). A record
    /// contains the queue occupancy, the egress timestamp, and the transmit field interpreted as a byte counter.
    /// Returns `None` if any hop's record is incomplete or its rate is unknown.
    pub fn hop_stack(
        &self,
        units: &Units,
        rate_of_node: impl Fn(u32) -> Option<BitRate>,
    ) -> Option<HopStack> {
        if self.is_hop_limit_exceeded() || self.is_mtu_exceeded() {
            return None;
        }
        let mut stack = HopStack::EMPTY;
        for hop in self.hops().rev() {
            let rate = rate_of_node(hop.node_id?)?;
            if !stack.push(hop.record(units, rate)?) {
                return None;
            }
        }
        Some(stack)
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

/// The outcome of [`Packet::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushOutcome {
    /// The hop pushed its metadata. The caller must update the length fields of the outer headers.
    Pushed {
        /// The number of bytes added.
        bytes: usize,
        /// The checksum delta.
        delta: Delta,
    },
    /// RemainingHopCnt was zero, so the hop set the E bit.
    HopLimitExceeded {
        /// The checksum delta.
        delta: Delta,
    },
    /// The metadata did not fit in the buffer or the length field, so the hop set the M bit.
    MtuExceeded {
        /// The checksum delta.
        delta: Delta,
    },
    /// HopML is zero, so the hop left the packet unchanged.
    NothingRequested,
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Pushes a transit hop's metadata onto the stack. The stack grows into the free space at the end of the buffer. If
    /// HopML is zero, the packet is left unchanged.
    ///
    /// Words that were requested but are not available are set to all ones. The checksum complement is also set to all
    /// ones, so the caller must update the transport checksum instead.
    pub fn push(&mut self, hop: &Hop) -> PushOutcome {
        let (total_len, size) = (self.total_len(), 4 * self.hop_words());
        let (instructions, mut layout) = (self.instructions(), self.layout());
        if size == 0 {
            return PushOutcome::NothingRequested;
        }
        if layout.remaining_hops == 0 {
            layout.flags |= HOP_LIMIT_EXCEEDED;
            let delta = store(self.buffer.as_mut(), 0, &layout);
            return PushOutcome::HopLimitExceeded { delta };
        }
        let length = usize::from(layout.length) + self.hop_words();
        let (Ok(length), true) = (u8::try_from(length), total_len + size <= self.buffer.as_mut().len())
        else {
            layout.flags |= MTU_EXCEEDED;
            let delta = store(self.buffer.as_mut(), 0, &layout);
            return PushOutcome::MtuExceeded { delta };
        };
        layout.length = length;
        layout.remaining_hops -= 1;
        let buffer = self.buffer.as_mut();
        let header = store(buffer, 0, &layout);
        // `total_len + size` is within the buffer. `unwrap_or` lets the compiler see that this code cannot panic.
        let stack = buffer.get_mut(FIXED_BYTES..total_len + size).unwrap_or(&mut []);
        if let Some(old) = stack.len().checked_sub(size) {
            stack.copy_within(..old, size);
        }
        let top = stack.get_mut(..size).unwrap_or(&mut []);
        hop.emit(top, instructions);
        PushOutcome::Pushed { bytes: size, delta: header.combine(Delta::for_bytes(&[], top)) }
    }
}

/// The parsed shim and header, without the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// NPT, which selects the meaning of `next`: 0 = DSCP, 1 = original UDP port, 2 = original IP protocol.
    pub npt: u8,
    /// The packet's original header field, as selected by `npt`.
    pub next: u16,
    /// The D bit, which is set if the sink must discard the packet.
    pub discard: bool,
    /// The E bit, which is set if a hop saw a remaining hop count of zero.
    pub hop_limit_exceeded: bool,
    /// The M bit, which is set if a hop had no room for its metadata.
    pub mtu_exceeded: bool,
    /// HopML, the number of words that each hop pushes, at most 31.
    pub hop_words: u8,
    /// The number of hops that may still push metadata.
    pub remaining_hops: u8,
    /// The instructions for each hop.
    pub instructions: Instructions,
    /// The domain ID. Zero is the default domain.
    pub domain: u16,
    /// The domain-specific instructions.
    pub domain_instruction: u16,
    /// The domain-specific flags.
    pub domain_flags: u16,
    /// The stack size in words, at most 252.
    pub stack_words: u8,
}

impl Repr {
    /// Parses the shim and the header.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let layout = Packet::new_checked(bytes)?.layout();
        Ok(Self {
            npt: (layout.kind >> 2) & 0b11,
            next: layout.next.get(),
            discard: layout.flags & DISCARD != 0,
            hop_limit_exceeded: layout.flags & HOP_LIMIT_EXCEEDED != 0,
            mtu_exceeded: layout.flags & MTU_EXCEEDED != 0,
            hop_words: layout.hop_words & 0x1f,
            remaining_hops: layout.remaining_hops,
            instructions: Instructions(layout.instructions.get()),
            domain: layout.domain.get(),
            domain_instruction: layout.domain_instruction.get(),
            domain_flags: layout.domain_flags.get(),
            stack_words: layout.length.saturating_sub(low8(HEADER_WORDS as u64)),
        })
    }

    /// Returns the total size of the shim, header and stack, in bytes.
    pub const fn buffer_len(&self) -> usize {
        header_bytes(self.stack_words as usize, 1)
    }

    /// Writes the shim and the header, but not the stack, to the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, self.buffer_len())?;
        if self.stack_words > MAX_STACK_WORDS {
            return Err(Error::BadLength {
                field: "stack words",
                expected: usize::from(MAX_STACK_WORDS),
                found: usize::from(self.stack_words),
            });
        }
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let layout = Layout {
            kind: (TYPE_MD << 4) | ((self.npt & 0b11) << 2),
            length: self.stack_words.saturating_add(3),
            next: U16::new(self.next),
            flags: (VERSION << 4)
                | flag(self.discard, DISCARD)
                | flag(self.hop_limit_exceeded, HOP_LIMIT_EXCEEDED)
                | flag(self.mtu_exceeded, MTU_EXCEEDED),
            reserved: 0,
            hop_words: self.hop_words & 0x1f,
            remaining_hops: self.remaining_hops,
            instructions: U16::new(self.instructions.0),
            domain: U16::new(self.domain),
            domain_instruction: U16::new(self.domain_instruction),
            domain_flags: U16::new(self.domain_flags),
        };
        // The source computes the checksum later, so the delta is not needed.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use poseidon_types::Nanos;

    /// Two hops that each report a node ID and a queue. An independent decoder gives the same result.
    const V1: &str = "14072328 20000206 90000000 00000000 00000002 01001234 00000001 00000100";
    /// One hop that reports every defined field.
    const V2: &str = "140f2328 20000c07 ff800000 00000000 0a0b0c0d 00010002 00006400 07010203
        1122334455667788 1122334455667999 00000010 00000020 05f5e100 010abcde";

    const UNITS: Units = Units::NANOS_AND_BYTES;

    #[test]
    fn parser_decodes_the_golden_vectors() {
        let v1 = hex(V1);
        let packet = Packet::new_checked(&v1).expect("the header is valid");
        let hops: std::vec::Vec<_> = packet.hops().collect();
        assert_eq!(hops.iter().map(|hop| hop.node_id).collect::<std::vec::Vec<_>>(), [Some(2), Some(1)]);
        assert_eq!(hops[0].queue.map(|q| (q.id, q.occupancy)), Some((1, 0x1234)));
        assert_eq!((packet.remaining_hops(), packet.hop_count()), (6, 2));

        let v2 = hex(V2);
        let packet = Packet::new_checked(&v2).expect("the header is valid");
        let hop = packet.hops().next().expect("the stack has one hop");
        assert_eq!(hop.node_id, Some(0x0a0b_0c0d));
        assert_eq!(hop.ports, Some((1, 2)));
        assert_eq!(hop.egress_timestamp, Some(0x1122_3344_5566_7999));
        assert_eq!(hop.interfaces, Some((0x10, 0x20)));
        assert_eq!(hop.transmitted, Some(100_000_000));
        assert_eq!(hop.buffer.map(|b| (b.id, b.occupancy)), Some((1, 0x0a_bcde)));
        let signal = packet.telemetry(&UNITS);
        assert_eq!((signal.delay(), signal.hops), (Some(Nanos::new(25_600)), 1));
    }

    #[test]
    fn source_and_hops_produce_the_golden_vectors() {
        for vector in [V1, V2] {
            let bytes = hex(vector);
            let full = Packet::new_checked(&bytes).expect("the header is valid");
            let hops: std::vec::Vec<_> = full.hops().collect();
            let mut repr = Repr::parse(&bytes).expect("the header is valid");
            repr.stack_words = 0;
            repr.remaining_hops += u8::try_from(hops.len()).expect("the count is small");
            let mut built = std::vec![0xee; bytes.len()];
            repr.emit(&mut built).expect("the buffer is large enough");
            let mut packet = Packet::new_checked(&mut built[..]).expect("the header is valid");
            for hop in hops.iter().rev() {
                assert!(matches!(packet.push(hop), PushOutcome::Pushed { .. }));
            }
            assert_eq!(built, bytes);
        }
    }

    #[test]
    fn push_respects_hop_limit_and_mtu() {
        let mut bytes = hex(V1);
        let hop = Hop::default();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
        assert!(matches!(packet.push(&hop), PushOutcome::MtuExceeded { .. }));
        assert!(packet.is_mtu_exceeded() && packet.remaining_hops() == 6);
        assert!(packet.telemetry(&UNITS).incomplete);
        bytes[7] = 0;
        bytes.resize(64, 0);
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
        assert!(matches!(packet.push(&hop), PushOutcome::HopLimitExceeded { .. }));
        assert!(packet.is_hop_limit_exceeded() && packet.hop_count() == 2);
        // Only the E and M bits have changed.
        bytes[4] &= !(HOP_LIMIT_EXCEEDED | MTU_EXCEEDED);
        bytes[7] = 6;
        assert_eq!(bytes[..32], hex(V1));
        // If HopML is zero, a hop pushes no words.
        bytes[6] = 0;
        bytes[8] = 0;
        let before = bytes.clone();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
        assert_eq!((packet.push(&hop), packet.hop_count()), (PushOutcome::NothingRequested, 0));
        assert_eq!(bytes, before);
    }

    #[test]
    fn delta_of_a_push_updates_the_checksum() {
        let mut bytes = hex(V1);
        let before = crate::checksum::internet(&bytes);
        bytes.resize(40, 0xee);
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
        let PushOutcome::Pushed { bytes: 8, delta } = packet.push(&Hop::default()) else {
            panic!("the hop limit and the MTU allow a push");
        };
        assert_eq!(delta.apply(before), crate::checksum::internet(&bytes));
    }

    #[test]
    fn hop_stack_requires_complete_records() {
        let rate = |_| Some(BitRate::from_gbps(100));
        let v2 = hex(V2);
        let packet = Packet::new_checked(&v2).expect("the header is valid");
        let stack = packet.hop_stack(&UNITS, rate).expect("all hops reported");
        assert_eq!(stack.as_slice()[0].timestamp.get(), 0x1122_3344_5566_7999);
        assert_eq!(packet.hop_stack(&UNITS, |_| None), None);
        let v1 = hex(V1);
        let packet = Packet::new_checked(&v1).expect("the header is valid");
        assert_eq!(packet.hop_stack(&UNITS, rate), None);
    }

    #[test]
    fn invalid_and_short_headers_are_rejected() {
        let v1 = hex(V1);
        for have in 0..v1.len() {
            let need = if have < 16 { 16 } else { 32 };
            assert_eq!(Repr::parse(&v1[..have]), Err(Error::Truncated { need, have }));
        }
        let parse_with_byte = |index: usize, value: u8| {
            let mut bytes = hex(V1);
            bytes[index] = value;
            Repr::parse(&bytes)
        };
        assert!(matches!(parse_with_byte(0, 0x34), Err(Error::BadKind { found: 3, .. })));
        assert!(matches!(parse_with_byte(1, 2), Err(Error::BadLength { found: 2, .. })));
        assert!(matches!(parse_with_byte(4, 0x10), Err(Error::BadVersion { found: 1, .. })));
        assert!(matches!(parse_with_byte(6, 1), Err(Error::BadLength { expected: 2, found: 1, .. })));
        assert!(matches!(parse_with_byte(1, 255), Err(Error::Truncated { .. })));
    }
}
