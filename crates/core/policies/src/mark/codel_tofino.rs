//! `CoDel` as a Tofino program has it, which RPM builds on.

use super::{Departure, Mark, Memory, spacing};
use poseidon_types::params::params;
use poseidon_types::{Nanos, Picos};

params! {
    /// It resets the moment a packet is below the target, has no memory of the last time and no guard for the last packet.
    #[derive(Copy, Eq)]
    pub struct CodelTofino {
        /// A packet may wait this long. RPM section V-B.
        target: Nanos = Nanos::from_millis(1),
        /// And longer for this long, before one is marked. RPM section V-B.
        interval: Nanos = Nanos::from_millis(20),
    }
    presets {}
    check {}
}

impl Mark for CodelTofino {
    const NAME: &'static str = "codel-tofino";
    const SOURCE: &'static str = "ralfkundel/p4-codel, the program RPM (section V) extends, with a mark where it drops";

    fn marks(&self, memory: &mut Memory, packet: &Departure) -> bool {
        let interval = Picos::from_nanos(self.interval);
        if packet.waited < Picos::from_nanos(self.target) {
            memory.active = false;
            return false;
        }
        if !memory.active {
            (memory.active, memory.count, memory.next) = (true, 1, packet.now + interval);
            return false;
        }
        if packet.now <= memory.next {
            return false;
        }
        memory.count = memory.count.saturating_add(1);
        memory.next += spacing(interval, memory.count);
        true
    }
}
