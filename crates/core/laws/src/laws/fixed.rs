//! A constant window, for calibrating a host and for traffic that must not react to congestion.
//!
//! Signals    none
//! Source     this project

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use poseidon_types::{BitRate, Nanos, Packets, Signals};

params! {
    /// Parameters of [`Fixed`].
    pub struct FixedParams {
        /// The window.
        window: Packets = Packets::whole(64),
        /// The pacing rate; 0 bps disables pacing.
        rate: BitRate = BitRate::ZERO,
    }
    presets {}
    check {
        window: "between 0.001 and 32768 packets",
            |p| (Packets::from_q24(16_777)..=Packets::MAX_WINDOW).contains(&p.window);
    }
}

/// The state of one flow with a fixed window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    decision: Decision,
}

impl LawDefinition for Fixed {
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
            // One packet per base_rtt / window.
            let rtt = u128::from(path.base_rtt.get()) << Packets::FRACTION_BITS;
            let gap = rtt / u128::from(params.window.q24().max(1));
            Pacing::Gap(Nanos::new(u64::try_from(gap).unwrap_or(u64::MAX)))
        } else {
            Pacing::Off
        };
        Self { decision: Decision { window: params.window, pacing } }
    }
}

impl Law for Fixed {
    fn on_ack(&mut self, _: &Ack<'_>) {}

    fn on_loss(&mut self, _: &Loss) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    /// Always returns false: the law uses no signal.
    fn is_congested(&self, _: &Ack<'_>) -> bool {
        false
    }

    fn decision(&self) -> Decision {
        self.decision
    }
}
