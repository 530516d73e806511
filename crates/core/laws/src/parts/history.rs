//! The window one round trip ago, in constant space.
//!
//! PowerTCP's update multiplies the window that was in force when the acknowledged packet was sent (`cwnd_old`,
//! Alg. 1 line 3). Keeping one window per packet would cost a table per flow; the paper keeps one snapshot per
//! round trip, and so does this.

use super::gate::SeqGate;

/// A snapshot of the window, renewed once per round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowHistory {
    snapshot: f64,
    round: SeqGate,
}

impl WindowHistory {
    /// The first snapshot is the initial window.
    pub fn new(window: f64) -> Self {
        Self { snapshot: window, round: SeqGate::default() }
    }

    /// The window about one round trip ago.
    #[inline]
    pub const fn old(&self) -> f64 {
        self.snapshot
    }

    /// Whether this ACK ends a round trip: then the window it leaves behind is to be kept.
    #[inline]
    pub const fn round_ends(&mut self, acked_seq: u64, next_seq: u64) -> bool {
        self.round.passes(acked_seq, next_seq)
    }

    /// Keeps `window` as the snapshot.
    #[inline]
    pub const fn keep(&mut self, window: f64) {
        self.snapshot = window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_lags_one_round_trip() {
        let mut history = WindowHistory::new(10.0);
        assert!(!history.round_ends(1_000, 10_000));
        assert!(!history.round_ends(9_000, 18_000));
        assert_eq!(history.old(), 10.0);
        assert!(history.round_ends(10_001, 20_000));
        history.keep(13.0);
        assert_eq!(history.old(), 13.0);
    }
}
