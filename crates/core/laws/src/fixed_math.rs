//! log2 and exp2 in integer arithmetic, which also works in BPF and on a NIC.
//!
//! Each function interpolates linearly between the 257 points of a table. Between two points, the interpolation error
//! is at most `h²/8 · max|f''|`, with `h = 1/256`:
//!
//! | function | error bound | measured by the tests |
//! |---|---|---|
//! | [`log2`] | 2.8e-6 absolute | 2.8e-6 |
//! | [`exp2`] | 1.8e-6 absolute on [1, 2), 0.9e-6 relative | 1.0e-6 relative, including table rounding |
//!
//! The interpolation is exact at every table point, so both functions are continuous and monotone. A minimax fit would
//! halve the error but lose both properties.
//!
//! The compiler computes the tables with [`log2_slow`] and repeated square roots, also in integer arithmetic. A C
//! header generator can print them.

use core::num::NonZeroU64;

/// The number of fractional bits in logarithms and in [`exp2`]'s result.
pub const Q: u32 = 24;

/// The value one in this format.
pub const ONE: i64 = 1 << Q;

/// The number of leading fraction bits that select a table point.
const INDEX_BITS: u32 = 8;
/// The number of points in a table, including the right endpoint.
const POINTS: usize = (1 << INDEX_BITS) + 1;

/// `log2(1 + i/256)` with 24 fractional bits.
pub static LOG2_TABLE: [u32; POINTS] = log2_table();
/// `2^(i/256)` with 24 fractional bits.
pub static EXP2_TABLE: [u32; POINTS] = exp2_table();

/// Returns log2 of `x` with 24 fractional bits. An input of zero is treated as one.
#[inline]
pub fn log2(x: u64) -> i64 {
    // A non-zero type avoids a branch in `leading_zeros`.
    let x = NonZeroU64::new(x).unwrap_or(NonZeroU64::MIN);
    let zeros = x.leading_zeros();
    // Shift the leading 1 bit to bit 63. The bits below it are the fraction.
    let mantissa = x.get() << zeros;
    let index = (mantissa >> (63 - INDEX_BITS)) as usize & (POINTS - 2);
    let remainder = (mantissa << (INDEX_BITS + 1)) >> 32;
    let (lower, upper) = (u64::from(LOG2_TABLE[index]), u64::from(LOG2_TABLE[index + 1]));
    // Below one, because the remainder is. So `|` adds it to the whole part. An addition would be merged with those of the
    // caller, which then needs more registers.
    let fraction = lower + (((upper - lower) * remainder) >> 32);
    (i64::from(63 - zeros) << Q) | fraction.cast_signed()
}

/// Returns `2^x` as a mantissa in [1, 2) with 24 fractional bits, and the exponent of two.
#[inline]
pub fn exp2_parts(x: i64) -> (u64, i64) {
    let fraction = (x & (ONE - 1)).cast_unsigned();
    let index = (fraction >> (Q - INDEX_BITS)) as usize & (POINTS - 2);
    let remainder = fraction & ((1 << (Q - INDEX_BITS)) - 1);
    let (lower, upper) = (u64::from(EXP2_TABLE[index]), u64::from(EXP2_TABLE[index + 1]));
    (lower + (((upper - lower) * remainder) >> (Q - INDEX_BITS)), x >> Q)
}

/// Returns `2^x` with 24 fractional bits, for `x` with 24 fractional bits between -24 and 38.
///
/// Outside this range the result is wrong, but the function does not panic. The caller must clamp the argument.
#[inline]
pub fn exp2(x: i64) -> u64 {
    let (mantissa, whole) = exp2_parts(x);
    // Shifting down from the top of the word handles both signs of the exponent with one shift.
    (mantissa << 38) >> ((38 - whole) & 63)
}

/// Returns log2 of `x` with 24 exact fractional bits. Each bit costs one squaring, so use this function only for
/// constants and tables.
pub const fn log2_slow(x: u64) -> i64 {
    let x = if x == 0 { 1 } else { x };
    let zeros = x.leading_zeros();
    let mut mantissa = x << zeros;
    let mut fraction: i64 = 0;
    let mut bit = 0;
    // Compute one extra bit, to round to nearest.
    while bit <= Q {
        // The square of a number in [1, 2) with 63 fractional bits is in [1, 4).
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

/// Returns the low half of a number whose high half is zero.
#[expect(clippy::cast_possible_truncation, reason = "the high half is zero")]
const fn low_64(x: u128) -> u64 {
    x as u64
}

/// Converts a number of at most 2^25 to a table entry.
#[expect(clippy::cast_possible_truncation, reason = "entries are at most 2 with 24 fractional bits")]
const fn to_table_entry(x: u64) -> u32 {
    assert!(x <= 2 << Q, "a table entry is at most two");
    x as u32
}

const fn log2_table() -> [u32; POINTS] {
    let mut table = [0; POINTS];
    let mut i = 0;
    while i < POINTS {
        let fraction = log2_slow((1 << INDEX_BITS) + i as u64) - ((INDEX_BITS as i64) << Q);
        table[i] = to_table_entry(fraction.cast_unsigned());
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
        // The binary digits of i/256 select the roots to multiply.
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
        table[i] = to_table_entry(low_64((product + (1 << 37)) >> 38));
        i += 1;
    }
    table
}

/// Returns the integer square root, by bisection.
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
    fn table_entries_match_the_functions() {
        for i in 0..POINTS {
            let x = i as f64 / 256.0;
            let log = f64::from(LOG2_TABLE[i]) / SCALE;
            let exp = f64::from(EXP2_TABLE[i]) / SCALE;
            assert!((log - (1.0 + x).log2()).abs() < 0.51 / SCALE, "log2 at {i}");
            assert!((exp - x.exp2()).abs() < 0.51 / SCALE, "exp2 at {i}");
        }
    }

    #[test]
    fn log2_is_within_its_error_bound() {
        let mut worst: f64 = 0.0;
        for x in (1..2_000_000u64).chain((0..64).map(|s| u64::MAX >> s)) {
            worst = worst.max((log2(x) as f64 / SCALE - (x as f64).log2()).abs());
        }
        assert!(worst < 2.9e-6, "worst error {worst:e}");
    }

    #[test]
    fn exp2_is_within_its_error_bound() {
        let mut worst: f64 = 0.0;
        for x in (-4 * ONE..4 * ONE).step_by(37) {
            let exact = (x as f64 / SCALE).exp2();
            worst = worst.max((exp2(x) as f64 / SCALE - exact).abs() / exact);
        }
        assert!(worst < 1.1e-6, "worst error {worst:e}");
    }

    #[test]
    fn both_functions_are_monotone() {
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
