//! RPM's fluid model: the largest marking gain for which the control loop is stable.
//!
//! ```text
//! r'' + gamma [2 r' - r'(t - d) + r'(t - d_s)] + alpha r(t - d) + omega r(t - d_s) = 0          Eq. 4
//! s^2 + (2 - e^(-s d) + e^(-s d_s)) gamma s + alpha e^(-s d) + omega e^(-s d_s) = 0             Eq. 5
//! gamma = a b c / (a + b c^2 d^2),  alpha = eta a / d^2,  omega = b c^2 eta
//! ```
//!
//! Stable  The loop is stable if and only if 0 < eta < eta_max. At eta = 0, all roots except s = 0 are in the left half
//!         plane, because |s d + 2 g| = g |e^(-s d) - e^(-s d_s)| <= 2 g has no other solution in the right half plane.
//!         As eta grows, the root s = 0 moves left. The loop becomes unstable when a pair of roots first reaches the
//!         imaginary axis ([`MarkingLoop::exact_gain_limit`])
//! Bound   eta_max ~ 2 a / (b c^3 d^2 d_s), compared with 2 a / (b c^3 d^3) for forward marking (d_s = d). The relative
//!         error of the bound is a / (2 c d_s) * (1 - d_s^2 / (3 d^2)) - a / (b c^2 d^2) * (1 + d / d_s). This error is
//!         below 5 % if the short BDP is at least 11 packets, and positive if the long BDP is at least 13
//! Source  RPM (reverse path congestion marking), section IV, Lemma 1, appendix
//! Differs Lemma 1 as printed (Eq. 2 for any s < s* of Eq. 6) gives negative gains, because Eq. 6 solves the condition
//!         with the wrong sign for s. In addition, one negative real root does not imply stability. The printed
//!         equations are implemented to show this
//! Limits  linear, one flow; rates in packets per second, time in seconds

use core::f64::consts::PI;

use crate::delay_equation::DelayEquation;

/// The control loop of a sender, its bottleneck and the two feedback paths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MarkingLoop {
    /// The number of packets added to the window per round trip, `a` in the paper.
    pub increase: f64,
    /// The fraction of the window removed by a mark, `b` in the paper.
    pub decrease: f64,
    /// The bottleneck capacity in packets per second, `c` in the paper.
    pub capacity: f64,
    /// The round-trip time in seconds, `d` in the paper.
    pub rtt: f64,
    /// The round-trip time between sender and bottleneck, `d_s` in the paper. Equals `d` with forward marking.
    pub short_rtt: f64,
}

/// The stability limit of a loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StabilityLimit {
    /// The smallest marking gain (`eta`) at which oscillations do not decay.
    pub gain: f64,
    /// The oscillation frequency at this gain, in radians per round trip.
    pub radians_per_rtt: f64,
}

impl MarkingLoop {
    /// Creates the loop for the paper's sender, which adds one packet per round trip and removes half the window per
    /// mark.
    pub const fn reno(capacity: f64, rtt: f64, short_rtt: f64) -> Self {
        Self { increase: 1.0, decrease: 0.5, capacity, rtt, short_rtt }
    }

    /// Returns the bandwidth-delay product `c d`, in packets.
    pub const fn bdp_packets(&self) -> f64 {
        self.capacity * self.rtt
    }

    /// Returns `gamma`, in 1/s.
    pub const fn gamma(&self) -> f64 {
        let bdp = self.bdp_packets();
        self.increase * self.decrease * self.capacity / (self.increase + self.decrease * bdp * bdp)
    }

    /// Returns the gain for which `s` (1/s) is a root of Eq. 5, according to Eq. 2.
    pub fn printed_gain(&self, s: f64) -> f64 {
        let (d, short) = (self.rtt, self.short_rtt);
        // Multiply the numerator and denominator by e^(s d) to avoid an overflow for large negative s.
        let unit = (s * d).exp();
        let ratio = (s * (d - short)).exp();
        let numerator = (1.0 - ratio - 2.0 * unit) * s * self.gamma() - s * s * unit;
        let denominator = self.increase / (d * d) + self.decrease * self.capacity * self.capacity * ratio;
        numerator / denominator
    }

    /// Returns `s*` of Eq. 6. Lemma 1 claims stability for all smaller `s`.
    pub fn printed_threshold(&self) -> f64 {
        let (d, short, g) = (self.rtt, self.short_rtt, self.gamma());
        let inside = 5.0 * d * d * g * g - 2.0 * d * g * g * short + 2.0 * d * g
            - 3.0 * g * g * short * short
            - 2.0 * g * short
            + 1.0;
        (-inside.sqrt() - d * g + g * short - 1.0) / (g * (d * d - short * short))
    }

    /// Returns the corrected bound `2 a / (b c^3 d^2 d_s)`. Smaller gains are stable.
    pub fn gain_limit(&self) -> f64 {
        2.0 * self.increase / (self.decrease * self.capacity.powi(3) * self.rtt * self.rtt * self.short_rtt)
    }

    /// Returns the exact limit, computed by D-subdivision: the smallest positive gain for which `s = i w` solves Eq. 5.
    ///
    /// # Panics
    ///
    /// Panics if there is no such gain. The model is meaningless for a BDP below one packet.
    pub fn exact_gain_limit(&self) -> StabilityLimit {
        let mut best: Option<StabilityLimit> = None;
        let guess = (2.0 * self.gamma() * self.rtt * self.rtt / self.short_rtt).sqrt();
        let mut low = guess / 100.0;
        // |Eq. 5 without marks| >= w^2 - 4 g w, so higher frequencies need a larger gain than the best so far.
        let can_improve = |w: f64, best: Option<StabilityLimit>| {
            let min_gain = w * (w - 4.0 * self.gamma() * self.rtt) / self.mark_weight();
            best.map_or(w < 100.0, |best| min_gain < best.gain)
        };
        while can_improve(low, best) {
            let high = low * 1.002;
            if let Some(limit) = self.find_crossing(low, high)
                && best.is_none_or(|best| limit.gain < best.gain)
            {
                best = Some(limit);
            }
            low = high;
        }
        best.expect("a loop with a BDP of at least one packet oscillates below 100 radians per round trip")
    }

    /// Finds a positive real gain between two frequencies.
    fn find_crossing(&self, mut low: f64, mut high: f64) -> Option<StabilityLimit> {
        let is_positive = |w: f64| self.gain_at(w).1 > 0.0;
        let low_is_positive = is_positive(low);
        if low_is_positive == is_positive(high) {
            return None;
        }
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if is_positive(middle) == low_is_positive {
                low = middle;
            } else {
                high = middle;
            }
        }
        let gain = self.gain_at(low).0;
        (gain > 0.0).then_some(StabilityLimit { gain, radians_per_rtt: low })
    }

    /// Returns the complex gain (real and imaginary part) for which `s = i w` solves Eq. 5. `w` is in radians per RTT.
    fn gain_at(&self, w: f64) -> (f64, f64) {
        let (g, short_fraction) = (self.gamma() * self.rtt, self.short_rtt / self.rtt);
        let weight = self.mark_weight() - self.increase;
        let (sin, cos) = w.sin_cos();
        let (short_sin, short_cos) = (w * short_fraction).sin_cos();
        // The terms without marks are s^2 + (2 - e^-s + e^(-s short)) g s. The gain is multiplied by
        // a e^-s + b c^2 d^2 e^(-s short).
        let free = (-w * w - g * w * (sin - short_sin), g * w * (2.0 - cos + short_cos));
        let mark = (self.increase * cos + weight * short_cos, -self.increase * sin - weight * short_sin);
        let size = mark.0 * mark.0 + mark.1 * mark.1;
        let real = -(free.0 * mark.0 + free.1 * mark.1) / size;
        let imaginary = -(free.1 * mark.0 - free.0 * mark.1) / size;
        (real, imaginary)
    }

    /// Returns `a + b c^2 d^2`, the largest coefficient of the gain in Eq. 5 if time is in round trips.
    const fn mark_weight(&self) -> f64 {
        let bdp = self.bdp_packets();
        self.increase + self.decrease * bdp * bdp
    }

    /// Integrates Eq. 4 over `half_periods` and returns the growth rate of the oscillation: the slope of ln(peak) per
    /// round trip. Returns `None` if the loop does not oscillate. In that case its state decays, because Eq. 5 has no
    /// non-negative real root for a positive gain.
    ///
    /// Time is in round trips, so the step does not depend on the capacity. There are 100 steps per radian of the
    /// slow oscillation, and a step never exceeds the short round trip.
    pub fn growth_per_rtt(&self, gain: f64, half_periods: usize) -> Option<f64> {
        let (g, short) = (self.gamma() * self.rtt, self.short_rtt / self.rtt);
        let weight = gain * (self.mark_weight() - self.increase);
        let radians_per_rtt = weight.sqrt();
        let step = short / (100.0 * radians_per_rtt * short).max(1.0).ceil();
        let horizon = (half_periods + 10) as f64 * 2.0 * PI / radians_per_rtt;
        let mut equation = DelayEquation::new(1.0, short, step, |_, velocity, long_ago, short_ago| {
            let friction = g * (2.0 * velocity - long_ago.velocity + short_ago.velocity);
            -friction - gain * self.increase * long_ago.position - weight * short_ago.position
        });
        let mut peaks = Vec::new();
        while equation.time() < horizon && peaks.len() < half_periods {
            peaks.extend(equation.advance());
        }
        // The first periods contain the transient of the constant history.
        let settled = peaks.get(4..)?;
        let (first, last) = (settled.first()?, settled.last()?);
        let span = last.time - first.time;
        (span > 0.0).then(|| (last.amplitude / first.amplitude).ln() / span)
    }

    /// Returns whether oscillations decay at this gain, by integration.
    pub fn is_stable(&self, gain: f64) -> bool {
        self.growth_per_rtt(gain, 60).is_none_or(|growth| growth < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Gbps, in packets of 1500 bytes per second.
    const TEN_GBPS: f64 = 1e10 / 12_000.0;

    /// Loops with a short BDP of at least eleven packets, with their gain bounds.
    const LOOPS: [(MarkingLoop, f64); 9] = [
        (MarkingLoop::reno(TEN_GBPS, 0.040, 0.020), 2.16e-13),
        (MarkingLoop::reno(TEN_GBPS, 0.040, 0.040), 1.08e-13),
        (MarkingLoop::reno(TEN_GBPS, 0.120, 0.020), 2.4e-14),
        (MarkingLoop::reno(TEN_GBPS, 0.120, 0.120), 4.0e-15),
        (MarkingLoop::reno(TEN_GBPS, 0.220, 0.020), 7.14e-15),
        (MarkingLoop::reno(TEN_GBPS, 0.220, 0.220), 6.49e-16),
        (MarkingLoop::reno(833.0, 0.042, 0.022), 1.783e-4),
        (MarkingLoop::reno(833.0, 0.042, 0.042), 9.341e-5),
        (MarkingLoop::reno(8_333.0, 0.040, 0.002), 2.160e-6),
    ];

    #[test]
    fn lemma_1_as_printed_gives_negative_gains() {
        let printed = MarkingLoop::reno(833.0, 0.042, 0.022);
        let threshold = printed.printed_threshold();
        assert!((threshold + 2332.0).abs() < 1.0, "{threshold}");
        let at_threshold = printed.printed_gain(threshold);
        assert!((at_threshold + 2.8).abs() < 0.01, "{at_threshold}");
        for (marking_loop, _) in
            LOOPS.iter().filter(|(marking_loop, _)| marking_loop.short_rtt < marking_loop.rtt)
        {
            let threshold = marking_loop.printed_threshold();
            assert!(threshold < 0.0);
            for factor in [1.0, 1.001, 1.1, 1.5, 2.0, 10.0, 1e3, 1e6] {
                let gain = marking_loop.printed_gain(threshold * factor);
                assert!(gain < 0.0, "{marking_loop:?} {factor} {gain}");
            }
        }
    }

    #[test]
    fn eq_2_is_positive_only_between_minus_two_gamma_and_zero() {
        let printed = MarkingLoop::reno(833.0, 0.042, 0.022);
        // The numerator has a root near s = -2 gamma = -1.36 per second, a factor of 1700 above s*.
        assert!([-0.01, -0.5, -1.3].iter().all(|&s| printed.printed_gain(s) > 0.0));
        assert!([-1.4, -2.0, -100.0, -2000.0].iter().all(|&s| printed.printed_gain(s) < 0.0));
    }

    #[test]
    fn exact_limit_is_at_most_five_percent_above_the_bound() {
        for (marking_loop, known) in LOOPS {
            assert!((marking_loop.gain_limit() / known - 1.0).abs() < 1e-3, "{marking_loop:?}");
            let ratio = marking_loop.exact_gain_limit().gain / marking_loop.gain_limit();
            assert!((1.0..1.05).contains(&ratio), "{marking_loop:?} {ratio}");
            // The next terms of the expansion, for a = 1 and b = 1/2.
            let (short_fraction, bdp) =
                (marking_loop.short_rtt / marking_loop.rtt, marking_loop.bdp_packets());
            let first = 0.5 / (bdp * short_fraction) * (1.0 - short_fraction * short_fraction / 3.0);
            let second = -2.0 / (bdp * bdp) * (1.0 + 1.0 / short_fraction);
            let remainder = (ratio - 1.0 - first - second) / first;
            assert!(remainder.abs() < 0.02, "{marking_loop:?} {ratio} {remainder}");
        }
    }

    #[test]
    fn oscillations_decay_below_the_bound_and_grow_above() {
        for (marking_loop, _) in LOOPS {
            let (bound, exact) = (marking_loop.gain_limit(), marking_loop.exact_gain_limit().gain);
            // The integration reproduces the exact limit to within a thousandth.
            for stable in [0.95 * bound, 0.999 * exact] {
                assert!(marking_loop.is_stable(stable), "{marking_loop:?} {stable}");
            }
            for unstable in [1.05 * bound, 1.001 * exact] {
                assert!(!marking_loop.is_stable(unstable), "{marking_loop:?} {unstable}");
            }
        }
    }

    #[test]
    fn growth_rate_matches_the_low_frequency_approximation() {
        // s^2 + (2 g - w^2 short) s + w^2 = 0 in round trips. The growth rate is half of w^2 short - 2 g.
        for (marking_loop, _) in LOOPS.iter().filter(|(marking_loop, _)| marking_loop.capacity == TEN_GBPS) {
            let g = marking_loop.gamma() * marking_loop.rtt;
            for (factor, expected) in [(0.5, -0.5 * g), (0.95, -0.05 * g), (1.05, 0.05 * g), (2.0, g)] {
                let growth = marking_loop.growth_per_rtt(factor * marking_loop.gain_limit(), 60).unwrap();
                assert!(
                    (growth / expected - 1.0).abs() < 0.002,
                    "{marking_loop:?} {factor} {growth} {expected}"
                );
            }
        }
    }

    #[test]
    fn bound_is_conservative_for_a_small_short_bdp() {
        // With c d_s = 8.3 and 4 the loop is still stable 5 % above the bound.
        for (marking_loop, ratio) in [
            (MarkingLoop::reno(8_333.0, 0.040, 0.001), 1.0614),
            (MarkingLoop::reno(833.0, 0.1, 0.01), 1.0581),
            (MarkingLoop::reno(1_000.0, 0.04, 0.004), 1.1154),
        ] {
            let exact = marking_loop.exact_gain_limit().gain;
            assert!(
                (exact / marking_loop.gain_limit() - ratio).abs() < 1e-3,
                "{}",
                exact / marking_loop.gain_limit()
            );
            assert!(marking_loop.is_stable(1.05 * marking_loop.gain_limit()), "{marking_loop:?}");
            assert!(
                marking_loop.is_stable(0.99 * exact) && !marking_loop.is_stable(1.01 * exact),
                "{marking_loop:?}"
            );
        }
    }

    #[test]
    fn bound_is_safe_from_a_bdp_of_13_packets() {
        let ratio = |bdp: f64, short_fraction: f64| {
            let marking_loop = MarkingLoop::reno(bdp / 0.04, 0.04, 0.04 * short_fraction);
            marking_loop.exact_gain_limit().gain / marking_loop.gain_limit()
        };
        for bdp in [13.0, 15.0, 20.0, 35.0, 100.0, 1_000.0, 1e5] {
            for short_fraction in [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0] {
                assert!(
                    ratio(bdp, short_fraction) > 1.0,
                    "{bdp} {short_fraction} {}",
                    ratio(bdp, short_fraction)
                );
                assert!(
                    bdp * short_fraction < 11.0 || ratio(bdp, short_fraction) < 1.05,
                    "{bdp} {short_fraction}"
                );
            }
        }
        // The bound is too large for a smaller BDP, where the fluid model is inaccurate.
        assert!((ratio(10.0, 1.0) - 0.9913).abs() < 1e-3);
        assert!((ratio(5.0, 0.5) - 0.9278).abs() < 1e-3);
    }

    #[test]
    fn reverse_marking_increases_the_stable_gain_by_the_ratio_of_the_delays() {
        for (d, short) in [(0.04, 0.02), (0.12, 0.02), (0.22, 0.02)] {
            let reverse = MarkingLoop::reno(TEN_GBPS, d, short).exact_gain_limit().gain;
            let forward = MarkingLoop::reno(TEN_GBPS, d, d).exact_gain_limit().gain;
            assert!((reverse / forward / (d / short) - 1.0).abs() < 1e-4);
        }
    }
}
