//! The hash of the code that makes results. The build script computes it of the sources that the program is built from; publishing
//! computes it again of the repository that is checked out, so that the commit that is recorded is the commit of that code.

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// What a summary depends on: the simulator and all below it, and of the lab what makes plans and numbers. How results are judged, drawn and
/// printed is not among it, and neither are scenarios: a plan has a hash of its own.
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

/// What a summary of real packets depends on beside.
pub(crate) const LINUX_CODE: &[&str] = &["crates/hosts/linux/src", "crates/hosts/linux/bpf", "crates/engines/testbed/src"];

/// The versions of what it computes with are in here.
pub(crate) const LOCK: &str = "Cargo.lock";

/// Packages that numbers depend on.
const COMPUTES: [&str; 2] = ["libm", "zerocopy"];

/// The hash of the files below these places of a repository, with their paths, and of the versions of what they compute with. A place that
/// is not there counts as empty.
pub(crate) fn code_hash(repository: &Path, places: &[&str]) -> Result<String, String> {
    let mut hash = Sha256::new();
    let lock = read(&repository.join(LOCK))?;
    let lock = String::from_utf8_lossy(&lock).into_owned();
    let computes =
        |package: &&str| COMPUTES.iter().any(|name| package.contains(&format!("name = {name:?}\n")));
    lock.split("[[package]]").filter(computes).for_each(|package| hash.update(package));
    for place in places {
        let mut files = Vec::new();
        collect(&repository.join(place), &mut files);
        files.sort();
        for file in files {
            let name = file.strip_prefix(repository).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            hash.update(format!("{name}\n"));
            hash.update(read(&file)?);
        }
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// The sources at a place: a file, or those of a folder.
fn collect(place: &Path, files: &mut Vec<PathBuf>) {
    if place.is_file() {
        files.push(place.to_owned());
    }
    for path in fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_source = path.extension().is_some_and(|ending| ["rs", "c", "h"].iter().any(|e| ending == *e));
        if path.is_dir() || is_source {
            collect(&path, files);
        }
    }
}
