//! Runs hosts as processes: the test program starts itself again inside a namespace, with a role.
//!
//! The process prints its messages with a prefix that distinguishes them from the test harness output.

use crate::path::path;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, io};

/// The prefix that marks a message.
const PREFIX: &str = "> ";

/// The message that a role sends when it is ready.
pub const READY: &str = "ready";

/// A process that plays a role in a namespace. Dropping this value kills the process.
#[derive(Debug)]
pub struct RoleProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// Starts processes that play roles.
#[derive(Clone, Copy, Debug)]
pub struct RoleStarter<'a> {
    /// The environment variable that contains the role.
    pub variable: &'a str,
    /// The ignored test that plays the role.
    pub test: &'a str,
    /// The command that wraps `nsenter`, such as `nice -n -15`. May be empty.
    pub wrapper: &'a [&'a str],
}

impl RoleStarter<'_> {
    /// Starts a role in the namespace `netns`, and waits until it reports [`READY`].
    ///
    /// # Panics
    ///
    /// Panics if the process cannot be started or exits before it is ready.
    pub fn start(&self, netns: &str, role: &str) -> RoleProcess {
        let mut process =
            self.spawn(netns, role).unwrap_or_else(|error| panic!("{role}: nsenter (util-linux): {error}"));
        assert_eq!(process.next_message().as_deref(), Some(READY), "{role}");
        process
    }

    fn spawn(&self, netns: &str, role: &str) -> io::Result<RoleProcess> {
        let namespace = format!("--net={}", path(netns).display());
        let words = [self.wrapper, &["nsenter", &namespace]].concat();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .arg(env::current_exe()?)
            .args(["--ignored", "--exact", self.test, "--nocapture", "--test-threads=1"])
            .env(self.variable, role)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the output is not piped"))?;
        Ok(RoleProcess { child, stdout: BufReader::new(stdout) })
    }
}

impl RoleProcess {
    /// Waits for the next message. Returns `None` once the process has exited.
    pub fn next_message(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if let Some(message) = line.strip_prefix(PREFIX) {
                return Some(message.trim().to_owned());
            }
            line.clear();
        }
        None
    }

    /// Waits for the process to exit. Returns the remaining messages.
    pub fn remaining_messages(mut self) -> Vec<String> {
        core::iter::from_fn(|| self.next_message()).collect()
    }
}

impl Drop for RoleProcess {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a message from a role for the process that started it.
pub fn send_message(text: &str) {
    // The test harness may have printed part of a line, so start a new line.
    println!("\n{PREFIX}{text}");
}
