//! Proportional rate reduction (RFC 9937): a cut takes effect over one round trip instead of at once.
//!
//! After an immediate cut, the sender pauses until the packets in flight fit into the new window. The pause then recurs
//! every round trip because ACKs clock the sender. Linux spreads every cut made by a loss-based law. RFC 9937 also
//! limits the pipe after heavy losses, which is unnecessary with a window.

/// The progress of a proportional cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProportionalCut {
    /// The window before the cut in packets; zero if no cut is in progress.
    prior_window: f64,
    /// The number of packets acknowledged since the cut.
    delivered: f64,
}

impl ProportionalCut {
    /// No cut is in progress.
    pub(crate) const INACTIVE: Self = Self { prior_window: 0.0, delivered: 0.0 };

    /// Starts a cut.
    pub(crate) const fn start(prior_window: f64) -> Self {
        Self { prior_window, delivered: 0.0 }
    }

    /// Counts acknowledged packets and returns whether the cut is still in progress.
    #[inline]
    pub(crate) fn on_ack(&mut self, packets: f64) -> bool {
        self.delivered += packets;
        let is_active = self.delivered < self.prior_window;
        if !is_active {
            *self = Self::INACTIVE;
        }
        is_active
    }

    /// Returns the current window of a cut that ends at `target`.
    #[inline]
    pub(crate) fn window(&self, target: f64) -> f64 {
        if self.prior_window <= target {
            target
        } else {
            self.prior_window - (self.prior_window - target) * self.delivered / self.prior_window
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_falls_linearly_over_one_window_of_packets() {
        let mut cut = ProportionalCut::start(100.0);
        assert_eq!(cut.window(70.0), 100.0);
        assert!(cut.on_ack(50.0));
        assert_eq!(cut.window(70.0), 85.0);
        assert!(cut.on_ack(49.0));
        assert!(!cut.on_ack(1.0));
        assert_eq!(cut.window(70.0), 70.0);
    }

    #[test]
    fn without_a_cut_the_window_is_the_target() {
        assert_eq!(ProportionalCut::INACTIVE.window(3.0), 3.0);
    }
}
