//! θ-PowerTCP: PowerTCP without switch support, which estimates power from the RTT and its gradient.
//!
//! ```text
//! Model      Γ = (dθ/dt + 1)·θ/τ,  with θ the RTT: queue/b + τ = θ and (dq/dt)/b = dθ/dt          (Eq. 8)
//!            w ← γ·(w_old/Γ + β) + (1 - γ)·w, once per round trip
//! ```
//!
//! Signals    the raw RTT
//! Source     Addanki et al., NSDI 2022, section 3.5 and algorithm 2
//! Differs    - Alg. 2 computes power per ACK and updates the window once per round trip. The gradient between two ACKs
//!              diverges as their spacing goes to zero. As in the public Linux code, both happen once per round trip
//!              here. The `artifact-ns3` preset does both on every ACK, from the reference window, with τ·1.05 and γ =
//!              0.7.
//!            - A gradient below -1 would make power negative, so gradient + 1 has a floor.
//! Limits     The law assumes that the bottleneck sends at full rate, so it claims free bandwidth only additively. It
//!            reacts to the sum of all queues on the path.

use super::powertcp::{PowerLaw, PowerTcpParams};
use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Path};
use crate::params::params;
use crate::parts::float::ns;
use poseidon_types::{BitRate, Nanos, Signals};

params! {
    /// Parameters of [`ThetaPowerTcp`].
    pub struct ThetaPowerTcpParams {
        /// γ: the weight of the new window (section 3.3).
        gain: f64 = 0.9,
        /// N in β = HostBw·τ/N (not stated; 10 in the public Linux code).
        expected_flows: f64 = 10.0,
        /// β as a rate, used if not zero (150 Mbps in the ns-3 artifact).
        additive_increase: BitRate = BitRate::ZERO,
        /// τ: the network-wide base RTT; 0 ns means the path's base RTT.
        network_rtt: Nanos = Nanos::ZERO,
        /// A scaling factor for τ. The artifact allows a standing delay of 5 %.
        rtt_slack: f64 = 1.0,
        /// The smallest value of gradient + 1.
        gradient_floor: f64 = 0.01,
        /// Update on every ACK, starting from the last round trip's window (artifact).
        per_ack: bool = false,
        /// The minimum window as a rate, if not zero (artifact); otherwise the minimum is one packet.
        min_rate: BitRate = BitRate::ZERO,
        /// Lower τ to the smallest measured RTT (artifact).
        track_min_rtt: bool = false,
    }
    presets {
        "artifact-ns3", "the constants of the public ns-3 code, which produced figures 4-7", |p| {
            p.gain = 0.7;
            p.additive_increase = BitRate::from_mbps(150);
            p.rtt_slack = 1.05;
            p.gradient_floor = 0.5;
            p.per_ack = true;
            p.min_rate = BitRate::from_mbps(100);
            p.track_min_rtt = true;
        };
    }
    check {
        gain: "above 0 and at most 1", |p| p.gain > 0.0 && p.gain <= 1.0;
        expected_flows: "at least 1", |p| p.expected_flows >= 1.0;
        rtt_slack: "between 1 and 2", |p| (1.0..=2.0).contains(&p.rtt_slack);
        gradient_floor: "above 0 and at most 1", |p| p.gradient_floor > 0.0 && p.gradient_floor <= 1.0;
    }
}

/// The state of one θ-PowerTCP flow.
#[derive(Clone, Debug, PartialEq)]
pub struct ThetaPowerTcp {
    law: PowerLaw,
    /// The time and the RTT of the last sample.
    last_sample: Option<(Nanos, Nanos)>,
    rtt_slack: f64,
    gradient_floor: f64,
    per_ack: bool,
    tracks_min_rtt: bool,
}

impl LawDefinition for ThetaPowerTcp {
    const NAME: &'static str = "theta-powertcp";
    const SOURCE: &'static str = "Addanki et al., NSDI 2022, Alg. 2, Eq. 8";
    const STATE_LIMIT: usize = 192;
    type Params = ThetaPowerTcpParams;

    fn needs(_: &ThetaPowerTcpParams) -> Signals {
        Signals::RTT
    }

    fn new(params: &ThetaPowerTcpParams, path: &Path) -> Self {
        let power_params = PowerTcpParams {
            gain: params.gain,
            expected_flows: params.expected_flows,
            additive_increase: params.additive_increase,
            network_rtt: params.network_rtt,
            min_rate: params.min_rate,
            reference_term: params.per_ack,
            ..PowerTcpParams::default()
        };
        Self {
            law: PowerLaw::new(&power_params, path),
            last_sample: None,
            rtt_slack: params.rtt_slack,
            gradient_floor: params.gradient_floor,
            per_ack: params.per_ack,
            tracks_min_rtt: params.track_min_rtt,
        }
    }
}

impl Law for ThetaPowerTcp {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        // Alg. 2 line 17: the window update uses the same round trip as the history.
        let round_ends = self.law.history.ends_round(ack.acked_seq, ack.next_seq);
        if self.tracks_min_rtt && !ack.rtt.is_zero() {
            self.law.horizon = self.law.horizon.min(ns(ack.rtt));
        }
        if self.per_ack || round_ends {
            self.update_from_rtt(ack);
        }
        if round_ends {
            self.law.history.store(self.law.window);
        }
    }

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    fn is_congested(&self, _: &Ack<'_>) -> bool {
        self.law.is_congested(1.0)
    }

    fn decision(&self) -> Decision {
        self.law.decision()
    }
}

impl ThetaPowerTcp {
    /// Implements `NormPower` and `UpdateWindow` from Alg. 2.
    fn update_from_rtt(&mut self, ack: &Ack<'_>) {
        let last_sample = self.last_sample.replace((ack.now, ack.rtt));
        let Some((last_now, last_rtt)) = last_sample else { return };
        let elapsed = ns(Nanos::new(ack.now.get().wrapping_sub(last_now.get())));
        if elapsed == 0.0 {
            return;
        }
        let gradient = (ns(ack.rtt) - ns(last_rtt)) / elapsed;
        let target = self.law.horizon * self.rtt_slack;
        let power = (gradient + 1.0).max(self.gradient_floor) * ns(ack.rtt) / target;
        self.law.smooth(power, elapsed);
        self.law.update(self.law.power, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Bytes;

    const PATH: Path =
        Path { mtu: Bytes::new(1_000), line_rate: BitRate::from_gbps(25), base_rtt: Nanos::from_micros(28) };

    fn ack(round: u64, rtt_us: u64) -> Ack<'static> {
        Ack {
            now: Nanos::from_micros(28 * round),
            rtt: Nanos::from_micros(rtt_us),
            acked_seq: round * 1_000,
            next_seq: round * 1_000 + 999,
            ..Ack::EMPTY
        }
    }

    #[test]
    fn a_constant_doubled_rtt_halves_the_window_per_round() {
        let mut law = ThetaPowerTcp::new(&ThetaPowerTcpParams::default(), &PATH);
        for round in 1..=3 {
            law.on_ack(&ack(round, 56));
        }
        assert_eq!(law.law.power, 2.0);
        let expected = 0.9 * (87_500.0 / 2.0 + 8_750.0) + 0.1 * 87_500.0;
        assert!((law.law.window - expected).abs() < 1e-6);
    }

    #[test]
    fn a_rising_rtt_cuts_more_than_a_constant_one() {
        let window_after = |last_rtt_us| {
            let mut law = ThetaPowerTcp::new(&ThetaPowerTcpParams::default(), &PATH);
            law.on_ack(&ack(1, last_rtt_us));
            law.on_ack(&ack(2, last_rtt_us));
            law.on_ack(&ack(3, 56));
            law.law.window
        };
        assert!(window_after(28) < window_after(56) && window_after(56) < window_after(80));
    }
}
