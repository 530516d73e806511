//! Parameters of control laws and switch policies.
//!
//! The `params!` macro defines a parameter struct, its defaults, its checks, its documentation table and its text
//! parser from one declaration, so they always agree. The defaults are the paper's values.

use crate::text::UnitError;
use crate::{BitRate, Bytes, Fraction, Nanos, Packets, Signals};
use core::fmt::{self, Display};

/// The parameters of a law or a policy.
pub trait Params: Default + Clone + fmt::Debug + 'static {
    /// The parameters, in declaration order.
    const TABLE: &'static [ParamInfo];
    /// Named sets of values, for example those of an artifact that differs from its paper.
    const PRESETS: &'static [Preset<Self>];

    /// Sets the parameter `name` to the value parsed from `text`. `-` and `_` are equivalent in names.
    fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError>;

    /// Calls `visit` with each parameter and its current value, in declaration order.
    fn for_each(&self, visit: &mut dyn FnMut(&'static ParamInfo, &dyn Display));

    /// Checks that all values are in range.
    fn check(&self) -> Result<(), ParamError>;

    /// Sets all parameters to a preset's values. The `paper` preset always exists.
    fn apply_preset(&mut self, name: &str) -> Result<(), ParamError> {
        if name == PAPER {
            *self = Self::default();
            return Ok(());
        }
        match Self::PRESETS.iter().find(|preset| preset.name == name) {
            Some(preset) => {
                *self = Self::default();
                (preset.apply)(self);
                Ok(())
            }
            None => Err(ParamError::UnknownPreset),
        }
    }
}

/// The name of the preset that holds the default values.
pub const PAPER: &str = "paper";

/// A parameter's name and description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The parameter's name.
    pub name: &'static str,
    /// The parameter's meaning and the source of its default value.
    pub description: &'static str,
}

/// A named set of parameter values.
#[derive(Clone, Copy, Debug)]
pub struct Preset<P> {
    /// The preset's name, for example `artifact-ns3`.
    pub name: &'static str,
    /// The source of the values.
    pub description: &'static str,
    /// Changes the default values to the preset's values.
    pub apply: fn(&mut P),
}

/// The reason a parameter is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamError {
    /// No parameter has this name.
    UnknownName,
    /// No preset has this name.
    UnknownPreset,
    /// The text is not a valid value for the parameter's type.
    InvalidValue {
        /// The parameter's name.
        name: &'static str,
        /// Why the value is invalid.
        reason: ValueError,
    },
    /// The value is out of range.
    OutOfRange {
        /// The parameter's name.
        name: &'static str,
        /// The allowed range, for example "at most 1".
        requirement: &'static str,
    },
}

impl Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName => f.write_str("there is no such parameter"),
            Self::UnknownPreset => f.write_str("there is no such preset"),
            Self::InvalidValue { name, reason } => write!(f, "{name}: {reason}"),
            Self::OutOfRange { name, requirement } => write!(f, "{name} must be {requirement}"),
        }
    }
}

impl core::error::Error for ParamError {}

/// The reason a text is not a valid value for the parameter's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// The number or its unit is invalid.
    Unit(UnitError),
    /// The text is not a finite number.
    NotANumber,
    /// The text is not a 32-bit unsigned integer.
    NotAWholeNumber,
    /// The text is neither `true` nor `false`.
    NotABool,
    /// The text is not one of the allowed words.
    NotOneOf(&'static str),
}

impl Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(error) => error.fmt(f),
            Self::NotANumber => f.write_str("not a finite number"),
            Self::NotAWholeNumber => f.write_str("not a whole number that fits in 32 bits"),
            Self::NotABool => f.write_str("write true or false"),
            Self::NotOneOf(words) => write!(f, "write one of {words}"),
        }
    }
}

/// A type that a parameter can have.
pub trait ParamValue: Sized + Display {
    /// Parses a value from text.
    fn parse(text: &str) -> Result<Self, ValueError>;
}

macro_rules! parse_with_unit {
    ($($name:ty),*) => {$(
        impl ParamValue for $name {
            fn parse(text: &str) -> Result<Self, ValueError> {
                text.parse().map_err(ValueError::Unit)
            }
        }
    )*};
}
parse_with_unit!(Nanos, BitRate, Bytes, Packets, Fraction);

impl ParamValue for f64 {
    fn parse(text: &str) -> Result<Self, ValueError> {
        let number: Self = text.trim().parse().map_err(|_| ValueError::NotANumber)?;
        if number.is_finite() { Ok(number) } else { Err(ValueError::NotANumber) }
    }
}

impl ParamValue for u32 {
    fn parse(text: &str) -> Result<Self, ValueError> {
        text.trim().parse().map_err(|_| ValueError::NotAWholeNumber)
    }
}

impl ParamValue for bool {
    fn parse(text: &str) -> Result<Self, ValueError> {
        text.trim().parse().map_err(|_| ValueError::NotABool)
    }
}

/// Names separated by commas, or `nothing`.
impl ParamValue for Signals {
    fn parse(text: &str) -> Result<Self, ValueError> {
        if text.trim() == "nothing" {
            return Ok(Self::NONE);
        }
        text.split(',').try_fold(Self::NONE, |signals, name| {
            let signal = Self::from_name(name.trim()).ok_or(ValueError::NotOneOf(Self::ALL_NAMES))?;
            Ok(signals | signal)
        })
    }
}

/// Returns whether the TOML key `key` names `field`. TOML keys use `-` where Rust uses `_`.
#[doc(hidden)]
pub fn names_match(key: &str, field: &str) -> bool {
    let normalize = |c: u8| if c == b'-' { b'_' } else { c };
    key.len() == field.len() && key.bytes().map(normalize).eq(field.bytes())
}

/// Defines a parameter struct. Each field has a type, a default and a doc comment with its meaning and source. The
/// `presets` block lists named sets of values, and the `check` block lists the conditions that must hold.
#[doc(hidden)]
#[macro_export]
macro_rules! __params {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[doc = $description:literal])+ $field:ident: $ty:ty = $default:expr, )*
        }
        presets { $( $preset:literal, $preset_description:literal, $apply:expr; )* }
        check { $( $checked:ident: $requirement:literal, $condition:expr; )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $description])+ pub $field: $ty, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::params::Params for $name {
            const TABLE: &'static [$crate::params::ParamInfo] = &[
                $( $crate::params::ParamInfo {
                    name: stringify!($field),
                    description: concat!($($description),+).trim_ascii(),
                }, )*
            ];
            const PRESETS: &'static [$crate::params::Preset<Self>] = &[
                $( $crate::params::Preset { name: $preset, description: $preset_description, apply: $apply }, )*
            ];

            fn set(&mut self, name: &str, text: &str) -> Result<(), $crate::params::ParamError> {
                $(
                    if $crate::params::names_match(name, stringify!($field)) {
                        self.$field = <$ty as $crate::params::ParamValue>::parse(text).map_err(|reason| {
                            $crate::params::ParamError::InvalidValue { name: stringify!($field), reason }
                        })?;
                        return Ok(());
                    }
                )*
                Err($crate::params::ParamError::UnknownName)
            }

            fn for_each(
                &self,
                visit: &mut dyn FnMut(&'static $crate::params::ParamInfo, &dyn core::fmt::Display),
            ) {
                let mut rows = Self::TABLE.iter();
                $(
                    if let Some(row) = rows.next() {
                        visit(row, &self.$field);
                    }
                )*
            }

            fn check(&self) -> Result<(), $crate::params::ParamError> {
                $(
                    let condition: fn(&Self) -> bool = $condition;
                    if !condition(self) {
                        return Err($crate::params::ParamError::OutOfRange {
                            name: stringify!($checked),
                            requirement: $requirement,
                        });
                    }
                )*
                Ok(())
            }
        }
    };
}

/// Defines a parameter enum. In text, each variant is one word.
#[doc(hidden)]
#[macro_export]
macro_rules! __choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[doc = $description:literal])+ $variant:ident = $word:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $description])+ $variant, )* }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self { $( Self::$variant => $word, )* })
            }
        }

        impl $crate::params::ParamValue for $name {
            fn parse(text: &str) -> Result<Self, $crate::params::ValueError> {
                match text.trim() {
                    $( $word => Ok(Self::$variant), )*
                    _ => Err($crate::params::ValueError::NotOneOf(concat!($($word, " "),*).trim_ascii_end())),
                }
            }
        }
    };
}

#[doc(inline)]
pub use {__choice as choice, __params as params};
