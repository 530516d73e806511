//! PLB: decides when a flow changes its path, based on the same ACKs that a law processes.
//!
//! A round is one window of ACKs. A round is congested if at least a configured share of its ACKs reports congestion.
//! After enough consecutive congested rounds, the flow changes its path by choosing a new flow label. The flow changes
//! its path sooner if no data is in flight, because reordering is then impossible. A timeout changes the path at once
//! and suspends PLB for a random time.
//!
//! Source   Qureshi et al., SIGCOMM 2022; constants from Linux (`net.ipv4.tcp_plb_*`) and from Google's public Falcon
//!          simulator, `falcon-transport/isekai`
//! Input    the host passes [`PlbParams::is_congested`], which is [`Law::is_congested`] unless a
//!          hop delay is configured. Each law derives it from its own signal

use crate::event::Ack;
use crate::law::Law;
use crate::parts::round_trip::RoundTrip;
use poseidon_types::{Fraction, Nanos};

/// Parameters of PLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlbParams {
    /// K: the share of congested ACKs that makes a round congested.
    pub congested_share: Fraction,
    /// M: the number of congested rounds after which an idle flow changes its path.
    pub idle_rounds: u8,
    /// N: the number of congested rounds after which any flow changes its path.
    pub busy_rounds: u8,
    /// Whether a timeout changes the path.
    pub on_timeout: bool,
    /// The suspension time: after a timeout, PLB is suspended for one to two times this value.
    pub suspend: Nanos,
    /// The hop delay above which an ACK reports congestion. Without it, the law decides. An ACK without telemetry leaves
    /// the decision to the law, too.
    pub hop_delay: Option<Nanos>,
}

impl PlbParams {
    /// The Linux values: K = 0.5, M = 3, N = 12, 60 s of suspension after a timeout.
    pub const LINUX: Self = Self {
        congested_share: Fraction::ratio(1, 2),
        idle_rounds: 3,
        busy_rounds: 12,
        on_timeout: true,
        suspend: Nanos::from_millis(60_000),
        hop_delay: None,
    };
    /// The Falcon values: K = 0.5, M = N = 5, no suspension.
    pub const FALCON: Self = Self {
        congested_share: Fraction::ratio(1, 2),
        idle_rounds: 5,
        busy_rounds: 5,
        on_timeout: true,
        suspend: Nanos::ZERO,
        hop_delay: None,
    };

    /// Returns whether an ACK that `law` has processed reports congestion.
    pub fn is_congested(&self, law: &impl Law, ack: &Ack<'_>) -> bool {
        match (self.hop_delay, ack.max_hop_delay) {
            (Some(limit), Some(delay)) => delay > limit,
            _ => law.is_congested(ack),
        }
    }
}

/// The input to [`Plb::on_ack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlbAck {
    /// When the ACK arrived.
    pub now: Nanos,
    /// The cumulative acknowledgement: all bytes before this sequence number are acknowledged.
    pub acked_seq: u64,
    /// The sequence number of the next new byte to send.
    pub next_seq: u64,
    /// Whether this ACK reports congestion.
    pub congested: bool,
    /// Whether no data is in flight after this ACK.
    pub idle: bool,
}

/// The PLB state for one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Plb {
    round: RoundTrip,
    /// The number of ACKs in the current round.
    acks: u32,
    congested_acks: u32,
    /// The number of consecutive congested rounds.
    congested_rounds: u8,
    suspended_until: Nanos,
}

impl Plb {
    /// Processes an ACK and returns whether the flow should change its path now.
    pub fn on_ack(&mut self, ack: &PlbAck, params: &PlbParams) -> bool {
        self.acks = self.acks.saturating_add(1);
        self.congested_acks = self.congested_acks.saturating_add(u32::from(ack.congested));
        if self.round.ends_with(ack.acked_seq, ack.next_seq) {
            let required = params.congested_share.mul_floor(u64::from(self.acks) << 8);
            let is_congested = (u64::from(self.congested_acks) << 8) >= required.max(1);
            self.congested_rounds = if is_congested { self.congested_rounds.saturating_add(1) } else { 0 };
            (self.acks, self.congested_acks) = (0, 0);
        }
        let is_due = self.congested_rounds >= params.busy_rounds
            || (ack.idle && self.congested_rounds >= params.idle_rounds);
        let changes_path = is_due && ack.now >= self.suspended_until;
        if changes_path {
            self.congested_rounds = 0;
        }
        changes_path
    }

    /// Processes a timeout and returns whether the flow should change its path now.
    ///
    /// `random` is uniform over 32 bits and determines the suspension time.
    pub fn on_timeout(&mut self, now: Nanos, random: u32, params: &PlbParams) -> bool {
        if !params.on_timeout {
            return false;
        }
        let extra = Fraction::from_q32(u64::from(random)).mul_floor(params.suspend.get());
        self.suspended_until = now + params.suspend + Nanos::new(extra);
        self.congested_rounds = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds of ten ACKs, `congested` of which report congestion. Returns the rounds after which the path
    /// changed.
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
    fn a_busy_flow_changes_its_path_after_n_congested_rounds_and_an_idle_one_after_m() {
        assert_eq!(run(&PlbParams::LINUX, 26, 6, false), [12, 24]);
        assert_eq!(run(&PlbParams::LINUX, 7, 6, true), [3, 6]);
        assert_eq!(run(&PlbParams::FALCON, 11, 6, false), [5, 10]);
        assert_eq!(
            run(&PlbParams::LINUX, 100, 4, true),
            [],
            "a round with fewer than half congested ACKs is not congested"
        );
    }

    #[test]
    fn a_configured_hop_delay_replaces_the_signal_of_the_law_if_there_is_telemetry() {
        use crate::law::{LawDefinition, Path};
        use crate::laws::fixed::{Fixed, FixedParams};
        use poseidon_types::{BitRate, Bytes};
        let never_congested = Fixed::new(
            &FixedParams::default(),
            &Path::new(Bytes::new(4_096), BitRate::from_gbps(200), Nanos::from_micros(10)),
        );
        let limited = PlbParams { hop_delay: Some(Nanos::from_micros(5)), ..PlbParams::FALCON };
        for (delay, expected) in [(None, false), (Some(5_000), false), (Some(5_001), true)] {
            let ack = Ack { max_hop_delay: delay.map(Nanos::new), ..Ack::EMPTY };
            assert_eq!(limited.is_congested(&never_congested, &ack), expected, "{delay:?}");
            assert!(!PlbParams::FALCON.is_congested(&never_congested, &ack), "{delay:?}");
        }
    }

    #[test]
    fn a_timeout_changes_the_path_and_suspends_plb() {
        let mut plb = Plb { congested_rounds: 11, ..Plb::default() };
        assert!(plb.on_timeout(Nanos::ZERO, u32::MAX, &PlbParams::LINUX));
        assert!(plb.suspended_until > Nanos::from_millis(119_999));
        let ack = PlbAck { now: Nanos::new(1), acked_seq: 1, next_seq: 1, congested: true, idle: true };
        plb.congested_rounds = 200;
        assert!(!plb.on_ack(&ack, &PlbParams::LINUX), "PLB is suspended");
    }
}
