//! Named network namespaces in `/run/netns`, the directory that `ip netns` uses.

use crate::command::run_tool;
use crate::path::path;
use crate::{NetnsError, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::thread;

/// Creates namespaces with the given names.
pub fn create<S: AsRef<str>>(names: &[S]) -> Result<()> {
    let lines: String = names.iter().map(|name| format!("netns add {}\n", name.as_ref())).collect();
    run_tool("ip", &["-batch", "-"], &lines).map(drop)
}

/// Deletes the namespaces with the given names, including their devices. Ignores names that have no namespace.
pub fn delete<S: AsRef<str>>(names: &[S]) {
    let lines: String = names.iter().map(|name| format!("netns del {}\n", name.as_ref())).collect();
    // The kernel removes any remaining namespaces when the private mount namespace ends.
    let _ = run_tool("ip", &["-force", "-batch", "-"], &lines);
}

/// Creates a veth pair. Each end is a namespace and a device name, where `None` means the current namespace.
pub fn link(a: (Option<&str>, &str), b: (Option<&str>, &str)) -> Result<()> {
    let netns = |netns: Option<&str>| netns.map_or_else(String::new, |netns| format!(" netns {netns}"));
    let line = format!("link add {}{} type veth peer name {}{}\n", a.1, netns(a.0), b.1, netns(b.0));
    run_tool("ip", &["-batch", "-"], &line).map(drop)
}

/// A device and its addresses with prefix lengths, such as `10.9.1.2/24` or `fd09:1::2/64`.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// The device name.
    pub device: &'a str,
    /// The device's addresses.
    pub addresses: &'a [&'a str],
}

/// Configures a namespace: brings up the loopback device and `interfaces`, and adds the default routes.
///
/// `None` means the current namespace. IPv6 addresses skip duplicate address detection, so they are usable
/// immediately.
pub fn configure(netns: Option<&str>, interfaces: &[Interface<'_>], gateways: &[&str]) -> Result<()> {
    let mut lines = "link set lo up\n".to_owned();
    for Interface { device, addresses } in interfaces {
        for address in *addresses {
            let flags = if is_ipv6(address) { " nodad" } else { "" };
            lines.push_str(&format!("addr add {address} dev {device}{flags}\n"));
        }
        lines.push_str(&format!("link set {device} up\n"));
    }
    let scope = netns.map_or_else(Vec::new, |netns| vec!["-n", netns]);
    run_tool("ip", &[&scope[..], &["-batch", "-"]].concat(), &lines)?;
    for gateway in gateways {
        let family = if is_ipv6(gateway) { "-6" } else { "-4" };
        let route = [family, "route", "add", "default", "via", gateway];
        run_tool("ip", &[&scope[..], &route].concat(), "")?;
    }
    Ok(())
}

fn is_ipv6(address: &str) -> bool {
    address.contains(':')
}

/// Moves the calling thread into the namespace `netns`. Sockets that the thread opens afterwards stay in that
/// namespace.
pub fn setns(netns: &str) -> Result<()> {
    let path = path(netns);
    let namespace = match File::open(&path) {
        Ok(file) => file,
        Err(error) => return Err(NetnsError::File { path, error }),
    };
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| NetnsError::Setns { path, error: error.into() })
}

/// Runs `work` in a thread inside the namespace `netns`, and waits for the result.
pub fn run_in<T: Send>(netns: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(move || setns(netns).map(|()| work()));
        thread.join().unwrap_or_else(|_| Err(NetnsError::Panicked { path: path(netns) }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_namespace_is_named_in_the_error() {
        let error = run_in("poseidon-none", || ()).expect_err("there is no such namespace").to_string();
        assert!(error.starts_with("/run/netns/poseidon-none: "), "{error}");
    }

    #[test]
    fn address_families_are_distinguished() {
        assert!(is_ipv6("fd09:1::2/64") && !is_ipv6("10.9.1.2/24"));
    }
}
