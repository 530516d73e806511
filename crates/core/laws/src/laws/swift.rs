//! Swift: a window controlled by a target delay, which grows with the path length and the number of flows.
//!
//! ```text
//! Model      target(w) = base + hops · per_hop + flow_scaling(w),  flow_scaling = clamp(A/√w + B, 0, range)
//!            delay < target   w += ai per window
//!            delay ≥ target   w *= max(1 - β·(delay - target)/delay, 1 - max_mdf), once per round trip
//! ```
//!
//! Signals    the NIC-to-NIC RTT; the number of hops; the host delay for the endpoint window
//! Lifecycle  an initial window → additive increase, multiplicative decrease → below one packet, paced
//! Source     Kumar et al., SIGCOMM 2020. The constants come from Google's public Falcon simulator
//!            (`falcon-transport/isekai`), which Poseidon's evaluation also uses. The mechanisms `reference`, `vai`,
//!            `sampling` and `probabilistic` come from Snyder and Lebeck, "Fast convergence to fairness", sections
//!            III-D, IV and V.
//! Differs    - Flow scaling is a real number clamped to [0, range], with `fs_max` in both constants.
//!            - The VAI/SF paper prints the decrease floor as `max_mdf`. The floor is `1 - max_mdf`; the two are equal
//!              only at 0.5.
//!            - The endpoint window applies the same law to a smoothed endpoint delay. This window is off by default
//!              because the endpoint delay is zero in all four evaluations.
//!            - The window does not grow while the flow is application-limited, unless `strict-paper` is set.
//! Limits     On a path with two congested hops the delays add up, and the flow gets less than its share. Poseidon
//!            solves this problem.

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, MAX_RTT, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bytes_per_ns, clamp, ns, packets, to_nanos, to_window};
use crate::parts::probabilistic;
use crate::parts::round_trip::{LastCut, RoundTrip};
use crate::parts::sampling::Sampling;
use crate::parts::variable_ai::{VariableAi, VariableAiParams};
use poseidon_types::{BitRate, Nanos, Packets, Signals};

params! {
    /// Parameters of [`Swift`]. The defaults match Poseidon's evaluation.
    pub struct SwiftParams {
        /// The fixed part of the target (Poseidon section 5).
        base_target: Nanos = Nanos::from_micros(25),
        /// The target's increase per switch (Poseidon section 5).
        per_hop: Nanos = Nanos::from_micros(1),
        /// The largest flow scaling (Poseidon section 5); 0 ns disables it.
        scaling_range: Nanos = Nanos::from_micros(100),
        /// The window at which flow scaling is largest (Falcon).
        scaling_min_window: Packets = Packets::from_q24(1_677_722),
        /// The window at which flow scaling is zero (Falcon; 100 and 50 in VAI/SF).
        scaling_max_window: Packets = Packets::whole(256),
        /// The additive increase per round trip (Falcon).
        additive_increase: Packets = Packets::ONE,
        /// The additive increase as a rate per round trip, if not zero (50 Mbps in VAI/SF).
        additive_increase_rate: BitRate = BitRate::ZERO,
        /// β: the decrease per relative excess delay (SIGCOMM 2020).
        beta: f64 = 0.8,
        /// The strongest decrease (SIGCOMM 2020).
        max_decrease: f64 = 0.5,
        /// The initial window (Falcon).
        initial_window: Packets = Packets::whole(32),
        /// Start with one bandwidth-delay product at line rate, which is then also the largest window (VAI/SF).
        line_rate_start: bool = false,
        /// The smallest window (Falcon).
        min_window: Packets = Packets::from_q24(167_772),
        /// The largest window (Falcon).
        max_window: Packets = Packets::whole(256),
        /// The number of consecutive timeouts after which the window resets to the smallest (Falcon).
        reset_after: u32 = 3,
        /// The target delay of the endpoint window; 0 ns disables the endpoint window.
        endpoint_target: Nanos = Nanos::ZERO,
        /// Compute each window from a reference window and always add the increase (VAI/SF section V-B).
        reference: bool = false,
        /// Use variable additive increase (VAI/SF section IV-A).
        vai: bool = false,
        /// VAI: the queueing delay of the smallest bandwidth-delay product, added to the target (section V-A).
        vai_threshold: Nanos = Nanos::from_micros(4),
        /// VAI: the queueing delay that earns one token.
        vai_per_token: Nanos = Nanos::new(30),
        /// Sampling frequency: the number of ACKs between decreases (VAI/SF section IV-B); 0 means once per round trip.
        sampling: u32 = 0,
        /// Use probabilistic feedback (VAI/SF section III-D).
        probabilistic: bool = false,
        /// Grow even if the flow is application-limited.
        strict_paper: bool = false,
    }
    presets {
        "vai-sf-base", "the Swift of the VAI + SF evaluation (section III-D)", |p| {
            p.base_target = Nanos::from_micros(5);
            p.per_hop = Nanos::from_micros(2);
            p.scaling_max_window = Packets::whole(100);
            p.additive_increase_rate = BitRate::from_mbps(50);
            p.line_rate_start = true;
        };
        "vai-sf", "Swift with VAI and SF, as evaluated: reference window, no flow scaling", |p| {
            p.base_target = Nanos::from_micros(5);
            p.per_hop = Nanos::from_micros(2);
            p.scaling_range = Nanos::ZERO;
            p.additive_increase_rate = BitRate::from_mbps(50);
            p.line_rate_start = true;
            p.reference = true;
            p.vai = true;
            p.sampling = 30;
        };
    }
    check {
        base_target: "above zero", |p| p.base_target > Nanos::ZERO;
        scaling_min_window: "above zero and below scaling_max_window",
            |p| p.scaling_min_window > Packets::ZERO && p.scaling_min_window < p.scaling_max_window;
        beta: "above 0 and at most 1", |p| p.beta > 0.0 && p.beta <= 1.0;
        max_decrease: "above 0 and below 1", |p| p.max_decrease > 0.0 && p.max_decrease < 1.0;
        min_window: "between 0.001 and 1 packets",
            |p| (Packets::from_q24(16_777)..=Packets::ONE).contains(&p.min_window);
        max_window: "between 1 and 32768 packets",
            |p| p.max_window >= Packets::ONE && p.max_window <= Packets::MAX_WINDOW;
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
        reset_after: "between 1 and 255", |p| (1..=255).contains(&p.reset_after);
        vai_per_token: "above zero", |p| p.vai_per_token > Nanos::ZERO;
    }
}

/// The weight of a new endpoint delay sample. Endpoint delay is bursty, so the law smooths it (SIGCOMM 2020 section
/// 3.2).
const ENDPOINT_WEIGHT: f64 = 0.25;

/// The state of one Swift flow. Delays are in ns, windows in packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Swift {
    window: f64,
    /// The window that changes once per round trip or sampling period. This field equals `window` if `reference` is
    /// off.
    reference: f64,
    last_cut: LastCut,
    rtt: Nanos,
    timeouts: u32,
    endpoint: Endpoint,
    round: RoundTrip,
    sampling_counter: Sampling,
    vai: VariableAi,

    base_target: f64,
    per_hop: f64,
    scaling: Scaling,
    increase: f64,
    beta: f64,
    min_factor: f64,
    min_window: f64,
    max_window: f64,
    base_rtt: f64,
    vai_threshold: f64,
    vai_params: VariableAiParams,
    reset_after: u32,
    sampling: u32,
    uses_reference: bool,
    uses_vai: bool,
    probabilistic: bool,
    strict_paper: bool,
}

/// The window controlled by the endpoint delay.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Endpoint {
    window: f64,
    delay: f64,
    target: f64,
    last_cut: LastCut,
}

/// Flow scaling: `clamp(a/√w + b, 0, range)`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scaling {
    a: f64,
    b: f64,
    range: f64,
}

impl Scaling {
    fn new(range: Nanos, min_window: Packets, max_window: Packets) -> Self {
        let inv_sqrt = |window| 1.0 / libm::sqrt(packets(window));
        let a = ns(range) / (inv_sqrt(min_window) - inv_sqrt(max_window));
        Self { a, b: -a * inv_sqrt(max_window), range: ns(range) }
    }

    #[inline]
    fn delay(&self, window: f64) -> f64 {
        clamp(self.a / libm::sqrt(window) + self.b, 0.0, self.range)
    }
}

impl LawDefinition for Swift {
    const NAME: &'static str = "swift";
    const SOURCE: &'static str = "Kumar et al., SIGCOMM 2020; VAI and SF by Snyder and Lebeck";
    const STATE_LIMIT: usize = 384;
    type Params = SwiftParams;

    fn needs(params: &SwiftParams) -> Signals {
        let hops = if params.per_hop.is_zero() { Signals::NONE } else { Signals::HOP_COUNT };
        let endpoint = if params.endpoint_target.is_zero() { Signals::NONE } else { Signals::ENDPOINT_DELAY };
        Signals::RTT | hops | endpoint
    }

    fn new(params: &SwiftParams, path: &Path) -> Self {
        let mtu = path.mtu.get() as f64;
        let base_rtt = ns(path.base_rtt);
        let (min_window, max_window) = (packets(params.min_window), packets(params.max_window));
        let (start, max_window) = if params.line_rate_start {
            let bdp = clamp(bytes_per_ns(path.line_rate) * base_rtt / mtu, 1.0, max_window);
            (bdp, bdp)
        } else {
            (packets(params.initial_window), max_window)
        };
        let window = clamp(start, min_window, max_window);
        let increase = if params.additive_increase_rate.is_zero() {
            packets(params.additive_increase)
        } else {
            bytes_per_ns(params.additive_increase_rate) * base_rtt / mtu
        };
        Self {
            window,
            reference: window,
            last_cut: LastCut::NEVER,
            rtt: path.base_rtt,
            timeouts: 0,
            endpoint: Endpoint {
                window: max_window,
                delay: 0.0,
                target: ns(params.endpoint_target),
                last_cut: LastCut::NEVER,
            },
            round: RoundTrip::default(),
            sampling_counter: Sampling::default(),
            vai: VariableAi::default(),
            base_target: ns(params.base_target),
            per_hop: ns(params.per_hop),
            scaling: Scaling::new(params.scaling_range, params.scaling_min_window, params.scaling_max_window),
            increase,
            beta: params.beta,
            min_factor: 1.0 - params.max_decrease,
            min_window,
            max_window,
            base_rtt,
            vai_threshold: ns(params.vai_threshold),
            vai_params: VariableAiParams::published(ns(params.vai_per_token)),
            reset_after: params.reset_after,
            sampling: params.sampling,
            uses_reference: params.reference,
            uses_vai: params.vai,
            probabilistic: params.probabilistic,
            strict_paper: params.strict_paper,
        }
    }
}

impl Law for Swift {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.timeouts = 0;
        self.rtt = ack.rtt.min(MAX_RTT);
        let delay = ns(ack.rtt);
        let target = self.target_delay(ack);
        let congested = delay >= target;
        let round_ended = self.round.ends_with(ack.acked_seq, ack.next_seq);
        if self.uses_vai {
            self.vai.observe(delay, congested);
            if round_ended {
                self.vai.end_round(target + self.vai_threshold, self.base_rtt, &self.vai_params);
            }
        }
        if congested || !ack.app_limited || self.strict_paper {
            if self.uses_reference {
                self.update_from_reference(ack, delay, target, round_ended);
            } else {
                self.update_window(ack, delay, target, round_ended);
            }
        }
        if self.endpoint.target > 0.0 {
            self.update_endpoint_window(ack);
        }
    }

    /// Returns whether the RTT exceeds 1.01 times the target without flow scaling, as in Google's Falcon simulator.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        ns(ack.rtt) > 1.01 * self.unscaled_target_delay(ack)
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.timeouts = 0;
        self.cut_once(loss.now);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= self.reset_after {
            self.set_window(self.min_window, timeout.now);
            self.reference = self.window;
        } else {
            self.cut_once(timeout.now);
        }
    }

    fn target(&self, hop_count: u8) -> Option<Nanos> {
        Some(to_nanos(self.target_delay(&Ack { hop_count, ..Ack::EMPTY })))
    }

    fn decision(&self) -> Decision {
        let window = self.window.min(self.endpoint.window);
        let pacing = if window < 1.0 { Pacing::Gap(to_nanos(ns(self.rtt) / window)) } else { Pacing::Off };
        Decision { window: to_window(window), pacing }
    }
}

impl Swift {
    /// Returns the target delay for this ACK: base, hops and flow scaling. Flow scaling depends on the window, so the
    /// target changes with every ACK.
    #[inline]
    fn target_delay(&self, ack: &Ack<'_>) -> f64 {
        self.unscaled_target_delay(ack) + self.scaling.delay(self.window)
    }

    /// Returns the target delay without flow scaling.
    #[inline]
    fn unscaled_target_delay(&self, ack: &Ack<'_>) -> f64 {
        self.base_target + f64::from(ack.hop_count) * self.per_hop
    }

    /// Updates the window as described in SIGCOMM 2020, with VAI and SF if they are enabled.
    fn update_window(&mut self, ack: &Ack<'_>, delay: f64, target: f64, round_ended: bool) {
        let sampling_due = self.sampling_counter.on_ack(self.sampling);
        if delay < target {
            let tokens = if self.uses_vai { self.vai.spend(round_ended, &self.vai_params) } else { 1.0 };
            let grown = self.window + self.growth(ack.packets, self.window) * tokens;
            self.set_window(grown, ack.now);
        } else {
            let may_cut =
                if self.sampling > 0 { sampling_due } else { self.last_cut.elapsed(ack.now) >= ack.rtt };
            if may_cut {
                // An ignored decrease counts as applied, so the law draws one random number per decrease, not per ACK.
                self.sampling_counter.reset();
                self.last_cut.record(ack.now);
                if !self.ignores_decrease(ack.random) {
                    self.set_window(self.window * self.decrease_factor(delay, target), ack.now);
                }
            }
        }
        self.reference = self.window;
    }

    /// Computes the window from the reference window and always adds the increase (VAI/SF section V-B).
    fn update_from_reference(&mut self, ack: &Ack<'_>, delay: f64, target: f64, round_ended: bool) {
        let sampling_due = self.sampling_counter.on_ack(self.sampling);
        let should_decrease = delay >= target;
        let updates_reference = if should_decrease && self.sampling > 0 { sampling_due } else { round_ended };
        if should_decrease && updates_reference && self.ignores_decrease(ack.random) {
            self.sampling_counter.reset();
            return;
        }
        let tokens = if self.uses_vai { self.vai.spend(updates_reference, &self.vai_params) } else { 1.0 };
        let base = if should_decrease {
            self.reference * self.decrease_factor(delay, target)
        } else {
            self.reference
        };
        self.set_window(base + self.increase * tokens, ack.now);
        if updates_reference {
            self.reference = self.window;
            self.sampling_counter.reset();
        }
    }

    /// Returns the growth for one ACK: the increase per window, or per packet if the window is below one packet.
    fn growth(&self, acked: u32, window: f64) -> f64 {
        let per_packet = if window >= 1.0 { self.increase / window } else { self.increase };
        per_packet * f64::from(acked)
    }

    /// Returns max(1 - β·(delay - target)/delay, 1 - max_mdf).
    fn decrease_factor(&self, delay: f64, target: f64) -> f64 {
        clamp(1.0 - self.beta * (delay - target) / delay, self.min_factor, 1.0)
    }

    fn ignores_decrease(&self, random: u32) -> bool {
        self.probabilistic && probabilistic::ignores_decrease(self.reference, self.max_window, random)
    }

    /// Applies the strongest decrease, at most once per round trip.
    fn cut_once(&mut self, now: Nanos) {
        if self.last_cut.elapsed(now) >= self.rtt {
            self.set_window(self.window * self.min_factor, now);
            self.reference = self.window;
        }
    }

    fn set_window(&mut self, window: f64, now: Nanos) {
        let window = clamp(window, self.min_window, self.max_window);
        if window < self.window {
            self.last_cut.record(now);
        }
        self.window = window;
    }

    /// Applies the same law, with a fixed target, to the delay inside the hosts.
    fn update_endpoint_window(&mut self, ack: &Ack<'_>) {
        let mut endpoint = self.endpoint;
        endpoint.delay = blend(endpoint.delay, ns(ack.endpoint_delay), ENDPOINT_WEIGHT);
        if endpoint.delay < endpoint.target {
            endpoint.window += self.growth(ack.packets, endpoint.window);
        } else if endpoint.last_cut.elapsed(ack.now) >= ack.rtt {
            endpoint.last_cut.record(ack.now);
            endpoint.window *= self.decrease_factor(endpoint.delay, endpoint.target);
        }
        endpoint.window = clamp(endpoint.window, self.min_window, self.max_window);
        self.endpoint = endpoint;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;
    use poseidon_types::Bytes;

    const PATH: Path =
        Path { mtu: Bytes::new(4_096), line_rate: BitRate::from_gbps(200), base_rtt: Nanos::new(9_900) };

    fn ack(now_us: u64, rtt_us: u64) -> Ack<'static> {
        Ack {
            now: Nanos::from_micros(now_us),
            rtt: Nanos::from_micros(rtt_us),
            packets: 1,
            hop_count: 5,
            ..Ack::EMPTY
        }
    }

    #[test]
    fn flow_scaling_matches_the_published_values() {
        // Flow scaling spans 100 us between windows of 0.1 and 256 packets.
        let params = SwiftParams::default();
        let scaling =
            Scaling::new(params.scaling_range, params.scaling_min_window, params.scaling_max_window);
        for (window, us) in
            [(1.0, 30.2), (10.0, 8.2), (100.0, 1.2), (256.0, 0.0), (1_000.0, 0.0), (0.01, 100.0)]
        {
            let actual = scaling.delay(window) / 1_000.0;
            assert!((actual - us).abs() < 0.06, "window {window}: {actual}");
        }
    }

    #[test]
    fn the_window_is_at_most_halved_once_per_round_trip() {
        let mut swift = Swift::new(&SwiftParams::default(), &PATH);
        swift.on_ack(&ack(100, 1_000));
        assert_eq!(swift.window, 16.0);
        swift.on_ack(&ack(1_099, 1_000));
        assert_eq!(swift.window, 16.0, "the last cut was less than a round trip ago");
        swift.on_ack(&ack(1_100, 1_000));
        assert_eq!(swift.window, 8.0);
    }

    #[test]
    fn the_window_grows_by_one_packet_per_window() {
        let mut swift = Swift::new(&SwiftParams::default(), &PATH);
        for _ in 0..32 {
            swift.on_ack(&ack(100, 12));
        }
        assert!((swift.window - 33.0).abs() < 0.02, "{}", swift.window);
    }

    #[test]
    fn three_consecutive_timeouts_reset_the_window() {
        let mut swift = Swift::new(&SwiftParams::default(), &PATH);
        for i in 1..=3 {
            swift.on_timeout(&Timeout { now: Nanos::from_millis(i), bytes: Bytes::ZERO });
        }
        assert_eq!(to_window(swift.window), SwiftParams::default().min_window);
        assert!(matches!(swift.decision().pacing, Pacing::Gap(_)));
    }

    #[test]
    fn decreases_in_one_round_do_not_compound_with_a_reference_window() {
        let mut params = SwiftParams::default();
        params.apply_preset("vai-sf").expect("the preset exists");
        params.vai = false;
        params.sampling = 0;
        let mut swift = Swift::new(&params, &PATH);
        let start = swift.window;
        let mut delayed = ack(100, 1_000);
        (delayed.acked_seq, delayed.next_seq) = (1, 1_000);
        swift.on_ack(&delayed);
        let after_one_cut = swift.window;
        swift.on_ack(&delayed);
        assert_eq!(swift.window, after_one_cut);
        assert!(
            after_one_cut > 0.5 * start && after_one_cut < 0.6 * start,
            "half the window plus the increase: {after_one_cut}"
        );
        delayed.acked_seq = 1_001;
        swift.on_ack(&delayed);
        swift.on_ack(&delayed);
        assert!(swift.window < 0.6 * after_one_cut, "the reference changes after a round trip");
    }

    #[test]
    fn the_endpoint_window_limits_a_flow_with_slow_hosts() {
        let params = SwiftParams { endpoint_target: Nanos::from_micros(50), ..SwiftParams::default() };
        assert!(Swift::needs(&params).contains(Signals::ENDPOINT_DELAY));
        let mut swift = Swift::new(&params, &PATH);
        for i in 0..40 {
            let slow = Ack { endpoint_delay: Nanos::from_millis(1), ..ack(i * 100, 12) };
            swift.on_ack(&slow);
        }
        assert!(swift.decision().window < Packets::whole(1));
    }

    #[test]
    fn a_slow_flow_ignores_most_decreases_and_draws_once_per_decrease() {
        let params = SwiftParams { probabilistic: true, ..SwiftParams::default() };
        // At 32 of 256 packets, a flow ignores seven of eight decreases.
        let mut unchanged = 0;
        for i in 0..1_000u32 {
            let mut swift = Swift::new(&params, &PATH);
            for n in 0..40u32 {
                let random = (i * 40 + n).wrapping_mul(0x9e37_79b9);
                swift.on_ack(&Ack { random, ..ack(100 + u64::from(n), 1_000) });
            }
            unchanged += u32::from(swift.window == 32.0);
        }
        assert!((840..=910).contains(&unchanged), "{unchanged} of 1000 windows are unchanged");
    }

    #[test]
    fn the_line_rate_start_window_is_also_the_largest_window() {
        let mut params = SwiftParams::default();
        params.apply_preset("vai-sf-base").expect("the preset exists");
        let mut swift = Swift::new(&params, &PATH);
        let bdp = 200e9 * 9.9e-6 / 8.0 / 4_096.0;
        assert!((swift.window - bdp).abs() < 1e-9, "{}", swift.window);
        swift.on_ack(&ack(100, 5));
        assert_eq!(swift.window, swift.max_window);
    }

    #[test]
    fn sampling_allows_a_decrease_every_thirty_acks() {
        let params = SwiftParams { sampling: 30, ..SwiftParams::default() };
        let mut swift = Swift::new(&params, &PATH);
        let mut cuts = std::vec::Vec::new();
        for n in 1..=90 {
            let before = swift.window;
            swift.on_ack(&ack(100, 1_000));
            if swift.window < before {
                cuts.push(n);
            }
        }
        assert_eq!(cuts, [30, 60, 90], "all ACKs are within one round trip");
    }

    #[test]
    fn variable_ai_grows_faster_after_a_long_queue() {
        let grown = |vai| {
            let params = SwiftParams { vai, scaling_range: Nanos::ZERO, ..SwiftParams::default() };
            let mut swift = Swift::new(&params, &PATH);
            let round = |swift: &mut Swift, n: u64, rtt_us| {
                swift.on_ack(&Ack { acked_seq: n, next_seq: n, ..ack(100 * n, rtt_us) });
            };
            // A round with a delay of 100 us, far above the target of 30 us + 4 us, ends with the next ACK.
            for n in 1..=3 {
                round(&mut swift, n, 100);
            }
            let before = swift.window;
            round(&mut swift, 4, 12);
            swift.window - before
        };
        assert!(grown(true) > 10.0 * grown(false), "{} {}", grown(true), grown(false));
    }
}
