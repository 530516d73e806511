//! Poseidon in Linux TCP: switched on for the processes of a cgroup, off again, and asked what it does.
//!
//! ```text
//! Settings ──enable──> kernel: congestion control `poseidon`, the TCP option, the table of flows
//!                        │  stays when the process ends: /sys/fs/bpf/poseidon/tcp
//!  status, flows <───────┤
//!               disable ─┘  restore_connections: those that still run it
//! ```
//!
//! A program needs no change: it is started in the cgroup, and its connections get the law and offer the option. Where the other
//! end does not speak it, the connection is plain TCP on the wire, and the law holds the queueing delay of the round trip to its
//! target. What the programs do is written in `bpf/tcp.bpf.c`.

mod cgroup;
mod error;
mod flows;
mod pins;
mod power;
mod restore;
mod settings;

pub(crate) use cgroup::mount_of;
pub use cgroup::{is_root, own_path as own_cgroup};
pub use error::TcpError;
pub use flows::{Counters, Mode, TcpFlow, flows};
pub(crate) use power::try_loading;
pub use power::{Cost, TcpStatus, disable, enable, status};
pub use restore::restore_connections;
pub use settings::{Settings, SettingsError};

pub(crate) fn read_text(path: &'static str) -> Result<String, TcpError> {
    std::fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(TcpError::file("reading", path))
}
