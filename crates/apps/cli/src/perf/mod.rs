//! `poseidon perf`: an iperf-like pair over QUIC, steered by a law.
//!
//! It needs the feature `quic`, which brings a QUIC stack and its runtime. Every build knows the command: one without the feature says how to get it.

mod args;
#[cfg(feature = "quic")]
mod pair;

pub(crate) use args::Perf;
#[cfg(feature = "quic")]
pub(crate) use pair::run;

/// What a build without the feature does.
#[cfg(not(feature = "quic"))]
pub(crate) fn run(_: &Perf) -> Result<(), crate::Failure> {
    Err(crate::Failure::NotBuilt(
        "this poseidon was built without QUIC; for perf, in a clone of the project:\n  \
         cargo install --path crates/apps/cli --features quic    # needs a C compiler; with the Linux commands: --features linux,quic",
    ))
}
