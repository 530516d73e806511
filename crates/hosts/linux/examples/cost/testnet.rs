//! The network for the measurements: two hosts with a router between them, in private namespaces.
//!
//! ```text
//!   left (10.9.1.2)  a0 ──── ra   this process   rb ──── b0  (10.9.2.2) right
//! ```

use core::error::Error;
use poseidon_netns::{Interface, PrivateNetns, configure, create, link};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::process::exit;

type AnyResult<T> = Result<T, Box<dyn Error>>;

/// Restarts this program in private namespaces. Returns true inside them.
pub(crate) fn run_inside() -> AnyResult<bool> {
    let netns =
        PrivateNetns::new("POSEIDON_COST_INSIDE").wrapper(&["nice", "-n", "-15"]).setup("ip link set lo up");
    if netns.is_inside() {
        return Ok(true);
    }
    let status = netns.run()?;
    if status.success() { Ok(false) } else { exit(status.code().unwrap_or(1)) }
}

/// Creates two hosts and links them to this namespace.
pub(crate) fn create_hosts() -> AnyResult<()> {
    for (host, near, far, net) in [("left", "a0", "ra", 1), ("right", "b0", "rb", 2)] {
        create(&[host])?;
        link((None, far), (Some(host), near))?;
        let address = |end: u8| format!("10.9.{net}.{end}/24");
        configure(None, &[Interface { device: far, addresses: &[&address(1)] }], &[])?;
        let interface = Interface { device: near, addresses: &[&address(2)] };
        configure(Some(host), &[interface], &[&format!("10.9.{net}.1")])?;
    }
    sh("echo 1 >/proc/sys/net/ipv4/ip_forward")
}

pub(crate) fn sh(script: &str) -> AnyResult<()> {
    Ok(poseidon_netns::sh(script).map(drop)?)
}

/// Returns this thread's CPU time in ns.
///
/// If the kernel does not account for interrupts separately, the result includes the network code that runs in the
/// thread's context. On a veth, this covers all processing of the thread's packets.
pub(crate) fn cpu_of_this_thread() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the CPU time of the kernel's softirq threads in ns. They take over when softirq work exceeds a limit.
pub(crate) fn cpu_of_softirqs() -> AnyResult<u64> {
    let mut sum = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let path = entry.path();
        if fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("ksoftirqd/")) {
            sum += first_number(&path.join("schedstat").to_string_lossy())?;
        }
    }
    Ok(sum)
}

fn first_number(path: &str) -> AnyResult<u64> {
    let text = fs::read_to_string(path)?;
    Ok(text.split(' ').next().unwrap_or_default().parse().map_err(|error| format!("{path}: {error}"))?)
}
