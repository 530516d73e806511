//! RED on the instantaneous queue length, as in DCQCN.

use super::{Departure, MarkPolicy, MarkState};
use poseidon_types::params::params;
use poseidon_types::random::splitmix64;
use poseidon_types::{BitRate, Bytes, Fraction};

params! {
    /// Marks with a probability that rises from 0 at `min` to `probability` at `max`. Marks every packet above `max`.
    #[derive(Copy, Eq)]
    pub struct Red {
        /// Largest queue length at which no packet is marked (DCQCN's Kmin at 40 Gbps).
        min: Bytes = Bytes::new(5_000),
        /// Queue length above which every packet is marked (DCQCN's Kmax).
        max: Bytes = Bytes::new(200_000),
        /// Marking probability at `max` (DCQCN's Pmax).
        probability: Fraction = Fraction::ratio(1, 100),
        /// Link rate to which `min` and `max` apply. Both thresholds scale with the link rate, as in HPCC's artifact; 0
        /// bps disables scaling.
        per: BitRate = BitRate::ZERO,
    }
    presets {}
    check {
        probability: "at most 1", |p| p.probability <= Fraction::ONE;
    }
}

impl MarkPolicy for Red {
    const NAME: &'static str = "red";
    const SOURCE: &'static str = "DCQCN (SIGCOMM'15) figure 5";

    fn should_mark(&self, _: &mut MarkState, packet: &Departure) -> bool {
        let min = self.scale_threshold(self.min, packet.link_rate);
        let max = self.scale_threshold(self.max, packet.link_rate);
        let queue_len = u128::from(packet.queue_len.get());
        if queue_len <= min {
            return false;
        }
        if queue_len > max {
            return true;
        }
        let probability_q32 = u128::from(self.probability.q32()) * (queue_len - min) / (max - min);
        u128::from(splitmix64(packet.random_seed) >> 32) < probability_q32
    }
}

impl Red {
    /// Returns a threshold in bytes, scaled to the link rate.
    fn scale_threshold(&self, threshold: Bytes, link_rate: BitRate) -> u128 {
        let bytes = u128::from(threshold.get());
        match self.per.get() {
            0 => bytes,
            per => bytes * u128::from(link_rate.get()) / u128::from(per),
        }
    }
}
