//! RED on the instantaneous queue, as DCQCN uses it.

use super::{Departure, Mark, Memory};
use poseidon_types::chance::mix;
use poseidon_types::params::params;
use poseidon_types::{Bytes, Fraction};

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
        if packet.behind <= self.min {
            return false;
        }
        if packet.behind > self.max {
            return true;
        }
        let (over, range) = (packet.behind.get() - self.min.get(), self.max.get() - self.min.get());
        let share = u128::from(self.probability.q32()) * u128::from(over) / u128::from(range);
        u128::from(mix(packet.dice) >> 32) < share
    }
}
