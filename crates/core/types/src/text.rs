//! Exact conversion between quantities and text with units: `"200 Gbps"`, `"600 ns"`, `"64 MiB"`.
//!
//! Parsing rejects numbers without a unit. Parsing also rejects values that the type cannot represent exactly, for
//! example `"0.3 ns"` as nanoseconds. Printing uses the largest unit in which the value is at least one and keeps every
//! digit, so `parse(print(x)) == x`.

use core::fmt;

/// The units of a quantity.
pub(crate) struct Units {
    /// The quantity's name, for error messages.
    pub(crate) quantity: &'static str,
    /// The accepted units, for error messages.
    pub(crate) accepted: &'static str,
    /// The units used for printing, in ascending order, with their size in base units. The sizes are powers of ten, so
    /// every printed decimal terminates.
    pub(crate) table: &'static [(&'static str, u64)],
    /// Units that are accepted but never printed.
    pub(crate) aliases: &'static [(&'static str, u64)],
    /// Ambiguous spellings that are rejected, with advice.
    pub(crate) ambiguous: &'static [(&'static str, &'static str)],
}

/// The reason a quantity cannot be parsed from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not start with a decimal number.
    NotANumber {
        /// The expected quantity, for example "time".
        quantity: &'static str,
        /// The accepted units.
        accepted: &'static str,
    },
    /// The text is not a decimal number. This error is for quantities without a unit.
    NotADecimal {
        /// The expected quantity.
        quantity: &'static str,
    },
    /// The text is a number without a unit.
    MissingUnit {
        /// The expected quantity.
        quantity: &'static str,
        /// The accepted units.
        accepted: &'static str,
    },
    /// The unit does not belong to this quantity.
    UnknownUnit {
        /// The expected quantity.
        quantity: &'static str,
        /// The accepted units.
        accepted: &'static str,
    },
    /// The unit's spelling is ambiguous.
    AmbiguousUnit {
        /// The spelling to use instead.
        advice: &'static str,
    },
    /// The value is not a multiple of the type's smallest unit.
    Inexact {
        /// The expected quantity.
        quantity: &'static str,
        /// The smallest unit.
        smallest: &'static str,
    },
    /// The value is too large for the type.
    OutOfRange {
        /// The expected quantity.
        quantity: &'static str,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { quantity, accepted } => {
                write!(f, "not a {quantity}: write a number and one of {accepted}")
            }
            Self::NotADecimal { quantity } => {
                write!(f, "not a {quantity}: write a decimal number such as 0.25")
            }
            Self::MissingUnit { quantity, accepted } => {
                write!(f, "{quantity} without a unit: add one of {accepted}")
            }
            Self::UnknownUnit { quantity, accepted } => {
                write!(f, "unknown unit of {quantity}: use one of {accepted}")
            }
            Self::AmbiguousUnit { advice } => f.write_str(advice),
            Self::Inexact { quantity, smallest } => {
                write!(f, "{quantity} is not a whole number of {smallest}: write fewer decimals")
            }
            Self::OutOfRange { quantity } => write!(f, "{quantity} is too large"),
        }
    }
}

impl core::error::Error for UnitError {}

/// A decimal number, stored as its digits and the number of decimal places: `12.5` is (125, 1).
pub(crate) struct Decimal {
    pub(crate) digits: u128,
    pub(crate) decimals: u32,
}

/// Splits a leading unsigned decimal number off `text`. Returns `None` if there is no number or it
/// has more than 30 digits.
pub(crate) fn split_decimal(text: &str) -> Option<(Decimal, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let mut decimal = Decimal { digits: 0, decimals: 0 };
    let mut seen_digit = false;
    let mut seen_point = false;
    let mut length = 0;
    for c in number.bytes() {
        match c {
            b'.' if seen_point => return None,
            b'.' => seen_point = true,
            b'_' if seen_digit => {}
            b'0'..=b'9' => {
                seen_digit = true;
                length += 1;
                if length > 30 {
                    return None;
                }
                decimal.digits = decimal.digits * 10 + u128::from(c - b'0');
                decimal.decimals += u32::from(seen_point);
            }
            _ => return None,
        }
    }
    seen_digit.then_some((decimal, suffix))
}

/// Parses `text` into a number of base units.
pub(crate) fn parse(text: &str, units: &Units) -> Result<u64, UnitError> {
    let (quantity, accepted) = (units.quantity, units.accepted);
    let Some((number, unit)) = split_decimal(text.trim()) else {
        return Err(UnitError::NotANumber { quantity, accepted });
    };
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err(UnitError::MissingUnit { quantity, accepted });
    }
    if let Some((_, advice)) = units.ambiguous.iter().find(|(name, _)| *name == unit) {
        return Err(UnitError::AmbiguousUnit { advice });
    }
    let mut known_units = units.table.iter().chain(units.aliases);
    let Some(&(_, size)) = known_units.find(|(name, _)| *name == unit) else {
        return Err(UnitError::UnknownUnit { quantity, accepted });
    };
    let too_large = UnitError::OutOfRange { quantity };
    let scaled = number.digits.checked_mul(u128::from(size)).ok_or(too_large)?;
    let divisor = 10u128.pow(number.decimals);
    if scaled % divisor != 0 {
        return Err(UnitError::Inexact { quantity, smallest: units.table[0].0 });
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large)
}

/// Writes `value` exactly, in the largest unit that does not exceed it.
pub(crate) fn fmt_value(f: &mut fmt::Formatter<'_>, value: u64, units: &Units) -> fmt::Result {
    let does_not_exceed = |&&(_, size): &&(&str, u64)| value >= size;
    let &(name, size) = units.table.iter().rev().find(does_not_exceed).unwrap_or(&units.table[0]);
    let (whole, mut remainder) = (value / size, value % size);
    write!(f, "{whole}")?;
    if remainder > 0 {
        f.write_str(".")?;
        while remainder > 0 {
            let scaled = u128::from(remainder) * 10;
            let size = u128::from(size);
            write!(f, "{}", scaled / size)?;
            remainder = u64::try_from(scaled % size).expect("a remainder is smaller than its u64 divisor");
        }
    }
    write!(f, " {name}")
}

#[cfg(test)]
mod tests {
    use crate::{BitRate, Bytes, Fraction, Nanos, Packets, Picos};
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn parses_the_units_of_scenario_files() {
        assert_eq!("200 Gbps".parse(), Ok(BitRate::from_gbps(200)));
        assert_eq!("600 ns".parse(), Ok(Nanos::new(600)));
        assert_eq!("245ns".parse(), Ok(Picos::new(245_000)));
        assert_eq!("64 MiB".parse(), Ok(Bytes::new(64 << 20)));
        assert_eq!("64 MB".parse(), Ok(Bytes::new(64_000_000)));
        assert_eq!("2.5 MB".parse(), Ok(Bytes::new(2_500_000)));
        assert_eq!(" 4 µs ".parse(), Ok(Nanos::from_micros(4)));
        assert_eq!("1_000 B".parse(), Ok(Bytes::new(1_000)));
    }

    #[test]
    fn rejects_inexact_and_ambiguous_text() {
        let error = |text: &str| text.parse::<Nanos>().expect_err("the text is invalid").to_string();
        assert_eq!(error("600"), "time without a unit: add one of ns, us, ms, s");
        assert_eq!(error("six ns"), "not a time: write a number and one of ns, us, ms, s");
        assert_eq!(error("6 parsecs"), "unknown unit of time: use one of ns, us, ms, s");
        assert_eq!(error("0.3 ns"), "time is not a whole number of ns: write fewer decimals");
        assert_eq!(error("1e9 s"), "unknown unit of time: use one of ns, us, ms, s");
        assert_eq!(error("99999999999999999999 s"), "time is too large");
        assert_eq!(error("1.2.3 s"), "not a time: write a number and one of ns, us, ms, s");
        assert_eq!(error(""), "not a time: write a number and one of ns, us, ms, s");
        let message = "128 KB".parse::<Bytes>().expect_err("the unit is ambiguous").to_string();
        assert_eq!(message, "KB is ambiguous: write kB (1000 bytes) or KiB (1024 bytes)");
    }

    proptest! {
        #[test]
        fn printed_text_parses_to_the_same_value(x: u64) {
            prop_assert_eq!(Nanos::new(x).to_string().parse(), Ok(Nanos::new(x)));
            prop_assert_eq!(Picos::new(x).to_string().parse(), Ok(Picos::new(x)));
            prop_assert_eq!(Bytes::new(x).to_string().parse(), Ok(Bytes::new(x)));
            prop_assert_eq!(BitRate::from_bps(x).to_string().parse(), Ok(BitRate::from_bps(x)));
            prop_assert_eq!(Packets::from_q24(x).to_string().parse(), Ok(Packets::from_q24(x)));
            prop_assert_eq!(Fraction::from_q32(x).to_string().parse(), Ok(Fraction::from_q32(x)));
        }

        #[test]
        fn parsers_never_panic(text in ".*") {
            let _ = text.parse::<Nanos>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Packets>();
            let _ = text.parse::<Fraction>();
        }
    }
}
