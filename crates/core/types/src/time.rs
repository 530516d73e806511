//! Time in picoseconds for the simulator, and in nanoseconds for control laws.
//!
//! [`Picos`] is the resolution of the simulator's clock. A 64-byte ACK takes 2.56 ns at 200 Gbps, so a clock in whole
//! nanoseconds would round its serialisation time. A `u64` of picoseconds overflows after 213 days.
//!
//! [`Nanos`] is the resolution of host clocks: timestamps, round-trip times and hop delays. A law sees the same integer
//! values in the simulator, in QUIC and in the kernel.
//!
//! Both types represent instants (since the start of the run) and durations.

use crate::quantity::quantity;
use crate::text::Units;

const TIME_PS: Units = Units {
    quantity: "time",
    accepted: "ps, ns, us, ms, s",
    table: &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
    aliases: &[("µs", 1_000_000), ("μs", 1_000_000)],
    ambiguous: &[],
};

const TIME_NS: Units = Units {
    quantity: "time",
    accepted: "ns, us, ms, s",
    table: &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)],
    aliases: &[("µs", 1_000), ("μs", 1_000)],
    ambiguous: &[],
};

quantity! {
    /// Time in picoseconds, the resolution of the simulator's clock.
    Picos, &TIME_PS
}

quantity! {
    /// Time in nanoseconds, the resolution of host clocks and control laws.
    Nanos, &TIME_NS
}

impl Picos {
    /// Creates a time from picoseconds.
    #[inline]
    pub const fn new(ps: u64) -> Self {
        Self(ps)
    }

    /// Converts nanoseconds to picoseconds, saturating above 213 days.
    #[inline]
    pub const fn from_nanos(time: Nanos) -> Self {
        Self(time.0.saturating_mul(1_000))
    }

    /// Converts to nanoseconds, rounding down like a nanosecond clock.
    #[inline]
    pub const fn to_nanos_floor(self) -> Nanos {
        Nanos(self.0 / 1_000)
    }
}

impl Nanos {
    /// Creates a time from nanoseconds.
    #[inline]
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// Creates a time from microseconds, saturating on overflow.
    #[inline]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Creates a time from milliseconds, saturating on overflow.
    #[inline]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn conversion_to_nanoseconds_rounds_down() {
        assert_eq!(Picos::new(2_560).to_nanos_floor(), Nanos::new(2));
        assert_eq!(Picos::from_nanos(Nanos::new(3)), Picos::new(3_000));
        assert_eq!(Picos::from_nanos(Nanos::MAX), Picos::MAX);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Nanos::new(3) - Nanos::new(5), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos::new(1), Nanos::MAX);
        assert_eq!(Nanos::new(3).checked_sub(Nanos::new(5)), None);
    }

    #[test]
    fn prints_the_largest_unit_exactly() {
        assert_eq!(Nanos::new(600).to_string(), "600 ns");
        assert_eq!(Nanos::new(1_500).to_string(), "1.5 us");
        assert_eq!(Picos::new(163_840).to_string(), "163.84 ns");
        assert_eq!(Nanos::ZERO.to_string(), "0 ns");
        assert_eq!(Nanos::from_millis(60).to_string(), "60 ms");
    }
}
