//! A fixed-point number for gains, ratios and probabilities.

use crate::text::{Decimal, UnitError, split_decimal};
use core::fmt;

/// A number between 0 and 2^32 with 32 fractional bits, for parameters such as a gain of 0.25 or a ratio of 2.
///
/// Reading text rounds to the nearest 2^-32 (a decimal such as 0.1 has no finite binary form); printing gives
/// the fewest decimals that read back to the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fraction(u64);

impl Fraction {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// One.
    pub const ONE: Self = Self(1 << 32);

    /// `numerator / denominator`, rounded to the nearest 2^-32; the denominator must not be zero.
    pub const fn ratio(numerator: u32, denominator: u32) -> Self {
        assert!(denominator != 0, "a fraction needs a denominator");
        // Widening casts in a const fn, where `From` is not available.
        let (n, d) = (numerator as u64, denominator as u64);
        Self(((n << 32) + d / 2) / d)
    }

    /// From the raw fixed-point number (32 fractional bits).
    #[inline]
    pub const fn from_q32(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw fixed-point number (32 fractional bits).
    #[inline]
    pub const fn q32(self) -> u64 {
        self.0
    }

    /// `amount` times this fraction, rounded down; saturates.
    #[inline]
    pub fn of_floor(self, amount: u64) -> u64 {
        let product = (u128::from(amount) * u128::from(self.0)) >> 32;
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

/// `number` with `bits` fractional bits, rounded to the nearest; `None` beyond 64 bits.
pub(crate) fn scale_nearest(number: &Decimal, bits: u32) -> Option<u64> {
    let divisor = 10u128.pow(number.decimals);
    let whole = number.digits / divisor;
    // The remainder is below 10^30 and `bits` at most 32, so doubling it bit by bit cannot overflow.
    let mut rest = number.digits % divisor;
    let mut fraction: u128 = 0;
    for _ in 0..bits {
        rest *= 2;
        fraction = fraction * 2 + rest / divisor;
        rest %= divisor;
    }
    if rest * 2 >= divisor {
        fraction += 1;
    }
    let scaled = whole.checked_mul(1 << bits)?.checked_add(fraction)?;
    u64::try_from(scaled).ok()
}

/// Writes the fewest decimals that [`scale_nearest`] reads back to `raw`.
pub(crate) fn print_shortest(f: &mut fmt::Formatter<'_>, raw: u64, bits: u32) -> fmt::Result {
    // Ten decimals always suffice, because 10^-10 is finer than 2^-32.
    for decimals in 0..=10 {
        let scale = 10u128.pow(decimals);
        let digits = (u128::from(raw) * scale + (1 << (bits - 1))) >> bits;
        if decimals == 10 || scale_nearest(&Decimal { digits, decimals }, bits) == Some(raw) {
            let (whole, rest) = (digits / scale, digits % scale);
            return match decimals {
                0 => write!(f, "{whole}"),
                width => write!(f, "{whole}.{rest:0width$}", width = width as usize),
            };
        }
    }
    Ok(())
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_shortest(f, self.0, 32)
    }
}

impl fmt::Debug for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for Fraction {
    type Err = UnitError;

    /// Reads a plain decimal, rounded to the nearest 2^-32.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WHAT: &str = "fraction";
        let not_a_number = UnitError::NotANumber { what: WHAT, accepted: "a plain decimal such as 0.25" };
        match split_decimal(text.trim()) {
            Some((number, "")) => {
                scale_nearest(&number, 32).map(Self).ok_or(UnitError::OutOfRange { what: WHAT })
            }
            _ => Err(not_a_number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn quarters_are_exact_and_tenths_are_nearest() {
        assert_eq!("0.25".parse(), Ok(Fraction::ratio(1, 4)));
        assert_eq!("2".parse(), Ok(Fraction::ratio(2, 1)));
        assert_eq!("0.1".parse(), Ok(Fraction::ratio(1, 10)));
        assert_eq!(Fraction::ratio(1, 10).to_string(), "0.1");
        assert_eq!(Fraction::ratio(1, 4).of_floor(1_001), 250);
        assert!("0.25 ns".parse::<Fraction>().is_err());
        assert!("5000000000".parse::<Fraction>().is_err());
    }
}
