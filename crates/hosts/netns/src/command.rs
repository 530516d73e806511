//! Runs shell scripts and tools. Errors contain the command line and its error output.

use crate::path::path;
use crate::{NetnsError, Result};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Runs a shell script that stops at the first failing command. Returns its output.
pub fn sh(script: &str) -> Result<String> {
    run_tool("sh", &["-ec", script], "")
}

/// Runs a shell script in the network namespace `netns`. Returns its output.
pub fn sh_in(netns: &str, script: &str) -> Result<String> {
    let namespace = format!("--net={}", path(netns).display());
    run_tool("nsenter", &[&namespace, "sh", "-ec", script], "")
}

/// Runs a program with `input` as its standard input. Returns its standard output.
pub fn run_tool(program: &str, arguments: &[&str], input: &str) -> Result<String> {
    let failed = |reason: String| NetnsError::Command { command: command_line(program, arguments), reason };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("{error}; `poseidon doctor` lists what to install")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that exits without reading its input reports its own error below.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(if stderr.is_empty() { output.status.to_string() } else { stderr }));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns whether `program --version` can be started.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn command_line(program: &str, arguments: &[&str]) -> String {
    format!("{program} {}", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_scripts_report_their_error_output() {
        assert_eq!(sh("echo one; echo two").expect("a shell is installed"), "one\ntwo\n");
        let error = sh("echo broken >&2; false; echo never").expect_err("the script fails").to_string();
        assert_eq!(error, "sh -ec echo broken >&2; false; echo never: broken");
        let error = sh("exit 3").expect_err("the script fails").to_string();
        assert!(error.ends_with("exit status: 3"), "{error}");
    }

    #[test]
    fn tools_read_their_input() {
        assert_eq!(run_tool("cat", &[], "lines\n").expect("cat is installed"), "lines\n");
        let error = run_tool("no-such-tool", &["-x"], "").expect_err("there is no such tool").to_string();
        assert!(error.starts_with("no-such-tool -x: ") && error.contains("poseidon doctor"), "{error}");
    }
}
