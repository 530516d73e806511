//! The paper's own signal: sixteen bits of largest hop delay and nothing else.
//!
//! ```text
//!  bytes 0-1
//! +---------------------------+
//! | max_hop_delay, big-endian |
//! +---------------------------+
//! ```
//!
//! Nothing says how many hops measured, so zero may be an empty queue or nobody: the caller must know the path.
//!
//! Source: Poseidon (NSDI'23) listing 1, `q = (bit<16>)(deq_timedelta >> 8); mhd = max(mhd, q)`.
//! Differs: [`Packet::update`] saturates. The paper's cast truncates, so a hop of 16.777 ms or more looks short;
//! [`Packet::update_truncating`] does that, for comparison.

use crate::bytes::{load, low16, store};
use crate::checksum::Delta;
use crate::error::{Result, demand};
use crate::quantiser::{DelayQuantiser, HopCount, Scale, Steps};
use poseidon_types::{MaxHopDelay, Nanos};
use zerocopy::big_endian::U16;

/// Bytes on the wire.
pub const HEADER_BYTES: usize = 2;
/// The delay code: 256 ns, 16 bits, saturating.
pub const SCALE: Steps = Steps::new(8, 16);

/// What the format does to a delay on a path where `hops` are known to measure.
pub const fn quantiser(hops: u8) -> DelayQuantiser<Steps> {
    DelayQuantiser { scale: SCALE, hops: HopCount::Assumed(hops) }
}

/// A view over the bytes that begin with the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds two bytes.
    pub fn new_checked(buffer: T) -> Result<Self> {
        demand(buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    /// The delay code.
    pub fn max_hop_delay(&self) -> u16 {
        load::<U16>(self.buffer.as_ref(), 0).get()
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a switch does: one more hop has measured `delay`.
    pub fn update(&mut self, delay: Nanos, scale: &Steps) -> Delta {
        self.raise_to(scale.code16(delay))
    }

    /// Listing 1 to the letter: 256 ns, and the cast keeps the low sixteen bits only.
    pub fn update_truncating(&mut self, delay: Nanos) -> Delta {
        self.raise_to(low16(delay.get() >> 8))
    }

    fn raise_to(&mut self, code: u16) -> Delta {
        let new = self.max_hop_delay().max(code);
        store(self.buffer.as_mut(), 0, &U16::new(new))
    }
}

/// What the two bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The delay code.
    pub max_hop_delay: u16,
}

impl Repr {
    /// Reads two bytes; any value is valid.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self { max_hop_delay: Packet::new_checked(bytes)?.max_hop_delay() })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the delay at the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, self.buffer_len())?;
        // Written by the sender before any checksum.
        let _ = store(buffer, 0, &U16::new(self.max_hop_delay));
        Ok(())
    }

    /// The meaning, on a path where `assumed_hops` are known to measure.
    pub fn telemetry(&self, scale: &Steps, assumed_hops: u8) -> MaxHopDelay {
        scale.in_16_bits().uncounted(u32::from(self.max_hop_delay), assumed_hops)
    }

    /// The bytes that say `signal`; its hop count is lost.
    pub fn from_telemetry(signal: MaxHopDelay, scale: &Steps) -> Self {
        let code = signal.delay().map_or(0, |delay| scale.code16(delay));
        Self { max_hop_delay: code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn after(start: u16, delay_ns: u64) -> u16 {
        let mut packet = Packet::new_checked(start.to_be_bytes()).expect("fits");
        let _ = packet.update(Nanos::new(delay_ns), &SCALE);
        packet.max_hop_delay()
    }

    #[test]
    fn the_listings_vectors() {
        // Values that a P4 rewrite of listing 1 gave.
        assert_eq!(after(0, 25_600), 100);
        assert_eq!(after(500, 25_600), 500);
        assert_eq!(after(7, 16_777_216), 0xffff);
    }

    #[test]
    fn the_paper_wraps_where_we_saturate() {
        let mut packet = Packet::new_checked([0, 7]).expect("fits");
        assert!(packet.update_truncating(Nanos::new(16_777_216)).is_none());
        assert_eq!(packet.max_hop_delay(), 7);
        let _ = packet.update_truncating(Nanos::new(25_600));
        assert_eq!(packet.into_inner(), [0, 100]);
    }

    #[test]
    fn zero_is_what_the_caller_knows_of_the_path() {
        let zero = Repr::parse(&[0, 0]).expect("parses");
        assert_eq!(zero.telemetry(&SCALE, 0).delay(), None);
        assert_eq!(zero.telemetry(&SCALE, 3).delay(), Some(Nanos::ZERO));
        let some = Repr::parse(&[0, 100]).expect("parses");
        assert_eq!(some.telemetry(&SCALE, 0).delay(), Some(Nanos::new(25_600)));
        assert_eq!(Repr::from_telemetry(some.telemetry(&SCALE, 3), &SCALE), some);
    }

    #[test]
    fn every_shorter_buffer_is_refused() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 2, have };
            assert_eq!(Repr::parse(&[0; 2][..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 2][..have]), Err(short));
        }
    }
}
