//! log2 and exp2 in integers: what lets Poseidon run unchanged in Rust, in BPF and in a NIC.
//!
//! Two tables of 257 points each, read with linear interpolation. Between two points of a curve the chord is off
//! by at most `h²/8 · max|f''|`, with `h = 1/256`:
//!
//! | function | worst error | as computed (tests below) |
//! |---|---|---|
//! | [`log2`] | 2.8e-6 absolute | 2.8e-6 |
//! | [`exp2`] | 1.8e-6 absolute on [1, 2), 0.9e-6 relative | 1.0e-6 relative, with the rounding of the table |
//!
//! The chord meets the curve at every point, so both functions are continuous and monotone, which a table with a
//! minimax fit would not be for half the error.
//!
//! The tables are computed at compile time by [`log2_slow`] and repeated square roots, in integers as well: no
//! float ever touches them, and a generator of C headers can print them.

use core::num::NonZeroU64;

/// Fractional bits of the logarithms and of [`exp2`]'s result.
pub const Q: u32 = 24;

/// One in that format.
pub const ONE: i64 = 1 << Q;

/// Bits of the fraction that choose a point of a table.
const INDEX_BITS: u32 = 8;
/// Points of a table, the right end included.
const POINTS: usize = (1 << INDEX_BITS) + 1;

/// `log2(1 + i/256)` with 24 fractional bits.
pub static LOG2_TABLE: [u32; POINTS] = log2_table();
/// `2^(i/256)` with 24 fractional bits.
pub static EXP2_TABLE: [u32; POINTS] = exp2_table();

/// log2 of `x` with 24 fractional bits. Zero has no logarithm; it is read as one.
#[inline]
pub fn log2(x: u64) -> i64 {
    // As a non-zero number, so that counting its zeros needs no branch.
    let x = NonZeroU64::new(x).unwrap_or(NonZeroU64::MIN);
    let zeros = x.leading_zeros();
    // The leading one moves to bit 63; what follows is the fraction.
    let mantissa = x.get() << zeros;
    let index = (mantissa >> (63 - INDEX_BITS)) as usize & (POINTS - 2);
    let rest = (mantissa << (INDEX_BITS + 1)) >> 32;
    let (left, right) = (u64::from(LOG2_TABLE[index]), u64::from(LOG2_TABLE[index + 1]));
    let fraction = left + (((right - left) * rest) >> 32);
    (i64::from(63 - zeros) << Q) + fraction.cast_signed()
}

/// `2^x` as a number between one and two with 24 fractional bits, and the whole power of two it is multiplied by.
#[inline]
pub fn exp2_parts(x: i64) -> (u64, i64) {
    let fraction = (x & (ONE - 1)).cast_unsigned();
    let index = (fraction >> (Q - INDEX_BITS)) as usize & (POINTS - 2);
    let rest = fraction & ((1 << (Q - INDEX_BITS)) - 1);
    let (left, right) = (u64::from(EXP2_TABLE[index]), u64::from(EXP2_TABLE[index + 1]));
    (left + (((right - left) * rest) >> (Q - INDEX_BITS)), x >> Q)
}

/// `2^x` with 24 fractional bits, for `x` with 24 fractional bits between -24 and 38. Beyond, the answer is wrong but there is
/// one: a caller bounds its argument first, and a law's bounds are much closer.
#[inline]
pub fn exp2(x: i64) -> u64 {
    let (mantissa, whole) = exp2_parts(x);
    // From the top of the word down, so that one shift serves both signs of the exponent.
    (mantissa << 38) >> ((38 - whole) & 63)
}

/// log2 of `x` with 24 fractional bits, each bit exact: one squaring per bit, for constants and tables.
pub const fn log2_slow(x: u64) -> i64 {
    let x = if x == 0 { 1 } else { x };
    let zeros = x.leading_zeros();
    let mut mantissa = x << zeros;
    let mut fraction: i64 = 0;
    let mut bit = 0;
    // One bit more than kept, for rounding to the nearest.
    while bit <= Q {
        // A number in [1, 2) with 63 fractional bits, squared: in [1, 4).
        let square = (mantissa as u128 * mantissa as u128) >> 63;
        fraction <<= 1;
        if square >> 64 != 0 {
            fraction |= 1;
            mantissa = low_64(square >> 1);
        } else {
            mantissa = low_64(square);
        }
        bit += 1;
    }
    (((63 - zeros) as i64) << Q) + ((fraction + 1) >> 1)
}

/// The low half of a number whose high half is zero.
#[expect(clippy::cast_possible_truncation, reason = "the caller has checked that the high half is zero")]
const fn low_64(x: u128) -> u64 {
    x as u64
}

/// A table entry: below 2^26.
#[expect(clippy::cast_possible_truncation, reason = "entries are at most 2 with 24 fractional bits")]
const fn entry(x: u64) -> u32 {
    assert!(x <= 2 << Q, "a table entry is at most two");
    x as u32
}

const fn log2_table() -> [u32; POINTS] {
    let mut table = [0; POINTS];
    let mut i = 0;
    while i < POINTS {
        let above = log2_slow((1 << INDEX_BITS) + i as u64) - ((INDEX_BITS as i64) << Q);
        table[i] = entry(above.cast_unsigned());
        i += 1;
    }
    table
}

const fn exp2_table() -> [u32; POINTS] {
    // roots[j] = 2^(2^-(j+1)) with 62 fractional bits, by repeated square roots.
    let mut roots = [0u64; INDEX_BITS as usize];
    let mut root: u128 = 2 << 62;
    let mut j = 0;
    while j < roots.len() {
        root = square_root(root << 62);
        roots[j] = low_64(root);
        j += 1;
    }
    let mut table = [0; POINTS];
    let mut i = 0;
    while i < POINTS {
        // i/256 in binary says which roots to multiply.
        let mut product: u128 = 1 << 62;
        let mut j = 0;
        while j < roots.len() {
            if (i >> (roots.len() - 1 - j)) & 1 == 1 {
                product = (product * roots[j] as u128) >> 62;
            }
            j += 1;
        }
        if i == POINTS - 1 {
            product = 2 << 62;
        }
        table[i] = entry(low_64((product + (1 << 37)) >> 38));
        i += 1;
    }
    table
}

/// The integer square root, by bisection.
const fn square_root(x: u128) -> u128 {
    let (mut low, mut high) = (0u128, 1u128 << 63);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle * middle <= x {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: f64 = (1u64 << Q) as f64;

    #[test]
    fn tables_are_the_functions() {
        for i in 0..POINTS {
            let x = i as f64 / 256.0;
            let log = f64::from(LOG2_TABLE[i]) / SCALE;
            let exp = f64::from(EXP2_TABLE[i]) / SCALE;
            assert!((log - (1.0 + x).log2()).abs() < 0.51 / SCALE, "log2 at {i}");
            assert!((exp - x.exp2()).abs() < 0.51 / SCALE, "exp2 at {i}");
        }
    }

    #[test]
    fn log2_is_within_its_stated_error() {
        let mut worst: f64 = 0.0;
        for x in (1..2_000_000u64).chain((0..64).map(|s| u64::MAX >> s)) {
            worst = worst.max((log2(x) as f64 / SCALE - (x as f64).log2()).abs());
        }
        assert!(worst < 2.9e-6, "worst error {worst:e}");
    }

    #[test]
    fn exp2_is_within_its_stated_error() {
        let mut worst: f64 = 0.0;
        for x in (-4 * ONE..4 * ONE).step_by(37) {
            let exact = (x as f64 / SCALE).exp2();
            worst = worst.max((exp2(x) as f64 / SCALE - exact).abs() / exact);
        }
        assert!(worst < 1.1e-6, "worst error {worst:e}");
    }

    #[test]
    fn both_never_step_back() {
        let mut last = 0;
        for x in 1..1_000_000 {
            assert!(log2(x) >= last, "log2 at {x}");
            last = log2(x);
        }
        let mut last = 0;
        for x in (-3 * ONE..3 * ONE).step_by(11) {
            assert!(exp2(x) >= last, "exp2 at {x}");
            last = exp2(x);
        }
    }

    #[test]
    fn powers_of_two_are_exact() {
        for shift in 0..64 {
            assert_eq!(log2(1 << shift), i64::from(shift) << Q);
            assert_eq!(log2_slow(1 << shift), i64::from(shift) << Q);
        }
        assert_eq!(exp2(0), 1 << Q);
        assert_eq!(exp2(-ONE), 1 << (Q - 1));
        assert_eq!(exp2(3 * ONE), 8 << Q);
        assert_eq!(log2(0), 0);
        assert_eq!(exp2(-24 * ONE), 1);
        assert_eq!(exp2(16 * ONE), 1 << 40);
    }
}
