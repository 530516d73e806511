//! PowerTCP's TCP option: HPCC's stack of hop records behind a kind and a length.
//!
//! ```text
//!  byte 0   byte 1   bytes 2-3                bytes 4-11   bytes 12-19
//! +------+ +------+ +--------+-----------+   +-----------+-----------+ ...  first hop first, at most four
//! | kind | | len  | | nHop:4 | pathID:12 |   | hop word  | hop word  |
//! +------+ +------+ +--------+-----------+   +-----------+-----------+ ...
//! ```
//!
//! The sender reserves the slots (`len = 4 + 8 slots`, at most 36 of TCP's 40 option bytes): no switch can make a
//! TCP header longer. A hop fills the next free slot.
//!
//! Source: PowerTCP (NSDI'22) section 3.6, "32-bit base and 64 bits per hop", which gives sizes but no field order;
//! the order here is HPCC's behind a TCP option header. Kind 36 is the ns-3 artifact's.

use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, demand};
use crate::hop_word::{Base, Codec, HOP_BYTES};
use crate::hpcc;
use poseidon_types::{HopRecord, HopStack};

/// The kind the published simulation uses; not assigned.
pub const DEFAULT_KIND: u8 = 36;
/// The most hops that fit TCP's option space: the paper's four.
pub const MAX_HOPS: usize = 4;
/// Kind and length.
const PREFIX: usize = 2;

/// Bytes on the wire with `slots` reserved, however many hops there are.
pub const fn header_bytes(slots: usize) -> usize {
    PREFIX + Base::BYTES + HOP_BYTES * if slots > MAX_HOPS { MAX_HOPS } else { slots }
}

/// A view over the bytes that begin with the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer begins with a whole option of this kind whose hops fit its length.
    pub fn new_checked(buffer: T, kind: u8) -> Result<Self> {
        demand(buffer.as_ref(), header_bytes(0))?;
        let [found, len]: [u8; PREFIX] = load(buffer.as_ref(), 0);
        if found != kind {
            return Err(Error::BadKind { expected: kind, found });
        }
        let len = usize::from(len);
        let slots = len.saturating_sub(header_bytes(0)) / HOP_BYTES;
        if len != header_bytes(slots) {
            return Err(Error::BadLength {
                what: "option length",
                expected: header_bytes(slots),
                found: len,
            });
        }
        demand(buffer.as_ref(), len)?;
        let packet = Self { buffer };
        hpcc::Packet::with_limit(packet.stack_bytes(), slots)?;
        Ok(packet)
    }

    fn stack_bytes(&self) -> &[u8] {
        self.buffer.as_ref().get(PREFIX..self.len()).unwrap_or(&[])
    }

    fn stack(&self) -> Result<hpcc::Packet<&[u8]>> {
        hpcc::Packet::with_limit(self.stack_bytes(), self.slots())
    }

    /// The kind.
    pub fn kind(&self) -> u8 {
        load(self.buffer.as_ref(), 0)
    }

    /// The length field.
    #[expect(clippy::len_without_is_empty, reason = "an option is never empty")]
    pub fn len(&self) -> usize {
        usize::from(load::<u8>(self.buffer.as_ref(), 1))
    }

    /// Slots the sender reserved.
    pub fn slots(&self) -> usize {
        self.len().saturating_sub(header_bytes(0)) / HOP_BYTES
    }

    /// Hops that filled a slot.
    pub fn hops(&self) -> usize {
        self.stack().map_or(0, |stack| stack.hops())
    }

    /// The id of the path so far.
    pub fn path_id(&self) -> u16 {
        self.stack().map_or(0, |stack| stack.path_id())
    }

    /// The records, first hop first.
    pub fn hop_stack(&self, codec: &Codec) -> Result<HopStack> {
        self.stack()?.hop_stack(codec)
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a switch does: fills the next free slot. No free slot or an unknown rate: nothing is touched. An option may
    /// begin at an odd byte of the TCP header: then the checksum wants [`Delta::at`].
    pub fn push(&mut self, record: &HopRecord, switch_id: u16, codec: &Codec) -> Result<Delta> {
        let (len, slots) = (self.len(), self.slots());
        let bytes = self.buffer.as_mut().get_mut(PREFIX..len).unwrap_or(&mut []);
        hpcc::Packet::with_limit(bytes, slots)?.fill(record, switch_id, codec)
    }
}

/// What the option says, with its words as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The option kind.
    pub kind: u8,
    /// Slots reserved, at most four; free ones are written as zero.
    pub slots: usize,
    /// Path and words; at most `slots` of them count.
    pub stack: hpcc::Repr,
}

impl Repr {
    /// Reads an option.
    pub fn parse(bytes: &[u8], kind: u8) -> Result<Self> {
        let packet = Packet::new_checked(bytes, kind)?;
        Ok(Self { kind, slots: packet.slots(), stack: hpcc::Repr::read(&packet.stack()?) })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        header_bytes(self.slots)
    }

    /// Writes the option at the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let len = self.buffer_len();
        demand(buffer, len)?;
        let Some(option) = buffer.get_mut(..len) else {
            return Ok(());
        };
        option.fill(0);
        // At most 36. Written by an end host before any checksum.
        let prefix = [self.kind, u8::try_from(len).unwrap_or(u8::MAX)];
        let _ = store(option, 0, &prefix);
        let stack = hpcc::Repr { hops: self.stack.hops.min(self.slots).min(MAX_HOPS), ..self.stack };
        stack.emit(option.get_mut(PREFIX..).unwrap_or(&mut []))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop_word::Layout;
    use poseidon_types::{BitRate, Bytes, Nanos};

    const CODEC: Codec = Codec::new(Layout::Paper);
    /// Kind 36, two hops of 100 Gbps, 1,024 ns, 512 units sent, 3 cells waiting.
    const TWO: [u8; 20] = [
        0x24, 0x14, 0x2a, 0xbc, 0x20, 0x00, 0x40, 0x00, 0x02, 0x00, 0x00, 0x03, 0x20, 0x00, 0x40, 0x00, 0x02,
        0x00, 0x00, 0x03,
    ];

    fn record() -> HopRecord {
        HopRecord {
            at: Nanos::new(0x400),
            sent: Bytes::new(0x200 * 128),
            queue: Bytes::new(240),
            rate: BitRate::from_gbps(100),
        }
    }

    #[test]
    fn two_pushes_make_the_vector() {
        let fresh = Repr { kind: DEFAULT_KIND, slots: 2, ..Repr::default() };
        let mut bytes = [0xff; 20];
        fresh.emit(&mut bytes).expect("fits");
        let mut packet = Packet::new_checked(bytes, DEFAULT_KIND).expect("ours");
        let _ = packet.push(&record(), 0xa00, &CODEC).expect("a free slot");
        let _ = packet.push(&record(), 0x0bc, &CODEC).expect("a free slot");
        assert_eq!(packet.push(&record(), 1, &CODEC), Err(Error::TooManyHops { max: 2, found: 3 }));
        assert_eq!((packet.hops(), packet.path_id(), packet.kind()), (2, 0xabc, 36));
        let stack = packet.hop_stack(&CODEC).expect("known rates");
        assert_eq!(stack.as_slice(), [record(), record()]);
        assert_eq!(packet.into_inner(), TWO);
        let mut out = [0xff; 20];
        Repr::parse(&TWO, DEFAULT_KIND).expect("parses").emit(&mut out).expect("fits");
        assert_eq!(out, TWO);
    }

    #[test]
    fn a_push_repairs_the_checksum() {
        let mut bytes = [0; 36];
        bytes[..4].copy_from_slice(&[0x24, 36, 0, 0]);
        let before = crate::checksum::internet(&bytes);
        let mut packet = Packet::new_checked(&mut bytes[..], DEFAULT_KIND).expect("ours");
        let delta = packet.push(&record(), 7, &CODEC).expect("a free slot");
        assert_eq!(delta.apply(before), crate::checksum::internet(&bytes));
    }

    #[test]
    fn impossible_and_short_options_are_refused() {
        for have in 0..TWO.len() {
            let need = if have < 4 { 4 } else { 20 };
            let short = Error::Truncated { need, have };
            assert_eq!(Repr::parse(&TWO[..have], DEFAULT_KIND), Err(short));
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = [0; 64];
            bytes[..20].copy_from_slice(&TWO);
            bytes[at] = to;
            Repr::parse(&bytes, DEFAULT_KIND)
        };
        assert!(matches!(changed(0, 37), Err(Error::BadKind { .. })));
        for len in [0, 2, 3, 5, 11, 19, 21, 44, 255] {
            assert!(matches!(changed(1, len), Err(Error::BadLength { .. })), "{len}");
        }
        // More hops than the length has slots for.
        assert_eq!(changed(2, 0x30), Err(Error::TooManyHops { max: 2, found: 3 }));
    }
}
