//! HyStart: leaving slow start before the queue overflows, as Linux's CUBIC does.
//!
//! ```text
//! a round   from an ACK to the ACK of what was sent next after it
//! train     ACKs of one round have come for half a round trip without a pause: the window covers half of the path
//! delay     the smallest of eight round-trip times of this round is above the path's by an eighth, at least 4 ms, at most 16 ms
//! ```
//!
//! Source     Ha and Rhee, "Taming the elephants: new TCP slow start", Computer Networks 2011; the values are those of
//!            net/ipv4/tcp_cubic.c without pacing. RFC 9406 keeps the second test alone.

use crate::event::Ack;

/// Below this window, packets, nothing is tested.
const LOW_WINDOW: f64 = 16.0;
/// A longer silence than this ends a train of ACKs.
const PAUSE: u64 = 2_000_000;
/// Round-trip times of a round before its smallest says something.
const SAMPLES: u8 = 8;
/// Bounds of what the round-trip time may grow by.
const GROWTH: (u64, u64) = (4_000_000, 16_000_000);

/// What a flow remembers of its rounds in slow start. Times are ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStart {
    /// An ACK beyond this byte begins a round.
    ends: u64,
    began: u64,
    last_ack: u64,
    path_rtt: u64,
    round_rtt: u64,
    samples: u8,
}

impl HyStart {
    /// Before the first ACK.
    pub const NEW: Self =
        Self { ends: 0, began: 0, last_ack: 0, path_rtt: u64::MAX, round_rtt: u64::MAX, samples: 0 };

    /// Whether slow start should end with this ACK.
    pub fn is_over(&mut self, ack: &Ack<'_>, window: f64) -> bool {
        let (now, rtt) = (ack.now.get(), ack.rtt.get());
        self.path_rtt = self.path_rtt.min(rtt);
        if ack.acked_seq > self.ends || self.path_rtt == u64::MAX {
            *self =
                Self { ends: ack.next_seq, began: now, last_ack: now, path_rtt: self.path_rtt, ..Self::NEW };
        }
        if window < LOW_WINDOW {
            return false;
        }
        let mut is_over = false;
        if now.wrapping_sub(self.last_ack) <= PAUSE {
            self.last_ack = now;
            is_over = now.wrapping_sub(self.began) > self.path_rtt / 2;
        }
        self.round_rtt = self.round_rtt.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            is_over |= self.round_rtt > self.path_rtt + (self.path_rtt / 8).clamp(GROWTH.0, GROWTH.1);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Nanos;

    /// Rounds of `rtt` with as many ACKs as the window has packets, `spacing` apart, until slow start ends; the window then.
    fn window_at_the_end(rtt: u64, spacing: u64, grown: impl Fn(u64) -> u64) -> u64 {
        let (mut hystart, mut window, mut now, mut seq) = (HyStart::NEW, 10_u64, 0, 0);
        for round in 0..20 {
            let began = now;
            let next = seq + window;
            for number in 0..window {
                let (at, sent) = (began + number * spacing, next + 2 * number);
                let rtt = Nanos::new(rtt + grown(round));
                let ack = Ack {
                    now: Nanos::new(at),
                    rtt,
                    acked_seq: seq + number + 1,
                    next_seq: sent,
                    ..Ack::EMPTY
                };
                if hystart.is_over(&ack, window as f64) {
                    return window;
                }
            }
            (seq, window, now) = (next, 2 * window, began + rtt.max(window * spacing));
        }
        window
    }

    #[test]
    fn it_ends_where_acks_fill_half_a_round_trip() {
        // 40 ms and an ACK each 10 us: 2000 packets fill half of it, and 2560 are the first window that does.
        assert_eq!(window_at_the_end(40_000_000, 10_000, |_| 0), 2_560);
    }

    #[test]
    fn it_ends_where_the_round_trip_grows_by_an_eighth() {
        let growing = |by: u64| move |round: u64| if round >= 4 { by } else { 0 };
        assert_eq!(window_at_the_end(40_000_000, 1_000, growing(5_100_000)), 160);
        // Below an eighth, only the train ends it.
        assert!(window_at_the_end(40_000_000, 1_000, growing(4_900_000)) > 10_000);
    }
}
