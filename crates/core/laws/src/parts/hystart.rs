//! HyStart: leaves slow start before the queue overflows, like CUBIC in Linux.
//!
//! ```text
//! round       from an ACK to the ACK of the next packet sent after it
//! ACK train   the ACKs of a round span half a round trip without a pause, so the window covers half of the path
//! delay       the smallest of eight RTTs of a round exceeds the minimum by an eighth (at least 4 ms, at most 16 ms)
//! ```
//!
//! Source     Ha and Rhee, "Taming the elephants: new TCP slow start", Computer Networks 2011. The constants come from
//!            net/ipv4/tcp_cubic.c without pacing. RFC 9406 uses the delay test only.

use crate::event::Ack;

/// The smallest window in packets at which slow start may end.
const LOW_WINDOW: f64 = 16.0;
/// The maximum spacing between ACKs in a train, in ns (hystart_ack_delta).
const MAX_ACK_SPACING: u64 = 2_000_000;
/// The number of RTT samples that a round needs for the delay test.
const MIN_SAMPLES: u8 = 8;
/// The bounds on the RTT increase that ends slow start, in ns.
const DELAY_THRESHOLD: (u64, u64) = (4_000_000, 16_000_000);

/// The HyStart state for one flow. Times are in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HyStart {
    /// An ACK beyond this byte starts a new round.
    round_end: u64,
    round_start: u64,
    last_ack: u64,
    min_rtt: u64,
    round_min_rtt: u64,
    samples: u8,
}

impl HyStart {
    /// The state before the first ACK.
    pub(crate) const NEW: Self = Self {
        round_end: 0,
        round_start: 0,
        last_ack: 0,
        min_rtt: u64::MAX,
        round_min_rtt: u64::MAX,
        samples: 0,
    };

    /// Returns whether slow start should end with this ACK.
    pub(crate) fn should_exit(&mut self, ack: &Ack<'_>, window: f64) -> bool {
        let (now, rtt) = (ack.now.get(), ack.rtt.get());
        self.min_rtt = self.min_rtt.min(rtt);
        if ack.acked_seq > self.round_end || self.min_rtt == u64::MAX {
            *self = Self {
                round_end: ack.next_seq,
                round_start: now,
                last_ack: now,
                min_rtt: self.min_rtt,
                ..Self::NEW
            };
        }
        if window < LOW_WINDOW {
            return false;
        }
        let mut exit_slow_start = false;
        if now.wrapping_sub(self.last_ack) <= MAX_ACK_SPACING {
            self.last_ack = now;
            exit_slow_start = now.wrapping_sub(self.round_start) > self.min_rtt / 2;
        }
        self.round_min_rtt = self.round_min_rtt.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            exit_slow_start |= self.round_min_rtt
                > self.min_rtt + (self.min_rtt / 8).clamp(DELAY_THRESHOLD.0, DELAY_THRESHOLD.1);
        }
        exit_slow_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Nanos;

    /// Feeds rounds of ACKs that are `spacing` apart until slow start ends, and returns the window at that time.
    fn window_at_exit(rtt: u64, spacing: u64, extra_rtt: impl Fn(u64) -> u64) -> u64 {
        let (mut hystart, mut window, mut now, mut seq) = (HyStart::NEW, 10_u64, 0, 0);
        for round in 0..20 {
            let start = now;
            let next = seq + window;
            for number in 0..window {
                let (arrival, sent) = (start + number * spacing, next + 2 * number);
                let rtt = Nanos::new(rtt + extra_rtt(round));
                let ack = Ack {
                    now: Nanos::new(arrival),
                    rtt,
                    acked_seq: seq + number + 1,
                    next_seq: sent,
                    ..Ack::EMPTY
                };
                if hystart.should_exit(&ack, window as f64) {
                    return window;
                }
            }
            (seq, window, now) = (next, 2 * window, start + rtt.max(window * spacing));
        }
        window
    }

    #[test]
    fn slow_start_ends_when_acks_span_half_a_round_trip() {
        // With one ACK per 10 us, 2000 packets span half of 40 ms. The first larger window is 2560.
        assert_eq!(window_at_exit(40_000_000, 10_000, |_| 0), 2_560);
    }

    #[test]
    fn slow_start_ends_when_the_rtt_grows_by_an_eighth() {
        let from_round_4 = |increase: u64| move |round: u64| if round >= 4 { increase } else { 0 };
        assert_eq!(window_at_exit(40_000_000, 1_000, from_round_4(5_100_000)), 160);
        // If the RTT grows by less than an eighth, only the ACK train ends slow start.
        assert!(window_at_exit(40_000_000, 1_000, from_round_4(4_900_000)) > 10_000);
    }
}
