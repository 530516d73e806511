//! BBR, version 1: a model of the path, its bandwidth and its round trip, and a flow that sends by the model.
//!
//! ```text
//! Model      bandwidth = the largest delivery rate of the last 10 rounds
//!            min_rtt   = the smallest round trip of the last 10 s
//!            pace      = 0.99 · gain · bandwidth
//!            window    = window_gain · bandwidth · min_rtt + 3 quanta
//! ```
//!
//! Signals    the RTT; marks are not read, and losses do not slow the flow down
//! Life       STARTUP (gain 2.885) until three rounds bring less than 25 % more → DRAIN (1/2.885) until one
//!            bandwidth-delay product is in flight → PROBE_BW (1.25, 0.75, six times 1, a min_rtt each);
//!            PROBE_RTT (four packets for 200 ms) when min_rtt is 10 s old
//! Source     Linux, net/ipv4/tcp_bbr.c and tcp_rate.c; draft-cardwell-iccrg-bbr-congestion-control-00
//! Differs    - Linux keeps with each packet what had been delivered when it left. Here eight points of the past two round
//!              trips are kept per flow, and a sample begins at the last point before the packet left: it is taken over up
//!              to a quarter of a round trip more. The filter takes the largest, so the best placed samples decide.
//!            - The filter holds the maximum of each round and is exact; Linux's keeps three candidates.
//!            - Linux calls a flow limited by its application when there is nothing to send. A law does not see that:
//!              here it has less in flight than half of its window and of bandwidth · RTT.
//!            - What is in flight are bytes sent and not acknowledged in order, so what was lost counts until it is repaired.
//!            - A host tells when recovery begins and not when it ends: it is taken to last one round, two after a timeout. A loss
//!              ends a phase of gain 1.25 that has had its min_rtt, if it was found at any time in the phase.
//!            - Min_rtt and the first pace come from the first ACK and from the configured RTT, not from a handshake.
//!            - No long-term bandwidth behind policers, and no room for aggregated ACKs (`lt_bw`, `extra_acked` of
//!              tcp_bbr.c): the draft has neither.
//! Limits     several flows overestimate together and are held by their windows: a queue of one to two bandwidth-delay products,
//!            and a smaller buffer overflows. A flow that starts into a queue takes it for the path and gets more than its
//!            share until PROBE_RTT

use crate::event::{Ack, Loss};
use crate::law::{Decision, LONGEST_RTT, Law, Pacing, Path};
use crate::params::params;
use crate::parts::float::{bounded, bytes, bytes_per_ns, ns, packets, to_nanos, to_window};
use crate::parts::gate::is_after;
use core::num::NonZeroU64;
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

params! {
    /// BBR's parameters; the defaults are Linux's.
    pub struct BbrParams {
        /// How long a smallest round trip is believed (bbr_min_rtt_win_sec).
        min_rtt_window: Nanos = Nanos::from_millis(10_000),
        /// How long the flow holds still to see it anew (bbr_probe_rtt_mode_ms); 0 ns for never.
        probe_rtt_time: Nanos = Nanos::from_millis(200),
        /// The window in bandwidth-delay products (bbr_cwnd_gain).
        window_gain: f64 = 2.0,
        /// What a host sends at once, as time at the pace (sk_pacing_shift, 1/1024 s); the window has room for three.
        quantum_time: Nanos = Nanos::new(976_562),
        /// The most that a host sends at once (GSO_MAX_SIZE).
        quantum_max: Bytes = Bytes::new(65_536),
        /// The first window (TCP_INIT_CWND).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window, and that of PROBE_RTT (bbr_cwnd_min_target).
        min_window: Packets = Packets::whole(4),
        /// The largest window.
        max_window: Packets = Packets::MAX_WINDOW,
    }
    presets {}
    check {
        min_rtt_window: "above zero", |p| p.min_rtt_window > Nanos::ZERO;
        window_gain: "at least 1 and at most 16", |p| p.window_gain >= 1.0 && p.window_gain <= 16.0;
        min_window: "at least one packet", |p| p.min_window >= Packets::ONE;
        max_window: "at most 32768 packets", |p| p.max_window <= Packets::MAX_WINDOW;
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
    }
}

/// 2/ln 2: the smallest gain that doubles what is sent per round (bbr_high_gain; draft section 4.3.2.1).
const HIGH_GAIN: f64 = 2.885;
/// Gains of PROBE_BW: one phase asks for more, one gives back what it queued, six cruise (bbr_pacing_gain).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The cycle begins at any of its phases but the second, which would drain a queue that nobody made (bbr_cycle_rand).
const FIRST_PHASES: u64 = 7;
/// The pace stays a little below the estimate, or what is queued never drains (bbr_pacing_margin_percent).
const MARGIN: f64 = 0.99;
/// Rounds that the bandwidth is the maximum of (bbr_bw_rtts).
const ROUNDS: u32 = 10;
/// A round that brings less than this much more has not grown (bbr_full_bw_thresh) ...
const GROWTH: f64 = 1.25;
/// ... and after so many of them the pipe is full (bbr_full_bw_cnt).
const FLAT_ROUNDS: u8 = 3;
/// Below this rate a host sends packets one by one, above it at least two at once (bbr_min_tso_rate).
const ONE_BY_ONE: BitRate = BitRate::from_bps(1_200_000);
/// The most packets that a host sends at once (bbr_tso_segs_goal).
const MOST_AT_ONCE: u64 = 127;

/// One flow under BBR. Rates in packets per ns, windows in packets, times in ns of the host's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Bbr {
    mode: Mode,
    pace: f64,
    window: f64,
    /// The window before recovery or PROBE_RTT.
    prior_window: f64,
    delivery: Delivery,
    bandwidth: MaxOfRounds,
    /// The present round ends with the ACK of a packet that left at or after this.
    round_began: u64,
    round: u32,
    /// Samples from before this many packets were delivered are the application's rate, not the path's.
    limited_until: Option<u32>,
    min_rtt: u64,
    min_rtt_at: u64,
    /// The bandwidth that a round must exceed by a quarter, and how many have not.
    full_bandwidth: f64,
    flat_rounds: u8,
    /// Rounds until recovery is over.
    recovery: u8,
    /// Recovery sends no more than is delivered.
    conserves: bool,
    /// A loss was found in this phase.
    lost: bool,
    /// Nothing is in flight: the next packet begins a new measurement.
    idle: bool,

    mtu: NonZeroU64,
    min_rtt_window: u64,
    probe_rtt_time: u64,
    window_gain: f64,
    quantum_time: f64,
    quantum_max: f64,
    one_by_one: f64,
    initial_window: f64,
    min_window: f64,
    max_window: f64,
}

/// What the flow is about (draft section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Looks for the bandwidth.
    Startup,
    /// Empties the queue that this made.
    Drain,
    /// Cruises, and asks for more once per cycle.
    ProbeBw { phase: u8, since: u64 },
    /// Empties the queue to see the path's round trip; until when, once it is empty, and whether a round has passed since.
    ProbeRtt { until: Option<u64>, round_done: bool },
}

impl Law for Bbr {
    const NAME: &'static str = "bbr";
    const SOURCE: &'static str = "Linux tcp_bbr.c; draft-cardwell-iccrg-bbr-congestion-control-00";
    const STATE_LIMIT: usize = 448;
    type Params = BbrParams;

    fn needs(_: &BbrParams) -> Signals {
        Signals::RTT
    }

    fn new(params: &BbrParams, path: &Path) -> Self {
        let mtu = NonZeroU64::new(path.mtu.get()).unwrap_or(NonZeroU64::MIN);
        let window = packets(params.initial_window);
        Self {
            mode: Mode::Startup,
            // bbr_init_pacing_rate_from_rtt
            pace: MARGIN * HIGH_GAIN * window / ns(path.base_rtt),
            window,
            prior_window: 0.0,
            delivery: Delivery::default(),
            bandwidth: MaxOfRounds::default(),
            round_began: 0,
            round: 0,
            limited_until: None,
            min_rtt: u64::MAX,
            min_rtt_at: 0,
            full_bandwidth: 0.0,
            flat_rounds: 0,
            recovery: 0,
            conserves: false,
            lost: false,
            idle: true,
            mtu,
            min_rtt_window: params.min_rtt_window.get(),
            probe_rtt_time: params.probe_rtt_time.get(),
            window_gain: params.window_gain,
            quantum_time: ns(params.quantum_time),
            quantum_max: bytes(params.quantum_max) / bytes(path.mtu),
            one_by_one: bytes_per_ns(ONE_BY_ONE) / bytes(path.mtu),
            initial_window: window,
            min_window: packets(params.min_window),
            max_window: packets(params.max_window),
        }
    }

    /// The order of bbr_main: the model first, then pace and window from it.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.packets == 0 {
            // It delivers nothing, so it measures nothing.
            return;
        }
        let seen = self.see(ack);
        self.next_phase(&seen);
        if seen.round_began && !seen.limited {
            self.check_full_pipe();
        }
        self.check_drained(&seen, ack.chance);
        self.follow_min_rtt(&seen, ack.chance);
        self.set_pace();
        self.set_window(&seen);
        self.idle = seen.in_flight == 0;
    }

    /// Packet conservation for a round, and the window of before after it (draft section 4.2.3.4).
    fn on_loss(&mut self, loss: &Loss) {
        self.save_window();
        (self.recovery, self.conserves, self.lost) = (1, true, true);
        self.round_began = loss.now.get();
    }

    /// One packet, and up again from there (draft section 4.2.3.4). A first ACK ends the round that the timeout began, so the second
    /// round is the one that shows a repaired path.
    fn on_timeout(&mut self, now: Nanos) {
        self.save_window();
        (self.recovery, self.conserves, self.lost) = (2, false, true);
        self.round_began = now.get();
        self.window = 1.0;
        // What was the full bandwidth before may not be now (bbr_set_state).
        self.full_bandwidth = 0.0;
    }

    /// The gap is that of packets, because bandwidth is counted in packets: a rate would be that of a wire, headers included.
    /// Never: version 1 has no signal of congestion; it follows the rate that is delivered.
    fn is_congested(&self, _: &Ack<'_>) -> bool {
        false
    }

    fn decision(&self) -> Decision {
        let gap = to_nanos(1.0 / self.pace + 0.5).min(LONGEST_RTT);
        Decision { window: to_window(self.window), pacing: Pacing::Gap(gap) }
    }
}

/// What an ACK says to the model.
#[derive(Clone, Copy, Debug)]
struct Seen {
    now: u64,
    rtt: u64,
    acked: u32,
    in_flight: u32,
    round_began: bool,
    limited: bool,
    was_idle: bool,
}

impl Bbr {
    /// Rounds, delivery rate and what limits it: bbr_update_bw.
    fn see(&mut self, ack: &Ack<'_>) -> Seen {
        let (now, rtt) = (ack.now.get(), ack.rtt.get().clamp(1, LONGEST_RTT.get()));
        let sent = now.wrapping_sub(rtt);
        let was_idle = self.idle;
        if was_idle {
            self.delivery.restart(sent);
        }
        if self.min_rtt == u64::MAX {
            self.round_began = sent;
        }
        // A packet that left after the round's first ACK: Linux compares what had been delivered then, which is the same.
        let round_began = !is_after(self.round_began, sent);
        if round_began {
            (self.round, self.round_began) = (self.round.wrapping_add(1), now);
        }
        let sample = self.delivery.sample(now, rtt, ack.packets);
        let limited = self.limited_until.is_some_and(|until| !is_after_u32(sample.from, until));
        if !limited {
            self.limited_until = None;
        }
        // A shorter stretch than the path's round trip holds one burst and not a rate (tcp_rate_gen).
        let is_long = sample.interval >= self.min_rtt.min(rtt);
        if is_long && (!limited || sample.rate() >= self.bandwidth.max) {
            self.bandwidth.offer(sample.rate(), self.round);
        }
        let unacked = ack.next_seq.wrapping_sub(ack.acked_seq);
        let in_flight = unacked.saturating_add(self.mtu.get() - 1) / self.mtu;
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let seen = Seen { now, rtt, acked: ack.packets, in_flight, round_began, limited, was_idle };
        // A paced flow does not fill its window, so the host's word alone would call it limited for ever.
        let spares = 2.0 * seen.before() < self.bandwidth.max * (rtt as f64);
        if ack.app_limited && spares {
            self.limit(in_flight);
        }
        seen
    }

    /// What is in flight now does not show the path's bandwidth (tcp_rate_check_app_limited).
    const fn limit(&mut self, in_flight: u32) {
        self.limited_until = Some(self.delivery.delivered.wrapping_add(in_flight));
    }

    /// The gain cycle: bbr_is_next_cycle_phase, draft section 4.3.4.3.
    fn next_phase(&mut self, seen: &Seen) {
        let Mode::ProbeBw { phase, since } = self.mode else { return };
        let is_full_length = seen.now.wrapping_sub(since) > self.min_rtt;
        let gain = self.pacing_gain();
        let is_over = if gain > 1.0 {
            let reached = || seen.before() + self.quantum() >= self.target(gain);
            is_full_length && (self.lost || reached())
        } else if gain < 1.0 {
            is_full_length || seen.before() <= self.target(1.0)
        } else {
            is_full_length
        };
        if is_over {
            self.mode = Mode::ProbeBw { phase: (phase + 1) % 8, since: seen.now };
            self.lost = false;
        }
    }

    /// Whether STARTUP has found the bandwidth: bbr_check_full_bw_reached, draft section 4.3.2.2.
    fn check_full_pipe(&mut self) {
        if self.is_full() {
            return;
        }
        if self.bandwidth.max >= GROWTH * self.full_bandwidth {
            (self.full_bandwidth, self.flat_rounds) = (self.bandwidth.max, 0);
        } else {
            self.flat_rounds += 1;
        }
    }

    const fn is_full(&self) -> bool {
        self.flat_rounds >= FLAT_ROUNDS
    }

    /// Into DRAIN and out of it: bbr_check_drain, draft section 4.3.3.
    fn check_drained(&mut self, seen: &Seen, chance: u32) {
        if self.mode == Mode::Startup && self.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && f64::from(seen.in_flight) <= self.target(1.0) {
            self.mode = Self::cruise(seen.now, chance);
        }
    }

    /// PROBE_BW from a random phase, so that flows do not probe together (draft section 4.3.4.2).
    fn cruise(now: u64, chance: u32) -> Mode {
        let first = (u64::from(chance) * FIRST_PHASES) >> 32;
        // Drawn from 2 to 8, and the eighth is the first.
        let phase = u8::try_from((2 + first) % 8).unwrap_or(0);
        Mode::ProbeBw { phase, since: now }
    }

    /// The smallest round trip, and PROBE_RTT when it is old: bbr_update_min_rtt, draft sections 4.1.2 and 4.3.5.
    fn follow_min_rtt(&mut self, seen: &Seen, chance: u32) {
        let never = self.min_rtt == u64::MAX;
        let is_old = !never && seen.now.wrapping_sub(self.min_rtt_at) > self.min_rtt_window;
        if seen.rtt <= self.min_rtt || is_old {
            (self.min_rtt, self.min_rtt_at) = (seen.rtt, seen.now);
        }
        // A flow that was idle has just seen a path without its own queue.
        let probes = matches!(self.mode, Mode::ProbeRtt { .. });
        if is_old && !probes && !seen.was_idle && self.probe_rtt_time > 0 {
            self.save_window();
            self.mode = Mode::ProbeRtt { until: None, round_done: false };
        }
        let Mode::ProbeRtt { until, round_done } = self.mode else { return };
        // Four packets in flight say nothing of the bandwidth.
        self.limit(seen.in_flight);
        match until {
            None if f64::from(seen.in_flight) <= self.min_window => {
                let until = Some(seen.now.wrapping_add(self.probe_rtt_time));
                self.mode = Mode::ProbeRtt { until, round_done: false };
                self.round_began = seen.now;
            }
            None => {}
            Some(end) => {
                let round_done = round_done || seen.round_began;
                self.mode = Mode::ProbeRtt { until, round_done };
                if round_done && is_after(seen.now, end) {
                    self.min_rtt_at = seen.now;
                    self.window = self.window.max(self.prior_window);
                    self.mode = if self.is_full() { Self::cruise(seen.now, chance) } else { Mode::Startup };
                }
            }
        }
    }

    const fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBw { phase, .. } => CYCLE[(phase % 8) as usize],
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// bbr_set_pacing_rate: until the pipe has been full, the pace only grows.
    fn set_pace(&mut self) {
        let pace = MARGIN * self.pacing_gain() * self.bandwidth.max;
        if self.is_full() || pace > self.pace {
            self.pace = pace;
        }
    }

    /// bbr_set_cwnd, draft section 4.2.3.6.
    fn set_window(&mut self, seen: &Seen) {
        if seen.round_began && self.recovery > 0 {
            self.recovery -= 1;
            if self.recovery == 0 {
                self.conserves = false;
                self.window = self.window.max(self.prior_window);
            }
        }
        if self.conserves {
            self.window = bounded(seen.before(), self.min_window, self.prior_window);
        } else {
            let gain = match self.mode {
                Mode::Startup | Mode::Drain => HIGH_GAIN,
                Mode::ProbeBw { .. } => self.window_gain,
                Mode::ProbeRtt { .. } => 1.0,
            };
            let (grown, target) = (self.window + f64::from(seen.acked), self.target(gain));
            if self.is_full() {
                self.window = grown.min(target);
            } else if self.window < target || f64::from(self.delivery.delivered) < self.initial_window {
                self.window = grown;
            }
        }
        let most = if matches!(self.mode, Mode::ProbeRtt { .. }) { self.min_window } else { self.max_window };
        self.window = bounded(self.window, self.min_window, most);
    }

    /// bbr_save_cwnd: what recovery or PROBE_RTT has cut already is not worth keeping.
    fn save_window(&mut self) {
        let is_cut = self.recovery > 0 || matches!(self.mode, Mode::ProbeRtt { .. });
        self.prior_window = if is_cut { self.prior_window.max(self.window) } else { self.window };
    }

    /// What should be in flight: `gain` bandwidth-delay products and room for what the two hosts hold (bbr_inflight, draft
    /// section 4.2.3.2).
    fn target(&self, gain: f64) -> f64 {
        let product = to_window(gain * self.bandwidth.max * (self.min_rtt as f64)).ceil() as f64;
        // An even number, for receivers that acknowledge every second packet.
        let even = 2.0 * to_window((product + 3.0 * self.quantum()) / 2.0).ceil() as f64;
        // Small products must be exceeded too when the flow asks for more.
        if matches!(self.mode, Mode::ProbeBw { phase: 0, .. }) { even + 2.0 } else { even }
    }

    /// Packets that a host sends at once: bbr_tso_segs_goal, draft section 4.2.2.
    fn quantum(&self) -> f64 {
        let least = if self.pace < self.one_by_one { 1 } else { 2 };
        let by_time = bounded(self.pace * self.quantum_time, 0.0, self.quantum_max);
        to_window(by_time).floor().clamp(least, MOST_AT_ONCE) as f64
    }
}

impl Seen {
    /// What was in flight before this ACK.
    fn before(&self) -> f64 {
        f64::from(self.in_flight) + f64::from(self.acked)
    }
}

/// What had been delivered at a few instants of the last two round trips.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
struct Delivery {
    points: [Point; 8],
    newest: u8,
    /// Packets, on a counter that wraps.
    delivered: u32,
}

/// At the ACK that came `at`, of a packet that had left `rtt` before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Point {
    at: u64,
    rtt: u32,
    delivered: u32,
}

/// A stretch of deliveries: from how many on, how many more, in how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    from: u32,
    packets: u32,
    interval: u64,
}

impl Sample {
    fn rate(&self) -> f64 {
        f64::from(self.packets) / (self.interval.max(1) as f64)
    }
}

impl Delivery {
    /// Nothing was in flight when a packet left at `sent`: the past says nothing of what comes.
    fn restart(&mut self, sent: u64) {
        self.points = [Point { at: sent, rtt: 0, delivered: self.delivered }; 8];
    }

    /// More is delivered; what was, since the packet left that this ACK is for. The interval is the longer of that between ACKs
    /// and that between sends, so that ACKs that were held up together do not look like bandwidth (tcp_rate_gen).
    fn sample(&mut self, now: u64, rtt: u64, packets: u32) -> Sample {
        self.delivered = self.delivered.wrapping_add(packets);
        let age = |point: &Point| now.wrapping_sub(point.at);
        let mut from = self.points[0];
        for point in &self.points {
            // The latest before the packet left, or the oldest where all are later.
            let (age, best) = (age(point), age(&from));
            if if best >= rtt { age >= rtt && age < best } else { age > best } {
                from = *point;
            }
        }
        let by_acks = age(&from);
        let by_sends = by_acks.wrapping_sub(rtt).wrapping_add(u64::from(from.rtt)).cast_signed().max(0);
        let interval = by_acks.max(by_sends.cast_unsigned());
        let newest = self.points[usize::from(self.newest % 8)];
        if age(&newest) >= rtt / 4 {
            self.newest = (self.newest + 1) % 8;
            let rtt = u32::try_from(rtt).unwrap_or(u32::MAX);
            self.points[usize::from(self.newest % 8)] = Point { at: now, rtt, delivered: self.delivered };
        }
        Sample { from: from.delivered, packets: self.delivered.wrapping_sub(from.delivered), interval }
    }
}

/// The largest rate of the last [`ROUNDS`] rounds in which one was taken.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
struct MaxOfRounds {
    max: f64,
    rounds: [f64; ROUNDS as usize],
    newest: u32,
}

impl MaxOfRounds {
    fn offer(&mut self, rate: f64, round: u32) {
        let passed = round.wrapping_sub(self.newest).min(ROUNDS);
        for back in 0..passed {
            self.rounds[(round.wrapping_sub(back) % ROUNDS) as usize] = 0.0;
        }
        self.newest = round;
        let best = &mut self.rounds[(round % ROUNDS) as usize];
        *best = best.max(rate);
        if passed > 0 || rate > self.max {
            self.max = self.rounds.iter().fold(0.0, |max: f64, rate| max.max(*rate));
        }
    }
}

/// Whether count `a` is after `b`, on a counter that wraps.
const fn is_after_u32(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    const PATH: Path =
        Path { mtu: Bytes::new(1_500), line_rate: BitRate::from_gbps(1), base_rtt: Nanos::from_millis(5) };
    /// A packet at 100 Mbps.
    const PACKET: u64 = 120_000;

    /// One flow over one bottleneck with room for all, an ACK per packet.
    struct Pipe {
        law: Bbr,
        now: u64,
        /// Per packet at the bottleneck, and the rest of the round trip.
        packet: u64,
        rest: u64,
        free_at: u64,
        last_send: Option<u64>,
        sent: u64,
        acked: u64,
        /// When each ACK comes and when its packet left.
        acks: VecDeque<(u64, u64)>,
        /// The application has so many packets.
        has: u64,
    }

    impl Pipe {
        fn new(params: &BbrParams, packet: u64) -> Self {
            let rest = PATH.base_rtt.get() - packet;
            let law = Bbr::new(params, &PATH);
            let acks = VecDeque::new();
            let (now, free_at, last_send, sent, acked, has) = (0, 0, None, 0, 0, u64::MAX);
            Self { law, now, packet, rest, free_at, last_send, sent, acked, acks, has }
        }

        /// The next send or ACK.
        fn step(&mut self) {
            let Decision { window, pacing: Pacing::Gap(gap) } = self.law.decision() else { unreachable!() };
            let may_send = self.last_send.map_or(0, |last| last + gap.get()).max(self.now);
            let has_room = self.sent - self.acked < window.floor() && self.sent < self.has;
            let ack_at = self.acks.front().map_or(u64::MAX, |ack| ack.0);
            if has_room && may_send < ack_at {
                self.now = may_send;
                self.free_at = self.free_at.max(self.now) + self.packet;
                self.acks.push_back((self.free_at + self.rest, self.now));
                (self.last_send, self.sent) = (Some(self.now), self.sent + 1);
                return;
            }
            let (at, left) = self.acks.pop_front().expect("something is in flight");
            let app_limited = Packets::whole(2 * (self.sent - self.acked)) < window;
            (self.now, self.acked) = (at, self.acked + 1);
            self.law.on_ack(&Ack {
                now: Nanos::new(at),
                rtt: Nanos::new(at - left),
                packets: 1,
                acked_seq: self.acked * 1_500,
                next_seq: self.sent * 1_500,
                app_limited,
                chance: u32::try_from(self.acked % 1_024).expect("small") << 22,
                ..Ack::EMPTY
            });
        }

        fn run_until(&mut self, time: u64) {
            while self.now < time {
                self.step();
            }
        }

        /// Packets that wait at the bottleneck.
        fn queue(&self) -> f64 {
            self.free_at.saturating_sub(self.now) as f64 / self.packet as f64
        }

        /// The estimate over the truth.
        fn estimate(&self) -> f64 {
            self.law.bandwidth.max * self.packet as f64
        }

        fn is_cruising(&self) -> bool {
            matches!(self.law.mode, Mode::ProbeBw { .. })
        }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn startup_doubles_per_round() {
        // 100 Gbps: nothing stops it.
        let mut pipe = Pipe::new(&BbrParams::default(), 120);
        let mut rates = Vec::new();
        while rates.len() < 9 {
            let round = pipe.law.round;
            pipe.step();
            if pipe.law.round > round {
                rates.push(pipe.law.bandwidth.max);
            }
        }
        // Six rounds; the first window of ten packets is not yet one of them.
        assert!((48.0..80.0).contains(&(rates[8] / rates[2])), "{rates:?}");
        for pair in rates[2..].windows(2) {
            assert!((1.5..2.5).contains(&(pair[1] / pair[0])), "{rates:?}");
        }
        assert_eq!(pipe.law.mode, Mode::Startup);
    }

    #[test]
    fn the_pipe_is_full_after_three_rounds_that_bring_less_than_a_quarter() {
        let mut law = Bbr::new(&BbrParams::default(), &PATH);
        let mut after = |bandwidth: f64| {
            law.bandwidth.max = bandwidth;
            law.check_full_pipe();
            law.is_full()
        };
        assert!(![1.0, 1.25, 1.5, 1.55].map(&mut after).contains(&true));
        // 1.57 is more than 1.25 · 1.25: counted anew.
        assert_eq!([1.57, 1.9, 1.9, 1.9].map(&mut after), [false, false, false, true]);
        assert!(after(100.0), "for good");
    }

    #[test]
    fn startup_finds_the_bandwidth_and_drain_takes_back_its_queue() {
        let mut pipe = Pipe::new(&BbrParams::default(), PACKET);
        let mut longest = 0.0_f64;
        while pipe.law.mode == Mode::Startup {
            pipe.step();
            longest = longest.max(pipe.queue());
        }
        let product = PATH.base_rtt.get() as f64 / PACKET as f64;
        assert!((pipe.estimate() - 1.0).abs() < 0.01, "{}", pipe.estimate());
        // The window less what the path holds: 23 packets at once, and one each for rounding up, for even and in service.
        assert!(longest > product && longest < (HIGH_GAIN - 1.0) * product + 3.0 * 23.0 + 3.0, "{longest}");
        let began = pipe.now;
        while pipe.law.mode == Mode::Drain {
            pipe.step();
        }
        assert!(pipe.is_cruising());
        // The gain that undoes STARTUP's takes about a round trip with its queue.
        assert!(pipe.now - began < 25 * MS, "{}", pipe.now - began);
        assert!((pipe.sent - pipe.acked) as f64 <= pipe.law.target(1.0) + 1.0);
    }

    #[test]
    fn the_cycle_has_its_gains_and_a_round_trip_for_each() {
        let mut pipe = Pipe::new(&BbrParams::default(), PACKET);
        pipe.run_until(200 * MS);
        let mut phases = Vec::new();
        while phases.len() < 24 {
            let before = pipe.law.mode;
            pipe.step();
            if let (Mode::ProbeBw { since, .. }, Mode::ProbeBw { phase, since: now }) = (before, pipe.law.mode)
                && now != since
            {
                phases.push((phase, now - since, pipe.law.pacing_gain()));
            }
        }
        for pair in phases.windows(2) {
            let ((phase, _, gain), (next, took, _)) = (pair[0], pair[1]);
            assert_eq!((next, gain), ((phase + 1) % 8, CYCLE[usize::from(phase)]));
            if gain == 1.0 {
                assert!((5 * MS..=5 * MS + 2 * PACKET).contains(&took), "phase {phase}: {took}");
            }
        }
    }

    #[test]
    fn a_flow_alone_fills_the_path_and_keeps_a_short_queue() {
        let mut pipe = Pipe::new(&BbrParams::default(), PACKET);
        pipe.run_until(1_000 * MS);
        let (acked, mut longest) = (pipe.acked, 0.0_f64);
        while pipe.now < 3_000 * MS {
            pipe.step();
            longest = longest.max(pipe.queue());
            assert!((0.99..1.01).contains(&pipe.estimate()), "{}", pipe.estimate());
        }
        let used = (pipe.acked - acked) as f64 * PACKET as f64 / (2_000.0 * MS as f64);
        assert!(used > 0.985, "{used}");
        // A product of 42 packets: probing adds a quarter of it, and the three quanta of a host that sends 9 at once.
        assert!(longest < 42.0, "{longest}");
    }

    #[test]
    fn more_bandwidth_is_found_by_a_quarter_per_cycle_and_less_is_believed_after_ten_rounds() {
        let mut pipe = Pipe::new(&BbrParams::default(), PACKET);
        pipe.run_until(1_000 * MS);
        pipe.packet /= 2;
        // ln 2/ln 1.25 = 3.1 cycles of about 50 ms.
        pipe.run_until(1_300 * MS);
        assert!(pipe.estimate() > 0.97, "{}", pipe.estimate());
        pipe.packet *= 2;
        pipe.run_until(1_600 * MS);
        assert!((0.98..1.02).contains(&pipe.estimate()), "{}", pipe.estimate());
    }

    #[test]
    fn a_longer_path_is_seen_in_probe_rtt_after_ten_seconds() {
        let mut pipe = Pipe::new(&BbrParams::default(), PACKET);
        pipe.run_until(1_000 * MS);
        assert_eq!(pipe.law.min_rtt, 5 * MS);
        pipe.rest += MS;
        let probes = |pipe: &Pipe| matches!(pipe.law.mode, Mode::ProbeRtt { .. });
        let seen = pipe.law.min_rtt_at;
        while !probes(&pipe) {
            pipe.step();
        }
        let began = pipe.now;
        assert!((10_000 * MS..10_000 * MS + 2 * PACKET).contains(&(began - seen)), "{began}");
        assert_eq!(pipe.law.min_rtt_at, began, "the old one is forgotten");
        let window = pipe.law.prior_window;
        while probes(&pipe) {
            pipe.step();
            assert!(pipe.law.window <= 4.0 || !probes(&pipe));
        }
        // 200 ms from when four packets were left.
        assert!((200 * MS..220 * MS).contains(&(pipe.now - began)), "{}", pipe.now - began);
        assert_eq!((pipe.law.min_rtt, pipe.law.min_rtt_at), (6 * MS, pipe.now));
        assert!(pipe.is_cruising() && pipe.law.window + 1.0 >= window.min(pipe.law.target(2.0)));
        // What four packets carried was not taken for the path's bandwidth.
        assert!((0.99..1.01).contains(&pipe.estimate()), "{}", pipe.estimate());
        // And without it, never.
        let mut still =
            Pipe::new(&BbrParams { probe_rtt_time: Nanos::ZERO, ..BbrParams::default() }, PACKET);
        still.run_until(1_000 * MS);
        still.rest += MS;
        while still.now < 12_000 * MS {
            still.step();
            assert!(!probes(&still));
        }
        assert!(still.law.min_rtt >= 6 * MS);
    }

    #[test]
    fn the_first_phase_is_any_but_the_one_that_drains() {
        let first = |chance: u32| match Bbr::cruise(0, chance) {
            Mode::ProbeBw { phase, .. } => phase,
            _ => u8::MAX,
        };
        let mut seen: Vec<_> = (0..70).map(|i| first(i * (u32::MAX / 70))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(first(u32::MAX), 0);
    }

    #[test]
    fn a_rate_is_measured_over_a_round_trip_and_not_faster_than_it_was_sent() {
        let mut delivery = Delivery::default();
        delivery.restart(0);
        // A packet each 10 ns, a round trip of 1000: every sample after two of them is exact.
        let steady = |n: u64, delivery: &mut Delivery| delivery.sample(1_000 + 10 * n, 1_000, 1);
        for n in 0..300 {
            let sample = steady(n, &mut delivery);
            if n >= 200 {
                assert_eq!(sample.interval, 10 * u64::from(sample.packets), "{n}");
                assert!((1_000..=1_260).contains(&sample.interval), "{n}: {}", sample.interval);
            }
        }
        // The next 100 packets left as before, but their ACKs come together, 990 ns late for the first.
        for n in 300..400 {
            let sample = delivery.sample(5_000, 5_000 - 10 * n, 1);
            assert!(sample.rate() <= 0.1 * 1.01, "{n}: {}", sample.rate());
        }
    }

    #[test]
    fn an_application_that_sends_little_does_not_lower_the_estimate() {
        let mut pipe = Pipe::new(&BbrParams::default(), PACKET);
        pipe.run_until(1_000 * MS);
        // A tenth of the bandwidth, by two packets each 2.4 ms.
        pipe.has = pipe.sent;
        while pipe.now < 3_000 * MS {
            pipe.has += 2;
            let next = pipe.now + 20 * PACKET;
            while pipe.sent < pipe.has || pipe.acks.front().is_some_and(|ack| ack.0 < next) {
                pipe.step();
            }
            pipe.now = pipe.now.max(next);
        }
        assert!((0.99..1.02).contains(&pipe.estimate()), "{}", pipe.estimate());
    }

    #[test]
    fn a_loss_costs_no_rate_and_a_timeout_a_window_for_two_rounds() {
        let mut pipe = Pipe::new(&BbrParams::default(), PACKET);
        pipe.run_until(1_000 * MS);
        let (pace, window) = (pipe.law.pace, pipe.law.window);
        pipe.law.on_loss(&Loss { now: Nanos::new(pipe.now) });
        assert_eq!((pipe.law.pace, pipe.law.window), (pace, window));
        pipe.step();
        while pipe.law.conserves {
            assert!(pipe.law.window <= window);
            pipe.step();
        }
        assert!(pipe.law.window >= window.min(pipe.law.target(2.0)));
        pipe.law.on_timeout(Nanos::new(pipe.now));
        assert_eq!(pipe.law.decision().window, Packets::ONE);
        let until = pipe.now + 20 * MS;
        pipe.run_until(until);
        assert!(pipe.law.window + 2.0 >= window, "{} of {window}", pipe.law.window);
    }

    #[test]
    fn the_window_has_room_for_three_quanta() {
        let mut law = Bbr::new(&BbrParams::default(), &PATH);
        (law.min_rtt, law.bandwidth.max, law.pace) = (5 * MS, 1.0 / PACKET as f64, 1.0 / PACKET as f64);
        // 100 Mbps for 1/1024 s are eight packets of 1500 bytes; 41.7 packets are a product.
        assert_eq!(law.quantum(), 8.0);
        assert_eq!(law.target(1.0), 66.0);
        assert_eq!(law.target(2.0), 108.0);
        law.mode = Mode::ProbeBw { phase: 0, since: 0 };
        assert_eq!(law.target(1.0), 68.0);
        law.pace = 1e-9;
        assert_eq!(law.quantum(), 1.0, "below 1.2 Mbps");
        law.pace = 1.0;
        assert_eq!(law.quantum(), 43.0, "64 KiB");
    }
}
