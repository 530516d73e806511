//! RED on the instantaneous queue, as DCQCN uses it.

use super::{Departure, Mark, Memory};
use poseidon_types::chance::mix;
use poseidon_types::params::params;
use poseidon_types::{BitRate, Bytes, Fraction};

params! {
    /// A share of the packets is marked that rises from none at `min` bytes behind them to `probability` at `max`; all beyond.
    #[derive(Copy, Eq)]
    pub struct Red {
        /// Up to this, no packet is marked. DCQCN's Kmin at 40 Gbps.
        min: Bytes = Bytes::new(5_000),
        /// Beyond this, every packet is. DCQCN's Kmax.
        max: Bytes = Bytes::new(200_000),
        /// The share at `max`. DCQCN's Pmax.
        probability: Fraction = Fraction::ratio(1, 100),
        /// The rate that `min` and `max` are for: they grow with that of a link, as in HPCC's artifact. 0 bps takes them as they are.
        per: BitRate = BitRate::ZERO,
    }
    presets {}
    check {
        probability: "at most 1", |p| p.probability <= Fraction::ONE;
    }
}

impl Mark for Red {
    const NAME: &'static str = "red";
    const SOURCE: &'static str = "DCQCN (SIGCOMM'15) figure 5";

    fn marks(&self, _: &mut Memory, packet: &Departure) -> bool {
        let (min, max) = (self.scaled(self.min, packet.rate), self.scaled(self.max, packet.rate));
        let behind = u128::from(packet.behind.get());
        if behind <= min {
            return false;
        }
        if behind > max {
            return true;
        }
        let share = u128::from(self.probability.q32()) * (behind - min) / (max - min);
        u128::from(mix(packet.dice) >> 32) < share
    }
}

impl Red {
    /// A threshold at a link of this rate.
    fn scaled(&self, threshold: Bytes, rate: BitRate) -> u128 {
        let bytes = u128::from(threshold.get());
        match self.per.get() {
            0 => bytes,
            per => bytes * u128::from(rate.get()) / u128::from(per),
        }
    }
}
