//! Errors of the rollout planner.

use crate::runner::StudyError;
use crate::scenario::{GroupedDigits, ScenarioError, SelectionError, SpecError};
use crate::store::StoreError;

/// An error that stops the rollout planner.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// A run failed, or the scenario is invalid.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The scenario has several cells.
    #[error("the scenario has several cells; choose one with --cell: {}", .cells.join("; "))]
    SeveralCells {
        /// The names of the cells.
        cells: Vec<String>,
    },
    /// The scenario has no such cell.
    #[error("there is no cell {cell:?}; the cells are: {}", .cells.join("; "))]
    UnknownCell {
        /// The requested cell.
        cell: String,
        /// The names of the cells.
        cells: Vec<String>,
    },
    /// The cell does not run.
    #[error("the scenario has no network to simulate; a rollout needs a scenario that runs")]
    NotSimulated,
    /// The quick form of the study does not run.
    #[error("the quick form of this scenario does not run: {reason}")]
    Skipped {
        /// Why the quick form does not run.
        reason: String,
    },
    /// A selector of switches is invalid.
    #[error("{option}: {error}")]
    Selection {
        /// The option that contains the selector.
        option: &'static str,
        /// What is wrong with the selector.
        error: SelectionError,
    },
    /// No switch is left to upgrade.
    #[error("there is no switch to upgrade: every candidate already writes telemetry")]
    NoCandidates,
    /// Upgrading a switch would change nothing.
    #[error(
        "upgrades have no effect: no law of this scenario uses telemetry, or switch.stamp is \"off\"; set law to \
         Poseidon with signal = \"brownfield\", and switch.stamp to \"auto\""
    )]
    NoTelemetry,
    /// A law needs telemetry from every hop.
    #[error(
        "the law {law:?} needs telemetry from every switch, so it cannot run before the rollout is complete; use \
         Poseidon with signal = \"brownfield\""
    )]
    NeedsTelemetry {
        /// The law.
        law: String,
    },
    /// The scenario turns telemetry off for a period.
    #[error("switch.silence turns telemetry off for a period; remove it to plan a rollout")]
    TelemetryPeriod,
    /// The scenario does not determine an objective.
    #[error("choose the metric to improve with --objective, such as {}", .examples.join(", "))]
    NoObjective {
        /// Metrics that the scenario measures.
        examples: Vec<String>,
    },
    /// The scenario does not measure the objective.
    #[error("--objective: {0}")]
    Objective(SpecError),
    /// It is not known whether a larger objective is better.
    #[error("is a larger or a smaller {metric} better? Add --maximise or --minimise")]
    NoDirection {
        /// The metric.
        metric: String,
    },
    /// A run has no value of the objective.
    #[error(
        "seed {seed} has no {metric} with telemetry on {switches}: {reason}; {remedy}, or choose another objective, \
         such as a median or a mean"
    )]
    MissingValue {
        /// The metric.
        metric: String,
        /// The switches that write telemetry.
        switches: String,
        /// The seed.
        seed: u64,
        /// Why the value is missing.
        reason: String,
        /// How to get a value.
        remedy: &'static str,
    },
    /// The plan would need too many runs.
    #[error(
        "the plan could take {runs} runs; the limit is {limit}: lower --budget, --seeds or the number of candidates"
    )]
    TooManyRuns {
        /// The maximum number of runs of the plan.
        runs: GroupedDigits,
        /// The limit.
        limit: GroupedDigits,
    },
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

impl From<ScenarioError> for RolloutError {
    fn from(error: ScenarioError) -> Self {
        Self::Study(StudyError::Scenario(error))
    }
}

impl From<StoreError> for RolloutError {
    fn from(error: StoreError) -> Self {
        Self::Study(StudyError::Store(error))
    }
}
