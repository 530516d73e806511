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
//!            - A flow that does not use its window does not grow it (RFC 7661's rule), unless `strict-paper` is set.
//! Limits     p, k, min rate and max rate must be the same for all flows that share queues: two flows with different
//!            `max-rate` have different targets at the same rate, and fairness is lost. Every hop must stamp, or the
//!            brownfield signal (section 4.1) must be chosen.

#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::{choice, params};
use crate::parts::fixed_math::{ONE, Q, exp2, log2, log2_slow};
use crate::parts::gate::TimeGate;
use poseidon_types::{BitRate, Fraction, Nanos, Packets, Signals};

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
        /// m of Eq. 13, a delay.
        ratio_delay: Nanos = Nanos::from_micros(1),
        /// Grow even when the flow does not use its window: Alg. 1 to the letter.
        strict_paper: bool = false,
    }
    presets {}
    check {
        step: "above 0 and below 2 (Eq. 2)", |p| p.step > Fraction::ZERO && p.step.q32() < 2 << 32;
        target_range: "between 2 us and 10 ms",
            |p| (2_000..=10_000_000).contains(&p.target_range.get());
        target_floor: "between 1 ns and 100 ms", |p| (1..=100_000_000).contains(&p.target_floor.get());
        fixed_target: "between 1 ns and 100 ms", |p| (1..=100_000_000).contains(&p.fixed_target.get());
        ratio_delay: "at most 100 ms", |p| p.ratio_delay.get() <= 100_000_000;
        min_rate: "above zero and at most a quarter of max_rate",
            |p| p.min_rate > BitRate::ZERO && p.min_rate.get() <= p.max_rate.get() / 4;
        max_rate: "at most 100 Tbps", |p| p.max_rate <= BitRate::from_gbps(100_000);
        min_decrease: "between 0.001 and 1",
            |p| p.min_decrease >= Fraction::ratio(1, 1_000) && p.min_decrease < Fraction::ONE;
        max_increase: "above 1 and at most 16",
            |p| p.max_increase > Fraction::ONE && p.max_increase <= Fraction::ratio(16, 1);
        min_window: "above zero and at most one packet",
            |p| p.min_window > Packets::ZERO && p.min_window <= Packets::ONE;
        max_window: "between 1 and 32768 packets, whole",
            |p| p.max_window >= Packets::ONE && p.max_window <= Packets::MAX_WINDOW
                && p.max_window == Packets::whole(p.max_window.floor());
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
        reset_after: "between 1 and 255", |p| (1..=255).contains(&p.reset_after);
    }
}

/// Fractional bits of a target or a delay inside the law: 1/256 ns, so that rounding a target costs nothing.
const DELAY_Q: u32 = 8;
/// Fractional bits of `gain`, in log2 units per nanosecond.
const GAIN_Q: u32 = 36;
/// Distances beyond 4 ms step as far as one of 4 ms: U is at its bound long before, and products fit 64 bits.
const FARTHEST: i64 = 1 << (22 + DELAY_Q);
/// Packets that one ACK may count for in a growth step; bounds the product below.
const MOST_ACKED: u32 = 1 << 16;

/// One flow under Poseidon: 64 bytes, constants included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poseidon {
    /// The window, packets with 24 fractional bits.
    window: u64,
    last_cut: TimeGate,
    /// The last raw RTT, ns; what Alg. 2 and the pacing gap use between ACKs.
    rtt: u32,
    /// log2(max rate) - log2(one raw window unit per nanosecond): with the logs of window and rtt it gives
    /// log2(max/rate). 24 fractional bits.
    rate_offset: i32,
    /// A = log2(max/min), 24 fractional bits.
    span: u32,
    /// `log`: ns of target per doubling of the rate, p/A. `inv-sqrt`: ns per unit of 2^(L/2). 8 fractional bits.
    slope: u32,
    /// Smallest target, ns.
    floor: u32,
    /// `distance`: log2 of the step per ns of distance, m·A/p, 36 fractional bits. `ratio`: m, ns.
    gain: u32,
    /// log2 of the strongest cut and the strongest growth, 24 fractional bits.
    min_step: i32,
    max_step: i32,
    /// 24 fractional bits.
    min_window: u32,
    /// The unloaded RTT, ns.
    base_rtt: u32,
    /// Whole packets.
    max_window: u16,
    timeouts: u8,
    reset_after: u8,
    target: Target,
    update: Update,
    signal: Signal,
    strict_paper: bool,
}

impl Law for Poseidon {
    const NAME: &'static str = "poseidon";
    const SOURCE: &'static str = "Wang et al., NSDI 2023, Alg. 1 and 2, Eq. 3 and 4";
    const STATE_LIMIT: usize = 64;
    type Params = PoseidonParams;

    fn needs(params: &PoseidonParams) -> Signals {
        match params.signal {
            Signal::MaxHopDelay => Signals::RTT | Signals::MAX_HOP_DELAY,
            Signal::Rtt => Signals::RTT,
            // Hops that do not speak telemetry are the point of it, so the delays are used if they come.
            Signal::Brownfield => Signals::RTT,
        }
    }

    fn new(params: &PoseidonParams, path: &Path) -> Self {
        let span = log2_slow(params.max_rate.get()) - log2_slow(params.min_rate.get());
        // One raw unit of window is 2^-24 packets; in one nanosecond that is this rate.
        let unit_rate = log2_slow(path.mtu.get().saturating_mul(8_000_000_000)) - (24 << Q);
        let range_q8 = params.target_range.get() << DELAY_Q;
        let slope = match params.target {
            Target::Log => shift_div(range_q8, Q, span.cast_unsigned()),
            Target::InvSqrtRate | Target::InvSqrtWindow => {
                shift_div(range_q8, Q, exp2(span / 2).saturating_sub(ONE.cast_unsigned()))
            }
            Target::Fixed => 0,
        };
        let gain = match params.update {
            Update::Ratio => params.ratio_delay.get(),
            Update::Distance | Update::Aimd => {
                // m has 32 fractional bits and A 24; the quotient by p keeps 36.
                let product = u128::from(params.step.q32()) * u128::from(span.cast_unsigned());
                let rounded = (product >> (32 + Q - GAIN_Q)) / u128::from(params.target_range.get());
                u64::try_from(rounded).unwrap_or(u64::MAX)
            }
        };
        let floor = match params.target {
            Target::Fixed => params.fixed_target,
            _ => params.target_floor,
        };
        Self {
            window: params.initial_window.q24(),
            last_cut: TimeGate::NEVER,
            rtt: low_32(path.base_rtt.get()),
            rate_offset: signed_32(log2_slow(params.max_rate.get()) - unit_rate),
            span: low_32(span.cast_unsigned()),
            slope: low_32(slope),
            floor: low_32(floor.get()),
            gain: low_32(gain),
            min_step: signed_32(log2_slow(params.min_decrease.q32()) - (32 << Q)),
            max_step: signed_32(log2_slow(params.max_increase.q32()) - (32 << Q)),
            min_window: low_32(params.min_window.q24()),
            base_rtt: low_32(path.base_rtt.get()),
            max_window: u16::try_from(params.max_window.floor()).unwrap_or(u16::MAX),
            timeouts: 0,
            reset_after: u8::try_from(params.reset_after).unwrap_or(u8::MAX),
            target: params.target,
            update: params.update,
            signal: params.signal,
            strict_paper: params.strict_paper,
        }
    }

    /// Alg. 1, `ReceiveACK`.
    #[inline]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.rtt = low_32(ack.rtt.get().max(1));
        self.timeouts = 0;
        let Some(delay) = self.signal_delay(ack) else {
            return;
        };
        let distance = self.target_q8() - (delay << DELAY_Q).cast_signed();
        if distance >= 0 {
            // Line 5: window · (1 + (U - 1)/window · acked).
            if ack.app_limited && !self.strict_paper {
                return;
            }
            let acked = u64::from(ack.packets.min(MOST_ACKED));
            let grown = self.window + self.growth(distance, delay) * acked;
            self.window = grown.min(u64::from(self.max_window) << Packets::FRACTION_BITS);
        } else if self.last_cut.since(ack.now).get() > u64::from(self.rtt) {
            // Line 7: at most once per round trip.
            let step = self.step(distance, delay);
            self.cut_to((self.window * step) >> Q, ack.now);
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
            self.cut_to(0, now);
        } else {
            self.strongest_cut(now);
        }
    }

    /// Alg. 1, lines 18-24.
    #[inline]
    fn decision(&self) -> Decision {
        let window = Packets::from_q24(self.window);
        let pacing = if window < Packets::ONE {
            let gap = (u64::from(self.rtt) << Packets::FRACTION_BITS) / self.window.max(1);
            Pacing::Gap(Nanos::new(gap))
        } else {
            Pacing::Off
        };
        Decision { window, pacing }
    }
}

impl Poseidon {
    /// The target delay at the present window and RTT, rounded down: what a report shows.
    pub fn target_delay(&self) -> Nanos {
        Nanos::new(self.target_q8().cast_unsigned() >> DELAY_Q)
    }

    /// The delay that is held against the target, ns. `None` where nothing is known.
    #[inline]
    fn signal_delay(&self, ack: &Ack<'_>) -> Option<u64> {
        let delay = match self.signal {
            Signal::MaxHopDelay => ack.max_hop_delay?,
            Signal::Rtt => ack.rtt - Nanos::new(u64::from(self.base_rtt)),
            Signal::Brownfield => {
                // Section 4.1: what the RTT holds beyond propagation and the two worst hops was not reported.
                let forward = ack.max_hop_delay.unwrap_or(Nanos::ZERO);
                let reverse = ack.reverse_max_hop_delay.unwrap_or(Nanos::ZERO);
                let rest = ack.rtt - Nanos::new(u64::from(self.base_rtt)) - forward - reverse;
                forward.max(rest)
            }
        };
        Some(u64::from(low_32(delay.get())))
    }

    /// T(rate), Eq. 3, ns with 8 fractional bits.
    #[inline]
    fn target_q8(&self) -> i64 {
        let rtt = match self.target {
            Target::InvSqrtWindow => self.base_rtt,
            _ => self.rtt,
        };
        // log2(max/rate), held within [0, A].
        let behind = i64::from(self.rate_offset) - log2(self.window) + log2(u64::from(rtt));
        let behind = behind.clamp(0, i64::from(self.span));
        let scale = match self.target {
            Target::Log | Target::Fixed => behind,
            // rate^-1/2 is 2^(L/2) times its value at the largest rate.
            Target::InvSqrtRate | Target::InvSqrtWindow => exp2(behind / 2).cast_signed() - ONE,
        };
        // The largest scale times the slope is p by construction: below 2^32 with 8 + 24 bits behind the point.
        let above = (scale.cast_unsigned() * u64::from(self.slope)) >> Q;
        (above + (u64::from(self.floor) << DELAY_Q)).cast_signed()
    }

    /// U - 1 for a delay at or below the target, 24 fractional bits: growth in packets per acknowledged packet.
    #[inline]
    fn growth(&self, distance: i64, delay: u64) -> u64 {
        match self.update {
            // Swift's increase: one packet per window, or per acknowledged packet below one.
            Update::Aimd => (1 << (2 * Q)) / self.window.max(1 << Q),
            _ => self.step(distance, delay).saturating_sub(1 << Q),
        }
    }

    /// U(target, delay), Eq. 4 (or Eq. 13), bounded, 24 fractional bits.
    #[inline]
    fn step(&self, distance: i64, delay: u64) -> u64 {
        let (least, most) = (i64::from(self.min_step), i64::from(self.max_step));
        match self.update {
            Update::Distance | Update::Aimd => {
                let far = distance.clamp(-FARTHEST, FARTHEST);
                let log = (far * i64::from(self.gain)) >> (DELAY_Q + GAIN_Q - Q);
                exp2(log.clamp(least, most))
            }
            Update::Ratio => {
                let damped = (delay + u64::from(self.gain)) << DELAY_Q;
                let target = damped.saturating_add_signed(distance);
                // A target below 2^36 (67 ms with 8 bits) leaves room for 24 more.
                let ratio = (target.min(1 << 39) << Q) / damped.max(1);
                ratio.clamp(exp2(least), exp2(most))
            }
        }
    }

    /// The strongest cut, if the gate is open.
    fn strongest_cut(&mut self, now: Nanos) {
        if self.last_cut.since(now).get() > u64::from(self.rtt) {
            self.cut_to((self.window * exp2(i64::from(self.min_step))) >> Q, now);
        }
    }

    /// Alg. 1, lines 18-20: bounds the smaller window and notes the time if it fell.
    #[inline]
    fn cut_to(&mut self, window: u64, now: Nanos) {
        let window = window.max(u64::from(self.min_window));
        if window < self.window {
            self.last_cut.close(now);
        }
        self.window = window;
    }
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

/// Saturates at 31 bits and a sign.
fn signed_32(x: i64) -> i32 {
    i32::try_from(x).unwrap_or(if x < 0 { i32::MIN } else { i32::MAX })
}
