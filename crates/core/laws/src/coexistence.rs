//! Coexistence: lets a flow with a delay-based law keep its share alongside flows that fill the buffer.
//!
//! ```text
//!                 delay above the limit for 32 round trips
//!      ┌───────┐ ─────────────────────────────────────────> ┌─────────┐
//!      │ Delay │                                            │ Compete │  slow start, then CUBIC's Reno-friendly AIMD
//!      └───────┘ <───────────────────────────────────────── └─────────┘
//!          ^       delay below the limit for a round trip     │     ^
//!          │                                                  │     │ the queue remains after 6 round trips
//!          │          every 48 round trips, or when the queue v     │ (restores the window)
//!          │          falls without a loss of this flow    ┌───────┐
//!          └────────────────────────────────────────────── │ Yield │  one packet per round trip
//!             delay below the limit for a round trip       └───────┘
//! ```
//!
//! Why       A law with a target delay backs off until it starves while a loss-based flow fills the queue. The limit is
//!           three quarters of the way from the law's smallest target to its largest. If all flows use this law, they
//!           exceed the limit only when several hundred share a queue. If a queue stays above the limit for many round
//!           trips even though the law cuts its window in each, other traffic must be filling it.
//! Yield     Competing flows that use this policy also fill the queue, so they must detect when the other traffic has
//!           left. Each flow stops for six round trips. If the queue drains, there is no other traffic. A flow that
//!           stops lowers the queue by its share. The others see the queue fall although they have lost no packets, and
//!           they stop too, so all flows stop together.
//! Loss      If the delay is at or below the target or, in `Compete`, well below the episode's largest delay, a loss is
//!           caused by bit errors or reordering, not by a full queue. The flow ignores such a loss unless more than one
//!           packet in 32 is lost, which indicates a policer or a very small buffer. Each ignored loss lowers the
//!           stored largest delay, so the flow detects a shrinking buffer.
//! Limits    If the buffer holds less than the limit, the law alone decides and yields to flows that fill the buffer. A
//!           flow that measures only the RTT and has never seen an empty path mistakes part of the queue for
//!           propagation delay.
//! Source    This project. Prior art: Copa's competitive mode (Arun and Balakrishnan, NSDI 2018, section 5) detects a
//!           queue that does not drain for five round trips; BBR's ProbeRTT drains the queue with all flows at once.
//! Arithmetic Integers only, no loops. Tests check that the C port, `bpf/coexistence.h` in the poseidon-linux crate,
//!            produces bit-identical results.

#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

use crate::event::Ack;
pub use crate::law::DelaySignal;
use crate::law::{Decision, Pacing};
use poseidon_types::{Nanos, Packets};

/// A flow starts to compete after this many round trips with the delay above the limit. An incast in which all flows
/// use the same law drains sooner: the law halves its window in each round trip, so 32 round trips shrink any window by
/// a factor of 2^32.
const ROUNDS_BEFORE_COMPETING: u64 = 32;
/// The number of round trips between two yields.
const YIELD_INTERVAL: u64 = 48;
/// The number of round trips after a yield before a falling queue may trigger another yield.
const MIN_YIELD_SPACING: u64 = 16;
/// The duration of a yield in round trips: one until this flow's packets have drained, one and a half until the other
/// flows detect the yield, one until their packets have drained, one with the delay below the limit, and the ACK delay.
const YIELD_DURATION: u64 = 6;
/// A queue has fallen if it is more than an eighth (a right shift by 3) below its peak.
const FALL_SHIFT: u32 = 3;
/// A buffer is full if the delay is at most a quarter (a right shift by 2) below the ceiling.
const FULL_SHIFT: u32 = 2;
/// The growth per round trip in packets, with 24 fractional bits: 3 (1 - β)/(1 + β) with β = 0.7 (RFC 9438 section
/// 4.3).
const ADDITIVE_INCREASE: u64 = 8_881_943;
/// The multiplicative decrease factor β, with 24 fractional bits: 0.7 (RFC 9438 section 4.6).
const CUT_FACTOR: u64 = 11_744_051;
/// A competing flow's smallest window.
const MIN_WINDOW: u64 = 2 * ONE;
/// One packet.
const ONE: u64 = 1 << Packets::FRACTION_BITS;
/// The largest window of any law: 2^15 packets.
const MAX_WINDOW: u64 = ONE << 15;
/// The flow tolerates one lost packet per this many delivered packets.
const TOLERATED_LOSS_RATIO: u32 = 32;
/// The number of additional tolerated losses, because a loss rate measured over a few packets is imprecise.
const TOLERATED_EXTRA_LOSSES: u32 = 2;
/// The flow halves its packet counts after this many delivered packets, so that old losses count less.
const LOSS_COUNT_WINDOW: u32 = 1_024;

/// A flow's mode, which determines what sets its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// The law's decision sets the window.
    #[default]
    Delay,
    /// Losses and marks set the window, as they do for the competing flows.
    Compete,
    /// The flow pauses and sends one packet per round trip to test whether the queue drains.
    Yield,
}

/// Returns the delay three quarters of the way from a law's smallest target to its largest.
pub const fn queue_limit(smallest: Nanos, largest: Nanos) -> Nanos {
    let range = largest.get().saturating_sub(smallest.get());
    Nanos::new(smallest.get().saturating_add(range - range / 4))
}

/// The input to [`Coexistence::on_ack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoexistenceAck {
    /// When the ACK arrived.
    pub now: Nanos,
    /// The raw round-trip time.
    pub rtt: Nanos,
    /// The number of newly acknowledged packets.
    pub packets: u32,
    /// The number of packets newly detected as lost.
    pub lost: u32,
    /// Whether the ACK carries a congestion mark.
    pub is_marked: bool,
    /// Whether the flow is application-limited and does not fill its window.
    pub app_limited: bool,
    /// The delay as interpreted by the law.
    pub signal: DelaySignal,
    /// The law's window.
    pub window: Packets,
}

impl CoexistenceAck {
    /// Combines an ACK, the law's delay signal and window, and the number of packets newly detected as lost.
    pub fn new(ack: &Ack<'_>, signal: DelaySignal, window: Packets, lost: u32) -> Self {
        Self {
            now: ack.now,
            rtt: ack.rtt,
            packets: ack.packets,
            lost,
            is_marked: !ack.marked.is_zero(),
            app_limited: ack.app_limited,
            signal,
            window,
        }
    }
}

/// The policy's state for one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coexistence {
    /// The window while the flow competes, in packets with 24 fractional bits.
    window: u64,
    /// The slow-start threshold.
    ssthresh: u64,
    /// `Delay`: when the delay was last at or below the limit. `Compete`: when competing began or the last yield ended.
    /// `Yield`: when the yield began.
    mode_start: u64,
    /// When the window was last cut.
    last_cut: u64,
    /// `Compete`: when the delay was last above the limit.
    last_above: u64,
    /// The RTT of the last ACK, or of the ACK that started the yield, in ns. The value saturates at 4.29 s.
    rtt: u32,
    /// When the current round trip began.
    round_start: u64,
    /// The largest delay in the current round trip, in ns.
    round_peak: u32,
    /// `Compete`: the largest `round_peak` since the last cut or yield, in ns.
    peak: u32,
    /// The largest delay in ns since the flow began to compete, which is the delay of a full buffer.
    ceiling: u32,
    /// The last ACK's delay in ns.
    delay: u32,
    delivered: u32,
    lost: u32,
    /// The number of times the flow has started to compete.
    episodes: u32,
    mode: Mode,
    /// Whether the last delay was at or below the target.
    within_target: bool,
}

impl Coexistence {
    /// Creates the state of a new flow, which starts in `Delay` mode.
    pub const fn new(now: Nanos) -> Self {
        Self {
            window: MIN_WINDOW,
            ssthresh: MAX_WINDOW,
            mode_start: now.get(),
            last_cut: now.get(),
            last_above: now.get(),
            round_start: now.get(),
            round_peak: 0,
            rtt: 0,
            peak: 0,
            ceiling: 0,
            delay: 0,
            delivered: 0,
            lost: 0,
            episodes: 0,
            mode: Mode::Delay,
            within_target: false,
        }
    }

    /// Returns the current mode.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the number of times the flow has started to compete.
    pub const fn episodes(&self) -> u32 {
        self.episodes
    }

    /// Returns the law's decision in `Delay` mode, and the policy's decision otherwise.
    pub fn decision(&self, law: Decision) -> Decision {
        match self.mode {
            Mode::Delay => law,
            Mode::Compete => {
                Decision { window: Packets::from_q24(self.window), pacing: Pacing::Gap(self.gap()) }
            }
            // Send one packet per full-queue RTT, so that even many yielding flows leave the queue empty.
            Mode::Yield => {
                Decision { window: Packets::ONE, pacing: Pacing::Gap(Nanos::new(u64::from(self.rtt))) }
            }
        }
    }

    /// Returns the gap between a competing flow's packets: rtt/window, reduced by a fifth, or by half in slow start.
    fn gap(&self) -> Nanos {
        let per_packet = (u64::from(self.rtt) << Packets::FRACTION_BITS) / self.window;
        let reduction = if self.window < self.ssthresh { per_packet / 2 } else { per_packet / 5 };
        Nanos::new(per_packet - reduction)
    }

    /// Processes an ACK.
    pub fn on_ack(&mut self, ack: &CoexistenceAck) {
        let now = ack.now.get();
        let DelaySignal { delay, within_target, limit } = ack.signal;
        let is_above = delay > limit;
        let delay = saturate_u32(delay.get());
        self.delay = delay;
        self.count_packets(ack);
        self.within_target = within_target;
        if self.mode != Mode::Yield {
            self.rtt = saturate_u32(ack.rtt.get()).max(1);
        }
        if is_above {
            self.last_above = now;
        }
        match self.mode {
            Mode::Delay => {
                // An application-limited flow does not back off, so a queue does not harm it.
                if !is_above || ack.app_limited {
                    self.mode_start = now;
                } else if self.has_elapsed(self.mode_start, now, ROUNDS_BEFORE_COMPETING) {
                    self.start_competing(now, delay, ack.window.q24());
                }
            }
            Mode::Compete => {
                self.ceiling = self.ceiling.max(delay);
                if ack.is_marked {
                    self.cut(now);
                } else {
                    self.grow(ack);
                }
                let queue_falls = self.queue_has_fallen(now, delay)
                    && self.has_elapsed(self.last_cut, now, 2)
                    && self.has_elapsed(self.mode_start, now, MIN_YIELD_SPACING);
                if self.has_elapsed(self.last_above, now, 1) {
                    self.return_to_law(now);
                } else if queue_falls || self.has_elapsed(self.mode_start, now, YIELD_INTERVAL) {
                    self.mode = Mode::Yield;
                    self.mode_start = now;
                }
            }
            Mode::Yield => {
                if self.has_elapsed(self.last_above, now, 1) {
                    self.return_to_law(now);
                } else if self.has_elapsed(self.mode_start, now, YIELD_DURATION) {
                    self.mode = Mode::Compete;
                    self.mode_start = now;
                    self.ssthresh = self.window;
                    self.reset_peak(now);
                }
            }
        }
    }

    /// Processes the start of fast recovery. Returns whether the host should report the loss to the law.
    pub fn on_loss(&mut self, now: Nanos) -> bool {
        match self.mode {
            Mode::Delay => !self.within_target || self.loss_rate_is_high(),
            Mode::Compete => {
                if self.delay >= self.ceiling - (self.ceiling >> FULL_SHIFT) || self.loss_rate_is_high() {
                    self.cut(now.get());
                } else {
                    self.ceiling -= self.ceiling >> FALL_SHIFT;
                }
                true
            }
            // The lost packet was sent before the yield.
            Mode::Yield => true,
        }
    }

    /// Processes a retransmission timeout.
    pub fn on_timeout(&mut self, now: Nanos) {
        if self.mode == Mode::Delay {
            return;
        }
        self.mode = Mode::Compete;
        self.ssthresh = (self.window / 2).max(MIN_WINDOW);
        self.window = MIN_WINDOW;
        self.last_cut = now.get();
        self.reset_peak(now.get());
    }

    const fn loss_rate_is_high(&self) -> bool {
        self.lost > TOLERATED_EXTRA_LOSSES + self.delivered / TOLERATED_LOSS_RATIO
    }

    fn start_competing(&mut self, now: u64, delay: u32, window: u64) {
        self.mode = Mode::Compete;
        self.episodes = self.episodes.saturating_add(1);
        // Slow start ends at the window reached in the last episode. In the first episode, a loss ends it.
        self.ssthresh = if self.episodes == 1 { MAX_WINDOW } else { self.window };
        self.window = window.clamp(MIN_WINDOW, self.ssthresh);
        self.mode_start = now;
        self.last_cut = now;
        self.ceiling = delay;
        self.reset_peak(now);
    }

    /// Returns whether a round trip has ended in which every delay was more than an eighth below the peak.
    fn queue_has_fallen(&mut self, now: u64, delay: u32) -> bool {
        self.round_peak = self.round_peak.max(delay);
        if !self.has_elapsed(self.round_start, now, 1) {
            return false;
        }
        self.peak = self.peak.max(self.round_peak);
        let has_fallen = self.round_peak < self.peak - (self.peak >> FALL_SHIFT);
        self.round_start = now;
        self.round_peak = 0;
        has_fallen
    }

    fn reset_peak(&mut self, now: u64) {
        self.peak = 0;
        self.round_peak = 0;
        self.round_start = now;
    }

    fn return_to_law(&mut self, now: u64) {
        self.mode = Mode::Delay;
        self.mode_start = now;
    }

    /// Grows the window by slow start, then by [`ADDITIVE_INCREASE`] per round trip.
    fn grow(&mut self, ack: &CoexistenceAck) {
        if ack.app_limited {
            return;
        }
        let packets = u64::from(ack.packets.min(1 << 15));
        let grown = if self.window < self.ssthresh {
            self.window + (packets << Packets::FRACTION_BITS)
        } else {
            // The product is below 2^24 · 2^15 · 2^24, which fits in 64 bits.
            self.window + ((ADDITIVE_INCREASE * packets) << Packets::FRACTION_BITS) / self.window
        };
        self.window = grown.min(MAX_WINDOW);
    }

    /// Cuts the window, at most once per round trip.
    fn cut(&mut self, now: u64) {
        if !self.has_elapsed(self.last_cut, now, 1) {
            return;
        }
        self.window = ((self.window * (CUT_FACTOR >> 8)) >> (Packets::FRACTION_BITS - 8)).max(MIN_WINDOW);
        self.ssthresh = self.window;
        self.last_cut = now;
        self.reset_peak(now);
    }

    fn count_packets(&mut self, ack: &CoexistenceAck) {
        self.delivered = self.delivered.saturating_add(ack.packets);
        self.lost = self.lost.saturating_add(ack.lost);
        if self.delivered >= LOSS_COUNT_WINDOW {
            self.delivered /= 2;
            self.lost /= 2;
        }
    }

    /// Returns whether more than `round_trips` have passed since `start`. The subtraction wraps, so a clock wrap does
    /// no harm.
    const fn has_elapsed(&self, start: u64, now: u64, round_trips: u64) -> bool {
        now.wrapping_sub(start) > self.rtt as u64 * round_trips
    }
}

/// Converts to 32 bits, saturating at 4.29 s for a value in ns.
fn saturate_u32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos::from_micros(100);
    const LIMIT: Nanos = Nanos::from_micros(400);
    const FULL_DELAY: Nanos = Nanos::from_micros(3_000);

    /// A flow with ten ACKs per round trip.
    struct Flow {
        policy: Coexistence,
        now: Nanos,
    }

    impl Flow {
        fn new() -> Self {
            Self { policy: Coexistence::new(Nanos::ZERO), now: Nanos::ZERO }
        }

        /// Returns a competing flow after slow start with a window of 100 packets.
        fn competing() -> Self {
            let mut flow = Self::new();
            flow.send_rounds(33, FULL_DELAY);
            assert_eq!(flow.policy.mode(), Mode::Compete);
            flow.policy.window = 100 * ONE;
            flow.policy.ssthresh = 100 * ONE;
            flow
        }

        fn send_ack(&mut self, delay: Nanos, change: impl FnOnce(&mut CoexistenceAck)) {
            self.now += Nanos::new(RTT.get() / 10);
            let mut ack = CoexistenceAck {
                now: self.now,
                rtt: RTT,
                packets: 1,
                lost: 0,
                is_marked: false,
                app_limited: false,
                signal: DelaySignal { delay, within_target: delay <= LIMIT, limit: LIMIT },
                window: Packets::from_q24(ONE / 100),
            };
            change(&mut ack);
            self.policy.on_ack(&ack);
        }

        fn send_rounds(&mut self, count: u32, delay: Nanos) {
            (0..10 * count).for_each(|_| self.send_ack(delay, |_| ()));
        }

        fn window(&self) -> u64 {
            self.policy.window >> Packets::FRACTION_BITS
        }
    }

    #[test]
    fn a_flow_competes_after_32_round_trips_above_the_limit() {
        let mut flow = Flow::new();
        flow.send_rounds(31, FULL_DELAY);
        flow.send_ack(LIMIT, |_| ());
        flow.send_rounds(31, FULL_DELAY);
        assert_eq!(flow.policy.mode(), Mode::Delay, "the delay returned to the limit in between");
        flow.send_rounds(2, FULL_DELAY);
        assert_eq!((flow.policy.mode(), flow.policy.episodes()), (Mode::Compete, 1));
    }

    #[test]
    fn an_application_limited_flow_does_not_compete() {
        let mut flow = Flow::new();
        (0..1_000).for_each(|_| flow.send_ack(FULL_DELAY, |ack| ack.app_limited = true));
        assert_eq!(flow.policy.mode(), Mode::Delay);
    }

    #[test]
    fn a_competing_flow_grows_by_slow_start_and_then_by_half_a_packet_per_round_trip() {
        let mut flow = Flow::new();
        flow.send_rounds(33, FULL_DELAY);
        let initial = flow.window();
        flow.send_rounds(1, FULL_DELAY);
        assert_eq!(flow.window(), initial + 10, "slow start adds one packet per acknowledged packet");
        let mut flow = Flow::competing();
        (0..10).for_each(|_| flow.send_ack(FULL_DELAY, |ack| ack.packets = 10));
        // 3 (1 - 0.7)/(1 + 0.7) = 0.529 packets per window of 100 packets.
        let grown = flow.policy.window - 100 * ONE;
        assert!(((grown * 1_000) >> 24).abs_diff(529) < 4, "{grown}");
    }

    #[test]
    fn losses_in_a_full_buffer_and_marks_cut_to_70_percent_once_per_round_trip() {
        let mut flow = Flow::competing();
        flow.send_rounds(2, FULL_DELAY);
        assert!(flow.policy.on_loss(flow.now) && flow.policy.on_loss(flow.now));
        assert!(flow.window().abs_diff(70) <= 1, "{}", flow.window());
        flow.send_rounds(2, FULL_DELAY);
        flow.send_ack(FULL_DELAY, |ack| ack.is_marked = true);
        assert!(flow.window().abs_diff(50) <= 1, "{}", flow.window());
    }

    #[test]
    fn losses_far_below_a_full_buffer_are_ignored_until_there_are_many() {
        let mut flow = Flow::competing();
        flow.send_rounds(2, FULL_DELAY);
        let low = Nanos::new(FULL_DELAY.get() / 2);
        flow.send_ack(low, |ack| ack.lost = 1);
        flow.policy.on_loss(flow.now);
        assert_eq!(flow.window(), 100);
        flow.send_ack(low, |ack| ack.lost = 100);
        flow.policy.on_loss(flow.now);
        assert!(flow.window().abs_diff(70) <= 1, "{}", flow.window());
    }

    #[test]
    fn the_law_sees_losses_with_a_queue_or_at_a_high_rate() {
        let mut flow = Flow::new();
        flow.send_rounds(10, Nanos::ZERO);
        flow.send_ack(Nanos::ZERO, |ack| ack.lost = 1);
        assert!(!flow.policy.on_loss(flow.now), "one loss in a hundred packets, and no queue");
        flow.send_ack(FULL_DELAY, |_| ());
        assert!(flow.policy.on_loss(flow.now), "there is a queue");
        flow.send_ack(Nanos::ZERO, |ack| ack.lost = 10);
        assert!(flow.policy.on_loss(flow.now), "one loss in ten packets");
    }

    #[test]
    fn a_flow_yields_every_48_round_trips_and_resumes_if_the_queue_remains() {
        let mut flow = Flow::competing();
        flow.send_rounds(48, FULL_DELAY);
        assert_eq!(flow.policy.mode(), Mode::Yield);
        let law = Decision { window: Packets::ONE, pacing: Pacing::Off };
        assert_eq!(flow.policy.decision(law).window, Packets::ONE);
        let window = flow.window();
        flow.send_rounds(7, FULL_DELAY);
        assert_eq!((flow.policy.mode(), flow.window()), (Mode::Compete, window));
    }

    #[test]
    fn a_flow_yields_if_the_queue_falls_without_a_loss_and_returns_to_its_law_if_it_drains() {
        let mut flow = Flow::competing();
        flow.send_rounds(20, FULL_DELAY);
        flow.send_rounds(3, Nanos::new(FULL_DELAY.get() * 3 / 4));
        assert_eq!(flow.policy.mode(), Mode::Yield);
        flow.send_rounds(1, Nanos::ZERO);
        assert_eq!(flow.policy.mode(), Mode::Yield, "the queue has been empty for less than a round trip");
        flow.send_rounds(1, Nanos::ZERO);
        assert_eq!(flow.policy.mode(), Mode::Delay);
    }

    #[test]
    fn slow_start_ends_at_the_previous_window_in_the_second_episode() {
        let mut flow = Flow::competing();
        flow.send_rounds(2, Nanos::ZERO);
        assert_eq!(flow.policy.mode(), Mode::Delay);
        flow.send_rounds(40, FULL_DELAY);
        assert_eq!(flow.policy.episodes(), 2);
        assert!(flow.window() >= 60 && flow.window() <= 102, "{}", flow.window());
    }

    #[test]
    fn a_timeout_restarts_slow_start_from_two_packets_up_to_half_the_window() {
        let mut flow = Flow::competing();
        flow.policy.on_timeout(flow.now);
        assert_eq!((flow.window(), flow.policy.ssthresh / ONE), (2, 50));
    }
}
