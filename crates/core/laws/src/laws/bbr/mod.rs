//! BBR, version 1: the sender models the path's bandwidth and round-trip time and paces its packets accordingly.
//!
//! ```text
//! Model      bandwidth   = largest delivery rate of the last 10 rounds
//!            min_rtt     = smallest round-trip time of the last 10 s
//!            pacing rate = 0.99 · gain · bandwidth
//!            window      = window_gain · bandwidth · min_rtt + 3 quanta
//! ```
//!
//! Signals    the RTT. The law ignores ECN marks, and a loss does not lower its rate.
//! Modes      STARTUP (gain 2.885) until the bandwidth grows by less than 25 % over three rounds → DRAIN (1/2.885)
//!            until one bandwidth-delay product is in flight → PROBE_BW (1.25, 0.75, six times 1, each for one
//!            min_rtt); PROBE_RTT (four packets for 200 ms) when min_rtt is 10 s old
//! Source     Linux, net/ipv4/tcp_bbr.c and tcp_rate.c; draft-cardwell-iccrg-bbr-congestion-control-00
//! Differs    - Linux stores the delivered count with each packet it sends. This law stores eight points per flow,
//!              covering the last two round trips. A sample starts at the last point before the packet was sent, so it
//!              covers up to a quarter of a round trip more. The filter takes the maximum, so the samples with the
//!              best-placed start determine the estimate.
//!            - The filter stores each round's maximum and is exact. Linux stores three candidates.
//!            - Linux marks a flow as application-limited when it has no data to send. A law cannot observe this. Here
//!              a flow is application-limited if the data in flight is below half of its window and below half of
//!              bandwidth · RTT.
//!            - A packet is in flight if it has been sent but not yet cumulatively acknowledged. A lost packet counts
//!              until its retransmission is acknowledged.
//!            - A host reports the start of recovery but not its end. Recovery lasts one round here, or two after a
//!              timeout. A loss ends a gain-1.25 phase that has lasted a min_rtt, no matter when during the phase the
//!              host detected the loss.
//!            - The min_rtt and the initial pacing rate come from the first ACK and the configured RTT, not from a
//!              handshake.
//!            - There is no long-term bandwidth estimate for policers and no allowance for aggregated ACKs (`lt_bw`,
//!              `extra_acked` in tcp_bbr.c). The draft has neither.
//! Limits     Several flows overestimate the bandwidth together until their windows limit them. The queue then holds
//!            one to two bandwidth-delay products, and a smaller buffer overflows. A flow that starts while there is a
//!            standing queue measures the queue as part of the path and takes more than its share until PROBE_RTT.

mod delivery_rate;
mod max_filter;
mod probe_bw;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;

use self::delivery_rate::DeliveryRateSampler;
use self::max_filter::MaxFilter;
use self::probe_bw::PACING_GAIN_CYCLE;
use self::startup::HIGH_GAIN;
use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, MAX_RTT, Pacing, Path};
use crate::params::params;
use crate::parts::float::{bytes, bytes_per_ns, clamp, ns, packets, to_nanos, to_window};
use crate::parts::round_trip::is_after;
use core::num::NonZeroU64;
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

params! {
    /// Parameters of [`Bbr`]. The defaults match Linux.
    pub struct BbrParams {
        /// How long a minimum RTT stays valid (bbr_min_rtt_win_sec).
        min_rtt_window: Nanos = Nanos::from_millis(10_000),
        /// How long PROBE_RTT lasts (bbr_probe_rtt_mode_ms); 0 ns disables it.
        probe_rtt_time: Nanos = Nanos::from_millis(200),
        /// The window as a multiple of the bandwidth-delay product (bbr_cwnd_gain).
        window_gain: f64 = 2.0,
        /// The send quantum size, expressed as time at the pacing rate (sk_pacing_shift, 1/1024 s). The window includes
        /// three extra quanta.
        quantum_time: Nanos = Nanos::new(976_562),
        /// The largest send quantum (GSO_MAX_SIZE).
        quantum_max: Bytes = Bytes::new(65_536),
        /// The initial window (TCP_INIT_CWND).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window, also used in PROBE_RTT (bbr_cwnd_min_target).
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

/// The pacing rate stays slightly below the bandwidth estimate so that queues drain (bbr_pacing_margin_percent).
const PACING_MARGIN: f64 = 0.99;
/// Below this rate, a host sends single packets; above it, a host sends at least two packets at once
/// (bbr_min_tso_rate).
const MIN_TSO_RATE: BitRate = BitRate::from_bps(1_200_000);
/// The maximum number of packets that a host sends at once (bbr_tso_segs_goal).
const MAX_TSO_SEGMENTS: u64 = 127;

/// The state of one BBR flow. Rates are in packets per ns, windows in packets, and times in ns on the host's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Bbr {
    mode: Mode,
    pacing_rate: f64,
    window: f64,
    /// The window before recovery or PROBE_RTT.
    prior_window: f64,
    rate_sampler: DeliveryRateSampler,
    bandwidth: MaxFilter,
    /// The current round ends with the ACK of a packet that was sent at or after this time.
    round_start: u64,
    round_count: u32,
    /// Samples that start before this delivered count measure the application, not the path.
    app_limited_until: Option<u32>,
    min_rtt: u64,
    /// When `min_rtt` was measured.
    min_rtt_stamp: u64,
    /// The bandwidth that the next round must exceed by 25 % to count as growth.
    full_bandwidth: f64,
    /// The number of rounds without growth.
    full_bandwidth_count: u8,
    /// The number of rounds until recovery ends.
    recovery_rounds: u8,
    /// Whether recovery limits the flow to sending as many packets as were delivered.
    packet_conservation: bool,
    /// Whether the host detected a loss in the current phase.
    loss_in_phase: bool,
    /// Whether no packet is in flight, so the next packet starts a new measurement.
    idle: bool,

    mtu: NonZeroU64,
    min_rtt_window: u64,
    probe_rtt_time: u64,
    window_gain: f64,
    quantum_time: f64,
    quantum_max: f64,
    min_tso_rate: f64,
    initial_window: f64,
    min_window: f64,
    max_window: f64,
}

/// The state machine's mode (draft section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Searches for the bandwidth.
    Startup,
    /// Drains the queue that STARTUP built.
    Drain,
    /// Cruises at the estimated bandwidth and probes for more once per cycle.
    ProbeBw { phase: u8, phase_start: u64 },
    /// Drains the queue to measure the path's round-trip time.
    ///
    /// `end` is `None` until the queue is empty. `round_done` is true once a round has passed since then.
    ProbeRtt { end: Option<u64>, round_done: bool },
}

impl LawDefinition for Bbr {
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
            pacing_rate: PACING_MARGIN * HIGH_GAIN * window / ns(path.base_rtt),
            window,
            prior_window: 0.0,
            rate_sampler: DeliveryRateSampler::default(),
            bandwidth: MaxFilter::default(),
            round_start: 0,
            round_count: 0,
            app_limited_until: None,
            min_rtt: u64::MAX,
            min_rtt_stamp: 0,
            full_bandwidth: 0.0,
            full_bandwidth_count: 0,
            recovery_rounds: 0,
            packet_conservation: false,
            loss_in_phase: false,
            idle: true,
            mtu,
            min_rtt_window: params.min_rtt_window.get(),
            probe_rtt_time: params.probe_rtt_time.get(),
            window_gain: params.window_gain,
            quantum_time: ns(params.quantum_time),
            quantum_max: bytes(params.quantum_max) / bytes(path.mtu),
            min_tso_rate: bytes_per_ns(MIN_TSO_RATE) / bytes(path.mtu),
            initial_window: window,
            min_window: packets(params.min_window),
            max_window: packets(params.max_window),
        }
    }
}

impl Law for Bbr {
    /// Updates the model, then the pacing rate and the window, in the same order as bbr_main.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.packets == 0 {
            // A duplicate ACK acknowledges no new packet, so it yields no sample.
            return;
        }
        let sample = self.update_bandwidth(ack);
        self.advance_cycle_phase(&sample);
        if sample.round_start && !sample.app_limited {
            self.check_full_bandwidth_reached();
        }
        self.check_drain(&sample, ack.random);
        self.update_min_rtt(&sample, ack.random);
        self.set_pacing_rate();
        self.set_window(&sample);
        self.idle = sample.in_flight == 0;
    }

    /// Applies packet conservation for one round, then restores the window (draft section 4.2.3.4).
    fn on_loss(&mut self, loss: &Loss) {
        self.save_window();
        (self.recovery_rounds, self.packet_conservation, self.loss_in_phase) = (1, true, true);
        self.round_start = loss.now.get();
    }

    /// Sets the window to one packet, from which it grows again (draft section 4.2.3.4).
    ///
    /// The first ACK ends the round that started with the timeout. The second round is the first after the loss is
    /// repaired.
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.save_window();
        (self.recovery_rounds, self.packet_conservation, self.loss_in_phase) = (2, false, true);
        self.round_start = timeout.now.get();
        self.window = 1.0;
        // The full bandwidth from before the timeout may no longer be valid (bbr_set_state).
        self.full_bandwidth = 0.0;
    }

    /// Always returns false: version 1 follows the delivery rate and has no congestion signal.
    fn is_congested(&self, _: &Ack<'_>) -> bool {
        false
    }

    /// Sets a packet gap instead of a bit rate, because the bandwidth is measured in packets and a bit rate would
    /// include headers.
    fn decision(&self) -> Decision {
        let gap = to_nanos(1.0 / self.pacing_rate + 0.5).min(MAX_RTT);
        Decision { window: to_window(self.window), pacing: Pacing::Gap(gap) }
    }
}

/// The sample that one ACK contributes to the model.
#[derive(Clone, Copy, Debug)]
struct AckSample {
    now: u64,
    rtt: u64,
    acked: u32,
    in_flight: u32,
    /// Whether the ACK starts a new round.
    round_start: bool,
    app_limited: bool,
    /// Whether no packet was in flight before the acknowledged packet was sent.
    after_idle: bool,
}

impl AckSample {
    /// Returns the number of packets in flight before this ACK.
    fn prior_in_flight(&self) -> f64 {
        f64::from(self.in_flight) + f64::from(self.acked)
    }
}

impl Bbr {
    /// Updates the round, the delivery rate and the application limit (bbr_update_bw).
    fn update_bandwidth(&mut self, ack: &Ack<'_>) -> AckSample {
        let (now, rtt) = (ack.now.get(), ack.rtt.get().clamp(1, MAX_RTT.get()));
        let sent_at = now.wrapping_sub(rtt);
        let after_idle = self.idle;
        if after_idle {
            self.rate_sampler.restart(sent_at);
        }
        if self.min_rtt == u64::MAX {
            self.round_start = sent_at;
        }
        // The packet was sent after the round's first ACK. Linux compares delivered counts, which is equivalent.
        let round_start = !is_after(self.round_start, sent_at);
        if round_start {
            (self.round_count, self.round_start) = (self.round_count.wrapping_add(1), now);
        }
        let rate = self.rate_sampler.sample(now, rtt, ack.packets);
        let app_limited =
            self.app_limited_until.is_some_and(|until| !is_after_u32(rate.prior_delivered, until));
        if !app_limited {
            self.app_limited_until = None;
        }
        // An interval shorter than the path's RTT measures a burst, not a rate (tcp_rate_gen).
        let is_valid = rate.interval >= self.min_rtt.min(rtt);
        if is_valid && (!app_limited || rate.packets_per_ns() >= self.bandwidth.max) {
            self.bandwidth.update(rate.packets_per_ns(), self.round_count);
        }
        let unacked = ack.next_seq.wrapping_sub(ack.acked_seq);
        let in_flight = unacked.saturating_add(self.mtu.get() - 1) / self.mtu;
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let sample =
            AckSample { now, rtt, acked: ack.packets, in_flight, round_start, app_limited, after_idle };
        // A paced flow does not fill its window, so the host's flag alone would mark it as application-limited forever.
        let below_half_bdp = 2.0 * sample.prior_in_flight() < self.bandwidth.max * (rtt as f64);
        if ack.app_limited && below_half_bdp {
            self.mark_app_limited(in_flight);
        }
        sample
    }

    /// Marks the samples of all packets in flight as application-limited (tcp_rate_check_app_limited).
    const fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = Some(self.rate_sampler.delivered.wrapping_add(in_flight));
    }

    const fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBw { phase, .. } => PACING_GAIN_CYCLE[(phase % 8) as usize],
            Mode::ProbeRtt { .. } => 1.0,
        }
    }

    /// Sets the pacing rate. Until the pipe has been filled once, the rate only increases (bbr_set_pacing_rate).
    fn set_pacing_rate(&mut self) {
        let rate = PACING_MARGIN * self.pacing_gain() * self.bandwidth.max;
        if self.full_bandwidth_reached() || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Sets the window (bbr_set_cwnd, draft section 4.2.3.6).
    fn set_window(&mut self, sample: &AckSample) {
        if sample.round_start && self.recovery_rounds > 0 {
            self.recovery_rounds -= 1;
            if self.recovery_rounds == 0 {
                self.packet_conservation = false;
                self.window = self.window.max(self.prior_window);
            }
        }
        if self.packet_conservation {
            self.window = clamp(sample.prior_in_flight(), self.min_window, self.prior_window);
        } else {
            let gain = match self.mode {
                Mode::Startup | Mode::Drain => HIGH_GAIN,
                Mode::ProbeBw { .. } => self.window_gain,
                Mode::ProbeRtt { .. } => 1.0,
            };
            let (grown, target) = (self.window + f64::from(sample.acked), self.target_in_flight(gain));
            if self.full_bandwidth_reached() {
                self.window = grown.min(target);
            } else if self.window < target || f64::from(self.rate_sampler.delivered) < self.initial_window {
                self.window = grown;
            }
        }
        let upper =
            if matches!(self.mode, Mode::ProbeRtt { .. }) { self.min_window } else { self.max_window };
        self.window = clamp(self.window, self.min_window, upper);
    }

    /// Saves the window, unless recovery or PROBE_RTT has already cut it (bbr_save_cwnd).
    fn save_window(&mut self) {
        let is_cut = self.recovery_rounds > 0 || matches!(self.mode, Mode::ProbeRtt { .. });
        self.prior_window = if is_cut { self.prior_window.max(self.window) } else { self.window };
    }

    /// Returns the target for packets in flight: `gain` bandwidth-delay products plus room for both hosts' send quanta
    /// (bbr_inflight, draft section 4.2.3.2).
    fn target_in_flight(&self, gain: f64) -> f64 {
        let bdp = to_window(gain * self.bandwidth.max * (self.min_rtt as f64)).ceil() as f64;
        // Round up to an even number, for receivers that acknowledge every second packet.
        let rounded = 2.0 * to_window((bdp + 3.0 * self.send_quantum()) / 2.0).ceil() as f64;
        // A probe must exceed even a small bandwidth-delay product.
        if matches!(self.mode, Mode::ProbeBw { phase: 0, .. }) { rounded + 2.0 } else { rounded }
    }

    /// Returns the number of packets that a host sends at once (bbr_tso_segs_goal, draft section 4.2.2).
    fn send_quantum(&self) -> f64 {
        let min_segments = if self.pacing_rate < self.min_tso_rate { 1 } else { 2 };
        let by_time = clamp(self.pacing_rate * self.quantum_time, 0.0, self.quantum_max);
        to_window(by_time).floor().clamp(min_segments, MAX_TSO_SEGMENTS) as f64
    }
}

/// Returns whether count `a` is after `b` on a counter that wraps.
const fn is_after_u32(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
