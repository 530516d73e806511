//! A random additional delay.

use super::{ImpairPolicy, ImpairState, Impairment, Transit};
use poseidon_types::params::params;
use poseidon_types::random::splitmix64;
use poseidon_types::{Nanos, Picos};

params! {
    /// Delays each packet by a uniformly distributed time.
    #[derive(Copy, Eq)]
    pub struct Jitter {
        /// Largest additional delay.
        max: Nanos = Nanos::ZERO,
        /// Whether a packet waits until all earlier packets have arrived, as in a wireless link with in-order delivery.
        keep_order: bool = true,
    }
    presets {}
    check {}
}

impl ImpairPolicy for Jitter {
    const NAME: &'static str = "jitter";
    const SOURCE: &'static str = "netem `delay` with a uniform distribution";

    fn impair(&self, state: &mut ImpairState, packet: &Transit) -> Impairment {
        let max = u128::from(Picos::from_nanos(self.max).get());
        let random = u128::from(splitmix64(packet.random_seed));
        // The product is below 2^128, and its upper half is at most `max`.
        let delay = u64::try_from((max * random) >> 64).unwrap_or(u64::MAX);
        let end = packet.now.get().saturating_add(delay);
        let end = if self.keep_order { end.max(state.latest.get()) } else { end };
        state.latest = state.latest.max(Picos::new(end));
        Impairment::Delayed(Picos::new(end - packet.now.get()))
    }
}
