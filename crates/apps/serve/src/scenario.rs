//! Turns a text from the browser into a study, and estimates what it costs.

use crate::Environment;
use crate::error::Problem;
use core::time::Duration;
use poseidon_lab::budget::{Limits, SuiteEstimate, TimeEstimation};
use poseidon_lab::files::InputFiles;
use poseidon_lab::manifest::content_hash;
use poseidon_lab::runner::{RunOptions, Shard, StudyError, estimate_studies};
use poseidon_lab::scenario::{ScenarioError, count_cells, with_sweep_value};
use poseidon_lab::store::Store;
use poseidon_lab::study::Study;
use poseidon_lab::tables::Format;
use poseidon_plan::Backend;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The longest scenario.
pub(crate) const MAX_TEXT: usize = 256 << 10;

/// The largest number of cells. The command line allows more.
const MAX_CELLS: usize = 2_000;

/// The lab parses the text once per cell. This limit on the parsed bytes bounds the time to a few seconds.
const MAX_PARSED: usize = 64 << 20;

/// The largest number of seeds that a request may set.
const MAX_SEEDS: u32 = 1_000;

/// The folder of all studies that the server runs, inside the results folder.
const FOLDER: &str = "serve";

/// Everything that checks and runs share.
pub(crate) struct Lab {
    pub(crate) environment: Environment,
    pub(crate) store: Store,
    pub(crate) input: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) jobs: usize,
}

impl Lab {
    /// Returns the backend.
    pub(crate) fn backend(&self) -> &(dyn Backend + Sync) {
        self.environment.backend.as_ref()
    }

    /// Returns the options of a job.
    pub(crate) fn run_options(&self, seeds: Option<u32>) -> RunOptions {
        RunOptions {
            seeds,
            jobs: self.jobs,
            records: Some(Format::Parquet),
            shard: Shard::WHOLE,
            program: self.environment.program.clone(),
            limits: self.limits,
            time_estimation: TimeEstimation::FromSpeed,
        }
    }
}

/// A scenario from the browser, and how to run it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioRequest {
    /// The name that the user sees.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
    /// Whether to run the quick form.
    #[serde(default)]
    pub(crate) quick: bool,
    /// The number of seeds, instead of the number in the scenario.
    pub(crate) seeds: Option<u32>,
    /// The values to run, by sweep. A sweep that is not listed runs with all its values.
    #[serde(default)]
    pub(crate) select: BTreeMap<String, Vec<String>>,
}

/// An error that prevents a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    #[error("the scenario has {bytes} bytes, and the limit is {MAX_TEXT}; shorten it")]
    TooLong { bytes: usize },
    #[error(
        "the sweeps have {cells} combinations, and the limit here is {limit}; run it with `poseidon run`"
    )]
    TooManyCells { cells: usize, limit: usize },
    #[error("{seeds} seeds are outside the range from 1 to {MAX_SEEDS}")]
    Seeds { seeds: u32 },
    #[error("there is no sweep {sweep:?} in the scenario; check the text")]
    UnknownSweep { sweep: String },
    #[error("the sweep {sweep:?} cannot have the value {value:?}; choose a value of the scenario")]
    InvalidValue { sweep: String, value: String },
    #[error(
        "the quick form has no value {value:?} of the sweep {sweep:?}; choose another value or the full form"
    )]
    NotInQuickForm { sweep: String, value: String },
    #[error("no value of the sweep {sweep:?} is selected; select at least one")]
    NothingSelected { sweep: String },
}

impl From<ScenarioError> for PrepareError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(Box::new(error))
    }
}

/// A sweep and the names of its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sweep {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// A study that is ready to run, and the sweeps of its whole scenario.
pub(crate) struct PreparedStudy {
    pub(crate) study: Study,
    pub(crate) sweeps: Vec<Sweep>,
}

impl ScenarioRequest {
    /// Reads the scenario. Files that it names must be inside the input folder.
    pub(crate) fn prepare(&self, lab: &Lab) -> Result<PreparedStudy, PrepareError> {
        check_size(&self.text)?;
        if let Some(seeds) = self.seeds.filter(|seeds| !(1..=MAX_SEEDS).contains(seeds)) {
            return Err(PrepareError::Seeds { seeds });
        }
        let file = format!("{}.toml", slug(&self.name));
        let mut study = Study::read(&file, &self.text, self.quick)?;
        let sweeps = sweeps_of(&study);
        let text = self.add_values(&sweeps)?;
        if text != self.text {
            check_size(&text)?;
            study = Study::read(&file, &text, self.quick)?;
        }
        let is_selected = |sweep: &str, value: &str| {
            let selected = self.select.get(sweep);
            selected.is_none_or(|values| values.iter().any(|selected| is_same(selected, value)))
        };
        study.cells.retain(|cell| cell.labels.iter().all(|label| is_selected(&label.sweep, &label.value)));
        if study.cells.is_empty() {
            let sweep = self.select.keys().next().cloned().unwrap_or_default();
            return Err(PrepareError::NothingSelected { sweep });
        }
        let Self { name, quick, seeds, select, .. } = self;
        let hash = content_hash(format!("{text}\n{quick} {seeds:?} {select:?}").as_bytes());
        study.name = format!("{FOLDER}/{}-{}", slug(name), &hash[..8]);
        study.files = Arc::new(InputFiles::confined_to(&lab.input));
        Ok(PreparedStudy { study, sweeps })
    }

    /// Returns the text with the selected values that the scenario does not contain.
    fn add_values(&self, sweeps: &[Sweep]) -> Result<String, PrepareError> {
        let mut text = self.text.clone();
        for (name, values) in &self.select {
            let Some(sweep) = sweeps.iter().find(|sweep| sweep.name == *name) else {
                return Err(PrepareError::UnknownSweep { sweep: name.clone() });
            };
            for value in values {
                if sweep.values.iter().any(|known| is_same(known, value)) {
                    continue;
                }
                let (sweep, value) = (name.clone(), value.clone());
                if self.quick {
                    return Err(PrepareError::NotInQuickForm { sweep, value });
                }
                let added = with_sweep_value(&text, name, &value);
                text = added.ok_or(PrepareError::InvalidValue { sweep, value })?;
            }
        }
        Ok(text)
    }

    /// Checks the scenario and estimates its cost.
    pub(crate) fn check(&self, lab: &Lab) -> CheckResult {
        let prepared = match self.prepare(lab) {
            Ok(prepared) => prepared,
            Err(error) => return CheckResult::invalid(Vec::new(), self.problem(&error)),
        };
        let PreparedStudy { study, sweeps } = prepared;
        let options = lab.run_options(self.seeds);
        let backend = lab.backend();
        let studies = core::slice::from_ref(&study);
        let estimate = match estimate_studies(studies, backend, Some(&lab.store), &options) {
            Ok(estimate) => estimate,
            Err(error) => return CheckResult::invalid(sweeps, Problem::of_study(&study.text, &error)),
        };
        let over_limit = estimate.check(&lab.limits).err().map(|error| error.to_string());
        CheckResult {
            problem: None,
            title: study.scenario().title.clone(),
            about: unwrap_lines(&study.scenario().about),
            source: study.scenario().source.clone(),
            sweeps,
            cells: study.cells.len(),
            omissions: study.quick_omissions().filter(|_| self.quick),
            estimate: Some(EstimateText::new(&estimate)),
            over_limit,
        }
    }

    /// Describes an error of [`Self::prepare`].
    pub(crate) fn problem(&self, error: &PrepareError) -> Problem {
        match error {
            PrepareError::Scenario(error) => Problem::in_text(&self.text, error),
            error => Problem::without_position(error),
        }
    }

    /// Describes an error of a run.
    pub(crate) fn study_problem(&self, error: &StudyError) -> Problem {
        Problem::of_study(&self.text, error)
    }
}

/// The answer to a check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CheckResult {
    /// The first error.
    problem: Option<Problem>,
    title: String,
    about: String,
    source: String,
    sweeps: Vec<Sweep>,
    cells: usize,
    /// What the quick form omits.
    omissions: Option<String>,
    estimate: Option<EstimateText>,
    /// Why the runs would exceed a limit.
    over_limit: Option<String>,
}

impl CheckResult {
    fn invalid(sweeps: Vec<Sweep>, problem: Problem) -> Self {
        let [title, about, source] = [const { String::new() }; 3];
        let problem = Some(problem);
        Self {
            problem,
            title,
            about,
            source,
            sweeps,
            cells: 0,
            omissions: None,
            estimate: None,
            over_limit: None,
        }
    }
}

/// An estimate for the page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EstimateText {
    /// The whole estimate on one line.
    pub(crate) text: String,
    pub(crate) runs: usize,
    pub(crate) pending: usize,
    pub(crate) seconds: Option<f64>,
    pub(crate) memory_bytes: u64,
}

impl EstimateText {
    /// Converts an estimate.
    pub(crate) fn new(estimate: &SuiteEstimate) -> Self {
        let seconds = |(time, _): (Duration, _)| time.as_secs_f64();
        Self {
            text: estimate.to_string(),
            runs: estimate.runs,
            pending: estimate.pending,
            seconds: estimate.time.map(seconds),
            memory_bytes: estimate.memory.get(),
        }
    }
}

/// Joins the lines of each paragraph.
pub(crate) fn unwrap_lines(text: &str) -> String {
    let paragraphs = text.trim().split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Rejects texts that take too long to parse.
fn check_size(text: &str) -> Result<(), PrepareError> {
    if text.len() > MAX_TEXT {
        return Err(PrepareError::TooLong { bytes: text.len() });
    }
    let limit = MAX_CELLS.min(MAX_PARSED / text.len().max(1));
    match count_cells(text) {
        cells if cells > limit => Err(PrepareError::TooManyCells { cells, limit }),
        _ => Ok(()),
    }
}

/// Returns whether two values are the same text or the same number.
fn is_same(first: &str, second: &str) -> bool {
    let numbers = first.parse::<f64>().ok().zip(second.parse::<f64>().ok());
    first == second || numbers.is_some_and(|(first, second)| first == second)
}

/// Returns the sweeps of a study, in the order of the scenario.
fn sweeps_of(study: &Study) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for label in study.cells.iter().flat_map(|cell| &cell.labels) {
        let position = sweeps.iter().position(|sweep| sweep.name == label.sweep).unwrap_or_else(|| {
            sweeps.push(Sweep { name: label.sweep.clone(), values: Vec::new() });
            sweeps.len() - 1
        });
        let values = &mut sweeps[position].values;
        if !values.contains(&label.value) {
            values.push(label.value.clone());
        }
    }
    sweeps
}

/// Returns a name that is safe as a part of a path: at most 40 letters, digits and dashes.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().take(200) {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        if slug.len() < 40 && !(c == '-' && (slug.is_empty() || slug.ends_with('-'))) {
            slug.push(c);
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "scenario".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_safe_folder() {
        for (name, expected) in [
            ("poseidon/fig14b", "poseidon-fig14b"),
            ("../../etc/passwd", "etc-passwd"),
            ("", "scenario"),
            ("…", "scenario"),
            ("A  name", "a-name"),
        ] {
            assert_eq!(slug(name), expected);
        }
        assert_eq!(slug(&"x".repeat(1_000)).len(), 40);
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(is_same("0.50", "0.5") && is_same("swift", "swift"));
        assert!(!is_same("10 us", "10 ms") && !is_same("1", "2"));
    }

    #[test]
    fn large_sweeps_are_rejected_before_they_are_read() {
        let values: Vec<u32> = (0..100).collect();
        let text = format!("[sweep]\na = {values:?}\nb = {values:?}\n");
        assert!(matches!(check_size(&text), Err(PrepareError::TooManyCells { cells: 10_000, limit: 2_000 })));
        let text = format!("# {}\n[sweep]\na = {values:?}\nb = [1, 2, 3]\n", "x".repeat(250 << 10));
        assert!(matches!(check_size(&text), Err(PrepareError::TooManyCells { cells: 300, .. })));
        assert!(matches!(check_size(&"x".repeat(MAX_TEXT + 1)), Err(PrepareError::TooLong { .. })));
    }
}
