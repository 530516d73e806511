//! PowerTCP: a window controlled by power, the product of the data in the pipe and its rate.
//!
//! ```text
//! Model      per hop   λ = dq/dt + txRate  (current)    ν = q + B·τ  (voltage)    Γ = λ·ν  (power)
//!            normalised  Γ/(B²·τ): 1 if the link is fully used and the queue is empty and constant
//!            w ← γ·(w_old/Γ + β) + (1 - γ)·w
//! ```
//!
//! Why fast   A queue-based law reacts only after a queue has formed. A gradient-based law cannot distinguish an empty
//!            queue from a full queue. Power reflects both, because Γ equals B times the arriving window (Property 1).
//! Signals    one record per hop {queue, bytes sent, time, rate}
//! Lifecycle  one bandwidth-delay product at line rate → w = b·τ + Σβ, queue Σβ (Theorem 1), within a few updates
//!            (Theorem 2), β-proportionally fair (Theorem 3)
//! Source     Addanki et al., NSDI 2022, algorithm 1
//! Differs    - Lines 20-21 compare and store raw power. Both public artifacts use normalised power; with raw power the
//!              fastest link would always win.
//!            - The first ACK only stores its hop records. The artifact compares them with zeros.
//!            - Normalised power is at least 0.01, as in the public Linux code. Alg. 1 could divide by zero.
//!            - The `artifact-ns3` preset follows the public ns-3 code: η = 0.95, the reference rate in the (1 - γ)
//!              term, a floor on λ instead of on power, a β of 150 Mbps and a minimum rate of 100 Mbps.
//!            - `vai` and `sampling` (off by default) are the mechanisms that Snyder and Lebeck add to HPCC.
//! Limits     Designed for lossless fabrics: a loss does not change the window, as in the public Linux code. There is
//!            no special case for an application-limited flow, because the window never exceeds one bandwidth-delay
//!            product.

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::time_weighted_average;
use crate::parts::float::{bytes, bytes_per_ns, clamp, ns, to_rate, to_window};
use crate::parts::hop_delta::LastHops;
use crate::parts::sampling::Sampling;
use crate::parts::variable_ai::{VariableAi, VariableAiParams};
use crate::parts::window_history::WindowHistory;
use poseidon_types::{BitRate, Bytes, Nanos, Signals};

params! {
    /// Parameters of [`PowerTcp`].
    pub struct PowerTcpParams {
        /// γ: the weight of the new window (section 3.3).
        gain: f64 = 0.9,
        /// N in β = HostBw·τ/N: the expected number of flows per NIC (not stated; 10 in the public Linux code).
        expected_flows: f64 = 10.0,
        /// β as a rate, used if not zero (150 Mbps in the ns-3 artifact).
        additive_increase: BitRate = BitRate::ZERO,
        /// τ: the network-wide base RTT; 0 ns means the path's base RTT.
        network_rtt: Nanos = Nanos::ZERO,
        /// The target power; the artifact divides by HPCC's η.
        target_power: f64 = 1.0,
        /// In the (1 - γ) term, use the last round trip's window instead of the current window (artifact).
        reference_term: bool = false,
        /// The smallest current in bytes per sample interval (half a byte in the artifact).
        current_floor: f64 = 0.0,
        /// The smallest normalised power (public Linux code).
        power_floor: f64 = 0.01,
        /// The minimum window as a rate, if not zero (artifact); otherwise the minimum is one packet (public Linux
        /// code).
        min_rate: BitRate = BitRate::ZERO,
        /// Update at most once per round trip (for the reconfigurable datacenter in section 5).
        once_per_rtt: bool = false,
        /// Use variable additive increase, like VAI/SF for HPCC: β grows for a while after a long queue.
        vai: bool = false,
        /// VAI: the queue length that indicates a new flow, equal to the smallest bandwidth-delay product.
        vai_threshold: Bytes = Bytes::new(50_000),
        /// VAI: the queue length that earns one token.
        vai_per_token: Bytes = Bytes::new(1_000),
        /// Sampling frequency: the number of ACKs after which a shrinking window becomes `w_old`; 0 means once per RTT.
        sampling: u32 = 0,
    }
    presets {
        "artifact-ns3", "the constants of the public ns-3 code, which produced figures 4-7", |p| {
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

/// The control law of Eq. 7, shared with θ-PowerTCP. Windows are in bytes, times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PowerLaw {
    pub(super) window: f64,
    pub(super) history: WindowHistory,
    /// The normalised power Γ, smoothed over τ.
    pub(super) power: f64,
    /// The smoothing horizon τ.
    pub(super) horizon: f64,
    gain: f64,
    increase: f64,
    min_window: f64,
    max_window: f64,
    mtu: f64,
    reference_term: bool,
}

impl PowerLaw {
    /// Starts with a window of one bandwidth-delay product at line rate and with power at equilibrium.
    pub(super) fn new(params: &PowerTcpParams, path: &Path) -> Self {
        let horizon = ns(if params.network_rtt.is_zero() { path.base_rtt } else { params.network_rtt });
        let max_window = bytes_per_ns(path.line_rate) * horizon;
        let increase = if params.additive_increase.is_zero() {
            max_window / params.expected_flows
        } else {
            bytes_per_ns(params.additive_increase) * horizon
        };
        let min_window =
            if params.min_rate.is_zero() { bytes(path.mtu) } else { bytes_per_ns(params.min_rate) * horizon };
        Self {
            window: max_window,
            history: WindowHistory::new(max_window),
            power: 1.0,
            horizon,
            gain: params.gain,
            increase,
            min_window: min_window.min(max_window),
            max_window,
            mtu: bytes(path.mtu),
            reference_term: params.reference_term,
        }
    }

    /// Updates the smoothed power (Alg. 1 line 24).
    pub(super) fn smooth(&mut self, power: f64, elapsed: f64) {
        self.power = time_weighted_average(self.power, power, elapsed, self.horizon);
    }

    /// Updates the window (Alg. 1 line 27).
    ///
    /// `divisor` is the smoothed power divided by its target. `increases` is the number of times β is added.
    pub(super) fn update(&mut self, divisor: f64, increases: f64) {
        let previous = self.history.previous();
        let current = if self.reference_term { previous } else { self.window };
        let window =
            self.gain * (previous / divisor + self.increase * increases) + (1.0 - self.gain) * current;
        self.window = clamp(window, self.min_window, self.max_window);
    }

    /// Returns whether power is above its target and the flow gets at most three quarters of its line rate.
    ///
    /// The second condition excludes a flow that fills a path alone: its own β keeps power above the target, but
    /// another path would be no better. Each of two flows gets half of the line rate plus β.
    pub(super) fn is_congested(&self, target_power: f64) -> bool {
        self.power > target_power && self.window <= 0.75 * self.max_window
    }

    /// Always paces at window/τ (line 6).
    pub(super) fn decision(&self) -> Decision {
        Decision {
            window: to_window(self.window / self.mtu),
            pacing: Pacing::Rate(to_rate(self.window / self.horizon)),
        }
    }
}

/// The state of one PowerTCP flow.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerTcp {
    law: PowerLaw,
    last_hops: LastHops,
    target_power: f64,
    current_floor: f64,
    power_floor: f64,
    sampling_counter: Sampling,
    vai: VariableAi,
    vai_threshold: f64,
    vai_per_token: f64,
    sampling: u32,
    once_per_rtt: bool,
    uses_vai: bool,
}

impl LawDefinition for PowerTcp {
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
            last_hops: LastHops::default(),
            target_power: params.target_power,
            current_floor: params.current_floor,
            power_floor: params.power_floor,
            sampling_counter: Sampling::default(),
            vai: VariableAi::default(),
            vai_threshold: bytes(params.vai_threshold),
            vai_per_token: bytes(params.vai_per_token),
            sampling: params.sampling,
            once_per_rtt: params.once_per_rtt,
            uses_vai: params.vai,
        }
    }
}

impl Law for PowerTcp {
    /// Implements `NewAck` from Alg. 1.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let round_ends = self.law.history.ends_round(ack.acked_seq, ack.next_seq);
        let mut stores_window = round_ends;
        if let Some((power, elapsed)) = self.normalised_power(ack) {
            self.law.smooth(power.max(self.power_floor), elapsed);
            let divisor = self.law.power / self.target_power;
            let is_shrinking = divisor > 1.0;
            // SF: a shrinking window becomes `w_old` every `sampling` ACKs, a growing window once per round trip.
            let sampling_due = self.sampling_counter.on_ack(self.sampling);
            if is_shrinking && self.sampling > 0 {
                stores_window = sampling_due;
            }
            let increases = if self.uses_vai {
                self.vai_increases(ack, is_shrinking, round_ends, stores_window)
            } else {
                1.0
            };
            if !self.once_per_rtt || round_ends {
                self.law.update(divisor, increases);
            }
        }
        if stores_window {
            self.law.history.store(self.law.window);
            self.sampling_counter.reset();
        }
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    fn is_congested(&self, _: &Ack<'_>) -> bool {
        self.law.is_congested(self.target_power)
    }

    fn decision(&self) -> Decision {
        self.law.decision()
    }
}

impl PowerTcp {
    /// Returns the number of times that VAI adds β.
    fn vai_increases(
        &mut self,
        ack: &Ack<'_>,
        is_shrinking: bool,
        round_ends: bool,
        stores_window: bool,
    ) -> f64 {
        let params = VariableAiParams::published(self.vai_per_token);
        let longest_queue = ack.hops.records.iter().map(|hop| hop.queue).max().unwrap_or(Bytes::ZERO);
        self.vai.observe(bytes(longest_queue), is_shrinking);
        if round_ends {
            self.vai.end_round(self.vai_threshold, 0.0, &params);
        }
        self.vai.spend(stores_window, &params)
    }

    /// Returns the largest normalised power at any hop and its measurement interval (`NormPower` in Alg. 1).
    fn normalised_power(&mut self, ack: &Ack<'_>) -> Option<(f64, f64)> {
        let mut worst: Option<(f64, f64)> = None;
        for hop in self.last_hops.deltas(ack.hops) {
            let arrived = hop.queue - hop.old_queue + hop.sent;
            let current = arrived.max(self.current_floor) / hop.elapsed;
            let bdp = hop.rate * self.law.horizon;
            let power = current * (hop.queue + bdp) / (hop.rate * bdp);
            if worst.is_none_or(|(max, _)| power > max) {
                worst = Some((power, hop.elapsed));
            }
        }
        self.last_hops.store(ack.hops);
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;
    use poseidon_types::{CounterWrap, HopPath, HopRecord};

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(25), base_rtt: Nanos::from_micros(28) };

    fn feed(law: &mut PowerTcp, us: u64, sent: u64, queue: u64) {
        let hop = HopRecord {
            timestamp: Nanos::from_micros(us),
            sent: Bytes::new(sent),
            queue: Bytes::new(queue),
            rate: BitRate::from_gbps(25),
        };
        let hops = HopPath { records: &[hop], wrap: CounterWrap::NEVER };
        law.on_ack(&Ack { hops, acked_seq: us, next_seq: us + 28, ..Ack::EMPTY });
    }

    #[test]
    fn a_fully_used_link_with_an_empty_queue_has_power_one() {
        let mut law = PowerTcp::new(&PowerTcpParams::default(), &PATH);
        assert_eq!(law.law.window, 87_500.0);
        (law.law.power, law.law.window) = (2.0, 40_000.0);
        law.law.history.store(40_000.0);
        feed(&mut law, 0, 0, 0);
        feed(&mut law, 28, 87_500, 0);
        assert_eq!(law.law.power, 1.0);
        // γ(w + β) + (1-γ)w with β = 8750.
        assert!((law.law.window - (40_000.0 + 0.9 * 8_750.0)).abs() < 1e-9, "{}", law.law.window);
    }

    #[test]
    fn power_rises_before_a_growing_queue_is_long() {
        let mut law = PowerTcp::new(&PowerTcpParams::default(), &PATH);
        feed(&mut law, 0, 0, 0);
        // Data arrives at twice the line rate for 3 us: the queue is a tenth of the pipe and the current doubles.
        feed(&mut law, 3, 9_375, 9_375);
        let sample = 2.0 * (9_375.0 + 87_500.0) / 87_500.0;
        assert!((law.law.power - (1.0 + (sample - 1.0) * 3.0 / 28.0)).abs() < 1e-12);
        assert!(law.law.window < 87_500.0);
    }

    #[test]
    fn variable_ai_adds_up_to_a_hundred_betas_after_a_long_queue() {
        let params = PowerTcpParams {
            vai: true,
            additive_increase: BitRate::from_mbps(50),
            ..PowerTcpParams::default()
        };
        let mut law = PowerTcp::new(&params, &PATH);
        let mut plain = PowerTcp::new(&PowerTcpParams { vai: false, ..params }, &PATH);
        // Two rounds with a queue of three pipes earn 262 tokens at a dampener of 5.25. 50 Mbps is 175 B per round
        // trip.
        for (us, sent) in [(0, 0), (28, 87_500), (84, 262_500)] {
            feed(&mut law, us, sent, 262_500);
            feed(&mut plain, us, sent, 262_500);
        }
        let extra = 0.9 * 175.0 * (100.0 / (5.25 / 8.0 + 1.0) - 1.0);
        assert!((law.law.window - plain.law.window - extra).abs() < 1e-6, "{} {extra}", law.law.window);
    }

    #[test]
    fn sampling_stores_a_shrinking_window_within_a_round_trip() {
        let params = PowerTcpParams { sampling: 30, ..PowerTcpParams::default() };
        let mut law = PowerTcp::new(&params, &PATH);
        for us in 0..=30 {
            feed(&mut law, us, us * 3_125, us * 3_125);
        }
        assert!(law.law.history.previous() < 87_500.0, "{}", law.law.history.previous());
    }

    #[test]
    fn the_artifact_targets_less_than_full_utilisation() {
        let mut params = PowerTcpParams::default();
        params.apply_preset("artifact-ns3").expect("the preset exists");
        let mut law = PowerTcp::new(&params, &PATH);
        law.law.window = 20_000.0;
        law.law.history.store(60_000.0);
        feed(&mut law, 0, 0, 0);
        feed(&mut law, 28, 87_500, 0);
        // 0.9·(w_old·0.95 + β) + 0.1·w_old with β = 150 Mbps · 28 us = 525 B. The current window is not used.
        let expected = 0.9 * (60_000.0 * 0.95 + 525.0) + 0.1 * 60_000.0;
        assert!((law.law.window - expected).abs() < 1e-6, "{}", law.law.window);
    }
}
