//! A window that never moves: the law for calibrating a host and for traffic that must not react.
//!
//! Signals    none
//! Source     this project

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use poseidon_types::{BitRate, Nanos, Packets, Signals};

params! {
    /// The window and the rate.
    pub struct FixedParams {
        /// The window.
        window: Packets = Packets::whole(64),
        /// The pacing rate; 0 bps for none.
        rate: BitRate = BitRate::ZERO,
    }
    presets {}
    check {
        window: "between 0.001 and 32768 packets",
            |p| (Packets::from_q24(16_777)..=Packets::MAX_WINDOW).contains(&p.window);
    }
}

/// One flow with a fixed window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    decision: Decision,
}

impl Law for Fixed {
    const NAME: &'static str = "fixed";
    const SOURCE: &'static str = "none: a constant";
    const STATE_LIMIT: usize = 32;
    type Params = FixedParams;

    fn needs(_: &FixedParams) -> Signals {
        Signals::NONE
    }

    fn new(params: &FixedParams, path: &Path) -> Self {
        let pacing = if !params.rate.is_zero() {
            Pacing::Rate(params.rate)
        } else if params.window < Packets::ONE {
            // One packet per base RTT over window.
            let rtt = u128::from(path.base_rtt.get()) << Packets::FRACTION_BITS;
            let gap = rtt / u128::from(params.window.q24().max(1));
            Pacing::Gap(Nanos::new(u64::try_from(gap).unwrap_or(u64::MAX)))
        } else {
            Pacing::Off
        };
        Self { decision: Decision { window: params.window, pacing } }
    }

    fn on_ack(&mut self, _: &Ack<'_>) {}

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: Nanos) {}

    /// Never: it follows no signal.
    fn is_congested(&self, _: &Ack<'_>) -> bool {
        false
    }

    fn decision(&self) -> Decision {
        self.decision
    }
}
