//! Scenarios: built-in, from files, from TOML or from dictionaries.

use crate::convert::{set_key, to_table, to_value};
use crate::error::{ScenarioError, invalid, invalid_scenario};
use crate::run::simulator;
use poseidon_lab::judge::cell_name;
use poseidon_lab::study::{LawsError, Study};
use poseidon_types::Signals;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// The name and text of every built-in scenario.
const SCENARIOS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// Returns the names of the built-in scenarios.
#[pyfunction]
pub(crate) fn scenarios() -> Vec<&'static str> {
    SCENARIOS.iter().map(|(name, _)| *name).collect()
}

/// A scenario, which describes a network, its traffic and what to measure.
#[pyclass(frozen, module = "poseidon_cc")]
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) study: Arc<Study>,
}

/// A law that the program supplies, for a scenario that uses it.
pub(crate) struct SuppliedLaw {
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) signals: Signals,
}

fn read(file: &str, text: &str, quick: bool) -> PyResult<Scenario> {
    let study = Study::read(file, text, quick).map_err(|error| invalid_scenario(&error))?;
    Ok(Scenario { study: Arc::new(study) })
}

/// Reads a scenario file, or finds a built-in scenario by its full name or the last part of its name.
fn load(name: &str, quick: bool) -> PyResult<Scenario> {
    if std::path::Path::new(name).is_file() {
        let bytes = std::fs::read(name)?;
        let study = Study::read_bytes(name, &bytes, quick).map_err(|error| invalid_scenario(&error))?;
        return Ok(Scenario { study: Arc::new(study) });
    }
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    let stem = stem.strip_prefix("scenarios/").unwrap_or(stem);
    let matches = |known: &str| known == stem || known.rsplit('/').next() == Some(stem);
    let mut candidates = SCENARIOS.iter().filter(|(known, _)| matches(known));
    match (candidates.next(), candidates.next()) {
        (Some((name, text)), None) => read(&format!("scenarios/{name}.toml"), text, quick),
        (Some((first, _)), Some((second, _))) => {
            Err(invalid(format!("{name:?} is ambiguous: {first:?} or {second:?}; write the full name")))
        }
        _ => Err(invalid(format!(
            "there is no file or scenario {name:?}; poseidon_cc.scenarios() lists the built-in scenarios"
        ))),
    }
}

impl Scenario {
    /// Returns the scenario that an argument names or contains.
    pub(crate) fn from_argument(argument: &Bound<'_, PyAny>, quick: bool) -> PyResult<Self> {
        if let Ok(scenario) = argument.cast::<Self>() {
            let study = &scenario.get().study;
            return if study.is_quick == quick {
                Ok(Self { study: Arc::clone(study) })
            } else {
                read(&study.file, &study.text, quick)
            };
        }
        if let Ok(dict) = argument.cast::<PyDict>() {
            return from_dict(dict, "scenario", quick);
        }
        let path = argument.py().import("os")?.call_method1("fspath", (argument,));
        let name: String = path
            .and_then(|path| path.extract())
            .map_err(|_| invalid("scenario: write a name, a path, a dict or a Scenario"))?;
        load(&name, quick)
    }

    /// Returns this scenario with other values of some keys.
    pub(crate) fn with_overrides_of(&self, overrides: &Bound<'_, PyDict>) -> PyResult<Self> {
        if overrides.is_empty() {
            return Ok(Self { study: Arc::clone(&self.study) });
        }
        let mut table: toml::Table = self.study.text.parse().map_err(|error| invalid(format!("{error}")))?;
        for (key, value) in overrides.iter() {
            let key: String = key.extract()?;
            set_key(&mut table, &key, to_value(&value, &key)?)?;
        }
        let text = toml::to_string_pretty(&table).map_err(|error| invalid(error.to_string()))?;
        let read = read(&self.study.file, &text, self.study.is_quick);
        // The keys of a rewritten text are on other lines than in the file.
        read.map_err(|error| {
            ScenarioError::new_err(format!("{error} (with overrides, lines are those of the rewritten text)"))
        })
    }

    /// Returns this scenario with these laws, and with the definitions of the laws that the program supplies.
    pub(crate) fn with_laws_of(&self, laws: &[String], supplied: &[SuppliedLaw]) -> PyResult<Self> {
        let mut text = self.study.text.clone();
        if !laws.is_empty() {
            let names: Vec<&str> = laws.iter().map(String::as_str).collect();
            let replaced = poseidon_lab::scenario::with_laws(&text, &names);
            let study = self.study.name.clone();
            text = replaced.ok_or_else(|| invalid(LawsError::NoLaws { study }.to_string()))?;
            text = without_other_laws(&text, laws)?;
        }
        for SuppliedLaw { name, id, signals } in supplied {
            let name = toml::Value::String(name.clone());
            let law = format!("\n[laws.{name}]\nbase = \"custom\"\nid = {id}\nsignals = \"{signals}\"\n");
            text.push_str(&law);
        }
        read(&self.study.file, &text, self.study.is_quick)
    }
}

/// Removes the claims and figures that name only laws other than these. The text is rewritten only if there are any.
fn without_other_laws(text: &str, laws: &[String]) -> PyResult<String> {
    let mut table: toml::Table = text.parse().map_err(|error| invalid(format!("{error}")))?;
    let mut has_changed = false;
    for key in ["claim", "figure"] {
        let Some(toml::Value::Array(entries)) = table.get_mut(key) else { continue };
        let count = entries.len();
        entries.retain_mut(|entry| {
            let selections = ["where", "against", "baseline"];
            selections.iter().all(|name| {
                match entry.get_mut(name).and_then(|selection| selection.get_mut("law")) {
                    Some(toml::Value::String(law)) => laws.contains(law),
                    Some(toml::Value::Array(names)) => {
                        let before = names.len();
                        names.retain(|law| {
                            law.as_str().is_some_and(|law| laws.iter().any(|known| known == law))
                        });
                        has_changed |= names.len() != before;
                        !names.is_empty()
                    }
                    _ => true,
                }
            })
        });
        has_changed |= entries.len() != count;
    }
    if !has_changed {
        return Ok(text.to_owned());
    }
    toml::to_string_pretty(&table).map_err(|error| invalid(error.to_string()))
}

fn from_dict(dict: &Bound<'_, PyDict>, name: &str, quick: bool) -> PyResult<Scenario> {
    let text = toml::to_string_pretty(&to_table(dict)?).map_err(|error| invalid(error.to_string()))?;
    read(name, &text, quick)
}

#[pymethods]
impl Scenario {
    #[new]
    #[pyo3(signature = (source, *, quick = false))]
    fn new(source: &Bound<'_, PyAny>, quick: bool) -> PyResult<Self> {
        Self::from_argument(source, quick)
    }

    #[staticmethod]
    #[pyo3(signature = (text, *, name = "scenario", quick = false))]
    fn from_toml(text: &str, name: &str, quick: bool) -> PyResult<Self> {
        read(name, text, quick)
    }

    #[staticmethod]
    #[pyo3(signature = (values, *, name = "scenario", quick = false))]
    fn from_dict(values: &Bound<'_, PyDict>, name: &str, quick: bool) -> PyResult<Self> {
        from_dict(values, name, quick)
    }

    fn with_overrides(&self, overrides: &Bound<'_, PyDict>) -> PyResult<Self> {
        self.with_overrides_of(overrides)
    }

    #[pyo3(signature = (*laws))]
    fn with_laws(&self, laws: Vec<String>) -> PyResult<Self> {
        self.with_laws_of(&laws, &[])
    }

    /// Checks the scenario. Returns the estimated number of packet-hops of one run of each cell.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let checks = py.detach(|| self.study.check_and_estimate(&simulator()));
        let checks = checks.map_err(|error| invalid_scenario(&error))?;
        let names = self.study.cells.iter().map(|cell| cell_name(&cell.labels));
        Ok(names.zip(checks.iter().map(|check| check.cost.packet_hops)).collect())
    }

    #[getter]
    fn name(&self) -> &str {
        &self.study.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.study.scenario().title
    }

    #[getter]
    fn text(&self) -> &str {
        &self.study.text
    }

    #[getter]
    fn cells(&self) -> Vec<String> {
        self.study.cells.iter().map(|cell| cell_name(&cell.labels)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Scenario {:?} with {} cells>", self.study.name, self.study.cells.len())
    }
}
