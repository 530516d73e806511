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

impl BackendKind {
    /// Returns the name that the command line uses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Linux => "linux",
        }
    }
}
