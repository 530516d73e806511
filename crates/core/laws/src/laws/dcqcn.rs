//! DCQCN: congestion notifications cut the rate; timers and a byte counter raise it again.
//!
//! ```text
//! Model      notification      Rt = Rc;  Rc *= 1 - α/2;  α = (1-g)·α + g
//!            T_α without one   α *= 1 - g
//!            every T_i or B    Rc = (Rt + Rc)/2;  after F of either also Rt += R_AI, after F of both Rt += R_HAI
//! ```
//!
//! Signals    ECN echo: a marked ACK counts as a notification (CNP), at most one per `notify_gap`
//! Lifecycle  line rate → cut on marks → five steps back towards the rate before the cut → probing
//! Source     Zhu et al., SIGCOMM 2015; presets: constants from HPCC's and PowerTCP's public artifacts
//! Differs    - A law has no timers. Each ACK processes the periods that have elapsed since the last ACK, up to 64, so
//!              the cost per ACK is bounded.
//!            - The sender enforces the gap between notifications, as in the artifacts. In the paper, the receiver
//!              enforces it.
//!            - In the artifacts, only a timer changes α: it rises in a period with a mark and falls otherwise. The gap
//!              applies only to cuts (`alpha_by_timer`). Without a byte counter, R_HAI applies from the second increase
//!              on. No timer runs before the first notification.
//! Limits     The marking thresholds are switch parameters. Without marks the flow stays at line rate.

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bytes, bytes_per_ns, clamp, packets, to_rate, to_window};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

params! {
    /// Parameters of [`Dcqcn`]. The defaults match the SIGCOMM paper.
    pub struct DcqcnParams {
        /// g: the weight of a notification in α.
        gain: f64 = 0.00390625,
        /// T_α: the time without a notification after which α falls.
        alpha_period: Nanos = Nanos::from_micros(55),
        /// Update α once per T_α, independently of the gap between cuts (artifacts).
        alpha_by_timer: bool = false,
        /// The minimum time between two cuts.
        notify_gap: Nanos = Nanos::from_micros(50),
        /// T_i: the time between increases.
        increase_period: Nanos = Nanos::from_micros(55),
        /// The number of bytes between increases; 0 B disables the byte counter.
        increase_bytes: Bytes = Bytes::new(10_000_000),
        /// F: the number of increases before the target rate grows as well.
        fast_recovery: u32 = 5,
        /// R_AI: the additive increase.
        additive_increase: BitRate = BitRate::from_mbps(40),
        /// R_HAI: the hyper increase.
        hyper_increase: BitRate = BitRate::from_mbps(40),
        /// The smallest rate.
        min_rate: BitRate = BitRate::from_mbps(100),
        /// The maximum number of packets in flight. A rate-based law does not compute a window.
        window: Packets = Packets::MAX_WINDOW,
    }
    presets {
        "hpcc-artifact", "the constants that HPCC's artifact recommends for 25 Gbps NICs", |p| {
            set_artifact_timers(p);
            p.increase_period = Nanos::from_micros(300);
            p.additive_increase = BitRate::from_mbps(5);
            p.hyper_increase = BitRate::from_mbps(50);
        };
        "artifact-ns3", "the constants of PowerTCP's public ns-3 code", |p| {
            set_artifact_timers(p);
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

/// Sets the constants that both artifacts share: short timers, no byte counter, one step of fast recovery.
fn set_artifact_timers(p: &mut DcqcnParams) {
    p.alpha_period = Nanos::from_micros(1);
    p.alpha_by_timer = true;
    p.notify_gap = Nanos::from_micros(4);
    p.increase_bytes = Bytes::ZERO;
    p.fast_recovery = 1;
}

/// The maximum number of elapsed periods that one ACK processes, which bounds the cost per ACK. After a longer idle
/// time, the rate is stale anyway.
const MAX_PERIODS: u64 = 64;

/// The state of one DCQCN flow. Rates are in bytes per ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Dcqcn {
    /// The current rate Rc.
    rate: f64,
    /// The target rate Rt.
    target: f64,
    alpha: f64,
    last_notification: Option<Nanos>,
    /// When the current α period began; `None` before the first notification.
    alpha_period_start: Option<Nanos>,
    /// Whether a mark has arrived since the last α period ended.
    marked: bool,
    /// When the current increase period began.
    increase_period_start: Nanos,
    /// The number of bytes acknowledged since the last byte-counter increase.
    bytes_acked: f64,
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

impl LawDefinition for Dcqcn {
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
            last_notification: None,
            alpha_period_start: None,
            marked: false,
            increase_period_start: Nanos::ZERO,
            bytes_acked: 0.0,
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
}

impl Law for Dcqcn {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.run_elapsed_periods(ack.now);
        if self.increase_bytes > 0.0 {
            self.bytes_acked += bytes(ack.bytes);
            let full_periods = floor((self.bytes_acked / self.increase_bytes).min(MAX_PERIODS as f64));
            for _ in 0..full_periods {
                self.byte_stage = self.byte_stage.saturating_add(1);
                self.increase();
            }
            let remainder = self.bytes_acked - full_periods as f64 * self.increase_bytes;
            self.bytes_acked = clamp(remainder, 0.0, self.increase_bytes);
        }
        if !ack.marked.is_zero() {
            self.on_notification(ack.now);
        }
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    /// Returns whether the ACK carries a mark.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero()
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.window), pacing: Pacing::Rate(to_rate(self.rate)) }
    }
}

impl Dcqcn {
    /// Processes a congestion notification, unless the previous notification is too recent.
    fn on_notification(&mut self, now: Nanos) {
        self.marked = self.alpha_by_timer;
        let is_recent = |last: Nanos| now.get().wrapping_sub(last.get()) < self.notify_gap.get();
        if self.last_notification.is_some_and(is_recent) {
            return;
        }
        self.last_notification = Some(now);
        // Consecutive notifications without an increase do not lower the target again (ClampTargetRate = false).
        if self.timer_stage > 0 || self.byte_stage > 0 || self.target < self.rate {
            self.target = self.rate;
        }
        self.rate = clamp(self.rate * (1.0 - self.alpha / 2.0), self.min_rate, self.max_rate);
        (self.timer_stage, self.byte_stage, self.bytes_acked) = (0, 0, 0.0);
        self.increase_period_start = now;
        if !self.alpha_by_timer {
            self.alpha = blend(self.alpha, 1.0, self.gain);
            self.alpha_period_start = Some(now);
        } else if self.alpha_period_start.is_none() {
            self.alpha_period_start = Some(now);
        }
    }

    /// Processes the timer periods that have ended.
    fn run_elapsed_periods(&mut self, now: Nanos) {
        let Some(mut alpha_period_start) = self.alpha_period_start else { return };
        for _ in 0..advance_periods(&mut alpha_period_start, self.alpha_period, now) {
            self.alpha = blend(self.alpha, f64::from(u8::from(self.marked)), self.gain);
            self.marked = false;
        }
        self.alpha_period_start = Some(alpha_period_start);
        for _ in 0..advance_periods(&mut self.increase_period_start, self.increase_period, now) {
            self.timer_stage = self.timer_stage.saturating_add(1);
            self.increase();
        }
    }

    /// Processes one increase event.
    fn increase(&mut self) {
        let (max_stage, min_stage) = if self.increase_bytes > 0.0 {
            (self.timer_stage.max(self.byte_stage), self.timer_stage.min(self.byte_stage))
        } else {
            (self.timer_stage, self.timer_stage.saturating_sub(1))
        };
        if min_stage > self.fast_recovery {
            self.target += self.hyper;
        } else if max_stage > self.fast_recovery {
            self.target += self.additive;
        }
        self.target = clamp(self.target, self.min_rate, self.max_rate);
        self.rate = clamp(f64::midpoint(self.target, self.rate), self.min_rate, self.max_rate);
    }
}

/// Advances `start` by the number of whole periods that have elapsed and returns that number, at most [`MAX_PERIODS`].
fn advance_periods(start: &mut Nanos, period: Nanos, now: Nanos) -> u64 {
    let elapsed = now.get().wrapping_sub(start.get()) / period.get().max(1);
    if elapsed > MAX_PERIODS {
        *start = now;
        return MAX_PERIODS;
    }
    *start = Nanos::new(start.get().wrapping_add(elapsed * period.get()));
    elapsed
}

/// Rounds a small non-negative number down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is between 0 and MAX_PERIODS"
)]
fn floor(x: f64) -> u64 {
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
    fn a_notification_halves_the_rate_and_each_period_recovers_half_of_the_cut() {
        let mut law = Dcqcn::new(&DcqcnParams::default(), &PATH);
        law.on_ack(&ack(0, 0));
        law.on_ack(&ack(1, 1_000));
        assert_eq!(law.rate, 2.5);
        law.on_ack(&ack(20, 1_000));
        assert_eq!(law.rate, 2.5, "the notification is within the gap");
        law.on_ack(&ack(56, 0));
        assert_eq!(law.rate, 3.75);
        law.on_ack(&ack(111, 0));
        assert_eq!(law.rate, 4.375);
    }

    #[test]
    fn alpha_falls_without_notifications_after_the_first_one() {
        let mut law = Dcqcn::new(&DcqcnParams::default(), &PATH);
        law.on_ack(&ack(0, 0));
        law.on_ack(&ack(500, 0));
        assert_eq!(law.alpha, 1.0, "no timer runs before the first notification");
        law.on_ack(&ack(500, 1_000));
        law.on_ack(&ack(1_050, 0));
        assert!((law.alpha - (1.0f64 - 1.0 / 256.0).powi(10)).abs() < 1e-12);
    }

    #[test]
    fn rates_grow_as_each_preset_specifies() {
        // Returns Rt after each increase period, in Mbps above the rate before the cut.
        let growth = |preset: &str, period: u64, periods: u64| {
            let mut params = DcqcnParams::default();
            params.apply_preset(preset).expect("the preset exists");
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
            "the byte counter does not advance"
        );
        assert_eq!(growth("hpcc-artifact", 300, 4), [0.0, 5.0, 55.0, 105.0]);
        assert_eq!(growth("artifact-ns3", 900, 4), [0.0, 50.0, 150.0, 250.0]);
    }

    #[test]
    fn alpha_stays_at_one_under_constant_marks_in_the_artifacts() {
        let mut params = DcqcnParams::default();
        params.apply_preset("artifact-ns3").expect("the preset exists");
        let mut law = Dcqcn::new(&params, &PATH);
        for us in 0..200 {
            law.on_ack(&ack(us, 1_000));
        }
        assert!(law.alpha > 0.99, "{}", law.alpha);
    }

    #[test]
    fn a_long_idle_time_costs_a_bounded_number_of_steps() {
        let mut start = Nanos::ZERO;
        assert_eq!(advance_periods(&mut start, Nanos::new(1), Nanos::MAX), MAX_PERIODS);
        assert_eq!(start, Nanos::MAX);
    }
}
