//! Marks every n-th packet, for tests that need a known number of marks.

use super::{Departure, MarkPolicy, MarkState};
use poseidon_types::params::params;

params! {
    /// Marks every n-th packet in a queue, regardless of the queue length.
    #[derive(Copy, Eq)]
    pub struct Every {
        /// Distance between marked packets; 0 disables marking.
        packets: u32 = 0,
    }
    presets {}
    check {}
}

impl MarkPolicy for Every {
    const NAME: &'static str = "every";
    const SOURCE: &'static str = "for tests";

    fn should_mark(&self, state: &mut MarkState, _: &Departure) -> bool {
        if self.packets == 0 {
            return false;
        }
        state.count = (state.count + 1) % self.packets;
        state.count == 0
    }
}
