//! Text with units, exactly: `"200 Gbps"`, `"600 ns"`, `"64 MiB"`.
//!
//! Numbers without a unit are refused, and so are values that the type cannot hold exactly (`"0.3 ns"` as
//! nanoseconds): a scenario file must mean what it says. Printing gives the largest unit in which the value is
//! at least one, without losing a digit, so `parse(print(x)) == x` always.

use core::fmt;

/// The units one quantity is written in.
pub(crate) struct Units {
    /// The quantity's name, for messages.
    pub(crate) what: &'static str,
    /// The accepted units, for messages.
    pub(crate) accepted: &'static str,
    /// Printed units, ascending, with their size in base units: powers of ten, so that decimals end.
    pub(crate) table: &'static [(&'static str, u64)],
    /// Understood but never printed.
    pub(crate) aliases: &'static [(&'static str, u64)],
    /// Refused with advice: spellings that mean two things.
    pub(crate) traps: &'static [(&'static str, &'static str)],
}

/// Why a text with a unit could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not begin with a decimal number.
    NotANumber {
        /// What was expected, for example "time".
        what: &'static str,
        /// The units one may write.
        accepted: &'static str,
    },
    /// A bare number: the unit must be written.
    MissingUnit {
        /// What was expected.
        what: &'static str,
        /// The units one may write.
        accepted: &'static str,
    },
    /// The unit is not one of this quantity's.
    UnknownUnit {
        /// What was expected.
        what: &'static str,
        /// The units one may write.
        accepted: &'static str,
    },
    /// The unit is written in a way that means two things.
    AmbiguousUnit {
        /// What to write instead.
        advice: &'static str,
    },
    /// The value is not a whole number of the type's smallest unit.
    Inexact {
        /// What was expected.
        what: &'static str,
        /// The smallest unit.
        smallest: &'static str,
    },
    /// The value does not fit.
    OutOfRange {
        /// What was expected.
        what: &'static str,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { what, accepted } => {
                write!(f, "not a {what}: write a number and one of {accepted}")
            }
            Self::MissingUnit { what, accepted } => {
                write!(f, "{what} without a unit: add one of {accepted}")
            }
            Self::UnknownUnit { what, accepted } => {
                write!(f, "unknown unit of {what}: use one of {accepted}")
            }
            Self::AmbiguousUnit { advice } => f.write_str(advice),
            Self::Inexact { what, smallest } => {
                write!(f, "{what} is not a whole number of {smallest}: write fewer decimals")
            }
            Self::OutOfRange { what } => write!(f, "{what} is too large"),
        }
    }
}

impl core::error::Error for UnitError {}

/// A decimal number as digits and a power of ten: `12.5` is (125, 1).
pub(crate) struct Decimal {
    pub(crate) digits: u128,
    pub(crate) decimals: u32,
}

/// Splits a leading unsigned decimal number off `text`. `None` where there is none or it has over 30 digits.
pub(crate) fn split_decimal(text: &str) -> Option<(Decimal, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
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
    seen_digit.then_some((decimal, rest))
}

/// Reads `text` as a number of base units.
pub(crate) fn parse(text: &str, units: &Units) -> Result<u64, UnitError> {
    let (what, accepted) = (units.what, units.accepted);
    let Some((number, unit)) = split_decimal(text.trim()) else {
        return Err(UnitError::NotANumber { what, accepted });
    };
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err(UnitError::MissingUnit { what, accepted });
    }
    if let Some((_, advice)) = units.traps.iter().find(|(name, _)| *name == unit) {
        return Err(UnitError::AmbiguousUnit { advice });
    }
    let mut known = units.table.iter().chain(units.aliases);
    let Some(&(_, size)) = known.find(|(name, _)| *name == unit) else {
        return Err(UnitError::UnknownUnit { what, accepted });
    };
    let too_large = UnitError::OutOfRange { what };
    let scaled = number.digits.checked_mul(u128::from(size)).ok_or(too_large)?;
    let divisor = 10u128.pow(number.decimals);
    if scaled % divisor != 0 {
        return Err(UnitError::Inexact { what, smallest: units.table[0].0 });
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large)
}

/// Writes `value` in the largest unit that is not larger than it, without losing a digit.
pub(crate) fn print(f: &mut fmt::Formatter<'_>, value: u64, units: &Units) -> fmt::Result {
    let fits = |&&(_, size): &&(&str, u64)| value >= size;
    let &(name, size) = units.table.iter().rev().find(fits).unwrap_or(&units.table[0]);
    let (whole, mut rest) = (value / size, value % size);
    write!(f, "{whole}")?;
    if rest > 0 {
        f.write_str(".")?;
        while rest > 0 {
            let scaled = u128::from(rest) * 10;
            let size = u128::from(size);
            write!(f, "{}", scaled / size)?;
            rest = u64::try_from(scaled % size).expect("a remainder is below its u64 divisor");
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
    fn reads_what_a_scenario_writes() {
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
    fn refuses_what_it_cannot_mean_exactly() {
        let error = |text: &str| text.parse::<Nanos>().expect_err("refused").to_string();
        assert_eq!(error("600"), "time without a unit: add one of ns, us, ms, s");
        assert_eq!(error("six ns"), "not a time: write a number and one of ns, us, ms, s");
        assert_eq!(error("6 parsecs"), "unknown unit of time: use one of ns, us, ms, s");
        assert_eq!(error("0.3 ns"), "time is not a whole number of ns: write fewer decimals");
        assert_eq!(error("1e9 s"), "unknown unit of time: use one of ns, us, ms, s");
        assert_eq!(error("99999999999999999999 s"), "time is too large");
        assert_eq!(error("1.2.3 s"), "not a time: write a number and one of ns, us, ms, s");
        assert_eq!(error(""), "not a time: write a number and one of ns, us, ms, s");
        let kilo = "128 KB".parse::<Bytes>().expect_err("ambiguous").to_string();
        assert_eq!(kilo, "KB means two things: write kB (1000 bytes) or KiB (1024 bytes)");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(x: u64) {
            prop_assert_eq!(Nanos::new(x).to_string().parse(), Ok(Nanos::new(x)));
            prop_assert_eq!(Picos::new(x).to_string().parse(), Ok(Picos::new(x)));
            prop_assert_eq!(Bytes::new(x).to_string().parse(), Ok(Bytes::new(x)));
            prop_assert_eq!(BitRate::from_bps(x).to_string().parse(), Ok(BitRate::from_bps(x)));
            prop_assert_eq!(Packets::from_q24(x).to_string().parse(), Ok(Packets::from_q24(x)));
            prop_assert_eq!(Fraction::from_q32(x).to_string().parse(), Ok(Fraction::from_q32(x)));
        }

        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = text.parse::<Nanos>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Packets>();
            let _ = text.parse::<Fraction>();
        }
    }
}
