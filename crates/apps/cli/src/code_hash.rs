//! Hashes the code that results depend on. The build script hashes the program's sources. When results are published,
//! the repository is hashed again to check that the recorded commit contains the same code.

use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The code that a summary depends on: the simulator and the crates below it, and the parts of the lab that make plans
/// and metrics. The list excludes code that judges, draws and prints. It also excludes scenarios, because each plan has
/// a separate hash.
pub(crate) const CODE: &[&str] = &[
    "crates/core/types/src",
    "crates/core/laws/src",
    "crates/core/policies/src",
    "crates/core/wire/src",
    "crates/lab/models/src",
    "crates/model/plan/src",
    "crates/engines/sim/src",
    "crates/lab/lab/src/analytic",
    "crates/lab/lab/src/reduce",
    "crates/lab/lab/src/resolve",
    "crates/lab/lab/src/bound.rs",
    "crates/lab/lab/src/oracle.rs",
    "crates/lab/lab/src/pooled.rs",
    "crates/lab/lab/src/samples.rs",
    "crates/lab/lab/src/stats.rs",
];

/// The additional code that a summary of a run with real packets depends on.
pub(crate) const LINUX_CODE: &[&str] = &[
    "crates/hosts/linux/src",
    "crates/hosts/linux/bpf",
    "crates/hosts/netns/src",
    "crates/engines/testbed/src",
];

/// The additional code that a summary of a run with real transport stacks depends on.
pub(crate) const STACKS_CODE: &[&str] = &["crates/hosts/stacks/src", "crates/hosts/quic/src"];

/// The lock file with the versions of all dependencies.
pub(crate) const LOCK: &str = "Cargo.lock";

/// The dependencies that affect results.
const NUMERIC_PACKAGES: &[&str] = &["libm", "zerocopy"];

/// The dependencies that affect results of real transport stacks.
const STACK_PACKAGES: &[&str] = &["quinn-proto", "rustls", "smoltcp"];

/// Hashes the names and contents of the source files at `paths`, and the versions of the dependencies that affect results. A missing
/// path counts as empty.
pub(crate) fn code_hash(repository: &Path, paths: &[&str]) -> io::Result<String> {
    let mut hash = Sha256::new();
    let lock = read(&repository.join(LOCK))?;
    let lock = String::from_utf8_lossy(&lock).into_owned();
    let packages = if paths == STACKS_CODE { STACK_PACKAGES } else { NUMERIC_PACKAGES };
    let affects_results =
        |package: &&str| packages.iter().any(|name| package.contains(&format!("name = {name:?}\n")));
    lock.split("[[package]]").filter(affects_results).for_each(|package| hash.update(package));
    for path in paths {
        let mut files = Vec::new();
        collect_sources(&repository.join(path), &mut files);
        files.sort();
        for file in files {
            let name = file.strip_prefix(repository).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            hash.update(format!("{name}\n"));
            hash.update(read(&file)?);
        }
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Reads a file. Errors contain the file name.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    fs::read(file).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// Collects the source files at a path: the file itself, or all files below a folder.
fn collect_sources(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
    }
    for path in fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_source = path
            .extension()
            .is_some_and(|extension| ["rs", "c", "h"].iter().any(|known| extension == *known));
        if path.is_dir() || is_source {
            collect_sources(&path, files);
        }
    }
}
