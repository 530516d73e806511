//! Errors of the gate.

use poseidon_lab::report::ReportError;
use poseidon_lab::runner::StudyError;
use std::path::PathBuf;

/// An error that prevents a decision.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A run failed, or a scenario is invalid.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// A results folder cannot be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A baseline file cannot be read or written.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// A program cannot be built or run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The scenario differs between the two sides.
    #[error(
        "{scenario}: the scenario text differs between base ({base}) and head ({head}), so their results cannot be \
         compared; run the same scenario on both sides, or bless a new baseline"
    )]
    ScenarioDiffers {
        /// The scenario.
        scenario: String,
        /// The hash of the base's scenario.
        base: String,
        /// The hash of the head's scenario.
        head: String,
    },
    /// One side ran the quick form.
    #[error("{scenario}: one side ran the quick form of the scenario; use --quick on both sides or on none")]
    QuickDiffers {
        /// The scenario.
        scenario: String,
    },
    /// One side lacks a scenario.
    #[error("{side} has no results of scenario {scenario:?}; {remedy}")]
    MissingScenario {
        /// The side.
        side: &'static str,
        /// The scenario.
        scenario: String,
        /// What to do.
        remedy: &'static str,
    },
    /// One side lacks a cell.
    #[error(
        "{side} has no results of the cell {cell:?} of {scenario}; run it again, or bless a new baseline"
    )]
    MissingCell {
        /// The side.
        side: &'static str,
        /// The scenario.
        scenario: String,
        /// The cell.
        cell: String,
    },
    /// Two scenarios have the same name.
    #[error("two scenarios are called {scenario:?}; rename one of the files")]
    SameName {
        /// The name.
        scenario: String,
    },
    /// A rule names a metric that no scenario measures.
    #[error("no scenario measures {metric:?}, which --fail-if names; the measured metrics are {}", .measured.join(", "))]
    UnmeasuredMetric {
        /// The metric of the rule.
        metric: String,
        /// The metrics that are measured.
        measured: Vec<String>,
    },
    /// Nothing can be compared.
    #[error("no scenario has a guarded metric; name one with --fail-if, such as 'latency_p99_us > +5%'")]
    NothingToCompare,
    /// A scenario does not simulate a network.
    #[error("{scenario} has no network to simulate; a gate needs scenarios that run")]
    NotSimulated {
        /// The scenario.
        scenario: String,
    },
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

/// An error in a baseline file.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The file cannot be accessed.
    #[error("{}: {source}; `poseidon gate --bless` writes a baseline", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("{} has more than {limit} bytes, so it is not a baseline", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The file is not a baseline.
    #[error("{} is not a baseline: {source}; `poseidon gate --bless` writes a new one", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// The file has another schema version.
    #[error(
        "{} has schema version {found}, and this program reads version {expected}; `poseidon gate --bless` writes a \
         new one",
        .path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: u64,
        /// The version of this program.
        expected: u64,
    },
    /// The values of a cell are inconsistent.
    #[error("{}: {scenario}, {cell:?}: {problem}; `poseidon gate --bless` writes a new baseline", .path.display())]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// The scenario.
        scenario: String,
        /// The cell.
        cell: String,
        /// The problem.
        problem: &'static str,
    },
}

/// An error while building or running another version of the program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A tool is not installed.
    #[error("{tool} cannot be started ({source}), but {purpose}; install it, or use --baseline")]
    MissingTool {
        /// The tool.
        tool: String,
        /// Why it is needed.
        purpose: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A tool failed.
    #[error("{command} failed ({status}):\n{output}")]
    Failed {
        /// The command.
        command: String,
        /// The exit status.
        status: String,
        /// The end of its output.
        output: String,
    },
    /// The commit is unknown.
    #[error("{reference:?} is not a commit of this repository: {reason}; in a shallow clone, fetch it first")]
    UnknownCommit {
        /// The name of the commit.
        reference: String,
        /// The message of git.
        reason: String,
    },
    /// A folder cannot be written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The output of the program is not the expected JSON.
    #[error(
        "{program} printed results that cannot be read: {source}; its version may be too old for this gate"
    )]
    Output {
        /// The program.
        program: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The program printed more than is read.
    #[error("{program} printed more than {limit} bytes; use fewer cells per scenario")]
    TooMuchOutput {
        /// The program.
        program: String,
        /// The limit.
        limit: u64,
    },
    /// Another program can only run seeds from 1.
    #[error("--first-seed works only with --baseline, because another program runs the seeds from 1")]
    FirstSeed,
}
