//! PowerTCP: windows steered by power, the product of what is in the pipe and how fast it moves.
//!
//! ```text
//! Model      per hop   λ = dq/dt + txRate  (current)    ν = q + B·τ  (voltage)    Γ = λ·ν  (power)
//!            normalised  Γ/(B²·τ): 1 when the link is full and the queue empty and still
//!            w ← γ·(w_old/Γ + β) + (1 - γ)·w
//! ```
//!
//! Why fast   a queue law sees a queue only once it is there, a gradient law cannot tell an empty queue from a full one;
//!            power sees both, because Γ equals B times the window that arrives (Property 1).
//! Signals    one record per hop {queue, bytes sent, time, rate}
//! Life       one bandwidth-delay product at line rate → w = b·τ + Σβ, queue Σβ (Theorem 1), within a few updates
//!            (Theorem 2), β-proportionally fair (Theorem 3)
//! Source     Addanki et al., NSDI 2022, algorithm 1
//! Differs    - Lines 20-21 compare and keep raw power; normalised power is meant (both public artifacts), or the fastest
//!              link would always win.
//!            - The first ACK has nothing to be compared with and only stores its records; the artifact compares with zeros.
//!            - Normalised power is at least 0.01, as in the public Linux code: Alg. 1 would divide by zero.
//!            - Preset `artifact-ns3`: what the public ns-3 code does otherwise (η = 0.95, reference rate in the (1 - γ) term,
//!              floor of λ instead of power, β of 150 Mbps, minimum of 100 Mbps).
//!            - `vai` and `sampling` (off): what Snyder and Lebeck give to HPCC, on the same footing.
//! Limits     made for lossless fabrics: a loss leaves the window alone, as in the public Linux code. A flow that does not
//!            use its window is not treated apart: the window never exceeds one bandwidth-delay product.

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::over_time;
use crate::parts::float::{bounded, bytes, bytes_per_ns, ns, to_rate, to_window};
use crate::parts::history::WindowHistory;
use crate::parts::hop_delta::LastHops;
use crate::parts::sampling::Sampling;
use crate::parts::variable_ai::{VariableAi, VariableAiParams};
use poseidon_types::{BitRate, Bytes, Nanos, Signals};

params! {
    /// PowerTCP's parameters.
    pub struct PowerTcpParams {
        /// γ: weight of the new window (section 3.3).
        gain: f64 = 0.9,
        /// N of β = HostBw·τ/N: flows expected to share a NIC (unstated; 10 in the public Linux code).
        expected_flows: f64 = 10.0,
        /// β as a rate, if not zero: what the ns-3 artifact uses, 150 Mbps.
        additive_increase: BitRate = BitRate::ZERO,
        /// τ: the base RTT of the whole network; 0 ns takes the path's own.
        network_rtt: Nanos = Nanos::ZERO,
        /// Power aimed at; the artifact divides by HPCC's η.
        target_power: f64 = 1.0,
        /// The (1 - γ) term uses the window of the last round trip instead of the present one (artifact).
        reference_term: bool = false,
        /// The smallest current, bytes per sample gap; the artifact floors it at half a byte.
        current_floor: f64 = 0.0,
        /// The smallest normalised power (public Linux code).
        power_floor: f64 = 0.01,
        /// The smallest window as a rate, if not zero (artifact); otherwise one packet (public Linux code).
        min_rate: BitRate = BitRate::ZERO,
        /// Update at most once per round trip (the reconfigurable datacenter of section 5).
        once_per_rtt: bool = false,
        /// Variable additive increase, which VAI/SF gives to HPCC: β grows for a while after a long queue.
        vai: bool = false,
        /// VAI: queue that means a flow has joined, the smallest bandwidth-delay product.
        vai_threshold: Bytes = Bytes::new(50_000),
        /// VAI: queue that earns one token.
        vai_per_token: Bytes = Bytes::new(1_000),
        /// Sampling frequency, which VAI/SF gives to HPCC: ACKs after which a shrinking window becomes `w_old`; 0 for once per round
        /// trip.
        sampling: u32 = 0,
    }
    presets {
        "artifact-ns3", "the constants of the public ns-3 code, from which figures 4-7 came", |p| {
            p.additive_increase = BitRate::from_mbps(150);
            p.target_power = 0.95;
            p.reference_term = true;
            p.current_floor = 0.5;
            p.power_floor = 0.0;
            p.min_rate = BitRate::from_mbps(100);
        };
    }
    check {
        gain: "above 0 and at most 1", |p| p.gain > 0.0 && p.gain <= 1.0;
        expected_flows: "at least 1", |p| p.expected_flows >= 1.0;
        target_power: "above 0 and at most 1", |p| p.target_power > 0.0 && p.target_power <= 1.0;
        current_floor: "not negative", |p| p.current_floor >= 0.0;
        power_floor: "between 0 and 1", |p| (0.0..=1.0).contains(&p.power_floor);
        vai_threshold: "above zero", |p| p.vai_threshold > Bytes::ZERO;
        vai_per_token: "above zero", |p| p.vai_per_token > Bytes::ZERO;
    }
}

/// The control law of Eq. 7, shared with θ-PowerTCP. Windows in bytes, times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PowerLaw {
    pub(super) window: f64,
    pub(super) history: WindowHistory,
    /// Γ, smoothed over τ.
    pub(super) power: f64,
    /// τ.
    pub(super) horizon: f64,
    gain: f64,
    increase: f64,
    min_window: f64,
    max_window: f64,
    mtu: f64,
    reference_term: bool,
}

impl PowerLaw {
    /// One bandwidth-delay product at line rate, power at its equilibrium.
    pub(super) fn new(params: &PowerTcpParams, path: &Path) -> Self {
        let horizon = ns(if params.network_rtt.is_zero() { path.base_rtt } else { params.network_rtt });
        let max_window = bytes_per_ns(path.line_rate) * horizon;
        let increase = if params.additive_increase.is_zero() {
            max_window / params.expected_flows
        } else {
            bytes_per_ns(params.additive_increase) * horizon
        };
        let smallest =
            if params.min_rate.is_zero() { bytes(path.mtu) } else { bytes_per_ns(params.min_rate) * horizon };
        Self {
            window: max_window,
            history: WindowHistory::new(max_window),
            power: 1.0,
            horizon,
            gain: params.gain,
            increase,
            min_window: smallest.min(max_window),
            max_window,
            mtu: bytes(path.mtu),
            reference_term: params.reference_term,
        }
    }

    /// Γ_smooth, Alg. 1 line 24.
    pub(super) fn smooth(&mut self, power: f64, elapsed: f64) {
        self.power = over_time(self.power, power, elapsed, self.horizon);
    }

    /// Alg. 1 line 27; `divisor` is the smoothed power over its target, `times` how often β is added.
    pub(super) fn update(&mut self, divisor: f64, times: f64) {
        let old = self.history.old();
        let kept = if self.reference_term { old } else { self.window };
        let window = self.gain * (old / divisor + self.increase * times) + (1.0 - self.gain) * kept;
        self.window = bounded(window, self.min_window, self.max_window);
    }

    /// Power is above its target, and the flow has at most three quarters of its line. The second condition is for a flow that fills
    /// a path alone: its power is above the target by its own β, and it gains nothing elsewhere. One of two has half and β.
    pub(super) fn is_congested(&self, target_power: f64) -> bool {
        self.power > target_power && self.window <= 0.75 * self.max_window
    }

    /// Line 6: rate = window/τ, always paced.
    pub(super) fn decision(&self) -> Decision {
        Decision {
            window: to_window(self.window / self.mtu),
            pacing: Pacing::Rate(to_rate(self.window / self.horizon)),
        }
    }
}

/// One flow under PowerTCP.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerTcp {
    law: PowerLaw,
    last: LastHops,
    target_power: f64,
    current_floor: f64,
    power_floor: f64,
    samples: Sampling,
    tokens: VariableAi,
    vai_threshold: f64,
    vai_per_token: f64,
    sampling: u32,
    once_per_rtt: bool,
    uses_vai: bool,
}

impl Law for PowerTcp {
    const NAME: &'static str = "powertcp";
    const SOURCE: &'static str = "Addanki et al., NSDI 2022, Alg. 1, Eq. 7";
    const STATE_LIMIT: usize = 448;
    type Params = PowerTcpParams;

    fn needs(_: &PowerTcpParams) -> Signals {
        Signals::HOP_RECORDS
    }

    fn new(params: &PowerTcpParams, path: &Path) -> Self {
        Self {
            law: PowerLaw::new(params, path),
            last: LastHops::default(),
            target_power: params.target_power,
            current_floor: params.current_floor,
            power_floor: params.power_floor,
            samples: Sampling::default(),
            tokens: VariableAi::default(),
            vai_threshold: bytes(params.vai_threshold),
            vai_per_token: bytes(params.vai_per_token),
            sampling: params.sampling,
            once_per_rtt: params.once_per_rtt,
            uses_vai: params.vai,
        }
    }

    /// Alg. 1, `NewAck`.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let round_ends = self.law.history.round_ends(ack.acked_seq, ack.next_seq);
        let mut moves = round_ends;
        if let Some((power, elapsed)) = self.normalised_power(ack) {
            self.law.smooth(power.max(self.power_floor), elapsed);
            let divisor = self.law.power / self.target_power;
            let shrinks = divisor > 1.0;
            // SF: a window that shrinks becomes the old one every so many ACKs, one that grows once per round trip.
            let due = self.samples.due(self.sampling);
            if shrinks && self.sampling > 0 {
                moves = due;
            }
            let times = if self.uses_vai { self.increases(ack, shrinks, round_ends, moves) } else { 1.0 };
            if !self.once_per_rtt || round_ends {
                self.law.update(divisor, times);
            }
        }
        if moves {
            self.law.history.keep(self.law.window);
            self.samples.moved();
        }
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: Nanos) {}

    fn is_congested(&self, _: &Ack<'_>) -> bool {
        self.law.is_congested(self.target_power)
    }

    fn decision(&self) -> Decision {
        self.law.decision()
    }
}

impl PowerTcp {
    /// VAI: how often β is added.
    fn increases(&mut self, ack: &Ack<'_>, shrinks: bool, round_ends: bool, moves: bool) -> f64 {
        let vai = VariableAiParams::published(self.vai_per_token);
        let longest = ack.hops.records.iter().map(|hop| hop.queue).max().unwrap_or(Bytes::ZERO);
        self.tokens.observe(bytes(longest), shrinks);
        if round_ends {
            self.tokens.end_round(self.vai_threshold, 0.0, &vai);
        }
        self.tokens.spend(moves, &vai)
    }

    /// Alg. 1, `NormPower`: the largest normalised power of any hop and the time it was measured over.
    fn normalised_power(&mut self, ack: &Ack<'_>) -> Option<(f64, f64)> {
        let mut worst: Option<(f64, f64)> = None;
        for hop in self.last.deltas(ack.hops) {
            let arrived = hop.queue - hop.old_queue + hop.sent;
            let current = arrived.max(self.current_floor) / hop.elapsed;
            let in_pipe = hop.rate * self.law.horizon;
            let power = current * (hop.queue + in_pipe) / (hop.rate * in_pipe);
            if worst.is_none_or(|(most, _)| power > most) {
                worst = Some((power, hop.elapsed));
            }
        }
        self.last.keep(ack.hops);
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{HopPath, HopRecord, Wrap};

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(25), base_rtt: Nanos::from_micros(28) };

    fn feed(law: &mut PowerTcp, us: u64, sent: u64, queue: u64) {
        let hop = HopRecord {
            at: Nanos::from_micros(us),
            sent: Bytes::new(sent),
            queue: Bytes::new(queue),
            rate: BitRate::from_gbps(25),
        };
        let hops = HopPath { records: &[hop], wrap: Wrap::NEVER };
        law.on_ack(&Ack { hops, acked_seq: us, next_seq: us + 28, ..Ack::EMPTY });
    }

    #[test]
    fn a_full_link_with_an_empty_queue_has_power_one() {
        let mut law = PowerTcp::new(&PowerTcpParams::default(), &PATH);
        assert_eq!(law.law.window, 87_500.0);
        (law.law.power, law.law.window) = (2.0, 40_000.0);
        law.law.history.keep(40_000.0);
        feed(&mut law, 0, 0, 0);
        feed(&mut law, 28, 87_500, 0);
        assert_eq!(law.law.power, 1.0);
        // γ(w + β) + (1-γ)w with β = 8750.
        assert!((law.law.window - (40_000.0 + 0.9 * 8_750.0)).abs() < 1e-9, "{}", law.law.window);
    }

    #[test]
    fn power_sees_a_growing_queue_before_it_is_long() {
        let mut law = PowerTcp::new(&PowerTcpParams::default(), &PATH);
        feed(&mut law, 0, 0, 0);
        // Twice the line rate arrives for 2.8 us: the queue is a tenth of the pipe, the current is doubled.
        feed(&mut law, 3, 9_375, 9_375);
        let sample = 2.0 * (9_375.0 + 87_500.0) / 87_500.0;
        assert!((law.law.power - (1.0 + (sample - 1.0) * 3.0 / 28.0)).abs() < 1e-12);
        assert!(law.law.window < 87_500.0);
    }

    #[test]
    fn variable_ai_adds_up_to_a_hundred_betas_after_a_long_queue() {
        let params =
            PowerTcpParams { vai: true, additive_increase: BitRate::from_mbps(50), ..PowerTcpParams::default() };
        let mut law = PowerTcp::new(&params, &PATH);
        let mut plain = PowerTcp::new(&PowerTcpParams { vai: false, ..params }, &PATH);
        // Two rounds with a queue of three pipes: 262 tokens, dampener 5.25; 50 Mbps are 175 B per round trip.
        for (us, sent) in [(0, 0), (28, 87_500), (84, 262_500)] {
            feed(&mut law, us, sent, 262_500);
            feed(&mut plain, us, sent, 262_500);
        }
        let more = 0.9 * 175.0 * (100.0 / (5.25 / 8.0 + 1.0) - 1.0);
        assert!((law.law.window - plain.law.window - more).abs() < 1e-6, "{} {more}", law.law.window);
    }

    #[test]
    fn sampling_keeps_a_shrinking_window_within_a_round_trip() {
        let params = PowerTcpParams { sampling: 30, ..PowerTcpParams::default() };
        let mut law = PowerTcp::new(&params, &PATH);
        for us in 0..=30 {
            feed(&mut law, us, us * 3_125, us * 3_125);
        }
        assert!(law.law.history.old() < 87_500.0, "{}", law.law.history.old());
    }

    #[test]
    fn the_artifact_aims_below_full_use() {
        let mut params = PowerTcpParams::default();
        crate::params::Params::preset(&mut params, "artifact-ns3").expect("a preset");
        let mut law = PowerTcp::new(&params, &PATH);
        law.law.window = 20_000.0;
        law.law.history.keep(60_000.0);
        feed(&mut law, 0, 0, 0);
        feed(&mut law, 28, 87_500, 0);
        // 0.9·(w_old·0.95 + β) + 0.1·w_old, β = 150 Mbps · 28 us = 525 B: the present window has no part in it.
        let expected = 0.9 * (60_000.0 * 0.95 + 525.0) + 0.1 * 60_000.0;
        assert!((law.law.window - expected).abs() < 1e-6, "{}", law.law.window);
    }
}
