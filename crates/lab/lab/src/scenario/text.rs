//! Scenario quantities, which are written as strings with a unit.

use core::fmt;
use core::str::FromStr;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
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
/// A ratio: `0.6`, `"0.6"` or `"60 %"`.
pub type Ratio = WithUnit<Fraction>;

/// A type that scenarios write as a string with a unit.
pub trait UnitText: FromStr<Err: fmt::Display> {
    /// The type name in the schema.
    const NAME: &'static str;
    /// A description of the expected string, with an example.
    const EXPECTED: &'static str;
    /// Whether a number without quotes is allowed, because the quantity has no unit.
    const ALLOWS_NUMBERS: bool = false;

    /// Parses the text of a scenario.
    fn parse_text(text: &str) -> Result<Self, Self::Err> {
        text.parse()
    }
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
    const EXPECTED: &'static str = "a number or a percentage: 0.6, \"0.6\" or \"60 %\"";
    const ALLOWS_NUMBERS: bool = true;

    fn parse_text(text: &str) -> Result<Self, Self::Err> {
        match text.trim().strip_suffix('%').and_then(|percent| divide_by_100(percent.trim())) {
            Some(decimal) => decimal.parse(),
            None => text.parse(),
        }
    }
}

/// Divides a decimal number by 100 without rounding, by moving its point. Returns `None` if the text has another form.
fn divide_by_100(number: &str) -> Option<String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_valid = !whole.is_empty() && whole.chars().chain(fraction.chars()).all(|c| c.is_ascii_digit());
    let whole = format!("{whole:0>3}");
    let (before, after) = whole.split_at(whole.len().checked_sub(2)?);
    is_valid.then(|| format!("{before}.{after}{fraction}"))
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
                T::parse_text(text).map(WithUnit).map_err(|error| E::custom(format!("{text:?}: {error}")))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                if T::ALLOWS_NUMBERS {
                    self.visit_str(&number.to_string())
                } else {
                    Err(E::invalid_type(Unexpected::Signed(number), &self))
                }
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                if T::ALLOWS_NUMBERS {
                    self.visit_str(&number.to_string())
                } else {
                    Err(E::invalid_type(Unexpected::Float(number), &self))
                }
            }
        }
        deserializer.deserialize_any(UnitVisitor(core::marker::PhantomData))
    }
}

impl<T: UnitText> JsonSchema for WithUnit<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        if T::ALLOWS_NUMBERS {
            json_schema!({ "type": ["string", "number"], "description": T::EXPECTED })
        } else {
            json_schema!({ "type": "string", "description": T::EXPECTED })
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn percentages_are_divided_exactly() {
        let divide = |text| divide_by_100(text);
        assert_eq!(divide("60").as_deref(), Some("0.60"));
        assert_eq!(divide("7.5").as_deref(), Some("0.075"));
        assert_eq!(divide("100").as_deref(), Some("1.00"));
        assert_eq!(divide("12345.6").as_deref(), Some("123.456"));
        for text in ["", "-1", "1e2", "1.2.3", "."] {
            assert_eq!(divide(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_ratio_is_a_number_a_string_or_a_percentage() {
        let read =
            |text: &str| toml::from_str::<BTreeMap<String, Ratio>>(text).expect("the ratio is valid")["load"];
        assert_eq!(read("load = \"60 %\""), read("load = \"0.6\""));
        assert_eq!(read("load = 0.6"), read("load = \"0.6\""));
        assert_eq!(read("load = 1"), read("load = \"1\""));
    }

    #[test]
    fn other_quantities_need_a_unit() {
        assert!(toml::from_str::<BTreeMap<String, Time>>("start = 3").is_err());
        assert!(toml::from_str::<BTreeMap<String, Time>>("start = \"60 %\"").is_err());
    }
}
