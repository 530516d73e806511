//! A random path for each packet.

use super::{NextPacket, PathPolicy, low32};
use poseidon_types::params::params;
use poseidon_types::random::splitmix64;

params! {
    /// Gives each packet a random EV of 32 bits. A retransmission takes another path than the original packet.
    #[derive(Copy, Eq)]
    pub struct Spray {}
    presets {}
    check {}
}

impl PathPolicy for Spray {
    const NAME: &'static str = "spray";
    const SOURCE: &'static str = "Dixit et al., packet spraying (INFOCOM 2013)";
    type State = ();

    fn choose(&self, (): &mut (), packet: &NextPacket) -> u32 {
        low32(splitmix64(u64::from(packet.flow) << 32 | u64::from(packet.transmission)))
    }
}
