//! Variable additive increase (VAI): tokens earned while queues are long are spent as a larger additive increase.
//!
//! A queue longer than one minimum bandwidth-delay product means that a flow has joined, and a flow that has just
//! joined means that rates are unfair; so the additive increase, which is what makes rates fair, rises for a while.
//! A dampener keeps the larger increase from feeding on the queue that it causes itself.
//!
//! Source   Snyder and Lebeck, "Fast convergence to fairness", algorithms 1 and 2
//! Differs  Alg. 2 line 1 (`tokens = 1`) is a dead store and is left out: line 7's maximum is what guarantees the
//!          base increase. Alg. 1 tests the same condition twice; once is enough. The bank is charged the undamped
//!          tokens, and the divisor is real-valued, as printed.

/// The constants of the mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VariableAiParams {
    /// Congestion that earns one token (`AI_DIV`), in the law's unit of congestion.
    pub per_token: f64,
    /// Most tokens in the bank (`Bank_Cap`).
    pub bank_cap: f64,
    /// Most tokens spent in one update (`AI_Cap`).
    pub spend_cap: f64,
    /// How much dampening halves the increase (`Dampener_Constant`).
    pub dampener_constant: f64,
}

impl VariableAiParams {
    /// The constants of the evaluation (section VI-A): a bank of 1000, 100 tokens per update, dampener constant 8.
    pub const fn published(per_token: f64) -> Self {
        Self { per_token, bank_cap: 1_000.0, spend_cap: 100.0, dampener_constant: 8.0 }
    }
}

/// The bank of one flow. A new flow has no tokens and no dampening.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct VariableAi {
    bank: f64,
    dampener: f64,
    worst: f64,
    congested: bool,
}

impl VariableAi {
    /// One sample of congestion: queue depth in bytes (HPCC) or RTT in nanoseconds (Swift), and whether the law
    /// calls it congestion at all.
    #[inline]
    pub fn observe(&mut self, measure: f64, congested: bool) {
        if measure > self.worst {
            self.worst = measure;
        }
        self.congested |= congested;
    }

    /// A round trip has ended (Alg. 1). `threshold` is the measure above which a flow must have joined; tokens are
    /// earned for `worst - zero`, because an RTT is never zero while a queue may be.
    pub fn end_round(&mut self, threshold: f64, zero: f64, params: &VariableAiParams) {
        if self.worst > threshold {
            let earned = (self.worst - zero) / params.per_token;
            self.bank = (self.bank + earned).min(params.bank_cap);
            self.dampener += self.worst / threshold;
        } else if self.bank == 0.0 {
            self.dampener = if self.congested { (self.dampener - 1.0).max(0.0) } else { 0.0 };
        }
        self.worst = 0.0;
        self.congested = false;
    }

    /// How many times the base increase this update may add (Alg. 2): at least one. Tokens are only charged by an
    /// update that moves the reference rate.
    pub fn spend(&mut self, moves_reference: bool, params: &VariableAiParams) -> f64 {
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

    /// HPCC's constants in section V-A: 1 KB of queue per token, threshold 50 KB.
    const HPCC: VariableAiParams = VariableAiParams::published(1_000.0);

    #[test]
    fn a_long_queue_earns_tokens_and_they_are_spent_a_hundred_at_a_time() {
        let mut vai = VariableAi::default();
        assert_eq!(vai.spend(true, &HPCC), 1.0);
        vai.observe(150_000.0, true);
        vai.end_round(50_000.0, 0.0, &HPCC);
        // 150 tokens, dampener 3: 100 / (3/8 + 1).
        assert_eq!(vai.spend(false, &HPCC), 100.0 / 1.375);
        assert_eq!(vai.spend(true, &HPCC), 100.0 / 1.375);
        assert_eq!(vai.spend(true, &HPCC), 50.0 / 1.375);
        assert_eq!(vai.spend(true, &HPCC), 1.0);
    }

    #[test]
    fn the_dampener_only_falls_once_the_bank_is_empty() {
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
        assert_eq!(vai.dampener, 1.0, "some congestion: one step down");
        vai.end_round(50_000.0, 0.0, &HPCC);
        assert_eq!(vai.dampener, 0.0, "no congestion: back to zero");
    }

    #[test]
    fn the_bank_has_a_cap() {
        let mut vai = VariableAi::default();
        vai.observe(1e9, true);
        vai.end_round(50_000.0, 0.0, &HPCC);
        assert_eq!(vai.bank, 1_000.0);
    }
}
