//! Helps editors of scenario texts: positions of syntax errors, the number of cells, and additional sweep values.

use super::key_path::line_of_offset;
use toml::de::{DeTable, DeValue};

/// Returns the one-based line and column of the first TOML syntax error. Columns count characters.
pub fn syntax_error_position(text: &str) -> Option<(usize, usize)> {
    let error = text.parse::<toml::Table>().err()?;
    let offset = error.span()?.start.min(text.len());
    let line_start =
        text.as_bytes()[..offset].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let column = 1 + String::from_utf8_lossy(&text.as_bytes()[line_start..offset]).chars().count();
    Some((line_of_offset(text, offset), column))
}

/// Counts the cells of a scenario without reading them. Returns one for a text that is not valid TOML.
pub fn count_cells(text: &str) -> usize {
    let Ok(root) = DeTable::parse(text) else { return 1 };
    let Some(DeValue::Table(sweeps)) = root.get_ref().get("sweep").map(|value| value.get_ref()) else {
        return 1;
    };
    let length = |value: &DeValue<'_>| value.as_array().map_or(1, |values| values.len());
    sweeps.iter().fold(1, |cells: usize, (_, values)| cells.saturating_mul(length(values.get_ref())))
}

/// Appends a value to a sweep and returns the new text. The line numbers do not change.
///
/// Returns `None` if the scenario has no such sweep, if the values of the sweep are tables, or if `value` is not of the
/// same type as the other values: a number, or a string without quotes and control characters.
pub fn with_sweep_value(text: &str, sweep: &str, value: &str) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    let DeValue::Table(sweeps) = root.get_ref().get("sweep")?.get_ref() else { return None };
    let values = sweeps.get(sweep)?;
    let last = values.get_ref().as_array()?.iter().last()?;
    let literal = match last.get_ref() {
        DeValue::Integer(_) | DeValue::Float(_) => {
            let number: f64 = value.parse().ok()?;
            // TOML requires digits on both sides of the point.
            let is_plain = value.chars().all(|c| c.is_ascii_digit() || "+-.".contains(c));
            let has_digits = !value.starts_with('.') && !value.ends_with('.');
            (number.is_finite() && is_plain && has_digits).then(|| value.to_owned())?
        }
        DeValue::String(_) => {
            let is_plain = !value.contains(['"', '\\', '$']) && !value.chars().any(char::is_control);
            is_plain.then(|| format!("\"{value}\""))?
        }
        _ => return None,
    };
    let end = last.span().end;
    Some(format!("{}, {literal}{}", text.get(..end)?, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "title = \"t\"\n[sweep]\nload = [0.2,\n  0.8, # high\n]\nlaw = [\"swift\", \"hpcc\"]\n";

    #[test]
    fn syntax_errors_have_a_line_and_a_column() {
        assert_eq!(syntax_error_position(TEXT), None);
        assert_eq!(syntax_error_position("title = \"t\"\nlaw = = 3\n"), Some((2, 7)));
        assert_eq!(syntax_error_position("é = 1\n").map(|(line, _)| line), Some(1));
    }

    #[test]
    fn cells_are_counted_without_reading_them() {
        assert_eq!(count_cells(TEXT), 4);
        assert_eq!(count_cells("title = \"t\""), 1);
        assert_eq!(count_cells("[sweep"), 1);
        let long = format!("[sweep]\na = {0:?}\nb = {0:?}\nc = {0:?}\n", vec![1; 1_000]);
        assert_eq!(count_cells(&long), 1_000_000_000);
    }

    #[test]
    fn a_value_is_appended_to_its_sweep() {
        let text = with_sweep_value(TEXT, "load", "0.5").expect("the sweep has numbers");
        assert!(text.contains("  0.8, 0.5, # high\n]"), "{text}");
        let text = with_sweep_value(TEXT, "law", "poseidon").expect("the sweep has strings");
        assert!(text.contains("\"hpcc\", \"poseidon\"]"), "{text}");
        assert!(text.parse::<toml::Table>().is_ok());
    }

    #[test]
    fn values_of_another_type_are_rejected() {
        for (sweep, value) in [
            ("load", "fast"),
            ("load", "nan"),
            ("load", "1e999"),
            ("load", ".5"),
            ("load", "1] # "),
            ("law", "a\"]\nseeds = 3"),
            ("law", "line\nbreak"),
            ("law", "$n"),
            ("none", "1"),
        ] {
            assert_eq!(with_sweep_value(TEXT, sweep, value), None, "{sweep} {value}");
        }
        assert_eq!(with_sweep_value("[[sweep.how]]\nname = \"x\"\n", "how", "y"), None);
    }
}
