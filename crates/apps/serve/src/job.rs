//! A job: one study from the browser, its state while it runs, and its result.

use crate::error::Problem;
use crate::progress::JobProgress;
use crate::scenario::{EstimateText, ScenarioRequest};
use crate::series::LiveSeries;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use poseidon_lab::study::Study;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// How long a job without a viewer continues if it stops with its tab. Reloading the page takes less time.
const ABANDONED: Duration = Duration::from_secs(3);

/// How long a new job waits for its first viewer.
const UNWATCHED: Duration = Duration::from_secs(15);

/// What happens when the last tab that shows the job is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnClose {
    /// The job stops. Finished runs are kept.
    Stop,
    /// The job continues.
    Continue,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// Another job is running.
    Queued,
    /// The job is running.
    Running,
    /// All runs have ended.
    Done,
    /// The job was stopped. Finished runs are kept.
    Stopped,
    /// The job failed.
    Failed,
}

impl Status {
    /// Returns whether the job has ended.
    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Stopped | Self::Failed)
    }
}

/// The part of a job that changes.
#[derive(Debug)]
pub(crate) struct JobState {
    pub(crate) status: Status,
    pub(crate) problem: Option<Problem>,
    pub(crate) estimate: Option<EstimateText>,
    pub(crate) progress: JobProgress,
    pub(crate) series: Vec<LiveSeries>,
    /// The number of cells whose rows are not plotted while they run, because there are too many.
    pub(crate) unplotted_cells: usize,
    pub(crate) warnings: Vec<String>,
    /// The time limit, if it stopped the job.
    pub(crate) over_time: Option<Duration>,
    /// The result as JSON text, which takes less memory than its values.
    pub(crate) result: Option<Arc<str>>,
    /// The number of open event streams.
    viewers: usize,
    /// The time since which nobody watches the job.
    unwatched_since: Option<(Instant, Duration)>,
    started: Option<Instant>,
}

/// What the list of runs shows about a study.
#[derive(Clone, Debug)]
struct JobInfo {
    study: String,
    title: String,
    cells: usize,
}

/// The largest number of warnings that a job keeps.
const MAX_WARNINGS: usize = 20;

/// A study that runs or has run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) request: ScenarioRequest,
    pub(crate) on_close: OnClose,
    info: JobInfo,
    /// The study, until the job starts. Its cells can take much memory.
    study: Mutex<Option<Study>>,
    stop: AtomicBool,
    state: Mutex<JobState>,
    changes: watch::Sender<u64>,
}

#[expect(clippy::disallowed_methods, reason = "wall-clock time is not part of a result")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl Job {
    /// Creates a job that waits.
    pub(crate) fn new(id: u64, request: ScenarioRequest, study: Study, on_close: OnClose) -> Self {
        let state = JobState {
            status: Status::Queued,
            problem: None,
            estimate: None,
            progress: JobProgress::default(),
            series: Vec::new(),
            unplotted_cells: 0,
            warnings: Vec::new(),
            over_time: None,
            result: None,
            viewers: 0,
            unwatched_since: Some((now(), UNWATCHED)),
            started: None,
        };
        let (stop, state) = (AtomicBool::new(false), Mutex::new(state));
        let title = study.scenario().title.clone();
        let info = JobInfo { study: study.name.clone(), title, cells: study.cells.len() };
        let study = Mutex::new(Some(study));
        Self { id, request, on_close, info, study, stop, state, changes: watch::Sender::new(0) }
    }

    /// Takes the study of a job that starts.
    pub(crate) fn take_study(&self) -> Option<Study> {
        self.study.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Locks the state. A panic of another thread leaves the state usable, because every update is complete.
    pub(crate) fn state(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes all event streams.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut JobState) -> T) -> T {
        let result = change(&mut self.state());
        self.changes.send_modify(|version| *version += 1);
        result
    }

    /// Returns a receiver that wakes after each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Asks the job to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Returns whether something has stopped the job.
    pub(crate) fn was_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Returns whether the job must stop: on request, because its tab was closed, or because of the time limit.
    pub(crate) fn must_stop(&self, max_time: Option<Duration>) -> bool {
        if self.was_stopped() {
            return true;
        }
        let mut state = self.state();
        let is_abandoned = self.on_close == OnClose::Stop
            && state.unwatched_since.is_some_and(|(since, limit)| since.elapsed() > limit);
        let limit = max_time.filter(|limit| state.started.is_some_and(|start| start.elapsed() > *limit));
        state.over_time = limit;
        drop(state);
        if is_abandoned || limit.is_some() {
            self.stop();
        }
        is_abandoned || limit.is_some()
    }

    /// Marks the job as running.
    pub(crate) fn start(&self) {
        self.update(|state| {
            state.status = Status::Running;
            state.started = Some(now());
        });
    }

    /// Adds a warning for the user. Further warnings are counted out.
    pub(crate) fn warn(&self, text: &str) {
        self.update(|state| match state.warnings.len() {
            MAX_WARNINGS => state.warnings.push("further warnings are not shown".to_owned()),
            0..MAX_WARNINGS => state.warnings.push(text.to_owned()),
            _ => {}
        });
    }

    /// Counts a viewer until the guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> ViewerGuard {
        let mut state = self.state();
        state.viewers += 1;
        state.unwatched_since = None;
        drop(state);
        ViewerGuard(Arc::clone(self))
    }

    /// Describes the job for the list of runs.
    pub(crate) fn describe(&self) -> Value {
        let state = self.state();
        let JobInfo { study, title, cells } = &self.info;
        serde_json::json!({
            "id": self.id, "name": self.request.name, "study": study, "title": title, "cells": cells,
            "status": state.status, "quick": self.request.quick, "on_close": self.on_close,
        })
    }
}

impl JobState {
    /// Returns the time since the job started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| started.elapsed())
    }
}

/// Counts a viewer of a job.
#[derive(Debug)]
pub(crate) struct ViewerGuard(Arc<Job>);

impl Drop for ViewerGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.viewers -= 1;
        if state.viewers == 0 {
            state.unwatched_since = Some((now(), ABANDONED));
        }
    }
}
