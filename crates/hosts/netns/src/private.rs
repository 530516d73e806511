//! Restarts this program in private network and mount namespaces.
//!
//! Inside, `/run/netns` and `/sys/fs/bpf` are file systems that no other process sees. When the process exits, even
//! because of a signal, the kernel removes its namespaces, devices, queues and BPF programs.

use core::fmt;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};
use std::{env, io};

/// The shell command that mounts private file systems for named namespaces and pinned BPF objects.
const MOUNTS: &str = "mount -t tmpfs none /run && mkdir /run/netns && mount -t bpf bpf /sys/fs/bpf";

/// Restarts this program in private namespaces.
///
/// ```no_run
/// use poseidon_netns::PrivateNetns;
///
/// fn two_hosts_exchange_packets() {
///     if !PrivateNetns::new("POSEIDON_EXAMPLE_INSIDE").run_test("two_hosts_exchange_packets") {
///         return;
///     }
///     // Only the process inside the private namespaces gets here.
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PrivateNetns {
    variable: &'static str,
    setup: Vec<String>,
    wrapper: Vec<OsString>,
    program_wrapper: Vec<String>,
    variables: Vec<(OsString, OsString)>,
    has_own_network: bool,
}

impl PrivateNetns {
    /// Creates the default configuration. `variable` is the environment variable that is set inside the namespaces.
    pub fn new(variable: &'static str) -> Self {
        Self {
            variable,
            setup: vec![MOUNTS.to_owned()],
            wrapper: Vec::new(),
            program_wrapper: Vec::new(),
            variables: Vec::new(),
            has_own_network: true,
        }
    }

    /// Returns whether this process is running inside the private namespaces.
    pub fn is_inside(&self) -> bool {
        env::var_os(self.variable).is_some()
    }

    /// Replaces the default mounts with the given shell command.
    #[must_use]
    pub fn mounts(mut self, command: &str) -> Self {
        command.clone_into(&mut self.setup[0]);
        self
    }

    /// Keeps the caller's network namespace, so only the mount namespace is private.
    #[must_use]
    pub fn keep_network(mut self) -> Self {
        self.has_own_network = false;
        self
    }

    /// Adds a shell command that runs inside the namespaces, after the mounts and before the program starts.
    #[must_use]
    pub fn setup(mut self, command: &str) -> Self {
        self.setup.push(command.to_owned());
        self
    }

    /// Runs everything through another command, such as `taskset -c 1`.
    #[must_use]
    pub fn wrapper(mut self, command: &[&str]) -> Self {
        self.wrapper = command.iter().map(OsString::from).collect();
        self
    }

    /// Starts the program inside the namespaces through another command, such as `nice -n -15`. The command must use
    /// `exec`.
    #[must_use]
    pub fn program_wrapper(mut self, command: &[&str]) -> Self {
        self.program_wrapper = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Sets an environment variable inside the namespaces.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Replaces this process with the same command line running inside the namespaces. Returns only if that fails.
    ///
    /// The process keeps its id, so Ctrl-C and the exit code work as usual.
    pub fn exec(&self) -> io::Error {
        match self.command(env::args_os().skip(1)) {
            Ok(mut command) => command.exec(),
            Err(error) => error,
        }
    }

    /// Runs the same command line inside the namespaces and waits for it to finish.
    pub fn run(&self) -> io::Result<ExitStatus> {
        self.command(env::args_os().skip(1))?.status()
    }

    /// Runs this test program's ignored test `name` inside the namespaces. Returns true in the process inside.
    ///
    /// # Panics
    ///
    /// Panics if the test fails inside the namespaces, or if `unshare` cannot be started.
    pub fn run_test(&self, name: &str) -> bool {
        if self.is_inside() {
            return true;
        }
        let arguments = ["--ignored", "--exact", name, "--nocapture", "--test-threads=1"];
        let status = self.command(arguments).and_then(|mut command| command.status());
        match status {
            Ok(status) => assert!(status.success(), "{name}: {status}"),
            Err(error) => panic!("{name}: unshare (util-linux): {error}"),
        }
        false
    }

    /// Returns the command that starts this program inside the namespaces.
    fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> io::Result<Command> {
        let mut words = self.wrapper.clone();
        words.extend(["unshare", "--mount"].map(OsString::from));
        if self.has_own_network {
            words.push("--net".into());
        }
        words.extend(["sh", "-c"].map(OsString::from));
        words.push(Script(self).to_string().into());
        words.push(env::current_exe()?.into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(arguments).env(self.variable, "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// The shell script that prepares the namespaces and then executes the program.
struct Script<'a>(&'a PrivateNetns);

impl fmt::Display for Script<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for command in &self.0.setup {
            write!(f, "{command} && ")?;
        }
        f.write_str("exec ")?;
        for word in &self.0.program_wrapper {
            write!(f, "{word} ")?;
        }
        f.write_str("\"$0\" \"$@\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_mounts_sets_up_and_starts_the_program() {
        let netns = PrivateNetns::new("POSEIDON_NETNS_TEST");
        assert!(!netns.is_inside());
        assert_eq!(Script(&netns).to_string(), format!("{MOUNTS} && exec \"$0\" \"$@\""));
        let netns = netns.mounts("true").setup("ip link set lo up").program_wrapper(&["nice", "-n", "-15"]);
        let script = "true && ip link set lo up && exec nice -n -15 \"$0\" \"$@\"";
        assert_eq!(Script(&netns).to_string(), script);
    }

    #[test]
    fn the_wrapper_comes_before_unshare() {
        let netns = PrivateNetns::new("POSEIDON_NETNS_TEST").wrapper(&["taskset", "-c", "1"]).keep_network();
        let command = netns.command(["--exact"]).expect("a test program has a path");
        assert_eq!(command.get_program(), "taskset");
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        assert_eq!(arguments[..6], ["-c", "1", "unshare", "--mount", "sh", "-c"]);
        assert_eq!(arguments.last().map(AsRef::as_ref), Some("--exact"));
    }
}
