//! Bit rates, and conversions between bytes, rate and time.

use crate::quantity::quantity;
use crate::text::Units;
use crate::{Bytes, Nanos, Picos};

const RATE: Units = Units {
    quantity: "rate",
    accepted: "bps, kbps, Mbps, Gbps, Tbps",
    table: &[
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
    ],
    aliases: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ],
    ambiguous: &[
        ("GBps", "GBps is bytes per second: a rate is in bits per second, write Gbps"),
        ("MBps", "MBps is bytes per second: a rate is in bits per second, write Mbps"),
    ],
};

quantity! {
    /// A rate in bits per second.
    BitRate, &RATE
}

/// The number of picoseconds in a second.
const PS_PER_S: u128 = 1_000_000_000_000;

impl BitRate {
    /// Creates a rate from bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Creates a rate from megabits per second, saturating on overflow.
    #[inline]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }

    /// Creates a rate from gigabits per second, saturating on overflow.
    #[inline]
    pub const fn from_gbps(gbps: u64) -> Self {
        Self(gbps.saturating_mul(1_000_000_000))
    }

    /// Returns the serialisation time of `size` at this rate. The result is rounded up to a picosecond, so a link never
    /// exceeds its rate. The result is exact for every size at the usual Ethernet rates, and [`Picos::MAX`] at a rate
    /// of zero.
    #[inline]
    pub fn send_time_ceil(self, size: Bytes) -> Picos {
        if self.0 == 0 {
            return Picos::MAX;
        }
        let bits_ps = u128::from(size.get()) * 8 * PS_PER_S;
        Picos::new(u64::try_from(bits_ps.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// Returns the bandwidth-delay product: the bytes sent in `time` at this rate, rounded down.
    #[inline]
    pub fn bytes_in_floor(self, time: Nanos) -> Bytes {
        let bit_ns = u128::from(self.0) * u128::from(time.get());
        Bytes::new(u64::try_from(bit_ns / 8_000_000_000).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn serialisation_times_of_the_papers_are_exact() {
        let table = [
            (200, 4_096, 163_840),
            (200, 64, 2_560),
            (100, 1_000, 80_000),
            (25, 1_000, 320_000),
            (10, 1_500, 1_200_000),
            (400, 1, 20),
        ];
        for (gbps, bytes, picos) in table {
            let time = BitRate::from_gbps(gbps).send_time_ceil(Bytes::new(bytes));
            assert_eq!(time, Picos::new(picos), "{bytes} B at {gbps} Gbps");
        }
        assert_eq!(BitRate::ZERO.send_time_ceil(Bytes::new(1)), Picos::MAX);
    }

    #[test]
    fn bandwidth_delay_product_matches_powertcp() {
        // PowerTCP section 4.1: 25 Gbps over 28 us.
        assert_eq!(BitRate::from_gbps(25).bytes_in_floor(Nanos::from_micros(28)), Bytes::new(87_500));
    }

    proptest! {
        #[test]
        fn serialisation_never_exceeds_the_rate(bps in 1u64.., bytes in 0u64..1 << 40) {
            let rate = BitRate::from_bps(bps);
            let time = rate.send_time_ceil(Bytes::new(bytes));
            prop_assume!(time < Picos::MAX);
            prop_assert!(u128::from(time.get()) * u128::from(bps) >= u128::from(bytes) * 8 * PS_PER_S);
        }
    }
}
