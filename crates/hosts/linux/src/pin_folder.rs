//! Folders in the kernel's file system for BPF, which only root may change.
//!
//! Many distributions let everybody make folders in `/sys/fs/bpf`. Whoever owns a folder can remove what is pinned in it, and so switch it off:
//! a folder that somebody else made first is refused.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

/// All of ours is in it.
pub(crate) const ROOT: &str = "/sys/fs/bpf/poseidon";

const ROOT_USER: u32 = 0;
/// What only its owner may do.
const OWNER_ONLY: u32 = 0o700;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Makes a folder below [`ROOT`], and those on the way; each is or becomes root's own.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    let ours = folder.ancestors().take_while(|at| at.starts_with(ROOT));
    for at in ours.collect::<Vec<_>>().into_iter().rev() {
        match DirBuilder::new().mode(OWNER_ONLY).create(at) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => check(at)?,
            made => made?,
        }
    }
    Ok(())
}

/// Refuses a folder that another user owns or may write to. None at all is fine.
pub(crate) fn check(folder: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.is_dir() {
        return Err(io::Error::other("it is no folder; remove it"));
    }
    if found.uid() != ROOT_USER {
        let (uid, path) = (found.uid(), folder.display());
        return Err(io::Error::other(format!(
            "it belongs to user {uid}, who could switch poseidon off; rm -r {path}"
        )));
    }
    if found.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(io::Error::other(format!("others may write to it; chmod 700 {}", folder.display())));
    }
    Ok(())
}
