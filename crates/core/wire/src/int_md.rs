//! P4-INT version 2.1, "embed data": every hop pushes the metadata it is asked for on top of a stack.
//!
//! ```text
//! shim   0      : Type:4 = 1 (MD) | NPT:2 | rsvd:2
//!        1      : Length:8, words behind the shim
//!        2..3   : NPT 0: 0, DSCP:6, 0:2   NPT 1: original UDP port   NPT 2: 0, original IP protocol
//! header 4      : Ver:4 = 2 | D:1 | E:1 | M:1 | rsvd:1
//!        5      : rsvd:8
//!        6      : rsvd:3 | HopML:5, words each hop pushes
//!        7      : RemainingHopCnt:8
//!        8..9   : instruction bitmap:16
//!        10..15 : domain id:16, domain instruction:16, domain flags:16
//! stack  16..   : newest hop first, HopML words each, in the order of the bitmap
//! D  the sink discards the packet     E  a hop had no budget     M  a hop had no room
//! ```
//!
//! A hop may write E, M, RemainingHopCnt and the domain flags, and add exactly nothing or HopML words. A value that
//! is not available is all ones. Nothing in the header says what a tick or a queue unit is: [`Units`].
//!
//! Source: P4.org INT dataplane specification v2.1, "INT over TCP/UDP", "INT-MD". The instruction bits and the data
//! of a hop are in [`crate::int_hop`].

use crate::bytes::{load, low8, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, demand};
use crate::int_hop::{Hop, Instructions, Units};
use crate::quantiser::{DelayQuantiser, HopCount, Scale, Ticks, worst_of};
use poseidon_types::{BitRate, HopStack, MaxHopDelay};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of shim and header.
pub const FIXED_BYTES: usize = 16;
const VERSION: u8 = 2;
const TYPE_MD: u8 = 1;
/// Words of the header behind the shim, counted in Length.
const HEADER_WORDS: usize = 3;

const DISCARD: u8 = 0b1000;
const EXCEEDED: u8 = 0b0100;
const NO_ROOM: u8 = 0b0010;

/// Bytes on the wire behind `hops` switches that push `hop_words` words each.
pub const fn header_bytes(hop_words: usize, hops: usize) -> usize {
    FIXED_BYTES + 4 * hop_words * hops
}

/// What the format does to the largest hop latency, with a budget of `hops`. Its stack holds 252 words at most.
pub fn quantiser(units: &Units, hop_words: u8, hops: u8) -> DelayQuantiser<Ticks> {
    let room = (252 / hop_words.max(1)).min(hops);
    DelayQuantiser { scale: units.latency_scale(), hops: HopCount::Stacked { room } }
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

/// A view over bytes that begin with the shim. What lies behind the stack in the buffer is room for more hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds the whole stack and the lengths agree with the instructions.
    pub fn new_checked(buffer: T) -> Result<Self> {
        demand(buffer.as_ref(), FIXED_BYTES)?;
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
            return Err(Error::BadLength { what: "shim length", expected: HEADER_WORDS, found: length });
        }
        let asked = packet.instructions().words();
        if packet.hop_words() < asked {
            return Err(Error::BadLength {
                what: "hop metadata length",
                expected: asked,
                found: packet.hop_words(),
            });
        }
        demand(packet.buffer.as_ref(), packet.used())?;
        Ok(packet)
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    /// Bytes of shim, header and stack.
    fn used(&self) -> usize {
        4 + 4 * usize::from(self.layout().length)
    }

    /// HopML: words each hop pushes.
    pub fn hop_words(&self) -> usize {
        usize::from(self.layout().hop_words & 0x1f)
    }

    /// How many hops may still push.
    pub fn remaining_hops(&self) -> u8 {
        self.layout().remaining_hops
    }

    /// What each hop is asked for.
    pub fn instructions(&self) -> Instructions {
        Instructions(self.layout().instructions.get())
    }

    /// E: a hop had no budget.
    pub fn is_exceeded(&self) -> bool {
        self.layout().flags & EXCEEDED != 0
    }

    /// M: a hop had no room.
    pub fn is_without_room(&self) -> bool {
        self.layout().flags & NO_ROOM != 0
    }

    /// Hops in the stack. Words left over behind them were inserted by the source.
    pub fn hop_count(&self) -> usize {
        let words = usize::from(self.layout().length).saturating_sub(HEADER_WORDS);
        words.checked_div(self.hop_words()).unwrap_or(0)
    }

    /// The hops, newest first.
    pub fn hops(&self) -> impl DoubleEndedIterator<Item = Hop> + '_ {
        let (size, asked) = (4 * self.hop_words(), self.instructions());
        (0..self.hop_count()).map(move |index| {
            let at = FIXED_BYTES + index * size;
            let bytes = self.buffer.as_ref().get(at..at + size).unwrap_or(&[]);
            Hop::parse(bytes, asked)
        })
    }

    /// The largest hop latency. A hop's latency holds more than its queueing delay: what else is the device's to say.
    pub fn telemetry(&self, units: &Units) -> MaxHopDelay {
        let scale = units.latency_scale();
        worst_of(
            self.hops().map(|hop| hop.latency.map(|ticks| scale.reading(ticks))),
            self.is_exceeded() || self.is_without_room(),
        )
    }

    /// The hop records, first hop first, in the profile of HPCC++ (instructions `0xd500`): queue, time of egress, and
    /// the transmit field as a counter of bytes. `None` where any hop lacks one of them or its rate is not known:
    /// part of a path is no path.
    pub fn hop_stack(
        &self,
        units: &Units,
        rate_of_node: impl Fn(u32) -> Option<BitRate>,
    ) -> Option<HopStack> {
        if self.is_exceeded() || self.is_without_room() {
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

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

/// What a hop did to the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// It pushed its metadata: the packet is longer, and the lengths around it are the caller's to repair.
    Pushed {
        /// Bytes more than before.
        bytes: usize,
        /// What that did to the sum.
        delta: Delta,
    },
    /// RemainingHopCnt was zero: it set E.
    NoBudget {
        /// What that did to the sum.
        delta: Delta,
    },
    /// The buffer or the length field had no room: it set M.
    NoRoom {
        /// What that did to the sum.
        delta: Delta,
    },
    /// Hops push nothing here (HopML is zero): it left the packet alone.
    Nothing,
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a transit hop does, unless HopML is zero and there is nothing to push: then it touches nothing, not even E.
    /// Pushes `hop` on top of the stack, into room at the end of the buffer, which must not
    /// hold anything else. Words it is asked for and cannot name are all ones; so is the checksum complement,
    /// which says that the transport checksum is updated instead.
    pub fn push(&mut self, hop: &Hop) -> Transit {
        let (used, size) = (self.used(), 4 * self.hop_words());
        let (asked, mut layout) = (self.instructions(), self.layout());
        if size == 0 {
            return Transit::Nothing;
        }
        if layout.remaining_hops == 0 {
            layout.flags |= EXCEEDED;
            let delta = store(self.buffer.as_mut(), 0, &layout);
            return Transit::NoBudget { delta };
        }
        let length = usize::from(layout.length) + self.hop_words();
        let (Ok(length), true) = (u8::try_from(length), used + size <= self.buffer.as_mut().len()) else {
            layout.flags |= NO_ROOM;
            let delta = store(self.buffer.as_mut(), 0, &layout);
            return Transit::NoRoom { delta };
        };
        layout.length = length;
        layout.remaining_hops -= 1;
        let buffer = self.buffer.as_mut();
        let header = store(buffer, 0, &layout);
        // In range: `used + size` fits the buffer. Said in a way that the compiler can follow to the last check.
        let stack = buffer.get_mut(FIXED_BYTES..used + size).unwrap_or(&mut []);
        if let Some(old) = stack.len().checked_sub(size) {
            stack.copy_within(..old, size);
        }
        let top = stack.get_mut(..size).unwrap_or(&mut []);
        hop.emit(top, asked);
        Transit::Pushed { bytes: size, delta: header.and(Delta::replace(&[], top)) }
    }
}

/// What shim and header say; the stack is pushed by hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// NPT: what `next` holds (0 DSCP, 1 original UDP port, 2 original IP protocol).
    pub npt: u8,
    /// What the packet was before the shim, as `npt` says.
    pub next: u16,
    /// D: the sink discards the packet.
    pub discard: bool,
    /// E: a hop had no budget.
    pub exceeded: bool,
    /// M: a hop had no room.
    pub without_room: bool,
    /// HopML: words each hop pushes, at most 31.
    pub hop_words: u8,
    /// How many hops may still push.
    pub remaining_hops: u8,
    /// What each hop is asked for.
    pub instructions: Instructions,
    /// The domain; zero is the default one.
    pub domain: u16,
    /// Instructions of the domain.
    pub domain_instruction: u16,
    /// Flags of the domain.
    pub domain_flags: u16,
    /// Words of the stack, at most 252.
    pub stack_words: u8,
}

impl Repr {
    /// Reads shim and header.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let layout = Packet::new_checked(bytes)?.layout();
        Ok(Self {
            npt: (layout.kind >> 2) & 0b11,
            next: layout.next.get(),
            discard: layout.flags & DISCARD != 0,
            exceeded: layout.flags & EXCEEDED != 0,
            without_room: layout.flags & NO_ROOM != 0,
            hop_words: layout.hop_words & 0x1f,
            remaining_hops: layout.remaining_hops,
            instructions: Instructions(layout.instructions.get()),
            domain: layout.domain.get(),
            domain_instruction: layout.domain_instruction.get(),
            domain_flags: layout.domain_flags.get(),
            stack_words: layout.length.saturating_sub(low8(HEADER_WORDS as u64)),
        })
    }

    /// Bytes of shim, header and stack.
    pub const fn buffer_len(&self) -> usize {
        header_bytes(self.stack_words as usize, 1)
    }

    /// Writes shim and header at the start of `buffer` and leaves the bytes of the stack alone.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, self.buffer_len())?;
        if self.stack_words > 252 {
            return Err(Error::BadLength {
                what: "stack words",
                expected: 252,
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
                | flag(self.exceeded, EXCEEDED)
                | flag(self.without_room, NO_ROOM),
            reserved: 0,
            hop_words: self.hop_words & 0x1f,
            remaining_hops: self.remaining_hops,
            instructions: U16::new(self.instructions.0),
            domain: U16::new(self.domain),
            domain_instruction: U16::new(self.domain_instruction),
            domain_flags: U16::new(self.domain_flags),
        };
        // Written by the source before it computes a checksum.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;
    use poseidon_types::Nanos;

    /// Two hops, node id and queue; a second decoder reads it alike.
    const V1: &str = "14072328 20000206 90000000 00000000 00000002 01001234 00000001 00000100";
    /// One hop with every defined instruction.
    const V2: &str = "140f2328 20000c07 ff800000 00000000 0a0b0c0d 00010002 00006400 07010203
        1122334455667788 1122334455667999 00000010 00000020 05f5e100 010abcde";

    const UNITS: Units = Units::NANOS_AND_BYTES;

    #[test]
    fn golden_vectors() {
        let v1 = hex(V1);
        let packet = Packet::new_checked(&v1).expect("parses");
        let hops: std::vec::Vec<_> = packet.hops().collect();
        assert_eq!(hops.iter().map(|hop| hop.node_id).collect::<std::vec::Vec<_>>(), [Some(2), Some(1)]);
        assert_eq!(hops[0].queue.map(|q| (q.id, q.occupancy)), Some((1, 0x1234)));
        assert_eq!((packet.remaining_hops(), packet.hop_count()), (6, 2));

        let v2 = hex(V2);
        let packet = Packet::new_checked(&v2).expect("parses");
        let hop = packet.hops().next().expect("one hop");
        assert_eq!(hop.node_id, Some(0x0a0b_0c0d));
        assert_eq!(hop.ports, Some((1, 2)));
        assert_eq!(hop.egress_at, Some(0x1122_3344_5566_7999));
        assert_eq!(hop.interfaces, Some((0x10, 0x20)));
        assert_eq!(hop.transmitted, Some(100_000_000));
        assert_eq!(hop.buffer.map(|b| (b.id, b.occupancy)), Some((1, 0x0a_bcde)));
        let signal = packet.telemetry(&UNITS);
        assert_eq!((signal.delay(), signal.hops), (Some(Nanos::new(25_600)), 1));
    }

    #[test]
    fn the_source_and_its_hops_make_the_vectors() {
        for vector in [V1, V2] {
            let bytes = hex(vector);
            let full = Packet::new_checked(&bytes).expect("parses");
            let hops: std::vec::Vec<_> = full.hops().collect();
            let mut repr = Repr::parse(&bytes).expect("parses");
            repr.stack_words = 0;
            repr.remaining_hops += u8::try_from(hops.len()).expect("few");
            let mut built = std::vec![0xee; bytes.len()];
            repr.emit(&mut built).expect("fits");
            let mut packet = Packet::new_checked(&mut built[..]).expect("parses");
            for hop in hops.iter().rev() {
                assert!(matches!(packet.push(hop), Transit::Pushed { .. }));
            }
            assert_eq!(built, bytes);
        }
    }

    #[test]
    fn budget_and_room_are_respected() {
        let mut bytes = hex(V1);
        let hop = Hop::default();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
        assert!(matches!(packet.push(&hop), Transit::NoRoom { .. }));
        assert!(packet.is_without_room() && packet.remaining_hops() == 6);
        assert!(packet.telemetry(&UNITS).incomplete);
        bytes[7] = 0;
        bytes.resize(64, 0);
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
        assert!(matches!(packet.push(&hop), Transit::NoBudget { .. }));
        assert!(packet.is_exceeded() && packet.hop_count() == 2);
        // Nothing but E and M changed.
        bytes[4] &= !(EXCEEDED | NO_ROOM);
        bytes[7] = 6;
        assert_eq!(bytes[..32], hex(V1));
        // A zero-length push is no push.
        bytes[6] = 0;
        bytes[8] = 0;
        let before = bytes.clone();
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
        assert_eq!((packet.push(&hop), packet.hop_count()), (Transit::Nothing, 0));
        assert_eq!(bytes, before);
    }

    #[test]
    fn a_push_repairs_the_checksum() {
        let mut bytes = hex(V1);
        let before = crate::checksum::internet(&bytes);
        bytes.resize(40, 0xee);
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
        let Transit::Pushed { bytes: 8, delta } = packet.push(&Hop::default()) else {
            panic!("there was budget and room");
        };
        assert_eq!(delta.apply(before), crate::checksum::internet(&bytes));
    }

    #[test]
    fn a_path_with_a_gap_is_no_path() {
        let rate = |_| Some(BitRate::from_gbps(100));
        let v2 = hex(V2);
        let packet = Packet::new_checked(&v2).expect("parses");
        let stack = packet.hop_stack(&UNITS, rate).expect("complete");
        assert_eq!(stack.as_slice()[0].at.get(), 0x1122_3344_5566_7999);
        assert_eq!(packet.hop_stack(&UNITS, |_| None), None);
        let v1 = hex(V1);
        let packet = Packet::new_checked(&v1).expect("parses");
        assert_eq!(packet.hop_stack(&UNITS, rate), None);
    }

    #[test]
    fn impossible_and_short_headers_are_refused() {
        let v1 = hex(V1);
        for have in 0..v1.len() {
            let need = if have < 16 { 16 } else { 32 };
            assert_eq!(Repr::parse(&v1[..have]), Err(Error::Truncated { need, have }));
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = hex(V1);
            bytes[at] = to;
            Repr::parse(&bytes)
        };
        assert!(matches!(changed(0, 0x34), Err(Error::BadKind { found: 3, .. })));
        assert!(matches!(changed(1, 2), Err(Error::BadLength { found: 2, .. })));
        assert!(matches!(changed(4, 0x10), Err(Error::BadVersion { found: 1, .. })));
        assert!(matches!(changed(6, 1), Err(Error::BadLength { expected: 2, found: 1, .. })));
        assert!(matches!(changed(1, 255), Err(Error::Truncated { .. })));
    }
}
