//! Runs a study as one of several tasks that share a results folder, such as the tasks of an array job.
//!
//! Each task starts with its own share of the runs, longest first. It then helps a few other tasks with runs that no
//! process has claimed. A task does not wait for runs of other tasks, and it loads no results, so its memory and its
//! use of the shared place do not grow with the number of tasks.

use super::{
    NOT_POISONED, RunAttempt, RunContext, RunEnvironment, RunningPlans, Shard, StudyError, Task,
    check_studies, tasks,
};
use crate::canonical::plan_hash;
use crate::manifest::run_name;
use crate::shared::SharedResults;
use crate::store::FailedRun;
use crate::study::{CellCheck, Study};
use core::sync::atomic::{AtomicBool, Ordering};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Mutex;

/// A task helps this many other tasks. A job with many tasks then reads each manifest a bounded number of times.
const MAX_HELPED: usize = 16;

/// The runs that a task computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskShare {
    /// The task's own share.
    pub shard: Shard,
    /// Whether the task then computes runs of other tasks. Tasks that share no results would repeat each other's runs.
    pub helps_others: bool,
}

/// What a task did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskReport {
    /// The runs of the task's own share.
    pub share: usize,
    /// The runs that the task computed.
    pub computed: usize,
    /// The computed runs of other tasks.
    pub helped: usize,
    /// The runs of its share that were already stored.
    pub found: usize,
    /// The runs of its share that another process was computing.
    pub elsewhere: usize,
    /// The runs that failed, with their errors.
    pub failed: Vec<(String, String)>,
}

/// Runs the share of a task, and then, if it helps others, runs of other tasks, which share their runs at one place. A
/// run that fails is recorded, and the task continues with the next one. An error of the results folder or of the shared
/// place ends the task.
pub fn run_task(
    studies: &[Study],
    task: TaskShare,
    shared: &dyn SharedResults,
    environment: &RunEnvironment<'_>,
) -> Result<TaskReport, StudyError> {
    let RunEnvironment { backend, store, options, observer } = *environment;
    let checks = check_studies(studies, backend, options)?;
    studies.iter().try_for_each(|study| shared.write_scenario(store, study))?;
    let plans = RunningPlans::default();
    let context = RunContext::new(environment, &plans, shared, false);
    let queue = order_runs(tasks(studies, None, options), &checks, task);
    let share = queue.iter().filter(|(_, is_own)| *is_own).count();
    let queue = Mutex::new(queue);
    let report = Mutex::new(TaskReport { share, ..TaskReport::default() });
    let error: Mutex<Option<StudyError>> = Mutex::new(None);
    let is_stopped = AtomicBool::new(false);
    let worker = || {
        while !observer.is_interrupted() && !is_stopped.load(Ordering::SeqCst) {
            let Some((task, is_own)) = queue.lock().expect(NOT_POISONED).pop_front() else { break };
            if let Err(failure) = context.run_of_task(&task, is_own, &report) {
                is_stopped.store(true, Ordering::SeqCst);
                error.lock().expect(NOT_POISONED).get_or_insert(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.jobs.max(1) {
            scope.spawn(worker);
        }
        worker();
    });
    match error.into_inner().expect(NOT_POISONED) {
        Some(error) => Err(error),
        None => Ok(report.into_inner().expect(NOT_POISONED)),
    }
}

/// Returns the runs of a task, longest first, followed by those of the tasks that it helps. The flag tells whether a run
/// belongs to the task. All tasks compute the same shares, because costs do not depend on the machine.
fn order_runs<'a>(
    mut runs: Vec<Task<'a>>,
    checks: &[Vec<CellCheck>],
    task: TaskShare,
) -> VecDeque<(Task<'a>, bool)> {
    let cost = |run: &Task<'_>| checks[run.study_index][run.cell_index].cost.packet_hops;
    runs.sort_by_key(|run| core::cmp::Reverse(cost(run)));
    let TaskShare { shard: Shard { index, count }, helps_others } = task;
    let distance = |position: usize| (position % count + count - index) % count;
    let max_distance = if helps_others { MAX_HELPED } else { 0 };
    let mut runs: Vec<(usize, Task<'a>)> =
        runs.into_iter().enumerate().map(|(position, run)| (distance(position), run)).collect();
    runs.retain(|(distance, _)| *distance <= max_distance);
    runs.sort_by_key(|(distance, _)| *distance);
    runs.into_iter().map(|(distance, run)| (run, distance == 0)).collect()
}

impl RunContext<'_> {
    /// Executes a run, unless it is stored or another process computes it.
    fn run_of_task(
        &self,
        task: &Task<'_>,
        is_own: bool,
        report: &Mutex<TaskReport>,
    ) -> Result<(), StudyError> {
        let study = task.study;
        let mut name = None;
        if task.cell.scenario.analytic.is_none() {
            let resolved = study.resolve(task.cell, task.id.seed, self.backend)?;
            let run = run_name(&plan_hash(&resolved), &self.options.program.identity);
            if self.shared.has_run(self.store, study, &run, self.options.records)? {
                report.lock().expect(NOT_POISONED).found += usize::from(is_own);
                return Ok(());
            }
            if !is_own && self.shared.has_failed(self.store, study, &run)? {
                return Ok(());
            }
            name = Some(run);
        } else if !is_own {
            return Ok(());
        }
        let attempt = self.run_one(task);
        let mut report = report.lock().expect(NOT_POISONED);
        match attempt {
            RunAttempt::Ended(Ok(run)) => {
                let is_computed = self.computed.lock().expect(NOT_POISONED).contains(&task.id.index);
                report.computed += usize::from(is_computed);
                report.helped += usize::from(is_computed && !is_own);
                report.found += usize::from(!is_computed && is_own && !run.manifest.interrupted);
                Ok(())
            }
            RunAttempt::Ended(Err(error @ (StudyError::Panicked { .. } | StudyError::Scenario(_)))) => {
                let failure =
                    FailedRun { cell: task.id.labels.clone(), seed: task.id.seed, error: error.to_string() };
                if let Some(name) = name {
                    self.shared.write_failure(self.store, study, &name, &failure)?;
                }
                report.failed.push((task.id.to_string(), failure.error));
                Ok(())
            }
            RunAttempt::Ended(Err(error)) => Err(error),
            RunAttempt::RunsInThisProcess | RunAttempt::RunsElsewhere => {
                report.elsewhere += usize::from(is_own);
                Ok(())
            }
        }
    }
}
