//! DCTCP: a window cut in proportion to the share of marked bytes.
//!
//! ```text
//! Model      per window     α = (1-g)·α + g·(marked bytes / bytes)
//!            if any marked  w *= 1 - α/2, once per window
//!            otherwise      Reno: slow start until the first mark, then one packet per round trip
//! ```
//!
//! Signals    ECN echo, exact per byte
//! Source     RFC 8257
//! Differs    - The receiver keeps one bit of state and echoes it, which is the host's part; RPM's text describes RFC 3168's
//!              receiver (marks until CWR), which is not DCTCP's.
//!            - The cut comes at the end of a window that had marks, with the α of that window; other stacks cut at the first
//!              mark with the α of the window before.
//!            - A flow that does not use its window does not grow it. A timeout restarts at the smallest window.

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use crate::parts::ewma::blend;
use crate::parts::float::{bounded, bytes, packets, to_window};
use crate::parts::gate::SeqGate;
use crate::parts::reno::Reno;
use poseidon_types::{Nanos, Packets, Signals};

params! {
    /// DCTCP's parameters.
    pub struct DctcpParams {
        /// g: weight of a new window's share of marks (RFC 8257 section 4.2).
        gain: f64 = 0.0625,
        /// The first window (RFC 6928).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window: what stacks use, and why DCTCP's queues grow in large incasts.
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

/// One flow under DCTCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Dctcp {
    reno: Reno,
    alpha: f64,
    acked: f64,
    marked: f64,
    round: SeqGate,
    /// The present window has already been cut for a loss.
    cut: bool,

    gain: f64,
    min_window: f64,
    max_window: f64,
}

impl Law for Dctcp {
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
            acked: 0.0,
            marked: 0.0,
            round: SeqGate::default(),
            cut: false,
            gain: params.gain,
            min_window: packets(params.min_window),
            max_window: packets(params.max_window),
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.acked += bytes(ack.bytes);
        self.marked += bytes(ack.marked);
        if self.round.passes(ack.acked_seq, ack.next_seq) {
            let cuts = self.marked > 0.0 && !self.cut;
            let share = if self.acked > 0.0 { bounded(self.marked / self.acked, 0.0, 1.0) } else { 0.0 };
            self.alpha = blend(self.alpha, share, self.gain);
            (self.acked, self.marked, self.cut) = (0.0, 0.0, false);
            if cuts {
                self.reno.cut(1.0 - self.alpha / 2.0, self.min_window);
                return;
            }
        }
        if !ack.marked.is_zero() {
            if self.reno.in_slow_start() {
                // The first mark ends slow start at once; the cut comes with the end of the window.
                self.reno.threshold = self.reno.window;
            }
        } else if !ack.app_limited {
            self.reno.grow(f64::from(ack.packets));
            self.reno.window = self.reno.window.min(self.max_window);
        }
    }

    fn on_loss(&mut self, _: &Loss) {
        self.reno.cut(0.5, self.min_window);
        self.cut = true;
    }

    fn on_timeout(&mut self, _: Nanos) {
        self.reno.restart(0.5, self.min_window);
        self.cut = true;
    }

    /// Marked.
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
    use poseidon_types::{BitRate, Bytes};

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(10), base_rtt: Nanos::from_micros(100) };

    /// One window of ACKs with every `nth` marked.
    fn round(law: &mut Dctcp, seq: &mut u64, nth: u64) {
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
    fn alpha_settles_at_the_share_of_marks() {
        let mut law = Dctcp::new(&DctcpParams::default(), &PATH);
        let mut seq = 0;
        (law.reno.window, law.reno.threshold) = (100.0, 100.0);
        for _ in 0..200 {
            law.reno.window = 100.0;
            round(&mut law, &mut seq, 4);
        }
        assert!((law.alpha - 0.25).abs() < 0.01, "{}", law.alpha);
    }

    #[test]
    fn doubles_until_the_first_mark_and_then_adds_one() {
        let mut law = Dctcp::new(&DctcpParams::default(), &PATH);
        let mut seq = 0;
        round(&mut law, &mut seq, 0);
        assert_eq!(law.reno.window, 20.0);
        round(&mut law, &mut seq, 1);
        assert!(!law.reno.in_slow_start());
    }

    #[test]
    fn never_below_two_packets() {
        let mut law = Dctcp::new(&DctcpParams::default(), &PATH);
        let mut seq = 0;
        for _ in 0..50 {
            round(&mut law, &mut seq, 1);
        }
        assert_eq!(law.decision().window, Packets::whole(2));
    }
}
