//! Deserializes the scenario types from TOML values.
//!
//! Errors are typed and carry the path of the offending key. A table with a `kind` is deserialized directly as an
//! enum variant, so its errors have a path too.

use super::error::{SpecError, SpecErrorKind};
use super::suggestion::Suggestion;
use core::fmt::Display;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use toml::{Table, Value};

/// Deserializes a value from a table.
pub(super) fn read<T: DeserializeOwned>(table: Table) -> Result<T, SpecError> {
    T::deserialize(ValueReader(Value::Table(table)))
}

/// The key that selects the variant of a tagged table.
const TAG: &str = "kind";

impl Error for SpecError {
    fn custom<T: Display>(message: T) -> Self {
        SpecErrorKind::InvalidText { message: message.to_string() }.at_root()
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        SpecErrorKind::WrongType { found: found.to_string(), expected: expected.to_string() }.at_root()
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        SpecErrorKind::InvalidValue { found: found.to_string(), expected: expected.to_string() }.at_root()
    }

    fn unknown_variant(value: &str, expected: &'static [&'static str]) -> Self {
        let suggestion = Suggestion::new(value, expected);
        SpecErrorKind::UnknownValue { value: value.to_owned(), suggestion }.at_root()
    }

    fn unknown_field(key: &str, expected: &'static [&'static str]) -> Self {
        let suggestion = Suggestion::new(key, expected);
        SpecErrorKind::UnknownKey { key: key.to_owned(), suggestion }.at_root()
    }

    fn missing_field(key: &'static str) -> Self {
        SpecErrorKind::MissingKey { key }.at_root()
    }
}

/// A deserializer for one value.
struct ValueReader(Value);

impl<'de> Deserializer<'de> for ValueReader {
    type Error = SpecError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SpecError> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Boolean(flag) => visitor.visit_bool(flag),
            Value::Datetime(time) => visitor.visit_string(time.to_string()),
            Value::Array(list) => visitor.visit_seq(ListReader { values: list.into_iter().enumerate() }),
            Value::Table(table) => visitor.visit_map(TableReader::new(table)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SpecError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SpecError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SpecError> {
        match self.0 {
            Value::String(variant) => visitor.visit_enum(string_deserializer(variant)),
            Value::Table(mut table) => match table.remove(TAG) {
                Some(Value::String(variant)) => visitor.visit_enum(TaggedTable { variant, table }),
                Some(other) => Err(SpecError::invalid_type(unexpected(&other), &"a string").prepend_key(TAG)),
                None => Err(SpecError::missing_field(TAG)),
            },
            other => Err(SpecError::invalid_type(unexpected(&other), &"a string")),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn string_deserializer(text: String) -> StringDeserializer<SpecError> {
    text.into_deserializer()
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::String(text) => Unexpected::Str(text),
        Value::Integer(number) => Unexpected::Signed(*number),
        Value::Float(number) => Unexpected::Float(*number),
        Value::Boolean(flag) => Unexpected::Bool(*flag),
        Value::Datetime(_) => Unexpected::Other("date"),
        Value::Array(_) => Unexpected::Seq,
        Value::Table(_) => Unexpected::Map,
    }
}

/// Deserializes the values of a list in order.
struct ListReader {
    values: core::iter::Enumerate<std::vec::IntoIter<Value>>,
}

impl<'de> SeqAccess<'de> for ListReader {
    type Error = SpecError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, SpecError> {
        let Some((index, value)) = self.values.next() else { return Ok(None) };
        seed.deserialize(ValueReader(value)).map(Some).map_err(|error| error.prepend_key(index))
    }
}

/// Deserializes the keys and values of a table in order.
struct TableReader {
    entries: toml::map::IntoIter<String, Value>,
    /// The key that was read last, and its value, which has not been read yet.
    current: Option<(String, Value)>,
}

impl TableReader {
    fn new(table: Table) -> Self {
        Self { entries: table.into_iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for TableReader {
    type Error = SpecError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, SpecError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        let result = seed
            .deserialize(string_deserializer(key.clone()))
            .map_err(|error| error.prepend_key(key.as_str()));
        self.current = Some((key, value));
        result.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, SpecError> {
        let (key, value) = self.current.take().expect("serde reads a key before its value");
        seed.deserialize(ValueReader(value)).map_err(|error| error.prepend_key(key.as_str()))
    }
}

/// A table whose `kind` selects a variant; the other keys are the variant's fields.
struct TaggedTable {
    variant: String,
    table: Table,
}

impl<'de> EnumAccess<'de> for TaggedTable {
    type Error = SpecError;
    type Variant = TableReader;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, TableReader), SpecError> {
        let variant =
            seed.deserialize(string_deserializer(self.variant)).map_err(|error| error.prepend_key(TAG))?;
        Ok((variant, TableReader::new(self.table)))
    }
}

impl<'de> VariantAccess<'de> for TableReader {
    type Error = SpecError;

    fn unit_variant(self) -> Result<(), SpecError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, SpecError> {
        seed.deserialize(MapAccessDeserializer::new(self))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, SpecError> {
        visitor.visit_map(self)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SpecError> {
        visitor.visit_map(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    enum Item {
        Small { size: u8 },
    }

    fn error_path(text: &str) -> String {
        let table = text.parse().expect("the test input is valid TOML");
        read::<Outer>(table).expect_err(text).key_path.to_string()
    }

    #[test]
    fn a_tagged_table_is_read_as_its_variant() {
        let table = "[[items]]\nsize = 3\nkind = \"small\"\n".parse().expect("the test input is valid TOML");
        assert_eq!(read::<Outer>(table), Ok(Outer { items: vec![Item::Small { size: 3 }] }));
    }

    #[test]
    fn errors_carry_the_path_of_their_key() {
        assert_eq!(error_path("itms = []\n"), "itms");
        assert_eq!(error_path("items = 3\n"), "items");
        assert_eq!(error_path("[[items]]\nkind = \"smal\"\n"), "items[0].kind");
        assert_eq!(error_path("[[items]]\nkind = \"small\"\nsize = 300\n"), "items[0].size");
        assert_eq!(error_path("[[items]]\nkind = \"small\"\nsiz = 3\n"), "items[0].siz");
        assert_eq!(error_path("[[items]]\nkind = \"small\"\n"), "items[0]");
    }
}
