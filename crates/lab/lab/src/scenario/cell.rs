//! Cells, which are combinations of sweep values.
//!
//! Each sweep value replaces `$sweep` in the scenario text. The result is a scenario with the same line numbers. If a
//! sweep value is a table, it has a `name`, optional variables, and a `set` of keys to override.

use super::error::{ScenarioError, SpecError, SpecErrorKind, Subject};
use super::key_path::KeyPath;
use super::suggestion::Suggestion;
use super::text::text_of;
use super::{Scenario, Time, reader};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// A cell's value for one sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// The sweep name.
    pub sweep: String,
    /// The value's name.
    pub value: String,
}

/// One combination of sweep values, and the resulting scenario.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The value of each sweep, in file order.
    pub labels: Vec<Label>,
    /// The scenario with these values.
    pub scenario: Scenario,
    overrides: Vec<Override>,
}

impl Cell {
    /// Finds the line of an error in the scenario file.
    pub(crate) fn locate(&self, file: &str, text: &str, error: SpecError) -> ScenarioError {
        locate(file, text, error, &self.overrides)
    }
}

/// A key that a sweep sets.
#[derive(Clone, Debug)]
struct Override {
    /// The key whose value is replaced.
    target: KeyPath,
    /// The key in the sweep that provides the value.
    source: KeyPath,
}

fn locate(file: &str, text: &str, error: SpecError, overrides: &[Override]) -> ScenarioError {
    let found = overrides.iter().find(|entry| entry.target.contains(&error.key_path));
    match found {
        Some(Override { source, .. }) => {
            let line = source.line(text);
            ScenarioError { file: file.to_owned(), line, cell: None, error }
        }
        None => ScenarioError::new(file, text, error),
    }
}

/// A sweep and the values to run.
struct Sweep {
    name: String,
    values: Vec<SweepValue>,
}

/// A sweep value.
struct SweepValue {
    name: String,
    variables: Vec<(String, Value)>,
    settings: Vec<Setting>,
}

/// A key that a sweep value sets.
struct Setting {
    /// The key as a dotted path.
    key: String,
    value: Value,
    /// The key path of this setting in the scenario file.
    source: KeyPath,
}

/// Reads a scenario's cells. If `quick` is set, reads only the cells of its quick run.
pub fn read_cells(file: &str, text: &str, quick: bool) -> Result<Vec<Cell>, ScenarioError> {
    let table: Table = text.parse().map_err(|error| ScenarioError::syntax(file, text, &error))?;
    let sweeps = read_sweeps(&table, quick).map_err(|error| ScenarioError::new(file, text, error))?;
    let mut combinations: Vec<Vec<(&str, &SweepValue)>> = vec![Vec::new()];
    for sweep in &sweeps {
        combinations = combinations
            .iter()
            .flat_map(|outer| {
                sweep.values.iter().map(|value| {
                    let mut combination = outer.clone();
                    combination.push((sweep.name.as_str(), value));
                    combination
                })
            })
            .collect();
    }
    combinations.iter().map(|combination| read_cell(file, text, combination, quick)).collect()
}

/// The maximum number of cells in a study. Each cell stores a scenario of about 10 kB, so this many cells take about 1
/// GB.
const MAX_CELLS: usize = 100_000;

/// Reads a scenario's sweeps. If `quick` is set, reads only the values of its quick run.
fn read_sweeps(table: &Table, quick: bool) -> Result<Vec<Sweep>, SpecError> {
    let empty = Table::new();
    let sweeps = match table.get("sweep") {
        Some(Value::Table(sweeps)) => sweeps,
        Some(_) => return Err(SpecErrorKind::SweepNotATable.at(["sweep"])),
        None => &empty,
    };
    // Someone who changes a sweep need not change the quick form, unless they use it.
    let quick_values = if quick { quick_values(table) } else { BTreeMap::new() };
    if let Some(name) = quick_values.keys().find(|name| !sweeps.contains_key(*name)) {
        let suggestion = Suggestion::new(name, sweeps.keys());
        return Err(quick_error(SpecErrorKind::UnknownSweep { sweep: name.clone(), suggestion }, name));
    }
    check_cell_count(sweeps, &quick_values)?;
    sweeps
        .iter()
        .map(|(name, values)| read_sweep(name, values, quick_values.get(name).map(Vec::as_slice)))
        .collect()
}

/// Reads a sweep. `quick_names` lists the values to keep, if this is a quick run that shortens the sweep.
fn read_sweep(name: &str, values: &Value, quick_names: Option<&[String]>) -> Result<Sweep, SpecError> {
    let mut values = read_sweep_values(name, values)?;
    let is_known = |value: &&String| values.iter().any(|known| known.name == **value);
    if let Some(value) = quick_names.into_iter().flatten().find(|value| !is_known(value)) {
        let suggestion = Suggestion::new(value, values.iter().map(|value| &value.name));
        let (sweep, value) = (name.to_owned(), value.clone());
        return Err(quick_error(SpecErrorKind::UnknownQuickValue { sweep, value, suggestion }, name));
    }
    if let Some(quick_names) = quick_names {
        values.retain(|value| quick_names.contains(&value.name));
    }
    if values.is_empty() {
        return Err(SpecErrorKind::EmptySweep { sweep: name.to_owned() }.at(["sweep", name]));
    }
    Ok(Sweep { name: name.to_owned(), values })
}

fn quick_error(kind: SpecErrorKind, sweep: &str) -> SpecError {
    kind.at(["quick", "sweep", sweep]).about(Subject::Key(KeyPath::new(["quick", "sweep"])))
}

/// Rejects sweeps with more than [`MAX_CELLS`] combinations before any cell is created. The error points to the longest
/// sweep.
fn check_cell_count(sweeps: &Table, quick_values: &BTreeMap<String, Vec<String>>) -> Result<(), SpecError> {
    let length = |(name, values): (&String, &Value)| {
        let full = values.as_array().map_or(1, Vec::len);
        (quick_values.get(name).map_or(full, Vec::len), name.clone())
    };
    let lengths: Vec<(usize, String)> = sweeps.iter().map(length).collect();
    let cells = lengths.iter().fold(1, |cells: usize, (length, _)| cells.saturating_mul(*length));
    match lengths.into_iter().max() {
        Some((values, sweep)) if cells > MAX_CELLS => {
            let path = KeyPath::new(["sweep", &sweep]);
            let (cells, limit) = (cells.into(), MAX_CELLS.into());
            Err(SpecErrorKind::TooManyCells { sweep, values, cells, limit }.at_path(path))
        }
        _ => Ok(()),
    }
}

/// For each sweep that a quick run shortens, returns the names of the values to keep.
fn quick_values(table: &Table) -> BTreeMap<String, Vec<String>> {
    let sweeps = table.get("quick").and_then(|quick| quick.get("sweep")).and_then(Value::as_table);
    let names = |list: &Value| list.as_array().into_iter().flatten().map(text_of).collect();
    sweeps.into_iter().flatten().map(|(sweep, list)| (sweep.clone(), names(list))).collect()
}

fn read_sweep_values(sweep: &str, values: &Value) -> Result<Vec<SweepValue>, SpecError> {
    let path = || KeyPath::new(["sweep", sweep]);
    let Value::Array(values) = values else {
        return Err(SpecErrorKind::SweepNotAList { sweep: sweep.to_owned() }.at_path(path()));
    };
    if sweep == "phase" {
        return Err(SpecErrorKind::SweepOfPhases.at_path(path()));
    }
    let values: Vec<SweepValue> = values
        .iter()
        .enumerate()
        .map(|(index, value)| read_sweep_value(sweep, value, &path().join(index)))
        .collect::<Result<_, _>>()?;
    let names: BTreeSet<&str> = values.iter().map(|value| value.name.as_str()).collect();
    if names.len() < values.len() {
        return Err(SpecErrorKind::RepeatedSweepValue { sweep: sweep.to_owned() }.at_path(path()));
    }
    Ok(values)
}

/// Reads the sweep value at `path`.
fn read_sweep_value(sweep: &str, value: &Value, path: &KeyPath) -> Result<SweepValue, SpecError> {
    let error = |kind: SpecErrorKind| kind.at_path(path.clone());
    let Value::Table(table) = value else {
        let setting = || Setting { key: "law".to_owned(), value: value.clone(), source: path.clone() };
        let settings = match (sweep, value) {
            ("law", Value::String(_)) => vec![setting()],
            ("law", _) => return Err(error(SpecErrorKind::LawNotText { value: value.to_string() })),
            _ => Vec::new(),
        };
        let variables = vec![(sweep.to_owned(), value.clone())];
        return Ok(SweepValue { name: text_of(value), variables, settings });
    };
    let Some(Value::String(name)) = table.get("name") else {
        return Err(error(SpecErrorKind::UnnamedSweepValue { sweep: sweep.to_owned() }));
    };
    let set = path.clone().join("set");
    let settings = match table.get("set") {
        Some(Value::Table(keys)) => {
            let setting = |(key, value): (&String, &Value)| Setting {
                key: key.clone(),
                value: value.clone(),
                source: set.clone().join(key.as_str()),
            };
            keys.iter().map(setting).collect()
        }
        Some(_) => {
            return Err(SpecErrorKind::SetNotATable.at_path(set).about(sweep_value_subject(sweep, name)));
        }
        None => Vec::new(),
    };
    let other_keys = table.iter().filter(|(key, _)| *key != "name" && *key != "set");
    let mut variables: Vec<_> = other_keys.map(|(key, value)| (key.clone(), value.clone())).collect();
    variables.push((sweep.to_owned(), Value::String(name.clone())));
    Ok(SweepValue { name: name.clone(), variables, settings })
}

fn sweep_value_subject(sweep: &str, value: &str) -> Subject {
    Subject::SweepValue { sweep: sweep.to_owned(), value: value.to_owned() }
}

/// Reads the scenario for one combination of sweep values.
fn read_cell(
    file: &str,
    text: &str,
    combination: &[(&str, &SweepValue)],
    quick: bool,
) -> Result<Cell, ScenarioError> {
    let variables: Vec<&(String, Value)> =
        combination.iter().flat_map(|(_, value)| &value.variables).collect();
    let cell_text = substitute(text, &variables)
        .map_err(|(line, kind)| ScenarioError::on_line(file, line, kind.at_root()))?;
    let mut table: Table =
        cell_text.parse().map_err(|error| ScenarioError::syntax(file, &cell_text, &error))?;
    let mut overrides = Vec::new();
    for (sweep, value) in combination {
        for Setting { key, value: setting, source } in &value.settings {
            let setting = substitute_value(setting, &variables);
            setting.and_then(|setting| set_key(&mut table, key, &setting)).map_err(|kind| {
                let error = kind.at_path(source.clone()).about(sweep_value_subject(sweep, &value.name));
                ScenarioError::new(file, text, error)
            })?;
            overrides.push(Override { target: KeyPath::new(key.split('.')), source: source.clone() });
        }
    }
    // Later sweeps take precedence.
    overrides.reverse();
    let mut scenario: Scenario = reader::read(table).map_err(|error| {
        let error = locate(file, text, error, &overrides);
        ScenarioError { line: error.line.or(Some(1)), ..error }
    })?;
    check_seeds(&scenario).map_err(|error| locate(file, text, error, &overrides))?;
    if quick {
        scenario.seeds = scenario.quick.seeds.unwrap_or(scenario.seeds);
        scenario.stop = scenario.quick.stop.unwrap_or(scenario.stop);
        scenario.drain = scenario.quick.drain.unwrap_or(scenario.drain);
    }
    let is_simulated = scenario.analytic.is_none() && scenario.withdrawn.is_none();
    if is_simulated && scenario.stop == Time::default() {
        return Err(ScenarioError::new(file, text, SpecErrorKind::NoStop.at_root()));
    }
    let label = |(sweep, value): &(&str, &SweepValue)| Label {
        sweep: (*sweep).to_owned(),
        value: value.name.clone(),
    };
    Ok(Cell { labels: combination.iter().map(label).collect(), scenario, overrides })
}

fn check_seeds(scenario: &Scenario) -> Result<(), SpecError> {
    if scenario.seeds == 0 {
        return Err(SpecErrorKind::NoSeeds { key: "seeds" }.at(["seeds"]));
    }
    if scenario.quick.seeds == Some(0) {
        return Err(SpecErrorKind::NoSeeds { key: "quick.seeds" }.at(["quick", "seeds"]));
    }
    Ok(())
}

/// Sets a key in a table. A dotted key is a path, and table values are merged.
fn set_key(table: &mut Table, path: &str, value: &Value) -> Result<(), SpecErrorKind> {
    let not_a_table = |key: &str| SpecErrorKind::NotATable { key: key.to_owned() };
    match path.split_once('.') {
        Some((first, rest)) => match table.entry(first).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => set_key(inner, rest, value),
            _ => Err(not_a_table(first)),
        },
        None => match (table.get_mut(path), value) {
            (Some(Value::Table(inner)), Value::Table(values)) => {
                values.iter().try_for_each(|(key, value)| set_key(inner, key, value))
            }
            (Some(_), Value::Table(_)) => Err(not_a_table(path)),
            _ => {
                table.insert(path.to_owned(), value.clone());
                Ok(())
            }
        },
    }
}

/// Replaces each `$name` with its value. A string that consists of a single `$name` becomes the value itself, with its
/// type. Line numbers do not change. Errors include the line number.
fn substitute(text: &str, variables: &[&(String, Value)]) -> Result<String, (usize, SpecErrorKind)> {
    let mut out = String::with_capacity(text.len());
    for (line_number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with('#') {
            out.push('\n');
            continue;
        }
        substitute_line(line, variables, &mut out).map_err(|kind| (line_number, kind))?;
        out.push('\n');
    }
    Ok(out)
}

/// Replaces each `$name` in a piece of text, as [`substitute`] does.
fn substitute_line(
    line: &str,
    variables: &[&(String, Value)],
    out: &mut String,
) -> Result<(), SpecErrorKind> {
    let mut rest = line;
    while let Some(dollar) = rest.find('$') {
        let name_end = rest[dollar + 1..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(rest.len(), |length| dollar + 1 + length);
        let value = find_variable(&rest[dollar + 1..name_end], variables)?;
        let is_whole_string = rest[..dollar].ends_with('"') && rest[name_end..].starts_with('"');
        if is_whole_string && !value.is_str() {
            out.push_str(&rest[..dollar - 1]);
            out.push_str(&value.to_string());
            rest = &rest[name_end + 1..];
        } else {
            out.push_str(&rest[..dollar]);
            out.push_str(&text_of(value));
            rest = &rest[name_end..];
        }
    }
    out.push_str(rest);
    Ok(())
}

/// Replaces each `$name` in the strings of a value, as [`substitute`] does in the text of a scenario.
fn substitute_value(value: &Value, variables: &[&(String, Value)]) -> Result<Value, SpecErrorKind> {
    Ok(match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(name) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                find_variable(name, variables)?.clone()
            }
            _ => {
                let mut out = String::with_capacity(text.len());
                substitute_line(text, variables, &mut out)?;
                Value::String(out)
            }
        },
        Value::Array(values) => {
            let values = values.iter().map(|value| substitute_value(value, variables));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Value::Table(values) => {
            let values = values
                .iter()
                .map(|(key, value)| substitute_value(value, variables).map(|value| (key.clone(), value)));
            Value::Table(values.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

fn find_variable<'a>(name: &str, variables: &[&'a (String, Value)]) -> Result<&'a Value, SpecErrorKind> {
    let found = variables.iter().find(|(variable, _)| variable == name);
    found.map(|(_, value)| value).ok_or_else(|| SpecErrorKind::UnknownVariable {
        variable: name.to_owned(),
        suggestion: Suggestion::new(name, variables.iter().map(|(variable, _)| variable)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title = \"t\"\nsource = \"s\"\nstop = \"1 ms\"\n";

    fn read(rest: &str) -> Result<Vec<Cell>, ScenarioError> {
        read_cells("test.toml", &format!("{HEAD}{rest}"), false)
    }

    #[test]
    fn sweeps_multiply_and_their_values_replace_variables() {
        let cells = read(
            "seeds = \"$n\"\nabout = \"with $n of $law\"\n[sweep]\nlaw = [\"poseidon\", \"swift\"]\nn = [1, 2, 4]\n",
        )
        .expect("the scenario is valid");
        let found: Vec<_> =
            cells.iter().map(|cell| (cell.scenario.law.as_str(), cell.scenario.seeds)).collect();
        let cells_of = |law| [(law, 1), (law, 2), (law, 4)];
        assert_eq!(found, [cells_of("poseidon"), cells_of("swift")].concat());
        assert_eq!(cells[4].scenario.about, "with 2 of swift");
        assert_eq!(cells[4].labels[1], Label { sweep: "n".into(), value: "2".into() });
    }

    #[test]
    fn a_sweep_table_names_its_value_and_sets_keys() {
        let cells = read(
            "[transport]\nspray = false\n[[sweep.how]]\nname = \"as it is\"\nk = 3\n[[sweep.how]]\nname = \"with PLB\"\nk = 4\nset = { \"transport.spray\" = true, seeds = 5 }\n",
        )
        .expect("the scenario is valid");
        assert_eq!((cells[0].scenario.transport.spray, cells[0].scenario.seeds), (false, 1));
        assert_eq!((cells[1].scenario.transport.spray, cells[1].scenario.seeds), (true, 5));
        assert_eq!(cells[1].labels[0].value, "with PLB");
    }

    #[test]
    fn a_set_can_use_the_variables_of_another_sweep() {
        let cells = read(
            "[[sweep.size]]\nname = \"large\"\ncount = 7\n[[sweep.how]]\nname = \"a\"\nset = { seeds = \"$count\", about = \"$count of $size\" }\n",
        )
        .expect("the scenario is valid");
        assert_eq!((cells[0].scenario.seeds, cells[0].scenario.about.as_str()), (7, "7 of large"));
    }

    #[test]
    fn an_error_has_a_line_and_a_remedy() {
        let message = |rest: &str| read(rest).expect_err("the scenario is invalid").to_string();
        assert_eq!(
            message("seds = 3\n"),
            "test.toml:4: there is no key \"seds\" here; did you mean \"seeds\"?"
        );
        assert_eq!(
            message("[transport]\nmtu = \"4096\"\n"),
            "test.toml:5: \"4096\": size without a unit: add one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
        );
        assert_eq!(
            message("about = \"$m\"\n[sweep]\nn = [1]\n"),
            "test.toml:4: there is no variable $m; did you mean \"n\"?"
        );
        assert!(
            message("[topology]\nkind = \"poseidon-clos\"\nrack = 2\n")
                .starts_with("test.toml:6: there is no key \"rack\"")
        );
    }

    #[test]
    fn ambiguous_sweeps_are_rejected() {
        for (rest, message) in [
            ("sweep = 1\n", "4: sweep must be a table of lists"),
            ("[sweep]\nn = 3\n", "5: sweep \"n\" must be a list of values"),
            ("[sweep]\nn = [1, 2, 1]\n", "5: sweep \"n\" contains a value twice"),
            ("[sweep]\nn = []\n", "5: sweep \"n\" has no values"),
            ("[sweep]\nlaw = [1]\n", "5: 1 is not a law"),
            ("[sweep]\nphase = [1]\n", "5: a sweep cannot be called \"phase\""),
            ("seeds = 0\n", "4: seeds is 0, so there would be no runs; set it to 1 or more"),
            (
                "seeds = 3\n[quick]\nseeds = 0\n",
                "6: quick.seeds is 0, so there would be no runs; set it to 1 or more",
            ),
            ("[[sweep.n]]\nk = 1\n", "4: a value of sweep \"n\" has no name"),
            (
                "[[sweep.n]]\nname = \"x\"\nset = { \"stop.x\" = 1 }\n",
                "6: \"x\" of sweep \"n\": \"stop\" is not a table",
            ),
            ("[[sweep.n]]\nname = \"x\"\nset = { seds = 1 }\n", "6: there is no key \"seds\""),
            ("seds = 1\n[[sweep.n]]\nname = \"x\"\nset = { seeds = 1 }\n", "4: there is no key \"seds\""),
            ("[[sweep.n]]\nname = \"x\"\nset = { seeds = 0 }\n", "6: seeds is 0"),
        ] {
            let found = read(rest).expect_err(rest).to_string();
            assert!(found.starts_with(&format!("test.toml:{message}")), "{rest}{found}");
        }
    }

    #[test]
    fn only_a_quick_run_checks_its_sweeps() {
        for (sweep, message) in
            [("m = [1]", "there is no sweep \"m\""), ("n = [2]", "\"n\" has no value \"2\"")]
        {
            let text = format!("{HEAD}[sweep]\nn = [1]\n[quick]\nsweep = {{ {sweep} }}\n");
            let error =
                read_cells("test.toml", &text, true).expect_err("the quick form is invalid").to_string();
            assert!(error.starts_with(&format!("test.toml:7: quick.sweep: {message}")), "{error}");
            assert_eq!(read_cells("test.toml", &text, false).map(|cells| cells.len()), Ok(1));
        }
    }

    #[test]
    fn sweeps_and_claims_format_numbers_alike() {
        let cells = read(
            "[sweep]\nm = [0.5, 1.0]\n[[claim]]\nsays = \"s\"\npaper = \"p\"\nwhere = { m = 0.5 }\nagainst = { m = 1.0 }\n",
        )
        .expect("the scenario is valid");
        let claim = &cells[0].scenario.claim[0];
        assert_eq!(claim.cells["m"].0, [cells[0].labels[0].value.as_str()]);
        let against = claim.against.as_ref().expect("the claim compares two cells");
        assert_eq!(against["m"].0, cells[1].labels[0].value);
    }

    #[test]
    fn a_quick_run_keeps_only_the_listed_values() {
        let text = format!(
            "{HEAD}[sweep]\nn = [1, 2, 4]\n[quick]\nseeds = 1\nstop = \"0.5 ms\"\nsweep = {{ n = [4] }}\n"
        );
        let cells = read_cells("test.toml", &text, true).expect("the scenario is valid");
        assert_eq!(cells.len(), 1);
        assert_eq!(cells[0].scenario.stop.0.get(), 500_000_000);
    }
}
