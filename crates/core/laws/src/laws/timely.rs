//! TIMELY: a rate controlled by the RTT gradient, and the patched law, which has a fixed point.
//!
//! ```text
//! Model      rtt < T_low              R += N·δ                 N = 5 after five increases in a row
//!            rtt > T_high             R *= 1 - β·(1 - T_high/rtt)
//!            between: gradient ≤ 0    R += N·δ
//!                     gradient > 0    R *= 1 - β·gradient
//! Patched    between:                 w = clamp(2·gradient + 1/2, 0, 1)
//!                                     R = δ·(1 - w) + R·(1 - β'·w·(rtt - ref)/ref)
//! ```
//!
//! Signals    the raw RTT, once per round trip (per segment in the paper)
//! Source     Mittal et al., SIGCOMM 2015; patched: Zhu et al., CoNEXT 2016; constants from HPCC's public artifact
//! Differs    - The flow starts at line rate, as in HPCC's artifact. The paper's initial rate, C/(n+1), requires the
//!              number of flows.
//!            - A gradient-based decrease keeps at least half of the rate. The artifact only prevents a negative rate.
//! Limits     The unpatched law has no unique fixed point: any queue is an equilibrium (Zhu et al.).

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bytes_per_ns, clamp, ns, packets, to_rate, to_window};
use crate::parts::round_trip::RoundTrip;
use poseidon_types::{BitRate, Nanos, Packets, Signals};

params! {
    /// Parameters of [`Timely`].
    pub struct TimelyParams {
        /// Below this RTT the rate always grows.
        low: Nanos = Nanos::from_micros(50),
        /// Above this RTT the rate always falls.
        high: Nanos = Nanos::from_micros(500),
        /// The RTT that normalises the gradient; a constant in the artifact, not a measured minimum.
        min_rtt: Nanos = Nanos::from_micros(20),
        /// The weight of a new RTT difference sample.
        weight: f64 = 0.875,
        /// β: the decrease strength.
        beta: f64 = 0.8,
        /// δ as a fraction of the line rate: 10 Mbps per 10 Gbps.
        increase: f64 = 0.001,
        /// The number of consecutive increases after which an increase adds five δ.
        hyper_after: u32 = 5,
        /// The smallest rate.
        min_rate: BitRate = BitRate::from_mbps(100),
        /// Use the patched law from CoNEXT 2016.
        patched: bool = false,
        /// The β' of the patched law.
        patched_beta: f64 = 0.008,
        /// The maximum number of packets in flight. A rate-based law does not compute a window.
        window: Packets = Packets::MAX_WINDOW,
    }
    presets {
        "patched", "the patched law of CoNEXT 2016", |p| p.patched = true;
    }
    check {
        low: "above zero and below high", |p| p.low > Nanos::ZERO && p.low < p.high;
        min_rtt: "above zero", |p| p.min_rtt > Nanos::ZERO;
        weight: "above 0 and at most 1", |p| p.weight > 0.0 && p.weight <= 1.0;
        beta: "above 0 and at most 1", |p| p.beta > 0.0 && p.beta <= 1.0;
        patched_beta: "above 0 and at most 1", |p| p.patched_beta > 0.0 && p.patched_beta <= 1.0;
        increase: "above 0 and at most 1", |p| p.increase > 0.0 && p.increase <= 1.0;
        min_rate: "above zero", |p| p.min_rate > BitRate::ZERO;
        window: "between 1 and 32768 packets",
            |p| p.window >= Packets::ONE && p.window <= Packets::MAX_WINDOW;
    }
}

/// The state of one TIMELY flow. Rates are in bytes per ns, times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Timely {
    rate: f64,
    last_rtt: Option<Nanos>,
    /// The smoothed difference between consecutive RTTs.
    rtt_difference: f64,
    /// The number of consecutive increases.
    increases: u32,
    round: RoundTrip,

    low: f64,
    high: f64,
    min_rtt: f64,
    weight: f64,
    beta: f64,
    patched_beta: f64,
    step: f64,
    min_rate: f64,
    max_rate: f64,
    window: f64,
    hyper_after: u32,
    patched: bool,
}

impl LawDefinition for Timely {
    const NAME: &'static str = "timely";
    const SOURCE: &'static str = "Mittal et al., SIGCOMM 2015, Alg. 1; patched: Zhu et al., CoNEXT 2016";
    const STATE_LIMIT: usize = 192;
    type Params = TimelyParams;

    fn needs(_: &TimelyParams) -> Signals {
        Signals::RTT
    }

    fn new(params: &TimelyParams, path: &Path) -> Self {
        let max_rate = bytes_per_ns(path.line_rate);
        Self {
            rate: max_rate,
            last_rtt: None,
            rtt_difference: 0.0,
            increases: 0,
            round: RoundTrip::default(),
            low: ns(params.low),
            high: ns(params.high),
            min_rtt: ns(params.min_rtt),
            weight: params.weight,
            beta: params.beta,
            patched_beta: params.patched_beta,
            step: params.increase * max_rate,
            min_rate: bytes_per_ns(params.min_rate).min(max_rate),
            max_rate,
            window: packets(params.window),
            hyper_after: params.hyper_after,
            patched: params.patched,
        }
    }
}

impl Law for Timely {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if self.last_rtt.is_some() && !self.round.ends_with(ack.acked_seq, ack.next_seq) {
            return;
        }
        let Some(last_rtt) = self.last_rtt.replace(ack.rtt) else {
            self.round.ends_with(ack.acked_seq, ack.next_seq);
            return;
        };
        let rtt = ns(ack.rtt);
        self.rtt_difference = blend(self.rtt_difference, rtt - ns(last_rtt), self.weight);
        let gradient = self.rtt_difference / self.min_rtt;
        let rate = if rtt < self.low {
            self.increased_rate()
        } else if rtt > self.high {
            self.increases = 0;
            self.rate * (1.0 - self.beta * (1.0 - self.high / rtt))
        } else if self.patched {
            self.increases = 0;
            let weight = clamp(2.0 * gradient + 0.5, 0.0, 1.0);
            let excess = (rtt - self.low) / self.low;
            self.step * (1.0 - weight) + self.rate * (1.0 - self.patched_beta * weight * excess)
        } else if gradient <= 0.0 {
            self.increased_rate()
        } else {
            self.increases = 0;
            self.rate * clamp(1.0 - self.beta * gradient, 0.5, 1.0)
        };
        self.rate = clamp(rate, self.min_rate, self.max_rate);
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    /// Returns whether Alg. 1 would lower the rate: the RTT is above `high`, or above `low` and rising.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        let rtt = ns(ack.rtt);
        rtt > self.high || (rtt >= self.low && self.rtt_difference > 0.0)
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.window), pacing: Pacing::Rate(to_rate(self.rate)) }
    }
}

impl Timely {
    /// Returns the rate after an additive increase, which is five times larger after enough consecutive increases.
    fn increased_rate(&mut self) -> f64 {
        self.increases = self.increases.saturating_add(1);
        let steps = if self.increases > self.hyper_after { 5.0 } else { 1.0 };
        self.rate + steps * self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Bytes;

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(10), base_rtt: Nanos::from_micros(20) };

    /// Feeds one RTT sample per round trip and returns the rate in Mbps after each sample.
    fn run(params: &TimelyParams, rtts_us: &[u64]) -> std::vec::Vec<u64> {
        let mut law = Timely::new(params, &PATH);
        law.rate = 0.625; // 5 Gbps
        let feed = |(round, rtt): (usize, &u64)| {
            let seq = round as u64 * 1_000;
            let rtt = Nanos::from_micros(*rtt);
            law.on_ack(&Ack { rtt, acked_seq: seq, next_seq: seq + 999, ..Ack::EMPTY });
            match law.decision().pacing {
                Pacing::Rate(rate) => (rate.get() + 500_000) / 1_000_000,
                _ => 0,
            }
        };
        rtts_us.iter().enumerate().map(feed).collect()
    }

    #[test]
    fn the_rate_grows_below_low_and_faster_after_five_increases() {
        let rates = run(&TimelyParams::default(), &[30; 9]);
        assert_eq!(rates, [5_000, 5_010, 5_020, 5_030, 5_040, 5_050, 5_100, 5_150, 5_200]);
    }

    #[test]
    fn the_rate_falls_above_high_for_any_gradient() {
        // 1 - 0.8·(1 - 500/1000) = 0.6.
        assert_eq!(run(&TimelyParams::default(), &[1_000, 1_000]), [5_000, 3_000]);
    }

    #[test]
    fn the_rate_grows_at_any_constant_rtt_between_the_thresholds() {
        // There is no unique fixed point: the law behaves the same at 100 us and at 400 us.
        assert_eq!(run(&TimelyParams::default(), &[100; 3]), run(&TimelyParams::default(), &[400; 3]));
    }

    #[test]
    fn the_patched_law_distinguishes_long_and_short_queues() {
        let patched = TimelyParams { patched: true, ..TimelyParams::default() };
        // A constant RTT has no gradient, so w = 1/2: half a step of 10 Mbps up, 0.4 % of the relative excess down.
        assert_eq!(run(&patched, &[100, 100])[1], 5 + 5_000 - 20);
        assert_eq!(run(&patched, &[400, 400])[1], 5 + 5_000 - 140);
    }
}
