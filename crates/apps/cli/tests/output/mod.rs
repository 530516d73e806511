//! Runs the command and collects its output.

use std::process::Command;

pub(crate) const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

/// Runs the command and returns its exit code, stdout and stderr.
pub(crate) fn run_poseidon(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(POSEIDON).args(args).output().expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is valid UTF-8");
    let code = output.status.code().expect("no signal ended the command");
    (code, text(output.stdout), text(output.stderr))
}
