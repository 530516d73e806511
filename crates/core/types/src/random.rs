//! Stateless random numbers.
//!
//! A simulator hashes an event's identity instead of drawing from a shared generator. An additional draw therefore does
//! not change the other draws.

/// Hashes `x` to 64 well-mixed bits with one step of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
#[inline]
pub const fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
