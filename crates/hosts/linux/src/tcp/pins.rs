//! The objects pinned in the BPF file system, which outlive the process.
//!
//! ```text
//! /sys/fs/bpf/poseidon/tcp/law       struct_ops: the congestion control is registered while this file exists
//!                          option    sock_ops, attached to the cgroup
//!                          flows     an iterator: reading the file runs it
//!                          totals    counters over all connections
//!                          about     the settings, as text
//! ```

use super::error::TcpError;
use crate::pin_folder;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/sys/fs/bpf/poseidon/tcp";

/// The pin names. The law is pinned last and removed first, because sockets can select it.
pub(super) const LAW: &str = "law";
pub(super) const OPTION: &str = "option";
pub(super) const FLOWS: &str = "flows";
pub(super) const TOTALS: &str = "totals";
pub(super) const ABOUT: &str = "about";
const ALL: [&str; 5] = [LAW, OPTION, FLOWS, TOTALS, ABOUT];

/// Returns the path to a pin.
pub(super) fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Returns whether any pin exists. An incomplete set of pins also counts, so that it can be removed.
///
/// If permission is missing, returns an error rather than `false`.
pub(super) fn any_exists() -> Result<bool, TcpError> {
    let root = Path::new(pin_folder::ROOT);
    pin_folder::check(root).map_err(TcpError::file("checking", root))?;
    let exists = |path: PathBuf| path.try_exists().map_err(TcpError::file("looking for", path));
    ALL.into_iter().try_fold(false, |found, name| Ok(found || exists(path(name))?))
}

/// Creates the folder for the pins, and mounts the BPF file system if necessary.
pub(super) fn create_folder() -> Result<(), TcpError> {
    pin_folder::mount_bpf_file_system().map_err(TcpError::file("mounting", "/sys/fs/bpf"))?;
    pin_folder::create(Path::new(FOLDER)).map_err(TcpError::file("creating", FOLDER))
}

/// Tries to remove every pin, even if some cannot be removed. Returns the first error.
pub(super) fn remove_all() -> Result<(), TcpError> {
    let mut result = Ok(());
    for path in ALL.map(path) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                result = result.and_then(|()| Err(TcpError::file("removing", path)(error)));
            }
            _ => {}
        }
    }
    let _ = fs::remove_dir(FOLDER);
    // The parent folder stays if it contains port pins.
    let _ = Path::new(FOLDER).parent().map(fs::remove_dir);
    result
}
