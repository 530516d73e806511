//! A buffer shared by all queues, with dynamic thresholds.

use super::BufferPolicy;
use poseidon_types::params::params;
use poseidon_types::{Bytes, Fraction};

params! {
    /// Limits each queue to `alpha` times the free space in the shared buffer.
    #[derive(Copy, Eq)]
    pub struct Shared {
        /// Total buffer size (Poseidon section 5).
        size: Bytes = Bytes::new(64_000_000),
        /// Dynamic threshold factor (Google's public Falcon simulator, `falcon-transport/isekai`).
        alpha: Fraction = Fraction::ratio(8, 1),
    }
    presets {}
    check {}
}

impl BufferPolicy for Shared {
    const NAME: &'static str = "shared";
    const SOURCE: &'static str = "Choudhury and Hahne, dynamic queue length thresholds (ToN 1998)";

    #[inline]
    fn free_space(&self, used: Bytes, queue_len: Bytes) -> Bytes {
        let free = self.size - used;
        let threshold = Bytes::new(self.alpha.mul_floor(free.get()));
        (threshold - queue_len).min(free)
    }
}
