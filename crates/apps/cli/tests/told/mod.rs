//! The command as a person runs it.

use std::process::Command;

pub(crate) const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

/// How it ended, what it printed and what it complained about.
pub(crate) fn told(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(POSEIDON).args(args).output().expect("the command");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("it ended by itself"), text(output.stdout), text(output.stderr))
}
