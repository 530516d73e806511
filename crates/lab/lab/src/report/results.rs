//! Loads a results folder and writes the reports of its studies.

use super::{ReportError, StudyReport};
use crate::judge::Outcome;
use crate::parallel::parallel_map;
use crate::store::{FinishedRun, SCENARIO_FILE, Store, StoreError};
use crate::study::{Study, natural_order};
use std::fs;

/// Studies and their runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The studies.
    pub studies: Vec<Study>,
    /// The runs of all studies. [`FinishedRun::study`] is an index into `studies`.
    pub runs: Vec<FinishedRun>,
}

impl Results {
    /// Loads all studies in a folder, sorted by name in natural order. Results from `program` take precedence over
    /// results from other programs.
    pub fn load(store: &Store, program: &str) -> Result<Self, ReportError> {
        let mut names = store.studies_with(SCENARIO_FILE)?;
        names.sort_by_key(|name| natural_order(name));
        let mut results = Self::default();
        for name in names {
            let (study, runs) = load_study(store, results.studies.len(), &name, program)?;
            results.runs.extend(runs);
            results.studies.push(study);
        }
        Ok(results)
    }

    /// Loads the message times of all complete runs. Otherwise, each use of them reads the files again.
    pub fn load_messages(&mut self) -> Result<(), ReportError> {
        let messages = parallel_map(&self.runs, |run| match run.manifest.interrupted {
            true => Ok(run.run.messages.clone()),
            false => run.run.messages.load(),
        });
        for (run, messages) in self.runs.iter_mut().zip(messages) {
            run.run.messages = messages?;
        }
        Ok(())
    }

    /// Returns the runs of one study.
    pub fn runs_of(&self, study_index: usize) -> impl Iterator<Item = &FinishedRun> {
        self.runs.iter().filter(move |run| run.study == study_index)
    }

    /// Returns the program that executed the first run.
    pub fn program(&self) -> &str {
        self.runs.first().map_or("", |run| run.manifest.program.as_str())
    }

    /// Judges each study's claims, draws its figures, and writes its report into the study folder.
    pub fn write_reports(&self, store: &Store) -> Result<Vec<StudyReport>, ReportError> {
        let write_report = |(index, study): (usize, &Study)| {
            let runs: Vec<&FinishedRun> = self.runs_of(index).collect();
            let mut report = StudyReport::new(study, &runs)?;
            report.write(store)?;
            Ok(report)
        };
        self.studies.iter().enumerate().map(write_report).collect()
    }
}

/// Loads one study and its runs from a folder. Runs of the quick form are used only if there are no full runs.
pub fn load_study(
    store: &Store,
    study_index: usize,
    name: &str,
    program: &str,
) -> Result<(Study, Vec<FinishedRun>), ReportError> {
    let path = store.study_folder(name).join(SCENARIO_FILE);
    let text = fs::read(&path).map_err(StoreError::io(&path))?;
    let load = |quick| -> Result<_, ReportError> {
        let study = Study::read_bytes(&format!("scenarios/{name}.toml"), &text, quick)?;
        let runs = store.load_runs(study_index, &study, program)?;
        Ok((study, runs))
    };
    let full = load(false)?;
    if full.1.is_empty() { load(true) } else { Ok(full) }
}

/// Counts the gating claims that fail. If `is_complete` is set, a gating claim that was not run also counts as failed,
/// unless a quick run omitted its cells.
pub fn failed_gates(reports: &[StudyReport], is_complete: bool) -> usize {
    let has_failed = |report: &StudyReport, outcome: Outcome| match outcome {
        Outcome::Fails => true,
        Outcome::NotRun => is_complete && report.omissions.is_none(),
        Outcome::Holds | Outcome::NotComparable => false,
    };
    reports
        .iter()
        .flat_map(|report| report.verdicts.iter().map(move |verdict| (report, verdict)))
        .filter(|(report, verdict)| verdict.gating && has_failed(report, verdict.outcome))
        .count()
}
