//! A fluid model of Sampling Frequency: a decrease every `s` ACKs compared with one decrease per RTT.
//!
//! ```text
//! every s ACKs   S' = -beta S^2 / (s MTU)   S(t) = C / (1 + beta C t / (s MTU))
//! once per RTT   R' = -beta R / r           R(t) = C exp(-beta t / r)
//! ```
//!
//! Why     A faster flow receives more ACKs, so with sampling it decreases more often than a slower flow
//! Claim   For rates C1 > C0, sampling initially reduces the gap faster if and only if
//!         1 / r < (C1 + C0) / (s MTU). Fig. 4 plots D = (R1 - R0) - (S1 - S0)
//! Source  Snyder, Lebeck: fairness with Variable AI and Sampling Frequency, section IV-B, fig. 4
//! Differs D > 0 (Eq. 2) does not hold for all times. S1 - S0 falls as 1 / t^2 but R1 - R0 falls exponentially, so D
//!         eventually becomes negative. With the values in fig. 4, this happens after 523 us, when both gaps are below
//!         0.02 % of the initial gap
//! Limits  The rates only decrease and the RTT is fixed, so the model covers only a short congested period

/// Two flows that only decrease their rates, with and without sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecreaseModel {
    /// The fraction of the rate that one decrease removes, `beta` in the paper.
    pub strength: f64,
    /// The number of ACKs between decreases with sampling, `s` in the paper.
    pub acks: f64,
    /// The number of bytes per ACK, `MTU` in the paper.
    pub packet_bytes: f64,
    /// The time between decreases without sampling in ns, `r` in the paper.
    pub rtt_ns: f64,
    /// The initial rates of the faster and the slower flow in bytes per ns, `C1` and `C0` in the paper.
    pub rates: [f64; 2],
}

impl DecreaseModel {
    /// The values in fig. 4: 100 and 50 Gbps, 30 us, 30 ACKs of 1000 bytes, a decrease by half.
    pub const FIG4: Self =
        Self { strength: 0.5, acks: 30.0, packet_bytes: 1_000.0, rtt_ns: 30_000.0, rates: [12.5, 6.25] };

    /// Returns both rates after `time_ns` with a decrease every `s` ACKs, `S_1` and `S_0` in the paper.
    pub fn sampled(&self, time_ns: f64) -> [f64; 2] {
        let per_byte = self.strength * time_ns / (self.acks * self.packet_bytes);
        self.rates.map(|rate| rate / (1.0 + rate * per_byte))
    }

    /// Returns both rates after `time_ns` with one decrease per RTT, `R_1` and `R_0` in the paper.
    pub fn per_rtt(&self, time_ns: f64) -> [f64; 2] {
        let remaining = (-self.strength * time_ns / self.rtt_ns).exp();
        self.rates.map(|rate| rate * remaining)
    }

    /// Returns the fairness advantage of sampling after `time_ns` in bytes per ns (fig. 4, Eq. 2).
    pub fn advantage(&self, time_ns: f64) -> f64 {
        let [r1, r0] = self.per_rtt(time_ns);
        let [s1, s0] = self.sampled(time_ns);
        (r1 - r0) - (s1 - s0)
    }

    /// Returns whether sampling is initially fairer, according to the paper's condition.
    pub fn is_initially_fairer(&self) -> bool {
        1.0 / self.rtt_ns < (self.rates[0] + self.rates[1]) / (self.acks * self.packet_bytes)
    }

    /// Returns the curve in fig. 4: `points` pairs of time in ns and advantage in bytes per ns.
    pub fn curve(&self, interval_ns: f64, points: usize) -> Vec<(f64, f64)> {
        let times = (0..points).map(|index| index as f64 * interval_ns);
        times.map(|time_ns| (time_ns, self.advantage(time_ns))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_solve_their_equations() {
        let model = DecreaseModel::FIG4;
        let h_ns = 1.0;
        for time_ns in [10.0, 1_000.0, 30_000.0, 200_000.0] {
            let slope = |rates: fn(&DecreaseModel, f64) -> [f64; 2], flow: usize| {
                (rates(&model, time_ns + h_ns)[flow] - rates(&model, time_ns - h_ns)[flow]) / (2.0 * h_ns)
            };
            for flow in [0, 1] {
                let s = model.sampled(time_ns)[flow];
                let r = model.per_rtt(time_ns)[flow];
                let s_slope = -0.5 * s * s / 30_000.0;
                let r_slope = -0.5 * r / 30_000.0;
                assert!((slope(DecreaseModel::sampled, flow) / s_slope - 1.0).abs() < 1e-6);
                assert!((slope(DecreaseModel::per_rtt, flow) / r_slope - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn fig4_peaks_at_4_32_after_11_9_us() {
        let curve = DecreaseModel::FIG4.curve(1.0, 200_001);
        let &(peak_ns, peak) = curve.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!((peak - 4.3235).abs() < 1e-4, "{peak}");
        assert!((peak_ns - 11_893.0).abs() < 2.0, "{peak_ns}");
        assert!((DecreaseModel::FIG4.advantage(100_000.0) - 1.1554).abs() < 1e-4);
        assert_eq!(curve[0].1, 0.0);
    }

    #[test]
    fn fig4_rises_once_and_then_falls() {
        let curve = DecreaseModel::FIG4.curve(10.0, 50_000);
        let turns = curve.windows(3).filter(|w| (w[1].1 > w[0].1) != (w[2].1 > w[1].1)).count();
        assert_eq!(turns, 1);
    }

    #[test]
    fn fig4_is_positive_only_for_the_first_half_millisecond() {
        let curve = DecreaseModel::FIG4.curve(10.0, 300_000);
        let negative = curve.iter().skip(1).find(|(_, d)| *d <= 0.0).unwrap();
        assert!((negative.0 - 522_957.0).abs() < 11.0, "{negative:?}");
        // Both gaps are then tiny. The advantage stays above -6e-4 and approaches zero from below.
        let [s1, s0] = DecreaseModel::FIG4.sampled(negative.0);
        assert!((s1 - s0) / 6.25 < 2e-4, "{}", (s1 - s0) / 6.25);
        let lowest = curve.iter().map(|(_, d)| *d).fold(0.0, f64::min);
        assert!((-6e-4..-4e-4).contains(&lowest), "{lowest}");
        let late = DecreaseModel::FIG4.advantage(1e9);
        assert!(late < 0.0 && late > -1e-8, "{late}");
    }

    #[test]
    fn condition_determines_the_initial_sign() {
        // At the paper's rates, the condition changes at s = r (C1 + C0) / MTU = 562.5 ACKs.
        for acks in [1.0, 30.0, 300.0, 562.0, 563.0, 600.0, 5_000.0] {
            for rates in [[12.5, 6.25], [12.5, 0.1], [50.0, 12.5]] {
                let model = DecreaseModel { acks, rates, ..DecreaseModel::FIG4 };
                let early = model.advantage(1e-2);
                assert_eq!(early > 0.0, model.is_initially_fairer(), "{model:?} {early}");
            }
        }
        let is_initially_fairer = |acks| DecreaseModel { acks, ..DecreaseModel::FIG4 }.is_initially_fairer();
        assert!(is_initially_fairer(562.0) && !is_initially_fairer(563.0));
    }
}
