//! DCTCP's step.

use super::{Departure, Mark, Memory};
use poseidon_types::Bytes;
use poseidon_types::params::params;

params! {
    /// Every packet that leaves more than a threshold behind it is marked.
    #[derive(Copy, Eq)]
    pub struct Step {
        /// What may wait behind a packet without a mark. 65 packets of 1500 B, DCTCP's choice for 10 Gbps.
        threshold: Bytes = Bytes::new(97_500),
    }
    presets {}
    check {}
}

impl Mark for Step {
    const NAME: &'static str = "step";
    const SOURCE: &'static str = "DCTCP (SIGCOMM'10) section 3.1, on the queue a packet leaves";

    #[inline]
    fn marks(&self, _: &mut Memory, packet: &Departure) -> bool {
        packet.behind > self.threshold
    }
}
