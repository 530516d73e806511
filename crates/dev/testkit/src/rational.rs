//! Exact non-negative fractions, so that an oracle needs no tolerance.

use core::cmp::Ordering;
use core::fmt;
use core::iter::Sum;

/// A non-negative fraction of two `u128` values, always in lowest terms.
///
/// Arithmetic never rounds. An operation panics if its result in lowest terms, or an intermediate common denominator,
/// needs more than 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rational {
    numerator: u128,
    denominator: u128,
}

impl Rational {
    /// The fraction 0.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// Creates `numerator / denominator` in lowest terms.
    ///
    /// # Panics
    /// Panics if `denominator` is zero.
    pub const fn new(numerator: u128, denominator: u128) -> Self {
        assert!(denominator > 0, "the denominator must be above zero");
        let common = gcd(numerator, denominator);
        Self { numerator: numerator / common, denominator: denominator / common }
    }

    /// Creates a fraction from a whole number.
    pub const fn whole(value: u64) -> Self {
        Self { numerator: value as u128, denominator: 1 }
    }

    /// Returns the numerator in lowest terms.
    pub const fn numerator(self) -> u128 {
        self.numerator
    }

    /// Returns the denominator in lowest terms.
    pub const fn denominator(self) -> u128 {
        self.denominator
    }

    /// Converts to a float with a relative error below 2^-51.
    pub const fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// Returns `self + other`.
    ///
    /// # Panics
    /// Panics if the common denominator or the resulting numerator exceeds 128 bits.
    pub fn plus(self, other: Self) -> Self {
        self.combine(other, u128::checked_add)
            .expect("sum of fractions: numerator over the common denominator must stay below 2^128")
    }

    /// Returns `self - other`, or `None` if the result is below zero.
    ///
    /// # Panics
    /// Panics if the common denominator or a resulting numerator exceeds 128 bits.
    pub fn minus(self, other: Self) -> Option<Self> {
        if self < other {
            return None;
        }
        let difference = self
            .combine(other, u128::checked_sub)
            .expect("difference of fractions: numerators over the common denominator must stay below 2^128");
        Some(difference)
    }

    /// Returns `self / parts`.
    ///
    /// # Panics
    /// Panics if `parts` is zero or the denominator exceeds 128 bits.
    pub fn split(self, parts: u64) -> Self {
        assert!(parts > 0, "the number of parts must be above zero");
        let parts = u128::from(parts);
        // Reducing first leaves the product in lowest terms.
        let common = gcd(self.numerator, parts);
        let denominator = self
            .denominator
            .checked_mul(parts / common)
            .expect("quotient of fractions: denominator must stay below 2^128");
        Self::new(self.numerator / common, denominator)
    }

    /// Combines both numerators over the least common denominator. Returns `None` if a number exceeds 128 bits.
    fn combine(self, other: Self, operation: impl Fn(u128, u128) -> Option<u128>) -> Option<Self> {
        let common = gcd(self.denominator, other.denominator);
        let self_factor = other.denominator / common;
        let other_factor = self.denominator / common;
        let denominator = self.denominator.checked_mul(self_factor)?;
        let numerator =
            operation(self.numerator.checked_mul(self_factor)?, other.numerator.checked_mul(other_factor)?)?;
        Some(Self::new(numerator, denominator))
    }
}

/// Returns the greatest common divisor. `gcd(0, n) = n`, so zero reduces to 0/1.
const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Ord for Rational {
    /// Compares continued fractions term by term, because a cross product could exceed 128 bits.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (self.numerator, self.denominator);
        let (mut c, mut d) = (other.numerator, other.denominator);
        loop {
            let order = (a / b).cmp(&(c / d));
            if order != Ordering::Equal {
                return order;
            }
            match (a % b, c % d) {
                (0, 0) => return Ordering::Equal,
                (0, _) => return Ordering::Less,
                (_, 0) => return Ordering::Greater,
                // x/b < y/d if and only if d/y < b/x.
                (x, y) => (a, b, c, d) = (d, y, b, x),
            }
        }
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Sum for Rational {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Self::plus)
    }
}

impl fmt::Debug for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            _ => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    #[test]
    fn fractions_are_in_lowest_terms() {
        assert_eq!(Rational::new(6, 4), Rational::new(3, 2));
        assert_eq!(Rational::new(0, 9), Rational::ZERO);
        assert_eq!(Rational::new(6, 4).to_string(), "3/2");
        assert_eq!(Rational::whole(7).to_string(), "7");
    }

    #[test]
    fn arithmetic_is_exact() {
        let third = Rational::new(1, 3);
        assert_eq!([third; 3].into_iter().sum::<Rational>(), Rational::whole(1));
        assert_eq!(Rational::whole(1).minus(third), Some(Rational::new(2, 3)));
        assert_eq!(third.minus(Rational::whole(1)), None);
        assert_eq!(Rational::new(4, 3).split(6), Rational::new(2, 9));
        assert_eq!(Rational::ZERO.split(6), Rational::ZERO);
        assert_eq!(Rational::new(1, 8).to_f64(), 0.125);
    }

    #[test]
    fn order_matches_the_cross_products() {
        let mut rng = SplitMix64::new(5);
        for _ in 0..10_000 {
            let [a, b, c, d] = core::array::from_fn(|_| u128::from(rng.within(1, 40)));
            let expected = (a * d).cmp(&(c * b));
            assert_eq!(Rational::new(a, b).cmp(&Rational::new(c, d)), expected, "{a}/{b} {c}/{d}");
        }
    }

    #[test]
    fn order_is_correct_when_cross_products_overflow() {
        let big = u128::MAX;
        assert!(Rational::new(big - 1, big) < Rational::whole(1));
        assert!(Rational::new(big - 1, big) > Rational::new(big - 2, big - 1));
    }

    #[test]
    #[should_panic(expected = "must stay below 2^128")]
    fn a_sum_that_exceeds_128_bits_panics() {
        let _ = Rational::new(1, u128::MAX).plus(Rational::new(1, u128::MAX - 1));
    }
}
