//! Quantities as scenarios write them: text with a unit, read by the type that they become.

use core::fmt;
use core::str::FromStr;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// A quantity that was written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Text<T>(pub T);

/// `"10 ms"`, to the picosecond.
pub type Time = Text<Picos>;
/// `"250 us"`, to the nanosecond: what hosts count in.
pub type HostTime = Text<Nanos>;
/// `"200 Gbps"`.
pub type Rate = Text<BitRate>;
/// `"64 MB"`, `"4096 B"`.
pub type Size = Text<Bytes>;
/// `"0.6"`.
pub type Part = Text<Fraction>;

/// A type that is written as text with a unit.
pub trait Written: FromStr<Err: fmt::Display> {
    /// What it is called in a schema.
    const NAME: &'static str;
    /// How it is written.
    const LIKE: &'static str;
}

impl Written for Picos {
    const NAME: &'static str = "Time";
    const LIKE: &'static str = "a time with its unit: \"245 ns\", \"10 ms\"";
}
impl Written for Nanos {
    const NAME: &'static str = "HostTime";
    const LIKE: &'static str = "a time of whole nanoseconds with its unit: \"250 us\"";
}
impl Written for BitRate {
    const NAME: &'static str = "Rate";
    const LIKE: &'static str = "a rate with its unit: \"200 Gbps\"";
}
impl Written for Bytes {
    const NAME: &'static str = "Size";
    const LIKE: &'static str = "a size with its unit: \"64 MB\", \"128 KiB\", \"4096 B\"";
}
impl Written for Fraction {
    const NAME: &'static str = "Part";
    const LIKE: &'static str = "a plain decimal in text: \"0.6\"";
}

impl<'de, T: Written> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(core::marker::PhantomData<T>);
        impl<T: Written> Visitor<'_> for Reader<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::LIKE)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map(Text).map_err(|error| E::custom(format!("{text:?}: {error}")))
            }
        }
        deserializer.deserialize_str(Reader(core::marker::PhantomData))
    }
}

impl<T: Written> JsonSchema for Text<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": T::LIKE })
    }
}

/// One text or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OneOrMore(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = OneOrMore;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(OneOrMore(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(OneOrMore(texts))
            }
        }
        deserializer.deserialize_any(Reader)
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

/// A value as people write it, without quotes. Sweeps name their values so, and claims theirs.
pub(super) fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One value or a list of them, each as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalars(pub Vec<String>);

impl<'de> Deserialize<'de> for Scalars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match toml::Value::deserialize(deserializer)? {
            toml::Value::Array(list) => Self(list.iter().map(plain).collect()),
            one => Self(vec![plain(&one)]),
        })
    }
}

impl JsonSchema for Scalars {
    fn schema_name() -> Cow<'static, str> {
        "Scalars".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json_schema!({ "type": ["string", "number", "boolean"] });
        json_schema!({ "anyOf": [one, { "type": "array", "items": { "type": ["string", "number", "boolean"] } }] })
    }
}

/// A value of a parameter: text, a number or a truth, kept as the text that its owner reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text with a unit, a number, true or false")
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
                Ok(Scalar(plain(&toml::Value::Float(value))))
            }
        }
        deserializer.deserialize_any(Reader)
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
