//! Poseidon: each flow adjusts its window to the queueing delay at the worst hop on its path.
//!
//! ```text
//! Model      on each ACK    rate   = window · MTU / rtt
//!                           target = T(rate)             falls as the rate rises      (Eq. 3)
//!                           step   = U(target, delay)    1 at the target              (Eq. 4)
//!            delay ≤ target grow by (step - 1) per acknowledged packet: a factor `step` per window
//!            delay > target shrink by the factor `step`, at most once per round trip
//!
//!  delay of     ▲ T(rate)
//!  the worst    │\                     In log2 the law is one line:
//!  hop          │  \   above: shrink
//!               │    \                 log2 U = m·log2(max/rate) + (k - delay)·m·A/p,   A = log2(max/min)
//!               │      \
//!               │ below: \             and m is the share of the distance to the fair rate that
//!               │ grow     \  k        one round trip covers: U = (fair/rate)^m         (Eq. 5)
//!               └───────────┴──▶ log rate
//! ```
//!
//! Fairness   Two flows in one queue see the same delay. The faster flow has the smaller target, so it yields first. If
//!            a flow crosses several queues, only the worst queue counts, so the flow does not yield twice. Together,
//!            these properties give network-wide max-min fairness (Theorem 1).
//! Signals    the largest queueing delay at any hop on the data path, and the raw RTT
//! Lifecycle  an initial window of 32 packets → growth and cuts → below one packet, one packet per `rtt / window`
//! Source     Wang et al., "Poseidon: Efficient, Robust, and Practical Datacenter CC via Deployable INT", NSDI 2023:
//!            algorithms 1 and 2, equations 3, 4, 13 and 18, section 4.1
//! Arithmetic Integers of at most 64 bits, and no division for windows above one packet. The same steps run in BPF and
//!            on a NIC. `U` is within 1e-4 of the paper's equations evaluated in `f64` (tests/poseidon_reference.rs).
//! Differs    - The text says twice that a larger m slows convergence, but according to Eq. 4, Eq. 5, appendix B and
//!              Fig. 7a it speeds convergence up. This law follows the equations.
//!            - `max_mi` and `min_md` are parameters of Alg. 1, but Alg. 1 never applies them to an ACK. Here they
//!              bound U. Without the lower bound, 200 flows that start together pin each other at the smallest window.
//!            - The law clamps the rate to [min rate, max rate] before it computes T, which is defined only there.
//!            - Alg. 1 never resets the timeout count. Here an ACK resets it, as in Swift.
//!            - Alg. 2 does not define the window if the last cut was less than an RTT ago. Here the window stays
//!              unchanged.
//!            - An ACK without telemetry does not change the window, because an unknown delay does not mean an empty
//!              queue.
//!            - The window does not grow while the flow is application-limited (RFC 7661).
//!            `strict-paper` follows Alg. 1 literally in two of these points: an ACK applies U in full, and the window
//!            grows even if the flow is application-limited. `min_md` then bounds only the cuts of Alg. 2, and `max_mi`
//!            has no effect.
//! Steady     `update = steady` is not in the paper. This update is for incasts in which each flow sends less than one
//!            packet per round trip: at least 220 flows on one 200 Gbps link with 4 kB packets. Alg. 1 oscillates in
//!            this regime. It waits rtt/window between packets, so if the queue grows by 1 us, each packet is delayed
//!            by 1/window us. Below half a packet, the loop gain exceeds one. Alg. 1 also takes the full step m, which
//!            then lasts an entire gap.
//!            - The gap after an ACK does not change with the RTT. ACKs clock the flow even below one packet.
//!            - One ACK applies only a fraction of log2 U, so that a delay error of 1 us moves the next packet by at
//!              most 0.5 us. This is Eq. 4 with an effective m that falls as 1/gap. T and the fixed point match the
//!              paper.
//!            - While the delay is far below the target (more than one doubling of the rate), each ACK applies twice
//!              the previous ACK's fraction, up to m. A starved flow therefore recovers.
//!            - Packets leave up to half an RTT early or late, at random. Otherwise slow flows synchronise with the
//!              oscillation of fast flows.
//!            The cost is slower convergence: 1/m ACKs, where m is the effective value. The host must also recompute
//!            the current gap when an ACK arrives. For measurements and rejected alternatives, see
//!            docs/below-one-packet.md.
//! Limits     p, k, min rate and max rate must be the same for all flows that share queues. Two flows with different
//!            values of `max-rate` have different targets at the same rate, which breaks fairness. Every hop must write
//!            telemetry; otherwise use the brownfield signal (section 4.1).

#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

use crate::coexistence::queue_limit;
use crate::event::{Ack, Loss, Timeout};
use crate::fixed_math::{ONE, Q, exp2, exp2_parts, log2, log2_slow};
use crate::law::{Decision, DelaySignal, Law, LawDefinition, MAX_RTT, Pacing, Path};
use crate::params::{choice, params};
use crate::parts::round_trip::LastCut;
use poseidon_types::{BitRate, Fraction, Nanos, Packets, Signals};

mod snapshot;
pub use snapshot::Snapshot;

choice! {
    /// How the target delay falls with the flow's rate.
    pub enum Target {
        /// Eq. 3: falls by the same amount for each doubling of the rate.
        Log = "log",
        /// Eq. 18: falls as 1/sqrt(rate), matched to Eq. 3 at both ends.
        InvSqrtRate = "inv-sqrt-rate",
        /// The counterexample in Fig. 23: falls as 1/sqrt(window) and ignores the RTT.
        InvSqrtWindow = "inv-sqrt-cwnd",
        /// The ablation in Fig. 21a: the target is the same for every rate.
        Fixed = "fixed",
    }
}

choice! {
    /// How the window moves towards the target.
    pub enum Update {
        /// Eq. 4: the change is exponential in the distance between target and delay.
        Distance = "distance",
        /// Eq. 13: the window is multiplied by (T + m)/(delay + m), where m is a delay.
        Ratio = "ratio",
        /// The ablation in Fig. 21a: the window increases by one packet per round trip and decreases by Eq. 4.
        Aimd = "aimd",
        /// Not in the paper: Eq. 4 with smaller steps below two packets per round trip, where Eq. 4 oscillates.
        Steady = "steady",
    }
}

choice! {
    /// Which delay the law compares with the target.
    pub enum Signal {
        /// The largest queueing delay at any hop on the data path.
        MaxHopDelay = "max-hop-delay",
        /// The ablation in Fig. 21a: the queueing delay over the whole round trip.
        Rtt = "rtt",
        /// Section 4.1: the larger of the worst reported hop delay and the delay that no hop reported.
        Brownfield = "brownfield",
    }
}

params! {
    /// Parameters of [`Poseidon`]. The defaults match the paper's evaluation on 200 Gbps links.
    pub struct PoseidonParams {
        /// p: the range of the target between `max_rate` and `min_rate` (section 5).
        target_range: Nanos = Nanos::from_micros(40),
        /// k: the smallest target, used at `max_rate` and above (section 5).
        target_floor: Nanos = Nanos::from_micros(2),
        /// m: the share of the logarithmic distance to the fair rate covered per round trip (section 5; Eq. 2 requires
        /// 0 < m < 2).
        step: Fraction = Fraction::ratio(1, 4),
        /// The rate at which the target is largest (caption of Fig. 7b).
        min_rate: BitRate = BitRate::from_mbps(20),
        /// The rate at which the target is smallest: the line rate of the fabric's fastest NIC (caption of Fig. 7b).
        max_rate: BitRate = BitRate::from_gbps(200),
        /// The strongest cut (min_md in Alg. 1; the value is from Swift).
        min_decrease: Fraction = Fraction::ratio(1, 2),
        /// The largest growth per window (max_mi in Alg. 1).
        max_increase: Fraction = Fraction::ratio(2, 1),
        /// The initial window (from Google's public Falcon simulator; the paper does not state it).
        initial_window: Packets = Packets::whole(32),
        /// The smallest window (Falcon).
        min_window: Packets = Packets::from_q24(167_772),
        /// The largest window, in whole packets (Falcon).
        max_window: Packets = Packets::whole(256),
        /// The number of consecutive timeouts after which the window resets to the smallest (Falcon; Alg. 2).
        reset_after: u32 = 3,
        /// How the target falls with the rate.
        target: Target = Target::Log,
        /// How the window moves towards the target.
        update: Update = Update::Distance,
        /// Which delay the law compares with the target.
        signal: Signal = Signal::MaxHopDelay,
        /// The target delay in the `fixed` ablation.
        fixed_target: Nanos = Nanos::from_micros(5),
        /// The network-wide RTT at which `inv-sqrt-cwnd` matches Eq. 3 (9.9 us in the evaluation).
        window_rtt: Nanos = Nanos::new(9_900),
        /// The m of Eq. 13, which is a delay.
        ratio_delay: Nanos = Nanos::from_micros(1),
        /// Follow Alg. 1 literally: no bounds on U, and growth even if the flow is application-limited.
        strict_paper: bool = false,
    }
    presets {}
    check {
        step: "at least 0.001 and below 2 (Eq. 2)",
            |p| p.step >= Fraction::ratio(1, 1_000) && p.step.q32() < 2 << 32;
        target_range: "between 2 us and 1 s",
            |p| (2_000..=1_000_000_000).contains(&p.target_range.get());
        target_range: "at most 10 ms with the ratio update",
            |p| p.update != Update::Ratio || p.target_range <= Nanos::from_millis(10);
        target: "log with the steady update", |p| p.update != Update::Steady || p.target == Target::Log;
        target_floor: "between 1 ns and 1 s", |p| (1..=1_000_000_000).contains(&p.target_floor.get());
        fixed_target: "between 1 ns and 1 s", |p| (1..=1_000_000_000).contains(&p.fixed_target.get());
        ratio_delay: "at most 1 s", |p| p.ratio_delay.get() <= 1_000_000_000;
        min_rate: "above zero and at most a quarter of max_rate",
            |p| p.min_rate > BitRate::ZERO && p.min_rate.get() <= p.max_rate.get() / 4;
        max_rate: "at most 100 Tbps", |p| p.max_rate <= BitRate::from_gbps(100_000);
        min_decrease: "between 0.01 and 0.99",
            |p| (Fraction::ratio(1, 100)..=Fraction::ratio(99, 100)).contains(&p.min_decrease);
        max_increase: "between 1.01 and 16",
            |p| (Fraction::ratio(101, 100)..=Fraction::ratio(16, 1)).contains(&p.max_increase);
        min_window: "between 0.001 and 1 packets",
            |p| (Packets::from_q24(16_777)..=Packets::ONE).contains(&p.min_window);
        window_rtt: "between 1 ns and 4.29 s",
            |p| !p.window_rtt.is_zero() && p.window_rtt <= MAX_RTT;
        max_window: "between 1 and 32768 packets, whole",
            |p| p.max_window >= Packets::ONE && p.max_window <= Packets::MAX_WINDOW
                && p.max_window == Packets::whole(p.max_window.floor());
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
        reset_after: "between 1 and 255", |p| (1..=255).contains(&p.reset_after);
    }
}

/// The number of fractional bits in the target of the `ratio` update. At a resolution of 1/256 ns, rounding is
/// negligible.
const DELAY_Q: u32 = 8;
/// The number of fractional bits in the step bounds. Rounding log2 to 12 fractional bits changes a bound by at most
/// 8.5e-5 of its value, and powers of two are exact.
const BOUND_Q: u32 = 12;

/// The loop gain of the `steady` update: 0.5 / ln 2 · 2^24.
///
/// A delay error of 1 ns moves the next packet by at most 0.5 ns. The factor 1 / ln 2 converts to log2 steps.
const STEADY_LOOP_GAIN: u64 = 12_102_203;
/// The maximum number of times that consecutive ACKs far below the target may double a step. A larger limit would
/// overflow 64 bits.
const MAX_RUN: u8 = 8;
/// The largest step, up or down, that the `steady` update scales, as log2 with 24 fractional bits. The product of this
/// step and a fraction of at most one fits in 64 bits.
const MAX_STEADY_STEP: i64 = 1 << 38;
/// `strict-paper`: the largest upward step, as log2 with 24 fractional bits. Growth by 2^16 packets already exceeds the
/// largest window of 2^15 packets.
const STRICT_MAX_STEP: i64 = 16 << Q;
/// `strict-paper`: the largest downward step. The largest window times 2^-26 is below the smallest allowed
/// `min_window`.
const STRICT_MIN_STEP: i64 = -26 << Q;

/// The state of one Poseidon flow: 64 bytes, including constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poseidon {
    /// The window in packets, with 24 fractional bits.
    window: u64,
    last_cut: LastCut,
    /// The last raw RTT in ns. Alg. 2 and the pacing gap use it between ACKs.
    rtt: u32,
    /// log2(max rate) - log2(one raw window unit per ns), with 24 fractional bits. Adding log2(rtt) and subtracting
    /// log2(window) gives log2(max/rate). For `inv-sqrt-cwnd`, the offset includes log2 of the network-wide RTT.
    rate_offset: i32,
    /// A = log2(max/min), with 24 fractional bits.
    span: u32,
    /// The increase in log2 U per unit of [`Self::target_scale`], with 24 fractional bits. `ratio`: the increase in the
    /// target, in ns with 8 fractional bits.
    weight: u32,
    /// The smallest target in ns.
    floor: u32,
    /// The decrease in log2 U per ns of delay: m·A/p times 2^(24 + `gain_shift`). The value is between 2^30 and 2^31,
    /// so its product with any delay fits in 64 bits. `ratio`: the m of Eq. 13 in ns.
    gain: u32,
    /// The smallest window, with 24 fractional bits.
    min_window: u32,
    /// The unloaded RTT in ns.
    base_rtt: u32,
    /// log2 of the strongest cut, with 12 fractional bits.
    min_step: i16,
    /// log2 of the largest growth, with 12 fractional bits.
    max_step: i16,
    /// The largest window in whole packets.
    max_window: u16,
    gain_shift: u8,
    timeouts: u8,
    reset_after: u8,
    target: Target,
    update: Update,
    signal: Signal,
    strict_paper: bool,
    /// Whether the target, update or signal differs from the paper's, or `strict_paper` is set.
    is_variant: bool,
    /// `steady`: the number of consecutive ACKs far below the target.
    run: u8,
    /// `steady`: how early or late the next packet leaves, in 1/256 RTT.
    jitter: i8,
}

impl LawDefinition for Poseidon {
    const NAME: &'static str = "poseidon";
    const SOURCE: &'static str = "Wang et al., NSDI 2023, Alg. 1 and 2, Eq. 3 and 4";
    const STATE_LIMIT: usize = 64;
    type Params = PoseidonParams;

    fn needs(params: &PoseidonParams) -> Signals {
        match params.signal {
            Signal::MaxHopDelay => Signals::RTT | Signals::MAX_HOP_DELAY,
            // Brownfield networks have hops without telemetry, so telemetry is optional.
            Signal::Rtt | Signal::Brownfield => Signals::RTT,
        }
    }

    fn new(params: &PoseidonParams, path: &Path) -> Self {
        let span = log2_slow(params.max_rate.get()) - log2_slow(params.min_rate.get());
        // The rate of one raw window unit (2^-24 packets) per nanosecond.
        let unit_rate = log2_slow(path.mtu.get().saturating_mul(8_000_000_000)) - (24 << Q);
        // The largest value of `target_scale`, at which the target is p above its floor.
        let max_scale = match params.target {
            Target::Log | Target::Fixed => span.cast_unsigned(),
            Target::InvSqrtRate | Target::InvSqrtWindow => exp2(span / 2) - ONE.cast_unsigned(),
        };
        // m·A with 24 fractional bits: log2 U at the slowest rate and the smallest target.
        let step_range = params.step.mul_floor(span.cast_unsigned());
        let (gain, gain_shift) = normalise_gain(step_range, params.target_range.get());
        let (gain, weight) = match params.update {
            Update::Distance | Update::Aimd | Update::Steady => (gain, shift_div(step_range, Q, max_scale)),
            Update::Ratio => {
                (params.ratio_delay.get(), shift_div(params.target_range.get() << DELAY_Q, Q, max_scale))
            }
        };
        let rate_offset = log2_slow(params.max_rate.get()) - unit_rate
            + match params.target {
                Target::InvSqrtWindow => log2_slow(params.window_rtt.get()),
                _ => 0,
            };
        let (floor, weight) = match params.target {
            Target::Fixed => (params.fixed_target, 0),
            _ => (params.target_floor, weight),
        };
        Self {
            window: params.initial_window.q24(),
            last_cut: LastCut::NEVER,
            rtt: saturate_u32(path.base_rtt.get()),
            rate_offset: i32::try_from(rate_offset).unwrap_or(i32::MAX),
            span: saturate_u32(span.cast_unsigned()),
            weight: saturate_u32(weight),
            floor: saturate_u32(floor.get()),
            gain: saturate_u32(gain),
            min_window: saturate_u32(params.min_window.q24()),
            base_rtt: saturate_u32(path.base_rtt.get()),
            min_step: log_bound(params.min_decrease),
            max_step: log_bound(params.max_increase),
            max_window: u16::try_from(params.max_window.floor()).unwrap_or(u16::MAX),
            gain_shift,
            timeouts: 0,
            reset_after: u8::try_from(params.reset_after).unwrap_or(u8::MAX),
            target: params.target,
            update: params.update,
            signal: params.signal,
            strict_paper: params.strict_paper,
            is_variant: params.strict_paper
                || (params.target, params.update, params.signal)
                    != (Target::Log, Update::Distance, Signal::MaxHopDelay),
            run: 0,
            jitter: 0,
        }
    }
}

impl Law for Poseidon {
    /// Implements `ReceiveACK` from Alg. 1.
    #[inline]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if self.is_variant {
            return self.on_ack_variant(ack);
        }
        self.on_ack_of_paper(|| *ack);
    }

    /// Implements `FastRecovery` from Alg. 2.
    fn on_loss(&mut self, loss: &Loss) {
        self.timeouts = 0;
        self.cut_by_max(loss.now);
    }

    /// Implements `RetransmitTimeout` from Alg. 2.
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= self.reset_after {
            self.shrink_to(0, timeout.now);
        } else {
            self.cut_by_max(timeout.now);
        }
    }

    /// Returns whether the delay is above the target.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        self.signal_delay(ack).is_some_and(|delay| Nanos::new(u64::from(delay)) > self.target_delay())
    }

    fn delay_signal(&self, ack: &Ack<'_>) -> Option<DelaySignal> {
        let delay = self.signal_delay(ack).map(|delay| Nanos::new(u64::from(delay)))?;
        Some(DelaySignal { delay, within_target: delay <= self.target_delay(), limit: self.delay_limit() })
    }

    fn target(&self, _hop_count: u8) -> Option<Nanos> {
        Some(self.target_delay())
    }

    /// Implements lines 18-24 of Alg. 1.
    #[inline]
    fn decision(&self) -> Decision {
        let window = Packets::from_q24(self.window);
        let pacing = if window < Packets::ONE {
            // The jitter is zero except in the `steady` update.
            let jitter = (i64::from(self.rtt) * i64::from(self.jitter)) >> 8;
            Pacing::Gap(Nanos::new(self.pacing_gap(self.rtt).saturating_add_signed(jitter)))
        } else {
            Pacing::Off
        };
        Decision { window, pacing }
    }
}

impl Poseidon {
    /// Returns whether target, update and signal are the paper's, and `strict-paper` is not set: the defaults.
    #[inline]
    pub const fn follows_paper(&self) -> bool {
        !self.is_variant
    }

    /// Does what [`Law::on_ack`] does for a flow that [`follows_paper`](Self::follows_paper).
    ///
    /// The function is inlined and takes each field from `ack` where it needs it. So callers that convert ACKs from
    /// another form convert only the fields that Poseidon reads, and hold them in registers only while they matter.
    #[inline(always)]
    pub fn on_ack_of_paper<'a>(&mut self, ack: impl Fn() -> Ack<'a>) {
        self.rtt = saturate_u32(ack().rtt.get());
        self.timeouts = 0;
        if ack().max_hop_delay.is_none() {
            return;
        }
        let scale = self.log_max_over_rate(self.rtt).cast_unsigned();
        if let Some(delay) = ack().max_hop_delay {
            self.apply_step(self.log_step(scale, saturate_u32(delay.get())), &ack());
        }
    }

    /// Returns the target delay at the current window and RTT, rounded down.
    pub fn target_delay(&self) -> Nanos {
        let above_floor = match self.update {
            Update::Distance | Update::Aimd | Update::Steady => {
                ((self.target_scale() * u64::from(self.weight)) >> Q << self.gain_shift)
                    / u64::from(self.gain.max(1))
            }
            Update::Ratio => self.target_q8() >> DELAY_Q,
        };
        Nanos::new(above_floor + u64::from(self.floor))
    }

    /// Returns the delay above which other traffic must be sharing the queue (see [`crate::coexistence`]).
    ///
    /// Valid only for Eq. 3 and the fixed target. The other targets exist to reproduce the paper's figures.
    pub fn delay_limit(&self) -> Nanos {
        let range = ((u64::from(self.span) * u64::from(self.weight)) >> Q << self.gain_shift)
            / u64::from(self.gain.max(1));
        let floor = Nanos::new(u64::from(self.floor));
        queue_limit(floor, floor + Nanos::new(range))
    }

    /// Applies log2 U to the window: increases apply on every ACK, decreases at most once per round trip.
    #[inline(always)]
    fn apply_step(&mut self, step: i64, ack: &Ack<'_>) {
        if step >= 0 {
            // Line 5: window · (1 + (U - 1)/window · acked). U is at most 16, so the shift is at most four.
            let (mantissa, whole) = exp2_parts(step.min(self.max_step()));
            self.grow((mantissa << whole) - ONE.cast_unsigned(), ack);
        } else if self.last_cut.elapsed(ack.now).get() > u64::from(self.rtt) {
            // Line 7 of Alg. 1.
            self.cut(step.max(self.min_step()), ack.now);
        }
    }

    /// Adds `growth` packets (24 fractional bits) per acknowledged packet (Alg. 1, line 18).
    ///
    /// `growth` must be below 2^28, or below 2^41 if the ACK covers at most 2^15 packets.
    #[inline]
    fn grow(&mut self, growth: u64, ack: &Ack<'_>) {
        if !ack.app_limited || self.strict_paper {
            let grown = self.window + growth * u64::from(ack.packets);
            self.window = grown.min(u64::from(self.max_window) << Packets::FRACTION_BITS);
        }
    }

    /// Processes an ACK with a target, update or signal other than the paper's.
    ///
    /// This function is not inlined, because inlining would add a dozen instructions to the common path.
    #[cold]
    #[inline(never)]
    fn on_ack_variant(&mut self, ack: &Ack<'_>) {
        let last_rtt = self.rtt;
        self.rtt = saturate_u32(ack.rtt.get());
        self.timeouts = 0;
        if self.update == Update::Steady {
            self.keep_gap(last_rtt);
            self.jitter = ack.random.to_be_bytes()[0].cast_signed();
        }
        let Some(delay) = self.signal_delay(ack) else { return };
        let step = match self.update {
            Update::Distance | Update::Aimd | Update::Steady => self.log_step(self.target_scale(), delay),
            Update::Ratio => self.log_ratio(delay),
        };
        if self.update == Update::Steady {
            self.apply_steady_step(step, ack);
        } else if self.update == Update::Aimd && step >= 0 {
            // Swift's increase: one packet per window, or per acknowledged packet if the window is below one packet.
            self.grow((1 << (2 * Q)) / self.window.max(1 << Q), ack);
        } else if self.strict_paper {
            self.apply_unbounded_step(step, ack);
        } else {
            self.apply_step(step, ack);
        }
    }

    /// `strict-paper`: applies log2 U in full. Only the smallest and largest windows bound the result.
    fn apply_unbounded_step(&mut self, step: i64, ack: &Ack<'_>) {
        if step >= 0 {
            let (mantissa, whole) = exp2_parts(step.min(STRICT_MAX_STEP));
            // No ACK covers more packets than the largest window. The product is below 2^41 · 2^15, which fits in 64
            // bits.
            let packets = ack.packets.min(u32::from(self.max_window));
            self.grow((mantissa << whole) - ONE.cast_unsigned(), &Ack { packets, ..*ack });
        } else if self.last_cut.elapsed(ack.now).get() > u64::from(self.rtt) {
            self.cut(step.max(STRICT_MIN_STEP), ack.now);
        }
    }

    /// `steady` below one packet: adapts the window to this ACK's RTT so that the wait after an ACK stays the same.
    ///
    /// Alg. 1 lengthens the wait by 1/window times the change in the RTT.
    fn keep_gap(&mut self, last_rtt: u32) {
        if self.window < Packets::ONE.q24() {
            let gap = u64::from(self.rtt) + self.pacing_gap(last_rtt).saturating_sub(u64::from(last_rtt));
            let window = (u64::from(self.rtt) << Packets::FRACTION_BITS) / gap.max(1);
            self.window = window.max(u64::from(self.min_window));
        }
    }

    /// Applies a fraction of log2 U if the window is below one packet (increases) or two packets (decreases).
    ///
    /// Larger windows use the paper's update. The threshold for decreases is higher because a flow would need many
    /// small steps to recover from a full cut to below one packet.
    fn apply_steady_step(&mut self, step: i64, ack: &Ack<'_>) {
        let threshold = if step >= 0 { Packets::ONE } else { Packets::whole(2) };
        if self.window >= threshold.q24() {
            self.run = 0;
            return self.apply_step(step, ack);
        }
        let partial_step =
            (step.clamp(-MAX_STEADY_STEP, MAX_STEADY_STEP) * self.step_fraction(step >= 0)) >> Q;
        // "Far below the target" means by more than one doubling of the rate, which is m in log2 U, the `weight` of Eq.
        // 3.
        self.run = if step > i64::from(self.weight) { (self.run + 1).min(MAX_RUN) } else { 0 };
        if partial_step >= 0 {
            // Below one packet, each ACK completes a round, so the window grows by the factor U.
            let (mantissa, whole) = exp2_parts(partial_step.min(self.max_step()));
            let growth = (mantissa << whole) - ONE.cast_unsigned();
            self.grow((growth * self.window) >> Packets::FRACTION_BITS, ack);
        } else {
            self.apply_step(partial_step, ack);
        }
    }

    /// Returns the fraction of log2 U that one ACK may apply: at most one, with 24 fractional bits.
    fn step_fraction(&self, grows: bool) -> i64 {
        let gap = self.pacing_gap(self.rtt).clamp(u64::from(self.rtt), u64::from(u32::MAX));
        // The change in log2 U when the delay changes by one gap. Both factors fit in 32 bits.
        let per_gap = (u64::from(self.gain) * gap) >> self.gain_shift;
        let max_change = if grows { STEADY_LOOP_GAIN << self.run } else { STEADY_LOOP_GAIN };
        ((max_change << Q) / per_gap.max(1)).min(ONE.cast_unsigned()).cast_signed()
    }

    /// Returns the gap between two packets in ns, for windows below one packet.
    #[inline]
    fn pacing_gap(&self, rtt: u32) -> u64 {
        (u64::from(rtt) << Packets::FRACTION_BITS) / self.window.max(1)
    }

    /// Returns the delay in ns that the law compares with the target, or `None` if the ACK has no telemetry.
    fn signal_delay(&self, ack: &Ack<'_>) -> Option<u32> {
        let queueing = ack.rtt - Nanos::new(u64::from(self.base_rtt));
        let delay = match self.signal {
            Signal::MaxHopDelay => ack.max_hop_delay?,
            Signal::Rtt => queueing,
            Signal::Brownfield => {
                // Section 4.1: queueing delay beyond the two worst hops comes from hops without telemetry.
                let forward = ack.max_hop_delay.unwrap_or(Nanos::ZERO);
                let reverse = ack.reverse_max_hop_delay.unwrap_or(Nanos::ZERO);
                forward.max(queueing - forward - reverse)
            }
        };
        Some(saturate_u32(delay.get()))
    }

    /// Returns how far the target is above its floor, on the scale of the target function, with 24 fractional bits.
    ///
    /// This scale is x = log2(max/rate) for Eq. 3, and 2^(x/2) - 1 for Eq. 18.
    fn target_scale(&self) -> u64 {
        match self.target {
            Target::Log | Target::Fixed => self.log_max_over_rate(self.rtt).cast_unsigned(),
            Target::InvSqrtRate => exp2(self.log_max_over_rate(self.rtt) / 2) - ONE.cast_unsigned(),
            // `rate_offset` includes the network-wide RTT; the flow's RTT is not used.
            Target::InvSqrtWindow => exp2(self.log_max_over_rate(1) / 2) - ONE.cast_unsigned(),
        }
    }

    /// Returns log2(max/rate), clamped to [0, A], with 24 fractional bits.
    #[inline]
    fn log_max_over_rate(&self, rtt: u32) -> i64 {
        let log_ratio = i64::from(self.rate_offset) - log2(self.window) + log2(u64::from(rtt));
        log_ratio.clamp(0, i64::from(self.span))
    }

    /// Returns the unbounded log2 U(T(rate), delay) of Eq. 3 and 4, with 24 fractional bits.
    ///
    /// The result is non-negative if the delay does not exceed the target.
    #[inline]
    fn log_step(&self, scale: u64, delay: u32) -> i64 {
        // `scale` times `weight` is at most m·A < 2^7, with 48 fractional bits.
        let rate_term = (scale * u64::from(self.weight)) >> Q;
        let delay_term = (i64::from(self.floor) - i64::from(delay)) * i64::from(self.gain);
        rate_term.cast_signed() + (delay_term >> self.gain_shift)
    }

    /// Returns log2 of Eq. 13, (T + m)/(delay + m), as a difference of logarithms.
    fn log_ratio(&self, delay: u32) -> i64 {
        let damping = u64::from(self.gain) << DELAY_Q;
        let target = self.target_q8() + (u64::from(self.floor) << DELAY_Q);
        log2(target + damping) - log2((u64::from(delay) << DELAY_Q) + damping)
    }

    /// Returns the difference between the target and its floor in the `ratio` update, in ns with 8 fractional bits.
    fn target_q8(&self) -> u64 {
        (self.target_scale() * u64::from(self.weight)) >> Q
    }

    /// Returns log2 of the strongest cut, with 24 fractional bits.
    #[inline]
    fn min_step(&self) -> i64 {
        i64::from(self.min_step) << (Q - BOUND_Q)
    }

    /// Returns log2 of the largest growth, with 24 fractional bits.
    #[inline]
    fn max_step(&self) -> i64 {
        i64::from(self.max_step) << (Q - BOUND_Q)
    }

    /// Applies the strongest cut unless the last cut was less than an RTT ago.
    fn cut_by_max(&mut self, now: Nanos) {
        if self.last_cut.elapsed(now).get() > u64::from(self.rtt) {
            self.cut(self.min_step(), now);
        }
    }

    /// Multiplies the window by 2^`step`, where `step` is negative.
    #[inline(always)]
    fn cut(&mut self, step: i64, now: Nanos) {
        // A window of at most 2^15 packets times a factor below two, each with 24 fractional bits, fits in 64 bits.
        let (mantissa, whole) = exp2_parts(step);
        self.shrink_to((self.window * mantissa) >> ((i64::from(Q) - whole) & 63), now);
    }

    /// Implements lines 18-20 of Alg. 1.
    #[inline]
    fn shrink_to(&mut self, window: u64, now: Nanos) {
        let window = window.max(u64::from(self.min_window));
        if window < self.window {
            self.last_cut.record(now);
        }
        self.window = window;
    }
}

/// Returns `step_range / range` (24 fractional bits per ns) as a number between 2^30 and 2^31 and its left shift.
fn normalise_gain(step_range: u64, range: u64) -> (u64, u8) {
    let mut shift = 0;
    let mut gain = shift_div(step_range, 0, range);
    while gain < 1 << 30 && shift < 62 {
        shift += 1;
        gain = shift_div(step_range, shift, range);
    }
    (gain, u8::try_from(shift).unwrap_or(u8::MAX))
}

/// Returns log2 of a step bound, with 12 fractional bits.
fn log_bound(ratio: Fraction) -> i16 {
    let log = log2_slow(ratio.q32()) - (32 << Q);
    i16::try_from((log + (1 << (Q - BOUND_Q - 1))) >> (Q - BOUND_Q)).unwrap_or(0)
}

/// Returns `(x << bits) / y`, rounded to nearest.
fn shift_div(x: u64, bits: u32, y: u64) -> u64 {
    let y = u128::from(y.max(1));
    u64::try_from(((u128::from(x) << bits) + y / 2) / y).unwrap_or(u64::MAX)
}

/// Converts to 32 bits and saturates. For a time in ns, the maximum is 4.29 s, which exceeds any datacenter RTT.
#[inline]
fn saturate_u32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}
