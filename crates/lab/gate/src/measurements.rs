//! The guarded values of scenarios, per cell and seed. Both sides of a comparison have this form, and so has a baseline
//! file.

use crate::rule::Rule;
use poseidon_lab::judge::cell_name;
use poseidon_lab::manifest::Manifest;
use poseidon_lab::store::FinishedRun;
use poseidon_lab::summary::PhaseSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The values of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioMeasurements {
    /// The study name.
    pub scenario: String,
    /// The hash of the scenario text.
    pub scenario_hash: String,
    /// Whether these are runs of the quick form.
    #[serde(default)]
    pub quick: bool,
    /// The cells and phases.
    pub cells: Vec<CellMeasurements>,
}

/// The values of one phase of a cell. All lists have one entry per seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellMeasurements {
    /// The cell name; empty if the scenario has one cell.
    pub cell: String,
    /// The phase name.
    pub phase: String,
    /// The seeds, in ascending order.
    pub seeds: Vec<u64>,
    /// The hash of all packet arrivals of each run. Runs with real packets have none, so they are never identical.
    pub result_hashes: Vec<String>,
    /// The values of each metric; `None` if a run has no value.
    pub values: BTreeMap<String, Vec<Option<f64>>>,
    /// The lower bounds of missing values, if any are known. A message that did not finish has such a bound.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at_least: BTreeMap<String, Vec<Option<f64>>>,
}

/// What is known about a metric of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// The value.
    Value(f64),
    /// A lower bound of the value.
    AtLeast(f64),
    /// Nothing.
    Missing,
}

/// One run, before it is added to its cell.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredRun<'a> {
    /// The metadata.
    pub manifest: &'a Manifest,
    /// The metrics.
    pub phases: &'a [PhaseSummary],
}

impl<'a> From<&'a FinishedRun> for MeasuredRun<'a> {
    fn from(run: &'a FinishedRun) -> Self {
        Self { manifest: &run.manifest, phases: &run.run.summary.phases }
    }
}

impl ScenarioMeasurements {
    /// Collects the guarded values of a scenario's runs. The runs of a cell must be sorted by seed.
    pub fn from_runs<'a>(
        scenario: &str,
        scenario_hash: &str,
        runs: impl IntoIterator<Item = MeasuredRun<'a>>,
        rules: &[Rule],
    ) -> Self {
        let (scenario, scenario_hash) = (scenario.to_owned(), scenario_hash.to_owned());
        let mut measurements = Self { scenario, scenario_hash, quick: false, cells: Vec::new() };
        for MeasuredRun { manifest, phases } in runs {
            measurements.quick = manifest.quick;
            for phase in phases {
                let cell = CellMeasurements::from_phase(manifest, phase, rules);
                measurements.merge_cell(cell);
            }
        }
        measurements
    }

    /// Adds the seeds of another measurement of the same scenario. Known seeds are kept.
    pub fn merge(&mut self, other: Self) {
        other.cells.into_iter().for_each(|cell| self.merge_cell(cell));
    }

    fn merge_cell(&mut self, other: CellMeasurements) {
        match self.cells.iter_mut().find(|cell| cell.is_same_cell(&other)) {
            Some(cell) => cell.merge(other),
            None => self.cells.push(other),
        }
    }

    /// Returns the largest number of seeds of a cell.
    pub fn seed_count(&self) -> usize {
        self.cells.iter().map(|cell| cell.seeds.len()).max().unwrap_or(0)
    }
}

impl CellMeasurements {
    fn from_phase(manifest: &Manifest, phase: &PhaseSummary, rules: &[Rule]) -> Self {
        let is_guarded = |name: &&String| rules.iter().any(|rule| rule.guards(name));
        let mut cell = Self {
            cell: cell_name(&manifest.cell),
            phase: phase.name.clone(),
            seeds: vec![manifest.seed],
            result_hashes: vec![known_hash(&manifest.result_hash)],
            ..Self::default()
        };
        for name in phase.values.keys().chain(phase.missing.keys()).filter(is_guarded) {
            let value = phase.values.get(name).copied().filter(|value| value.is_finite());
            let bound = phase.missing.get(name).and_then(|missing| missing.at_least);
            cell.values.insert(name.clone(), vec![value]);
            if value.is_none() && bound.is_some() {
                cell.at_least.insert(name.clone(), vec![bound]);
            }
        }
        cell
    }

    /// Returns whether both are the same phase of the same cell.
    pub fn is_same_cell(&self, other: &Self) -> bool {
        self.cell == other.cell && self.phase == other.phase
    }

    /// Returns the name of the cell and the phase, as reports show it.
    pub fn name(&self) -> String {
        match (self.cell.as_str(), self.phase.as_str()) {
            (cell, "all" | "") => cell.to_owned(),
            ("", phase) => format!("phase {phase}"),
            (cell, phase) => format!("{cell}, phase {phase}"),
        }
    }

    fn merge(&mut self, other: Self) {
        let Self { seeds, result_hashes, values, at_least, .. } = other;
        for (index, (seed, hash)) in seeds.iter().zip(result_hashes).enumerate() {
            let Err(position) = self.seeds.binary_search(seed) else { continue };
            let known = self.seeds.len();
            insert_readings(&mut self.values, &values, index, position, known);
            insert_readings(&mut self.at_least, &at_least, index, position, known);
            self.seeds.insert(position, *seed);
            self.result_hashes.insert(position, hash);
        }
    }

    /// Returns what is known about a metric of the run at this index.
    pub fn reading(&self, metric: &str, index: usize) -> Reading {
        let at = |lists: &BTreeMap<String, Vec<Option<f64>>>| *lists.get(metric)?.get(index)?;
        match (at(&self.values), at(&self.at_least)) {
            (Some(value), _) => Reading::Value(value),
            (None, Some(bound)) => Reading::AtLeast(bound),
            (None, None) => Reading::Missing,
        }
    }

    /// Returns a description of what is wrong with the lists of an untrusted file.
    pub(crate) fn find_problem(&self) -> Option<&'static str> {
        let count = self.seeds.len();
        let is_sorted = self.seeds.is_sorted_by(|a, b| a < b);
        let lists = || self.values.values().chain(self.at_least.values());
        let is_finite = |list: &Vec<Option<f64>>| list.iter().flatten().all(|value| value.is_finite());
        if !is_sorted {
            Some("the seeds are not in ascending order")
        } else if self.result_hashes.len() != count || lists().any(|list| list.len() != count) {
            Some("a list does not have one entry per seed")
        } else if !lists().all(is_finite) {
            Some("a value is not a finite number")
        } else {
            None
        }
    }
}

/// Returns a result hash, or nothing for a run without one: a backend with real packets reports zero.
fn known_hash(hash: &str) -> String {
    if hash.bytes().all(|digit| digit == b'0') { String::new() } else { hash.to_owned() }
}

/// Inserts the reading at `index` of every metric in `from` at `position`. Metrics without a reading get `None`.
fn insert_readings(
    into: &mut BTreeMap<String, Vec<Option<f64>>>,
    from: &BTreeMap<String, Vec<Option<f64>>>,
    index: usize,
    position: usize,
    known: usize,
) {
    for metric in from.keys() {
        if !into.contains_key(metric) {
            into.insert(metric.clone(), vec![None; known]);
        }
    }
    for (metric, list) in into {
        list.insert(position, from.get(metric).and_then(|other| *other.get(index)?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(seed: u64, values: &[(&str, Option<f64>)]) -> CellMeasurements {
        CellMeasurements {
            seeds: vec![seed],
            result_hashes: vec![format!("h{seed}")],
            values: values.iter().map(|(name, value)| ((*name).to_owned(), vec![*value])).collect(),
            ..CellMeasurements::default()
        }
    }

    #[test]
    fn seeds_are_merged_in_order_and_missing_values_stay_missing() {
        let mut merged = cell(3, &[("a.x", Some(3.0))]);
        merged.merge(cell(1, &[("a.y", Some(1.5))]));
        merged.merge(cell(2, &[("a.x", Some(2.0)), ("a.y", None)]));
        merged.merge(cell(2, &[("a.x", Some(99.0))]));
        assert_eq!(merged.seeds, [1, 2, 3]);
        assert_eq!(merged.result_hashes, ["h1", "h2", "h3"]);
        assert_eq!(merged.values["a.x"], [None, Some(2.0), Some(3.0)]);
        assert_eq!(merged.values["a.y"], [Some(1.5), None, None]);
        assert_eq!(merged.reading("a.x", 1), Reading::Value(2.0));
        assert_eq!(merged.reading("a.x", 0), Reading::Missing);
        assert_eq!(merged.find_problem(), None);
    }

    #[test]
    fn runs_with_real_packets_have_no_result_hash() {
        assert_eq!(known_hash("0000000000000000"), "");
        assert_eq!(known_hash("00000000000000a0"), "00000000000000a0");
    }

    #[test]
    fn lists_of_a_file_are_checked() {
        let mut bad = cell(1, &[("a.x", Some(1.0))]);
        bad.seeds = vec![1, 1];
        assert!(bad.find_problem().is_some_and(|text| text.contains("ascending")));
        bad.seeds = vec![1, 2];
        assert!(bad.find_problem().is_some_and(|text| text.contains("one entry per seed")));
        let mut bad = cell(1, &[("a.x", Some(1.0))]);
        bad.values.insert("a.y".into(), vec![Some(f64::INFINITY)]);
        assert!(bad.find_problem().is_some_and(|text| text.contains("finite")));
    }

    #[test]
    fn the_name_of_a_cell_omits_the_phase_of_a_run_without_phases() {
        let name = |cell: &str, phase: &str| {
            CellMeasurements { cell: cell.into(), phase: phase.into(), ..CellMeasurements::default() }.name()
        };
        assert_eq!((name("", "all"), name("law swift", "all")), (String::new(), "law swift".to_owned()));
        assert_eq!((name("", "late"), name("x 1", "late")), ("phase late".into(), "x 1, phase late".into()));
    }
}
