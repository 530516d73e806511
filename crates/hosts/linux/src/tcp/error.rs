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
    /// A congestion control of this name is registered, and not by what is on here.
    NameTaken,
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
    /// The kernel has no such congestion control.
    NoSuchControl {
        /// Which.
        law: String,
        /// What it has.
        available: String,
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
            Self::NameTaken => f.write_str(
                "a congestion control `poseidon` is registered already; end the run of the testbed, or switch off what was switched \
                 on with another /sys/fs/bpf (in a container or by `ip netns exec`), and wait until its connections have ended",
            ),
            Self::Off => f.write_str("poseidon is not on"),
            Self::Kernel(why) => why.fmt(f),
            Self::NoCgroups => {
                f.write_str("no cgroup v2 file system is mounted: mount -t cgroup2 none /sys/fs/cgroup")
            }
            Self::File { doing, path, why } => {
                let fix = if why.kind() == io::ErrorKind::PermissionDenied { "; run as root" } else { "" };
                write!(f, "{doing} {}: {why}{fix}", path.display())
            }
            Self::NoSuchControl { law, available } => {
                write!(f, "connections cannot get {law:?}; choose one that the kernel has: {available}")
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
