//! Sampling frequency (SF): a decrease takes effect once per fixed number of ACKs instead of once per round trip.
//!
//! A faster flow receives more ACKs, so it decreases more often and rates become fair sooner. Increases remain limited
//! to once per round trip; otherwise the faster flow would also increase more often.
//!
//! Source   Snyder and Lebeck, "Fast convergence to fairness", section IV-B

/// Counts the ACKs since the last reference window update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Sampling {
    acks: u32,
}

impl Sampling {
    /// Counts an ACK and returns whether a decrease may update the reference window now.
    ///
    /// An `interval` of zero disables the mechanism, and the law's once-per-round-trip rule applies instead.
    #[inline]
    pub(crate) fn on_ack(&mut self, interval: u32) -> bool {
        self.acks = self.acks.saturating_add(1);
        interval != 0 && self.acks >= interval
    }

    /// Restarts the count after a reference window update.
    #[inline]
    pub(crate) const fn reset(&mut self) {
        self.acks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decrease_is_due_thirty_acks_after_an_update() {
        let mut sampling = Sampling::default();
        for ack in 1..=29 {
            assert!(!sampling.on_ack(30), "ack {ack}");
        }
        assert!(sampling.on_ack(30));
        assert!(sampling.on_ack(30), "a decrease stays due until the reference is updated");
        sampling.reset();
        assert!(!sampling.on_ack(30));
    }

    #[test]
    fn a_zero_interval_is_never_due() {
        let mut sampling = Sampling { acks: u32::MAX };
        assert!(!sampling.on_ack(0));
    }
}
