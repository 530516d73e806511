//! The Poseidon paper's header: a 16-bit maximum hop delay.
//!
//! ```text
//!  bytes 0-1
//! +---------------------------+
//! | max_hop_delay, big-endian |
//! +---------------------------+
//! ```
//!
//! The header has no hop count. A value of zero is ambiguous: either all queues are empty, or no hop supports
//! telemetry. The caller must know which applies.
//!
//! Source: Poseidon (NSDI'23) listing 1, `q = (bit<16>)(deq_timedelta >> 8); mhd = max(mhd, q)`.
//! Difference: [`Packet::update`] saturates. The paper's cast truncates, so delays of 16.777 ms or more wrap to small
//! values. [`Packet::update_truncating`] reproduces the paper's behaviour.

use crate::bytes::{load, low16, store};
use crate::checksum::Delta;
use crate::error::{Result, check_len};
use crate::quantiser::{DelayQuantiser, HopCount, LinearScale, Scale};
use poseidon_types::{MaxHopDelay, Nanos};
use zerocopy::big_endian::U16;

/// The header size in bytes.
pub const HEADER_BYTES: usize = 2;
/// The delay scale: 16-bit codes in steps of 256 ns, saturating.
pub const SCALE: LinearScale = LinearScale::new(8, 16);

/// Returns the quantiser for a path with `hops` telemetry-capable hops.
pub const fn quantiser(hops: u8) -> DelayQuantiser<LinearScale> {
    DelayQuantiser { scale: SCALE, hops: HopCount::Assumed(hops) }
}

/// A view of a buffer that starts with the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails if the buffer is shorter than two bytes.
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    /// Returns the delay code.
    pub fn max_hop_delay(&self) -> u16 {
        load::<U16>(self.buffer.as_ref(), 0).get()
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Updates the header at a switch that measured `delay`.
    pub fn update(&mut self, delay: Nanos, scale: &LinearScale) -> Delta {
        self.raise_to(scale.encode_delay_u16(delay))
    }

    /// Updates the header exactly as listing 1 does: the cast keeps only the low 16 bits of the code.
    pub fn update_truncating(&mut self, delay: Nanos) -> Delta {
        self.raise_to(low16(delay.get() >> 8))
    }

    fn raise_to(&mut self, code: u16) -> Delta {
        let new = self.max_hop_delay().max(code);
        store(self.buffer.as_mut(), 0, &U16::new(new))
    }
}

/// The parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The delay code.
    pub max_hop_delay: u16,
}

impl Repr {
    /// Parses the header. Every 16-bit value is valid.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self { max_hop_delay: Packet::new_checked(bytes)?.max_hop_delay() })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the header to the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, self.buffer_len())?;
        // The sender computes the checksum later, so the delta is not needed.
        let _ = store(buffer, 0, &U16::new(self.max_hop_delay));
        Ok(())
    }

    /// Returns the telemetry for a path with `assumed_hops` telemetry-capable hops.
    pub fn telemetry(&self, scale: &LinearScale, assumed_hops: u8) -> MaxHopDelay {
        scale.in_16_bits().decode_uncounted(u32::from(self.max_hop_delay), assumed_hops)
    }

    /// Creates the header for `signal`. The header does not store the hop count.
    pub fn from_telemetry(signal: MaxHopDelay, scale: &LinearScale) -> Self {
        let code = signal.delay().map_or(0, |delay| scale.encode_delay_u16(delay));
        Self { max_hop_delay: code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn updated_code(start: u16, delay_ns: u64) -> u16 {
        let mut packet = Packet::new_checked(start.to_be_bytes()).expect("the buffer is large enough");
        let _ = packet.update(Nanos::new(delay_ns), &SCALE);
        packet.max_hop_delay()
    }

    #[test]
    fn update_matches_listing_1() {
        // These values come from a P4 implementation of listing 1.
        assert_eq!(updated_code(0, 25_600), 100);
        assert_eq!(updated_code(500, 25_600), 500);
        assert_eq!(updated_code(7, 16_777_216), 0xffff);
    }

    #[test]
    fn update_truncating_wraps_like_the_paper() {
        let mut packet = Packet::new_checked([0, 7]).expect("the buffer is large enough");
        assert!(packet.update_truncating(Nanos::new(16_777_216)).is_none());
        assert_eq!(packet.max_hop_delay(), 7);
        let _ = packet.update_truncating(Nanos::new(25_600));
        assert_eq!(packet.into_inner(), [0, 100]);
    }

    #[test]
    fn meaning_of_zero_depends_on_the_assumed_hops() {
        let zero = Repr::parse(&[0, 0]).expect("the header is valid");
        assert_eq!(zero.telemetry(&SCALE, 0).delay(), None);
        assert_eq!(zero.telemetry(&SCALE, 3).delay(), Some(Nanos::ZERO));
        let nonzero = Repr::parse(&[0, 100]).expect("the header is valid");
        assert_eq!(nonzero.telemetry(&SCALE, 0).delay(), Some(Nanos::new(25_600)));
        assert_eq!(Repr::from_telemetry(nonzero.telemetry(&SCALE, 3), &SCALE), nonzero);
    }

    #[test]
    fn short_buffers_are_rejected() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 2, have };
            assert_eq!(Repr::parse(&[0; 2][..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 2][..have]), Err(short));
        }
    }
}
