//! Folders for pinned objects in the BPF file system. Only root may change them.
//!
//! On many distributions, every user may create folders in `/sys/fs/bpf`. A folder's owner can remove the pins in it
//! and thereby detach programs, so this module refuses folders that belong to other users.

use crate::mount_namespace::{BPF_FILE_SYSTEM, is_bpf_file_system};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;

/// The parent folder of all our pin folders.
pub(crate) const ROOT: &str = "/sys/fs/bpf/poseidon";

const ROOT_USER: u32 = 0;
/// The mode of a folder that only its owner can access.
const OWNER_ONLY: u32 = 0o700;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Mounts the BPF file system if necessary and leaves it mounted, which is the default on most distributions.
pub(crate) fn mount_bpf_file_system() -> io::Result<()> {
    if is_bpf_file_system() {
        return Ok(());
    }
    let output =
        Command::new("mount").args(["-t", "bpf", "-o", "mode=0700", "bpf", BPF_FILE_SYSTEM]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("mount: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Creates a folder below [`ROOT`], including its parents. All of these folders must belong to root.
pub(crate) fn create(folder: &Path) -> io::Result<()> {
    let our_folders = folder.ancestors().take_while(|path| path.starts_with(ROOT));
    for path in our_folders.collect::<Vec<_>>().into_iter().rev() {
        match DirBuilder::new().mode(OWNER_ONLY).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(path)?,
            result => result?,
        }
    }
    Ok(())
}

/// Refuses a folder that another user owns or may write to. A missing folder is accepted.
pub(crate) fn check(folder: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    if !metadata.is_dir() {
        return Err(io::Error::other("it is not a folder; remove it"));
    }
    if metadata.uid() != ROOT_USER {
        let (uid, path) = (metadata.uid(), folder.display());
        return Err(io::Error::other(format!(
            "it belongs to user {uid}, who could disable poseidon; rm -r {path}"
        )));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(io::Error::other(format!("other users may write to it; chmod 700 {}", folder.display())));
    }
    Ok(())
}
