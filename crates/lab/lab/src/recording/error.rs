//! Errors of recordings.

use poseidon_plan::PlanError;
use poseidon_types::Picos;
use std::path::{Path, PathBuf};

/// The reason that a recording cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The text does not name a port.
    #[error("{text:?} does not name a port; write host3:0 or switch5:2")]
    NotAPort {
        /// The text.
        text: String,
    },
    /// The network has no such host or switch.
    #[error("{text:?}: the network has {}", range(.kind, *.count))]
    NoSuchNode {
        /// The text.
        text: String,
        /// `host` or `switch`.
        kind: &'static str,
        /// The number of hosts or switches.
        count: u32,
    },
    /// The host or switch has no such port.
    #[error("{text:?}: {node} has {}", range("port", *.count))]
    NoSuchPort {
        /// The text.
        text: String,
        /// The host or the switch.
        node: String,
        /// The number of its ports.
        count: u32,
    },
    /// The run has no such connection.
    #[error("flow {connection} does not exist; the run has {}", range("flow", *.count))]
    NoSuchConnection {
        /// The number of the connection.
        connection: u32,
        /// The number of connections.
        count: u32,
    },
    /// The time window is empty.
    #[error("the window from {from} to {to} is empty; --to must be later than --from")]
    EmptyWindow {
        /// The begin.
        from: Picos,
        /// The end.
        to: Picos,
    },
    /// The time window begins after the end of the run.
    #[error("the window begins at {from}, but the run ends at {end}")]
    WindowOutsideRun {
        /// The begin.
        from: Picos,
        /// The end of the run.
        end: Picos,
    },
    /// The sampling interval would give too many samples.
    #[error(
        "a sample every {interval} gives {samples} samples, above the limit of {limit}; sample less often or \
             shorten the window"
    )]
    TooManySamples {
        /// The interval.
        interval: Picos,
        /// The number of samples.
        samples: u64,
        /// The limit.
        limit: u64,
    },
    /// The backend rejects the recording.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file cannot be written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The underlying I/O error.
        source: std::io::Error,
    },
}

impl RecordingError {
    /// Adds the path to an I/O error.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::File { path: path.to_owned(), source }
    }
}

/// Describes a numbered set: `hosts 0 to 15`.
fn range(kind: &str, count: u32) -> String {
    let plural = if kind == "switch" { "switches".to_owned() } else { format!("{kind}s") };
    match count {
        0 => format!("no {plural}"),
        1 => format!("only {kind} 0"),
        count => format!("{plural} 0 to {}", count - 1),
    }
}
