//! Runs studies. Cells and seeds run in parallel, and each plan runs at most once.

mod task;

use crate::analytic;
use crate::budget::{
    LimitError, Limits, PendingRun, Speed, SpeedSource, SuiteEstimate, TimeEstimation, measure_speed,
};
use crate::canonical::{closed_form_hash, plan_hash};
use crate::cost::Cost;
use crate::judge::cell_name;
use crate::manifest::{Manifest, Program, run_name, short_hex};
use crate::parallel::parallel_map;
use crate::reduce::Reducer;
use crate::resolve::ResolvedRun;
use crate::samples::MessageSamples;
use crate::scenario::{Cell, ScenarioError, SpecErrorKind};
use crate::shared::{SharedFolder, SharedResults};
use crate::store::{FinishedRun, Store, StoreError, StoredRuns};
use crate::study::{CellCheck, RunId, Study};
use crate::summary::{RunSummary, Summary};
use crate::tables::{FileInfo, Format, RowLabels, TableError, TableSink};
use core::ops::{ControlFlow, RangeInclusive};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use poseidon_plan::records::{
    DecisionRow, DropRow, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_plan::{Backend, Report};
use poseidon_types::Picos;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
pub use task::{TaskReport, TaskShare, run_task};

/// Options for running studies.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The number of seeds; overrides the number in the scenario.
    pub seeds: Option<u32>,
    /// The number of parallel runs.
    pub jobs: usize,
    /// The format of stored rows; `None` stores no rows.
    pub records: Option<Format>,
    /// The shard to execute.
    pub shard: Shard,
    /// The program that executes the runs.
    pub program: Program,
    /// The limits. Runs that would exceed them do not start.
    pub limits: Limits,
    /// How to estimate the duration of the runs.
    pub time_estimation: TimeEstimation,
}

/// A subset of the runs, used to distribute work over several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The index of this shard, starting at zero.
    pub index: usize,
    /// The number of shards.
    pub count: usize,
}

impl Shard {
    /// The shard that contains all runs.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns whether a run belongs to this shard.
    fn contains(self, run_index: usize) -> bool {
        run_index % self.count == self.index
    }
}

/// Observes runs. Several threads may call these methods concurrently.
pub trait RunObserver: Sync {
    /// Called once before the first run starts.
    fn on_estimate(&self, _: &SuiteEstimate) {}
    /// Called when a run starts.
    fn on_start(&self, run: &RunId);
    /// Called when a run makes progress. `stop` is the end of the measured part. A drain may follow it.
    fn on_progress(&self, run: &RunId, progress: Progress, stop: Picos);
    /// Called when a run has ended, or when a stored result was reused.
    fn on_end(&self, run: &RunId, manifest: &Manifest, is_reused: bool);
    /// Returns whether the user has interrupted the runs.
    fn is_interrupted(&self) -> bool;
    /// Returns a sink that receives the rows of a run while the run executes. By default, there is none. The sink runs
    /// on the thread of the run, so it must not block; its answer to [`Sink::on_progress`] is ignored.
    fn live_sink<'a>(&'a self, _run: &RunId, _resolved: &'a ResolvedRun) -> Option<Box<dyn Sink + 'a>> {
        None
    }
    /// Called when a non-fatal problem occurs, such as an unreadable result.
    fn on_warning(&self, text: &str) {
        eprintln!("poseidon: {text}");
    }
}

/// An error that stops the studies.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A scenario cannot run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A result cannot be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows cannot be written.
    #[error(transparent)]
    Rows(#[from] TableError),
    /// The runs would exceed a limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A run panicked.
    #[error("run {run} panicked: {message}; this is a bug in the program, please report it")]
    Panicked {
        /// The study, cell and seed.
        run: String,
        /// The panic message.
        message: String,
    },
}

/// Runs every cell and seed that has no stored result. The result order follows the scenario files and does not depend
/// on the number of jobs.
pub fn run_studies(
    studies: &[Study],
    backend: &(dyn Backend + Sync),
    store: &Store,
    options: &RunOptions,
    observer: &dyn RunObserver,
) -> Result<Vec<FinishedRun>, StudyError> {
    let environment = RunEnvironment { backend, store, options, observer };
    run_shared_studies(studies, &SharedFolder::default(), &environment)
}

/// Runs studies like [`run_studies`], and shares their runs with other processes.
pub fn run_shared_studies(
    studies: &[Study],
    shared: &dyn SharedResults,
    environment: &RunEnvironment<'_>,
) -> Result<Vec<FinishedRun>, StudyError> {
    let RunEnvironment { backend, store, options, observer } = *environment;
    let checks = check_studies(studies, backend, options)?;
    // Another place may not have what the folder has.
    let stored = if shared.is_folder() { load_stored(studies, store, options) } else { BTreeMap::new() };
    let tasks = tasks(studies, None, options);
    let pending: Vec<&Task<'_>> = tasks.iter().filter(|task| !stored.contains_key(&task.key())).collect();
    let estimate = estimate_tasks(tasks.len(), &pending, &checks, backend, Some(store), options)?;
    estimate.check(&options.limits)?;
    observer.on_estimate(&estimate);
    run_tasks(studies, tasks, stored, shared, environment)
}

/// Stored results by the index of the study, the index of the cell and the seed.
type StoredResults = BTreeMap<(usize, usize, u64), FinishedRun>;

/// Loads the stored results that need no plan to be found: those of scenarios without files.
fn load_stored(studies: &[Study], store: &Store, options: &RunOptions) -> StoredResults {
    let mut stored = BTreeMap::new();
    for (index, study) in studies.iter().enumerate().filter(|(_, study)| !study.files.is_used()) {
        let runs = store.load_reusable_runs(index, study, &options.program.identity, options.records);
        stored.extend(runs.into_iter().map(|((cell, seed), run)| ((index, cell, seed), run)));
    }
    stored
}

/// Checks studies, and estimates the cost of one run of each cell.
fn check_studies(
    studies: &[Study],
    backend: &dyn Backend,
    options: &RunOptions,
) -> Result<Vec<Vec<CellCheck>>, StudyError> {
    studies.iter().try_for_each(|study| study.check_run_count(options.seeds))?;
    Ok(studies.iter().map(|study| study.check_and_estimate(backend)).collect::<Result<_, _>>()?)
}

/// Checks studies and estimates the cost of their runs that have no result in `store`.
pub fn estimate_studies(
    studies: &[Study],
    backend: &dyn Backend,
    store: Option<&Store>,
    options: &RunOptions,
) -> Result<SuiteEstimate, StudyError> {
    let checks = check_studies(studies, backend, options)?;
    let tasks = tasks(studies, None, options);
    estimate_tasks(tasks.len(), &tasks.iter().collect::<Vec<_>>(), &checks, backend, store, options)
}

/// What runs need besides their studies.
#[derive(Clone, Copy)]
pub struct RunEnvironment<'a> {
    /// The backend.
    pub backend: &'a (dyn Backend + Sync),
    /// The results folder.
    pub store: &'a Store,
    /// The options.
    pub options: &'a RunOptions,
    /// The observer.
    pub observer: &'a dyn RunObserver,
}

/// Runs the given seeds of every cell, instead of the seeds that the options and the scenario determine. The studies
/// must be checked. The result order is that of [`run_studies`].
pub fn run_seeds(
    studies: &[Study],
    seeds: RangeInclusive<u64>,
    environment: &RunEnvironment<'_>,
) -> Result<Vec<FinishedRun>, StudyError> {
    let tasks = tasks(studies, Some(seeds), environment.options);
    run_tasks(studies, tasks, BTreeMap::new(), &SharedFolder::default(), environment)
}

fn run_tasks(
    studies: &[Study],
    tasks: Vec<Task<'_>>,
    mut stored: StoredResults,
    shared: &dyn SharedResults,
    environment: &RunEnvironment<'_>,
) -> Result<Vec<FinishedRun>, StudyError> {
    let RunEnvironment { store, options, observer, .. } = *environment;
    studies.iter().try_for_each(|study| shared.write_scenario(store, study))?;
    let plans = RunningPlans::default();
    let context = RunContext::new(environment, &plans, shared, true);
    let (mut results, mut pending) = (Vec::new(), Vec::new());
    for task in tasks {
        match stored.remove(&task.key()) {
            Some(run) => {
                observer.on_end(&task.id, &run.manifest, true);
                results.push((task.id.index, Ok(run)));
            }
            None => pending.push(task),
        }
    }
    let queue = TaskQueue::new(pending);
    let results: Mutex<Vec<(usize, Result<FinishedRun, StudyError>)>> = Mutex::new(results);
    let has_waited = AtomicBool::new(false);
    let worker = || {
        while let Some(task) = queue.pop() {
            if observer.is_interrupted() || plans.has_failed() {
                break;
            }
            match context.run_one(&task) {
                RunAttempt::Ended(result) => {
                    results.lock().expect(NOT_POISONED).push((task.id.index, result));
                }
                // The task can reuse the result later.
                RunAttempt::RunsInThisProcess => queue.put_back(task, &plans),
                RunAttempt::RunsElsewhere => {
                    if !has_waited.swap(true, Ordering::SeqCst) {
                        observer.on_warning(WAITING);
                    }
                    queue.put_back_and_wait(task, &plans);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.jobs.max(1) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut results = results.into_inner().expect(NOT_POISONED);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The message when another process computes a run.
const WAITING: &str = "another process computes runs of this study in the same folder; waiting for their results \
                       (`poseidon status` shows them)";

/// Returns a hash of all run results. Two lists of runs with equal results have the same hash.
pub fn result_hash(runs: &[FinishedRun]) -> String {
    // Of many runs, only some are in memory as text.
    const CHUNK: usize = 4_096;
    let mut hasher = Sha256::new();
    for runs in runs.chunks(CHUNK) {
        let to_text = |run: &FinishedRun| serde_json::to_string(&*run.run.summary).unwrap_or_default();
        for (run, summary) in core::iter::zip(runs, parallel_map(runs, to_text)) {
            hasher.update(run.manifest.plan_hash.as_bytes());
            hasher.update(run.manifest.result_hash.as_bytes());
            hasher.update(summary.as_bytes());
        }
    }
    short_hex(&hasher.finalize())
}

/// A run to execute.
struct Task<'a> {
    study_index: usize,
    study: &'a Study,
    cell: &'a Cell,
    /// The index of the cell in the study.
    cell_index: usize,
    id: RunId,
}

impl Task<'_> {
    /// Returns the index of the study, the index of the cell and the seed.
    fn key(&self) -> (usize, usize, u64) {
        (self.study_index, self.cell_index, self.id.seed)
    }
}

/// Returns the runs of this shard. `seeds` overrides the seeds that the options and the scenario determine.
fn tasks<'a>(
    studies: &'a [Study],
    seeds: Option<RangeInclusive<u64>>,
    options: &RunOptions,
) -> Vec<Task<'a>> {
    let mut tasks = Vec::new();
    for (study_index, study) in studies.iter().enumerate() {
        if study.skip_reason().is_some() {
            continue;
        }
        for (cell_index, cell) in study.cells.iter().enumerate() {
            let default_seeds = || 1..=u64::from(study.seed_count(cell, options.seeds));
            for seed in seeds.clone().unwrap_or_else(default_seeds) {
                let (study_name, labels) = (study.name.clone(), cell.labels.clone());
                let id = RunId { study: study_name, labels, seed, index: tasks.len(), total: 0 };
                tasks.push(Task { study_index, study, cell, cell_index, id });
            }
        }
    }
    let total = tasks.len();
    tasks.iter_mut().for_each(|task| task.id.total = total);
    tasks.retain(|task| options.shard.contains(task.id.index));
    tasks
}

/// Stored runs that took less time in total do not give a reliable speed.
const MIN_STORED_SECONDS: f64 = 1.0;

/// Estimates the cost of `runs` runs, of which only these tasks may have no stored result. `checks` contains the cost of
/// one run of each cell.
fn estimate_tasks(
    runs: usize,
    tasks: &[&Task<'_>],
    checks: &[Vec<CellCheck>],
    backend: &dyn Backend,
    store: Option<&Store>,
    options: &RunOptions,
) -> Result<SuiteEstimate, StudyError> {
    let (program, records) = (&options.program.identity, options.records);
    let stored_runs = |study: &Study| store.map(|store| store.stored_runs(study, program, records));
    let mut stored: BTreeMap<usize, StoredRuns> = BTreeMap::new();
    let mut pending: Vec<PendingRun> = Vec::new();
    let mut without_rows = 0;
    let mut most_expensive: Option<(&Task<'_>, Cost)> = None;
    for task in tasks.iter().copied().filter(|task| task.cell.scenario.analytic.is_none()) {
        let stored =
            stored.entry(task.study_index).or_insert_with(|| stored_runs(task.study).unwrap_or_default());
        let cost = checks[task.study_index][task.cell_index].cost;
        if stored.runs.contains(&(task.id.labels.clone(), task.id.seed))
            || has_stored_plan(task, cost, stored, backend, program)?
        {
            continue;
        }
        without_rows += usize::from(stored.without_rows.contains(&(task.id.labels.clone(), task.id.seed)));
        pending.push(PendingRun { index: task.id.index, cost });
        if most_expensive.is_none_or(|(_, other)| cost.packet_hops > other.packet_hops) {
            most_expensive = Some((task, cost));
        }
    }
    let rate_mismatch = checks.iter().flatten().find_map(|check| check.rate_mismatch);
    let estimate =
        SuiteEstimate { rate_mismatch, without_rows, ..SuiteEstimate::new(runs, &pending, options.jobs) };
    let Some((task, _)) = most_expensive else { return Ok(estimate) };
    Ok(match options.time_estimation {
        TimeEstimation::Off => estimate,
        TimeEstimation::RealTime => estimate.with_real_time(&pending),
        TimeEstimation::FromSpeed => {
            let speed = match stored_speed(stored.values()) {
                Some(speed) => Some(speed),
                None => measure_speed(backend, &task.study.resolve(task.cell, task.id.seed, backend)?.plan),
            };
            match speed {
                Some(speed) => estimate.with_speed(speed),
                None => estimate,
            }
        }
    })
}

/// The most messages of a run whose plan is made only to find its stored result.
const MAX_PROBED_MESSAGES: u64 = 100_000;

/// Returns whether an earlier text of the scenario has a run with the same plan. For long plans, the answer is no.
fn has_stored_plan(
    task: &Task<'_>,
    cost: Cost,
    stored: &StoredRuns,
    backend: &dyn Backend,
    program: &str,
) -> Result<bool, StudyError> {
    if stored.names.is_empty() || cost.messages > MAX_PROBED_MESSAGES {
        return Ok(false);
    }
    let resolved = task.study.resolve(task.cell, task.id.seed, backend)?;
    Ok(stored.names.contains(&run_name(&plan_hash(&resolved), program)))
}

/// Returns the speed of stored runs, if they took long enough.
fn stored_speed<'a>(stored: impl Iterator<Item = &'a StoredRuns>) -> Option<Speed> {
    let (mut count, mut wall_s, mut packet_hops) = (0, 0.0, 0.0);
    for runs in stored {
        count += runs.count;
        wall_s += runs.wall_s;
        packet_hops += runs.packet_hops as f64;
    }
    (wall_s >= MIN_STORED_SECONDS && packet_hops > 0.0).then(|| Speed {
        packet_hops_per_second: packet_hops / wall_s,
        start_up: 0.0,
        source: SpeedSource::StoredRuns(count),
    })
}

/// The queue of pending runs.
struct TaskQueue<'a> {
    tasks: Mutex<VecDeque<Task<'a>>>,
}

const NOT_POISONED: &str = "no thread panics while holding this lock";

impl<'a> TaskQueue<'a> {
    fn new(tasks: Vec<Task<'a>>) -> Self {
        Self { tasks: Mutex::new(tasks.into()) }
    }

    fn pop(&self) -> Option<Task<'a>> {
        self.tasks.lock().expect(NOT_POISONED).pop_front()
    }

    /// Appends a task whose plan another job is running. If the queue was empty, blocks until a plan finishes.
    fn put_back(&self, task: Task<'a>, plans: &RunningPlans) {
        let mut tasks = self.tasks.lock().expect(NOT_POISONED);
        let is_only_task = tasks.is_empty();
        tasks.push_back(task);
        drop(tasks);
        if is_only_task {
            plans.wait_for_one();
        }
    }

    /// Appends a task whose plan another process is running, and waits before the next task. Meanwhile, a plan of this
    /// process may finish.
    fn put_back_and_wait(&self, task: Task<'a>, plans: &RunningPlans) {
        let mut tasks = self.tasks.lock().expect(NOT_POISONED);
        let wait = if tasks.is_empty() { Duration::from_secs(1) } else { Duration::from_millis(50) };
        tasks.push_back(task);
        drop(tasks);
        plans.wait_for_one_until(wait);
    }
}

/// The plans that are currently running, by hash.
#[derive(Default)]
struct RunningPlans {
    hashes: Mutex<BTreeSet<String>>,
    plan_finished: Condvar,
    failed: AtomicBool,
}

impl RunningPlans {
    /// Reserves a plan; returns `None` if another job is running it.
    fn reserve(&self, hash: &str) -> Option<PlanReservation<'_>> {
        let is_free = self.hashes.lock().expect(NOT_POISONED).insert(hash.to_owned());
        is_free.then(|| PlanReservation { plans: self, hash: hash.to_owned() })
    }

    /// Blocks until one of the running plans finishes. Returns at once if no plan is running.
    fn wait_for_one(&self) {
        let hashes = self.hashes.lock().expect(NOT_POISONED);
        if !hashes.is_empty() {
            drop(self.plan_finished.wait(hashes).expect(NOT_POISONED));
        }
    }

    /// Blocks until one of the running plans finishes, or until this time has passed.
    fn wait_for_one_until(&self, time: Duration) {
        let hashes = self.hashes.lock().expect(NOT_POISONED);
        drop(self.plan_finished.wait_timeout(hashes, time).expect(NOT_POISONED));
    }

    /// Records that a run has failed, so that no other run starts.
    fn set_failed(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

/// A reservation for a running plan. Dropping the reservation releases the plan and wakes waiting jobs.
struct PlanReservation<'a> {
    plans: &'a RunningPlans,
    hash: String,
}

impl Drop for PlanReservation<'_> {
    fn drop(&mut self) {
        // Set the flag before waking waiting jobs, so that none of them repeats the plan.
        if std::thread::panicking() {
            self.plans.set_failed();
        }
        self.plans.hashes.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.hash);
        self.plans.plan_finished.notify_all();
    }
}

/// The context shared by all runs.
struct RunContext<'a> {
    backend: &'a (dyn Backend + Sync),
    store: &'a Store,
    options: &'a RunOptions,
    observer: &'a dyn RunObserver,
    plans: &'a RunningPlans,
    shared: &'a dyn SharedResults,
    /// Whether an interrupted run is stored.
    stores_partial: bool,
    /// The indices of the runs that were computed to their end.
    computed: Mutex<BTreeSet<usize>>,
}

/// The result of an attempt to execute a run.
#[expect(clippy::large_enum_variant, reason = "a value exists once per run")]
enum RunAttempt<T> {
    /// The run ended, or its result was reused.
    Ended(Result<T, StudyError>),
    /// Another job of this process is running its plan.
    RunsInThisProcess,
    /// Another process is running its plan.
    RunsElsewhere,
}

impl<'a> RunContext<'a> {
    fn new(
        environment: &RunEnvironment<'a>,
        plans: &'a RunningPlans,
        shared: &'a dyn SharedResults,
        stores_partial: bool,
    ) -> Self {
        let RunEnvironment { backend, store, options, observer } = *environment;
        Self { backend, store, options, observer, plans, shared, stores_partial, computed: Mutex::default() }
    }
}

impl RunContext<'_> {
    /// Executes one run or reuses its result.
    fn run_one(&self, task: &Task<'_>) -> RunAttempt<FinishedRun> {
        let attempt = match task.cell.scenario.analytic {
            Some(_) => RunAttempt::Ended(self.compute_closed_form(task)),
            None => match task.study.resolve(task.cell, task.id.seed, self.backend) {
                Ok(resolved) => self.run_plan(task, &resolved),
                Err(error) => RunAttempt::Ended(Err(error.into())),
            },
        };
        match attempt {
            RunAttempt::Ended(result) => {
                if result.is_err() {
                    self.plans.set_failed();
                }
                RunAttempt::Ended(
                    result.map(|(summary, manifest)| self.finished_run(task, summary, manifest)),
                )
            }
            RunAttempt::RunsInThisProcess => RunAttempt::RunsInThisProcess,
            RunAttempt::RunsElsewhere => RunAttempt::RunsElsewhere,
        }
    }

    /// Evaluates a cell that has a closed-form model.
    fn compute_closed_form(&self, task: &Task<'_>) -> Result<(Summary, Manifest), StudyError> {
        let form = task.cell.scenario.analytic.expect("the caller checked that the cell has a closed form");
        let plan_hash = closed_form_hash(form, &task.cell.labels);
        let manifest = Manifest::new(task.study, &task.id, &plan_hash, &self.options.program);
        let summary = analytic::evaluate(form);
        self.observer.on_end(&task.id, &manifest, false);
        self.store.write_run(&task.study.name, &summary, &manifest)?;
        self.shared.publish(self.store, task.study, &manifest.run_name())?;
        Ok((summary, manifest))
    }

    /// Runs a plan or loads its result. A panic in the backend becomes an error.
    fn run_plan(&self, task: &Task<'_>, resolved: &ResolvedRun) -> RunAttempt<(Summary, Manifest)> {
        let hash = plan_hash(resolved);
        let Some(reservation) = self.plans.reserve(&hash) else { return RunAttempt::RunsInThisProcess };
        let run = move || {
            let result = self.load_cached_or_run(task, resolved, &reservation.hash);
            // Set the flag before the plan is released, so that no waiting job repeats a failed plan.
            if result.is_err() {
                self.plans.set_failed();
            }
            result
        };
        // The run state is not used after a panic.
        let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(run));
        let result = result.unwrap_or_else(|panic| {
            Err(StudyError::Panicked { run: task.id.to_string(), message: panic_message(panic.as_ref()) })
        });
        result.transpose().map_or(RunAttempt::RunsElsewhere, RunAttempt::Ended)
    }

    /// Loads the stored result of a plan, or runs the plan. Returns `None` if another process is running it.
    fn load_cached_or_run(
        &self,
        task: &Task<'_>,
        resolved: &ResolvedRun,
        plan_hash: &str,
    ) -> Result<Option<(Summary, Manifest)>, StudyError> {
        let run = run_name(plan_hash, &self.options.program.identity);
        if let Some(found) = self.find_stored(task, &run, &|text| self.observer.on_warning(text))? {
            return Ok(Some(found));
        }
        match self.shared.claim(self.store, task.study, &run, &task.id.to_string())? {
            None => Ok(None),
            Some(_claim) => {
                // Another process may have finished the run before the claim.
                if let Some(found) = self.find_stored(task, &run, &|_| {})? {
                    return Ok(Some(found));
                }
                self.run_and_store(task, resolved, plan_hash, &run).map(Some)
            }
        }
    }

    /// Loads the stored result of a run. `warn` is called if it is unreadable.
    fn find_stored(
        &self,
        task: &Task<'_>,
        run: &str,
        warn: &dyn Fn(&str),
    ) -> Result<Option<(Summary, Manifest)>, StudyError> {
        let (study, rows) = (task.study, self.options.records);
        self.shared.fetch(self.store, study, run, rows, warn)?;
        let Some((summary, manifest)) = self.store.find(study, run, rows, warn) else { return Ok(None) };
        let manifest = self.store.reuse_run(study, &task.id, &summary, manifest)?;
        self.shared.publish(self.store, study, run)?;
        self.observer.on_end(&task.id, &manifest, true);
        Ok(Some((summary, manifest)))
    }

    /// Runs a plan once.
    fn run_once(&self, task: &Task<'_>, resolved: &ResolvedRun, run: &str) -> Result<RunResult, StudyError> {
        let Task { study, cell, id, .. } = task;
        let cell_name = cell_name(&id.labels);
        let tables = match self.options.records {
            Some(format) => {
                let folder = self.store.run_folder(&study.name, run);
                std::fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
                Some(TableSink::new(&folder, format, &resolved.plan, RowLabels::new(resolved, &cell_name)))
            }
            None => None,
        };
        let mut sink = RunSink {
            // Figures show only the first seed's time series.
            reducer: Reducer::new(resolved, id.seed == 1),
            tables,
            live: self.observer.live_sink(id, resolved),
            observer: self.observer,
            id,
            stop: resolved.plan.stop,
            measured_until: resolved.measured_until,
            has_drained: false,
        };
        let mut report = self.backend.run(&resolved.plan, &mut sink).map_err(|error| {
            StudyError::Scenario(study.error_in_cell(cell, SpecErrorKind::Plan(error).at_root()))
        })?;
        let RunSink { reducer, tables, has_drained, .. } = sink;
        // A run that ended early because all its messages finished is complete.
        report.interrupted &= !has_drained;
        let files = match tables {
            Some(tables) => tables.finish()?,
            None => Vec::new(),
        };
        let (summary, messages) = reducer.finish(&report);
        Ok(RunResult { summary, messages, report, files })
    }

    /// Runs a plan and writes its result. Repeats a run with real packets during which the machine paused.
    fn run_and_store(
        &self,
        task: &Task<'_>,
        resolved: &ResolvedRun,
        plan_hash: &str,
        run: &str,
    ) -> Result<(Summary, Manifest), StudyError> {
        let Task { study, id, .. } = task;
        self.observer.on_start(id);
        #[expect(clippy::disallowed_methods, reason = "the duration of a run is not part of its result")]
        let started = std::time::Instant::now();
        let mut attempt = 1;
        let RunResult { summary, messages, report, files } = loop {
            let result = self.run_once(task, resolved, run)?;
            let lateness = result.report.max_lateness;
            if lateness <= MAX_LATENESS || result.report.interrupted || attempt == MAX_ATTEMPTS {
                break result;
            }
            let text = format!("{id}: the machine paused for {lateness}; the run is repeated");
            self.observer.on_warning(&text);
            attempt += 1;
        };
        let manifest = Manifest::new(study, id, plan_hash, &self.options.program).with_report(
            resolved,
            &report,
            started.elapsed(),
            files,
        );
        if manifest.interrupted && !self.stores_partial {
            return Ok((summary, manifest));
        }
        self.store.write_plan(&study.name, run, &crate::explain::describe_run(resolved))?;
        self.store.write_messages(&study.name, run, &messages)?;
        self.store.write_run(&study.name, &summary, &manifest)?;
        if !manifest.interrupted {
            self.shared.publish(self.store, study, run)?;
            self.computed.lock().expect(NOT_POISONED).insert(id.index);
        }
        self.observer.on_end(id, &manifest, false);
        Ok((summary, manifest))
    }

    fn finished_run(&self, task: &Task<'_>, summary: Summary, manifest: Manifest) -> FinishedRun {
        let run = RunSummary {
            labels: task.cell.labels.as_slice().into(),
            seed: task.id.seed,
            summary: Arc::new(summary),
            messages: self.store.messages(&task.study.name, &manifest.run_name()),
        };
        FinishedRun { study: task.study_index, run, manifest }
    }
}

/// A run with real packets is repeated if the machine paused for longer than this. A pause delays all packets at once,
/// which a law cannot distinguish from congestion.
const MAX_LATENESS: Picos = Picos::new(20_000_000_000);

/// The largest number of attempts. The result of the last attempt is kept, and its manifest contains its lateness.
const MAX_ATTEMPTS: u32 = 4;

/// The result of one attempt.
struct RunResult {
    summary: Summary,
    messages: MessageSamples,
    report: Report,
    files: Vec<FileInfo>,
}

/// Returns a panic's message.
fn panic_message(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no panic message").to_owned()
}

/// Forwards the rows of a run to the reducer, to the row files and to the observer's sink.
struct RunSink<'a> {
    reducer: Reducer<'a>,
    tables: Option<TableSink<'a>>,
    live: Option<Box<dyn Sink + 'a>>,
    observer: &'a dyn RunObserver,
    id: &'a RunId,
    stop: Picos,
    measured_until: Picos,
    has_drained: bool,
}

macro_rules! forward_rows {
    ($($record:ident: $row:ty,)*) => {$(
        fn $record(&mut self, row: $row) {
            self.reducer.$record(row);
            if let Some(tables) = &mut self.tables {
                tables.$record(row);
            }
            if let Some(live) = &mut self.live {
                live.$record(row);
            }
        }
    )*};
}

impl Sink for RunSink<'_> {
    forward_rows! {
        record_message: MessageRow,
        record_received: ReceivedRow,
        record_drop: DropRow,
        record_queue: QueueRow,
        record_sender: SenderRow,
        record_receiver: ReceiverRow,
        record_decision: DecisionRow,
    }

    fn on_progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.observer.on_progress(self.id, progress, self.measured_until);
        if let Some(live) = &mut self.live {
            // The observer stops a run through `is_interrupted`.
            let _ = live.on_progress(progress);
        }
        if self.observer.is_interrupted() {
            return ControlFlow::Break(());
        }
        let flow =
            self.tables.as_mut().map_or(ControlFlow::Continue(()), |tables| tables.on_progress(progress));
        let is_draining = progress.now >= self.measured_until && self.measured_until < self.stop;
        if flow.is_continue() && is_draining && self.reducer.has_drained() {
            self.has_drained = true;
            return ControlFlow::Break(());
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_stays_reserved_until_its_reservation_is_dropped() {
        let plans = RunningPlans::default();
        let reservation = plans.reserve("a").expect("the plan is free");
        assert!(plans.reserve("a").is_none());
        assert!(plans.reserve("b").is_some());
        drop(reservation);
        assert!(plans.reserve("a").is_some());
        assert!(!plans.has_failed());
    }

    #[test]
    fn a_panic_releases_the_plan_and_stops_other_runs() {
        let plans = RunningPlans::default();
        let run = || {
            let _reservation = plans.reserve("a").expect("the plan is free");
            panic!("the backend has a bug");
        };
        let panic = std::panic::catch_unwind(core::panic::AssertUnwindSafe(run)).expect_err("the run panics");
        assert_eq!(panic_message(panic.as_ref()), "the backend has a bug");
        assert!(plans.has_failed());
        assert!(plans.reserve("a").is_some(), "the plan is free again");
    }

    #[test]
    fn waiting_jobs_wake_when_a_run_panics() {
        let plans = RunningPlans::default();
        let reservation = plans.reserve("a").expect("the plan is free");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                while plans.reserve("a").is_none() {
                    plans.wait_for_one();
                }
                plans.has_failed()
            });
            let runner = scope.spawn(move || {
                let _reservation = reservation;
                panic!("the backend has a bug");
            });
            assert!(runner.join().is_err());
            assert!(
                waiter.join().expect("the waiter does not panic"),
                "the failure is visible to the waiter"
            );
        });
    }
}
