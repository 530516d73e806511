//! Every n-th packet: a policy for tests, whose marks can be counted beforehand.

use super::{Departure, Mark, Memory};
use poseidon_types::params::params;

params! {
    /// Every n-th packet of a queue is marked, whatever waits.
    #[derive(Copy, Eq)]
    pub struct Every {
        /// How many packets; 0 for none.
        packets: u32 = 0,
    }
    presets {}
    check {}
}

impl Mark for Every {
    const NAME: &'static str = "every";
    const SOURCE: &'static str = "for tests";

    fn marks(&self, memory: &mut Memory, _: &Departure) -> bool {
        if self.packets == 0 {
            return false;
        }
        memory.count = (memory.count + 1) % self.packets;
        memory.count == 0
    }
}
