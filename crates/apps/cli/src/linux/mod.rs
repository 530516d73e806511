//! `poseidon tcp`, `switch`, `rpm` and `doctor`: commands that control Linux on this machine.
//!
//! The commands require the feature `linux`, which needs clang and libelf. A build without the feature has the same
//! commands, but they only print how to enable it.

mod args;
#[cfg(feature = "linux")]
mod doctor;
#[cfg(feature = "linux")]
mod metrics;
#[cfg(feature = "linux")]
mod ports;
#[cfg(feature = "linux")]
mod tcp;

use crate::Failure;
pub(crate) use args::Linux;

/// The message that a build without the feature prints.
#[cfg(not(feature = "linux"))]
pub(crate) const HOW_TO_GET_IT: &str = "this poseidon was built without the feature linux; for tcp, switch, rpm, doctor and real packets, in a clone of the project:\n  \
     apt-get install clang-19 libelf-dev zlib1g-dev make pkg-config iproute2 ethtool    # Debian; .ci/install does it too\n  \
     cargo install --path crates/apps/cli --features linux";

#[cfg(not(feature = "linux"))]
pub(crate) fn run(_: &Linux) -> Result<(), Failure> {
    Err(Failure::NotBuilt(HOW_TO_GET_IT))
}

#[cfg(feature = "linux")]
pub(crate) fn run(command: &Linux) -> Result<(), Failure> {
    match command {
        Linux::Tcp(command) => tcp::run(command),
        Linux::Switch(command) => ports::switch(command),
        Linux::Rpm(command) => ports::rpm(command),
        Linux::Metrics(args) => metrics::run(args),
        Linux::Doctor { json } => doctor::run(*json),
    }
}

/// Converts a library error. Only invalid settings are usage errors.
#[cfg(feature = "linux")]
fn failed(error: impl core::fmt::Display) -> Failure {
    Failure::Run(error.to_string())
}

#[cfg(feature = "linux")]
fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    outln!("{}", serde_json::to_string_pretty(value).map_err(failed)?);
    Ok(())
}
