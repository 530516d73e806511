//! Converts values between Python, TOML and JSON.

use crate::error::invalid;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use toml::{Table, Value};

/// Deeper values are refused, so that a list that contains itself cannot exhaust the stack.
const MAX_DEPTH: usize = 32;

/// Converts a dictionary to a TOML table.
pub(crate) fn to_table(dict: &Bound<'_, PyDict>) -> PyResult<Table> {
    table_at(dict, "", 0)
}

/// Converts a value to TOML. `key` names it in errors.
pub(crate) fn to_value(value: &Bound<'_, PyAny>, key: &str) -> PyResult<Value> {
    value_at(value, key, 0)
}

fn table_at(dict: &Bound<'_, PyDict>, path: &str, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in dict.iter() {
        let Ok(key) = key.cast::<PyString>() else {
            return Err(invalid(format!("a key of {path:?} is {key}; write a string")));
        };
        let key = key.to_str()?;
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        table.insert(key.to_owned(), value_at(&value, &path, depth + 1)?);
    }
    Ok(table)
}

fn value_at(value: &Bound<'_, PyAny>, path: &str, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        return Err(invalid(format!("{path:?} is nested more than {MAX_DEPTH} levels deep")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    // A bool is an int in Python, so it comes first.
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract::<i64>();
        return number
            .map(Value::Integer)
            .map_err(|_| invalid(format!("{path:?} is {value}; write a number below 2^63")));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(value.extract()?));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Value::Table(table_at(dict, path, depth)?));
    }
    if value.is_none() {
        return Err(invalid(format!("{path:?} is None; leave the key out instead")));
    }
    if let Ok(items) = value.try_iter() {
        let item = |(index, item): (usize, PyResult<Bound<'_, PyAny>>)| {
            value_at(&item?, &format!("{path}.{index}"), depth + 1)
        };
        return Ok(Value::Array(items.enumerate().map(item).collect::<PyResult<_>>()?));
    }
    Err(invalid(format!(
        "{path:?} is of type {}; write a string, a number, a list or a dict",
        value.get_type()
    )))
}

/// Sets the value of a key such as `laws.hpcc.paced` or `traffic.0.size`. Tables that do not exist are created.
pub(crate) fn set_key(table: &mut Table, path: &str, value: Value) -> PyResult<()> {
    let (tables, last) = match path.rsplit_once('.') {
        Some((tables, last)) => (tables.split('.').collect(), last),
        None => (Vec::new(), path),
    };
    let mut current = table;
    let mut segments = tables.into_iter().peekable();
    while let Some(segment) = segments.next() {
        let entry = current.entry(segment).or_insert_with(|| Value::Table(Table::new()));
        current = match entry {
            Value::Table(table) => table,
            Value::Array(items) => {
                let (count, index) = (items.len(), segments.next().unwrap_or(last));
                let item = index.parse().ok().and_then(|index: usize| items.get_mut(index));
                match item {
                    Some(Value::Table(table)) => table,
                    _ => {
                        let text =
                            format!("the override {path:?} needs a number below {count} after {segment:?}");
                        return Err(invalid(text));
                    }
                }
            }
            _ => {
                return Err(invalid(format!(
                    "the override {path:?} goes through {segment:?}, which is a value"
                )));
            }
        };
    }
    current.insert(last.to_owned(), value);
    Ok(())
}

/// Converts JSON to Python objects.
pub(crate) fn from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

/// Escapes a text for HTML.
pub(crate) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
