//! The command's errors and their exit codes.

use core::time::Duration;
use poseidon_gate::error::GateError;
use poseidon_lab::budget::{LimitError, ShortDuration};
use poseidon_lab::convert::{ExportError, ImportError};
use poseidon_lab::files::FileError;
use poseidon_lab::report::{ReportError, VerifyError};
use poseidon_lab::runner::StudyError;
use poseidon_lab::scenario::ScenarioError;
use poseidon_lab::status::StatusError;
use poseidon_lab::store::StoreError;
use poseidon_lab::study::LawsError;
use std::path::{Path, PathBuf};

/// Explains what happens to the results of an interrupted command.
pub(crate) const RESULTS_KEPT: &str = "finished runs are stored, and `poseidon report` can read them";

/// An error that terminates the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A run failed.
    #[error("{0}")]
    Run(String),
    /// A study failed.
    #[error(transparent)]
    Study(StudyError),
    /// A report cannot be created.
    #[error(transparent)]
    Report(ReportError),
    /// A published study cannot be verified.
    #[error(transparent)]
    Verify(VerifyError),
    /// A file cannot be read.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The underlying I/O error.
        source: std::io::Error,
    },
    /// A value cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The command line names something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// A scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file of another simulator cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The flows of a scenario cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A file with data is invalid.
    #[error(transparent)]
    Data(#[from] FileError),
    /// Gating claims failed.
    #[error("{}", gate_message(*.0))]
    Gate(usize),
    /// A gate found that a metric became worse. The text counts the comparisons.
    #[error("the gate fails: {0}")]
    Worse(String),
    /// A gate cannot compare the two sides.
    #[error(transparent)]
    NotComparable(GateError),
    /// A tool that the command needs is not installed.
    #[error("{0}")]
    MissingTool(String),
    /// The runs would exceed a limit, so they did not start.
    #[error(transparent)]
    Limit(LimitError),
    /// The runs took longer than a limit and were stopped.
    #[error("stopped after --max-time {}; {RESULTS_KEPT}", ShortDuration(*.0))]
    OverTime(Duration),
    /// The command is not in this build. The text explains how to get it.
    #[cfg_attr(
        all(
            feature = "linux",
            feature = "quic",
            feature = "figures-export",
            feature = "serve",
            feature = "cloud"
        ),
        expect(dead_code, reason = "a build with all features has all commands")
    )]
    #[error("{0}")]
    NotBuilt(&'static str),
    /// The command received Ctrl-C, SIGTERM or SIGHUP. The text explains what happens to the results.
    #[error("interrupted; {0}")]
    Interrupted(&'static str),
    /// Output could not be written.
    #[error("cannot write to stdout: {0}")]
    Output(&'static std::io::Error),
}

impl Failure {
    /// Returns the process exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Run(_)
            | Self::Export(_)
            | Self::Study(_)
            | Self::Report(_)
            | Self::Verify(_)
            | Self::File { .. }
            | Self::Json(_)
            | Self::Output(_) => 1,
            Self::Usage(_) => 2,
            Self::NotComparable(error) => not_comparable_code(error),
            Self::Scenario(_) | Self::Import(_) | Self::Data(_) => 3,
            Self::Gate(_) | Self::Worse(_) => 4,
            Self::NotBuilt(_) | Self::MissingTool(_) => 5,
            Self::Limit(_) | Self::OverTime(_) => 6,
            Self::Interrupted(_) => 130,
        }
    }

    /// Adds the path to an I/O error.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::File { path: path.to_owned(), source }
    }
}

/// Returns the exit code of a gate that cannot compare: 2 for the command line, 3 for files.
const fn not_comparable_code(error: &GateError) -> u8 {
    match error {
        GateError::UnmeasuredMetric { .. } | GateError::NothingToCompare | GateError::SameName { .. } => 2,
        _ => 3,
    }
}

fn gate_message(claims: usize) -> String {
    match claims {
        1 => "a gating claim fails".to_owned(),
        claims => format!("{claims} gating claims fail"),
    }
}

// An invalid scenario always has the same exit code, no matter which error contains it.

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Scenario(error) => Self::Scenario(error),
            StudyError::Limit(error) => Self::Limit(error),
            error => Self::Study(error),
        }
    }
}

impl From<LawsError> for Failure {
    fn from(error: LawsError) -> Self {
        match error {
            LawsError::Scenario(error) => Self::Scenario(error),
            error @ LawsError::NoLaws { .. } => Self::Usage(error.to_string()),
        }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Scenario(error) => Self::Scenario(error),
            error => Self::Report(error),
        }
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Run(error) => error.into(),
            VerifyError::Report(error) => error.into(),
            error => Self::Verify(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Run(error.to_string())
    }
}

impl From<StatusError> for Failure {
    fn from(error: StatusError) -> Self {
        match error {
            StatusError::Scenario(error) => Self::Scenario(error),
            error @ StatusError::Store(_) => Self::Run(error.to_string()),
        }
    }
}
