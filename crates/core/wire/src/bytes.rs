//! Panic-free reads and writes of fixed layouts.
//!
//! A view checks its length only once, and an `AsRef` implementation may return a different buffer later. Reads past
//! the end therefore return zero, and writes past the end have no effect.

use crate::checksum::Delta;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Reads the layout `H` at byte `offset`.
pub(crate) fn load<H: FromBytes>(bytes: &[u8], offset: usize) -> H {
    bytes
        .get(offset..)
        .and_then(|rest| H::read_from_prefix(rest).ok())
        .map_or_else(H::new_zeroed, |(header, _)| header)
}

/// Writes `value` at byte `offset` and returns the resulting Internet checksum delta. `offset` must be even, which is
/// true for every field of every format. If the buffer itself starts at an odd offset, see [`Delta::at_offset`].
pub(crate) fn store<H: IntoBytes + Immutable>(bytes: &mut [u8], offset: usize, value: &H) -> Delta {
    let new = value.as_bytes();
    let Some(slot) = offset.checked_add(new.len()).and_then(|end| bytes.get_mut(offset..end)) else {
        return Delta::NONE;
    };
    let delta = Delta::for_bytes(slot, new);
    slot.copy_from_slice(new);
    delta
}

/// A bit field within an integer. The field is `bits` wide and its lowest bit is bit `shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) shift: u32,
    pub(crate) bits: u32,
}

impl Field {
    /// Creates a field of `bits` bits whose lowest bit is bit `shift`.
    pub(crate) const fn new(shift: u32, bits: u32) -> Self {
        Self { shift, bits }
    }

    /// Returns the largest value that fits in the field.
    pub(crate) const fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Extracts the field from `word`.
    pub(crate) const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.max()
    }

    /// Returns `word` with the field set to the low bits of `value`.
    pub(crate) const fn set(self, word: u64, value: u64) -> u64 {
        (word & !(self.max() << self.shift)) | ((value & self.max()) << self.shift)
    }
}

/// Joins two 16-bit halves into a 32-bit word.
pub(crate) fn join16((high, low): (u16, u16)) -> u32 {
    (u32::from(high) << 16) | u32::from(low)
}

/// Splits a 32-bit word into its high and low halves.
pub(crate) fn split16(word: u32) -> (u16, u16) {
    (low16(u64::from(word >> 16)), low16(u64::from(word)))
}

/// Joins two 32-bit halves into a 64-bit word.
pub(crate) fn join32((high, low): (u32, u32)) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

/// Splits a 64-bit word into its high and low halves.
pub(crate) const fn split32(word: u64) -> (u32, u32) {
    (low32(word >> 32), low32(word))
}

/// Returns the low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the function truncates on purpose")]
pub(crate) const fn low32(word: u64) -> u32 {
    word as u32
}

/// Returns the low 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "the function truncates on purpose")]
pub(crate) const fn low16(word: u64) -> u16 {
    word as u16
}

/// Returns the low 8 bits.
#[expect(clippy::cast_possible_truncation, reason = "the function truncates on purpose")]
pub(crate) const fn low8(word: u64) -> u8 {
    word as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::big_endian::{U16, U32};

    #[test]
    fn access_beyond_the_buffer_reads_zero_and_writes_nothing() {
        let mut bytes = [1, 2, 3, 4];
        assert_eq!(load::<U16>(&bytes, 2).get(), 0x0304);
        assert_eq!(load::<U32>(&bytes, 2).get(), 0);
        assert_eq!(load::<U16>(&bytes, usize::MAX).get(), 0);
        assert_eq!(store(&mut bytes, 2, &U32::new(7)), Delta::NONE);
        assert_eq!(store(&mut bytes, usize::MAX, &U16::new(7)), Delta::NONE);
        assert_eq!(bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn halves_keep_their_order() {
        assert_eq!((join16((1, 2)), split16(0x0001_0002)), (0x0001_0002, (1, 2)));
        assert_eq!((join32((1, 2)), split32(0x1_0000_0002)), (0x1_0000_0002, (1, 2)));
    }

    #[test]
    fn setting_a_field_keeps_its_neighbours() {
        let field = Field::new(7, 5);
        assert_eq!(field.set(u64::MAX, 0), !(0x1f << 7));
        assert_eq!(field.set(0, 0xffff), 0x1f << 7);
        assert_eq!(field.get(0x4483), 9);
    }
}
