//! A memory of its own for each queue.

use super::Buffer;
use poseidon_types::Bytes;
use poseidon_types::params::params;

params! {
    /// Each queue holds the same, whatever the others hold.
    #[derive(Copy, Eq)]
    pub struct PerQueue {
        /// Bytes per queue. The size that keeps 10 Gbps below 2 ms, RPM section V-B.
        size: Bytes = Bytes::new(2_500_000),
    }
    presets {}
    check {}
}

impl Buffer for PerQueue {
    const NAME: &'static str = "per-queue";
    const SOURCE: &'static str = "drop tail";

    #[inline]
    fn room(&self, _: u64, waiting: u64) -> u64 {
        self.size.get().saturating_sub(waiting)
    }
}
