//! DCTCP's threshold marking.

use super::{Departure, MarkPolicy, MarkState};
use poseidon_types::Bytes;
use poseidon_types::params::params;

params! {
    /// Marks a packet if the queue behind it exceeds a threshold.
    #[derive(Copy, Eq)]
    pub struct Step {
        /// Largest queue length at which no packet is marked. The default is 65 packets of 1500 B, DCTCP's choice for
        /// 10 Gbps.
        threshold: Bytes = Bytes::new(97_500),
    }
    presets {}
    check {}
}

impl MarkPolicy for Step {
    const NAME: &'static str = "step";
    const SOURCE: &'static str = "DCTCP (SIGCOMM'10) section 3.1, checked when a packet leaves the queue";

    #[inline]
    fn should_mark(&self, _: &mut MarkState, packet: &Departure) -> bool {
        packet.queue_len > self.threshold
    }
}
