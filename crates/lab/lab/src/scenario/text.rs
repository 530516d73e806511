//! Scenario quantities, which are written as strings with a unit.

use core::fmt;
use core::str::FromStr;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// A quantity that scenarios write as a string with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct WithUnit<T>(pub T);

/// A time in picoseconds: `"10 ms"`.
pub type Time = WithUnit<Picos>;
/// A host time in whole nanoseconds: `"250 us"`.
pub type HostTime = WithUnit<Nanos>;
/// A rate: `"200 Gbps"`.
pub type Rate = WithUnit<BitRate>;
/// A size: `"64 MB"`, `"4096 B"`.
pub type Size = WithUnit<Bytes>;
/// A ratio as a decimal: `"0.6"`.
pub type Ratio = WithUnit<Fraction>;

/// A type that scenarios write as a string with a unit.
pub trait UnitText: FromStr<Err: fmt::Display> {
    /// The type name in the schema.
    const NAME: &'static str;
    /// A description of the expected string, with an example.
    const EXPECTED: &'static str;
}

impl UnitText for Picos {
    const NAME: &'static str = "Time";
    const EXPECTED: &'static str = "a time with a unit: \"245 ns\", \"10 ms\"";
}
impl UnitText for Nanos {
    const NAME: &'static str = "HostTime";
    const EXPECTED: &'static str = "a time in whole nanoseconds with a unit: \"250 us\"";
}
impl UnitText for BitRate {
    const NAME: &'static str = "Rate";
    const EXPECTED: &'static str = "a rate with a unit: \"200 Gbps\"";
}
impl UnitText for Bytes {
    const NAME: &'static str = "Size";
    const EXPECTED: &'static str = "a size with a unit: \"64 MB\", \"128 KiB\", \"4096 B\"";
}
impl UnitText for Fraction {
    const NAME: &'static str = "Part";
    const EXPECTED: &'static str = "a decimal number as a string: \"0.6\"";
}

impl<'de, T: UnitText> Deserialize<'de> for WithUnit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UnitVisitor<T>(core::marker::PhantomData<T>);
        impl<T: UnitText> Visitor<'_> for UnitVisitor<T> {
            type Value = WithUnit<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map(WithUnit).map_err(|error| E::custom(format!("{text:?}: {error}")))
            }
        }
        deserializer.deserialize_str(UnitVisitor(core::marker::PhantomData))
    }
}

impl<T: UnitText> JsonSchema for WithUnit<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": T::EXPECTED })
    }
}

/// One string or a list of strings.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OneOrMore(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMoreVisitor;
        impl<'de> Visitor<'de> for OneOrMoreVisitor {
            type Value = OneOrMore;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(OneOrMore(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut strings = Vec::new();
                while let Some(text) = list.next_element()? {
                    strings.push(text);
                }
                Ok(OneOrMore(strings))
            }
        }
        deserializer.deserialize_any(OneOrMoreVisitor)
    }
}

impl JsonSchema for OneOrMore {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMore".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// Formats a value without quotes. Sweeps and claims refer to values by this text.
pub(super) fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One value or a list of values, each as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalars(pub Vec<String>);

impl<'de> Deserialize<'de> for Scalars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match toml::Value::deserialize(deserializer)? {
            toml::Value::Array(list) => Self(list.iter().map(text_of).collect()),
            single => Self(vec![text_of(&single)]),
        })
    }
}

impl JsonSchema for Scalars {
    fn schema_name() -> Cow<'static, str> {
        "Scalars".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let scalar = json_schema!({ "type": ["string", "number", "boolean"] });
        json_schema!({ "anyOf": [scalar, { "type": "array", "items": { "type": ["string", "number", "boolean"] } }] })
    }
}

/// A parameter value: a string, a number or a boolean. The value is stored as a string, which the parameter's owner
/// parses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string with a unit, a number, true or false")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
                Ok(Scalar(text_of(&toml::Value::Float(value))))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
