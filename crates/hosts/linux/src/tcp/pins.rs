//! What outlives the process: files in the kernel's file system for BPF, one per thing that must stay.
//!
//! ```text
//! /sys/fs/bpf/poseidon/tcp/law       struct_ops: the congestion control is registered while this is there
//!                          option    sock_ops, attached to the cgroup
//!                          flows     an iterator: reading the file runs it
//!                          totals    counters over all connections
//!                          about     the settings, as text
//! ```

use super::cgroup::mount_of;
use super::error::TcpError;
use crate::pin_folder;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the kernel's file system for BPF is, by convention.
const BPF_FILE_SYSTEM: &str = "/sys/fs/bpf";
const FOLDER: &str = "/sys/fs/bpf/poseidon/tcp";

/// What is pinned; the law last to come and first to go, since it is what a socket can choose.
pub(super) const LAW: &str = "law";
pub(super) const OPTION: &str = "option";
pub(super) const FLOWS: &str = "flows";
pub(super) const TOTALS: &str = "totals";
pub(super) const ABOUT: &str = "about";
const ALL: [&str; 5] = [LAW, OPTION, FLOWS, TOTALS, ABOUT];

/// Where the thing of this name is pinned.
pub(super) fn at(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Whether anything is pinned: half of it counts, so that it can be switched off.
/// Who may not look is told so, and not that nothing is there.
pub(super) fn any() -> Result<bool, TcpError> {
    let root = Path::new(pin_folder::ROOT);
    pin_folder::check(root).map_err(TcpError::file("looking into", root))?;
    let is_there = |path: PathBuf| path.try_exists().map_err(TcpError::file("looking for", path));
    ALL.into_iter().try_fold(false, |found, name| Ok(found || is_there(at(name))?))
}

/// Makes the folder, and mounts its file system where nobody has; that stays, as on most distributions it is there from the start.
pub(super) fn make_folder() -> Result<(), TcpError> {
    let mounts =
        fs::read_to_string("/proc/self/mounts").map_err(TcpError::file("reading", "/proc/self/mounts"))?;
    if mount_of(&mounts, "bpf").is_none() {
        let status =
            Command::new("mount").args(["-t", "bpf", "-o", "mode=0700", "bpf", BPF_FILE_SYSTEM]).status();
        let status = status.map_err(TcpError::file("running mount for", BPF_FILE_SYSTEM))?;
        if !status.success() {
            let why = io::Error::other(format!("mount: {status}"));
            return Err(TcpError::File { doing: "mounting", path: BPF_FILE_SYSTEM.into(), why });
        }
    }
    pin_folder::make(Path::new(FOLDER)).map_err(TcpError::file("making", FOLDER))
}

/// Removes everything that is there, even after a failure in between; tells the first failure.
pub(super) fn remove_all() -> Result<(), TcpError> {
    let mut first = Ok(());
    for path in ALL.map(at) {
        match fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                first = first.and_then(|()| Err(TcpError::file("removing", path)(why)));
            }
            _ => {}
        }
    }
    let _ = fs::remove_dir(FOLDER);
    // Another part of poseidon may have its own things beside ours: then it stays.
    let _ = Path::new(FOLDER).parent().map(fs::remove_dir);
    first
}
