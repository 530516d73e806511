//! Why Poseidon could not be switched on, off or asked.

use super::settings::SettingsError;
use crate::in_kernel::KernelError;
use core::fmt;
use std::io;
use std::path::PathBuf;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum TcpError {
    /// A setting is refused.
    Settings(SettingsError),
    /// It is on already.
    AlreadyOn,
    /// It is not on.
    Off,
    /// The kernel refused.
    Kernel(KernelError),
    /// No cgroup v2 file system is mounted.
    NoCgroups,
    /// A file could not be read, written, made or removed.
    File {
        /// What was being done.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// What the kernel has is not of this version.
    OtherVersion {
        /// What does not fit.
        what: &'static str,
    },
}

impl TcpError {
    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |why| Self::File { doing, path, why }
    }

    pub(crate) fn refused(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |why| Self::Kernel(KernelError::Refused { doing, why })
    }
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(why) => why.fmt(f),
            Self::AlreadyOn => f.write_str("poseidon is on already; switch it off to change its settings"),
            Self::Off => f.write_str("poseidon is not on"),
            Self::Kernel(why) => why.fmt(f),
            Self::NoCgroups => {
                f.write_str("no cgroup v2 file system is mounted: mount -t cgroup2 none /sys/fs/cgroup")
            }
            Self::File { doing, path, why } => {
                let fix = if why.kind() == io::ErrorKind::PermissionDenied { "; run as root" } else { "" };
                write!(f, "{doing} {}: {why}{fix}", path.display())
            }
            Self::OtherVersion { what } => {
                write!(f, "{what} is of another version of poseidon; switch it off with that one")
            }
        }
    }
}

impl core::error::Error for TcpError {}

impl From<SettingsError> for TcpError {
    fn from(why: SettingsError) -> Self {
        Self::Settings(why)
    }
}

impl From<KernelError> for TcpError {
    fn from(why: KernelError) -> Self {
        Self::Kernel(why)
    }
}
