//! The schema of scenarios, for editors.

use super::Scenario;
use schemars::Schema;
use serde_json::{Map, Value, json};

/// The JSON Schema of a scenario file. It is that of [`Scenario`], and a variable of a sweep (`"$n"`) may stand wherever a value does.
pub fn schema() -> Schema {
    let mut schema = schemars::schema_for!(Scenario);
    let table = schema.ensure_object();
    allow_variables(table);
    if let Some(Value::Object(definitions)) = table.get_mut("$defs") {
        definitions.values_mut().filter_map(Value::as_object_mut).for_each(allow_variables);
        definitions.insert(
            "Variable".to_owned(),
            json!({ "type": "string", "pattern": VARIABLE, "description": "a variable of a sweep: \"$n\"" }),
        );
    }
    schema
}

/// A text that is nothing but a variable: it becomes the value itself, with its type.
const VARIABLE: &str = "^\\$[A-Za-z0-9_]+$";

/// Lets a variable stand for each value in a table, and in the tables and lists inside it.
fn allow_variables(schema: &mut Map<String, Value>) {
    for key in ["oneOf", "anyOf", "allOf"] {
        for part in schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            part.as_object_mut().into_iter().for_each(allow_variables);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(allow_variable);
    }
    for key in ["additionalProperties", "items"] {
        schema.get_mut(key).into_iter().for_each(allow_variable);
    }
}

/// Lets a variable stand for a value.
fn allow_variable(value: &mut Value) {
    let Value::Object(schema) = value else { return };
    allow_variables(schema);
    // The kind of a topology decides which keys it has, so it must be there as it is.
    if schema.contains_key("const") || takes_any_text(schema) {
        return;
    }
    let variable = json!({ "$ref": "#/$defs/Variable" });
    if let Some(Value::Array(forms)) = schema.get_mut("anyOf") {
        forms.push(variable);
        return;
    }
    // What describes the key stays with the key.
    let mut form = core::mem::take(schema);
    for key in ["description", "default"] {
        if let Some(said) = form.remove(key) {
            schema.insert(key.to_owned(), said);
        }
    }
    schema.insert("anyOf".to_owned(), json!([form, variable]));
}

/// Whether any text may stand there, and so a variable too.
fn takes_any_text(schema: &Map<String, Value>) -> bool {
    let is_text = |kind: &Value| kind == "string";
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_text),
        Some(kind) => is_text(kind) && !schema.contains_key("enum"),
        // A schema without any keyword takes everything.
        None => !["$ref", "anyOf", "oneOf", "allOf", "enum"].iter().any(|key| schema.contains_key(*key)),
    }
}
