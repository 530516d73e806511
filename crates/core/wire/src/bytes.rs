//! Reading and writing fixed layouts without a way to panic.
//!
//! A view checks its length once. Its getters still may not trust that the buffer behind an `AsRef` stays the
//! same, so the reads here are total: what is not there reads as zero, what does not fit is not written.

use crate::checksum::Delta;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The layout `H` at byte `at`.
pub(crate) fn load<H: FromBytes>(bytes: &[u8], at: usize) -> H {
    bytes
        .get(at..)
        .and_then(|rest| H::read_from_prefix(rest).ok())
        .map_or_else(H::new_zeroed, |(header, _)| header)
}

/// Writes `value` at byte `at` and says what that did to the checksum around it. `at` must be even, as every field of
/// every format here is; where the buffer itself begins at an odd offset, the caller says so by [`Delta::at`].
pub(crate) fn store<H: IntoBytes + Immutable>(bytes: &mut [u8], at: usize, value: &H) -> Delta {
    let new = value.as_bytes();
    let Some(slot) = at.checked_add(new.len()).and_then(|end| bytes.get_mut(at..end)) else {
        return Delta::NONE;
    };
    let delta = Delta::replace(slot, new);
    slot.copy_from_slice(new);
    delta
}

/// A field of an integer: `bits` wide, its lowest bit at `shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) shift: u32,
    pub(crate) bits: u32,
}

impl Field {
    /// The field that ends just above bit `shift`.
    pub(crate) const fn new(shift: u32, bits: u32) -> Self {
        Self { shift, bits }
    }

    /// The largest value the field holds.
    pub(crate) const fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// The field's value in `word`.
    pub(crate) const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.max()
    }

    /// `word` with the field set to the low bits of `value`.
    pub(crate) const fn set(self, word: u64, value: u64) -> u64 {
        (word & !(self.max() << self.shift)) | ((value & self.max()) << self.shift)
    }
}

/// Two halves in one word, the first on top.
pub(crate) fn join16((high, low): (u16, u16)) -> u32 {
    (u32::from(high) << 16) | u32::from(low)
}

/// The halves of a word.
pub(crate) fn split16(word: u32) -> (u16, u16) {
    (low16(u64::from(word >> 16)), low16(u64::from(word)))
}

/// Two halves in one long word, the first on top.
pub(crate) fn join32((high, low): (u32, u32)) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

/// The halves of a long word.
pub(crate) const fn split32(long: u64) -> (u32, u32) {
    (low32(long >> 32), low32(long))
}

/// The low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]
pub(crate) const fn low32(word: u64) -> u32 {
    word as u32
}

/// The low 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]
pub(crate) const fn low16(word: u64) -> u16 {
    word as u16
}

/// The low 8 bits.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]
pub(crate) const fn low8(word: u64) -> u8 {
    word as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::big_endian::{U16, U32};

    #[test]
    fn outside_the_buffer_reads_zero_and_writes_nothing() {
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
    fn fields_do_not_touch_their_neighbours() {
        let field = Field::new(7, 5);
        assert_eq!(field.set(u64::MAX, 0), !(0x1f << 7));
        assert_eq!(field.set(0, 0xffff), 0x1f << 7);
        assert_eq!(field.get(0x4483), 9);
    }
}
