//! The machine that runs the program.

use std::fs;

/// Returns the name of this machine.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok());
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}
