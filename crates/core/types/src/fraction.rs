//! Fixed-point numbers for gains, ratios and probabilities.

use crate::text::{Decimal, UnitError, split_decimal};
use core::fmt;

/// A fixed-point number between 0 and 2^32 with 32 fractional bits, for example a gain of 0.25 or a ratio of 2.
///
/// Parsing rounds to the nearest 2^-32, because a decimal such as 0.1 has no finite binary form. Printing uses the
/// fewest decimals that parse to the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fraction(u64);

impl Fraction {
    /// The fraction 0.
    pub const ZERO: Self = Self(0);
    /// The fraction 1.
    pub const ONE: Self = Self(1 << 32);

    /// Returns `numerator / denominator`, rounded to the nearest 2^-32.
    ///
    /// # Panics
    ///
    /// Panics if the denominator is zero.
    pub const fn ratio(numerator: u32, denominator: u32) -> Self {
        assert!(denominator != 0, "the denominator must not be zero");
        // `From` is not available in a const fn.
        let (n, d) = (numerator as u64, denominator as u64);
        Self(((n << 32) + d / 2) / d)
    }

    /// Creates a fraction from a raw fixed-point number (32 fractional bits).
    #[inline]
    pub const fn from_q32(raw: u64) -> Self {
        Self(raw)
    }

    /// Returns the raw fixed-point number (32 fractional bits).
    #[inline]
    pub const fn q32(self) -> u64 {
        self.0
    }

    /// Returns `amount` times this fraction, rounded down. The result saturates.
    #[inline]
    pub fn mul_floor(self, amount: u64) -> u64 {
        let product = (u128::from(amount) * u128::from(self.0)) >> 32;
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

/// Converts `number` to fixed point with `bits` fractional bits, rounded to nearest. Returns `None` if the result
/// exceeds 64 bits.
pub(crate) fn scale_nearest(number: &Decimal, bits: u32) -> Option<u64> {
    let divisor = 10u128.pow(number.decimals);
    let whole = number.digits / divisor;
    // The remainder is below the divisor (at most 10^30), so doubling it cannot overflow.
    let mut remainder = number.digits % divisor;
    let mut fraction: u128 = 0;
    for _ in 0..bits {
        remainder *= 2;
        fraction = fraction * 2 + remainder / divisor;
        remainder %= divisor;
    }
    if remainder * 2 >= divisor {
        fraction += 1;
    }
    let scaled = whole.checked_mul(1 << bits)?.checked_add(fraction)?;
    u64::try_from(scaled).ok()
}

/// Writes the fewest decimals that [`scale_nearest`] converts back to `raw`.
pub(crate) fn fmt_shortest(f: &mut fmt::Formatter<'_>, raw: u64, bits: u32) -> fmt::Result {
    // Ten decimal places suffice, because 10^-10 is smaller than 2^-32.
    for decimals in 0..=10 {
        let scale = 10u128.pow(decimals);
        let digits = (u128::from(raw) * scale + (1 << (bits - 1))) >> bits;
        if decimals == 10 || scale_nearest(&Decimal { digits, decimals }, bits) == Some(raw) {
            let (whole, remainder) = (digits / scale, digits % scale);
            return match decimals {
                0 => write!(f, "{whole}"),
                width => write!(f, "{whole}.{remainder:0width$}", width = width as usize),
            };
        }
    }
    Ok(())
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_shortest(f, self.0, 32)
    }
}

impl fmt::Debug for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for Fraction {
    type Err = UnitError;

    /// Parses a decimal number and rounds it to the nearest 2^-32.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const QUANTITY: &str = "fraction";
        match split_decimal(text.trim()) {
            Some((number, "")) => {
                scale_nearest(&number, 32).map(Self).ok_or(UnitError::OutOfRange { quantity: QUANTITY })
            }
            _ => Err(UnitError::NotADecimal { quantity: QUANTITY }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn quarters_are_exact_and_tenths_are_rounded() {
        assert_eq!("0.25".parse(), Ok(Fraction::ratio(1, 4)));
        assert_eq!("2".parse(), Ok(Fraction::ratio(2, 1)));
        assert_eq!("0.1".parse(), Ok(Fraction::ratio(1, 10)));
        assert_eq!(Fraction::ratio(1, 10).to_string(), "0.1");
        assert_eq!(Fraction::ratio(1, 4).mul_floor(1_001), 250);
        assert!("0.25 ns".parse::<Fraction>().is_err());
        assert!("5000000000".parse::<Fraction>().is_err());
    }
}
