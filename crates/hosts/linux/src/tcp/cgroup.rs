//! The cgroup whose sockets use the TCP option. A socket belongs to the cgroup that its process was in when it created
//! the socket.
//!
//! The root cgroup includes every process on the machine, so the default is a cgroup named `poseidon` below the cgroup
//! v2 mount point.

use super::error::TcpError;
use crate::mount_namespace::{MOUNTS, mount_point};
use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "poseidon";

/// A cgroup to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    pub(super) path: PathBuf,
}

impl Cgroup {
    /// Returns the configured cgroup, or else the default cgroup, which this function creates if necessary.
    pub(super) fn open(configured: Option<&Path>) -> Result<Self, TcpError> {
        if let Some(path) = configured {
            return Ok(Self { path: path.to_owned() });
        }
        let path = default_path()?;
        match fs::create_dir(&path) {
            Err(error) if !path.is_dir() => Err(TcpError::file("creating the cgroup", &path)(error)),
            _ => Ok(Self { path }),
        }
    }

    /// Moves the default cgroup's processes to the parent cgroup and removes the default cgroup.
    pub(super) fn remove_default() -> Result<(), TcpError> {
        let Ok(path) = default_path() else { return Ok(()) };
        if !path.exists() {
            return Ok(());
        }
        let parent_processes = path.with_file_name("cgroup.procs");
        let processes = path.join("cgroup.procs");
        for process in fs::read_to_string(&processes).map_err(TcpError::file("reading", &processes))?.lines()
        {
            // A process that has exited does not need to be moved. If any other process cannot be moved, the removal
            // below fails.
            let _ = fs::write(&parent_processes, process);
        }
        fs::remove_dir(&path).map_err(TcpError::file("removing the cgroup", &path))
    }
}

/// Returns the path to the default cgroup, whether or not it exists.
pub fn default_path() -> Result<PathBuf, TcpError> {
    let mounts = fs::read_to_string(MOUNTS).map_err(TcpError::file("reading", MOUNTS))?;
    mount_point(&mounts, "cgroup2").map(|root| root.join(NAME)).ok_or(TcpError::NoCgroup2)
}

/// Returns whether `cgroup` is the root cgroup, which includes every process on the machine.
pub fn is_root(cgroup: &Path) -> bool {
    let root = fs::read_to_string(MOUNTS).ok().and_then(|mounts| mount_point(&mounts, "cgroup2"));
    root.is_some_and(|root| fs::canonicalize(cgroup).is_ok_and(|cgroup| cgroup == root))
}
