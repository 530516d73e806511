//! `poseidon perf`: an iperf-like client and server over QUIC, controlled by a law.
//!
//! ```text
//!   client                                              server
//!   sends each stream as fast as the law permits   ──>  counts the bytes
//!   prints reports                                 <──  reports the counts of each interval
//! ```
//!
//! The server measures the goodput over intervals on its clock. The connections are encrypted. Without certificates,
//! the client trusts any server.
//!
//! The command requires the feature `quic`, which adds a QUIC stack and its runtime. Builds without the feature accept
//! the command, but only print how to enable it.

mod args;
#[cfg(all(test, feature = "quic"))]
mod certificates;
#[cfg(feature = "quic")]
mod client;
#[cfg(feature = "quic")]
mod commands;
#[cfg(feature = "quic")]
mod endpoint;
#[cfg(feature = "quic")]
mod metrics;
#[cfg(feature = "quic")]
mod options;
#[cfg(feature = "quic")]
mod qlog;
#[cfg(feature = "quic")]
mod report;
#[cfg(feature = "quic")]
mod server;
#[cfg(feature = "quic")]
mod stop;

pub(crate) use args::PerfCommand;
#[cfg(feature = "quic")]
pub(crate) use commands::run;

/// Explains how to build the command with QUIC.
#[cfg(not(feature = "quic"))]
pub(crate) fn run(_: &PerfCommand) -> Result<(), crate::Failure> {
    Err(crate::Failure::NotBuilt(
        "this poseidon was built without QUIC; to use perf, run this command in a clone of the project:\n  \
         cargo install --path crates/apps/cli --features quic    # needs a C compiler; with the Linux commands: --features linux,quic",
    ))
}
