//! HPCC's hop records as its ns-3 artifact carries them: five fixed slots, whatever the path.
//!
//! ```text
//!  bytes 0-39                              bytes 40-41
//! +----------+----------+--- ... ---+     +---------------------+
//! | slot 0   | slot 1   |   slot 4  |     | nhop, little-endian |
//! +----------+----------+--- ... ---+     +---------------------+
//! slots are little-endian hop words (see `hop_word`); a hop writes slot `nhop % 5`
//! ```
//!
//! Source: `int-header.{h,cc}` of the public HPCC artifact.

use crate::bytes::{load, low16, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, demand};
use crate::hop_word::{Codec, HOP_BYTES};
use crate::hpcc;
use poseidon_types::{HopRecord, HopStack};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Slots for hops.
pub const MAX_HOPS: usize = hpcc::MAX_HOPS;
/// Bytes on the wire, for any number of hops.
pub const HEADER_BYTES: usize = MAX_HOPS * HOP_BYTES + 2;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    slots: [U64; MAX_HOPS],
    nhop: U16,
}

/// A view over the bytes that begin with the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds the whole header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        demand(buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    /// Hops that wrote. Above five, the later ones have overwritten the first.
    pub fn hops(&self) -> u16 {
        self.layout().nhop.get()
    }

    /// The records, first hop first; an error where hops were overwritten.
    pub fn hop_stack(&self, codec: &Codec) -> Result<HopStack> {
        let layout = self.layout();
        let found = usize::from(layout.nhop.get());
        if found > MAX_HOPS {
            return Err(Error::TooManyHops { max: MAX_HOPS, found });
        }
        hpcc::decode(layout.slots.iter().take(found).map(|slot| slot.get()), codec)
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a switch does: writes its record into the next slot, as the artifact does even where that overwrites.
    /// An unknown rate: nothing is touched.
    pub fn push(&mut self, record: &HopRecord, codec: &Codec) -> Result<Delta> {
        let word = codec.encode(record)?;
        let nhop = self.hops();
        let slot = usize::from(nhop) % MAX_HOPS;
        let buffer = self.buffer.as_mut();
        let slot = store(buffer, slot * HOP_BYTES, &U64::new(word));
        // The counter saturates: a wrap to zero would read as a path without hops.
        let count = store(buffer, MAX_HOPS * HOP_BYTES, &U16::new(nhop.saturating_add(1)));
        Ok(slot.and(count))
    }
}

/// What the header says, with its words as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The slots, used or not.
    pub slots: [u64; MAX_HOPS],
    /// Hops that wrote.
    pub hops: u16,
}

impl Repr {
    /// Reads the header; any 42 bytes are valid.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let layout = Packet::new_checked(bytes)?.layout();
        Ok(Self { slots: layout.slots.map(U64::get), hops: layout.nhop.get() })
    }

    /// The header that says `records`, first hop first.
    pub fn from_records(records: &[HopRecord], codec: &Codec) -> Result<Self> {
        let (slots, hops) = hpcc::encode(records, codec)?;
        Ok(Self { slots, hops: low16(hops as u64) })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header at the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, HEADER_BYTES)?;
        let layout = Layout { slots: self.slots.map(U64::new), nhop: U16::new(self.hops) };
        // Written by an end host before any checksum.
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
            at: Nanos::new(0x12_3456),
            sent: Bytes::new(0xa_bcde * 128),
            queue: Bytes::new(0x1_f0f0 * 80),
            rate: BitRate::from_gbps(100),
        }
    }

    /// One hop: the artifact's word in slot 0.
    fn one_hop() -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&[0xb2, 0xa2, 0x91, 0xf0, 0xe6, 0x55, 0x78, 0xf8]);
        bytes[40] = 1;
        bytes
    }

    #[test]
    fn one_push_makes_the_vector() {
        let mut packet = Packet::new_checked([0; HEADER_BYTES]).expect("fits");
        let _ = packet.push(&record(), &CODEC).expect("known rate");
        assert_eq!(packet.hop_stack(&CODEC).expect("known rate").as_slice(), [record()]);
        assert_eq!(packet.into_inner(), one_hop());
        let repr = Repr::parse(&one_hop()).expect("parses");
        let mut out = [0xff; HEADER_BYTES];
        repr.emit(&mut out).expect("fits");
        assert_eq!(out, one_hop());
        assert_eq!(Repr::from_records(&[record()], &CODEC), Ok(repr));
    }

    #[test]
    fn a_sixth_hop_overwrites_the_first_and_is_not_read_as_a_path() {
        let mut packet = Packet::new_checked([0; HEADER_BYTES]).expect("fits");
        for hop in 0..6 {
            let at = Nanos::new(hop);
            let _ = packet.push(&HopRecord { at, ..record() }, &CODEC).expect("known rate");
        }
        assert_eq!(packet.hop_stack(&CODEC), Err(Error::TooManyHops { max: 5, found: 6 }));
        let first = CODEC.decode(packet.layout().slots[0].get()).expect("known rate");
        assert_eq!(first.at, Nanos::new(5));
        let mut last = [0xff; HEADER_BYTES];
        let _ = Packet::new_checked(&mut last[..]).expect("fits").push(&record(), &CODEC);
        assert_eq!(last[40..], [0xff, 0xff]);
    }

    #[test]
    fn every_shorter_buffer_is_refused() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 42, have };
            assert_eq!(Repr::parse(&one_hop()[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut one_hop()[..have]), Err(short));
        }
    }
}
