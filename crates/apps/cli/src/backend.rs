//! What runs scenarios: the simulator, or this machine's Linux.

use crate::Failure;
use crate::args::On;
use poseidon_plan::Backend;
use poseidon_sim::Simulator;

/// The simulator, with one thread per run: cells are what is shared out.
pub(crate) fn simulator() -> Simulator {
    Simulator::with_threads(core::num::NonZeroU32::MIN)
}

pub(crate) fn of(on: On) -> Result<Box<dyn Backend + Sync>, Failure> {
    match on {
        On::Sim => Ok(Box::new(simulator())),
        On::Linux => linux::testbed(),
    }
}

/// Runs at a time. Real packets share one machine, so there only one.
pub(crate) fn jobs(on: On, asked: Option<usize>) -> usize {
    match on {
        On::Sim => {
            asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, core::num::NonZero::get))
        }
        On::Linux => 1,
    }
}

/// What this program is: its version, the hash of the code that results depend on, the compiler, and what runs, so that no result of
/// another is taken for its own.
pub(crate) fn identity(on: On) -> String {
    let own = format!(
        "poseidon {} ({}, {})",
        env!("CARGO_PKG_VERSION"),
        code_hash(On::Sim),
        env!("POSEIDON_COMPILER")
    );
    match on {
        On::Sim => own,
        On::Linux => {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            format!("{own} on Linux {} ({})", release.trim(), env!("POSEIDON_LINUX_CODE"))
        }
    }
}

/// The hash of the code that this program was built from: what makes results.
pub(crate) fn code_hash(on: On) -> String {
    let own = env!("POSEIDON_CODE");
    match on {
        On::Sim => own.to_owned(),
        On::Linux => format!("{own}-{}", env!("POSEIDON_LINUX_CODE")),
    }
}

pub(crate) use linux::{clean, enter};

#[cfg(feature = "linux")]
mod linux {
    use crate::Failure;
    use crate::args::On;
    use poseidon_plan::Backend;
    use poseidon_testbed::{Testbed, room};

    pub(super) fn testbed() -> Result<Box<dyn Backend + Sync>, Failure> {
        Ok(Box::new(Testbed))
    }

    /// Real packets need a room of their own: this becomes the same command in one.
    pub(crate) fn enter(on: On) -> Result<(), Failure> {
        if on == On::Sim || room::is_inside() {
            return Ok(());
        }
        let why = room::enter();
        Err(Failure::Run(format!(
            "namespaces for real packets: {why}; run as root (`poseidon doctor` tells)"
        )))
    }

    pub(crate) fn clean() -> Result<(), Failure> {
        let removed = room::clean().map_err(|why| Failure::Run(why.to_string()))?;
        removed.iter().for_each(|path| say!("removed {}", path.display()));
        if removed.is_empty() {
            say!("nothing was left");
        }
        Ok(())
    }
}

#[cfg(not(feature = "linux"))]
mod linux {
    use crate::Failure;
    use crate::args::On;
    use poseidon_plan::Backend;

    const NOT_BUILT: Failure = Failure::NotBuilt(crate::linux::HOW_TO_GET_IT);

    pub(super) fn testbed() -> Result<Box<dyn Backend + Sync>, Failure> {
        Err(NOT_BUILT)
    }

    pub(crate) fn enter(on: On) -> Result<(), Failure> {
        if on == On::Sim { Ok(()) } else { Err(NOT_BUILT) }
    }

    pub(crate) fn clean() -> Result<(), Failure> {
        Err(NOT_BUILT)
    }
}
