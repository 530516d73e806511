//! Sampling frequency (SF): a decrease may take effect every so many ACKs instead of once per round trip.
//!
//! A faster flow receives more ACKs, so it decreases more often: that is what makes rates fair sooner. Increases
//! stay at once per round trip, or the faster flow would also increase more often.
//!
//! Source   Snyder and Lebeck, "Fast convergence to fairness", section IV-B

/// ACKs since the reference rate last moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sampling {
    acks: u32,
}

impl Sampling {
    /// One more ACK; whether a decrease may move the reference now. `every` of zero switches the mechanism off:
    /// never due, and the law's own once-per-round-trip rule decides.
    #[inline]
    pub fn due(&mut self, every: u32) -> bool {
        self.acks = self.acks.saturating_add(1);
        every != 0 && self.acks >= every
    }

    /// The reference has moved: count anew.
    #[inline]
    pub const fn moved(&mut self) {
        self.acks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_every_thirty_acks_after_a_move() {
        let mut sampling = Sampling::default();
        for ack in 1..=29 {
            assert!(!sampling.due(30), "ack {ack}");
        }
        assert!(sampling.due(30));
        assert!(sampling.due(30), "stays due until the reference moves");
        sampling.moved();
        assert!(!sampling.due(30));
    }

    #[test]
    fn off_is_never_due() {
        let mut sampling = Sampling { acks: u32::MAX };
        assert!(!sampling.due(0));
    }
}
