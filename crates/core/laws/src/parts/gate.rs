//! Once per round trip: by time, as Swift and Poseidon count it, or by sequence, as HPCC and DCTCP do.

use poseidon_types::Nanos;

/// When the window was last cut.
///
/// Differences wrap, so a clock that wraps or steps back opens the gate instead of closing it for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeGate {
    last: u64,
}

impl TimeGate {
    /// A new flow has never cut its window, so it may at once. The one instant that this value takes away from
    /// the clock is 584 years after its start.
    pub const NEVER: Self = Self { last: u64::MAX };

    /// Time since the last cut; [`Nanos::MAX`] where there was none.
    #[inline]
    pub const fn since(self, now: Nanos) -> Nanos {
        if self.last == u64::MAX { Nanos::MAX } else { Nanos::new(now.get().wrapping_sub(self.last)) }
    }

    /// When the window was last cut, on the host's clock; all ones where it never was.
    pub const fn last(self) -> u64 {
        self.last
    }

    /// The window was cut now.
    #[inline]
    pub const fn close(&mut self, now: Nanos) {
        self.last = now.get();
    }
}

/// The end of the present round trip, as a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SeqGate {
    end: u64,
    started: bool,
}

impl SeqGate {
    /// Whether this ACK ends a round trip: it acknowledges beyond what had been sent when the round trip began.
    /// If so, the next one begins. The first ACK only begins one.
    #[inline]
    pub const fn passes(&mut self, acked_seq: u64, next_seq: u64) -> bool {
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

/// Whether sequence number `a` is after `b`, on a counter that wraps.
#[inline]
pub const fn is_after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_flow_may_cut_at_once_and_then_once_per_round_trip() {
        let mut gate = TimeGate::NEVER;
        assert_eq!(gate.since(Nanos::ZERO), Nanos::MAX);
        gate.close(Nanos::new(100));
        assert_eq!(gate.since(Nanos::new(150)), Nanos::new(50));
        // The clock wrapped: the gate measures across the wrap.
        gate.close(Nanos::new(u64::MAX - 10));
        assert_eq!(gate.since(Nanos::new(9)), Nanos::new(20));
    }

    #[test]
    fn a_round_trip_ends_when_its_last_byte_is_passed() {
        let mut gate = SeqGate::default();
        assert!(!gate.passes(1_000, 5_000));
        assert!(!gate.passes(5_000, 9_000));
        assert!(gate.passes(6_000, 10_000));
        assert!(!gate.passes(10_000, 14_000));
        assert!(gate.passes(10_001, 15_000));
    }

    #[test]
    fn sequence_numbers_compare_across_the_wrap() {
        assert!(is_after(3, u64::MAX - 3));
        assert!(!is_after(u64::MAX - 3, 3));
        assert!(!is_after(7, 7));
    }
}
