//! Executes jobs: runs the study with the lab and writes its reports.

use crate::error::Problem;
use crate::job::{Job, Status};
use crate::live::LiveSink;
use crate::progress::JobProgress;
use crate::results::describe_study;
use crate::scenario::{EstimateText, Lab};
use core::time::Duration;
use poseidon_lab::budget::{ShortDuration, SuiteEstimate, TimeEstimation};
use poseidon_lab::manifest::Manifest;
use poseidon_lab::report::{ReportError, Results, write_study_page};
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::runner::{
    RunEnvironment, RunObserver, RunOptions, StudyError, estimate_studies, run_seeds, run_studies,
};
use poseidon_lab::store::FinishedRun;
use poseidon_lab::study::{RunId, Study};
use poseidon_plan::records::{Progress, Sink};
use poseidon_types::Picos;
use serde_json::Value;
use std::sync::Arc;

/// An error that fails a job.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error(transparent)]
    Study(#[from] StudyError),
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Executes a job. A panic fails the job, but not the server.
pub(crate) fn execute(job: &Job, lab: &Lab) {
    let study = match job.take_study() {
        Some(study) if !job.must_stop(None) => study,
        _ => return job.update(|state| state.status = Status::Stopped),
    };
    job.start();
    let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| run(job, &study, lab)));
    let problem = |error: JobError| match error {
        JobError::Study(error) => job.request.study_problem(&error),
        JobError::Report(error) => Problem::without_position(error),
    };
    let result = match result {
        Ok(result) => result.map_err(problem),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Problem::without_position(format!(
                "the job panicked: {text}; this is a bug, please report it"
            )))
        }
    };
    let was_stopped = job.was_stopped();
    job.update(|state| match result {
        Ok(result) => {
            if let Some(limit) = state.over_time {
                let text = format!("stopped after --max-time {}", ShortDuration(limit));
                state.problem = Some(Problem::without_position(format!("{text}; finished runs are kept")));
            }
            state.result = Some(Arc::from(result.to_string()));
            state.status = if was_stopped { Status::Stopped } else { Status::Done };
        }
        Err(problem) => {
            state.problem = Some(problem);
            state.status = Status::Failed;
        }
    });
}

fn run(job: &Job, study: &Study, lab: &Lab) -> Result<Value, JobError> {
    let studies = core::slice::from_ref(study);
    let options = lab.run_options(job.request.seeds);
    let backend = lab.backend();
    let estimate = estimate_studies(studies, backend, Some(&lab.store), &options)?;
    estimate.check(&lab.limits).map_err(StudyError::Limit)?;
    job.update(|state| {
        state.estimate = Some(EstimateText::new(&estimate));
        state.progress = JobProgress::new(study, job.request.seeds, &estimate);
    });
    let observer = JobObserver { job, max_time: lab.limits.time };
    // The first estimate is still valid.
    let options = RunOptions { time_estimation: TimeEstimation::Off, ..options };
    if has_several_seeds(study, job.request.seeds) {
        // The plots show the first seed of each cell, so these runs go first. The second pass reuses them.
        let environment =
            RunEnvironment { backend, store: &lab.store, options: &options, observer: &observer };
        run_seeds(studies, 1..=1, &environment)?;
    }
    let runs = run_studies(studies, backend, &lab.store, &options, &observer)?;
    finish(study, lab, runs)
}

/// Judges the claims, draws the figures and writes the report.
fn finish(study: &Study, lab: &Lab, runs: Vec<FinishedRun>) -> Result<Value, JobError> {
    let results = Results { studies: vec![study.clone()], runs };
    let reports = results.write_reports(&lab.store)?;
    let folder = lab.store.study_folder(&study.name);
    write_study_page(&reports[0], &folder, &lab.environment.program.identity)?;
    Ok(describe_study(&lab.store, study, &results.runs, &reports[0])?)
}

/// Returns whether the runs can be split into the first seeds and the others.
fn has_several_seeds(study: &Study, seeds: Option<u32>) -> bool {
    let is_simulated =
        study.cells.iter().all(|cell| cell.scenario.analytic.is_none() && cell.scenario.withdrawn.is_none());
    is_simulated && study.run_count(seeds) > study.cells.len() && study.skip_reason().is_none()
}

/// Copies the progress and the rows of runs into their job.
struct JobObserver<'j> {
    job: &'j Job,
    max_time: Option<Duration>,
}

impl RunObserver for JobObserver<'_> {
    fn on_estimate(&self, _: &SuiteEstimate) {}

    fn on_start(&self, run: &RunId) {
        self.job.update(|state| state.progress.on_progress(run, 0.0));
    }

    fn on_progress(&self, run: &RunId, progress: Progress, stop: Picos) {
        let share = progress.now.get() as f64 / stop.get().max(1) as f64;
        self.job.update(|state| state.progress.on_progress(run, share));
    }

    fn on_end(&self, run: &RunId, _: &Manifest, is_reused: bool) {
        self.job.update(|state| state.progress.on_end(run, is_reused));
    }

    fn is_interrupted(&self) -> bool {
        self.job.must_stop(self.max_time)
    }

    fn live_sink<'a>(&'a self, run: &RunId, resolved: &'a ResolvedRun) -> Option<Box<dyn Sink + 'a>> {
        if run.seed != 1 {
            return None;
        }
        let sink = LiveSink::new(self.job, run, resolved)?;
        Some(Box::new(sink))
    }

    fn on_warning(&self, text: &str) {
        self.job.warn(text);
    }
}
