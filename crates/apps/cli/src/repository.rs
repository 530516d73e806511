//! The git repository that contains the code and the scenarios.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository that contains the current directory.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?))
}

/// Returns the checked-out commit. Fails if one of the files has uncommitted changes.
pub(crate) fn commit_of(repository: &Path, files: &[String]) -> Result<String, Failure> {
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(files.iter().map(String::as_str));
    let changed = git(repository, &status)?;
    if let Some(first) = changed.lines().next() {
        return Err(Failure::Run(format!(
            "{} of the files that results depend on are not committed, such as {}; commit them first",
            changed.lines().count(),
            first.get(2..).unwrap_or(first).trim()
        )));
    }
    git(repository, &["rev-parse", "HEAD"])
}

fn git(folder: &Path, args: &[&str]) -> Result<String, Failure> {
    let failed = |reason: String| Failure::Run(format!("git {}: {}", args[0], reason.trim()));
    let output = Command::new("git").arg("-C").arg(folder).args(args).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
