//! A study: a scenario and all its cells.

use crate::check::check;
use crate::cost::{Cost, estimate_cost};
use crate::files::InputFiles;
use crate::judge::cell_name;
use crate::rate_mismatch::RateMismatch;
use crate::resolve::{ResolvedRun, resolve};
use crate::scenario::{
    Cell, Label, Scenario, ScenarioError, SpecError, SpecErrorKind, read_cells, with_laws,
};
use poseidon_plan::Backend;
use std::sync::Arc;

/// The maximum number of runs in a study. A list of this many runs takes 40 MB, and the runs take eleven days at one
/// second each.
pub const MAX_RUNS: usize = 1_000_000;

/// A scenario and its cells.
#[derive(Clone, Debug)]
pub struct Study {
    /// The scenario file, as given by the user.
    pub file: String,
    /// The study name: the path below the `scenarios` folder, or the file name, without the extension.
    pub name: String,
    /// The scenario text.
    pub text: String,
    /// The cells, in file order.
    pub cells: Vec<Cell>,
    /// Whether this is the shortened form that `--quick` selects.
    pub is_quick: bool,
    /// The files that the scenario names.
    pub files: Arc<InputFiles>,
}

/// The identity of a run.
#[derive(Clone, Debug)]
pub struct RunId {
    /// The study name.
    pub study: String,
    /// The cell labels.
    pub labels: Vec<Label>,
    /// The seed.
    pub seed: u64,
    /// The zero-based index of the run among all runs.
    pub index: usize,
    /// The total number of runs.
    pub total: usize,
}

impl core::fmt::Display for RunId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {} seed {}", self.study, cell_name(&self.labels), self.seed)
    }
}

/// The reason why a study cannot run with other laws.
#[derive(Debug, thiserror::Error)]
#[expect(clippy::large_enum_variant, reason = "an error is created once per command")]
pub enum LawsError {
    /// The scenario has no key that selects the law.
    #[error("{study} does not select its laws by name; add [sweep] law = [\"poseidon\"] to the scenario")]
    NoLaws {
        /// The study.
        study: String,
    },
    /// The scenario with these laws is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

/// What is known about a cell before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCheck {
    /// The cost of one run.
    pub cost: Cost,
    /// A law that does not fit the rate of the network.
    pub rate_mismatch: Option<RateMismatch>,
}

impl Study {
    /// Reads a scenario.
    pub fn read(file: &str, text: &str, quick: bool) -> Result<Self, ScenarioError> {
        let cells = read_cells(file, text, quick)?;
        let study = Self {
            file: file.to_owned(),
            name: study_name(file),
            text: text.to_owned(),
            cells,
            is_quick: quick,
            files: Arc::new(InputFiles::beside(file)),
        };
        study.check_run_count(None)?;
        Ok(study)
    }

    /// Reads a scenario from the bytes of a file.
    pub fn read_bytes(file: &str, bytes: &[u8], quick: bool) -> Result<Self, ScenarioError> {
        let text =
            core::str::from_utf8(bytes).map_err(|error| ScenarioError::not_utf8(file, bytes, &error))?;
        Self::read(file, text, quick)
    }

    /// Returns this study with other laws, which replace the values of its sweep `law`.
    pub fn with_laws(&self, laws: &[&str]) -> Result<Self, LawsError> {
        let no_laws = || LawsError::NoLaws { study: self.name.clone() };
        let text = with_laws(&self.text, laws).ok_or_else(no_laws)?;
        Ok(Self::read(&self.file, &text, self.is_quick)?)
    }

    /// Returns an error if the study has more than [`MAX_RUNS`] runs. `seeds` overrides the number of seeds in the
    /// scenario.
    pub fn check_run_count(&self, seeds: Option<u32>) -> Result<(), ScenarioError> {
        let runs = self.run_count(seeds);
        if runs <= MAX_RUNS {
            return Ok(());
        }
        let too_many = |key| SpecErrorKind::TooManyRuns {
            key,
            runs: runs.into(),
            cells: self.cells.len(),
            limit: MAX_RUNS.into(),
        };
        let error = match seeds {
            Some(_) => too_many("--seeds").at_root(),
            None => too_many("seeds").at(["seeds"]),
        };
        Err(ScenarioError::new(&self.file, &self.text, error))
    }

    /// Returns the scenario of the first cell. Titles, claims and figures are the same in all cells.
    pub fn scenario(&self) -> &Scenario {
        &self.cells[0].scenario
    }

    /// Returns the number of seeds for a cell. `seeds` overrides the number in the scenario.
    pub fn seed_count(&self, cell: &Cell, seeds: Option<u32>) -> u32 {
        match &cell.scenario {
            Scenario { withdrawn: Some(_), .. } => 0,
            Scenario { analytic: Some(_), .. } => 1,
            scenario => seeds.unwrap_or(scenario.seeds),
        }
    }

    /// Returns the number of runs. `seeds` overrides the number of seeds in the scenario.
    pub fn run_count(&self, seeds: Option<u32>) -> usize {
        self.cells.iter().fold(0, |runs, cell| runs.saturating_add(self.seed_count(cell, seeds) as usize))
    }

    /// Returns the reason why a quick run skips this study, if it does.
    pub fn skip_reason(&self) -> Option<&str> {
        self.scenario().quick.skip.as_deref().filter(|_| self.is_quick)
    }

    /// Describes what the quick form omits; returns `None` if it omits nothing.
    pub fn quick_omissions(&self) -> Option<String> {
        let full_cells = read_cells(&self.file, &self.text, false).ok()?;
        if let Some(reason) = self.skip_reason() {
            return Some(format!("not run: {reason}"));
        }
        let (scenario, full) = (self.scenario(), &full_cells[0].scenario);
        let mut omissions = Vec::new();
        if scenario.seeds != full.seeds {
            omissions.push(format!("{} of {} seeds", scenario.seeds, full.seeds));
        }
        if scenario.stop != full.stop {
            omissions.push(format!("{} of {}", scenario.stop.0, full.stop.0));
        }
        if scenario.drain != full.drain {
            omissions.push(format!("a drain of {} instead of {}", scenario.drain.0, full.drain.0));
        }
        if self.cells.len() != full_cells.len() {
            omissions.push(format!("{} of {} cells", self.cells.len(), full_cells.len()));
        }
        (!omissions.is_empty()).then(|| omissions.join(", "))
    }

    /// Resolves every cell with its first seed to find all errors before the first run starts.
    pub fn check(&self, backend: &dyn Backend) -> Result<(), ScenarioError> {
        self.check_and_estimate(backend).map(drop)
    }

    /// Checks the study like [`Self::check`], and estimates the cost of one run of each cell. A cell that needs no
    /// simulation costs nothing.
    pub fn check_and_estimate(&self, backend: &dyn Backend) -> Result<Vec<CellCheck>, ScenarioError> {
        // Claims may name cells that the quick form omits.
        let full_cells = read_cells(&self.file, &self.text, false)?;
        let labels: Vec<&[Label]> = full_cells.iter().map(|cell| cell.labels.as_slice()).collect();
        let mut checks = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            let is_simulated = cell.scenario.analytic.is_none() && cell.scenario.withdrawn.is_none();
            checks.push(if is_simulated {
                let resolved = self.resolve(cell, 1, backend)?;
                let cost = estimate_cost(&resolved, backend);
                CellCheck { cost, rate_mismatch: RateMismatch::find(&resolved.plan) }
            } else {
                CellCheck::default()
            });
            check(&cell.scenario, &labels).map_err(|error| self.error_in_cell(cell, error))?;
        }
        Ok(checks)
    }

    /// Creates a cell's plan for one seed.
    pub fn resolve(
        &self,
        cell: &Cell,
        seed: u64,
        backend: &dyn Backend,
    ) -> Result<ResolvedRun, ScenarioError> {
        resolve(&cell.scenario, &self.files, seed, backend).map_err(|error| self.error_in_cell(cell, error))
    }

    /// Adds the file, the line and the cell to an error.
    pub(crate) fn error_in_cell(&self, cell: &Cell, error: SpecError) -> ScenarioError {
        let error = cell.locate(&self.file, &self.text, error);
        if self.cells.len() > 1 { error.in_cell(cell_name(&cell.labels)) } else { error }
    }
}

/// Returns the study name for a file: `any/scenarios/powertcp/fig2.toml` becomes `powertcp/fig2`, and `other/fig2.toml`
/// becomes `fig2`.
fn study_name(file: &str) -> String {
    let components: Vec<&str> = file.split(['/', '\\']).collect();
    let last = components.len() - 1;
    let first = components[..last]
        .iter()
        .rposition(|component| *component == "scenarios")
        .map_or(last, |folder| folder + 1);
    let name = components[first..].join("/");
    name.strip_suffix(".toml").unwrap_or(&name).to_owned()
}

/// Returns a sort key that orders `fig2` before `fig14b`. Digits are compared as numbers, except in folder names.
pub fn natural_order(name: &str) -> (String, String, u32, String) {
    let is_digit = |c: char| c.is_ascii_digit();
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let start = file.find(is_digit).unwrap_or(file.len());
    let suffix = &file[start..];
    let end = suffix.find(|c| !is_digit(c)).unwrap_or(suffix.len());
    let number = suffix[..end].parse().unwrap_or(0);
    (folder.to_owned(), file[..start].to_owned(), number, suffix[end..].to_owned())
}
