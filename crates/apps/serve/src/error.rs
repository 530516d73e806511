//! Errors of the server and of its requests.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use poseidon_lab::report::ReportError;
use poseidon_lab::runner::StudyError;
use poseidon_lab::scenario::ScenarioError;
use serde::Serialize;
use std::io;
use std::path::PathBuf;

/// An error that ends the server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be opened.
    #[error("cannot listen on 127.0.0.1:{port}: {source}; choose another --port, or 0 for a free port")]
    Bind {
        /// The port.
        port: u16,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The results folder cannot be created.
    #[error("cannot create the results folder {}: {source}; choose another --output", .path.display())]
    Output {
        /// The folder.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The operating system provides no random numbers.
    #[error("cannot create a token: {0}")]
    Random(getrandom::Error),
    /// The browser cannot be opened.
    #[error("cannot open a browser: {0}; open the printed URL yourself")]
    Browser(io::Error),
    /// The runtime or a thread cannot start.
    #[error("cannot start the server: {0}")]
    Start(io::Error),
}

/// A request that the server refuses. The answer is JSON with the message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("the Host header is not this server's address; open the URL that `poseidon serve` printed")]
    ForeignHost,
    #[error("the request comes from another web page; open the URL that `poseidon serve` printed")]
    ForeignOrigin,
    #[error("the token is missing or wrong; open the URL that `poseidon serve` printed")]
    WrongToken,
    #[error("the request has more than {limit} bytes; shorten the scenario")]
    TooLarge { limit: usize },
    #[error("the request did not arrive within {seconds} s; send it again")]
    TooSlow { seconds: u64 },
    #[error("the request is not valid: {0}")]
    Invalid(String),
    #[error("one run is in progress and {waiting} are waiting; wait until one of them ends, or stop one")]
    QueueFull { waiting: usize },
    #[error("there are already {limit} open event streams; close another tab")]
    TooManyStreams { limit: usize },
    #[error("there is no {what} {name:?}; reload the page")]
    NotFound { what: &'static str, name: String },
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Report(Box<ReportError>),
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
    #[error("the files have {bytes} bytes, and a zip archive can hold 4 GB; copy them from {}", .folder.display())]
    ArchiveTooLarge { bytes: u64, folder: PathBuf },
    #[error("a part of the program panicked: {0}; this is a bug, please report it")]
    Panicked(String),
}

impl ApiError {
    fn status(&self) -> StatusCode {
        match self {
            Self::ForeignHost | Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::TooLarge { .. } | Self::ArchiveTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::QueueFull { .. } | Self::TooManyStreams { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Report(_) | Self::File { .. } | Self::Panicked(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<ReportError> for ApiError {
    fn from(error: ReportError) -> Self {
        Self::Report(Box::new(error))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(serde_json::json!({ "error": self.to_string() }));
        (self.status(), body).into_response()
    }
}

/// An error in a scenario, with its position in the editor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The one-based line, if the error refers to a line.
    pub(crate) line: Option<usize>,
    /// The one-based column, in characters.
    pub(crate) column: Option<usize>,
    /// The cause and the remedy.
    pub(crate) message: String,
    /// The cell, if the scenario has several.
    pub(crate) cell: Option<String>,
}

impl Problem {
    /// Describes an error that has no position.
    pub(crate) fn without_position(error: impl core::fmt::Display) -> Self {
        Self { line: None, column: None, message: error.to_string(), cell: None }
    }

    /// Finds the column of an error: that of the syntax error, of the key or of the first character of the line.
    pub(crate) fn in_text(text: &str, error: &ScenarioError) -> Self {
        let syntax = poseidon_lab::scenario::syntax_error_position(text);
        let column = match (error.line, syntax) {
            (Some(line), Some((syntax_line, column))) if line == syntax_line => Some(column),
            (Some(line), _) => text.lines().nth(line - 1).map(|text| column_of_key(text, error)),
            (None, _) => None,
        };
        let message = error.error.to_string();
        Self { line: error.line, column, message, cell: error.cell.clone() }
    }

    /// Describes why a study failed.
    pub(crate) fn of_study(text: &str, error: &StudyError) -> Self {
        match error {
            StudyError::Scenario(error) => Self::in_text(text, error),
            error => Self::without_position(error),
        }
    }
}

/// Returns the column of the key that an error is about, or of the first character of its line.
fn column_of_key(line: &str, error: &ScenarioError) -> usize {
    let path = error.error.key_path.to_string();
    let key = path.rsplit('.').next().unwrap_or_default();
    let key = key.split('[').next().unwrap_or_default();
    let offset = match key {
        "" => None,
        key => line.find(key),
    };
    let offset = offset.unwrap_or_else(|| line.len() - line.trim_start().len());
    1 + line[..offset].chars().count()
}
