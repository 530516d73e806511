//! Coexistence: how a host with a delay-based law keeps its share beside flows that fill the buffer.
//!
//! ```text
//!                 delay above the limit for 32 round trips
//!      ┌───────┐ ─────────────────────────────────────────> ┌─────────┐
//!      │ Delay │                                            │ Compete │  slow start, then RFC 9438's Reno-friendly AIMD
//!      └───────┘ <───────────────────────────────────────── └─────────┘
//!          ^       delay below the limit for a round trip     │     ^
//!          │                                                  │     │ after 6 round trips with the queue still there
//!          │          every 48 round trips, or when the queue v     │ (the old window)
//!          │          falls without a loss of ours         ┌───────┐
//!          └────────────────────────────────────────────── │ Yield │  one packet per round trip
//!             delay below the limit for a round trip       └───────┘
//! ```
//!
//! Why       A law that holds a target delay backs off while a loss-based flow fills the queue, down to nothing. The limit is three
//!           quarters of the way from the law's smallest target to its largest: flows of the same law alone cross it only where several
//!           hundred share a queue. A queue that stays above it for many round trips, although the law has cut its window in each of them,
//!           belongs to somebody else.
//! Yield     Competing flows of our own fill the queue too, so they must find out when the others have left. Each stops for six
//!           round trips: if the queue drains, nobody else is there. One flow that stops lowers the queue by its share; the others see it
//!           fall without a loss of their own and stop as well, so all stop together, however many they are.
//! Loss      A loss has another cause than a full queue while the delay is at or below the target, or, in `Compete`, well below the
//!           largest of the episode: noise on the wire, or packets that came out of order. It is not answered unless more than one packet
//!           in 32 is lost, which a policer or a very small buffer does. Each that is not answered lowers the largest delay that is
//!           remembered, so a buffer that shrinks is noticed.
//! Limits    Where the buffer holds less than the limit the law itself decides, and yields to whoever fills it. A flow that knows only
//!           the round trip and has never seen an empty path takes a part of the queue for propagation, and may not notice it.
//! Source    ours. Prior art: Copa's competitive mode (Arun and Balakrishnan, NSDI 2018, section 5), which looks for a queue that does
//!           not drain for five round trips; BBR's ProbeRTT, for draining together.
//! Arithmetic integers only, no loop: `bpf/coexistence.h` of the crate poseidon-linux is the same in C, bit for bit.

#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

use crate::event::Ack;
use crate::law::{Decision, Pacing};
use poseidon_types::{Nanos, Packets};

/// Round trips with the delay above the limit before a flow competes. An incast of one law alone drains sooner: the law halves its
/// window in each, so 32 of them divide any window by 2^32.
const PATIENCE: u64 = 32;
/// Round trips between two yields.
const YIELD_EVERY: u64 = 48;
/// Round trips after a yield before a queue that falls starts another.
const QUIET: u64 = 16;
/// Round trips that a yield lasts: one until our packets are gone, one and a half until the others are sure of it, one until theirs are gone,
/// one below the limit, and the way of the ACK that tells.
const YIELD_FOR: u64 = 6;
/// A queue has fallen when it is below its peak by more than this power of two of it: an eighth.
const FALL_SHIFT: u32 = 3;
/// A buffer is full when the delay is below the ceiling by no more than this power of two of it: a quarter.
const FULL_SHIFT: u32 = 2;
/// Growth per round trip, 24 fractional bits: 3 (1 - b)/(1 + b) with b = 0.7 (RFC 9438 section 4.3).
const GROWTH: u64 = 8_881_943;
/// What a cut leaves, 24 fractional bits: 0.7 (RFC 9438 section 4.6).
const CUT: u64 = 11_744_051;
/// The smallest window of a flow that competes.
const SMALLEST: u64 = 2 * ONE;
/// One packet.
const ONE: u64 = 1 << Packets::FRACTION_BITS;
/// The largest window of any law, 2^15 packets.
const LARGEST: u64 = ONE << 15;
/// At most one packet in this many may be lost without an answer.
const TOLERATED: u32 = 32;
/// And two more, because losses of few packets say little.
const TOLERATED_MORE: u32 = 2;
/// Counts are halved when so many packets have been delivered: the past fades.
const COUNTED: u32 = 1_024;

/// What a flow follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// The law.
    #[default]
    Delay,
    /// Losses and marks, as its neighbours do.
    Compete,
    /// Nothing for a moment: it looks whether the queue drains.
    Yield,
}

/// What a law makes of the delay of one ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySignal {
    /// The delay that it holds against its target.
    pub delay: Nanos,
    /// The delay is at or below the target.
    pub within_target: bool,
    /// Above this the queue belongs to somebody else: [`limit_between`] of the smallest and the largest target.
    pub limit: Nanos,
}

/// Three quarters of the way from the smallest target of a law to its largest.
pub const fn limit_between(smallest: Nanos, largest: Nanos) -> Nanos {
    let range = largest.get().saturating_sub(smallest.get());
    Nanos::new(smallest.get().saturating_add(range - range / 4))
}

/// What one ACK tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoexistenceAck {
    /// When it arrived.
    pub now: Nanos,
    /// Its raw round-trip time.
    pub rtt: Nanos,
    /// Packets newly acknowledged.
    pub packets: u32,
    /// Packets newly found lost.
    pub lost: u32,
    /// It carried a congestion mark.
    pub is_marked: bool,
    /// The flow did not use its window.
    pub app_limited: bool,
    /// What the law makes of it.
    pub signal: DelaySignal,
    /// The law's window.
    pub window: Packets,
}

impl CoexistenceAck {
    /// From an ACK, what the law made of it, the law's window and the packets newly found lost.
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

/// One flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coexistence {
    /// Packets with 24 fractional bits, while it competes.
    window: u64,
    /// Below this the window doubles per round trip.
    threshold: u64,
    /// `Delay`: when the delay was last at or below the limit. `Compete`: when the last yield ended. `Yield`: when it began.
    since: u64,
    /// When the window was last cut.
    last_cut: u64,
    /// `Compete`: when the delay was last above the limit.
    last_above: u64,
    /// Of the last ACK; of the one that began the yield. Saturates at 4.29 s.
    rtt: u32,
    /// When the present round trip began, and its largest delay, ns: a queue has fallen when all of a round trip is lower.
    round_began: u64,
    round_peak: u32,
    /// `Compete`: the largest of a round trip since the last cut or yield, ns.
    peak: u32,
    /// The same since it began to compete: that of the full buffer.
    ceiling: u32,
    /// The last delay, ns.
    delay: u32,
    delivered: u32,
    lost: u32,
    /// How often it began to compete.
    episodes: u32,
    mode: Mode,
    /// The last delay was at or below the target.
    within_target: bool,
}

impl Coexistence {
    /// A flow that begins now and follows its law.
    pub const fn new(now: Nanos) -> Self {
        Self {
            window: SMALLEST,
            threshold: LARGEST,
            since: now.get(),
            last_cut: now.get(),
            last_above: now.get(),
            round_began: now.get(),
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

    /// What it follows now.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// How often it began to compete.
    pub const fn episodes(&self) -> u32 {
        self.episodes
    }

    /// What the host may do: the law's decision, or what holds instead of it.
    pub fn decision(&self, law: Decision) -> Decision {
        match self.mode {
            Mode::Delay => law,
            Mode::Compete => {
                Decision { window: Packets::from_q24(self.window), pacing: Pacing::Gap(self.gap()) }
            }
            // One per round trip of the full queue: many flows that yield leave it empty.
            Mode::Yield => {
                Decision { window: Packets::ONE, pacing: Pacing::Gap(Nanos::new(u64::from(self.rtt))) }
            }
        }
    }

    /// Between two packets of a flow that competes: what its window needs less a fifth, or less a half in slow start.
    fn gap(&self) -> Nanos {
        let per_packet = (u64::from(self.rtt) << Packets::FRACTION_BITS) / self.window;
        let less = if self.window < self.threshold { per_packet / 2 } else { per_packet / 5 };
        Nanos::new(per_packet - less)
    }

    /// An ACK.
    pub fn on_ack(&mut self, ack: &CoexistenceAck) {
        let now = ack.now.get();
        let DelaySignal { delay, within_target, limit } = ack.signal;
        let is_above = delay > limit;
        let delay = low_32(delay.get());
        self.delay = delay;
        self.count(ack);
        self.within_target = within_target;
        if self.mode != Mode::Yield {
            self.rtt = low_32(ack.rtt.get()).max(1);
        }
        if is_above {
            self.last_above = now;
        }
        match self.mode {
            Mode::Delay => {
                // A flow that sends little does not back off, so the queue says nothing about it.
                if !is_above || ack.app_limited {
                    self.since = now;
                } else if self.has_passed(self.since, now, PATIENCE) {
                    self.compete(now, delay, ack.window.q24());
                }
            }
            Mode::Compete => {
                self.ceiling = self.ceiling.max(delay);
                if ack.is_marked {
                    self.cut(now);
                } else {
                    self.grow(ack);
                }
                let falls = self.has_fallen(now, delay)
                    && self.has_passed(self.last_cut, now, 2)
                    && self.has_passed(self.since, now, QUIET);
                if self.has_passed(self.last_above, now, 1) {
                    self.follow_law(now);
                } else if falls || self.has_passed(self.since, now, YIELD_EVERY) {
                    self.mode = Mode::Yield;
                    self.since = now;
                }
            }
            Mode::Yield => {
                if self.has_passed(self.last_above, now, 1) {
                    self.follow_law(now);
                } else if self.has_passed(self.since, now, YIELD_FOR) {
                    self.mode = Mode::Compete;
                    self.since = now;
                    self.threshold = self.window;
                    self.reset_peak(now);
                }
            }
        }
    }

    /// The host has entered fast recovery; whether the law reacts to it.
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
            // What is lost now was sent before.
            Mode::Yield => true,
        }
    }

    /// A retransmission timer has fired.
    pub fn on_timeout(&mut self, now: Nanos) {
        if self.mode == Mode::Delay {
            return;
        }
        self.mode = Mode::Compete;
        self.threshold = (self.window / 2).max(SMALLEST);
        self.window = SMALLEST;
        self.last_cut = now.get();
        self.reset_peak(now.get());
    }

    const fn loss_rate_is_high(&self) -> bool {
        self.lost > TOLERATED_MORE + self.delivered / TOLERATED
    }

    fn compete(&mut self, now: u64, delay: u32, window: u64) {
        self.mode = Mode::Compete;
        self.episodes = self.episodes.saturating_add(1);
        // Up to where it was when it last competed; the first time until a loss tells.
        self.threshold = if self.episodes == 1 { LARGEST } else { self.window };
        self.window = window.clamp(SMALLEST, self.threshold);
        self.since = now;
        self.last_cut = now;
        self.ceiling = delay;
        self.reset_peak(now);
    }

    /// Whether a round trip has ended whose delays are all below the peak by an eighth.
    fn has_fallen(&mut self, now: u64, delay: u32) -> bool {
        self.round_peak = self.round_peak.max(delay);
        if !self.has_passed(self.round_began, now, 1) {
            return false;
        }
        self.peak = self.peak.max(self.round_peak);
        let fallen = self.round_peak < self.peak - (self.peak >> FALL_SHIFT);
        self.round_began = now;
        self.round_peak = 0;
        fallen
    }

    fn reset_peak(&mut self, now: u64) {
        self.peak = 0;
        self.round_peak = 0;
        self.round_began = now;
    }

    fn follow_law(&mut self, now: u64) {
        self.mode = Mode::Delay;
        self.since = now;
    }

    /// Slow start, then `GROWTH` per round trip.
    fn grow(&mut self, ack: &CoexistenceAck) {
        if ack.app_limited {
            return;
        }
        let packets = u64::from(ack.packets.min(1 << 15));
        let grown = if self.window < self.threshold {
            self.window + (packets << Packets::FRACTION_BITS)
        } else {
            // Below 2^24 times 2^15 times 2^24.
            self.window + ((GROWTH * packets) << Packets::FRACTION_BITS) / self.window
        };
        self.window = grown.min(LARGEST);
    }

    /// At most once per round trip.
    fn cut(&mut self, now: u64) {
        if !self.has_passed(self.last_cut, now, 1) {
            return;
        }
        self.window = ((self.window * (CUT >> 8)) >> (Packets::FRACTION_BITS - 8)).max(SMALLEST);
        self.threshold = self.window;
        self.last_cut = now;
        self.reset_peak(now);
    }

    fn count(&mut self, ack: &CoexistenceAck) {
        self.delivered = self.delivered.saturating_add(ack.packets);
        self.lost = self.lost.saturating_add(ack.lost);
        if self.delivered >= COUNTED {
            self.delivered /= 2;
            self.lost /= 2;
        }
    }

    /// Whether more than so many round trips have passed. The difference wraps with the clock.
    const fn has_passed(&self, since: u64, now: u64, round_trips: u64) -> bool {
        now.wrapping_sub(since) > self.rtt as u64 * round_trips
    }
}

/// Saturates at 32 bits: 4.29 s.
fn low_32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos::from_micros(100);
    const LIMIT: Nanos = Nanos::from_micros(400);
    const FULL: Nanos = Nanos::from_micros(3_000);

    /// A flow with ten ACKs per round trip.
    struct Flow {
        policy: Coexistence,
        now: Nanos,
    }

    impl Flow {
        fn new() -> Self {
            Self { policy: Coexistence::new(Nanos::ZERO), now: Nanos::ZERO }
        }

        /// Already competing, out of slow start, with a window of 100 packets.
        fn competing() -> Self {
            let mut flow = Self::new();
            flow.rounds(33, FULL);
            assert_eq!(flow.policy.mode(), Mode::Compete);
            flow.policy.window = 100 * ONE;
            flow.policy.threshold = 100 * ONE;
            flow
        }

        fn ack(&mut self, delay: Nanos, change: impl FnOnce(&mut CoexistenceAck)) {
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

        fn rounds(&mut self, count: u32, delay: Nanos) {
            (0..10 * count).for_each(|_| self.ack(delay, |_| ()));
        }

        fn window(&self) -> u64 {
            self.policy.window >> Packets::FRACTION_BITS
        }
    }

    #[test]
    fn a_queue_above_the_limit_for_32_round_trips_is_somebody_elses() {
        let mut flow = Flow::new();
        flow.rounds(31, FULL);
        flow.ack(LIMIT, |_| ());
        flow.rounds(31, FULL);
        assert_eq!(flow.policy.mode(), Mode::Delay, "it was at the limit in between");
        flow.rounds(2, FULL);
        assert_eq!((flow.policy.mode(), flow.policy.episodes()), (Mode::Compete, 1));
    }

    #[test]
    fn a_flow_that_does_not_use_its_window_does_not_compete() {
        let mut flow = Flow::new();
        (0..1_000).for_each(|_| flow.ack(FULL, |ack| ack.app_limited = true));
        assert_eq!(flow.policy.mode(), Mode::Delay);
    }

    #[test]
    fn it_grows_by_slow_start_and_then_by_half_a_packet_per_round_trip() {
        let mut flow = Flow::new();
        flow.rounds(33, FULL);
        let begin = flow.window();
        flow.rounds(1, FULL);
        assert_eq!(flow.window(), begin + 10, "slow start: one packet per packet");
        let mut flow = Flow::competing();
        (0..10).for_each(|_| flow.ack(FULL, |ack| ack.packets = 10));
        // 3 (1 - 0.7)/(1 + 0.7) = 0.529 for a window of 100 packets.
        let grown = flow.policy.window - 100 * ONE;
        assert!(((grown * 1_000) >> 24).abs_diff(529) < 4, "{grown}");
    }

    #[test]
    fn a_full_buffer_cuts_to_seven_tenths_once_per_round_trip_and_marks_do_too() {
        let mut flow = Flow::competing();
        flow.rounds(2, FULL);
        assert!(flow.policy.on_loss(flow.now) && flow.policy.on_loss(flow.now));
        assert!(flow.window().abs_diff(70) <= 1, "{}", flow.window());
        flow.rounds(2, FULL);
        flow.ack(FULL, |ack| ack.is_marked = true);
        assert!(flow.window().abs_diff(50) <= 1, "{}", flow.window());
    }

    #[test]
    fn a_loss_far_below_the_full_buffer_is_not_answered_until_there_are_many() {
        let mut flow = Flow::competing();
        flow.rounds(2, FULL);
        let low = Nanos::new(FULL.get() / 2);
        flow.ack(low, |ack| ack.lost = 1);
        flow.policy.on_loss(flow.now);
        assert_eq!(flow.window(), 100);
        flow.ack(low, |ack| ack.lost = 100);
        flow.policy.on_loss(flow.now);
        assert!(flow.window().abs_diff(70) <= 1, "{}", flow.window());
    }

    #[test]
    fn the_law_hears_of_losses_with_a_queue_or_of_many() {
        let mut flow = Flow::new();
        flow.rounds(10, Nanos::ZERO);
        flow.ack(Nanos::ZERO, |ack| ack.lost = 1);
        assert!(!flow.policy.on_loss(flow.now), "one in a hundred, and no queue");
        flow.ack(FULL, |_| ());
        assert!(flow.policy.on_loss(flow.now), "a queue");
        flow.ack(Nanos::ZERO, |ack| ack.lost = 10);
        assert!(flow.policy.on_loss(flow.now), "one in ten");
    }

    #[test]
    fn it_yields_every_48_round_trips_and_goes_on_where_the_queue_stays() {
        let mut flow = Flow::competing();
        flow.rounds(48, FULL);
        assert_eq!(flow.policy.mode(), Mode::Yield);
        let law = Decision { window: Packets::ONE, pacing: Pacing::Off };
        assert_eq!(flow.policy.decision(law).window, Packets::ONE);
        let window = flow.window();
        flow.rounds(7, FULL);
        assert_eq!((flow.policy.mode(), flow.window()), (Mode::Compete, window));
    }

    #[test]
    fn a_queue_that_falls_without_a_loss_makes_it_yield_and_one_that_drains_ends_it() {
        let mut flow = Flow::competing();
        flow.rounds(20, FULL);
        flow.rounds(3, Nanos::new(FULL.get() * 3 / 4));
        assert_eq!(flow.policy.mode(), Mode::Yield);
        flow.rounds(1, Nanos::ZERO);
        assert_eq!(flow.policy.mode(), Mode::Yield, "not for a whole round trip yet");
        flow.rounds(1, Nanos::ZERO);
        assert_eq!(flow.policy.mode(), Mode::Delay);
    }

    #[test]
    fn the_second_time_slow_start_ends_where_it_was() {
        let mut flow = Flow::competing();
        flow.rounds(2, Nanos::ZERO);
        assert_eq!(flow.policy.mode(), Mode::Delay);
        flow.rounds(40, FULL);
        assert_eq!(flow.policy.episodes(), 2);
        assert!(flow.window() >= 60 && flow.window() <= 102, "{}", flow.window());
    }

    #[test]
    fn a_timeout_restarts_from_two_packets_up_to_half() {
        let mut flow = Flow::competing();
        flow.policy.on_timeout(flow.now);
        assert_eq!((flow.window(), flow.policy.threshold / ONE), (2, 50));
    }
}
