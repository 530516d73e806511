//! Two clocks, on purpose.
//!
//! [`Picos`] is the simulator's clock: 64 B at 200 Gbps take 2.56 ns, so whole nanoseconds would lose the
//! serialisation time of an ACK. A `u64` of picoseconds wraps after 213 days.
//!
//! [`Nanos`] is what a host can measure and therefore what a law sees: timestamps, round-trip times, hop delays.
//! A law takes the same integers in the simulator, in QUIC and in the kernel.
//!
//! Both types serve as instants (since the start of the run) and as durations.

use crate::quantity::quantity;
use crate::text::Units;

const TIME_PS: Units = Units {
    what: "time",
    accepted: "ps, ns, us, ms, s",
    table: &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
    aliases: &[("µs", 1_000_000), ("μs", 1_000_000)],
    traps: &[],
};

const TIME_NS: Units = Units {
    what: "time",
    accepted: "ns, us, ms, s",
    table: &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)],
    aliases: &[("µs", 1_000), ("μs", 1_000)],
    traps: &[],
};

quantity! {
    /// Time in integer picoseconds: the simulator's clock.
    Picos, &TIME_PS
}

quantity! {
    /// Time in integer nanoseconds: what a host measures and a law sees.
    Nanos, &TIME_NS
}

impl Picos {
    /// So many picoseconds.
    #[inline]
    pub const fn new(ps: u64) -> Self {
        Self(ps)
    }

    /// Exact below 213 days; saturates above.
    #[inline]
    pub const fn from_nanos(t: Nanos) -> Self {
        Self(t.0.saturating_mul(1_000))
    }

    /// Whole nanoseconds, rounded down: what a clock with nanosecond grain reads.
    #[inline]
    pub const fn to_nanos_floor(self) -> Nanos {
        Nanos(self.0 / 1_000)
    }
}

impl Nanos {
    /// So many nanoseconds.
    #[inline]
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// So many microseconds; saturates.
    #[inline]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// So many milliseconds; saturates.
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
    fn a_clock_reading_rounds_down() {
        assert_eq!(Picos::new(2_560).to_nanos_floor(), Nanos::new(2));
        assert_eq!(Picos::from_nanos(Nanos::new(3)), Picos::new(3_000));
        assert_eq!(Picos::from_nanos(Nanos::MAX), Picos::MAX);
    }

    #[test]
    fn subtraction_stops_at_zero() {
        assert_eq!(Nanos::new(3) - Nanos::new(5), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos::new(1), Nanos::MAX);
        assert_eq!(Nanos::new(3).checked_sub(Nanos::new(5)), None);
    }

    #[test]
    fn prints_the_largest_unit_that_stays_short_and_exact() {
        assert_eq!(Nanos::new(600).to_string(), "600 ns");
        assert_eq!(Nanos::new(1_500).to_string(), "1.5 us");
        assert_eq!(Picos::new(163_840).to_string(), "163.84 ns");
        assert_eq!(Nanos::ZERO.to_string(), "0 ns");
        assert_eq!(Nanos::from_millis(60).to_string(), "60 ms");
    }
}
