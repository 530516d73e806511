//! The counters of a run in its manifest.

use core::cell::RefCell;
use core::fmt;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Counters by name, in the order of the file. Runs of one program have the same names, so they share them: 10^5 runs
/// in one folder would otherwise store two million names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// `None` for a closed-form model, which has no counters.
    names: Option<Arc<[String]>>,
    /// The value of each name.
    values: Box<[Counter]>,
}

/// The value of a counter.
#[derive(Clone, Debug, PartialEq)]
enum Counter {
    Number(u64),
    Flag(bool),
    /// Any other value, which only other programs write.
    Other(Box<Value>),
}

impl From<Value> for Counter {
    fn from(value: Value) -> Self {
        match (value.as_u64(), value) {
            (Some(number), _) => Self::Number(number),
            (None, Value::Bool(flag)) => Self::Flag(flag),
            (None, other) => Self::Other(Box::new(other)),
        }
    }
}

impl Counter {
    fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => Value::from(*number),
            Self::Flag(flag) => Value::from(*flag),
            Self::Other(other) => (**other).clone(),
        }
    }
}

impl Counters {
    /// Creates counters.
    pub(crate) fn new<const N: usize>(counters: [(&str, Value); N]) -> Self {
        let names = intern(counters.iter().map(|(name, _)| (*name).to_owned()).collect());
        Self { names: Some(names), values: counters.into_iter().map(|(_, value)| value.into()).collect() }
    }

    /// Returns the value of a counter.
    pub fn get(&self, name: &str) -> Option<Value> {
        let index = self.names.as_ref()?.iter().position(|other| other == name)?;
        self.values.get(index).map(Counter::to_value)
    }

    /// Returns a counter that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let index = self.names.as_ref()?.iter().position(|other| other == name)?;
        match self.values.get(index)? {
            Counter::Number(number) => Some(*number),
            Counter::Flag(_) | Counter::Other(_) => None,
        }
    }
}

thread_local! {
    /// The names of the last counters that this thread has read.
    static LAST_NAMES: RefCell<Arc<[String]>> = RefCell::new(Arc::new([]));
}

/// Returns shared names that are equal to these.
fn intern(names: Vec<String>) -> Arc<[String]> {
    LAST_NAMES.with_borrow_mut(|last| {
        if **last != *names {
            *last = names.into();
        }
        Arc::clone(last)
    })
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(names) = &self.names else { return serializer.serialize_unit() };
        let mut map = serializer.serialize_map(Some(names.len()))?;
        for (name, value) in names.iter().zip(&self.values) {
            match value {
                Counter::Number(number) => map.serialize_entry(name, number)?,
                Counter::Flag(flag) => map.serialize_entry(name, flag)?,
                Counter::Other(other) => map.serialize_entry(name, other)?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Counters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountersVisitor)
    }
}

struct CountersVisitor;

impl<'de> Visitor<'de> for CountersVisitor {
    type Value = Counters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counters")
    }

    fn visit_unit<E>(self) -> Result<Counters, E> {
        Ok(Counters::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counters, A::Error> {
        let expected = LAST_NAMES.with_borrow(Arc::clone);
        // The names up to the first that is not expected are those of `expected`.
        let mut names: Option<Vec<String>> = None;
        let mut values: Vec<Counter> = Vec::with_capacity(expected.len());
        loop {
            let next = if names.is_none() { expected.get(values.len()).map(String::as_str) } else { None };
            let Some(other) = map.next_key_seed(ExpectedName(next))? else { break };
            if let Some(other) = other {
                names.get_or_insert_with(|| expected[..values.len()].to_vec()).push(other);
            }
            values.push(map.next_value::<Value>()?.into());
        }
        let names = match names {
            Some(names) => intern(names),
            None if values.len() == expected.len() => expected,
            None => intern(expected[..values.len()].to_vec()),
        };
        Ok(Counters { names: Some(names), values: values.into() })
    }
}

/// Reads a name. Returns `None` if it is the expected one, which needs no memory.
struct ExpectedName<'a>(Option<&'a str>);

impl<'de> DeserializeSeed<'de> for ExpectedName<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ExpectedName<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a counter")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<String>, E> {
        Ok((self.0 != Some(name)).then(|| name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> Counters {
        let counters: Counters = serde_json::from_str(text).expect("the counters are valid");
        assert_eq!(serde_json::to_string(&counters).expect("counters can be written"), text);
        counters
    }

    #[test]
    fn counters_keep_their_text_after_any_other_counters() {
        let texts = [
            r#"{"a":1,"b":true,"c":-2,"d":1.5,"e":"x","f":[1]}"#,
            r#"{"a":1,"b":2}"#,
            r#"{"b":2,"a":18446744073709551615}"#,
            r#"{"b":2,"a":1,"c":3}"#,
            r#"{}"#,
            "null",
        ];
        for first in texts {
            for second in texts {
                round_trip(first);
                round_trip(second);
            }
        }
    }

    #[test]
    fn counters_with_equal_names_share_them() {
        let [first, second] = [r#"{"a":1,"b":2}"#, r#"{"a":3,"b":4}"#].map(round_trip);
        let [first_names, second_names] = [&first, &second].map(|counters| counters.names.as_ref());
        assert!(Arc::ptr_eq(first_names.expect("not null"), second_names.expect("not null")));
        assert_eq!((first.number("b"), second.number("b"), second.number("c")), (Some(2), Some(4), None));
        assert_eq!(second.get("a"), Some(Value::from(3)));
    }
}
