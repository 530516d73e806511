//! Helpers for tests of the command: a temporary folder, and the parts of an output.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The command under test.
pub(crate) const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

/// A test's temporary folder, removed at the end of the test.
pub(crate) struct TempFolder(pub(crate) PathBuf);

impl TempFolder {
    /// Creates an empty folder for a test.
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("poseidon-command-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    /// Writes a file into the folder.
    #[must_use]
    pub(crate) fn with_file(self, file: &str, text: &str) -> Self {
        fs::write(self.0.join(file), text).expect("the temporary folder is writable");
        self
    }

    /// Returns the content of a file.
    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Runs the command in the folder.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Command::new(POSEIDON).args(args).current_dir(&self.0).output().expect("the command starts")
    }

    /// Runs the command in the folder and checks that it succeeds.
    pub(crate) fn run_ok(&self, args: &[&str]) -> Output {
        let output = self.run(args);
        assert_eq!(exit_code(&output), 0, "{args:?}: {}", stderr(&output));
        output
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the exit code.
pub(crate) fn exit_code(output: &Output) -> i32 {
    output.status.code().expect("no signal ended the command")
}

/// Returns the standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is valid UTF-8")
}

/// Returns the standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the output is valid UTF-8")
}

/// Parses the standard output as JSON.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}
