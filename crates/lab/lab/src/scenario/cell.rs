//! Cells: one combination of the values of all sweeps.
//!
//! A value of a sweep is put into the text of the scenario where `$sweep` stands, so that what a cell says is a scenario of its own and
//! an error has its line. A value that is a table has a `name`, any variables, and a `set` of keys that it changes.

use super::error::{advice, grouped, key_line};
use super::text::plain;
use super::{Scenario, ScenarioError, Text};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// What a cell has of one sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// The sweep.
    pub sweep: String,
    /// The value, as people call it.
    pub value: String,
}

/// One combination of values, and the scenario that it makes.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What it has of each sweep, in the order of the file.
    pub labels: Vec<Label>,
    /// The scenario with these values.
    pub scenario: Scenario,
}

/// A value of a sweep.
#[derive(Clone, Debug)]
struct Choice {
    name: String,
    variables: Vec<(String, Value)>,
    set: Table,
}

/// The cells of a scenario; with `quick`, those that are left of it, cut as it says.
pub fn cells(file: &str, text: &str, quick: bool) -> Result<Vec<Cell>, ScenarioError> {
    let refuse =
        |key: &str, what: String| ScenarioError { file: file.to_owned(), line: key_line(text, key, 1), what };
    let table: Table = text.parse().map_err(|error| ScenarioError::from_toml(file, text, &error))?;
    let sweep = match table.get("sweep") {
        Some(Value::Table(sweep)) => sweep.clone(),
        Some(_) => {
            let what = "sweep is a table of lists: [sweep] law = [\"poseidon\", \"swift\"]";
            return Err(refuse("sweep", what.into()));
        }
        None => Table::new(),
    };
    let kept = quick_sweeps(&table);
    if let Some(name) = kept.keys().find(|name| !sweep.contains_key(*name)) {
        let known: Vec<&String> = sweep.keys().collect();
        return Err(refuse(
            "quick",
            format!("quick.sweep: there is no sweep {name:?}; {}", advice(name, &known)),
        ));
    }
    check_count(&sweep, &kept, quick).map_err(|(name, what)| refuse(name, what))?;
    let mut combinations: Vec<Vec<(String, Choice)>> = vec![Vec::new()];
    for (name, values) in &sweep {
        let choices = choices(name, values).map_err(|what| refuse(name, what))?;
        let known: Vec<&String> = choices.iter().map(|choice| &choice.name).collect();
        if let Some(value) = kept.get(name).into_iter().flatten().find(|value| !known.contains(value)) {
            let what = format!("quick.sweep: {name:?} has no value {value:?}; {}", advice(value, &known));
            return Err(refuse("quick", what));
        }
        let stays = |choice: &Choice| !quick || kept.get(name).is_none_or(|kept| kept.contains(&choice.name));
        let choices: Vec<Choice> = choices.into_iter().filter(stays).collect();
        if choices.is_empty() {
            return Err(refuse(name, format!("sweep {name:?} has no value left; give it at least one")));
        }
        combinations = combinations
            .iter()
            .flat_map(|before| {
                choices.iter().map(|choice| {
                    let mut with = before.clone();
                    with.push((name.clone(), choice.clone()));
                    with
                })
            })
            .collect();
    }
    combinations.iter().map(|combination| cell(file, text, combination, quick)).collect()
}

/// The most cells of a study. Each is a scenario of its own, of some 10 kB: together they take about 1 GB.
const MAX_CELLS: usize = 100_000;

/// Refuses sweeps that make more cells than [`MAX_CELLS`], before any is made. The error has the name of the longest sweep.
fn check_count<'a>(
    sweep: &'a Table,
    kept: &BTreeMap<String, Vec<String>>,
    quick: bool,
) -> Result<(), (&'a str, String)> {
    let length = |(name, values): (&'a String, &Value)| {
        let all = values.as_array().map_or(1, Vec::len);
        let length = if quick { kept.get(name).map_or(all, Vec::len) } else { all };
        (length, name.as_str())
    };
    let lengths: Vec<(usize, &str)> = sweep.iter().map(length).collect();
    let cells = lengths.iter().fold(1, |cells: usize, (length, _)| cells.saturating_mul(*length));
    match lengths.iter().max() {
        Some(&(length, name)) if cells > MAX_CELLS => Err((
            name,
            format!(
                "sweep {name:?} with {length} values and the other sweeps make {} cells; a study has at most {}: \
                 shorten a sweep, or make several studies",
                grouped(cells as u64),
                grouped(MAX_CELLS as u64)
            ),
        )),
        _ => Ok(()),
    }
}

/// The names that stay of each sweep in a quick run.
fn quick_sweeps(table: &Table) -> BTreeMap<String, Vec<String>> {
    let sweeps = table.get("quick").and_then(|quick| quick.get("sweep")).and_then(Value::as_table);
    let names = |list: &Value| list.as_array().into_iter().flatten().map(plain).collect();
    sweeps.into_iter().flatten().map(|(sweep, list)| (sweep.clone(), names(list))).collect()
}

fn choices(sweep: &str, values: &Value) -> Result<Vec<Choice>, String> {
    let Value::Array(values) = values else {
        return Err(format!("sweep {sweep:?} is a list of values: {sweep} = [1, 2, 4]"));
    };
    if sweep == "phase" {
        return Err("phases are no sweep; give the sweep \"phase\" another name".into());
    }
    let choices: Vec<Choice> = values.iter().map(|value| choice(sweep, value)).collect::<Result<_, _>>()?;
    let names: BTreeSet<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
    if names.len() < choices.len() {
        return Err(format!("sweep {sweep:?} has a value twice; each is a cell of its own"));
    }
    Ok(choices)
}

fn choice(sweep: &str, value: &Value) -> Result<Choice, String> {
    let Value::Table(table) = value else {
        let set = match (sweep, value) {
            ("law", Value::String(_)) => Table::from_iter([("law".to_owned(), value.clone())]),
            ("law", _) => {
                return Err(format!("{value} is no law; a sweep of laws has their names, in quotes"));
            }
            _ => Table::new(),
        };
        return Ok(Choice { name: plain(value), variables: vec![(sweep.to_owned(), value.clone())], set });
    };
    let Some(Value::String(name)) = table.get("name") else {
        return Err(format!("a value of sweep {sweep:?} has no name; write name = \"...\" in its table"));
    };
    let set = match table.get("set") {
        Some(Value::Table(set)) => set.clone(),
        Some(_) => return Err(format!("{name:?} of sweep {sweep:?}: set is a table of keys")),
        None => Table::new(),
    };
    let others = table.iter().filter(|(key, _)| *key != "name" && *key != "set");
    let mut variables: Vec<_> = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    variables.push((sweep.to_owned(), Value::String(name.clone())));
    Ok(Choice { name: name.clone(), variables, set })
}

fn cell(
    file: &str,
    text: &str,
    combination: &[(String, Choice)],
    quick: bool,
) -> Result<Cell, ScenarioError> {
    let variables: Vec<&(String, Value)> =
        combination.iter().flat_map(|(_, choice)| &choice.variables).collect();
    let own = substitute(text, &variables).map_err(|(line, what)| ScenarioError {
        file: file.to_owned(),
        line: Some(line),
        what,
    })?;
    let in_set = |what: String| ScenarioError {
        file: file.to_owned(),
        line: key_line(text, "set", 1).or_else(|| key_line(text, "sweep", 1)),
        what,
    };
    let mut set = Table::new();
    for (sweep, choice) in combination {
        let name = &choice.name;
        merge(&mut set, &choice.set)
            .map_err(|what| in_set(format!("{name:?} of sweep {sweep:?}: {what}")))?;
    }
    let mut scenario: Scenario = if set.iter().all(|(key, value)| key == "law" && value.is_str()) {
        toml::from_str(&own).map_err(|error| ScenarioError::from_toml(file, &own, &error))?
    } else {
        let mut table: Table = own.parse().map_err(|error| ScenarioError::from_toml(file, &own, &error))?;
        merge(&mut table, &set).map_err(in_set)?;
        Scenario::deserialize(table).map_err(|error| match toml::from_str::<Scenario>(&own) {
            // It is wrong without the sweep as well, and there it has a line.
            Err(error) => ScenarioError::from_toml(file, &own, &error),
            Ok(_) => in_set(ScenarioError::from_toml(file, "", &error).what),
        })?
    };
    if let Some(Value::String(law)) = set.get("law") {
        scenario.law.clone_from(law);
    }
    if scenario.seeds == 0 || scenario.quick.seeds == Some(0) {
        let key = if scenario.seeds == 0 { "seeds" } else { "quick.seeds" };
        let from = if scenario.seeds == 0 { 1 } else { key_line(text, "quick", 1).unwrap_or(1) };
        let what = format!("{key} is 0, so nothing would run; write 1 or more");
        return Err(ScenarioError { file: file.to_owned(), line: key_line(text, "seeds", from), what });
    }
    if quick {
        scenario.seeds = scenario.quick.seeds.unwrap_or(scenario.seeds);
        scenario.stop = scenario.quick.stop.unwrap_or(scenario.stop);
        scenario.drain = scenario.quick.drain.unwrap_or(scenario.drain);
    }
    let runs = scenario.analytic.is_none() && scenario.withdrawn.is_none();
    if runs && scenario.stop == Text::default() {
        let what = "a run has no end; write stop = \"10 ms\" or another time".to_owned();
        return Err(ScenarioError { file: file.to_owned(), line: None, what });
    }
    let labels = combination
        .iter()
        .map(|(sweep, choice)| Label { sweep: sweep.clone(), value: choice.name.clone() })
        .collect();
    Ok(Cell { labels, scenario })
}

/// Puts the keys of `with` over those of `table`; a key with dots is a path.
fn merge(table: &mut Table, with: &Table) -> Result<(), String> {
    with.iter().try_for_each(|(key, value)| put(table, key, value))
}

fn put(table: &mut Table, path: &str, value: &Value) -> Result<(), String> {
    let no_table =
        |key: &str| format!("{key:?} is no table, so no key of it can be set; write $variables there");
    match path.split_once('.') {
        Some((first, rest)) => match table.entry(first).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => put(inner, rest, value),
            _ => Err(no_table(first)),
        },
        None => match (table.get_mut(path), value) {
            (Some(Value::Table(inner)), Value::Table(with)) => merge(inner, with),
            (Some(_), Value::Table(_)) => Err(no_table(path)),
            _ => {
                table.insert(path.to_owned(), value.clone());
                Ok(())
            }
        },
    }
}

/// Puts the values where `$name` stands. A text that is nothing but `$name` becomes the value itself, with its type. Lines keep their
/// numbers.
fn substitute(text: &str, variables: &[&(String, Value)]) -> Result<String, (usize, String)> {
    let mut out = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        if code.starts_with('#') {
            out.push('\n');
            continue;
        }
        let mut rest = line;
        while let Some(at) = rest.find('$') {
            let name_end = rest[at + 1..]
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .map_or(rest.len(), |end| at + 1 + end);
            let name = &rest[at + 1..name_end];
            let Some((_, value)) = variables.iter().find(|(known, _)| known == name) else {
                let known: Vec<&str> = variables.iter().map(|(known, _)| known.as_str()).collect();
                return Err((number, format!("there is no ${name}; {}", advice(name, &known))));
            };
            let is_whole = rest[..at].ends_with('"') && rest[name_end..].starts_with('"');
            if is_whole && !value.is_str() {
                out.push_str(&rest[..at - 1]);
                out.push_str(&value.to_string());
                rest = &rest[name_end + 1..];
            } else {
                out.push_str(&rest[..at]);
                out.push_str(&plain(value));
                rest = &rest[name_end..];
            }
        }
        out.push_str(rest);
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title = \"t\"\nsource = \"s\"\nstop = \"1 ms\"\n";

    fn read(rest: &str) -> Result<Vec<Cell>, ScenarioError> {
        cells("test.toml", &format!("{HEAD}{rest}"), false)
    }

    #[test]
    fn sweeps_multiply_and_values_reach_the_text() {
        let cells = read(
            "seeds = \"$n\"\nabout = \"with $n of $law\"\n[sweep]\nlaw = [\"poseidon\", \"swift\"]\nn = [1, 2, 4]\n",
        )
        .expect("a scenario");
        let seen: Vec<_> =
            cells.iter().map(|cell| (cell.scenario.law.as_str(), cell.scenario.seeds)).collect();
        let of = |law| [(law, 1), (law, 2), (law, 4)];
        assert_eq!(seen, [of("poseidon"), of("swift")].concat());
        assert_eq!(cells[4].scenario.about, "with 2 of swift");
        assert_eq!(cells[4].labels[1], Label { sweep: "n".into(), value: "2".into() });
    }

    #[test]
    fn a_table_names_itself_and_sets_keys() {
        let cells = read(
            "[transport]\nspray = false\n[[sweep.how]]\nname = \"as it is\"\nk = 3\n[[sweep.how]]\nname = \"with PLB\"\nk = 4\nset = { \"transport.spray\" = true, seeds = 5 }\n",
        )
        .expect("a scenario");
        assert_eq!((cells[0].scenario.transport.spray, cells[0].scenario.seeds), (false, 1));
        assert_eq!((cells[1].scenario.transport.spray, cells[1].scenario.seeds), (true, 5));
        assert_eq!(cells[1].labels[0].value, "with PLB");
    }

    #[test]
    fn what_is_wrong_has_its_line_and_its_fix() {
        let said = |rest: &str| read(rest).expect_err("refused").to_string();
        assert_eq!(said("seds = 3\n"), "test.toml:4: there is no key \"seds\" here; did you mean \"seeds\"?");
        assert_eq!(
            said("[transport]\nmtu = \"4096\"\n"),
            "test.toml:5: \"4096\": size without a unit: add one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
        );
        assert_eq!(
            said("about = \"$m\"\n[sweep]\nn = [1]\n"),
            "test.toml:4: there is no $m; did you mean \"n\"?"
        );
        assert!(
            said("[topology]\nkind = \"poseidon-clos\"\nrack = 2\n")
                .starts_with("test.toml:6: there is no key \"rack\"")
        );
    }

    #[test]
    fn sweeps_that_would_be_read_otherwise_than_meant_are_refused() {
        for (rest, says) in [
            ("sweep = 1\n", "4: sweep is a table of lists"),
            ("[sweep]\nn = 3\n", "5: sweep \"n\" is a list of values"),
            ("[sweep]\nn = [1, 2, 1]\n", "5: sweep \"n\" has a value twice"),
            ("[sweep]\nn = []\n", "5: sweep \"n\" has no value left"),
            ("[sweep]\nlaw = [1]\n", "5: 1 is no law"),
            ("[sweep]\nphase = [1]\n", "5: phases are no sweep"),
            ("seeds = 0\n", "4: seeds is 0, so nothing would run; write 1 or more"),
            ("seeds = 3\n[quick]\nseeds = 0\n", "6: quick.seeds is 0, so nothing would run; write 1 or more"),
            ("[[sweep.n]]\nk = 1\n", "4: a value of sweep \"n\" has no name"),
            ("[sweep]\nn = [1]\n[quick]\nsweep = { m = [1] }\n", "6: quick.sweep: there is no sweep \"m\""),
            ("[sweep]\nn = [1]\n[quick]\nsweep = { n = [2] }\n", "6: quick.sweep: \"n\" has no value \"2\""),
            ("[[sweep.n]]\nname = \"x\"\nset = { \"stop.x\" = 1 }\n", "6: \"stop\" is no table"),
            ("[[sweep.n]]\nname = \"x\"\nset = { seds = 1 }\n", "6: there is no key \"seds\""),
            ("seds = 1\n[[sweep.n]]\nname = \"x\"\nset = { seeds = 1 }\n", "4: there is no key \"seds\""),
        ] {
            let said = read(rest).expect_err(rest).to_string();
            assert!(said.starts_with(&format!("test.toml:{says}")), "{rest}{said}");
        }
    }

    #[test]
    fn a_number_is_spelled_alike_in_sweeps_and_claims() {
        let cells = read(
            "[sweep]\nm = [0.5, 1.0]\n[[claim]]\nsays = \"s\"\npaper = \"p\"\nwhere = { m = 0.5 }\nagainst = { m = 1.0 }\n",
        )
        .expect("a scenario");
        let claim = &cells[0].scenario.claim[0];
        assert_eq!(claim.cells["m"].0, [cells[0].labels[0].value.as_str()]);
        assert_eq!(claim.against.as_ref().expect("given")["m"].0, cells[1].labels[0].value);
    }

    #[test]
    fn quick_keeps_what_it_names() {
        let text = format!(
            "{HEAD}[sweep]\nn = [1, 2, 4]\n[quick]\nseeds = 1\nstop = \"0.5 ms\"\nsweep = {{ n = [4] }}\n"
        );
        let cells = cells("test.toml", &text, true).expect("a scenario");
        assert_eq!(cells.len(), 1);
        assert_eq!(cells[0].scenario.stop.0.get(), 500_000_000);
    }
}
