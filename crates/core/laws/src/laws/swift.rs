//! Swift: one window per flow, held to a delay target that grows with the path and with the number of flows.
//!
//! ```text
//! Model      target(w) = base + hops · per_hop + flow_scaling(w),  flow_scaling = clamp(A/√w + B, 0, range)
//!            delay < target   w += ai per window
//!            delay ≥ target   w *= max(1 - β·(delay - target)/delay, 1 - max_mdf), once per round trip
//! ```
//!
//! Signals    the RTT between the NICs; the number of hops; the time inside the hosts for the second window
//! Life       an initial window → additive increase, multiplicative decrease → below one packet, paced
//! Source     Kumar et al., SIGCOMM 2020; constants of Google's public Falcon simulator (`falcon-transport/isekai`),
//!            which Poseidon's evaluation shares. The mechanisms `reference`, `vai`, `sampling` and `probabilistic`:
//!            Snyder and Lebeck, "Fast convergence to fairness", sections III-D, IV and V
//! Differs    - Flow scaling is clamped to [0, range] in real numbers, with `fs_max` in both constants.
//!            - VAI/SF prints the floor of a decrease as `max_mdf`; it is `1 - max_mdf`, equal only at 0.5.
//!            - The endpoint window runs the same law on a smoothed endpoint delay; it is off by default, because the
//!              endpoint delay of all four evaluations is zero.
//!            - A flow that does not use its window does not grow it, unless `strict-paper` is set.
//! Limits     in a path with two congested hops the delays add up, and the flow gets less than its share: that is what
//!            Poseidon is about

use crate::event::{Ack, Loss};
use crate::law::{Decision, LONGEST_RTT, Law, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bounded, bytes_per_ns, ns, packets, to_nanos, to_window};
use crate::parts::gate::{SeqGate, TimeGate};
use crate::parts::probabilistic;
use crate::parts::sampling::Sampling;
use crate::parts::variable_ai::{VariableAi, VariableAiParams};
use poseidon_types::{BitRate, Nanos, Packets, Signals};

params! {
    /// Swift's parameters; the defaults are those of Poseidon's evaluation.
    pub struct SwiftParams {
        /// The target's fixed part (Poseidon section 5).
        base_target: Nanos = Nanos::from_micros(25),
        /// The target's part per switch (Poseidon section 5).
        per_hop: Nanos = Nanos::from_micros(1),
        /// The largest flow scaling (Poseidon section 5); 0 ns switches it off.
        scaling_range: Nanos = Nanos::from_micros(100),
        /// The window at which flow scaling is largest (Falcon).
        scaling_min_window: Packets = Packets::from_q24(1_677_722),
        /// The window at which flow scaling is zero (Falcon; 100 and 50 in VAI/SF).
        scaling_max_window: Packets = Packets::whole(256),
        /// Additive increase per round trip (Falcon).
        additive_increase: Packets = Packets::ONE,
        /// Additive increase as a rate per round trip, if not zero: what VAI/SF uses, 50 Mbps.
        additive_increase_rate: BitRate = BitRate::ZERO,
        /// β: the decrease per relative excess of delay (SIGCOMM 2020).
        beta: f64 = 0.8,
        /// The strongest decrease (SIGCOMM 2020).
        max_decrease: f64 = 0.5,
        /// The first window (Falcon).
        initial_window: Packets = Packets::whole(32),
        /// Start at line rate instead, with one bandwidth-delay product, which is then also the largest window (VAI/SF).
        line_rate_start: bool = false,
        /// The smallest window (Falcon).
        min_window: Packets = Packets::from_q24(167_772),
        /// The largest window (Falcon).
        max_window: Packets = Packets::whole(256),
        /// Timeouts in a row after which the window falls to the smallest (Falcon).
        reset_after: u32 = 3,
        /// The target of the endpoint window; 0 ns switches it off.
        endpoint_target: Nanos = Nanos::ZERO,
        /// React to each ACK from a reference window and always add the increase (VAI/SF section V-B).
        reference: bool = false,
        /// Variable additive increase (VAI/SF section IV-A).
        vai: bool = false,
        /// VAI: queueing delay of the smallest bandwidth-delay product, added to the target (section V-A).
        vai_threshold: Nanos = Nanos::from_micros(4),
        /// VAI: queueing delay that earns one token.
        vai_per_token: Nanos = Nanos::new(30),
        /// Sampling frequency: ACKs between decreases (VAI/SF section IV-B); 0 for once per round trip.
        sampling: u32 = 0,
        /// Probabilistic feedback (VAI/SF section III-D).
        probabilistic: bool = false,
        /// Grow even when the flow does not use its window.
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

/// Weight of a new endpoint delay: it is bursty, so it is smoothed (SIGCOMM 2020 section 3.2).
const ENDPOINT_WEIGHT: f64 = 0.25;

/// One flow under Swift. Delays in ns, windows in packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Swift {
    window: f64,
    /// The window that moves once per round trip (or per sampling period); equals `window` without `reference`.
    reference: f64,
    last_cut: TimeGate,
    rtt: Nanos,
    timeouts: u32,
    endpoint: Endpoint,
    round: SeqGate,
    samples: Sampling,
    tokens: VariableAi,

    base_target: f64,
    per_hop: f64,
    scaling: Scaling,
    increase: f64,
    beta: f64,
    strongest_cut: f64,
    min_window: f64,
    max_window: f64,
    base_rtt: f64,
    vai_threshold: f64,
    vai: VariableAiParams,
    reset_after: u32,
    sampling: u32,
    uses_reference: bool,
    uses_vai: bool,
    probabilistic: bool,
    strict_paper: bool,
}

/// The window that endpoint delay steers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Endpoint {
    window: f64,
    delay: f64,
    target: f64,
    last_cut: TimeGate,
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
        let root = |w| 1.0 / libm::sqrt(packets(w));
        let a = ns(range) / (root(min_window) - root(max_window));
        Self { a, b: -a * root(max_window), range: ns(range) }
    }

    #[inline]
    fn at(&self, window: f64) -> f64 {
        bounded(self.a / libm::sqrt(window) + self.b, 0.0, self.range)
    }
}

impl Law for Swift {
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
            let bdp = bounded(bytes_per_ns(path.line_rate) * base_rtt / mtu, 1.0, max_window);
            (bdp, bdp)
        } else {
            (packets(params.initial_window), max_window)
        };
        let window = bounded(start, min_window, max_window);
        let increase = if params.additive_increase_rate.is_zero() {
            packets(params.additive_increase)
        } else {
            bytes_per_ns(params.additive_increase_rate) * base_rtt / mtu
        };
        Self {
            window,
            reference: window,
            last_cut: TimeGate::NEVER,
            rtt: path.base_rtt,
            timeouts: 0,
            endpoint: Endpoint {
                window: max_window,
                delay: 0.0,
                target: ns(params.endpoint_target),
                last_cut: TimeGate::NEVER,
            },
            round: SeqGate::default(),
            samples: Sampling::default(),
            tokens: VariableAi::default(),
            base_target: ns(params.base_target),
            per_hop: ns(params.per_hop),
            scaling: Scaling::new(params.scaling_range, params.scaling_min_window, params.scaling_max_window),
            increase,
            beta: params.beta,
            strongest_cut: 1.0 - params.max_decrease,
            min_window,
            max_window,
            base_rtt,
            vai_threshold: ns(params.vai_threshold),
            vai: VariableAiParams::published(ns(params.vai_per_token)),
            reset_after: params.reset_after,
            sampling: params.sampling,
            uses_reference: params.reference,
            uses_vai: params.vai,
            probabilistic: params.probabilistic,
            strict_paper: params.strict_paper,
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.timeouts = 0;
        self.rtt = ack.rtt.min(LONGEST_RTT);
        let delay = ns(ack.rtt);
        let fixed_target = self.base_target + f64::from(ack.hop_count) * self.per_hop;
        // The target moves with every window: it is not cached per round trip.
        let target = fixed_target + self.scaling.at(self.window);
        let congested = delay >= target;
        let round_ended = self.round.passes(ack.acked_seq, ack.next_seq);
        if self.uses_vai {
            self.tokens.observe(delay, congested);
            if round_ended {
                self.tokens.end_round(target + self.vai_threshold, self.base_rtt, &self.vai);
            }
        }
        if congested || !ack.app_limited || self.strict_paper {
            if self.uses_reference {
                self.follow_reference(ack, delay, target, round_ended);
            } else {
                self.follow_window(ack, delay, target, round_ended);
            }
        }
        if self.endpoint.target > 0.0 {
            self.follow_endpoint(ack);
        }
    }

    /// More than 1.01 of the target without flow scaling, as Google's public Falcon simulator has it.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        ns(ack.rtt) > 1.01 * (self.base_target + f64::from(ack.hop_count) * self.per_hop)
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.timeouts = 0;
        self.cut_once(loss.now);
    }

    fn on_timeout(&mut self, now: Nanos) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= self.reset_after {
            self.set(self.min_window, now);
            self.reference = self.window;
        } else {
            self.cut_once(now);
        }
    }

    fn decision(&self) -> Decision {
        let window = self.window.min(self.endpoint.window);
        let pacing = if window < 1.0 { Pacing::Gap(to_nanos(ns(self.rtt) / window)) } else { Pacing::Off };
        Decision { window: to_window(window), pacing }
    }
}

impl Swift {
    /// The law of SIGCOMM 2020, with VAI and SF where they are switched on.
    fn follow_window(&mut self, ack: &Ack<'_>, delay: f64, target: f64, round_ended: bool) {
        let due = self.samples.due(self.sampling);
        if delay < target {
            let tokens = if self.uses_vai { self.tokens.spend(round_ended, &self.vai) } else { 1.0 };
            let grown = self.window + self.per_ack(ack.packets, self.window) * tokens;
            self.set(grown, ack.now);
        } else {
            let may_cut = if self.sampling > 0 { due } else { self.last_cut.since(ack.now) >= ack.rtt };
            if may_cut {
                // A decrease that chance ignores counts as taken: the dice are thrown once per decrease, not per ACK.
                self.samples.moved();
                self.last_cut.close(ack.now);
                if !self.ignores(ack.chance) {
                    self.set(self.window * self.factor(delay, target), ack.now);
                }
            }
        }
        self.reference = self.window;
    }

    /// The law of VAI/SF section V-B: every ACK computes the window anew from a reference that moves rarely, and the
    /// increase is always added.
    fn follow_reference(&mut self, ack: &Ack<'_>, delay: f64, target: f64, round_ended: bool) {
        let due = self.samples.due(self.sampling);
        let decreases = delay >= target;
        let moves = if decreases && self.sampling > 0 { due } else { round_ended };
        if decreases && moves && self.ignores(ack.chance) {
            self.samples.moved();
            return;
        }
        let tokens = if self.uses_vai { self.tokens.spend(moves, &self.vai) } else { 1.0 };
        let kept = if decreases { self.reference * self.factor(delay, target) } else { self.reference };
        self.set(kept + self.increase * tokens, ack.now);
        if moves {
            self.reference = self.window;
            self.samples.moved();
        }
    }

    /// Growth for one ACK: `ai` per window of packets, or per packet below one.
    fn per_ack(&self, acked: u32, window: f64) -> f64 {
        let share = if window >= 1.0 { self.increase / window } else { self.increase };
        share * f64::from(acked)
    }

    /// max(1 - β·(delay - target)/delay, 1 - max_mdf).
    fn factor(&self, delay: f64, target: f64) -> f64 {
        bounded(1.0 - self.beta * (delay - target) / delay, self.strongest_cut, 1.0)
    }

    fn ignores(&self, chance: u32) -> bool {
        self.probabilistic && probabilistic::ignores(self.reference, self.max_window, chance)
    }

    /// A loss: the strongest decrease, at most once per round trip.
    fn cut_once(&mut self, now: Nanos) {
        if self.last_cut.since(now) >= self.rtt {
            self.set(self.window * self.strongest_cut, now);
            self.reference = self.window;
        }
    }

    fn set(&mut self, window: f64, now: Nanos) {
        let window = bounded(window, self.min_window, self.max_window);
        if window < self.window {
            self.last_cut.close(now);
        }
        self.window = window;
    }

    /// The same law on the delay inside the hosts, with a fixed target.
    fn follow_endpoint(&mut self, ack: &Ack<'_>) {
        let mut end = self.endpoint;
        end.delay = blend(end.delay, ns(ack.endpoint_delay), ENDPOINT_WEIGHT);
        if end.delay < end.target {
            end.window += self.per_ack(ack.packets, end.window);
        } else if end.last_cut.since(ack.now) >= ack.rtt {
            end.last_cut.close(ack.now);
            end.window *= self.factor(end.delay, end.target);
        }
        end.window = bounded(end.window, self.min_window, self.max_window);
        self.endpoint = end;
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
    fn flow_scaling_has_the_published_values() {
        // Range 100 us between windows 0.1 and 256: +30.2 us at one packet, +8.2 at 10, +1.2 at 100.
        let params = SwiftParams::default();
        let scaling =
            Scaling::new(params.scaling_range, params.scaling_min_window, params.scaling_max_window);
        for (window, us) in
            [(1.0, 30.2), (10.0, 8.2), (100.0, 1.2), (256.0, 0.0), (1_000.0, 0.0), (0.01, 100.0)]
        {
            let got = scaling.at(window) / 1_000.0;
            assert!((got - us).abs() < 0.06, "window {window}: {got}");
        }
    }

    #[test]
    fn decreases_at_most_once_per_round_trip_and_never_beyond_half() {
        let mut swift = Swift::new(&SwiftParams::default(), &PATH);
        swift.on_ack(&ack(100, 1_000));
        assert_eq!(swift.window, 16.0);
        swift.on_ack(&ack(1_099, 1_000));
        assert_eq!(swift.window, 16.0, "within one round trip");
        swift.on_ack(&ack(1_100, 1_000));
        assert_eq!(swift.window, 8.0);
    }

    #[test]
    fn adds_one_packet_per_window() {
        let mut swift = Swift::new(&SwiftParams::default(), &PATH);
        for _ in 0..32 {
            swift.on_ack(&ack(100, 12));
        }
        assert!((swift.window - 33.0).abs() < 0.02, "{}", swift.window);
    }

    #[test]
    fn three_timeouts_in_a_row_reset_the_window() {
        let mut swift = Swift::new(&SwiftParams::default(), &PATH);
        for i in 1..=3 {
            swift.on_timeout(Nanos::from_millis(i));
        }
        assert_eq!(to_window(swift.window), SwiftParams::default().min_window);
        assert!(matches!(swift.decision().pacing, Pacing::Gap(_)));
    }

    #[test]
    fn with_a_reference_two_decreases_in_one_round_do_not_compound() {
        let mut params = SwiftParams::default();
        params.preset("vai-sf").expect("a preset");
        params.vai = false;
        params.sampling = 0;
        let mut swift = Swift::new(&params, &PATH);
        let start = swift.window;
        let mut late = ack(100, 1_000);
        (late.acked_seq, late.next_seq) = (1, 1_000);
        swift.on_ack(&late);
        let once = swift.window;
        swift.on_ack(&late);
        assert_eq!(swift.window, once);
        assert!(once > 0.5 * start && once < 0.6 * start, "half, and the increase always added: {once}");
        late.acked_seq = 1_001;
        swift.on_ack(&late);
        swift.on_ack(&late);
        assert!(swift.window < 0.6 * once, "the reference moved after a round trip");
    }

    #[test]
    fn the_endpoint_window_limits_when_hosts_are_slow() {
        let params = SwiftParams { endpoint_target: Nanos::from_micros(50), ..SwiftParams::default() };
        assert!(Swift::needs(&params).supplies(Signals::ENDPOINT_DELAY));
        let mut swift = Swift::new(&params, &PATH);
        for i in 0..40 {
            let slow = Ack { endpoint_delay: Nanos::from_millis(1), ..ack(i * 100, 12) };
            swift.on_ack(&slow);
        }
        assert!(swift.decision().window < Packets::whole(1));
    }

    #[test]
    fn a_slow_flow_ignores_most_decreases_and_throws_the_dice_once_each() {
        let params = SwiftParams { probabilistic: true, ..SwiftParams::default() };
        // 32 of 256 packets: seven in eight decreases are ignored.
        let mut kept = 0;
        for i in 0..1_000u32 {
            let mut swift = Swift::new(&params, &PATH);
            for n in 0..40u32 {
                let chance = (i * 40 + n).wrapping_mul(0x9e37_79b9);
                swift.on_ack(&Ack { chance, ..ack(100 + u64::from(n), 1_000) });
            }
            kept += u32::from(swift.window == 32.0);
        }
        assert!((840..=910).contains(&kept), "{kept} of 1000 kept their window");
    }

    #[test]
    fn a_line_rate_start_is_also_the_largest_window() {
        let mut params = SwiftParams::default();
        params.preset("vai-sf-base").expect("a preset");
        let mut swift = Swift::new(&params, &PATH);
        let bdp = 200e9 * 9.9e-6 / 8.0 / 4_096.0;
        assert!((swift.window - bdp).abs() < 1e-9, "{}", swift.window);
        swift.on_ack(&ack(100, 5));
        assert_eq!(swift.window, swift.max_window);
    }

    #[test]
    fn sampling_lets_a_decrease_come_every_thirty_acks() {
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
        assert_eq!(cuts, [30, 60, 90], "within one round trip");
    }

    #[test]
    fn variable_ai_grows_faster_after_a_long_queue() {
        let grown = |vai| {
            let params = SwiftParams { vai, scaling_range: Nanos::ZERO, ..SwiftParams::default() };
            let mut swift = Swift::new(&params, &PATH);
            let round = |swift: &mut Swift, n: u64, rtt_us| {
                swift.on_ack(&Ack { acked_seq: n, next_seq: n, ..ack(100 * n, rtt_us) });
            };
            // A round at 100 us of delay, far above the target of 30 us + 4, ends with the next ACK.
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
