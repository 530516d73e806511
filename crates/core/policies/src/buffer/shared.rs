//! One memory for all queues, with dynamic thresholds.

use super::Buffer;
use poseidon_types::params::params;
use poseidon_types::{Bytes, Fraction};

params! {
    /// A queue may hold `alpha` times what is free.
    #[derive(Copy, Eq)]
    pub struct Shared {
        /// Bytes in all. Poseidon section 5.
        size: Bytes = Bytes::new(64_000_000),
        /// The factor. Google's public Falcon simulator, `falcon-transport/isekai`.
        alpha: Fraction = Fraction::ratio(8, 1),
    }
    presets {}
    check {}
}

impl Buffer for Shared {
    const NAME: &'static str = "shared";
    const SOURCE: &'static str = "Choudhury and Hahne, dynamic queue length thresholds (ToN 1998)";

    #[inline]
    fn room(&self, used: u64, waiting: u64) -> u64 {
        let free = self.size.get().saturating_sub(used);
        self.alpha.of_floor(free).saturating_sub(waiting).min(free)
    }
}
