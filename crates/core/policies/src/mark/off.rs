//! No marks.

use super::{Departure, Mark, Memory};
use poseidon_types::params::params;

params! {
    /// No packet is marked.
    #[derive(Copy, Eq)]
    pub struct Off {}
    presets {}
    check {}
}

impl Mark for Off {
    const NAME: &'static str = "off";
    const SOURCE: &'static str = "no marks";

    fn marks(&self, _: &mut Memory, _: &Departure) -> bool {
        false
    }
}
