//! One path for each connection.

use super::{NextPacket, PathPolicy};
use poseidon_types::params::params;

params! {
    /// Gives all packets of a connection the same EV.
    #[derive(Copy, Eq)]
    pub struct Ecmp {}
    presets {}
    check {}
}

impl PathPolicy for Ecmp {
    const NAME: &'static str = "ecmp";
    const SOURCE: &'static str = "equal-cost multipath, RFC 2992";
    type State = ();

    fn choose(&self, (): &mut (), packet: &NextPacket) -> u32 {
        packet.flow
    }
}
