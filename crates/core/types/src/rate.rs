//! How fast: bits per second, and what it does to bytes and time.

use crate::quantity::quantity;
use crate::text::Units;
use crate::{Bytes, Nanos, Picos};

const RATE: Units = Units {
    what: "rate",
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
    traps: &[
        ("GBps", "GBps is bytes per second: a rate is in bits per second, write Gbps"),
        ("MBps", "MBps is bytes per second: a rate is in bits per second, write Mbps"),
    ],
};

quantity! {
    /// Bits per second.
    BitRate, &RATE
}

/// Picoseconds in a second.
const PS_PER_S: u128 = 1_000_000_000_000;

impl BitRate {
    /// So many bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// So many megabits per second; saturates.
    #[inline]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }

    /// So many gigabits per second; saturates.
    #[inline]
    pub const fn from_gbps(gbps: u64) -> Self {
        Self(gbps.saturating_mul(1_000_000_000))
    }

    /// Time to put `size` on a wire of this rate, rounded up to a picosecond so that a wire is never faster
    /// than its rate. Exact for every size at the usual Ethernet rates. A rate of zero takes for ever
    /// ([`Picos::MAX`]).
    #[inline]
    pub fn send_time_ceil(self, size: Bytes) -> Picos {
        if self.0 == 0 {
            return Picos::MAX;
        }
        let bits_ps = u128::from(size.get()) * 8 * PS_PER_S;
        Picos::new(u64::try_from(bits_ps.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// Bytes that fit into `time` at this rate, rounded down: the bandwidth-delay product.
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
    fn bandwidth_delay_products_of_the_papers() {
        // PowerTCP section 4.1: 25 Gbps over 28 us.
        assert_eq!(BitRate::from_gbps(25).bytes_in_floor(Nanos::from_micros(28)), Bytes::new(87_500));
    }

    proptest! {
        #[test]
        fn a_wire_is_never_faster_than_its_rate(bps in 1u64.., bytes in 0u64..1 << 40) {
            let rate = BitRate::from_bps(bps);
            let time = rate.send_time_ceil(Bytes::new(bytes));
            prop_assume!(time < Picos::MAX);
            prop_assert!(u128::from(time.get()) * u128::from(bps) >= u128::from(bytes) * 8 * PS_PER_S);
        }
    }
}
