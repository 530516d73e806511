//! PowerTCP's TCP option: a kind byte and a length byte, followed by HPCC's hop-record stack.
//!
//! ```text
//!  byte 0   byte 1   bytes 2-3                bytes 4-11   bytes 12-19
//! +------+ +------+ +--------+-----------+   +-----------+-----------+ ...  first hop first, at most four
//! | kind | | len  | | nHop:4 | pathID:12 |   | hop word  | hop word  |
//! +------+ +------+ +--------+-----------+   +-----------+-----------+ ...
//! ```
//!
//! The sender reserves the slots, because a switch cannot extend a TCP header. The length is `4 + 8 * slots` bytes, at
//! most 36 of the 40 available option bytes. Each hop fills the next free slot.
//!
//! Source: PowerTCP (NSDI'22) section 3.6, "32-bit base and 64 bits per hop". The paper specifies the sizes
//! but not the field order. This module uses a TCP option header followed by HPCC's fields. Kind 36 comes from the
//! ns-3 artifact.

use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, check_len};
use crate::hop_word::{Codec, HOP_BYTES, StackHeader};
use crate::hpcc;
use poseidon_types::{HopRecord, HopStack};

/// The option kind used in the published simulation. IANA has not assigned a kind.
pub const DEFAULT_KIND: u8 = 36;
/// The maximum number of hops that fit in the TCP option space. The paper uses the same limit.
pub const MAX_HOPS: usize = 4;
/// The combined size of the kind and length fields, in bytes.
const PREFIX_BYTES: usize = 2;

/// Returns the option size in bytes with `slots` reserved slots.
pub const fn header_bytes(slots: usize) -> usize {
    PREFIX_BYTES + StackHeader::BYTES + HOP_BYTES * if slots > MAX_HOPS { MAX_HOPS } else { slots }
}

/// A view of a buffer that starts with the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails unless the buffer starts with a complete option of this kind whose hops fit in its length.
    pub fn new_checked(buffer: T, kind: u8) -> Result<Self> {
        check_len(buffer.as_ref(), header_bytes(0))?;
        let [found, len]: [u8; PREFIX_BYTES] = load(buffer.as_ref(), 0);
        if found != kind {
            return Err(Error::BadKind { expected: kind, found });
        }
        let len = usize::from(len);
        let slots = len.saturating_sub(header_bytes(0)) / HOP_BYTES;
        if len != header_bytes(slots) {
            return Err(Error::BadLength {
                field: "option length",
                expected: header_bytes(slots),
                found: len,
            });
        }
        check_len(buffer.as_ref(), len)?;
        let packet = Self { buffer };
        hpcc::Packet::with_limit(packet.stack_bytes(), slots)?;
        Ok(packet)
    }

    fn stack_bytes(&self) -> &[u8] {
        self.buffer.as_ref().get(PREFIX_BYTES..self.len()).unwrap_or(&[])
    }

    fn stack(&self) -> Result<hpcc::Packet<&[u8]>> {
        hpcc::Packet::with_limit(self.stack_bytes(), self.slots())
    }

    /// Returns the option kind.
    pub fn kind(&self) -> u8 {
        load(self.buffer.as_ref(), 0)
    }

    /// Returns the length field.
    #[expect(clippy::len_without_is_empty, reason = "an option is never empty")]
    pub fn len(&self) -> usize {
        usize::from(load::<u8>(self.buffer.as_ref(), 1))
    }

    /// Returns the number of slots that the sender reserved.
    pub fn slots(&self) -> usize {
        self.len().saturating_sub(header_bytes(0)) / HOP_BYTES
    }

    /// Returns the number of used slots.
    pub fn hops(&self) -> usize {
        self.stack().map_or(0, |stack| stack.hops())
    }

    /// Returns the ID of the path up to this hop.
    pub fn path_id(&self) -> u16 {
        self.stack().map_or(0, |stack| stack.path_id())
    }

    /// Decodes the records, first hop first.
    pub fn hop_stack(&self, codec: &Codec) -> Result<HopStack> {
        self.stack()?.hop_stack(codec)
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes a switch's record into the next free slot. On error, the buffer is left unchanged. If the option starts
    /// at an odd offset in the TCP header, use [`Delta::at_offset`].
    pub fn push(&mut self, record: &HopRecord, switch_id: u16, codec: &Codec) -> Result<Delta> {
        let (len, slots) = (self.len(), self.slots());
        let bytes = self.buffer.as_mut().get_mut(PREFIX_BYTES..len).unwrap_or(&mut []);
        hpcc::Packet::with_limit(bytes, slots)?.fill_slot(record, switch_id, codec)
    }
}

/// The parsed option. The records stay encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The option kind.
    pub kind: u8,
    /// The number of reserved slots, at most four. Free slots are written as zero.
    pub slots: usize,
    /// The path ID and at most `slots` records.
    pub stack: hpcc::Repr,
}

impl Repr {
    /// Parses an option.
    pub fn parse(bytes: &[u8], kind: u8) -> Result<Self> {
        let packet = Packet::new_checked(bytes, kind)?;
        Ok(Self { kind, slots: packet.slots(), stack: hpcc::Repr::from_packet(&packet.stack()?) })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        header_bytes(self.slots)
    }

    /// Writes the option to the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        let len = self.buffer_len();
        check_len(buffer, len)?;
        let Some(option) = buffer.get_mut(..len) else {
            return Ok(());
        };
        option.fill(0);
        // The length is at most 36, so the conversion cannot fail.
        let prefix = [self.kind, u8::try_from(len).unwrap_or(u8::MAX)];
        let _ = store(option, 0, &prefix);
        let stack = hpcc::Repr { hops: self.stack.hops.min(self.slots).min(MAX_HOPS), ..self.stack };
        stack.emit(option.get_mut(PREFIX_BYTES..).unwrap_or(&mut []))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop_word::Layout;
    use poseidon_types::{BitRate, Bytes, Nanos};

    const CODEC: Codec = Codec::new(Layout::Paper);
    /// An option of kind 36 with two identical hops: 100 Gbps, 1,024 ns, 512 units sent, and a queue of 3 cells.
    const TWO_HOPS: [u8; 20] = [
        0x24, 0x14, 0x2a, 0xbc, 0x20, 0x00, 0x40, 0x00, 0x02, 0x00, 0x00, 0x03, 0x20, 0x00, 0x40, 0x00, 0x02,
        0x00, 0x00, 0x03,
    ];

    fn record() -> HopRecord {
        HopRecord {
            timestamp: Nanos::new(0x400),
            sent: Bytes::new(0x200 * 128),
            queue: Bytes::new(240),
            rate: BitRate::from_gbps(100),
        }
    }

    #[test]
    fn two_pushes_produce_the_golden_vector() {
        let initial = Repr { kind: DEFAULT_KIND, slots: 2, ..Repr::default() };
        let mut bytes = [0xff; 20];
        initial.emit(&mut bytes).expect("the buffer is large enough");
        let mut packet = Packet::new_checked(bytes, DEFAULT_KIND).expect("the header is valid");
        let _ = packet.push(&record(), 0xa00, &CODEC).expect("a slot is free");
        let _ = packet.push(&record(), 0x0bc, &CODEC).expect("a slot is free");
        assert_eq!(packet.push(&record(), 1, &CODEC), Err(Error::TooManyHops { max: 2, found: 3 }));
        assert_eq!((packet.hops(), packet.path_id(), packet.kind()), (2, 0xabc, 36));
        let stack = packet.hop_stack(&CODEC).expect("the rates are in the table");
        assert_eq!(stack.as_slice(), [record(), record()]);
        assert_eq!(packet.into_inner(), TWO_HOPS);
        let mut out = [0xff; 20];
        Repr::parse(&TWO_HOPS, DEFAULT_KIND)
            .expect("the header is valid")
            .emit(&mut out)
            .expect("the buffer is large enough");
        assert_eq!(out, TWO_HOPS);
    }

    #[test]
    fn delta_of_a_push_updates_the_checksum() {
        let mut bytes = [0; 36];
        bytes[..4].copy_from_slice(&[0x24, 36, 0, 0]);
        let before = crate::checksum::internet(&bytes);
        let mut packet = Packet::new_checked(&mut bytes[..], DEFAULT_KIND).expect("the header is valid");
        let delta = packet.push(&record(), 7, &CODEC).expect("a slot is free");
        assert_eq!(delta.apply(before), crate::checksum::internet(&bytes));
    }

    #[test]
    fn invalid_and_short_options_are_rejected() {
        for have in 0..TWO_HOPS.len() {
            let need = if have < 4 { 4 } else { 20 };
            let short = Error::Truncated { need, have };
            assert_eq!(Repr::parse(&TWO_HOPS[..have], DEFAULT_KIND), Err(short));
        }
        let parse_with_byte = |index: usize, value: u8| {
            let mut bytes = [0; 64];
            bytes[..20].copy_from_slice(&TWO_HOPS);
            bytes[index] = value;
            Repr::parse(&bytes, DEFAULT_KIND)
        };
        assert!(matches!(parse_with_byte(0, 37), Err(Error::BadKind { .. })));
        for len in [0, 2, 3, 5, 11, 19, 21, 44, 255] {
            assert!(matches!(parse_with_byte(1, len), Err(Error::BadLength { .. })), "{len}");
        }
        // The hop count exceeds the number of slots implied by the length.
        assert_eq!(parse_with_byte(2, 0x30), Err(Error::TooManyHops { max: 2, found: 3 }));
    }
}
