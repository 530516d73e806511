//! What a law is told of the delay on its path, and what the host makes of telemetry that is missing or lies.
//!
//! ```text
//!  reflections come ───────> Telemetry: the worst hop's delay, as told
//!         ^    │                        never above the round trip itself        (who inflates)
//!         │    v                        never below what the round trip proves   (who hides)
//!  none yet ── Delay        none any more ── Lost
//!         both: the round trip's queueing, all of it taken for one hop's
//! ```
//!
//! A law that steers by the worst hop gets a delay in every mode, so it needs no mode of its own. A round trip in a user-space stack also
//! has the scheduling of two hosts in it. Queues last and scheduling does not: so the host takes the smallest round trip of the last two, and
//! leaves a slack.

use crate::stamp::Stamp;
use core::fmt;
use poseidon_types::Nanos;

/// ACK frames in a row without a reflection after which telemetry may be gone. One reflection serves all ACKs of a burst, so a few
/// without are normal.
const SILENT_ACKS: u32 = 8;
/// And round trips: a burst is over by then.
const SILENT_ROUNDS: u64 = 3;
/// A round trip this much longer than the shortest, with nothing else in flight, is the peer's timer for delayed ACKs (RFC 9000: 25 ms
/// unless said otherwise) and no queue. Taken for one, it would hold a slow flow down for ever.
const DELAYED_ACK: Nanos = Nanos::from_millis(15);

/// What a connection steers by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// No hop has measured yet: by the round trip.
    #[default]
    Delay,
    /// By the worst hop.
    Telemetry,
    /// Hops had measured, and are silent: by the round trip.
    Lost,
    /// By losses, because the queue is somebody else's.
    Compete,
    /// By nothing for a few round trips: whether that queue drains.
    Yield,
}

impl Mode {
    /// In metrics and logs.
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

/// The bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Of the unloaded path; nothing: the smallest seen.
    pub(crate) base_rtt: Option<Nanos>,
    /// Of the round trip's excess, so much is the hosts'.
    pub(crate) slack: Nanos,
    /// And so much is left to telemetry to attribute: several hops, both directions.
    pub(crate) guard: Nanos,
}

/// One ACK frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) now: Nanos,
    /// Of the newest packet.
    pub(crate) rtt: Nanos,
    /// Of the oldest: the longest way that any acknowledged packet can have had.
    pub(crate) longest: Nanos,
    /// Nothing else was in flight.
    pub(crate) alone: bool,
    pub(crate) told: Option<Stamp>,
}

/// What the law is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sense {
    pub(crate) rtt: Nanos,
    pub(crate) max_hop_delay: Option<Nanos>,
    /// It was raised to what the round trip proves.
    pub(crate) guarded: bool,
    /// It was lowered to what the round trip allows.
    pub(crate) implausible: bool,
}

/// Listens to one path.
#[derive(Clone, Debug)]
pub(crate) struct Senses {
    bounds: Bounds,
    mode: Mode,
    /// The smallest round trip ever.
    smallest: Nanos,
    /// Of the present round trip and the one before.
    rounds: [Round; 2],
    round_ends: Nanos,
    silent_acks: u32,
    last_told: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    shortest: Nanos,
    longest: Nanos,
}

impl Round {
    const NOTHING: Self = Self { shortest: Nanos::MAX, longest: Nanos::ZERO };
}

impl Senses {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            mode: Mode::Delay,
            smallest: Nanos::MAX,
            rounds: [Round::NOTHING; 2],
            round_ends: Nanos::ZERO,
            silent_acks: 0,
            last_told: Nanos::ZERO,
        }
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// The smallest round trip so far; [`Nanos::MAX`] before the first.
    pub(crate) const fn smallest_rtt(&self) -> Nanos {
        self.smallest
    }

    pub(crate) fn hear(&mut self, sample: &Sample) -> Sense {
        self.smallest = self.smallest.min(sample.rtt);
        let late = sample.rtt - self.smallest;
        let rtt = if sample.alone && late >= DELAYED_ACK { self.smallest } else { sample.rtt };
        self.count_round(sample.now, rtt, sample.longest);
        let told = sample.told.and_then(|stamp| stamp.telemetry().delay());
        self.count_silence(sample.now, rtt, told.is_some());

        let (shortest, longest) = self.recent();
        // Differences of times stop at zero.
        let queueing = shortest - self.base_rtt() - self.bounds.slack;
        if self.mode != Mode::Telemetry {
            return Sense { rtt, max_hop_delay: Some(queueing), guarded: false, implausible: false };
        }
        // Only a base that was given is subtracted: the smallest round trip of a flow that joined a standing queue has that queue in it.
        let possible = longest - self.bounds.base_rtt.unwrap_or(Nanos::ZERO);
        let plausible = told.map(|delay| delay.min(possible));
        let proven = queueing - self.bounds.guard;
        let guarded = !proven.is_zero() && plausible.is_none_or(|delay| delay < proven);
        Sense {
            rtt,
            max_hop_delay: if guarded { Some(proven) } else { plausible },
            guarded,
            implausible: plausible != told,
        }
    }

    fn base_rtt(&self) -> Nanos {
        self.bounds.base_rtt.unwrap_or(self.smallest)
    }

    fn recent(&self) -> (Nanos, Nanos) {
        let [now, before] = self.rounds;
        (now.shortest.min(before.shortest), now.longest.max(before.longest))
    }

    fn count_round(&mut self, now: Nanos, rtt: Nanos, longest: Nanos) {
        if now >= self.round_ends {
            self.rounds = [Round::NOTHING, self.rounds[0]];
            self.round_ends = now + rtt;
        }
        let round = &mut self.rounds[0];
        round.shortest = round.shortest.min(rtt);
        round.longest = round.longest.max(longest);
    }

    fn count_silence(&mut self, now: Nanos, rtt: Nanos, told: bool) {
        if told {
            (self.mode, self.silent_acks, self.last_told) = (Mode::Telemetry, 0, now);
            return;
        }
        self.silent_acks = self.silent_acks.saturating_add(1);
        let silence = (now - self.last_told).get();
        if self.mode == Mode::Telemetry
            && self.silent_acks >= SILENT_ACKS
            && silence > rtt.get().saturating_mul(SILENT_ROUNDS)
        {
            self.mode = Mode::Lost;
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

    struct Loop {
        senses: Senses,
        now: Nanos,
    }

    impl Loop {
        fn new() -> Self {
            Self { senses: Senses::new(BOUNDS), now: Nanos::from_millis(1) }
        }

        /// An ACK a tenth of a millisecond later.
        fn ack(&mut self, rtt: Nanos, told: Option<u64>) -> Sense {
            self.now += Nanos::from_micros(100);
            let repr = |delay| shim::Repr {
                int_hops: 1,
                max_hop_delay: shim::SCALE.code16(Nanos::new(delay)),
                ..shim::Repr::default()
            };
            let told = told.and_then(|delay| Stamp::of_shim(&repr(delay)));
            self.senses.hear(&Sample { now: self.now, rtt, longest: rtt, alone: false, told })
        }
    }

    #[test]
    fn without_telemetry_the_round_trip_is_the_signal() {
        let mut path = Loop::new();
        assert_eq!(path.ack(RTT, None).max_hop_delay, Some(Nanos::ZERO));
        let queued = RTT + Nanos::from_micros(600);
        let last = (0..40).map(|_| path.ack(queued, None)).last().expect("forty");
        // All of the queue but the slack, once the smaller round trips are old.
        assert_eq!(last.max_hop_delay, Some(Nanos::from_micros(500)));
        assert_eq!(path.senses.mode(), Mode::Delay);
        // One that is late is no queue.
        path.ack(RTT, None);
        assert_eq!(path.ack(queued, None).max_hop_delay, Some(Nanos::ZERO));
    }

    #[test]
    fn the_worst_hop_is_the_signal_once_one_has_measured() {
        let mut path = Loop::new();
        path.ack(RTT, None);
        let sense = path.ack(RTT + Nanos::from_micros(300), Some(256_000));
        assert_eq!(sense.max_hop_delay, Some(Nanos::new(256_000)));
        assert_eq!(path.senses.mode(), Mode::Telemetry);
        // The next ACK of the same burst says nothing, which is not an empty queue.
        assert_eq!(path.ack(RTT, None).max_hop_delay, None);
    }

    #[test]
    fn silence_is_noticed_and_ends() {
        let mut path = Loop::new();
        path.ack(RTT, Some(0));
        let silent = (1..100).find(|_| {
            path.ack(RTT, None);
            path.senses.mode() == Mode::Lost
        });
        // More than three round trips of ten ACKs each.
        assert_eq!(silent, Some(31));
        assert!(path.ack(RTT, None).max_hop_delay.is_some());
        path.ack(RTT, Some(0));
        assert_eq!(path.senses.mode(), Mode::Telemetry);
    }

    #[test]
    fn who_hides_a_queue_is_believed_up_to_the_guard() {
        let mut path = Loop::new();
        path.ack(RTT, Some(0));
        let queued = RTT + Nanos::from_millis(6);
        let last = (0..200).map(|_| path.ack(queued, Some(0))).last().expect("many");
        // Six, less slack and guard.
        assert_eq!(last.max_hop_delay, Some(Nanos::from_micros(3_900)));
        assert!(last.guarded);
        let honest = path.ack(queued, Some(5_000_192));
        assert_eq!((honest.max_hop_delay, honest.guarded), (Some(Nanos::new(5_000_192)), false));
    }

    #[test]
    fn no_hop_delays_longer_than_the_whole_way_took() {
        let mut path = Loop::new();
        path.ack(RTT, Some(0));
        let sense = path.ack(RTT, Some(16_000_000));
        assert_eq!((sense.max_hop_delay, sense.implausible), (Some(RTT), true));
    }

    #[test]
    fn a_delayed_ack_is_no_queue() {
        let mut path = Loop::new();
        path.ack(RTT, None);
        path.now += Nanos::from_millis(100);
        let late = Nanos::from_millis(26);
        let sample = Sample { now: path.now, rtt: late, longest: late, alone: true, told: None };
        let sense = path.senses.hear(&sample);
        assert_eq!((sense.rtt, sense.max_hop_delay), (RTT, Some(Nanos::ZERO)));
    }
}
