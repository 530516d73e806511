//! The cgroup whose sockets speak the option. A socket belongs to the cgroup of the process that made it, at that moment.
//!
//! At the root every process of the machine would be in it, so there is one of our own: `poseidon`, below the mount of cgroup v2.

use super::error::TcpError;
use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "poseidon";

/// A cgroup to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    pub(super) path: PathBuf,
}

impl Cgroup {
    /// The one that was named, or our own, which is made if it is missing.
    pub(super) fn ready(named: Option<&Path>) -> Result<Self, TcpError> {
        if let Some(path) = named {
            return Ok(Self { path: path.to_owned() });
        }
        let path = own_path()?;
        match fs::create_dir(&path) {
            Err(why) if !path.is_dir() => Err(TcpError::file("making the cgroup", &path)(why)),
            _ => Ok(Self { path }),
        }
    }

    /// Removes our own, after its processes have gone back to its parent. One that was named is its owner's.
    pub(super) fn remove_own() -> Result<(), TcpError> {
        let Ok(path) = own_path() else { return Ok(()) };
        if !path.exists() {
            return Ok(());
        }
        let parent = path.with_file_name("cgroup.procs");
        let inside = path.join("cgroup.procs");
        for process in fs::read_to_string(&inside).map_err(TcpError::file("reading", &inside))?.lines() {
            // One that has just ended needs no moving; one that cannot be moved makes the removal fail, which is told.
            let _ = fs::write(&parent, process);
        }
        fs::remove_dir(&path).map_err(TcpError::file("removing the cgroup", &path))
    }
}

/// Where our own cgroup is or will be.
pub fn own_path() -> Result<PathBuf, TcpError> {
    let mounts =
        fs::read_to_string("/proc/self/mounts").map_err(TcpError::file("reading", "/proc/self/mounts"))?;
    mount_of(&mounts, "cgroup2").map(|root| root.join(NAME)).ok_or(TcpError::NoCgroups)
}

/// Whether every process of the machine is in this cgroup.
pub fn is_root(cgroup: &Path) -> bool {
    let root = fs::read_to_string("/proc/self/mounts").ok().and_then(|mounts| mount_of(&mounts, "cgroup2"));
    root.is_some_and(|root| fs::canonicalize(cgroup).is_ok_and(|cgroup| cgroup == root))
}

/// Where a file system of this type is mounted: the second word of its line.
pub(crate) fn mount_of(mounts: &str, kind: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (place, found) = (words.nth(1)?, words.next()?);
        (found == kind).then(|| PathBuf::from(place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_cgroup_v2_is_found_beside_those_of_v1() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        assert_eq!(mount_of(mounts, "cgroup2"), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_of(mounts, "bpf"), None);
        assert_eq!(mount_of("", "cgroup2"), None);
    }
}
