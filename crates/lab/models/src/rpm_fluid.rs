//! RPM's fluid model: how hard may a switch mark before the loop swings?
//!
//! ```text
//! r'' + gamma [2 r' - r'(t - d) + r'(t - d_s)] + alpha r(t - d) + omega r(t - d_s) = 0          Eq. 4
//! s^2 + (2 - e^(-s d) + e^(-s d_s)) gamma s + alpha e^(-s d) + omega e^(-s d_s) = 0             Eq. 5
//! gamma = a b c / (a + b c^2 d^2),  alpha = eta a / d^2,  omega = b c^2 eta
//! ```
//!
//! Stable  exactly for 0 < eta < eta_max. At eta = 0 all roots but s = 0 lie to the left (on the right side
//!         |s d + 2 g| = g |e^(-s d) - e^(-s d_s)| <= 2 g has no other solution) and s = 0 moves left; the loop is
//!         lost where a pair first reaches the imaginary axis ([`Loop::exact_gain_limit`])
//! Bound   eta_max ~ 2 a / (b c^3 d^2 d_s), against 2 a / (b c^3 d^3) for forward marking (d_s = d). The exact
//!         limit is higher by the part a / (2 c d_s) * (1 - d_s^2 / (3 d^2)), less a / (b c^2 d^2) * (1 + d / d_s):
//!         within 5 % once the short round trip holds eleven packets, and safe once the long one holds 13
//! Source  RPM (reverse path congestion marking), section IV, Lemma 1, appendix
//! Differs Lemma 1 as printed (Eq. 2 for any s < s* of Eq. 6) gives negative gains: Eq. 6 solves the condition
//!         with the sign of s turned. And one negative real root is not stability. Kept here to show it
//! Limits  linear, one flow; rates in packets per second, time in seconds

use core::f64::consts::PI;

use crate::delay_line::DelayLine;

/// A sender, its bottleneck and the two ways back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loop {
    /// Packets added to the window per round trip, `a` in the paper.
    pub increase: f64,
    /// Part of the window taken by a mark, `b` in the paper.
    pub decrease: f64,
    /// Bottleneck capacity in packets per second, `c` in the paper.
    pub capacity: f64,
    /// Round-trip time in seconds, `d` in the paper.
    pub rtt: f64,
    /// Round-trip time from the sender to the bottleneck and back, `d_s` in the paper; `d` with forward marking.
    pub short_rtt: f64,
}

/// Where the loop stops being stable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The smallest marking gain (`eta`) at which a swing no longer dies out.
    pub gain: f64,
    /// How fast the loop then swings, in radians per round trip.
    pub radians_per_rtt: f64,
}

impl Loop {
    /// The paper's sender: one packet more per round trip, half per mark.
    pub const fn classic(capacity: f64, rtt: f64, short_rtt: f64) -> Self {
        Self { increase: 1.0, decrease: 0.5, capacity, rtt, short_rtt }
    }

    /// `c d`: packets that one round trip holds.
    pub const fn bdp_packets(&self) -> f64 {
        self.capacity * self.rtt
    }

    /// `gamma`, in 1/s.
    pub const fn gamma(&self) -> f64 {
        let bdp = self.bdp_packets();
        self.increase * self.decrease * self.capacity / (self.increase + self.decrease * bdp * bdp)
    }

    /// Eq. 2: the gain for which `s` (1/s) is a root of Eq. 5.
    pub fn printed_gain(&self, s: f64) -> f64 {
        let (d, short) = (self.rtt, self.short_rtt);
        // Above and below multiplied by e^(s d), so that nothing overflows for s far below zero.
        let unit = (s * d).exp();
        let ratio = (s * (d - short)).exp();
        let above = (1.0 - ratio - 2.0 * unit) * s * self.gamma() - s * s * unit;
        let below = self.increase / (d * d) + self.decrease * self.capacity * self.capacity * ratio;
        above / below
    }

    /// Eq. 6: `s*`, below which Lemma 1 promises stability.
    pub fn printed_threshold(&self) -> f64 {
        let (d, short, g) = (self.rtt, self.short_rtt, self.gamma());
        let inside = 5.0 * d * d * g * g - 2.0 * d * g * g * short + 2.0 * d * g
            - 3.0 * g * g * short * short
            - 2.0 * g * short
            + 1.0;
        (-inside.sqrt() - d * g + g * short - 1.0) / (g * (d * d - short * short))
    }

    /// The corrected bound, `2 a / (b c^3 d^2 d_s)`: gains below it are stable.
    pub fn gain_limit(&self) -> f64 {
        2.0 * self.increase / (self.decrease * self.capacity.powi(3) * self.rtt * self.rtt * self.short_rtt)
    }

    /// The exact limit, by D-subdivision: the smallest gain above zero for which `s = i w` solves Eq. 5.
    ///
    /// # Panics
    /// If no swing is found: with a round trip of less than a packet the model means nothing.
    pub fn exact_gain_limit(&self) -> Limit {
        let mut best: Option<Limit> = None;
        let guess = (2.0 * self.gamma() * self.rtt * self.rtt / self.short_rtt).sqrt();
        let mut low = guess / 100.0;
        // |Eq. 5 without marks| >= w^2 - 4 g w: a faster swing than this needs a gain above the best.
        let worth_a_look = |w: f64, best: Option<Limit>| {
            let least = w * (w - 4.0 * self.gamma() * self.rtt) / self.mark_weight();
            best.map_or(w < 100.0, |best| least < best.gain)
        };
        while worth_a_look(low, best) {
            let high = low * 1.002;
            if let Some(found) = self.crossing(low, high)
                && best.is_none_or(|best| found.gain < best.gain)
            {
                best = Some(found);
            }
            low = high;
        }
        best.expect("a loop of at least one packet swings within 100 radians per round trip")
    }

    /// The real gain above zero between two frequencies, if there is one.
    fn crossing(&self, mut low: f64, mut high: f64) -> Option<Limit> {
        let is_above = |w: f64| self.gain_at(w).1 > 0.0;
        let at_low = is_above(low);
        if at_low == is_above(high) {
            return None;
        }
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if is_above(middle) == at_low {
                low = middle;
            } else {
                high = middle;
            }
        }
        let gain = self.gain_at(low).0;
        (gain > 0.0).then_some(Limit { gain, radians_per_rtt: low })
    }

    /// The complex gain (real and imaginary part) for which `s = i w` solves Eq. 5, `w` in radians per RTT.
    fn gain_at(&self, w: f64) -> (f64, f64) {
        let (g, part) = (self.gamma() * self.rtt, self.short_rtt / self.rtt);
        let weight = self.mark_weight() - self.increase;
        let (sin, cos) = w.sin_cos();
        let (short_sin, short_cos) = (w * part).sin_cos();
        // Without marks: s^2 + (2 - e^-s + e^(-s part)) g s; the weight of marks: a e^-s + b c^2 d^2 e^(-s part).
        let free = (-w * w - g * w * (sin - short_sin), g * w * (2.0 - cos + short_cos));
        let mark = (self.increase * cos + weight * short_cos, -self.increase * sin - weight * short_sin);
        let size = mark.0 * mark.0 + mark.1 * mark.1;
        let real = -(free.0 * mark.0 + free.1 * mark.1) / size;
        let imaginary = -(free.1 * mark.0 - free.0 * mark.1) / size;
        (real, imaginary)
    }

    /// `a + b c^2 d^2`: what a unit of gain adds to Eq. 5 at most, time counted in round trips.
    const fn mark_weight(&self) -> f64 {
        let bdp = self.bdp_packets();
        self.increase + self.decrease * bdp * bdp
    }

    /// Integrates Eq. 4 over so many half swings and says how fast they grow: the slope of ln(peak), per round
    /// trip. `None` if the loop does not swing; then it decays, because for a gain above zero Eq. 5 has no
    /// root on the real axis from zero upwards.
    ///
    /// Time is counted in round trips, so that a step does not depend on the capacity: 100 steps per radian of
    /// the slow swing and never longer than the short round trip.
    pub fn growth_per_rtt(&self, gain: f64, half_swings: usize) -> Option<f64> {
        let (g, short) = (self.gamma() * self.rtt, self.short_rtt / self.rtt);
        let weight = gain * (self.mark_weight() - self.increase);
        let radians_per_rtt = weight.sqrt();
        let step = short / (100.0 * radians_per_rtt * short).max(1.0).ceil();
        let horizon = (half_swings + 10) as f64 * 2.0 * PI / radians_per_rtt;
        let mut line = DelayLine::new(1.0, short, step, |_, speed, long_ago, short_ago| {
            let friction = g * (2.0 * speed - long_ago.speed + short_ago.speed);
            -friction - gain * self.increase * long_ago.place - weight * short_ago.place
        });
        let mut peaks = Vec::new();
        while line.time() < horizon && peaks.len() < half_swings {
            peaks.extend(line.advance());
        }
        // The first swings still hold what the constant past stirred up.
        let settled = peaks.get(4..)?;
        let (first, last) = (settled.first()?, settled.last()?);
        let span = last.time - first.time;
        (span > 0.0).then(|| (last.height / first.height).ln() / span)
    }

    /// The decision by integration: swings of this gain die out.
    pub fn is_stable(&self, gain: f64) -> bool {
        self.growth_per_rtt(gain, 60).is_none_or(|growth| growth < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Gbps in packets of 1500 bytes.
    const TEN_GBPS: f64 = 1e10 / 12_000.0;

    /// Loops whose short round trip holds at least eleven packets, and the bound on their gain.
    const LOOPS: [(Loop, f64); 9] = [
        (Loop::classic(TEN_GBPS, 0.040, 0.020), 2.16e-13),
        (Loop::classic(TEN_GBPS, 0.040, 0.040), 1.08e-13),
        (Loop::classic(TEN_GBPS, 0.120, 0.020), 2.4e-14),
        (Loop::classic(TEN_GBPS, 0.120, 0.120), 4.0e-15),
        (Loop::classic(TEN_GBPS, 0.220, 0.020), 7.14e-15),
        (Loop::classic(TEN_GBPS, 0.220, 0.220), 6.49e-16),
        (Loop::classic(833.0, 0.042, 0.022), 1.783e-4),
        (Loop::classic(833.0, 0.042, 0.042), 9.341e-5),
        (Loop::classic(8_333.0, 0.040, 0.002), 2.160e-6),
    ];

    #[test]
    fn lemma_1_as_printed_promises_negative_gains() {
        let printed = Loop::classic(833.0, 0.042, 0.022);
        let threshold = printed.printed_threshold();
        assert!((threshold + 2332.0).abs() < 1.0, "{threshold}");
        let at_threshold = printed.printed_gain(threshold);
        assert!((at_threshold + 2.8).abs() < 0.01, "{at_threshold}");
        for (circuit, _) in LOOPS.iter().filter(|(circuit, _)| circuit.short_rtt < circuit.rtt) {
            let threshold = circuit.printed_threshold();
            assert!(threshold < 0.0);
            for factor in [1.0, 1.001, 1.1, 1.5, 2.0, 10.0, 1e3, 1e6] {
                let gain = circuit.printed_gain(threshold * factor);
                assert!(gain < 0.0, "{circuit:?} {factor} {gain}");
            }
        }
    }

    #[test]
    fn eq_2_is_positive_between_minus_two_gamma_and_zero_only() {
        let printed = Loop::classic(833.0, 0.042, 0.022);
        // The numerator's root lies near s = -2 gamma = -1.36 per second, a factor 1700 above s*.
        assert!([-0.01, -0.5, -1.3].iter().all(|&s| printed.printed_gain(s) > 0.0));
        assert!([-1.4, -2.0, -100.0, -2000.0].iter().all(|&s| printed.printed_gain(s) < 0.0));
    }

    #[test]
    fn the_exact_limit_is_within_five_percent_above_the_bound() {
        for (circuit, known) in LOOPS {
            assert!((circuit.gain_limit() / known - 1.0).abs() < 1e-3, "{circuit:?}");
            let ratio = circuit.exact_gain_limit().gain / circuit.gain_limit();
            assert!((1.0..1.05).contains(&ratio), "{circuit:?} {ratio}");
            // The next terms of the expansion, for a = 1 and b = 1/2.
            let (part, bdp) = (circuit.short_rtt / circuit.rtt, circuit.bdp_packets());
            let first = 0.5 / (bdp * part) * (1.0 - part * part / 3.0);
            let second = -2.0 / (bdp * bdp) * (1.0 + 1.0 / part);
            let left = (ratio - 1.0 - first - second) / first;
            assert!(left.abs() < 0.02, "{circuit:?} {ratio} {left}");
        }
    }

    #[test]
    fn swings_die_out_five_percent_below_the_bound_and_grow_five_percent_above() {
        for (circuit, _) in LOOPS {
            let (bound, exact) = (circuit.gain_limit(), circuit.exact_gain_limit().gain);
            // The integration sees the exact limit to a thousandth.
            for stable in [0.95 * bound, 0.999 * exact] {
                assert!(circuit.is_stable(stable), "{circuit:?} {stable}");
            }
            for unstable in [1.05 * bound, 1.001 * exact] {
                assert!(!circuit.is_stable(unstable), "{circuit:?} {unstable}");
            }
        }
    }

    #[test]
    fn swings_grow_as_fast_as_the_low_frequency_form_says() {
        // s^2 + (2 g - w^2 part) s + w^2 = 0 in round trips: growth is half of w^2 part - 2 g.
        for (circuit, _) in LOOPS.iter().filter(|(circuit, _)| circuit.capacity == TEN_GBPS) {
            let g = circuit.gamma() * circuit.rtt;
            for (part, expected) in [(0.5, -0.5 * g), (0.95, -0.05 * g), (1.05, 0.05 * g), (2.0, g)] {
                let growth = circuit.growth_per_rtt(part * circuit.gain_limit(), 60).unwrap();
                assert!((growth / expected - 1.0).abs() < 0.002, "{circuit:?} {part} {growth} {expected}");
            }
        }
    }

    #[test]
    fn the_bound_is_cautious_where_the_short_loop_holds_few_packets() {
        // c d_s = 8.3 and 4: the loop is still stable 5 % above the bound.
        for (circuit, ratio) in [
            (Loop::classic(8_333.0, 0.040, 0.001), 1.0614),
            (Loop::classic(833.0, 0.1, 0.01), 1.0581),
            (Loop::classic(1_000.0, 0.04, 0.004), 1.1154),
        ] {
            let exact = circuit.exact_gain_limit().gain;
            assert!((exact / circuit.gain_limit() - ratio).abs() < 1e-3, "{}", exact / circuit.gain_limit());
            assert!(circuit.is_stable(1.05 * circuit.gain_limit()), "{circuit:?}");
            assert!(circuit.is_stable(0.99 * exact) && !circuit.is_stable(1.01 * exact), "{circuit:?}");
        }
    }

    #[test]
    fn the_bound_is_safe_from_13_packets_per_round_trip() {
        let ratio = |bdp: f64, part: f64| {
            let circuit = Loop::classic(bdp / 0.04, 0.04, 0.04 * part);
            circuit.exact_gain_limit().gain / circuit.gain_limit()
        };
        for bdp in [13.0, 15.0, 20.0, 35.0, 100.0, 1_000.0, 1e5] {
            for part in [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0] {
                assert!(ratio(bdp, part) > 1.0, "{bdp} {part} {}", ratio(bdp, part));
                assert!(bdp * part < 11.0 || ratio(bdp, part) < 1.05, "{bdp} {part}");
            }
        }
        // Fewer packets, where a fluid means little: the bound promises too much.
        assert!((ratio(10.0, 1.0) - 0.9913).abs() < 1e-3);
        assert!((ratio(5.0, 0.5) - 0.9278).abs() < 1e-3);
    }

    #[test]
    fn reverse_marking_widens_the_stable_gain_by_the_ratio_of_the_delays() {
        for (d, short) in [(0.04, 0.02), (0.12, 0.02), (0.22, 0.02)] {
            let reverse = Loop::classic(TEN_GBPS, d, short).exact_gain_limit().gain;
            let forward = Loop::classic(TEN_GBPS, d, d).exact_gain_limit().gain;
            assert!((reverse / forward / (d / short) - 1.0).abs() < 1e-4);
        }
    }
}
