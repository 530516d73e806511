//! Limits actions to once per round trip: by time, as in Swift and Poseidon, or by sequence number, as in HPCC and
//! DCTCP.

use poseidon_types::Nanos;

/// The time of the last cut.
///
/// Differences wrap, so a clock that wraps or steps back never blocks cuts forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCut {
    time: u64,
}

impl LastCut {
    /// There has been no cut yet, so the flow may cut at once. This value is reserved; the clock reaches it after 584
    /// years.
    pub(crate) const NEVER: Self = Self { time: u64::MAX };

    /// Returns the time since the last cut, or [`Nanos::MAX`] if there was none.
    #[inline]
    pub(crate) const fn elapsed(self, now: Nanos) -> Nanos {
        if self.time == u64::MAX { Nanos::MAX } else { Nanos::new(now.get().wrapping_sub(self.time)) }
    }

    /// Returns the time of the last cut on the host's clock, or `u64::MAX` if there was none.
    pub(crate) const fn time(self) -> u64 {
        self.time
    }

    /// Records a cut.
    #[inline]
    pub(crate) const fn record(&mut self, now: Nanos) {
        self.time = now.get();
    }
}

/// Detects the end of a round trip by sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct RoundTrip {
    end: u64,
    started: bool,
}

impl RoundTrip {
    /// Returns whether this ACK ends a round trip and, if so, starts the next round trip.
    ///
    /// A round trip ends when an ACK covers data sent after the round trip began. The first ACK only starts a round
    /// trip.
    #[inline]
    pub(crate) const fn ends_with(&mut self, acked_seq: u64, next_seq: u64) -> bool {
        if !self.started {
            *self = Self { end: next_seq, started: true };
            return false;
        }
        let ended = is_after(acked_seq, self.end);
        if ended {
            self.end = next_seq;
        }
        ended
    }
}

/// Returns whether sequence number `a` is after `b` on a counter that wraps.
#[inline]
pub(crate) const fn is_after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_is_measured_across_a_clock_wrap() {
        let mut last_cut = LastCut::NEVER;
        assert_eq!(last_cut.elapsed(Nanos::ZERO), Nanos::MAX);
        last_cut.record(Nanos::new(100));
        assert_eq!(last_cut.elapsed(Nanos::new(150)), Nanos::new(50));
        last_cut.record(Nanos::new(u64::MAX - 10));
        assert_eq!(last_cut.elapsed(Nanos::new(9)), Nanos::new(20));
    }

    #[test]
    fn a_round_trip_ends_with_an_ack_beyond_its_last_byte() {
        let mut round = RoundTrip::default();
        assert!(!round.ends_with(1_000, 5_000));
        assert!(!round.ends_with(5_000, 9_000));
        assert!(round.ends_with(6_000, 10_000));
        assert!(!round.ends_with(10_000, 14_000));
        assert!(round.ends_with(10_001, 15_000));
    }

    #[test]
    fn sequence_numbers_compare_across_the_wrap() {
        assert!(is_after(3, u64::MAX - 3));
        assert!(!is_after(u64::MAX - 3, 3));
        assert!(!is_after(7, 7));
    }
}
