//! Errors from enabling, disabling and querying Poseidon in TCP.

use super::settings::SettingsError;
use crate::mount_namespace::MountNamespaceError;
use crate::object::KernelError;
use crate::port::mount_namespace_text;
use core::fmt;
use std::io;
use std::path::PathBuf;

/// Why an operation failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum TcpError {
    /// A setting is invalid.
    Settings(SettingsError),
    /// Poseidon is already enabled.
    AlreadyEnabled,
    /// Another congestion control with this name is registered.
    NameTaken {
        /// The congestion control's name.
        name: String,
    },
    /// Poseidon is not enabled.
    NotEnabled,
    /// The kernel refused an operation.
    Kernel(KernelError),
    /// No cgroup v2 file system is mounted.
    NoCgroup2,
    /// No BPF file system is mounted here, and the outer mount namespace cannot be entered.
    MountNamespace {
        /// The underlying OS error.
        error: io::Error,
    },
    /// A file could not be read, written, created or removed.
    File {
        /// The operation, such as "reading".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The underlying OS error.
        error: io::Error,
    },
    /// This congestion control is not available in the kernel.
    UnknownControl {
        /// The congestion control's name.
        control: String,
        /// The available congestion controls.
        available: String,
    },
    /// The objects in the kernel belong to another version of this program.
    VersionMismatch {
        /// The mismatched object.
        object: &'static str,
    },
}

impl TcpError {
    pub(crate) fn file(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { operation, path, error }
    }

    pub(crate) fn refused(operation: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |error| Self::Kernel(KernelError::Refused { operation, error })
    }
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::AlreadyEnabled => {
                f.write_str("poseidon is already enabled; run `poseidon tcp disable` to change its settings")
            }
            Self::NameTaken { name } => write!(
                f,
                "a congestion control `{name}` is already registered; disable the one that was enabled with \
                 another /sys/fs/bpf (for example in a container), and wait until its connections have ended",
            ),
            Self::NotEnabled => f.write_str("poseidon is not enabled"),
            Self::Kernel(error) => error.fmt(f),
            Self::NoCgroup2 => {
                f.write_str("no cgroup v2 file system is mounted: mount -t cgroup2 none /sys/fs/cgroup")
            }
            Self::MountNamespace { error } => f.write_str(&mount_namespace_text(error)),
            Self::File { operation, path, error } => {
                let remedy =
                    if error.kind() == io::ErrorKind::PermissionDenied { "; run as root" } else { "" };
                write!(f, "{operation} {}: {error}{remedy}", path.display())
            }
            Self::UnknownControl { control, available } => {
                write!(f, "connections cannot use {control:?}; choose one of these: {available}")
            }
            Self::VersionMismatch { object } => {
                write!(f, "{object} belongs to another version of poseidon; disable it with that version")
            }
        }
    }
}

impl core::error::Error for TcpError {}

impl From<SettingsError> for TcpError {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error)
    }
}

impl From<KernelError> for TcpError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl From<MountNamespaceError> for TcpError {
    fn from(error: MountNamespaceError) -> Self {
        Self::MountNamespace { error: error.source }
    }
}
