//! Parameters of laws and of switch policies: a struct with the source's values, readable and writable as text with units.
//!
//! One declaration gives the struct, its defaults, the table that people read and the reader
//! that a scenario file uses, so that none of them can disagree.

use crate::text::UnitError;
use crate::{BitRate, Bytes, Fraction, Nanos, Packets};
use core::fmt::{self, Display};

/// The parameters of a law or a policy.
pub trait Params: Default + Clone + fmt::Debug + 'static {
    /// One row per parameter, in declaration order.
    const TABLE: &'static [ParamInfo];
    /// Named sets of values, where paper and artifact differ.
    const PRESETS: &'static [Preset<Self>];

    /// Reads `text` into the parameter called `name` (`-` and `_` are the same).
    fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError>;

    /// Shows each parameter's present value, in declaration order.
    fn each(&self, show: &mut dyn FnMut(&'static ParamInfo, &dyn Display));

    /// Refuses values outside the domain.
    fn check(&self) -> Result<(), ParamError>;

    /// Takes the values of a named preset; `paper` always exists.
    fn preset(&mut self, name: &str) -> Result<(), ParamError> {
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

/// The preset that always exists: the defaults.
pub const PAPER: &str = "paper";

/// One parameter, for tables and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name.
    pub name: &'static str,
    /// What it means and where its value comes from.
    pub says: &'static str,
}

/// A named set of values.
#[derive(Clone, Copy, Debug)]
pub struct Preset<P> {
    /// Its name, for example `artifact-ns3`.
    pub name: &'static str,
    /// Where the values come from.
    pub says: &'static str,
    /// Changes the defaults into it.
    pub apply: fn(&mut P),
}

/// Why a parameter is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamError {
    /// There is no such parameter.
    UnknownName,
    /// There is no such preset.
    UnknownPreset,
    /// The text cannot be read as the parameter's type.
    Unreadable {
        /// The parameter.
        name: &'static str,
        /// Why.
        why: ValueError,
    },
    /// The value is outside the domain.
    OutOfDomain {
        /// The parameter.
        name: &'static str,
        /// What must hold.
        must: &'static str,
    },
}

impl Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName => f.write_str("there is no such parameter"),
            Self::UnknownPreset => f.write_str("there is no such preset"),
            Self::Unreadable { name, why } => write!(f, "{name}: {why}"),
            Self::OutOfDomain { name, must } => write!(f, "{name} must be {must}"),
        }
    }
}

impl core::error::Error for ParamError {}

/// Why a text is not a value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// A text with a unit is wrong.
    Unit(UnitError),
    /// Not a finite number.
    NotANumber,
    /// Not a whole number that fits.
    NotAWholeNumber,
    /// Neither `true` nor `false`.
    NotABool,
    /// Not one of these words.
    NotOneOf(&'static str),
}

impl Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(error) => error.fmt(f),
            Self::NotANumber => f.write_str("not a finite number"),
            Self::NotAWholeNumber => f.write_str("not a whole number that fits 32 bits"),
            Self::NotABool => f.write_str("write true or false"),
            Self::NotOneOf(words) => write!(f, "write one of {words}"),
        }
    }
}

/// A type that a parameter may have.
pub trait ParamValue: Sized + Display {
    /// Reads it from text.
    fn read(text: &str) -> Result<Self, ValueError>;
}

macro_rules! read_with_unit {
    ($($name:ty),*) => {$(
        impl ParamValue for $name {
            fn read(text: &str) -> Result<Self, ValueError> {
                text.parse().map_err(ValueError::Unit)
            }
        }
    )*};
}
read_with_unit!(Nanos, BitRate, Bytes, Packets, Fraction);

impl ParamValue for f64 {
    fn read(text: &str) -> Result<Self, ValueError> {
        let number: Self = text.trim().parse().map_err(|_| ValueError::NotANumber)?;
        if number.is_finite() { Ok(number) } else { Err(ValueError::NotANumber) }
    }
}

impl ParamValue for u32 {
    fn read(text: &str) -> Result<Self, ValueError> {
        text.trim().parse().map_err(|_| ValueError::NotAWholeNumber)
    }
}

impl ParamValue for bool {
    fn read(text: &str) -> Result<Self, ValueError> {
        text.trim().parse().map_err(|_| ValueError::NotABool)
    }
}

/// Whether `key`, as a person wrote it, names `field`: TOML keys have `-` where Rust has `_`.
pub fn same_name(key: &str, field: &str) -> bool {
    let plain = |c: u8| if c == b'-' { b'_' } else { c };
    key.len() == field.len() && key.bytes().map(plain).eq(field.bytes())
}

/// Declares a parameter struct. Each field has a type, a default and a doc comment that says what it means
/// and where its value comes from; `check` lists what must hold.
#[doc(hidden)]
#[macro_export]
macro_rules! __params {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[doc = $says:literal])+ $field:ident: $ty:ty = $default:expr, )*
        }
        presets { $( $preset:literal, $about:literal, $apply:expr; )* }
        check { $( $checked:ident: $must:literal, $holds:expr; )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $says])+ pub $field: $ty, )*
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
                    says: concat!($($says),+).trim_ascii(),
                }, )*
            ];
            const PRESETS: &'static [$crate::params::Preset<Self>] = &[
                $( $crate::params::Preset { name: $preset, says: $about, apply: $apply }, )*
            ];

            fn set(&mut self, name: &str, text: &str) -> Result<(), $crate::params::ParamError> {
                $(
                    if $crate::params::same_name(name, stringify!($field)) {
                        self.$field = <$ty as $crate::params::ParamValue>::read(text).map_err(|why| {
                            $crate::params::ParamError::Unreadable { name: stringify!($field), why }
                        })?;
                        return Ok(());
                    }
                )*
                Err($crate::params::ParamError::UnknownName)
            }

            fn each(
                &self,
                show: &mut dyn FnMut(&'static $crate::params::ParamInfo, &dyn core::fmt::Display),
            ) {
                let mut rows = Self::TABLE.iter();
                $(
                    if let Some(row) = rows.next() {
                        show(row, &self.$field);
                    }
                )*
            }

            fn check(&self) -> Result<(), $crate::params::ParamError> {
                $(
                    let holds: fn(&Self) -> bool = $holds;
                    if !holds(self) {
                        return Err($crate::params::ParamError::OutOfDomain {
                            name: stringify!($checked),
                            must: $must,
                        });
                    }
                )*
                Ok(())
            }
        }
    };
}

/// Declares an enum whose variants are words in a scenario file.
#[doc(hidden)]
#[macro_export]
macro_rules! __choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[doc = $says:literal])+ $variant:ident = $word:literal, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $says])+ $variant, )* }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self { $( Self::$variant => $word, )* })
            }
        }

        impl $crate::params::ParamValue for $name {
            fn read(text: &str) -> Result<Self, $crate::params::ValueError> {
                match text.trim() {
                    $( $word => Ok(Self::$variant), )*
                    _ => Err($crate::params::ValueError::NotOneOf(concat!($($word, " "),*).trim_ascii_end())),
                }
            }
        }
    };
}

pub use {__choice as choice, __params as params};
