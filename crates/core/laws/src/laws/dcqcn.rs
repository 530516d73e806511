//! DCQCN: a rate cut by congestion notifications and recovered by timers.
//!
//! ```text
//! Model      notification      Rt = Rc;  Rc *= 1 - α/2;  α = (1-g)·α + g
//!            T_α without one   α *= 1 - g
//!            every T_i or B    Rc = (Rt + Rc)/2;  after F of either also Rt += R_AI, after F of both Rt += R_HAI
//! ```
//!
//! Signals    ECN echo: a marked ACK is a notification, at most one per `notify_gap`
//! Life       line rate → cut on marks → five steps back towards the rate before the cut → probing
//! Source     Zhu et al., SIGCOMM 2015; presets: the constants of HPCC's and PowerTCP's public artifacts
//! Differs    - A law has no timers of its own: elapsed periods are made up for when the next ACK arrives, at most
//!              64 at a time, so the cost per ACK is bounded.
//!            - The gap between notifications is kept here and not at the receiver, as in the artifacts.
//!            - In the artifacts α moves with its timer alone, up in a period with a mark and down in one without, and only
//!              the cut keeps the gap (`alpha_by_timer`); and without a byte counter the increase after the first additive
//!              one is already R_HAI. No timer runs before the first notification.
//! Limits     the marking thresholds live in the switch; without marks the flow stays at line rate

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bounded, bytes, bytes_per_ns, packets, to_rate, to_window};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

params! {
    /// DCQCN's parameters; the defaults are the SIGCOMM paper's.
    pub struct DcqcnParams {
        /// g: weight of a notification in α.
        gain: f64 = 0.00390625,
        /// T_α: α falls after this long without a notification.
        alpha_period: Nanos = Nanos::from_micros(55),
        /// α moves once per T_α, whatever the gap between cuts (artifacts).
        alpha_by_timer: bool = false,
        /// At most one cut per this long.
        notify_gap: Nanos = Nanos::from_micros(50),
        /// T_i: time between increases.
        increase_period: Nanos = Nanos::from_micros(55),
        /// Bytes between increases; 0 B switches the byte counter off.
        increase_bytes: Bytes = Bytes::new(10_000_000),
        /// F: increases before the target rate grows as well.
        fast_recovery: u32 = 5,
        /// R_AI.
        additive_increase: BitRate = BitRate::from_mbps(40),
        /// R_HAI.
        hyper_increase: BitRate = BitRate::from_mbps(40),
        /// The smallest rate.
        min_rate: BitRate = BitRate::from_mbps(100),
        /// Most packets in flight; a rate law has no window of its own.
        window: Packets = Packets::MAX_WINDOW,
    }
    presets {
        "hpcc-artifact", "the constants HPCC's artifact recommends, for 25 Gbps NICs", |p| {
            artifact_clocks(p);
            p.increase_period = Nanos::from_micros(300);
            p.additive_increase = BitRate::from_mbps(5);
            p.hyper_increase = BitRate::from_mbps(50);
        };
        "artifact-ns3", "the constants of PowerTCP's public ns-3 code", |p| {
            artifact_clocks(p);
            p.increase_period = Nanos::from_micros(900);
            p.additive_increase = BitRate::from_mbps(50);
            p.hyper_increase = BitRate::from_mbps(100);
        };
    }
    check {
        gain: "above 0 and at most 1", |p| p.gain > 0.0 && p.gain <= 1.0;
        alpha_period: "above zero", |p| p.alpha_period > Nanos::ZERO;
        increase_period: "above zero", |p| p.increase_period > Nanos::ZERO;
        min_rate: "above zero", |p| p.min_rate > BitRate::ZERO;
        window: "between 1 and 32768 packets",
            |p| p.window >= Packets::ONE && p.window <= Packets::MAX_WINDOW;
    }
}

/// What both artifacts share: fast clocks, no byte counter, one step of fast recovery.
fn artifact_clocks(p: &mut DcqcnParams) {
    p.alpha_period = Nanos::from_micros(1);
    p.alpha_by_timer = true;
    p.notify_gap = Nanos::from_micros(4);
    p.increase_bytes = Bytes::ZERO;
    p.fast_recovery = 1;
}

/// Periods made up for in one ACK: bounds its cost. After more silence than that the rate is stale anyway.
const MOST_PERIODS: u64 = 64;

/// One flow under DCQCN. Rates in bytes per ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Dcqcn {
    /// Rc.
    rate: f64,
    /// Rt.
    target: f64,
    alpha: f64,
    last_notified: Option<Nanos>,
    /// When the present periods began; `None` before the first notification.
    alpha_since: Option<Nanos>,
    /// A mark has come since the last period of α ended.
    marked: bool,
    increase_since: Nanos,
    bytes_since: f64,
    timer_stage: u32,
    byte_stage: u32,

    gain: f64,
    alpha_period: Nanos,
    notify_gap: Nanos,
    increase_period: Nanos,
    increase_bytes: f64,
    additive: f64,
    hyper: f64,
    min_rate: f64,
    max_rate: f64,
    window: f64,
    fast_recovery: u32,
    alpha_by_timer: bool,
}

impl Law for Dcqcn {
    const NAME: &'static str = "dcqcn";
    const SOURCE: &'static str = "Zhu et al., SIGCOMM 2015, section 3";
    const STATE_LIMIT: usize = 192;
    type Params = DcqcnParams;

    fn needs(_: &DcqcnParams) -> Signals {
        Signals::ECN_ECHO
    }

    fn new(params: &DcqcnParams, path: &Path) -> Self {
        let max_rate = bytes_per_ns(path.line_rate);
        Self {
            rate: max_rate,
            target: max_rate,
            alpha: 1.0,
            last_notified: None,
            alpha_since: None,
            marked: false,
            increase_since: Nanos::ZERO,
            bytes_since: 0.0,
            timer_stage: 0,
            byte_stage: 0,
            gain: params.gain,
            alpha_period: params.alpha_period,
            notify_gap: params.notify_gap,
            increase_period: params.increase_period,
            increase_bytes: bytes(params.increase_bytes),
            additive: bytes_per_ns(params.additive_increase),
            hyper: bytes_per_ns(params.hyper_increase),
            min_rate: bytes_per_ns(params.min_rate).min(max_rate),
            max_rate,
            window: packets(params.window),
            fast_recovery: params.fast_recovery,
            alpha_by_timer: params.alpha_by_timer,
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.catch_up(ack.now);
        if self.increase_bytes > 0.0 {
            self.bytes_since += bytes(ack.bytes);
            let full = count((self.bytes_since / self.increase_bytes).min(MOST_PERIODS as f64));
            for _ in 0..full {
                self.byte_stage = self.byte_stage.saturating_add(1);
                self.increase();
            }
            let rest = self.bytes_since - full as f64 * self.increase_bytes;
            self.bytes_since = bounded(rest, 0.0, self.increase_bytes);
        }
        if !ack.marked.is_zero() {
            self.on_notification(ack.now);
        }
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: Nanos) {}

    /// Marked.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero()
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.window), pacing: Pacing::Rate(to_rate(self.rate)) }
    }
}

impl Dcqcn {
    /// A congestion notification, unless one came a moment ago.
    fn on_notification(&mut self, now: Nanos) {
        self.marked = self.alpha_by_timer;
        let recent = |last: Nanos| now.get().wrapping_sub(last.get()) < self.notify_gap.get();
        if self.last_notified.is_some_and(recent) {
            return;
        }
        self.last_notified = Some(now);
        // Back-to-back notifications before any increase do not lower the target again (ClampTargetRate = false).
        if self.timer_stage > 0 || self.byte_stage > 0 || self.target < self.rate {
            self.target = self.rate;
        }
        self.rate = bounded(self.rate * (1.0 - self.alpha / 2.0), self.min_rate, self.max_rate);
        (self.timer_stage, self.byte_stage, self.bytes_since) = (0, 0, 0.0);
        self.increase_since = now;
        if !self.alpha_by_timer {
            self.alpha = blend(self.alpha, 1.0, self.gain);
            self.alpha_since = Some(now);
        } else if self.alpha_since.is_none() {
            self.alpha_since = Some(now);
        }
    }

    /// Runs the periods that have ended by now.
    fn catch_up(&mut self, now: Nanos) {
        let Some(mut alpha_since) = self.alpha_since else { return };
        for _ in 0..periods(&mut alpha_since, self.alpha_period, now) {
            self.alpha = blend(self.alpha, f64::from(u8::from(self.marked)), self.gain);
            self.marked = false;
        }
        self.alpha_since = Some(alpha_since);
        for _ in 0..periods(&mut self.increase_since, self.increase_period, now) {
            self.timer_stage = self.timer_stage.saturating_add(1);
            self.increase();
        }
    }

    /// One increase event.
    fn increase(&mut self) {
        let (most, least) = if self.increase_bytes > 0.0 {
            (self.timer_stage.max(self.byte_stage), self.timer_stage.min(self.byte_stage))
        } else {
            (self.timer_stage, self.timer_stage.saturating_sub(1))
        };
        if least > self.fast_recovery {
            self.target += self.hyper;
        } else if most > self.fast_recovery {
            self.target += self.additive;
        }
        self.target = bounded(self.target, self.min_rate, self.max_rate);
        self.rate = bounded(f64::midpoint(self.target, self.rate), self.min_rate, self.max_rate);
    }
}

/// How many whole periods have passed since `since`, which moves with them; at most [`MOST_PERIODS`].
fn periods(since: &mut Nanos, period: Nanos, now: Nanos) -> u64 {
    let passed = now.get().wrapping_sub(since.get()) / period.get().max(1);
    if passed > MOST_PERIODS {
        *since = now;
        return MOST_PERIODS;
    }
    *since = Nanos::new(since.get().wrapping_add(passed * period.get()));
    passed
}

/// A small non-negative number, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and MOST_PERIODS")]
fn count(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(40), base_rtt: Nanos::from_micros(10) };

    fn ack(us: u64, marked: u64) -> Ack<'static> {
        Ack { now: Nanos::from_micros(us), marked: Bytes::new(marked), ..Ack::EMPTY }
    }

    #[test]
    fn the_first_notification_halves_the_rate_and_recovery_goes_half_way_back_each_time() {
        let mut law = Dcqcn::new(&DcqcnParams::default(), &PATH);
        law.on_ack(&ack(0, 0));
        law.on_ack(&ack(1, 1_000));
        assert_eq!(law.rate, 2.5);
        law.on_ack(&ack(20, 1_000));
        assert_eq!(law.rate, 2.5, "within the gap");
        law.on_ack(&ack(56, 0));
        assert_eq!(law.rate, 3.75);
        law.on_ack(&ack(111, 0));
        assert_eq!(law.rate, 4.375);
    }

    #[test]
    fn alpha_falls_in_silence_after_the_first_notification() {
        let mut law = Dcqcn::new(&DcqcnParams::default(), &PATH);
        law.on_ack(&ack(0, 0));
        law.on_ack(&ack(500, 0));
        assert_eq!(law.alpha, 1.0, "no timer runs before it");
        law.on_ack(&ack(500, 1_000));
        law.on_ack(&ack(1_050, 0));
        assert!((law.alpha - (1.0f64 - 1.0 / 256.0).powi(10)).abs() < 1e-12);
    }

    #[test]
    fn rates_grow_as_each_preset_says() {
        // Rt after each increase period, Mbps above the rate before the cut.
        let growth = |preset: &str, period: u64, periods: u64| {
            let mut params = DcqcnParams::default();
            params.preset(preset).expect("a preset");
            let mut law = Dcqcn::new(&params, &PATH);
            (law.rate, law.target) = (2.5, 2.5);
            law.on_ack(&ack(1, 1_000));
            let grown = |n| {
                law.on_ack(&ack(1 + n * period, 0));
                ((law.target - 2.5) * 8e3 + 0.5).floor()
            };
            (1..=periods).map(grown).collect::<std::vec::Vec<f64>>()
        };
        assert_eq!(
            growth("paper", 55, 7),
            [0.0, 0.0, 0.0, 0.0, 0.0, 40.0, 80.0],
            "the byte counter stands still"
        );
        assert_eq!(growth("hpcc-artifact", 300, 4), [0.0, 5.0, 55.0, 105.0]);
        assert_eq!(growth("artifact-ns3", 900, 4), [0.0, 50.0, 150.0, 250.0]);
    }

    #[test]
    fn under_constant_marks_alpha_stays_at_one_in_the_artifacts() {
        let mut params = DcqcnParams::default();
        params.preset("artifact-ns3").expect("a preset");
        let mut law = Dcqcn::new(&params, &PATH);
        for us in 0..200 {
            law.on_ack(&ack(us, 1_000));
        }
        assert!(law.alpha > 0.99, "{}", law.alpha);
    }

    #[test]
    fn a_long_silence_costs_a_bounded_number_of_steps() {
        let mut since = Nanos::ZERO;
        assert_eq!(periods(&mut since, Nanos::new(1), Nanos::MAX), MOST_PERIODS);
        assert_eq!(since, Nanos::MAX);
    }
}
