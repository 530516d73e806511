//! Builds the command `poseidon` at a commit of the current repository.
//!
//! ```text
//! FOLDER/<commit>/source    a git worktree, removed after the build
//! FOLDER/<commit>/poseidon  the program
//! FOLDER/target             the build folder, which all commits share
//! ```
//!
//! A commit is built once. The program is moved to its place at the end, so an interrupted build leaves nothing that
//! looks complete.

use crate::error::ProgramError;
use crate::program::run_command;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that was built from a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltProgram {
    /// The name of the commit, as it was given.
    pub reference: String,
    /// The full hash of the commit.
    pub commit: String,
    /// The program.
    pub program: PathBuf,
    /// The folder of this commit, for results.
    pub folder: PathBuf,
}

/// Where and how programs are built.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// The repository.
    pub repository: PathBuf,
    /// The folder for sources, builds and programs.
    pub folder: PathBuf,
    /// The cargo profile, `release` or `dev`.
    pub profile: String,
}

impl Checkout {
    /// Returns the full hash of a commit.
    pub fn resolve(&self, reference: &str) -> Result<String, ProgramError> {
        // A reference that begins with a hyphen would be read as an option.
        let spec = format!("{reference}^{{commit}}");
        let mut git = self.git();
        git.args(["rev-parse", "--verify", "--end-of-options", &spec]);
        let output = run_command(&mut git, "--base names a commit", &[0]).map_err(|error| match error {
            ProgramError::Failed { output, .. } => {
                ProgramError::UnknownCommit { reference: reference.to_owned(), reason: output }
            }
            error => error,
        })?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    /// Builds the program at a commit, or finds it if it was built before. `on_note` is called before a build.
    pub fn build(&self, reference: &str, on_note: &dyn Fn(&str)) -> Result<BuiltProgram, ProgramError> {
        let commit = self.resolve(reference)?;
        create_folder(&self.folder)?;
        let base = self.absolute_folder()?;
        let folder = base.join(&commit);
        create_folder(&folder)?;
        let program = folder.join(format!("poseidon-{}", self.profile));
        if !program.is_file() {
            on_note(&format!("building {reference} ({})", &commit[..commit.len().min(12)]));
            let source = folder.join("source");
            self.remove_worktree(&source);
            let result =
                self.add_worktree(&source, &commit).and_then(|()| self.compile(&source, &base, &program));
            self.remove_worktree(&source);
            result?;
        }
        Ok(BuiltProgram { reference: reference.to_owned(), commit, program, folder })
    }

    fn absolute_folder(&self) -> Result<PathBuf, ProgramError> {
        fs::canonicalize(&self.folder)
            .map_err(|source| ProgramError::Io { path: self.folder.clone(), source })
    }

    fn git(&self) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.repository);
        command
    }

    fn add_worktree(&self, source: &Path, commit: &str) -> Result<(), ProgramError> {
        let mut git = self.git();
        git.args(["worktree", "add", "--detach", "--force"]).arg(source).arg(commit);
        run_command(&mut git, "--base checks out a commit", &[0]).map(drop)
    }

    /// Removes a worktree that this or an interrupted build has added. Without one, nothing happens.
    fn remove_worktree(&self, source: &Path) {
        if source.exists() {
            let mut git = self.git();
            git.args(["worktree", "remove", "--force"]).arg(source);
            let _ = run_command(&mut git, "--base checks out a commit", &[0]);
            let _ = fs::remove_dir_all(source);
        }
        let mut git = self.git();
        let _ = run_command(git.args(["worktree", "prune"]), "--base checks out a commit", &[0]);
    }

    fn compile(&self, source: &Path, base: &Path, program: &Path) -> Result<(), ProgramError> {
        let target = base.join("target");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(source).args([
            "build",
            "--locked",
            "--package",
            "poseidon-cli",
            "--bin",
            "poseidon",
        ]);
        cargo.args(["--profile", &self.profile]).arg("--target-dir").arg(&target);
        run_command(&mut cargo, "--base builds a program", &[0])?;
        // The folder of the profile `dev` is called `debug`.
        let profile = if self.profile == "dev" { "debug" } else { &self.profile };
        let built = target.join(profile).join(format!("poseidon{}", std::env::consts::EXE_SUFFIX));
        let partial = program.with_extension("part");
        let copied = fs::copy(&built, &partial).and_then(|_| fs::rename(&partial, program));
        copied.map_err(|source| ProgramError::Io { path: built, source })
    }
}

fn create_folder(path: &Path) -> Result<(), ProgramError> {
    fs::create_dir_all(path).map_err(|source| ProgramError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_commit_is_refused() {
        let folder = std::env::temp_dir().join(format!("poseidon-checkout-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let mut git = Command::new("git");
        git.arg("-C").arg(&folder).args(["init", "--quiet"]);
        if run_command(&mut git, "a test needs it", &[0]).is_err() {
            eprintln!("SKIPPED an_unknown_commit_is_refused: there is no git");
            return;
        }
        let checkout =
            Checkout { repository: folder.clone(), folder: folder.join("cache"), profile: "dev".to_owned() };
        for reference in ["no-such-branch", "--help", "HEAD~99"] {
            let error = checkout.resolve(reference).expect_err("there is no such commit");
            assert!(matches!(&error, ProgramError::UnknownCommit { .. }), "{error}");
        }
        let _ = fs::remove_dir_all(&folder);
    }
}
