//! Errors in reports and published results.

use crate::figure::FigureError;
use crate::runner::StudyError;
use crate::samples::SamplesError;
use crate::scenario::{ClaimError, ScenarioError};
use crate::store::StoreError;
use std::path::{Path, PathBuf};

/// An error while creating, reading or writing a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The scenario of a result is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A result cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The message times of a run cannot be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// A claim cannot be judged.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// A table cannot be written.
    #[error("cannot write a table: {0}")]
    WriteTable(#[from] csv::Error),
    /// A published table cannot be read.
    #[error("{}: {source}", .path.display())]
    ReadTable {
        /// The file.
        path: PathBuf,
        /// The problem with the table.
        source: TableError,
    },
    /// A published file does not contain the expected JSON.
    #[error("{}: {source}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The JSON error.
        source: serde_json::Error,
    },
    /// A folder has no results.
    #[error("{}: there are no results; `poseidon run` and `poseidon repro` create them", .0.display())]
    NoResults(PathBuf),
    /// A published study cannot be rejudged.
    #[error("{study}: {source}")]
    Study {
        /// The study name.
        study: String,
        /// The error.
        source: Box<Self>,
    },
}

impl ReportError {
    /// Adds the path to a table error.
    pub(super) fn table(path: &Path) -> impl FnOnce(TableError) -> Self + '_ {
        |source| Self::ReadTable { path: path.to_owned(), source }
    }

    /// Adds the path to a JSON error.
    pub(super) fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> Self + '_ {
        |source| Self::Json { path: path.to_owned(), source }
    }
}

/// A problem with a published table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is not CSV.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// A row has the wrong fields.
    #[error("row {row} cannot be read: {fields:?}")]
    Row {
        /// The one-based row number in the file.
        row: usize,
        /// The fields in the row.
        fields: Vec<String>,
    },
}

/// An error while verifying a published study.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The study is not in the published results folder.
    #[error("{study} is not published in {}; `poseidon report --publish` publishes results", .folder.display())]
    NotPublished {
        /// The study name.
        study: String,
        /// The folder.
        folder: PathBuf,
    },
    /// The scenario or its plans have changed since the study was published.
    #[error("{study} is {}: {reason}; run and publish it again", super::STALE_LABEL)]
    Stale {
        /// The study name.
        study: String,
        /// What has changed.
        reason: String,
    },
    /// The study has no scenario or was published without hashes.
    #[error("{0} has no scenario or no hashes")]
    NoProvenance(String),
    /// The study ran on real packets.
    #[error(
        "{0} ran on real packets, and such runs are not repeatable; `poseidon compare` compares two runs"
    )]
    RealPackets(String),
    /// The study cannot run again.
    #[error(transparent)]
    Run(#[from] StudyError),
    /// The published results cannot be read.
    #[error(transparent)]
    Report(#[from] ReportError),
}
