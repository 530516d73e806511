//! `CoDel` as implemented by the Tofino P4 program that RPM extends.
//!
//! Unlike RFC 8289, this variant resets as soon as one packet is below the target, does not resume the previous marking
//! rate, and has no exception for a queue of one packet.

use super::{Departure, MarkPolicy, MarkState, mark_spacing};
use poseidon_types::params::params;
use poseidon_types::{Nanos, Picos};

params! {
    /// Marks at an increasing rate while the sojourn time stays above a target. A single packet below the target resets
    /// the state.
    #[derive(Copy, Eq)]
    pub struct CodelTofino {
        /// Acceptable packet sojourn time (RPM section V-B).
        target: Nanos = Nanos::from_millis(1),
        /// Time above the target before the first mark (RPM section V-B).
        interval: Nanos = Nanos::from_millis(20),
    }
    presets {}
    check {}
}

impl MarkPolicy for CodelTofino {
    const NAME: &'static str = "codel-tofino";
    const SOURCE: &'static str =
        "ralfkundel/p4-codel, the program RPM (section V) extends, with marks instead of drops";

    fn should_mark(&self, state: &mut MarkState, packet: &Departure) -> bool {
        let interval = Picos::from_nanos(self.interval);
        if packet.sojourn_time < Picos::from_nanos(self.target) {
            state.marking = false;
            return false;
        }
        if !state.marking {
            (state.marking, state.count, state.next_mark) = (true, 1, packet.now + interval);
            return false;
        }
        if packet.now <= state.next_mark {
            return false;
        }
        state.count = state.count.saturating_add(1);
        state.next_mark += mark_spacing(interval, state.count);
        true
    }
}
