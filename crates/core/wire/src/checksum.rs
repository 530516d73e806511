//! The Internet checksum, and repairing it where a hop changed a few words.
//!
//! Source: RFC 1071 (the sum), RFC 1624 equation 3 (`HC' = ~(~HC + ~m + m')`, the form that is right in every
//! case), RFC 768 and RFC 8200 section 8.1 (what zero means in UDP).
//!
//! Every in-network update of this crate returns a [`Delta`]: what it did to any checksum that covers the bytes, where the
//! buffer begins at an even offset of what is covered; [`Delta::at`] for any other.

/// The change of a ones' complement sum. Deltas add up in any order.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a checksum over the changed bytes is now wrong: apply this to it"]
pub struct Delta(u16);

/// Two representations of zero exist in ones' complement; both change nothing.
impl PartialEq for Delta {
    fn eq(&self, other: &Self) -> bool {
        self.0 % 0xffff == other.0 % 0xffff
    }
}

impl Eq for Delta {}

impl Delta {
    /// Nothing changed.
    pub const NONE: Self = Self(0);

    /// One 16-bit word changed.
    pub const fn word(old: u16, new: u16) -> Self {
        Self(add(!old, new))
    }

    /// Both changes.
    pub const fn and(self, other: Self) -> Self {
        Self(add(self.0, other.0))
    }

    /// `old` became `new`, from an even offset on. A missing tail counts as zero.
    pub fn replace(old: &[u8], new: &[u8]) -> Self {
        Self(add(!sum(old), sum(new)))
    }

    /// The same change where the updated buffer begins `offset` bytes into what the checksum covers. At an odd offset every
    /// byte stands in the other half of its word: TCP options may begin anywhere.
    pub const fn at(self, offset: usize) -> Self {
        if offset.is_multiple_of(2) { self } else { Self(self.0.swap_bytes()) }
    }

    /// Whether every checksum stays as it is.
    pub const fn is_none(self) -> bool {
        self.0.is_multiple_of(0xffff)
    }

    /// The checksum of a header that held `check` before the change (IPv4, TCP, ICMP).
    ///
    /// Right wherever the covered bytes are not all zero, which no real header is.
    pub const fn apply(self, check: u16) -> u16 {
        !add(!check, self.0)
    }

    /// The same for UDP: "no checksum" stays so, and a sum of zero is sent as `0xffff`.
    pub const fn apply_udp(self, check: u16) -> u16 {
        if check == 0 {
            return 0;
        }
        match self.apply(check) {
            0 => 0xffff,
            repaired => repaired,
        }
    }
}

/// The Internet checksum of `bytes`; an odd last byte is padded with zero.
pub fn internet(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// [`internet`] for UDP, which sends `0xffff` for zero because zero means "no checksum".
pub fn internet_udp(bytes: &[u8]) -> u16 {
    match internet(bytes) {
        0 => 0xffff,
        check => check,
    }
}

/// Ones' complement addition: the carry comes back in at the bottom.
const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // Cannot overflow: after a carry the sum is at most 0xfffe.
    sum.wrapping_add(carry as u16)
}

fn sum(bytes: &[u8]) -> u16 {
    let (words, odd) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(0, |sum, word| add(sum, u16::from_be_bytes(*word)));
    odd.first().map_or(sum, |last| add(sum, u16::from_be_bytes([*last, 0])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        // RFC 1071 section 3.
        assert_eq!(internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(internet(&[]), 0xffff);
        assert_eq!(internet(&[0x12]), !0x1200);
        // RFC 1624 section 4: the example that equation 2 gets wrong.
        assert_eq!(Delta::word(0x5555, 0x3285).apply(0xdd2f), 0x0000);
    }

    #[test]
    fn udp_keeps_no_checksum_and_never_sends_zero() {
        assert_eq!(Delta::word(1, 2).apply_udp(0), 0);
        assert_eq!(Delta::word(0x5555, 0x3285).apply_udp(0xdd2f), 0xffff);
        assert_eq!(internet_udp(&[0xff, 0xff]), 0xffff);
    }

    #[test]
    fn both_zeros_are_no_change() {
        assert!(Delta::word(7, 7).is_none() && Delta::NONE.is_none());
        assert_eq!(Delta::word(7, 7), Delta::NONE);
        assert_ne!(Delta::word(7, 8), Delta::NONE);
        assert_eq!(Delta::word(7, 7).apply(0x1234), 0x1234);
    }
}
