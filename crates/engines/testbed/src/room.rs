//! A room for a run: namespaces for network and mounts that this process has to itself.
//!
//! Inside, the names of network namespaces and the pinned objects of BPF live in file systems that nobody else sees. The process
//! becomes itself again inside of it, under the same number: when it ends, even killed, the kernel takes away namespaces, devices,
//! queues and programs. What it cannot take away are folders in the file system of cgroups, which are empty then: [`clean`].

use poseidon_linux::tcp;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io, process};

/// The variable that is set inside.
pub const INSIDE: &str = "POSEIDON_ROOM";

/// What the names of our cgroups begin with.
const CGROUP: &str = "poseidon-testbed-";

/// Whether this process stands in a room.
pub fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Becomes the same command inside a room. Comes back only if that fails.
pub fn enter() -> io::Error {
    // A terminal's Ctrl-C and the exit code go to and come from the same process.
    let prepare = "mount -t tmpfs none /run && mkdir /run/netns && mount -t bpf bpf /sys/fs/bpf && exec nice -n -15 \"$0\" \"$@\"";
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(why) => return why,
    };
    Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", prepare])
        .arg(program)
        .args(env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec()
}

/// A cgroup of this process, which it is in until this is dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    pub(crate) path: PathBuf,
}

impl Cgroup {
    pub(crate) fn join() -> io::Result<Self> {
        let path = above()?.join(format!("{CGROUP}{}", process::id()));
        fs::create_dir(&path)?;
        fs::write(path.join("cgroup.procs"), "0")?;
        Ok(Self { path })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What stays is empty, and `clean` finds it.
        let back = self.path.parent().map(|above| fs::write(above.join("cgroup.procs"), "0"));
        let _ = (back, fs::remove_dir(&self.path));
    }
}

/// Where cgroups of version 2 are.
fn above() -> io::Result<PathBuf> {
    let own = tcp::own_cgroup().map_err(|why| io::Error::other(why.to_string()))?;
    Ok(own.parent().map_or_else(|| own.clone(), Path::to_path_buf))
}

/// Removes what runs that were killed have left, and tells what that was. Runs that still go on are not touched: the folder of a
/// process that lives cannot be removed.
pub fn clean() -> io::Result<Vec<PathBuf>> {
    let is_ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CGROUP));
    let found: Vec<_> = fs::read_dir(above()?)?.flatten().map(|entry| entry.path()).filter(is_ours).collect();
    Ok(found.into_iter().filter(|path| fs::remove_dir(path).is_ok()).collect())
}
