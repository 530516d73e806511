//! Delays some packets so that later packets overtake them.

use super::{ImpairPolicy, ImpairState, Impairment, Transit};
use poseidon_types::params::params;
use poseidon_types::random::splitmix64;
use poseidon_types::{Fraction, Nanos, Picos};

params! {
    /// Delays a share of the packets by a fixed time. All other packets are not delayed.
    #[derive(Copy, Eq)]
    pub struct Reorder {
        /// Probability that a packet is delayed.
        probability: Fraction = Fraction::ZERO,
        /// Additional delay of such a packet.
        delay: Nanos = Nanos::from_millis(1),
    }
    presets {}
    check {
        probability: "at most 1", |p| p.probability <= Fraction::ONE;
    }
}

impl ImpairPolicy for Reorder {
    const NAME: &'static str = "reorder";
    const SOURCE: &'static str = "netem `reorder`";

    fn impair(&self, _: &mut ImpairState, packet: &Transit) -> Impairment {
        if splitmix64(packet.random_seed) >> 32 < self.probability.q32() {
            Impairment::Delayed(Picos::from_nanos(self.delay))
        } else {
            Impairment::NONE
        }
    }
}
