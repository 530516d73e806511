//! The header used by HPCC's ns-3 artifact: five fixed slots for hop records.
//!
//! ```text
//!  bytes 0-39                              bytes 40-41
//! +----------+----------+--- ... ---+     +---------------------+
//! | slot 0   | slot 1   |   slot 4  |     | nhop, little-endian |
//! +----------+----------+--- ... ---+     +---------------------+
//! Each slot is a little-endian hop word (see `hop_word`). A switch writes slot `nhop % 5`, then increments `nhop`.
//! ```
//!
//! Source: `int-header.{h,cc}` of the public HPCC artifact.

use crate::bytes::{load, low16, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, check_len};
use crate::hop_word::{Codec, HOP_BYTES};
use crate::hpcc;
use poseidon_types::{HopRecord, HopStack};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The number of slots.
pub const MAX_HOPS: usize = hpcc::MAX_HOPS;
/// The header size in bytes, which does not depend on the number of hops.
pub const HEADER_BYTES: usize = MAX_HOPS * HOP_BYTES + 2;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    slots: [U64; MAX_HOPS],
    nhop: U16,
}

/// A view of a buffer that starts with the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails if the buffer is shorter than the header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    /// Returns the number of hops that wrote a record. If the count exceeds five, later hops have overwritten the
    /// earliest records.
    pub fn hops(&self) -> u16 {
        self.layout().nhop.get()
    }

    /// Decodes the records, first hop first. Returns an error if any record was overwritten.
    pub fn hop_stack(&self, codec: &Codec) -> Result<HopStack> {
        let layout = self.layout();
        let found = usize::from(layout.nhop.get());
        if found > MAX_HOPS {
            return Err(Error::TooManyHops { max: MAX_HOPS, found });
        }
        hpcc::decode(layout.slots.iter().take(found).map(|slot| slot.get()), codec)
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes a switch's record into the next slot. If all slots are in use, the oldest slot is overwritten, as in the
    /// artifact. On error, the buffer is left unchanged.
    pub fn push(&mut self, record: &HopRecord, codec: &Codec) -> Result<Delta> {
        let word = codec.encode(record)?;
        let nhop = self.hops();
        let index = usize::from(nhop) % MAX_HOPS;
        let buffer = self.buffer.as_mut();
        let slot = store(buffer, index * HOP_BYTES, &U64::new(word));
        // The counter saturates instead of wrapping, because zero would mean that no hop wrote a record.
        let count = store(buffer, MAX_HOPS * HOP_BYTES, &U16::new(nhop.saturating_add(1)));
        Ok(slot.combine(count))
    }
}

/// The parsed header. The records stay encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The encoded record in each slot, including unused slots.
    pub slots: [u64; MAX_HOPS],
    /// The number of hops that wrote a record.
    pub hops: u16,
}

impl Repr {
    /// Parses the header. Any 42-byte sequence is valid.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let layout = Packet::new_checked(bytes)?.layout();
        Ok(Self { slots: layout.slots.map(U64::get), hops: layout.nhop.get() })
    }

    /// Creates the header from `records`, first hop first.
    pub fn from_records(records: &[HopRecord], codec: &Codec) -> Result<Self> {
        let (slots, hops) = hpcc::encode(records, codec)?;
        Ok(Self { slots, hops: low16(hops as u64) })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header to the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, HEADER_BYTES)?;
        let layout = Layout { slots: self.slots.map(U64::new), nhop: U16::new(self.hops) };
        // The end host computes the checksum later, so the delta is not needed.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop_word;
    use poseidon_types::{BitRate, Bytes, Nanos};

    const CODEC: Codec = Codec::new(hop_word::Layout::Ns3);

    fn record() -> HopRecord {
        HopRecord {
            timestamp: Nanos::new(0x12_3456),
            sent: Bytes::new(0xa_bcde * 128),
            queue: Bytes::new(0x1_f0f0 * 80),
            rate: BitRate::from_gbps(100),
        }
    }

    /// Returns the header that the artifact writes after one hop.
    fn one_hop() -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&[0xb2, 0xa2, 0x91, 0xf0, 0xe6, 0x55, 0x78, 0xf8]);
        bytes[40] = 1;
        bytes
    }

    #[test]
    fn one_push_produces_the_golden_vector() {
        let mut packet = Packet::new_checked([0; HEADER_BYTES]).expect("the buffer is large enough");
        let _ = packet.push(&record(), &CODEC).expect("the rate is in the table");
        assert_eq!(packet.hop_stack(&CODEC).expect("the rate is in the table").as_slice(), [record()]);
        assert_eq!(packet.into_inner(), one_hop());
        let repr = Repr::parse(&one_hop()).expect("the header is valid");
        let mut out = [0xff; HEADER_BYTES];
        repr.emit(&mut out).expect("the buffer is large enough");
        assert_eq!(out, one_hop());
        assert_eq!(Repr::from_records(&[record()], &CODEC), Ok(repr));
    }

    #[test]
    fn sixth_hop_overwrites_the_first_and_makes_the_stack_invalid() {
        let mut packet = Packet::new_checked([0; HEADER_BYTES]).expect("the buffer is large enough");
        for hop in 0..6 {
            let timestamp = Nanos::new(hop);
            let _ =
                packet.push(&HopRecord { timestamp, ..record() }, &CODEC).expect("the rate is in the table");
        }
        assert_eq!(packet.hop_stack(&CODEC), Err(Error::TooManyHops { max: 5, found: 6 }));
        let first = CODEC.decode(packet.layout().slots[0].get()).expect("the rate is in the table");
        assert_eq!(first.timestamp, Nanos::new(5));
        let mut last = [0xff; HEADER_BYTES];
        let _ =
            Packet::new_checked(&mut last[..]).expect("the buffer is large enough").push(&record(), &CODEC);
        assert_eq!(last[40..], [0xff, 0xff]);
    }

    #[test]
    fn short_buffers_are_rejected() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 42, have };
            assert_eq!(Repr::parse(&one_hop()[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut one_hop()[..have]), Err(short));
        }
    }
}
