//! Where it is measured: two hosts with a router between them, in namespaces that nobody else sees.
//!
//! ```text
//!   left (10.9.1.2)  a0 ──── ra   this process   rb ──── b0  (10.9.2.2) right
//! ```

use core::error::Error;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::process::{Command, exit};

type Anything<T> = Result<T, Box<dyn Error>>;

/// Set inside.
const INSIDE: &str = "POSEIDON_COST_INSIDE";

/// Starts this program anew in namespaces of its own. True inside of them.
pub(crate) fn enter() -> Anything<bool> {
    if env::var_os(INSIDE).is_some() {
        return Ok(true);
    }
    let private = "mount -t tmpfs none /run && mkdir /run/netns && mount -t bpf bpf /sys/fs/bpf && ip link set lo up && exec \"$0\" \"$@\"";
    let mut inside = Command::new("nice");
    inside.args(["-n", "-15", "unshare", "--mount", "--net", "sh", "-c", private]).arg(env::current_exe()?);
    let status = inside.args(env::args_os().skip(1)).env(INSIDE, "1").status()?;
    if status.success() { Ok(false) } else { exit(status.code().unwrap_or(1)) }
}

/// Lays the wires between two hosts.
pub(crate) fn hosts() -> Anything<()> {
    for (host, near, far, net) in [("left", "a0", "ra", 1), ("right", "b0", "rb", 2)] {
        sh(&format!(
            "ip netns add {host}; ip link add {far} type veth peer name {near} netns {host}
             ip addr add 10.9.{net}.1/24 dev {far}; ip link set {far} up
             ip -n {host} addr add 10.9.{net}.2/24 dev {near}
             ip -n {host} link set lo up; ip -n {host} link set {near} up
             ip -n {host} route add default via 10.9.{net}.1"
        ))?;
    }
    sh("echo 1 >/proc/sys/net/ipv4/ip_forward")
}

pub(crate) fn sh(script: &str) -> Anything<()> {
    let output = Command::new("sh").args(["-ec", script]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{script}: {said}").into()) }
}

/// This thread goes to a host.
pub(crate) fn go_to(host: &str) -> Anything<()> {
    let namespace = File::open(format!("/run/netns/{host}"))?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// CPU that this thread has used, ns. Where the kernel does not account interrupts apart, that includes what the network does in its
/// context: on a veth, all that its packets cause.
pub(crate) fn cpu_of_this_thread() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// CPU of the kernel's own threads for the network, ns: what was too much for the context that caused it.
pub(crate) fn cpu_of_softirqs() -> Anything<u64> {
    let mut sum = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let path = entry.path();
        if fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("ksoftirqd/")) {
            sum += first_number(&path.join("schedstat").to_string_lossy())?;
        }
    }
    Ok(sum)
}

fn first_number(path: &str) -> Anything<u64> {
    let text = fs::read_to_string(path)?;
    Ok(text.split(' ').next().unwrap_or_default().parse().map_err(|why| format!("{path}: {why}"))?)
}
