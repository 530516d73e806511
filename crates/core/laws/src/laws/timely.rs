//! TIMELY: a rate steered by the gradient of the RTT; and the patched law that has a fixed point.
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
//! Source     Mittal et al., SIGCOMM 2015; patched: Zhu et al., CoNEXT 2016; constants of HPCC's public artifact
//! Differs    - Starts at line rate, as HPCC's artifact does; the paper's C/(n+1) needs the number of flows.
//!            - A decrease by the gradient keeps at least half of the rate; the artifact only keeps it from going negative.
//! Limits     the unpatched law has no unique fixed point: any queue is an equilibrium (Zhu et al.)

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bounded, bytes_per_ns, ns, packets, to_rate, to_window};
use crate::parts::gate::SeqGate;
use poseidon_types::{BitRate, Nanos, Packets, Signals};

params! {
    /// TIMELY's parameters.
    pub struct TimelyParams {
        /// Below this RTT the rate always grows.
        low: Nanos = Nanos::from_micros(50),
        /// Above this RTT the rate always falls.
        high: Nanos = Nanos::from_micros(500),
        /// What a gradient is relative to: a constant in the artifact, not a measured minimum.
        min_rtt: Nanos = Nanos::from_micros(20),
        /// Weight of a new RTT difference.
        weight: f64 = 0.875,
        /// β: strength of a decrease.
        beta: f64 = 0.8,
        /// δ as a share of the line rate: 10 Mbps per 10 Gbps.
        increase: f64 = 0.001,
        /// Increases in a row after which five δ are added at once.
        hyper_after: u32 = 5,
        /// The smallest rate.
        min_rate: BitRate = BitRate::from_mbps(100),
        /// The patched law of CoNEXT 2016.
        patched: bool = false,
        /// β' of the patched law.
        patched_beta: f64 = 0.008,
        /// Most packets in flight; a rate law has no window of its own.
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

/// One flow under TIMELY. Rates in bytes per ns, times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Timely {
    rate: f64,
    last_rtt: Option<Nanos>,
    difference: f64,
    increases: u32,
    round: SeqGate,

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

impl Law for Timely {
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
            difference: 0.0,
            increases: 0,
            round: SeqGate::default(),
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

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if self.last_rtt.is_some() && !self.round.passes(ack.acked_seq, ack.next_seq) {
            return;
        }
        let Some(last) = self.last_rtt.replace(ack.rtt) else {
            self.round.passes(ack.acked_seq, ack.next_seq);
            return;
        };
        let rtt = ns(ack.rtt);
        self.difference = blend(self.difference, rtt - ns(last), self.weight);
        let gradient = self.difference / self.min_rtt;
        let rate = if rtt < self.low {
            self.grown()
        } else if rtt > self.high {
            self.increases = 0;
            self.rate * (1.0 - self.beta * (1.0 - self.high / rtt))
        } else if self.patched {
            self.increases = 0;
            let share = bounded(2.0 * gradient + 0.5, 0.0, 1.0);
            let excess = (rtt - self.low) / self.low;
            self.step * (1.0 - share) + self.rate * (1.0 - self.patched_beta * share * excess)
        } else if gradient <= 0.0 {
            self.grown()
        } else {
            self.increases = 0;
            self.rate * bounded(1.0 - self.beta * gradient, 0.5, 1.0)
        };
        self.rate = bounded(rate, self.min_rate, self.max_rate);
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: Nanos) {}

    /// Where Alg. 1 lowers the rate: above `high`, or above `low` and rising.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        let rtt = ns(ack.rtt);
        rtt > self.high || (rtt >= self.low && self.difference > 0.0)
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.window), pacing: Pacing::Rate(to_rate(self.rate)) }
    }
}

impl Timely {
    /// One additive increase; five at once after enough of them in a row.
    fn grown(&mut self) -> f64 {
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

    /// Feeds one RTT sample per round trip; the rate after each, Mbps.
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
    fn grows_below_low_and_faster_after_five() {
        let rates = run(&TimelyParams::default(), &[30; 9]);
        assert_eq!(rates, [5_000, 5_010, 5_020, 5_030, 5_040, 5_050, 5_100, 5_150, 5_200]);
    }

    #[test]
    fn falls_above_high_whatever_the_gradient() {
        // 1 - 0.8·(1 - 500/1000) = 0.6.
        assert_eq!(run(&TimelyParams::default(), &[1_000, 1_000]), [5_000, 3_000]);
    }

    #[test]
    fn any_steady_queue_between_the_thresholds_lets_the_rate_grow() {
        // No unique fixed point: at 100 us and at 400 us the law does the same.
        assert_eq!(run(&TimelyParams::default(), &[100; 3]), run(&TimelyParams::default(), &[400; 3]));
    }

    #[test]
    fn the_patched_law_tells_a_long_queue_from_a_short_one() {
        let patched = TimelyParams { patched: true, ..TimelyParams::default() };
        // Steady RTTs have no gradient, so w = 1/2: half a step of 10 Mbps up, 0.4 % of the relative excess down.
        assert_eq!(run(&patched, &[100, 100])[1], 5 + 5_000 - 20);
        assert_eq!(run(&patched, &[400, 400])[1], 5 + 5_000 - 140);
    }
}
