//! The window one round trip ago, in constant space.
//!
//! PowerTCP's update uses the window at the time when the acknowledged packet was sent (`cwnd_old`, Alg. 1 line 3).
//! Storing one window per packet would need a table per flow. Like the paper, this module stores one window per round
//! trip.

use super::round_trip::RoundTrip;

/// A copy of the window, updated once per round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WindowHistory {
    previous: f64,
    round: RoundTrip,
}

impl WindowHistory {
    /// Starts with the initial window.
    pub(crate) fn new(window: f64) -> Self {
        Self { previous: window, round: RoundTrip::default() }
    }

    /// Returns the window from about one round trip ago.
    #[inline]
    pub(crate) const fn previous(&self) -> f64 {
        self.previous
    }

    /// Returns whether this ACK ends a round trip. If so, the caller stores the new window.
    #[inline]
    pub(crate) const fn ends_round(&mut self, acked_seq: u64, next_seq: u64) -> bool {
        self.round.ends_with(acked_seq, next_seq)
    }

    /// Stores the window for the next round trip.
    #[inline]
    pub(crate) const fn store(&mut self, window: f64) {
        self.previous = window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_window_lags_by_one_round_trip() {
        let mut history = WindowHistory::new(10.0);
        assert!(!history.ends_round(1_000, 10_000));
        assert!(!history.ends_round(9_000, 18_000));
        assert_eq!(history.previous(), 10.0);
        assert!(history.ends_round(10_001, 20_000));
        history.store(13.0);
        assert_eq!(history.previous(), 13.0);
    }
}
