//! The choice of a backend.

use clap::ValueEnum;

/// The backend that runs scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendKind {
    /// The simulator.
    Sim,
    /// Real packets through the Linux kernel of this machine.
    Linux,
}
