//! When to change the path: PLB's decision, from the same ACKs that a law sees.
//!
//! A round is one window of ACKs. A round is congested when at least a share of its ACKs is; after enough congested
//! rounds in a row the flow takes another path (a new flow label), sooner if nothing is in flight and reordering
//! costs nothing. A timeout changes the path at once and silences PLB for a random while.
//!
//! Source   Qureshi et al., SIGCOMM 2022; constants of Linux (`net.ipv4.tcp_plb_*`) and of Google's public Falcon
//!          simulator, `falcon-transport/isekai`
//! Needs    from the host: whether an ACK counts as congested: `Law::is_congested`, each law by its own signal

use super::gate::SeqGate;
use poseidon_types::{Fraction, Nanos};

/// PLB's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlbParams {
    /// A round is congested from this share of congested ACKs (K).
    pub congested_share: Fraction,
    /// Congested rounds after which an idle flow changes its path (M).
    pub idle_rounds: u8,
    /// Congested rounds after which any flow does (N).
    pub busy_rounds: u8,
    /// Whether a timeout changes the path at once.
    pub on_timeout: bool,
    /// After a timeout PLB is silent between once and twice this long.
    pub suspend: Nanos,
}

impl PlbParams {
    /// Linux: K = 0.5, M = 3, N = 12, 60 s of silence after a timeout.
    pub const LINUX: Self = Self {
        congested_share: Fraction::ratio(1, 2),
        idle_rounds: 3,
        busy_rounds: 12,
        on_timeout: true,
        suspend: Nanos::from_millis(60_000),
    };
    /// Falcon: K = 0.5, five rounds, no rule for idle flows, no silence.
    pub const FALCON: Self = Self {
        congested_share: Fraction::ratio(1, 2),
        idle_rounds: 5,
        busy_rounds: 5,
        on_timeout: true,
        suspend: Nanos::ZERO,
    };
}

/// What one ACK tells PLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlbAck {
    /// When it arrived.
    pub now: Nanos,
    /// Everything before this byte has been acknowledged.
    pub acked_seq: u64,
    /// The next new byte the host will send.
    pub next_seq: u64,
    /// Whether this ACK counts as congested.
    pub congested: bool,
    /// Whether nothing is left in flight.
    pub idle: bool,
}

/// One flow's PLB state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Plb {
    round: SeqGate,
    acks: u32,
    congested: u32,
    rounds: u8,
    silent_until: Nanos,
}

impl Plb {
    /// An ACK; whether to take another path now.
    pub fn on_ack(&mut self, ack: &PlbAck, params: &PlbParams) -> bool {
        self.acks = self.acks.saturating_add(1);
        self.congested = self.congested.saturating_add(u32::from(ack.congested));
        if self.round.passes(ack.acked_seq, ack.next_seq) {
            let needed = params.congested_share.of_floor(u64::from(self.acks) << 8);
            let is_congested = (u64::from(self.congested) << 8) >= needed.max(1);
            self.rounds = if is_congested { self.rounds.saturating_add(1) } else { 0 };
            (self.acks, self.congested) = (0, 0);
        }
        let enough = self.rounds >= params.busy_rounds || (ack.idle && self.rounds >= params.idle_rounds);
        let re_path = enough && ack.now >= self.silent_until;
        if re_path {
            self.rounds = 0;
        }
        re_path
    }

    /// A timeout; whether to take another path now. `chance` spreads the silence over one to two spans.
    pub fn on_timeout(&mut self, now: Nanos, chance: u32, params: &PlbParams) -> bool {
        if !params.on_timeout {
            return false;
        }
        let extra = Fraction::from_q32(u64::from(chance)).of_floor(params.suspend.get());
        self.silent_until = now + params.suspend + Nanos::new(extra);
        self.rounds = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `rounds` rounds of ten ACKs, of which `congested` are; the rounds after which the path changed.
    fn run(params: &PlbParams, rounds: u64, congested: u64, idle: bool) -> std::vec::Vec<u64> {
        let mut plb = Plb::default();
        let mut changes = std::vec::Vec::new();
        for i in 0..rounds * 10 {
            let ack = PlbAck {
                now: Nanos::new(i),
                acked_seq: i,
                next_seq: i + 9,
                congested: i % 10 < congested,
                idle,
            };
            if plb.on_ack(&ack, params) {
                changes.push(i / 10);
            }
        }
        changes
    }

    #[test]
    fn a_busy_flow_changes_after_n_congested_rounds_an_idle_one_after_m() {
        assert_eq!(run(&PlbParams::LINUX, 26, 6, false), [12, 24]);
        assert_eq!(run(&PlbParams::LINUX, 7, 6, true), [3, 6]);
        assert_eq!(run(&PlbParams::FALCON, 11, 6, false), [5, 10]);
        assert_eq!(run(&PlbParams::LINUX, 100, 4, true), [], "below half a round is not congested");
    }

    #[test]
    fn a_timeout_changes_the_path_and_silences() {
        let mut plb = Plb { rounds: 11, ..Plb::default() };
        assert!(plb.on_timeout(Nanos::ZERO, u32::MAX, &PlbParams::LINUX));
        assert!(plb.silent_until > Nanos::from_millis(119_999));
        let late = PlbAck { now: Nanos::new(1), acked_seq: 1, next_seq: 1, congested: true, idle: true };
        plb.rounds = 200;
        assert!(!plb.on_ack(&late, &PlbParams::LINUX), "silent");
    }
}
