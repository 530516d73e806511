//! The Internet checksum and incremental checksum updates.
//!
//! Source: RFC 1071 (the sum), RFC 1624 equation 3 (`HC' = ~(~HC + ~m + m')`, the form without corner cases), RFC 768
//! and RFC 8200 section 8.1 (the meaning of zero in UDP).
//!
//! Every in-network update in this crate returns a [`Delta`], which corrects a checksum that covers the updated bytes.
//! The delta assumes that the buffer starts at an even offset in the covered data. Otherwise, use
//! [`Delta::at_offset`].

/// A change to a ones' complement sum. Deltas may be combined in any order.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "apply the delta to every checksum that covers the changed bytes"]
pub struct Delta(u16);

/// Compares two deltas. The two ones' complement representations of zero compare equal.
impl PartialEq for Delta {
    fn eq(&self, other: &Self) -> bool {
        self.0 % 0xffff == other.0 % 0xffff
    }
}

impl Eq for Delta {}

impl Delta {
    /// A delta that leaves the checksum unchanged.
    pub const NONE: Self = Self(0);

    /// Returns the delta for a 16-bit word that changed from `old` to `new`.
    pub const fn for_word(old: u16, new: u16) -> Self {
        Self(add(!old, new))
    }

    /// Combines two deltas.
    pub const fn combine(self, other: Self) -> Self {
        Self(add(self.0, other.0))
    }

    /// Returns the delta for bytes at an even offset that changed from `old` to `new`. The shorter slice is
    /// zero-padded.
    pub fn for_bytes(old: &[u8], new: &[u8]) -> Self {
        Self(add(!sum(old), sum(new)))
    }

    /// Adjusts the delta for a buffer that starts `offset` bytes into the covered data. At an odd offset, which can
    /// occur with TCP options, each byte falls into the other half of its 16-bit word.
    pub const fn at_offset(self, offset: usize) -> Self {
        if offset.is_multiple_of(2) { self } else { Self(self.0.swap_bytes()) }
    }

    /// Returns whether the delta leaves the checksum unchanged.
    pub const fn is_none(self) -> bool {
        self.0.is_multiple_of(0xffff)
    }

    /// Returns the updated IPv4, TCP or ICMP checksum, given the old checksum `check`.
    ///
    /// The result is correct unless all covered bytes are zero, which never happens with real headers.
    pub const fn apply(self, check: u16) -> u16 {
        !add(!check, self.0)
    }

    /// Returns the updated UDP checksum. Zero means "no checksum" and stays zero. A computed checksum of zero becomes
    /// `0xffff`.
    pub const fn apply_udp(self, check: u16) -> u16 {
        if check == 0 {
            return 0;
        }
        match self.apply(check) {
            0 => 0xffff,
            updated => updated,
        }
    }
}

/// Computes the Internet checksum of `bytes`. If the length is odd, the last byte is padded with a zero byte.
pub fn internet(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Computes the UDP checksum of `bytes`. Unlike [`internet`], this function returns `0xffff` instead of zero, because
/// zero means "no checksum" in UDP.
pub fn internet_udp(bytes: &[u8]) -> u16 {
    match internet(bytes) {
        0 => 0xffff,
        check => check,
    }
}

/// Adds two words in ones' complement arithmetic, with end-around carry.
const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // Adding the carry cannot overflow, because a sum that carries is at most 0xfffe.
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
    fn checksums_match_the_rfc_examples() {
        // RFC 1071 section 3.
        assert_eq!(internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(internet(&[]), 0xffff);
        assert_eq!(internet(&[0x12]), !0x1200);
        // RFC 1624 section 4: an example in which equation 2 gives the wrong result.
        assert_eq!(Delta::for_word(0x5555, 0x3285).apply(0xdd2f), 0x0000);
    }

    #[test]
    fn udp_keeps_a_zero_checksum_and_never_produces_one() {
        assert_eq!(Delta::for_word(1, 2).apply_udp(0), 0);
        assert_eq!(Delta::for_word(0x5555, 0x3285).apply_udp(0xdd2f), 0xffff);
        assert_eq!(internet_udp(&[0xff, 0xff]), 0xffff);
    }

    #[test]
    fn both_zeros_mean_no_change() {
        assert!(Delta::for_word(7, 7).is_none() && Delta::NONE.is_none());
        assert_eq!(Delta::for_word(7, 7), Delta::NONE);
        assert_ne!(Delta::for_word(7, 8), Delta::NONE);
        assert_eq!(Delta::for_word(7, 7).apply(0x1234), 0x1234);
    }
}
