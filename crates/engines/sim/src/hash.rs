//! Stateless pseudo-random numbers: hashes of ids and times.
//!
//! A hash has no generator state, so adding a random decision never changes existing decisions.

pub(crate) use poseidon_types::random::splitmix64;

/// Hashes two 32-bit numbers into 64 well-mixed bits.
pub(crate) const fn hash_pair(high: u32, low: u32) -> u64 {
    splitmix64((high as u64) << 32 | low as u64)
}

/// Returns the low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the function truncates on purpose")]
pub(crate) const fn low32(bits: u64) -> u32 {
    bits as u32
}
