//! Slow start and congestion avoidance: the growth that DCTCP, CUBIC and reTCP start from (RFC 5681).

use super::float::bounded;

/// A window in packets with a slow-start threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reno {
    /// The window, packets.
    pub window: f64,
    /// Below this the window doubles per round trip, packets.
    pub threshold: f64,
}

impl Reno {
    /// A flow in slow start.
    pub const fn new(initial: f64) -> Self {
        Self { window: initial, threshold: f64::INFINITY }
    }

    /// Whether the window is still doubling per round trip.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Slow start: one packet per packet acknowledged, up to the threshold. Gives back the packets it did not use.
    #[inline]
    pub fn slow_start(&mut self, acked: f64) -> f64 {
        if !self.in_slow_start() {
            return acked;
        }
        let grown = self.window + acked;
        self.window = if grown < self.threshold { grown } else { self.threshold };
        grown - self.window
    }

    /// Congestion avoidance: `per_round` packets per round trip.
    #[inline]
    pub fn avoid_congestion(&mut self, acked: f64, per_round: f64) {
        self.window += per_round * acked / self.window;
    }

    /// Both, as Reno does.
    #[inline]
    pub fn grow(&mut self, acked: f64) {
        let rest = self.slow_start(acked);
        if rest > 0.0 {
            self.avoid_congestion(rest, 1.0);
        }
    }

    /// Multiplies the window and leaves slow start.
    #[inline]
    pub fn cut(&mut self, factor: f64, floor: f64) {
        self.window = bounded(self.window * factor, floor, f64::INFINITY);
        self.threshold = self.window;
    }

    /// A timeout: the smallest window, and slow start up to `factor` of the old one.
    #[inline]
    pub fn restart(&mut self, factor: f64, floor: f64) {
        self.threshold = bounded(self.window * factor, 2.0, f64::INFINITY);
        self.window = floor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_until_the_threshold_and_then_adds_one_per_round() {
        let mut reno = Reno { window: 10.0, threshold: 20.0 };
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
