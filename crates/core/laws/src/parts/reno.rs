//! Reno's slow start and congestion avoidance (RFC 5681), the basis of DCTCP, CUBIC and reTCP.

use super::float::clamp;

/// A window in packets with a slow-start threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reno {
    /// The window in packets.
    pub(crate) window: f64,
    /// The slow-start threshold in packets. Below the threshold, the window doubles every round trip.
    pub(crate) ssthresh: f64,
}

impl Reno {
    /// Starts a flow in slow start.
    pub(crate) const fn new(initial: f64) -> Self {
        Self { window: initial, ssthresh: f64::INFINITY }
    }

    /// Returns whether the window is below the slow-start threshold.
    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    /// Grows the window by one packet per acknowledged packet, up to the threshold. Returns the number of acknowledged
    /// packets that remain once the threshold is reached.
    #[inline]
    pub(crate) fn slow_start(&mut self, acked: f64) -> f64 {
        if !self.in_slow_start() {
            return acked;
        }
        let grown = self.window + acked;
        self.window = if grown < self.ssthresh { grown } else { self.ssthresh };
        grown - self.window
    }

    /// Grows the window by `per_round` packets per round trip.
    #[inline]
    pub(crate) fn congestion_avoidance(&mut self, acked: f64, per_round: f64) {
        self.window += per_round * acked / self.window;
    }

    /// Grows the window by slow start, then by congestion avoidance.
    #[inline]
    pub(crate) fn grow(&mut self, acked: f64) {
        let remaining = self.slow_start(acked);
        if remaining > 0.0 {
            self.congestion_avoidance(remaining, 1.0);
        }
    }

    /// Multiplies the window by `factor` and leaves slow start.
    #[inline]
    pub(crate) fn cut(&mut self, factor: f64, floor: f64) {
        self.window = clamp(self.window * factor, floor, f64::INFINITY);
        self.ssthresh = self.window;
    }

    /// Reacts to a timeout: restarts from the smallest window, with slow start up to `factor` times the old window.
    #[inline]
    pub(crate) fn restart(&mut self, factor: f64, floor: f64) {
        self.ssthresh = clamp(self.window * factor, 2.0, f64::INFINITY);
        self.window = floor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_doubles_until_the_threshold_and_then_grows_by_one_per_round() {
        let mut reno = Reno { window: 10.0, ssthresh: 20.0 };
        reno.grow(10.0);
        assert_eq!(reno.window, 20.0);
        // One round of 20 ACKs of one packet each.
        for _ in 0..20 {
            reno.grow(1.0);
        }
        assert!((reno.window - 21.0).abs() < 0.05, "{}", reno.window);
        reno.cut(0.5, 2.0);
        assert!(!reno.in_slow_start());
        reno.restart(0.5, 1.0);
        assert!(reno.in_slow_start() && reno.window == 1.0);
    }
}
