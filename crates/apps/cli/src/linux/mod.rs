//! `poseidon tcp`, `switch`, `rpm` and `doctor`: the Linux that this runs on.
//!
//! They need the feature `linux`, which needs clang and libelf. Every build knows them: one without the feature says how to get it.

mod args;
#[cfg(feature = "linux")]
mod doctor;
#[cfg(feature = "linux")]
mod ports;
#[cfg(feature = "linux")]
mod tcp;

use crate::Failure;
pub(crate) use args::Linux;

/// What a build without the feature says.
#[cfg(not(feature = "linux"))]
pub(crate) const HOW_TO_GET_IT: &str = "this poseidon was built without Linux; for tcp, switch, rpm, doctor and real packets, in a clone of the project:\n  \
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
        Linux::Doctor { json } => doctor::run(*json),
    }
}

/// What the library refuses is no matter of how the command line was written, but for settings.
#[cfg(feature = "linux")]
fn failed(why: impl core::fmt::Display) -> Failure {
    Failure::Run(why.to_string())
}

#[cfg(feature = "linux")]
fn say_json(value: &serde_json::Value) -> Result<(), Failure> {
    say!("{}", serde_json::to_string_pretty(value).map_err(failed)?);
    Ok(())
}
