//! Errors from namespace operations.

use core::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a namespace operation failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetnsError {
    /// A command could not be started, or the command failed.
    Command {
        /// The command line.
        command: String,
        /// The command's error output, or the operating system error.
        reason: String,
    },
    /// A namespace file could not be opened.
    File {
        /// The path of the namespace file.
        path: PathBuf,
        /// The underlying OS error.
        error: io::Error,
    },
    /// A thread could not enter a namespace.
    Setns {
        /// The path of the namespace file.
        path: PathBuf,
        /// The underlying OS error.
        error: io::Error,
    },
    /// A thread inside a namespace panicked.
    Panicked {
        /// The path of the namespace file.
        path: PathBuf,
    },
}

impl fmt::Display for NetnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, reason } => write!(f, "{command}: {reason}"),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Setns { path, error } => write!(f, "cannot enter {}: {error}", path.display()),
            Self::Panicked { path } => write!(f, "the thread inside {} panicked", path.display()),
        }
    }
}

impl core::error::Error for NetnsError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::File { error, .. } | Self::Setns { error, .. } => Some(error),
            Self::Command { .. } | Self::Panicked { .. } => None,
        }
    }
}
