//! A link without impairments.

use super::{ImpairPolicy, ImpairState, Impairment, Transit};
use poseidon_types::params::params;

params! {
    /// Neither loses nor delays packets.
    #[derive(Copy, Eq)]
    pub struct Off {}
    presets {}
    check {}
}

impl ImpairPolicy for Off {
    const NAME: &'static str = "off";
    const SOURCE: &'static str = "no impairment";

    fn impair(&self, _: &mut ImpairState, _: &Transit) -> Impairment {
        Impairment::NONE
    }
}
