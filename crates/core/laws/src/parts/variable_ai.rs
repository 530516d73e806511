//! Variable additive increase (VAI): a flow earns tokens while queues are long and spends them on a larger increase.
//!
//! A queue longer than the smallest bandwidth-delay product indicates that a new flow has joined and rates are unfair.
//! The additive increase makes rates fair, so it rises for a while. A dampener prevents feedback from the queue that
//! the larger increase itself causes.
//!
//! Source   Snyder and Lebeck, "Fast convergence to fairness", algorithms 1 and 2
//! Differs  Alg. 2 line 1 (`tokens = 1`) is a dead store and is omitted; the maximum in line 7 guarantees the base
//!          increase. Alg. 1 tests the same condition twice; this code tests it once. As printed in the paper, the bank
//!          is charged for the undamped tokens, and the divisor is a real number.

/// The VAI constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct VariableAiParams {
    /// The amount of congestion that earns one token (`AI_DIV`), in the law's congestion unit.
    pub(crate) per_token: f64,
    /// The maximum number of tokens in the bank (`Bank_Cap`).
    pub(crate) bank_cap: f64,
    /// The maximum number of tokens spent in one update (`AI_Cap`).
    pub(crate) spend_cap: f64,
    /// The dampener value that halves the increase (`Dampener_Constant`).
    pub(crate) dampener_constant: f64,
}

impl VariableAiParams {
    /// Returns the constants used in the evaluation (section VI-A).
    pub(crate) const fn published(per_token: f64) -> Self {
        Self { per_token, bank_cap: 1_000.0, spend_cap: 100.0, dampener_constant: 8.0 }
    }
}

/// One flow's token bank. A new flow has no tokens and no dampening.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct VariableAi {
    bank: f64,
    dampener: f64,
    /// The largest congestion in the current round trip.
    max_congestion: f64,
    congested: bool,
}

impl VariableAi {
    /// Records a congestion sample: the queue in bytes (HPCC) or the RTT in ns (Swift).
    ///
    /// `congested` is true if the law treats the sample as congestion.
    #[inline]
    pub(crate) fn observe(&mut self, congestion: f64, congested: bool) {
        if congestion > self.max_congestion {
            self.max_congestion = congestion;
        }
        self.congested |= congested;
    }

    /// Ends a round trip (Alg. 1).
    ///
    /// Congestion above `threshold` indicates that a flow has joined. Congestion above `baseline` earns tokens; the
    /// baseline is zero for a queue and the base RTT for an RTT.
    pub(crate) fn end_round(&mut self, threshold: f64, baseline: f64, params: &VariableAiParams) {
        if self.max_congestion > threshold {
            let earned = (self.max_congestion - baseline) / params.per_token;
            self.bank = (self.bank + earned).min(params.bank_cap);
            self.dampener += self.max_congestion / threshold;
        } else if self.bank == 0.0 {
            self.dampener = if self.congested { (self.dampener - 1.0).max(0.0) } else { 0.0 };
        }
        self.max_congestion = 0.0;
        self.congested = false;
    }

    /// Returns how many base increases this update may add: at least one (Alg. 2).
    ///
    /// Only an update that moves the reference window spends tokens.
    pub(crate) fn spend(&mut self, moves_reference: bool, params: &VariableAiParams) -> f64 {
        let tokens = self.bank.min(params.spend_cap);
        if moves_reference {
            self.bank -= tokens;
        }
        (tokens / (self.dampener / params.dampener_constant + 1.0)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants for HPCC (section V-A): 1 kB of queue per token.
    const HPCC: VariableAiParams = VariableAiParams::published(1_000.0);

    #[test]
    fn a_long_queue_earns_tokens_and_updates_spend_at_most_a_hundred() {
        let mut vai = VariableAi::default();
        assert_eq!(vai.spend(true, &HPCC), 1.0);
        vai.observe(150_000.0, true);
        vai.end_round(50_000.0, 0.0, &HPCC);
        // With 150 tokens and a dampener of 3, the increase is 100 / (3/8 + 1).
        assert_eq!(vai.spend(false, &HPCC), 100.0 / 1.375);
        assert_eq!(vai.spend(true, &HPCC), 100.0 / 1.375);
        assert_eq!(vai.spend(true, &HPCC), 50.0 / 1.375);
        assert_eq!(vai.spend(true, &HPCC), 1.0);
    }

    #[test]
    fn the_dampener_falls_only_when_the_bank_is_empty() {
        let mut vai = VariableAi::default();
        vai.observe(100_000.0, true);
        vai.end_round(50_000.0, 0.0, &HPCC);
        assert_eq!(vai.dampener, 2.0);
        vai.observe(10_000.0, true);
        vai.end_round(50_000.0, 0.0, &HPCC);
        assert_eq!(vai.dampener, 2.0, "tokens remain");
        vai.spend(true, &HPCC);
        vai.observe(10_000.0, true);
        vai.end_round(50_000.0, 0.0, &HPCC);
        assert_eq!(vai.dampener, 1.0, "with congestion, the dampener falls by one step");
        vai.end_round(50_000.0, 0.0, &HPCC);
        assert_eq!(vai.dampener, 0.0, "without congestion, the dampener falls to zero");
    }

    #[test]
    fn the_bank_is_capped() {
        let mut vai = VariableAi::default();
        vai.observe(1e9, true);
        vai.end_round(50_000.0, 0.0, &HPCC);
        assert_eq!(vai.bank, 1_000.0);
    }
}
