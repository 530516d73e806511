//! Poseidon: windows steered by the worst hop.
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
//!               │ below: \             and m is how much of the way to the fair rate one
//!               │ grow     \  k        round trip goes: U = (fair/rate)^m               (Eq. 5)
//!               └───────────┴──▶ log rate
//! ```
//!
//! Why fair   Two flows in one queue see the same delay; the faster one has the smaller target, so it yields first.
//!            Where a flow crosses several queues only the worst one counts, so congestion elsewhere on its path
//!            does not make it yield twice. Together: network-wide max-min fairness (Theorem 1).
//! Signals    one number per ACK: the largest queueing delay of any hop on the data path, and the raw RTT
//! Life       32 packets → grow and shrink → below one packet, one packet per `rtt / window`
//! Source     Wang et al., "Poseidon: Efficient, Robust, and Practical Datacenter CC via Deployable INT", NSDI 2023:
//!            algorithms 1 and 2, equations 3, 4, 13 and 18, section 4.1
//! Arithmetic integers only, 64 bits wide at most, no division for windows above one packet: the same steps run in
//!            BPF and in a NIC. `U` is within 1e-4 of the paper's equations in `f64` (tests/poseidon_reference.rs).
//! Differs    - The text says twice that a larger m is slower; Eq. 4, Eq. 5, appendix B and Fig. 7a make it faster.
//!              The equations are followed.
//!            - `max_mi` and `min_md` are parameters of Alg. 1 that it never applies to an ACK. Here they bound U. Without
//!              the lower bound, 200 flows that start together pin each other at the smallest window.
//!            - The rate is held within [min rate, max rate] before T, which is defined only there.
//!            - Alg. 1 never resets the count of timeouts; as in Swift, an ACK does.
//!            - Alg. 2 leaves the window undefined when the gate is closed; it stays.
//!            - An ACK without telemetry changes nothing: unknown is not an empty queue.
//!            - A flow that does not use its window does not grow it (RFC 7661's rule).
//!            `strict-paper` is Alg. 1 to the letter in two of these points: an ACK moves the window by all of U, and a flow that
//!            does not use its window grows. `min_md` then bounds only the cuts of Alg. 2, and `max_mi` nothing.
//! Steady     `update = steady` is ours, for incasts of so many flows that each has less than one packet per round trip:
//!            from 220 on, on one 200 Gbps link with 4 kB packets. There Alg. 1 swings. It waits rtt/window between
//!            packets, so a queue that grows by 1 us makes each flow wait 1/window us longer: below half a packet, the
//!            answer is larger than what it answers. And it takes the whole step m, although it then lasts a whole gap.
//!            - The wait after an ACK stays when the RTT changes: below one packet too, ACKs clock the flow.
//!            - One ACK takes at most so much of log2 U that a delay 1 us off moves the next packet by 0.5 us: Eq. 4 with
//!              an effective m that falls as 1/gap. T, and so the fixed point, is the paper's.
//!            - While the delay stays below the target by more than a doubling of the rate is worth, each ACK takes twice
//!              as much as the one before, up to m: a starved flow comes back.
//!            - Packets go up to half an RTT early or late, by chance: else slow flows lock to the swing of fast ones.
//!            It costs time: 1/m ACKs to become fair, with the effective m. And the host must measure a running gap anew
//!            when an ACK comes. Figures and what else was tried: docs/below-one-packet.md.
//! Limits     p, k, min rate and max rate must be the same for all flows that share queues: two flows with different
//!            `max-rate` have different targets at the same rate, and fairness is lost. Every hop must stamp, or the
//!            brownfield signal (section 4.1) must be chosen.

#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

use crate::event::{Ack, Loss};
use crate::law::{Decision, LONGEST_RTT, Law, Pacing, Path};
use crate::params::{choice, params};
use crate::parts::coexistence::{DelaySignal, limit_between};
use crate::parts::fixed_math::{ONE, Q, exp2, exp2_parts, log2, log2_slow};
use crate::parts::gate::TimeGate;
use poseidon_types::{BitRate, Fraction, Nanos, Packets, Signals};

mod numbers;
pub use numbers::Numbers;

choice! {
    /// How the target delay falls with the flow's rate.
    pub enum Target {
        /// Eq. 3: by the same amount per doubling of the rate.
        Log = "log",
        /// Eq. 18: as 1/sqrt(rate), matched to Eq. 3 at both ends.
        InvSqrtRate = "inv-sqrt-rate",
        /// Fig. 23's counter-example: as 1/sqrt(window), blind to the RTT.
        InvSqrtWindow = "inv-sqrt-cwnd",
        /// The ablation of Fig. 21a: the same for every rate.
        Fixed = "fixed",
    }
}

choice! {
    /// How the window moves towards the target.
    pub enum Update {
        /// Eq. 4: exponential in the distance between target and delay.
        Distance = "distance",
        /// Eq. 13: the ratio (T + m)/(delay + m); its m is a delay.
        Ratio = "ratio",
        /// The ablation of Fig. 21a: one packet per round trip up, Eq. 4 down.
        Aimd = "aimd",
        /// Not the paper's: Eq. 4, and calm below two packets per round trip, where the paper's own update swings.
        Steady = "steady",
    }
}

choice! {
    /// Which delay is held against the target.
    pub enum Signal {
        /// The largest per-hop delay on the data path.
        MaxHopDelay = "max-hop-delay",
        /// The ablation of Fig. 21a: all queueing of the round trip.
        Rtt = "rtt",
        /// Section 4.1: the larger of the reported worst hop and whatever delay no hop reported.
        Brownfield = "brownfield",
    }
}

params! {
    /// Poseidon's parameters; the defaults are the paper's evaluation on 200 Gbps links.
    pub struct PoseidonParams {
        /// p: the target's range, from `max_rate` down to `min_rate` (section 5).
        target_range: Nanos = Nanos::from_micros(40),
        /// k: the target at `max_rate` and above, the smallest one (section 5).
        target_floor: Nanos = Nanos::from_micros(2),
        /// m: the share of the logarithmic distance to the fair rate that one round trip covers (section 5); Eq. 2 needs 0 < m < 2.
        step: Fraction = Fraction::ratio(1, 4),
        /// The rate at which the target is largest (caption of Fig. 7b).
        min_rate: BitRate = BitRate::from_mbps(20),
        /// The rate at which the target is smallest: the fastest NIC of the fabric (caption of Fig. 7b).
        max_rate: BitRate = BitRate::from_gbps(200),
        /// The strongest cut (min_md of Alg. 1; the value is Swift's).
        min_decrease: Fraction = Fraction::ratio(1, 2),
        /// The strongest growth per window (max_mi of Alg. 1).
        max_increase: Fraction = Fraction::ratio(2, 1),
        /// The first window (Google's public Falcon simulator; the paper does not say).
        initial_window: Packets = Packets::whole(32),
        /// The smallest window (Falcon).
        min_window: Packets = Packets::from_q24(167_772),
        /// The largest window, whole packets (Falcon).
        max_window: Packets = Packets::whole(256),
        /// Timeouts in a row after which the window falls to the smallest (Falcon; Alg. 2).
        reset_after: u32 = 3,
        /// How the target falls with the rate.
        target: Target = Target::Log,
        /// How the window moves towards the target.
        update: Update = Update::Distance,
        /// Which delay is held against the target.
        signal: Signal = Signal::MaxHopDelay,
        /// The target of the `fixed` ablation.
        fixed_target: Nanos = Nanos::from_micros(5),
        /// The RTT at which `inv-sqrt-cwnd` is matched to Eq. 3: one for the whole network (9.9 us in the evaluation).
        window_rtt: Nanos = Nanos::new(9_900),
        /// m of Eq. 13, a delay.
        ratio_delay: Nanos = Nanos::from_micros(1),
        /// Alg. 1 to the letter: U is not bounded by `min_decrease` and `max_increase`, and a flow that does not use its window grows.
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
            |p| !p.window_rtt.is_zero() && p.window_rtt <= LONGEST_RTT;
        max_window: "between 1 and 32768 packets, whole",
            |p| p.max_window >= Packets::ONE && p.max_window <= Packets::MAX_WINDOW
                && p.max_window == Packets::whole(p.max_window.floor());
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
        reset_after: "between 1 and 255", |p| (1..=255).contains(&p.reset_after);
    }
}

/// Fractional bits of a target inside the `ratio` update: 1/256 ns, so that rounding a target costs nothing.
const DELAY_Q: u32 = 8;
/// Fractional bits of the bounds of a step: 2^-12 in log2 is 8.5e-5 of the bound, and exact for powers of two.
const BOUND_Q: u32 = 12;

/// What one ACK may do in the `steady` update: a delay that is one nanosecond off moves the next packet by half a nanosecond. 1/2 / ln 2,
/// because steps are log2; 24 fractional bits.
const HALF: u64 = 12_102_203;
/// The most often that a run of ACKs far below the target doubles a step; with more, 64 bits would not hold the product.
const LONGEST_RUN: u8 = 8;
/// The farthest step up or down before a part is taken of it, log2 with 24 fractional bits: the product with a fraction of at most
/// one fits 64 bits.
const FARTHEST: i64 = 1 << 38;
/// `strict-paper`: the largest step up, log2 with 24 fractional bits. One packet of growth by 2^16 is above the largest window, 2^15
/// packets, so a larger step would do the same.
const STRICT_UP: i64 = 16 << Q;
/// `strict-paper`: the largest step down. 2^-26 of the largest window, 2^15 packets, is below the smallest that `min_window` allows.
const STRICT_DOWN: i64 = -26 << Q;

/// One flow under Poseidon: 64 bytes, constants included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poseidon {
    /// The window, packets with 24 fractional bits.
    window: u64,
    last_cut: TimeGate,
    /// The last raw RTT, ns; what Alg. 2 and the pacing gap use between ACKs.
    rtt: u32,
    /// log2(max rate) - log2(one raw window unit per nanosecond): with the logs of window and rtt it gives
    /// log2(max/rate). 24 fractional bits. `inv-sqrt-cwnd`: with the log of its one RTT added.
    rate_offset: i32,
    /// A = log2(max/min), 24 fractional bits.
    span: u32,
    /// What one unit of [`Self::scale`] adds to log2 U, 24 fractional bits (`ratio`: to the target, ns, 8 fractional bits).
    weight: u32,
    /// Smallest target, ns.
    floor: u32,
    /// What one ns of delay takes from log2 U, m·A/p, times 2^(24 + `gain_shift`); between 2^30 and 2^31, so that any
    /// delay fits (`ratio`: its m, ns).
    gain: u32,
    /// 24 fractional bits.
    min_window: u32,
    /// The unloaded RTT, ns.
    base_rtt: u32,
    /// log2 of the strongest cut and the strongest growth, 12 fractional bits.
    min_step: i16,
    max_step: i16,
    /// Whole packets.
    max_window: u16,
    gain_shift: u8,
    timeouts: u8,
    reset_after: u8,
    target: Target,
    update: Update,
    signal: Signal,
    strict_paper: bool,
    /// Whether target, update or signal is another than the paper's, or its bounds are left out: the path of few flows.
    is_variant: bool,
    /// `steady`: how many ACKs in a row were far below the target.
    run: u8,
    /// `steady`: by how much of an RTT the next packet is early or late, in 256ths.
    jitter: i8,
}

impl Law for Poseidon {
    const NAME: &'static str = "poseidon";
    const SOURCE: &'static str = "Wang et al., NSDI 2023, Alg. 1 and 2, Eq. 3 and 4";
    const STATE_LIMIT: usize = 64;
    type Params = PoseidonParams;

    fn needs(params: &PoseidonParams) -> Signals {
        match params.signal {
            Signal::MaxHopDelay => Signals::RTT | Signals::MAX_HOP_DELAY,
            // Hops that do not speak telemetry are the point of brownfield, so their delays are used if they come.
            Signal::Rtt | Signal::Brownfield => Signals::RTT,
        }
    }

    fn new(params: &PoseidonParams, path: &Path) -> Self {
        let span = log2_slow(params.max_rate.get()) - log2_slow(params.min_rate.get());
        // One raw unit of window is 2^-24 packets; in one nanosecond that is this rate.
        let unit_rate = log2_slow(path.mtu.get().saturating_mul(8_000_000_000)) - (24 << Q);
        // The largest value of `scale`, at which the target is p above its floor.
        let largest = match params.target {
            Target::Log | Target::Fixed => span.cast_unsigned(),
            Target::InvSqrtRate | Target::InvSqrtWindow => exp2(span / 2) - ONE.cast_unsigned(),
        };
        // m·A with 24 fractional bits: log2 U at the slowest rate and the smallest target.
        let reach = params.step.of_floor(span.cast_unsigned());
        let (gain, gain_shift) = normalised(reach, params.target_range.get());
        let (gain, weight) = match params.update {
            Update::Distance | Update::Aimd | Update::Steady => (gain, shift_div(reach, Q, largest)),
            Update::Ratio => {
                (params.ratio_delay.get(), shift_div(params.target_range.get() << DELAY_Q, Q, largest))
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
            last_cut: TimeGate::NEVER,
            rtt: low_32(path.base_rtt.get()),
            rate_offset: i32::try_from(rate_offset).unwrap_or(i32::MAX),
            span: low_32(span.cast_unsigned()),
            weight: low_32(weight),
            floor: low_32(floor.get()),
            gain: low_32(gain),
            min_window: low_32(params.min_window.q24()),
            base_rtt: low_32(path.base_rtt.get()),
            min_step: bound(params.min_decrease),
            max_step: bound(params.max_increase),
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

    /// Alg. 1, `ReceiveACK`.
    #[inline]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if self.is_variant {
            return self.on_ack_of_variant(ack);
        }
        self.rtt = low_32(ack.rtt.get());
        self.timeouts = 0;
        if let Some(delay) = ack.max_hop_delay {
            let step = self.log_step(self.behind(self.rtt).cast_unsigned(), low_32(delay.get()));
            self.follow(step, ack);
        }
    }

    /// Alg. 2, `FastRecovery`.
    fn on_loss(&mut self, loss: &Loss) {
        self.timeouts = 0;
        self.strongest_cut(loss.now);
    }

    /// Alg. 2, `RetransmitTimeout`.
    fn on_timeout(&mut self, now: Nanos) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= self.reset_after {
            self.shrink_to(0, now);
        } else {
            self.strongest_cut(now);
        }
    }

    /// Above the target delay.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        self.signal_delay(ack).is_some_and(|delay| Nanos::new(u64::from(delay)) > self.target_delay())
    }

    fn delay_signal(&self, ack: &Ack<'_>) -> Option<DelaySignal> {
        let delay = self.signal_delay(ack).map(|delay| Nanos::new(u64::from(delay)))?;
        Some(DelaySignal { delay, within_target: delay <= self.target_delay(), limit: self.delay_limit() })
    }

    /// Alg. 1, lines 18-24.
    #[inline]
    fn decision(&self) -> Decision {
        let window = Packets::from_q24(self.window);
        let pacing = if window < Packets::ONE {
            // Zero but for the `steady` update.
            let early_or_late = (i64::from(self.rtt) * i64::from(self.jitter)) >> 8;
            Pacing::Gap(Nanos::new(self.gap(self.rtt).saturating_add_signed(early_or_late)))
        } else {
            Pacing::Off
        };
        Decision { window, pacing }
    }
}

impl Poseidon {
    /// The target delay at the present window and RTT, rounded down: what a report shows.
    pub fn target_delay(&self) -> Nanos {
        let above = match self.update {
            Update::Distance | Update::Aimd | Update::Steady => {
                ((self.scale() * u64::from(self.weight)) >> Q << self.gain_shift)
                    / u64::from(self.gain.max(1))
            }
            Update::Ratio => self.target_q8() >> DELAY_Q,
        };
        Nanos::new(above + u64::from(self.floor))
    }

    /// A queue that stays above this is not one of Poseidon's alone: see [`crate::parts::coexistence`]. Of Eq. 3 and the fixed
    /// target, which are all that a network outside the paper's figures runs.
    pub fn delay_limit(&self) -> Nanos {
        let range =
            ((u64::from(self.span) * u64::from(self.weight)) >> Q << self.gain_shift) / u64::from(self.gain.max(1));
        let floor = Nanos::new(u64::from(self.floor));
        limit_between(floor, floor + Nanos::new(range))
    }

    /// Moves the window by log2 U: up with each ACK, down at most once per round trip.
    #[inline]
    fn follow(&mut self, step: i64, ack: &Ack<'_>) {
        if step >= 0 {
            // Line 5: window · (1 + (U - 1)/window · acked). At most 16 with 24 fractional bits: shifts by four at most.
            let (mantissa, whole) = exp2_parts(step.min(self.max_step()));
            self.grow((mantissa << whole) - ONE.cast_unsigned(), ack);
        } else if self.last_cut.since(ack.now).get() > u64::from(self.rtt) {
            // Line 7.
            self.cut(step.max(self.min_step()), ack.now);
        }
    }

    /// Adds `growth` (24 fractional bits; below 2^28, or below 2^41 for at most 2^15 packets) per acknowledged packet; Alg. 1,
    /// line 18.
    #[inline]
    fn grow(&mut self, growth: u64, ack: &Ack<'_>) {
        if !ack.app_limited || self.strict_paper {
            let grown = self.window + growth * u64::from(ack.packets);
            self.window = grown.min(u64::from(self.max_window) << Packets::FRACTION_BITS);
        }
    }

    /// The same with another target, update or signal. Kept out of the way of the paper's own path: inlined, the variants
    /// cost it a dozen instructions.
    #[cold]
    #[inline(never)]
    fn on_ack_of_variant(&mut self, ack: &Ack<'_>) {
        let last_rtt = self.rtt;
        self.rtt = low_32(ack.rtt.get());
        self.timeouts = 0;
        if self.update == Update::Steady {
            self.keep_wait(last_rtt);
            self.jitter = ack.chance.to_be_bytes()[0].cast_signed();
        }
        let Some(delay) = self.signal_delay(ack) else { return };
        let step = match self.update {
            Update::Distance | Update::Aimd | Update::Steady => self.log_step(self.scale(), delay),
            Update::Ratio => self.log_ratio(delay),
        };
        if self.update == Update::Steady {
            self.follow_steadily(step, ack);
        } else if self.update == Update::Aimd && step >= 0 {
            // Swift's increase: one packet per window, or per acknowledged packet below one.
            self.grow((1 << (2 * Q)) / self.window.max(1 << Q), ack);
        } else if self.strict_paper {
            self.follow_unbounded(step, ack);
        } else {
            self.follow(step, ack);
        }
    }

    /// `strict-paper`: as [`Self::follow`], by all of log2 U. Only the smallest and the largest window bound it.
    fn follow_unbounded(&mut self, step: i64, ack: &Ack<'_>) {
        if step >= 0 {
            let (mantissa, whole) = exp2_parts(step.min(STRICT_UP));
            // No ACK is for more packets than the largest window. Below 2^41 times 2^15 fits 64 bits.
            let packets = ack.packets.min(u32::from(self.max_window));
            self.grow((mantissa << whole) - ONE.cast_unsigned(), &Ack { packets, ..*ack });
        } else if self.last_cut.since(ack.now).get() > u64::from(self.rtt) {
            self.cut(step.max(STRICT_DOWN), ack.now);
        }
    }

    /// `steady`, below one packet: writes the window anew for the RTT of this ACK, so that the flow waits as long after
    /// it as after the last one. Alg. 1 stretches the wait with the RTT, by 1/window times what the RTT has changed.
    fn keep_wait(&mut self, last_rtt: u32) {
        if self.window < Packets::ONE.q24() {
            let gap = u64::from(self.rtt) + self.gap(last_rtt).saturating_sub(u64::from(last_rtt));
            let window = (u64::from(self.rtt) << Packets::FRACTION_BITS) / gap.max(1);
            self.window = window.max(u64::from(self.min_window));
        }
    }

    /// Moves the window by a part of log2 U: up below one packet, down below two. Otherwise as the paper does; cuts begin
    /// earlier because a flow that the paper's cut takes below one packet would need many small steps to come back.
    fn follow_steadily(&mut self, step: i64, ack: &Ack<'_>) {
        let papers = if step >= 0 { Packets::ONE } else { Packets::whole(2) };
        if self.window >= papers.q24() {
            self.run = 0;
            return self.follow(step, ack);
        }
        let part = (step.clamp(-FARTHEST, FARTHEST) * self.part(step >= 0)) >> Q;
        // Far is one doubling of the rate: m in log2 U, which is what `weight` holds for Eq. 3.
        self.run = if step > i64::from(self.weight) { (self.run + 1).min(LONGEST_RUN) } else { 0 };
        if part >= 0 {
            // Below one packet each ACK is a round of its own: a factor U.
            let (mantissa, whole) = exp2_parts(part.min(self.max_step()));
            let growth = (mantissa << whole) - ONE.cast_unsigned();
            self.grow((growth * self.window) >> Packets::FRACTION_BITS, ack);
        } else {
            self.follow(part, ack);
        }
    }

    /// How much of log2 U one ACK may move the window by: at most all, 24 fractional bits.
    fn part(&self, grows: bool) -> i64 {
        let gap = self.gap(self.rtt).clamp(u64::from(self.rtt), u64::from(u32::MAX));
        // By how much log2 U moves when the delay moves by the gap: both factors have 32 bits.
        let per_gap = (u64::from(self.gain) * gap) >> self.gain_shift;
        let most = if grows { HALF << self.run } else { HALF };
        ((most << Q) / per_gap.max(1)).min(ONE.cast_unsigned()).cast_signed()
    }

    /// Between two packets, for windows below one, at this RTT: ns.
    #[inline]
    fn gap(&self, rtt: u32) -> u64 {
        (u64::from(rtt) << Packets::FRACTION_BITS) / self.window.max(1)
    }

    /// The delay that is held against the target, ns. `None` where nothing is known.
    fn signal_delay(&self, ack: &Ack<'_>) -> Option<u32> {
        let queueing = ack.rtt - Nanos::new(u64::from(self.base_rtt));
        let delay = match self.signal {
            Signal::MaxHopDelay => ack.max_hop_delay?,
            Signal::Rtt => queueing,
            Signal::Brownfield => {
                // Section 4.1: what the RTT holds beyond propagation and the two worst hops was not reported.
                let forward = ack.max_hop_delay.unwrap_or(Nanos::ZERO);
                let reverse = ack.reverse_max_hop_delay.unwrap_or(Nanos::ZERO);
                forward.max(queueing - forward - reverse)
            }
        };
        Some(low_32(delay.get()))
    }

    /// How far the target is above its floor, in units of its shape: log2(max/rate) for Eq. 3, 2^(that/2) - 1 for
    /// Eq. 18. 24 fractional bits.
    fn scale(&self) -> u64 {
        match self.target {
            Target::Log | Target::Fixed => self.behind(self.rtt).cast_unsigned(),
            Target::InvSqrtRate => exp2(self.behind(self.rtt) / 2) - ONE.cast_unsigned(),
            // Its RTT is in the offset; that of the flow has no part in it.
            Target::InvSqrtWindow => exp2(self.behind(1) / 2) - ONE.cast_unsigned(),
        }
    }

    /// log2(max/rate), held within [0, A], 24 fractional bits.
    #[inline]
    fn behind(&self, rtt: u32) -> i64 {
        let behind = i64::from(self.rate_offset) - log2(self.window) + log2(u64::from(rtt));
        behind.clamp(0, i64::from(self.span))
    }

    /// log2 U(T(rate), delay), Eq. 3 and 4 in one line, unbounded; at least zero when the delay is at most the target.
    /// 24 fractional bits.
    #[inline]
    fn log_step(&self, scale: u64, delay: u32) -> i64 {
        // `scale` times `weight` is at most m·A, below 2^7, with 48 fractional bits.
        let rate_part = (scale * u64::from(self.weight)) >> Q;
        let delay_part = (i64::from(self.floor) - i64::from(delay)) * i64::from(self.gain);
        rate_part.cast_signed() + (delay_part >> self.gain_shift)
    }

    /// log2 of Eq. 13, (T + m)/(delay + m), for the ablation: by difference of logs instead of a quotient.
    fn log_ratio(&self, delay: u32) -> i64 {
        let damping = u64::from(self.gain) << DELAY_Q;
        let target = self.target_q8() + (u64::from(self.floor) << DELAY_Q);
        log2(target + damping) - log2((u64::from(delay) << DELAY_Q) + damping)
    }

    /// The target above its floor, ns with 8 fractional bits, in the `ratio` update.
    fn target_q8(&self) -> u64 {
        (self.scale() * u64::from(self.weight)) >> Q
    }

    /// The strongest cut as a log2, 24 fractional bits.
    #[inline]
    fn min_step(&self) -> i64 {
        i64::from(self.min_step) << (Q - BOUND_Q)
    }

    /// The strongest growth as a log2, 24 fractional bits.
    #[inline]
    fn max_step(&self) -> i64 {
        i64::from(self.max_step) << (Q - BOUND_Q)
    }

    /// The strongest cut, if the gate is open.
    fn strongest_cut(&mut self, now: Nanos) {
        if self.last_cut.since(now).get() > u64::from(self.rtt) {
            self.cut(self.min_step(), now);
        }
    }

    /// Multiplies the window by 2^`step`, a step below zero.
    #[inline]
    fn cut(&mut self, step: i64, now: Nanos) {
        // 2^15 packets with 24 fractional bits times a number below two with as many fits 64 bits.
        let (mantissa, whole) = exp2_parts(step);
        self.shrink_to((self.window * mantissa) >> ((i64::from(Q) - whole) & 63), now);
    }

    /// Alg. 1, lines 18-20.
    #[inline]
    fn shrink_to(&mut self, window: u64, now: Nanos) {
        let window = window.max(u64::from(self.min_window));
        if window < self.window {
            self.last_cut.close(now);
        }
        self.window = window;
    }
}

/// `reach / range` (24 fractional bits, ns) as a number between 2^30 and 2^31 and the shift that undoes it.
fn normalised(reach: u64, range: u64) -> (u64, u8) {
    let mut shift = 0;
    let mut gain = shift_div(reach, 0, range);
    while gain < 1 << 30 && shift < 62 {
        shift += 1;
        gain = shift_div(reach, shift, range);
    }
    (gain, u8::try_from(shift).unwrap_or(u8::MAX))
}

/// log2 of a bound of the step, 12 fractional bits.
fn bound(ratio: Fraction) -> i16 {
    let log = log2_slow(ratio.q32()) - (32 << Q);
    i16::try_from((log + (1 << (Q - BOUND_Q - 1))) >> (Q - BOUND_Q)).unwrap_or(0)
}

/// `(x << bits) / y`, rounded to the nearest.
fn shift_div(x: u64, bits: u32, y: u64) -> u64 {
    let y = u128::from(y.max(1));
    u64::try_from(((u128::from(x) << bits) + y / 2) / y).unwrap_or(u64::MAX)
}

/// Saturates at 32 bits: 4.29 s for a time, beyond any datacenter's.
#[inline]
fn low_32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}
