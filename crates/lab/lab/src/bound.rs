//! Values that are known exactly, or only to lie above something: what a percentile is that falls among messages that never finished.

use core::fmt;
use core::ops::{Add, Div, Mul, Sub};

/// Where a value lies: exactly somewhere, or at least this and at most that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// It is at least this.
    pub low: f64,
    /// It is at most this.
    pub high: f64,
}

impl Bounds {
    /// Nothing is known.
    const UNKNOWN: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// A known value.
    pub const fn exact(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Something at or above this.
    pub const fn at_least(low: f64) -> Self {
        Self { low, high: f64::INFINITY }
    }

    /// The value, where it is known.
    pub fn value(self) -> Option<f64> {
        (self.low == self.high && self.low.is_finite()).then_some(self.low)
    }

    /// Whether neither end is a number that says anything.
    pub fn is_unknown(self) -> bool {
        !self.low.is_finite() && !self.high.is_finite()
    }

    /// Whether it is above a limit; `None` where the bounds do not decide it.
    pub fn is_above(self, limit: f64) -> Option<bool> {
        match self {
            _ if self.low > limit => Some(true),
            _ if self.high <= limit => Some(false),
            _ => None,
        }
    }

    /// Whether it is below a limit; `None` where the bounds do not decide it.
    pub fn is_below(self, limit: f64) -> Option<bool> {
        match self {
            _ if self.high < limit => Some(true),
            _ if self.low >= limit => Some(false),
            _ => None,
        }
    }

    /// Whether it is within a range, ends included; `None` where the bounds do not decide it.
    pub fn is_within(self, [low, high]: [f64; 2]) -> Option<bool> {
        match self {
            _ if self.low >= low && self.high <= high => Some(true),
            _ if self.high < low || self.low > high => Some(false),
            _ => None,
        }
    }

    /// Its natural logarithm; unknown below zero.
    #[must_use]
    pub fn ln(self) -> Self {
        if self.high <= 0.0 || self.low.is_nan() {
            return Self::UNKNOWN;
        }
        Self { low: libm::log(self.low.max(0.0)), high: libm::log(self.high) }
    }

    /// The smallest bounds that hold all of these; unknown if one of them is not a number.
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
        // Nothing of something unbounded is nothing: the bound stands for a finite number.
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
        // Both bounds may be without end: their quotient is then between nothing and anything.
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
    /// A value, or what is known of it: `above 12.3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = crate::report::number;
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
    fn a_bound_decides_what_it_can() {
        let late = Bounds::at_least(10.0);
        assert_eq!((late.is_above(9.0), late.is_above(10.0), late.is_above(11.0)), (Some(true), None, None));
        assert_eq!((late.is_below(10.0), late.is_below(11.0)), (Some(false), None));
        assert_eq!((late.is_within([1.0, 9.0]), late.is_within([1.0, 20.0])), (Some(false), None));
        assert_eq!(Bounds::exact(3.0).is_within([3.0, 4.0]), Some(true));
        assert_eq!(Bounds::exact(3.0).is_above(3.0), Some(false));
    }

    #[test]
    fn arithmetic_keeps_what_is_known() {
        let (five, late) = (Bounds::exact(5.0), Bounds::at_least(10.0));
        assert_eq!(five / late, Bounds { low: 0.0, high: 0.5 });
        assert_eq!(late / five, Bounds::at_least(2.0));
        assert_eq!(Bounds::exact(1.0) - five / late, Bounds { low: 0.5, high: 1.0 });
        assert_eq!(late - five, Bounds::at_least(5.0));
        assert_eq!(late / late, Bounds { low: 0.0, high: f64::INFINITY });
        assert!((late - late).is_unknown());
        assert_eq!((five / Bounds::exact(2.0)).value(), Some(2.5));
        assert_eq!((five / Bounds::exact(0.0)).value(), None);
    }

    proptest! {
        #[test]
        fn the_result_of_values_within_bounds_lies_within_the_bounds_of_the_result(
            a in -10.0..10.0f64, above_a in 0.0..5.0f64, b in -10.0..10.0f64, above_b in 0.0..5.0f64,
            at_a in 0.0..=1.0f64, at_b in 0.0..=1.0f64,
        ) {
            let (x, y) = (Bounds { low: a, high: a + above_a }, Bounds { low: b, high: b + above_b });
            let (p, q) = (a + at_a * above_a, b + at_b * above_b);
            for (bounds, value) in [(x + y, p + q), (x - y, p - q), (x * y, p * q), (x / y, p / q)] {
                let slack = 1e-9 * (1.0 + value.abs());
                prop_assert!(bounds.low <= value + slack && bounds.high >= value - slack, "{bounds:?} {value}");
            }
        }
    }
}
