//! A separate buffer for each queue.

use super::BufferPolicy;
use poseidon_types::Bytes;
use poseidon_types::params::params;

params! {
    /// Gives every queue a buffer of the same size.
    #[derive(Copy, Eq)]
    pub struct PerQueue {
        /// Buffer size per queue. The default keeps the queueing delay at 10 Gbps below 2 ms (RPM section V-B).
        size: Bytes = Bytes::new(2_500_000),
    }
    presets {}
    check {}
}

impl BufferPolicy for PerQueue {
    const NAME: &'static str = "per-queue";
    const SOURCE: &'static str = "drop tail";

    #[inline]
    fn free_space(&self, _: Bytes, queue_len: Bytes) -> Bytes {
        self.size - queue_len
    }
}
