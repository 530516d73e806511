//! The sides of a comparison: where their values come from.

use crate::baseline::Baseline;
use crate::error::GateError;
use crate::measurements::{MeasuredRun, ScenarioMeasurements};
use crate::rule::Rule;
use core::ops::RangeInclusive;
use poseidon_lab::judge::cell_name;
use poseidon_lab::manifest::content_hash;
use poseidon_lab::report::load_study;
use poseidon_lab::runner::{RunEnvironment, run_seeds};
use poseidon_lab::store::Store;
use poseidon_lab::study::Study;
use std::collections::BTreeSet;

/// Which runs a side must supply.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The seeds since the first one.
    pub all_seeds: RangeInclusive<u64>,
    /// The seeds that were not requested before.
    pub new_seeds: RangeInclusive<u64>,
    /// The scenarios and cells that are not decided yet; `None` for all.
    pub undecided: Option<&'a BTreeSet<(String, String)>>,
}

impl Request<'_> {
    /// Returns whether a cell is requested.
    pub fn includes_cell(&self, scenario: &str, cell: &str) -> bool {
        self.undecided.is_none_or(|cells| cells.contains(&(scenario.to_owned(), cell.to_owned())))
    }

    /// Returns whether a cell of this scenario is requested.
    pub fn includes_scenario(&self, scenario: &str) -> bool {
        self.undecided.is_none_or(|cells| cells.iter().any(|(name, _)| name == scenario))
    }
}

/// One side of a comparison.
pub trait Side {
    /// Returns what the side is, as reports show it.
    fn name(&self) -> String;

    /// Returns the values of the requested runs. Other seeds and cells may be included.
    fn measure(&mut self, request: &Request<'_>) -> Result<Vec<ScenarioMeasurements>, GateError>;

    /// Returns the number of seeds that the side has; `None` if it runs as many as are requested.
    fn seed_limit(&self) -> Option<usize>;
}

/// Checks that all scenarios run and have different names.
pub fn check_studies(studies: &[Study]) -> Result<(), GateError> {
    let mut names = BTreeSet::new();
    for study in studies {
        if !names.insert(&study.name) {
            return Err(GateError::SameName { scenario: study.name.clone() });
        }
        let is_simulated = |study: &Study| {
            let scenarios = study.cells.iter().map(|cell| &cell.scenario);
            scenarios.into_iter().all(|scenario| scenario.analytic.is_none() && scenario.withdrawn.is_none())
        };
        if !is_simulated(study) || study.skip_reason().is_some() {
            return Err(GateError::NotSimulated { scenario: study.name.clone() });
        }
    }
    Ok(())
}

/// Studies that this program runs.
pub struct LabSide<'a> {
    /// The name in reports.
    pub name: String,
    /// The studies. They must be checked.
    pub studies: &'a [Study],
    /// The backend, the store and the options.
    pub environment: RunEnvironment<'a>,
    /// The guarded metrics.
    pub rules: &'a [Rule],
}

impl Side for LabSide<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, request: &Request<'_>) -> Result<Vec<ScenarioMeasurements>, GateError> {
        let mut selected = Vec::new();
        for study in self.studies {
            let is_included = |cell: &&poseidon_lab::scenario::Cell| {
                request.includes_cell(&study.name, &cell_name(&cell.labels))
            };
            let cells: Vec<_> = study.cells.iter().filter(is_included).cloned().collect();
            if !cells.is_empty() {
                selected.push(Study { cells, ..study.clone() });
            }
        }
        let seeds = request.new_seeds.clone();
        let expected: usize =
            selected.iter().map(|study| study.cells.len()).sum::<usize>() * seeds.clone().count();
        let runs = run_seeds(&selected, seeds, &self.environment)?;
        if runs.len() != expected || runs.iter().any(|run| run.manifest.interrupted) {
            return Err(GateError::Interrupted);
        }
        let measure = |(index, study): (usize, &Study)| {
            let runs = runs.iter().filter(|run| run.study == index).map(MeasuredRun::from);
            ScenarioMeasurements::from_runs(
                &study.name,
                &content_hash(study.text.as_bytes()),
                runs,
                self.rules,
            )
        };
        Ok(selected.iter().enumerate().map(measure).collect())
    }

    fn seed_limit(&self) -> Option<usize> {
        None
    }
}

/// Values that exist already: a baseline file or a results folder.
pub struct StoredSide {
    name: String,
    scenarios: Vec<ScenarioMeasurements>,
}

impl StoredSide {
    /// Uses a baseline file.
    pub fn from_baseline(name: String, baseline: Baseline) -> Self {
        Self { name, scenarios: baseline.scenarios }
    }

    /// Loads the scenarios that a results folder contains. Results of `program` take precedence.
    pub fn from_store(
        store: &Store,
        scenarios: &[String],
        program: &str,
        rules: &[Rule],
    ) -> Result<Self, GateError> {
        let load = |name: &String| -> Result<ScenarioMeasurements, GateError> {
            let (study, runs) = load_study(store, 0, name, program)?;
            let complete = runs.iter().filter(|run| !run.manifest.interrupted).map(MeasuredRun::from);
            let hash = content_hash(study.text.as_bytes());
            let measurements = ScenarioMeasurements::from_runs(name, &hash, complete, rules);
            Ok(ScenarioMeasurements { quick: study.is_quick, ..measurements })
        };
        let scenarios = scenarios.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { name: store.root().display().to_string(), scenarios })
    }
}

impl Side for StoredSide {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, request: &Request<'_>) -> Result<Vec<ScenarioMeasurements>, GateError> {
        let is_included = |scenario: &&ScenarioMeasurements| request.includes_scenario(&scenario.scenario);
        Ok(self.scenarios.iter().filter(is_included).cloned().collect())
    }

    fn seed_limit(&self) -> Option<usize> {
        self.scenarios.iter().map(ScenarioMeasurements::seed_count).max().or(Some(0))
    }
}
