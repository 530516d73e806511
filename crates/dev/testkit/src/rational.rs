//! Exact non-negative fractions, so that an oracle has no tolerance.

use core::cmp::Ordering;
use core::fmt;
use core::iter::Sum;

/// A non-negative fraction of two `u128`, always in lowest terms.
///
/// Arithmetic never rounds. It panics when a result in lowest terms, or the common denominator on the way
/// to it, needs more than 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rational {
    numerator: u128,
    denominator: u128,
}

impl Rational {
    /// Nothing.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// `numerator / denominator`, reduced.
    ///
    /// # Panics
    /// If `denominator` is zero.
    pub const fn new(numerator: u128, denominator: u128) -> Self {
        assert!(denominator > 0, "a fraction needs a denominator above zero");
        let shared = gcd(numerator, denominator);
        Self { numerator: numerator / shared, denominator: denominator / shared }
    }

    /// A whole number.
    pub const fn whole(value: u64) -> Self {
        Self { numerator: value as u128, denominator: 1 }
    }

    /// What stands above the line, in lowest terms.
    pub const fn numerator(self) -> u128 {
        self.numerator
    }

    /// What stands below the line, in lowest terms.
    pub const fn denominator(self) -> u128 {
        self.denominator
    }

    /// The nearest float, to within two roundings (relative error below 2^-51).
    pub const fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// `self + other`.
    ///
    /// # Panics
    /// If the common denominator or the numerator over it passes 2^128.
    pub fn plus(self, other: Self) -> Self {
        self.over_common(other, u128::checked_add)
            .expect("sum of fractions: numerator over the common denominator must stay below 2^128")
    }

    /// `self - other`; `None` if that is below zero.
    ///
    /// # Panics
    /// If the common denominator or a numerator over it passes 2^128.
    pub fn minus(self, other: Self) -> Option<Self> {
        if self < other {
            return None;
        }
        let difference = self
            .over_common(other, u128::checked_sub)
            .expect("difference of fractions: numerators over the common denominator must stay below 2^128");
        Some(difference)
    }

    /// `self / parts`.
    ///
    /// # Panics
    /// If `parts` is zero, or the denominator passes 2^128.
    pub fn split(self, parts: u64) -> Self {
        assert!(parts > 0, "a share needs at least one part");
        let parts = u128::from(parts);
        // Reduce first: the product is then already in lowest terms.
        let shared = gcd(self.numerator, parts);
        let denominator = self
            .denominator
            .checked_mul(parts / shared)
            .expect("quotient of fractions: denominator must stay below 2^128");
        Self::new(self.numerator / shared, denominator)
    }

    /// Both numerators over the least common denominator, combined; `None` if something passes 128 bits.
    fn over_common(self, other: Self, combine: impl Fn(u128, u128) -> Option<u128>) -> Option<Self> {
        let shared = gcd(self.denominator, other.denominator);
        let mine = other.denominator / shared;
        let theirs = self.denominator / shared;
        let denominator = self.denominator.checked_mul(mine)?;
        let numerator = combine(self.numerator.checked_mul(mine)?, other.numerator.checked_mul(theirs)?)?;
        Some(Self::new(numerator, denominator))
    }
}

/// Greatest common divisor; `gcd(0, n) = n`, so that zero reduces to 0/1.
const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Ord for Rational {
    /// Compares continued fractions term by term: a cross product could pass 128 bits, this cannot.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (self.numerator, self.denominator);
        let (mut c, mut d) = (other.numerator, other.denominator);
        loop {
            let by_whole_part = (a / b).cmp(&(c / d));
            if by_whole_part != Ordering::Equal {
                return by_whole_part;
            }
            match (a % b, c % d) {
                (0, 0) => return Ordering::Equal,
                (0, _) => return Ordering::Less,
                (_, 0) => return Ordering::Greater,
                // x/b < y/d exactly when d/y < b/x.
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
    fn is_always_in_lowest_terms() {
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
    fn order_is_that_of_the_cross_products() {
        let mut rng = SplitMix64::new(5);
        for _ in 0..10_000 {
            let [a, b, c, d] = core::array::from_fn(|_| u128::from(rng.within(1, 40)));
            let by_product = (a * d).cmp(&(c * b));
            assert_eq!(Rational::new(a, b).cmp(&Rational::new(c, d)), by_product, "{a}/{b} {c}/{d}");
        }
    }

    #[test]
    fn order_holds_where_cross_products_do_not_fit() {
        let big = u128::MAX;
        assert!(Rational::new(big - 1, big) < Rational::whole(1));
        assert!(Rational::new(big - 1, big) > Rational::new(big - 2, big - 1));
    }

    #[test]
    #[should_panic(expected = "must stay below 2^128")]
    fn a_sum_that_does_not_fit_is_refused() {
        let _ = Rational::new(1, u128::MAX).plus(Rational::new(1, u128::MAX - 1));
    }
}
