//! Private namespaces for a run.
//!
//! A run needs private network and mount namespaces ([`poseidon_netns::PrivateNetns`]). When the process exits, even
//! because of a signal, the kernel removes the namespaces, devices, queues and programs. The kernel does not remove
//! empty cgroups, but [`remove_stale_cgroups`] does.

use poseidon_linux::tcp;
use poseidon_netns::PrivateNetns;
use std::path::{Path, PathBuf};
use std::{fs, io, process};

/// The environment variable that is set inside the private namespaces.
pub const INSIDE: &str = "POSEIDON_TESTBED_INSIDE";

/// The prefix of our cgroups.
const CGROUP_PREFIX: &str = "poseidon-testbed-";

/// Returns whether this process is running in private namespaces.
pub fn is_inside() -> bool {
    PrivateNetns::new(INSIDE).is_inside()
}

/// Replaces this process with the same command line running in private namespaces. Returns only if that fails.
pub fn exec_inside() -> io::Error {
    PrivateNetns::new(INSIDE).program_wrapper(&["nice", "-n", "-15"]).exec()
}

/// A cgroup for this process. The process leaves the cgroup when this value is dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    pub(crate) path: PathBuf,
}

impl Cgroup {
    pub(crate) fn join() -> io::Result<Self> {
        let path = parent()?.join(format!("{CGROUP_PREFIX}{}", process::id()));
        fs::create_dir(&path)?;
        fs::write(path.join("cgroup.procs"), "0")?;
        Ok(Self { path })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // If this fails, an empty cgroup remains until `remove_stale_cgroups` removes it.
        let moved = self.path.parent().map(|parent| fs::write(parent.join("cgroup.procs"), "0"));
        let _ = (moved, fs::remove_dir(&self.path));
    }
}

/// Returns the parent directory of our cgroups.
fn parent() -> io::Result<PathBuf> {
    let default = tcp::default_cgroup().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(default.parent().map_or_else(|| default.clone(), Path::to_path_buf))
}

/// Removes the cgroups left behind by killed runs, and returns their paths.
///
/// The cgroup of a running process cannot be removed, so current runs are not affected.
pub fn remove_stale_cgroups() -> io::Result<Vec<PathBuf>> {
    let is_ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CGROUP_PREFIX))
    };
    let cgroups: Vec<_> =
        fs::read_dir(parent()?)?.flatten().map(|entry| entry.path()).filter(is_ours).collect();
    Ok(cgroups.into_iter().filter(|path| fs::remove_dir(path).is_ok()).collect())
}
