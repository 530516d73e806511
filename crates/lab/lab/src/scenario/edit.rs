//! Helps editors of scenario texts: positions of syntax errors, the number of cells, additional sweep values, and other
//! laws.

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
        DeValue::String(_) => is_plain_text(value).then(|| format!("\"{value}\""))?,
        _ => return None,
    };
    let end = last.span().end;
    Some(format!("{}, {literal}{}", text.get(..end)?, text.get(end..)?))
}

/// Replaces the laws of a scenario and returns the new text: the values of its sweep `law` or, for a single law, the
/// value of its key `law`. The line numbers do not change if the values are on one line.
///
/// Returns `None` if the scenario has neither, if the values of the sweep are tables, or if a name contains quotes or
/// control characters.
pub fn with_laws(text: &str, laws: &[&str]) -> Option<String> {
    if laws.is_empty() || laws.iter().any(|law| !is_plain_text(law)) {
        return None;
    }
    let root = DeTable::parse(text).ok()?;
    let root = root.get_ref();
    let sweep = root.get("sweep").and_then(|sweeps| sweeps.get_ref().as_table()?.get("law"));
    let (span, replacement) = match (sweep, root.get("law"), laws) {
        (Some(sweep), _, laws) => {
            let values = sweep.get_ref().as_array()?;
            let is_text = |value: &DeValue<'_>| matches!(value, DeValue::String(_));
            if !values.iter().all(|value| is_text(value.get_ref())) {
                return None;
            }
            let names: Vec<String> = laws.iter().map(|law| format!("\"{law}\"")).collect();
            (sweep.span(), format!("[{}]", names.join(", ")))
        }
        (None, Some(law), [name]) => (law.span(), format!("\"{name}\"")),
        _ => return None,
    };
    Some(format!("{}{replacement}{}", text.get(..span.start)?, text.get(span.end..)?))
}

/// Returns whether a text can be written between quotes without escapes.
fn is_plain_text(text: &str) -> bool {
    !text.contains(['"', '\\', '$']) && !text.chars().any(char::is_control)
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
    fn laws_are_replaced_in_the_sweep_or_in_the_key() {
        let text = with_laws(TEXT, &["dctcp"]).expect("the scenario has a sweep of laws");
        assert_eq!(text, TEXT.replace("[\"swift\", \"hpcc\"]", "[\"dctcp\"]"));
        let text = with_laws(TEXT, &["a b", "c"]).expect("the scenario has a sweep of laws");
        assert!(text.ends_with("law = [\"a b\", \"c\"]\n"), "{text}");
        let single = "law = 'swift' # ours\n[topology]\n";
        assert_eq!(with_laws(single, &["cubic"]).as_deref(), Some("law = \"cubic\" # ours\n[topology]\n"));
        for (text, laws) in [
            (single, ["a", "b"].as_slice()),
            (single, &["a\"b"]),
            (single, &[]),
            ("title = \"t\"\n", &["cubic"]),
            ("[[sweep.law]]\nname = \"x\"\n", &["cubic"]),
        ] {
            assert_eq!(with_laws(text, laws), None, "{text} {laws:?}");
        }
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
