//! The macro that defines every integer quantity, so they all behave the same way.

/// Defines a newtype over `u64` with a unit, saturating and checked arithmetic, and conversion to and from text.
///
/// `+`, `-` and `* u64` saturate in every build profile. Subtracting a larger amount from a smaller amount yields zero.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $units:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The zero amount.
            pub const ZERO: Self = Self(0);
            /// The largest representable amount. Arithmetic saturates at this value.
            pub const MAX: Self = Self(u64::MAX);

            /// Returns the amount in this type's base unit.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Returns whether the amount is zero.
            #[inline]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }

            /// Returns the sum, or `None` if it exceeds [`Self::MAX`].
            #[inline]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Returns the difference, or `None` if it is negative.
            #[inline]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }
        }

        impl core::ops::Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl core::ops::AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl core::ops::Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl core::ops::SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl core::ops::Mul<u64> for $name {
            type Output = Self;
            #[inline]
            fn mul(self, factor: u64) -> Self {
                Self(self.0.saturating_mul(factor))
            }
        }

        impl core::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::ZERO, |sum, item| sum + item)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $crate::text::fmt_value(f, self.0, $units)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::text::UnitError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::text::parse(text, $units).map(Self)
            }
        }
    };
}

pub(crate) use quantity;
