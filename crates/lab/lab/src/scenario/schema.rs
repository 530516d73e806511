//! The JSON Schema for scenarios, used by editors.

use super::Scenario;
use schemars::Schema;
use serde_json::{Map, Value, json};

/// Returns the JSON Schema for scenario files. This is the schema of [`Scenario`], except that a sweep variable
/// (`"$n"`) may replace any value.
pub fn schema() -> Schema {
    let mut schema = schemars::schema_for!(Scenario);
    let table = schema.ensure_object();
    allow_variables(table);
    if let Some(Value::Object(definitions)) = table.get_mut("$defs") {
        definitions.values_mut().filter_map(Value::as_object_mut).for_each(allow_variables);
        definitions.insert(
            "Variable".to_owned(),
            json!({ "type": "string", "pattern": VARIABLE, "description": "a sweep variable: \"$n\"" }),
        );
    }
    schema
}

/// Matches a string that consists of a single variable. The variable's value replaces the string and keeps its type.
const VARIABLE: &str = "^\\$[A-Za-z0-9_]+$";

/// Allows variables in place of a table's values, including values in nested tables and lists.
fn allow_variables(schema: &mut Map<String, Value>) {
    for key in ["oneOf", "anyOf", "allOf"] {
        for subschema in schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            subschema.as_object_mut().into_iter().for_each(allow_variables);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(allow_variable);
    }
    for key in ["additionalProperties", "items"] {
        schema.get_mut(key).into_iter().for_each(allow_variable);
    }
}

/// Allows a variable in place of a value.
fn allow_variable(value: &mut Value) {
    let Value::Object(schema) = value else { return };
    allow_variables(schema);
    // The topology kind determines the valid keys, so a variable cannot replace the kind.
    if schema.contains_key("const") || accepts_any_string(schema) {
        return;
    }
    let variable = json!({ "$ref": "#/$defs/Variable" });
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.push(variable);
        return;
    }
    // Keep the description and the default at the top level.
    let mut original = core::mem::take(schema);
    for key in ["description", "default"] {
        if let Some(value) = original.remove(key) {
            schema.insert(key.to_owned(), value);
        }
    }
    schema.insert("anyOf".to_owned(), json!([original, variable]));
}

/// Returns whether the schema accepts any string, and therefore also a variable.
fn accepts_any_string(schema: &Map<String, Value>) -> bool {
    let is_string = |kind: &Value| kind == "string";
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_string),
        Some(kind) => is_string(kind) && !schema.contains_key("enum"),
        // A schema without any of these keywords accepts everything.
        None => !["$ref", "anyOf", "oneOf", "allOf", "enum"].iter().any(|key| schema.contains_key(*key)),
    }
}
