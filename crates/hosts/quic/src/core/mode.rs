//! Selects the delay signal for a law, and checks telemetry against the round-trip time.
//!
//! ```text
//!  echoes arrive ────────> Telemetry: the echoed delay of the worst hop
//!         ^    │                      at most the round-trip time          (limits inflated telemetry)
//!         │    v                      at least what the RTT proves         (limits hidden queues)
//!  no echo yet: Delay      echoes stopped: Lost
//!         both use the queueing delay of the round trip, attributed to one hop
//! ```
//!
//! A law that uses the worst-hop delay receives a delay in every mode, so the law itself needs no modes. In a
//! user-space stack, a round-trip time includes the scheduling delay of two hosts. Queues persist, but
//! scheduling delays do not. The host therefore uses the smallest RTT of the last two rounds, minus a slack.

use super::stamp::Stamp;
use core::fmt;
use poseidon_types::Nanos;

/// After this many consecutive ACK frames without an echo, telemetry may have been lost. One echo covers all
/// ACKs of a burst, so a few ACKs without an echo are normal.
const LOST_AFTER_ACKS: u32 = 8;
/// This many round trips must also pass without an echo. By then, any burst is over.
const LOST_AFTER_ROUNDS: u64 = 3;
/// An RTT that exceeds the minimum by this much, with no other packet in flight, reflects the peer's
/// delayed-ACK timer (RFC 9000: 25 ms by default) rather than a queue. Treating it as a queue would throttle a
/// slow flow forever.
const DELAYED_ACK: Nanos = Nanos::from_millis(15);

/// The signal that controls a connection's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// The round-trip time, because no hop has reported a delay yet.
    #[default]
    Delay,
    /// The delay of the worst hop.
    Telemetry,
    /// The round-trip time, because telemetry has stopped.
    Lost,
    /// Losses, because another flow fills the queue.
    Compete,
    /// No signal for a few round trips, to test whether the other flow's queue drains.
    Yield,
}

impl Mode {
    /// All modes.
    pub(crate) const ALL: [Self; 5] = [Self::Delay, Self::Telemetry, Self::Lost, Self::Compete, Self::Yield];

    /// Returns the name used in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Telemetry => "telemetry",
            Self::Lost => "lost",
            Self::Compete => "compete",
            Self::Yield => "yield",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a path delivers telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum TelemetryMode {
    /// No hop has reported a delay yet.
    #[default]
    None,
    /// Hops report delays.
    Active,
    /// Hops reported delays before but have stopped.
    Lost,
}

impl From<TelemetryMode> for Mode {
    fn from(mode: TelemetryMode) -> Self {
        match mode {
            TelemetryMode::None => Self::Delay,
            TelemetryMode::Active => Self::Telemetry,
            TelemetryMode::Lost => Self::Lost,
        }
    }
}

/// The limits used to check telemetry against the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The round-trip time of the unloaded path. `None` means the smallest measured round-trip time.
    pub(crate) base_rtt: Option<Nanos>,
    /// The part of the excess RTT that the hosts may account for.
    pub(crate) slack: Nanos,
    /// The additional part that several hops in both directions may account for.
    pub(crate) guard: Nanos,
}

/// The measurements from one ACK frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub(crate) now: Nanos,
    /// The round-trip time of the newest acknowledged packet.
    pub(crate) rtt: Nanos,
    /// An upper bound on the round-trip times of all acknowledged packets.
    pub(crate) max_rtt: Nanos,
    /// Whether no other packet was in flight.
    pub(crate) is_only_packet: bool,
    pub(crate) echoed: Option<Stamp>,
}

/// The signals that the law receives for one ACK frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathSignals {
    pub(crate) rtt: Nanos,
    pub(crate) max_hop_delay: Option<Nanos>,
    /// Whether the delay was raised to what the round-trip time proves.
    pub(crate) guarded: bool,
    /// Whether the delay was lowered to what the round-trip time allows.
    pub(crate) implausible: bool,
}

/// Tracks the telemetry and the round-trip times of one path.
#[derive(Clone, Debug)]
pub(crate) struct TelemetryMonitor {
    bounds: Bounds,
    mode: TelemetryMode,
    min_rtt: Nanos,
    /// The current and the previous round trip.
    rounds: [Round; 2],
    round_end: Nanos,
    acks_without_echo: u32,
    last_echo: Nanos,
}

/// The smallest and the largest RTT measured within one round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    min_rtt: Nanos,
    max_rtt: Nanos,
}

impl Round {
    const EMPTY: Self = Self { min_rtt: Nanos::MAX, max_rtt: Nanos::ZERO };
}

impl TelemetryMonitor {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            mode: TelemetryMode::None,
            min_rtt: Nanos::MAX,
            rounds: [Round::EMPTY; 2],
            round_end: Nanos::ZERO,
            acks_without_echo: 0,
            last_echo: Nanos::ZERO,
        }
    }

    pub(crate) const fn mode(&self) -> TelemetryMode {
        self.mode
    }

    /// Returns the smallest round-trip time so far, or [`Nanos::MAX`] before the first ACK.
    pub(crate) const fn min_rtt(&self) -> Nanos {
        self.min_rtt
    }

    /// Processes an ACK frame and returns the signals for the law.
    pub(crate) fn on_ack(&mut self, sample: &AckSample) -> PathSignals {
        self.min_rtt = self.min_rtt.min(sample.rtt);
        let excess = sample.rtt - self.min_rtt;
        let rtt = if sample.is_only_packet && excess >= DELAYED_ACK { self.min_rtt } else { sample.rtt };
        self.update_round(sample.now, rtt, sample.max_rtt);
        let echoed = sample.echoed.and_then(|stamp| stamp.telemetry().delay());
        self.update_mode(sample.now, rtt, echoed.is_some());

        let (min_rtt, max_rtt) = self.recent_rtts();
        // Subtraction of `Nanos` saturates at zero.
        let queueing_delay = min_rtt - self.base_rtt() - self.bounds.slack;
        if self.mode != TelemetryMode::Active {
            return PathSignals {
                rtt,
                max_hop_delay: Some(queueing_delay),
                guarded: false,
                implausible: false,
            };
        }
        // Subtract only a configured base RTT. If the flow joined a standing queue, its smallest RTT includes
        // that queue.
        let max_delay = max_rtt - self.bounds.base_rtt.unwrap_or(Nanos::ZERO);
        let plausible_delay = echoed.map(|delay| delay.min(max_delay));
        let proven_delay = queueing_delay - self.bounds.guard;
        let guarded = !proven_delay.is_zero() && plausible_delay.is_none_or(|delay| delay < proven_delay);
        PathSignals {
            rtt,
            max_hop_delay: if guarded { Some(proven_delay) } else { plausible_delay },
            guarded,
            implausible: plausible_delay != echoed,
        }
    }

    fn base_rtt(&self) -> Nanos {
        self.bounds.base_rtt.unwrap_or(self.min_rtt)
    }

    /// Returns the smallest and the largest RTT of the last two rounds.
    fn recent_rtts(&self) -> (Nanos, Nanos) {
        let [current, previous] = self.rounds;
        (current.min_rtt.min(previous.min_rtt), current.max_rtt.max(previous.max_rtt))
    }

    fn update_round(&mut self, now: Nanos, rtt: Nanos, max_rtt: Nanos) {
        if now >= self.round_end {
            self.rounds = [Round::EMPTY, self.rounds[0]];
            self.round_end = now + rtt;
        }
        let round = &mut self.rounds[0];
        round.min_rtt = round.min_rtt.min(rtt);
        round.max_rtt = round.max_rtt.max(max_rtt);
    }

    fn update_mode(&mut self, now: Nanos, rtt: Nanos, has_echo: bool) {
        if has_echo {
            (self.mode, self.acks_without_echo, self.last_echo) = (TelemetryMode::Active, 0, now);
            return;
        }
        self.acks_without_echo = self.acks_without_echo.saturating_add(1);
        let since_last_echo = (now - self.last_echo).get();
        if self.mode == TelemetryMode::Active
            && self.acks_without_echo >= LOST_AFTER_ACKS
            && since_last_echo > rtt.get().saturating_mul(LOST_AFTER_ROUNDS)
        {
            self.mode = TelemetryMode::Lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_wire::quantiser::Scale as _;
    use poseidon_wire::shim;

    const BOUNDS: Bounds =
        Bounds { base_rtt: None, slack: Nanos::from_micros(100), guard: Nanos::from_millis(2) };
    const RTT: Nanos = Nanos::from_millis(1);

    struct Path {
        monitor: TelemetryMonitor,
        now: Nanos,
    }

    impl Path {
        fn new() -> Self {
            Self { monitor: TelemetryMonitor::new(BOUNDS), now: Nanos::from_millis(1) }
        }

        /// Processes an ACK that arrives 0.1 ms after the previous ACK.
        fn ack(&mut self, rtt: Nanos, echoed_ns: Option<u64>) -> PathSignals {
            self.now += Nanos::from_micros(100);
            let repr = |delay| shim::Repr {
                int_hops: 1,
                max_hop_delay: shim::SCALE.encode_delay_u16(Nanos::new(delay)),
                ..shim::Repr::default()
            };
            let echoed = echoed_ns.and_then(|delay| Stamp::from_shim(&repr(delay)));
            self.monitor.on_ack(&AckSample {
                now: self.now,
                rtt,
                max_rtt: rtt,
                is_only_packet: false,
                echoed,
            })
        }
    }

    #[test]
    fn round_trip_time_is_the_signal_without_telemetry() {
        let mut path = Path::new();
        assert_eq!(path.ack(RTT, None).max_hop_delay, Some(Nanos::ZERO));
        let queued = RTT + Nanos::from_micros(600);
        let last = (0..40).map(|_| path.ack(queued, None)).last().expect("there are 40 ACKs");
        // Once the smaller RTTs have expired, the delay is the queueing delay minus the slack.
        assert_eq!(last.max_hop_delay, Some(Nanos::from_micros(500)));
        assert_eq!(path.monitor.mode(), TelemetryMode::None);
        // A single large RTT does not indicate a queue.
        path.ack(RTT, None);
        assert_eq!(path.ack(queued, None).max_hop_delay, Some(Nanos::ZERO));
    }

    #[test]
    fn worst_hop_is_the_signal_after_the_first_measurement() {
        let mut path = Path::new();
        path.ack(RTT, None);
        let signals = path.ack(RTT + Nanos::from_micros(300), Some(256_000));
        assert_eq!(signals.max_hop_delay, Some(Nanos::new(256_000)));
        assert_eq!(path.monitor.mode(), TelemetryMode::Active);
        // The next ACK of the same burst has no echo. This does not mean that the queue is empty.
        assert_eq!(path.ack(RTT, None).max_hop_delay, None);
    }

    #[test]
    fn lost_telemetry_is_detected_and_can_return() {
        let mut path = Path::new();
        path.ack(RTT, Some(0));
        let acks_until_lost = (1..100).find(|_| {
            path.ack(RTT, None);
            path.monitor.mode() == TelemetryMode::Lost
        });
        // This is more than three round trips of ten ACKs each.
        assert_eq!(acks_until_lost, Some(31));
        assert!(path.ack(RTT, None).max_hop_delay.is_some());
        path.ack(RTT, Some(0));
        assert_eq!(path.monitor.mode(), TelemetryMode::Active);
    }

    #[test]
    fn hidden_queue_is_bounded_by_the_guard() {
        let mut path = Path::new();
        path.ack(RTT, Some(0));
        let queued = RTT + Nanos::from_millis(6);
        let last = (0..200).map(|_| path.ack(queued, Some(0))).last().expect("there are 200 ACKs");
        // The queueing delay of 6 ms, minus the slack and the guard.
        assert_eq!(last.max_hop_delay, Some(Nanos::from_micros(3_900)));
        assert!(last.guarded);
        let honest = path.ack(queued, Some(5_000_192));
        assert_eq!((honest.max_hop_delay, honest.guarded), (Some(Nanos::new(5_000_192)), false));
    }

    #[test]
    fn hop_delay_never_exceeds_the_round_trip_time() {
        let mut path = Path::new();
        path.ack(RTT, Some(0));
        let signals = path.ack(RTT, Some(16_000_000));
        assert_eq!((signals.max_hop_delay, signals.implausible), (Some(RTT), true));
    }

    #[test]
    fn delayed_ack_is_not_counted_as_a_queue() {
        let mut path = Path::new();
        path.ack(RTT, None);
        path.now += Nanos::from_millis(100);
        let delayed = Nanos::from_millis(26);
        let signals = path.monitor.on_ack(&AckSample {
            now: path.now,
            rtt: delayed,
            max_rtt: delayed,
            is_only_packet: true,
            echoed: None,
        });
        assert_eq!((signals.rtt, signals.max_hop_delay), (RTT, Some(Nanos::ZERO)));
    }
}
