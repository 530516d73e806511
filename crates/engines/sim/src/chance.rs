//! Randomness as a hash: no generator, no state, so that nothing shifts when something is added.

pub(crate) use poseidon_types::chance::mix;

/// Sixty-four well-mixed bits of two numbers.
pub(crate) const fn mix_two(a: u32, b: u32) -> u64 {
    mix((a as u64) << 32 | b as u64)
}

/// The low half of well-mixed bits.
#[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
pub(crate) const fn low_half(x: u64) -> u32 {
    x as u32
}
