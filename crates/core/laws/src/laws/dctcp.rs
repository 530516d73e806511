//! DCTCP: a window that is cut in proportion to the fraction of marked bytes.
//!
//! ```text
//! Model      per window     α = (1-g)·α + g·(marked bytes / bytes)
//!            if any marked  w *= 1 - α/2, once per window
//!            otherwise      Reno: slow start until the first mark, then one packet per round trip
//! ```
//!
//! Signals    ECN echo, accurate per byte
//! Source     RFC 8257
//! Differs    - The receiver keeps one bit of state and echoes it; the host implements this part. RPM's text describes
//!              the RFC 3168 receiver (marks until CWR), which differs from DCTCP's receiver.
//!            - The law cuts at the end of a window with marks and uses that window's α. Other stacks cut at the first
//!              mark and use the previous window's α.
//!            - The window does not grow while the flow is application-limited. After a timeout, the flow restarts from
//!              the smallest window.

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bytes, clamp, packets, to_window};
use crate::parts::reno::Reno;
use crate::parts::round_trip::RoundTrip;
use poseidon_types::{Packets, Signals};

params! {
    /// Parameters of [`Dctcp`].
    pub struct DctcpParams {
        /// g: the weight of a new mark fraction (RFC 8257 section 4.2).
        gain: f64 = 0.0625,
        /// The initial window (RFC 6928).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window. Two packets is the usual value and the reason queues grow in large incasts.
        min_window: Packets = Packets::whole(2),
        /// The largest window.
        max_window: Packets = Packets::MAX_WINDOW,
    }
    presets {}
    check {
        gain: "above 0 and at most 1", |p| p.gain > 0.0 && p.gain <= 1.0;
        min_window: "at least one packet", |p| p.min_window >= Packets::ONE;
        max_window: "at most 32768 packets", |p| p.max_window <= Packets::MAX_WINDOW;
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
    }
}

/// The state of one DCTCP flow. Windows are in packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Dctcp {
    reno: Reno,
    alpha: f64,
    acked_bytes: f64,
    marked_bytes: f64,
    round: RoundTrip,
    /// Whether a loss has already cut the current window.
    cut_by_loss: bool,

    gain: f64,
    min_window: f64,
    max_window: f64,
}

impl LawDefinition for Dctcp {
    const NAME: &'static str = "dctcp";
    const SOURCE: &'static str = "RFC 8257";
    const STATE_LIMIT: usize = 128;
    type Params = DctcpParams;

    fn needs(_: &DctcpParams) -> Signals {
        Signals::ECN_ECHO
    }

    fn new(params: &DctcpParams, _: &Path) -> Self {
        Self {
            reno: Reno::new(packets(params.initial_window)),
            alpha: 1.0,
            acked_bytes: 0.0,
            marked_bytes: 0.0,
            round: RoundTrip::default(),
            cut_by_loss: false,
            gain: params.gain,
            min_window: packets(params.min_window),
            max_window: packets(params.max_window),
        }
    }
}

impl Law for Dctcp {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.acked_bytes += bytes(ack.bytes);
        self.marked_bytes += bytes(ack.marked);
        if self.round.ends_with(ack.acked_seq, ack.next_seq) {
            let should_cut = self.marked_bytes > 0.0 && !self.cut_by_loss;
            let fraction = if self.acked_bytes > 0.0 {
                clamp(self.marked_bytes / self.acked_bytes, 0.0, 1.0)
            } else {
                0.0
            };
            self.alpha = blend(self.alpha, fraction, self.gain);
            (self.acked_bytes, self.marked_bytes, self.cut_by_loss) = (0.0, 0.0, false);
            if should_cut {
                self.reno.cut(1.0 - self.alpha / 2.0, self.min_window);
                return;
            }
        }
        if !ack.marked.is_zero() {
            if self.reno.in_slow_start() {
                // The first mark ends slow start at once. The cut follows at the end of the window.
                self.reno.ssthresh = self.reno.window;
            }
        } else if !ack.app_limited {
            self.reno.grow(f64::from(ack.packets));
            self.reno.window = self.reno.window.min(self.max_window);
        }
    }

    fn on_loss(&mut self, _: &Loss) {
        self.reno.cut(0.5, self.min_window);
        self.cut_by_loss = true;
    }

    fn on_timeout(&mut self, _: &Timeout) {
        self.reno.restart(0.5, self.min_window);
        self.cut_by_loss = true;
    }

    /// Returns whether the ACK carries a mark.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero()
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.reno.window), pacing: Pacing::Off }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{BitRate, Bytes, Nanos};

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(10), base_rtt: Nanos::from_micros(100) };

    /// Feeds the law one window of ACKs, marking every `nth` ACK.
    fn send_round(law: &mut Dctcp, seq: &mut u64, nth: u64) {
        let sent = law.decision().window.floor();
        for i in 0..sent {
            *seq += 1_000;
            let marked = if nth > 0 && i % nth == 0 { 1_000 } else { 0 };
            law.on_ack(&Ack {
                packets: 1,
                bytes: Bytes::new(1_000),
                marked: Bytes::new(marked),
                acked_seq: *seq,
                next_seq: *seq + sent * 1_000 - 1,
                ..Ack::EMPTY
            });
        }
    }

    #[test]
    fn alpha_converges_to_the_fraction_of_marks() {
        let mut law = Dctcp::new(&DctcpParams::default(), &PATH);
        let mut seq = 0;
        (law.reno.window, law.reno.ssthresh) = (100.0, 100.0);
        for _ in 0..200 {
            law.reno.window = 100.0;
            send_round(&mut law, &mut seq, 4);
        }
        assert!((law.alpha - 0.25).abs() < 0.01, "{}", law.alpha);
    }

    #[test]
    fn the_window_doubles_until_the_first_mark() {
        let mut law = Dctcp::new(&DctcpParams::default(), &PATH);
        let mut seq = 0;
        send_round(&mut law, &mut seq, 0);
        assert_eq!(law.reno.window, 20.0);
        send_round(&mut law, &mut seq, 1);
        assert!(!law.reno.in_slow_start());
    }

    #[test]
    fn the_window_stays_at_or_above_two_packets() {
        let mut law = Dctcp::new(&DctcpParams::default(), &PATH);
        let mut seq = 0;
        for _ in 0..50 {
            send_round(&mut law, &mut seq, 1);
        }
        assert_eq!(law.decision().window, Packets::whole(2));
    }
}
