//! Poseidon in Linux TCP: enable it for the processes of a cgroup, disable it, and query its state.
//!
//! ```text
//! Settings ──enable──> kernel: congestion control `poseidon`, the TCP option, the flow table
//!                        │  stays when the process exits: /sys/fs/bpf/poseidon/tcp
//!  status, flows <───────┤
//!               disable ─┘  restore_connections switches connections that still use it
//! ```
//!
//! Applications need no changes. An application that starts in the cgroup uses the law for its connections and offers
//! the TCP option. If the peer does not support the option, the connection is plain TCP on the wire, and the law uses
//! the queueing delay of the round trip. `bpf/tcp.bpf.c` describes the BPF programs.

mod cgroup;
mod error;
mod flows;
mod lifecycle;
mod metrics;
mod pins;
mod restore;
mod settings;

pub use cgroup::{default_path as default_cgroup, is_root as is_root_cgroup};
pub use error::TcpError;
pub use flows::{Counters, Mode, TcpFlow, flows};
pub(crate) use lifecycle::try_loading;
pub use lifecycle::{ProgramCost, TcpStatus, disable, enable, status};
pub use metrics::Exporter;
pub use restore::restore_connections;
pub use settings::{ControlName, Settings, SettingsError};

pub(crate) fn read_text(path: &'static str) -> Result<String, TcpError> {
    std::fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(TcpError::file("reading", path))
}
