//! Random loss, as on a link with bit errors.

use super::{ImpairPolicy, ImpairState, Impairment, Transit};
use poseidon_types::Fraction;
use poseidon_types::params::params;
use poseidon_types::random::splitmix64;

params! {
    /// Loses each packet with the same probability, independently of other packets.
    #[derive(Copy, Eq)]
    pub struct RandomLoss {
        /// Probability that a packet is lost.
        probability: Fraction = Fraction::ZERO,
    }
    presets {}
    check {
        probability: "at most 1", |p| p.probability <= Fraction::ONE;
    }
}

impl ImpairPolicy for RandomLoss {
    const NAME: &'static str = "random-loss";
    const SOURCE: &'static str = "netem `loss random`";

    fn impair(&self, _: &mut ImpairState, packet: &Transit) -> Impairment {
        if splitmix64(packet.random_seed) >> 32 < self.probability.q32() {
            Impairment::Lost
        } else {
            Impairment::NONE
        }
    }
}
