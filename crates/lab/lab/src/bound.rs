//! Values that are known exactly or only within bounds.
//!
//! A percentile that falls among unfinished messages has only a lower bound.

use core::fmt;
use core::ops::{Add, Div, Mul, Sub};

/// Lower and upper bounds on a value. If the value is known exactly, the bounds are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Bounds {
    /// Unbounded in both directions.
    const UNKNOWN: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// Creates the bounds of an exactly known value.
    pub const fn exact(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Creates bounds with no upper limit.
    pub const fn at_least(low: f64) -> Self {
        Self { low, high: f64::INFINITY }
    }

    /// Returns the value if it is known.
    pub fn value(self) -> Option<f64> {
        (self.low == self.high && self.low.is_finite()).then_some(self.low)
    }

    /// Returns whether neither bound is finite.
    pub fn is_unknown(self) -> bool {
        !self.low.is_finite() && !self.high.is_finite()
    }

    /// Returns whether the value is above a limit; `None` if the bounds are inconclusive.
    pub fn is_above(self, limit: f64) -> Option<bool> {
        match self {
            _ if self.low > limit => Some(true),
            _ if self.high <= limit => Some(false),
            _ => None,
        }
    }

    /// Returns whether the value is below a limit; `None` if the bounds are inconclusive.
    pub fn is_below(self, limit: f64) -> Option<bool> {
        match self {
            _ if self.high < limit => Some(true),
            _ if self.low >= limit => Some(false),
            _ => None,
        }
    }

    /// Returns whether the value lies within an inclusive range; `None` if the bounds are inconclusive.
    pub fn is_within(self, [low, high]: [f64; 2]) -> Option<bool> {
        match self {
            _ if self.low >= low && self.high <= high => Some(true),
            _ if self.high < low || self.low > high => Some(false),
            _ => None,
        }
    }

    /// Returns bounds on the natural logarithm, which are unknown for negative values.
    #[must_use]
    pub fn ln(self) -> Self {
        if self.high <= 0.0 || self.low.is_nan() {
            return Self::UNKNOWN;
        }
        Self { low: libm::log(self.low.max(0.0)), high: libm::log(self.high) }
    }

    /// Returns the tightest bounds that contain all values, or unknown bounds if any value is NaN.
    fn around(values: &[f64]) -> Self {
        if values.iter().any(|value| value.is_nan()) {
            return Self::UNKNOWN;
        }
        Self {
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Add for Bounds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::around(&[self.low + other.low, self.high + other.high])
    }
}

impl Sub for Bounds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::around(&[self.low - other.high, self.high - other.low])
    }
}

impl Mul for Bounds {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        // Zero times an infinite bound is zero, because the value itself is finite.
        let product = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        Self::around(&[
            product(self.low, other.low),
            product(self.low, other.high),
            product(self.high, other.low),
            product(self.high, other.high),
        ])
    }
}

impl Div for Bounds {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        if other.low == 0.0 && other.high == 0.0 {
            return Self::around(&[self.low / 0.0, self.high / 0.0]);
        }
        if other.low <= 0.0 && other.high >= 0.0 {
            return Self::UNKNOWN;
        }
        // Both upper bounds may be infinite. The quotient then lies between zero and infinity.
        let quotient = |a: f64, b: f64| if b.is_infinite() { 0.0 } else { a / b };
        Self::around(&[
            quotient(self.low, other.low),
            quotient(self.low, other.high),
            quotient(self.high, other.low),
            quotient(self.high, other.high),
        ])
    }
}

impl fmt::Display for Bounds {
    /// Formats the value, or its bounds if the value is not known exactly: `above 12.3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = crate::number::format_number;
        match (self.low.is_finite(), self.high.is_finite()) {
            (true, true) if self.low == self.high => f.write_str(&number(self.low)),
            (true, true) => write!(f, "{} to {}", number(self.low), number(self.high)),
            (true, false) => write!(f, "above {}", number(self.low)),
            (false, true) => write!(f, "below {}", number(self.high)),
            (false, false) => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lower_bound_decides_some_comparisons() {
        let above_ten = Bounds::at_least(10.0);
        assert_eq!(
            (above_ten.is_above(9.0), above_ten.is_above(10.0), above_ten.is_above(11.0)),
            (Some(true), None, None)
        );
        assert_eq!((above_ten.is_below(10.0), above_ten.is_below(11.0)), (Some(false), None));
        assert_eq!((above_ten.is_within([1.0, 9.0]), above_ten.is_within([1.0, 20.0])), (Some(false), None));
        assert_eq!(Bounds::exact(3.0).is_within([3.0, 4.0]), Some(true));
        assert_eq!(Bounds::exact(3.0).is_above(3.0), Some(false));
    }

    #[test]
    fn arithmetic_propagates_bounds() {
        let (five, above_ten) = (Bounds::exact(5.0), Bounds::at_least(10.0));
        assert_eq!(five / above_ten, Bounds { low: 0.0, high: 0.5 });
        assert_eq!(above_ten / five, Bounds::at_least(2.0));
        assert_eq!(Bounds::exact(1.0) - five / above_ten, Bounds { low: 0.5, high: 1.0 });
        assert_eq!(above_ten - five, Bounds::at_least(5.0));
        assert_eq!(above_ten / above_ten, Bounds { low: 0.0, high: f64::INFINITY });
        assert!((above_ten - above_ten).is_unknown());
        assert_eq!((five / Bounds::exact(2.0)).value(), Some(2.5));
        assert_eq!((five / Bounds::exact(0.0)).value(), None);
    }

    proptest! {
        #[test]
        fn bounds_of_a_result_contain_every_possible_result(
            a in -10.0..10.0f64, width_a in 0.0..5.0f64, b in -10.0..10.0f64, width_b in 0.0..5.0f64,
            position_a in 0.0..=1.0f64, position_b in 0.0..=1.0f64,
        ) {
            let (x, y) = (Bounds { low: a, high: a + width_a }, Bounds { low: b, high: b + width_b });
            let (p, q) = (a + position_a * width_a, b + position_b * width_b);
            for (bounds, value) in [(x + y, p + q), (x - y, p - q), (x * y, p * q), (x / y, p / q)] {
                let slack = 1e-9 * (1.0 + value.abs());
                prop_assert!(bounds.low <= value + slack && bounds.high >= value - slack, "{bounds:?} {value}");
            }
        }
    }
}
