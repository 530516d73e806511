//! No marking.

use super::{Departure, MarkPolicy, MarkState};
use poseidon_types::params::params;

params! {
    /// Never marks a packet.
    #[derive(Copy, Eq)]
    pub struct Off {}
    presets {}
    check {}
}

impl MarkPolicy for Off {
    const NAME: &'static str = "off";
    const SOURCE: &'static str = "no marks";

    fn should_mark(&self, _: &mut MarkState, _: &Departure) -> bool {
        false
    }
}
