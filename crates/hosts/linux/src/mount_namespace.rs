//! Runs code in a mount namespace that has this machine's BPF file system.
//!
//! `ip netns exec` runs each command in a separate mount namespace with a fresh `/sys`. A BPF file system that is
//! mounted there disappears, together with the pinned maps, when the command exits. Pins therefore go to the outer
//! mount namespace: that of process 1 or, if it is not accessible, of the most distant accessible ancestor.
//!
//! | this process's `/sys/fs/bpf` | mount namespace | where pins go |
//! |---|---|---|
//! | a BPF file system | any | there |
//! | none | outer | there, once a BPF file system is mounted |
//! | none | another, as under `ip netns exec` | `/sys/fs/bpf` in the outer mount namespace |
//!
//! A separate thread enters the outer namespace, so the rest of the process is not affected. The thread and the
//! commands it runs stay in the current network namespace.

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::thread;

/// The usual mount point of the BPF file system.
pub(crate) const BPF_FILE_SYSTEM: &str = "/sys/fs/bpf";

/// The calling thread's mount table.
pub(crate) const MOUNTS: &str = "/proc/thread-self/mounts";

const CURRENT_NAMESPACE: &str = "/proc/thread-self/ns/mnt";

/// Why the outer mount namespace cannot be used.
#[derive(Debug)]
pub(crate) struct MountNamespaceError {
    /// The underlying OS error.
    pub(crate) source: io::Error,
}

/// Runs `work` in a mount namespace whose BPF file system outlives this process.
pub(crate) fn with_bpf_file_system<T: Send, E: From<MountNamespaceError> + Send>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    if is_usable_here().map_err(|source| MountNamespaceError { source })? {
        return work();
    }
    let enter_and_work = || {
        enter_outer_namespace().map_err(|source| MountNamespaceError { source })?;
        work()
    };
    thread::scope(|scope| {
        let thread = scope.spawn(enter_and_work);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Returns whether pins in this thread's mount namespace outlive this process.
fn is_usable_here() -> io::Result<bool> {
    if is_bpf_file_system() {
        return Ok(true);
    }
    let current = fs::read_link(CURRENT_NAMESPACE)?;
    Ok(outer_namespace().is_none_or(|outer| fs::read_link(outer).is_ok_and(|outer| outer == current)))
}

/// Moves the calling thread into the outer mount namespace.
fn enter_outer_namespace() -> io::Result<()> {
    let path = outer_namespace().ok_or(io::ErrorKind::NotFound)?;
    let namespace = File::open(path)?;
    // A thread that shares its root and working directory with other threads cannot change its mount namespace.
    unshare(CloneFlags::CLONE_FS)?;
    Ok(setns(namespace, CloneFlags::CLONE_NEWNS)?)
}

/// Returns the mount namespace of the most distant ancestor whose namespace is accessible.
fn outer_namespace() -> Option<PathBuf> {
    let mut outer = None;
    let mut process = std::process::id();
    while let Some(parent) = parent_of(process) {
        let namespace = PathBuf::from(format!("/proc/{parent}/ns/mnt"));
        if fs::read_link(&namespace).is_ok() {
            outer = Some(namespace);
        }
        process = parent;
    }
    outer
}

/// Returns the parent of a process, or `None` for the first process.
fn parent_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    (parent != 0).then_some(parent)
}

/// Returns whether a BPF file system is mounted at the usual mount point.
pub(crate) fn is_bpf_file_system() -> bool {
    statfs(BPF_FILE_SYSTEM).is_ok_and(|info| info.filesystem_type() == BPF_FS_MAGIC)
}

/// Returns the mount point of a file system of this type: the second word of its mount table line.
pub(crate) fn mount_point(mounts: &str, kind: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, file_system) = (words.next()?, words.next()?);
        (file_system == kind).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_by_their_type() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(mount_point(mounts, "cgroup2"), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point(mounts, "bpf"), None);
        assert_eq!(mount_point("", "cgroup2"), None);
    }

    #[test]
    fn ancestors_end_at_the_first_process() {
        let parent = parent_of(std::process::id()).expect("a test has a parent");
        assert_ne!(parent, std::process::id());
        assert_eq!(parent_of(1), None);
    }

    #[test]
    fn work_runs_unless_permission_is_denied() {
        let result = with_bpf_file_system(|| Ok::<_, MountNamespaceError>(7));
        match result {
            Ok(number) => assert_eq!(number, 7),
            Err(MountNamespaceError { source }) => assert_eq!(source.kind(), io::ErrorKind::PermissionDenied),
        }
    }
}
