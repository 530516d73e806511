//! Creates backends: the simulator, and real packets through Linux.

use crate::Failure;
use crate::backend_kind::BackendKind;
use poseidon_lab::manifest::Program;
use poseidon_plan::Backend;
use poseidon_plan::stack_factory::StackFactory;
use poseidon_sim::Simulator;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// Creates a single-threaded simulator. Parallelism comes from running several cells at once.
pub(crate) fn simulator() -> Simulator {
    Simulator { stacks: stacks(), ..Simulator::with_threads(core::num::NonZeroU32::MIN) }
}

/// The transport stacks of a program that uses the command as a library.
static CUSTOM_STACKS: OnceLock<&'static dyn StackFactory> = OnceLock::new();

/// Replaces the built-in transport stacks. Only the first call has an effect.
pub(crate) fn set_stacks(stacks: &'static dyn StackFactory) {
    let _ = CUSTOM_STACKS.set(stacks);
}

/// Returns the real transport stacks.
fn stacks() -> Option<&'static dyn StackFactory> {
    CUSTOM_STACKS.get().copied().or_else(built_in_stacks)
}

#[cfg(feature = "stacks")]
fn built_in_stacks() -> Option<&'static dyn StackFactory> {
    Some(&poseidon_stacks::STACKS)
}

#[cfg(not(feature = "stacks"))]
fn built_in_stacks() -> Option<&'static dyn StackFactory> {
    None
}

/// Creates a backend.
pub(crate) fn create(kind: BackendKind) -> Result<Box<dyn Backend + Sync>, Failure> {
    match kind {
        BackendKind::Sim => Ok(Box::new(simulator())),
        BackendKind::Linux => linux::testbed(),
    }
}

/// Returns the number of parallel runs. Runs with real packets would interfere with each other, so they run one at a
/// time.
pub(crate) fn jobs(kind: BackendKind, requested: Option<usize>) -> usize {
    match kind {
        BackendKind::Sim => requested
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, core::num::NonZero::get)),
        BackendKind::Linux => 1,
    }
}

/// Returns this program's identity when it uses the given backend.
pub(crate) fn program(kind: BackendKind) -> Program {
    Program { identity: identity(kind), code_hash: code_hash(kind) }
}

/// Returns the version, the hash of the code that results depend on, the compiler and the backend. Results from a
/// program with a different identity are not reused.
pub(crate) fn identity(kind: BackendKind) -> String {
    let simulator = format!(
        "poseidon {} ({}, {})",
        env!("CARGO_PKG_VERSION"),
        code_hash(BackendKind::Sim),
        env!("POSEIDON_COMPILER")
    );
    // Results of real stacks depend on the code of the stacks.
    let simulator = match stacks_code() {
        Some(stacks) => format!("{simulator} with stacks ({stacks})"),
        None => simulator,
    };
    match kind {
        BackendKind::Sim => simulator,
        BackendKind::Linux => {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            format!("{simulator} on Linux {} ({})", release.trim(), env!("POSEIDON_LINUX_CODE"))
        }
    }
}

/// Returns the hash of the code of the transport stacks. The stacks of another program are known only as a part of its
/// executable.
fn stacks_code() -> Option<String> {
    if CUSTOM_STACKS.get().is_none() {
        return option_env!("POSEIDON_STACKS_CODE").map(str::to_owned);
    }
    let executable = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
    let hash = Sha256::digest(&executable);
    Some(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the hash of the code that a backend's results depend on.
pub(crate) fn code_hash(kind: BackendKind) -> String {
    let simulator = env!("POSEIDON_CODE");
    match kind {
        BackendKind::Sim => simulator.to_owned(),
        BackendKind::Linux => format!("{simulator}-{}", env!("POSEIDON_LINUX_CODE")),
    }
}

pub(crate) use linux::{clean_testbed, enter_namespaces};

#[cfg(feature = "linux")]
mod linux {
    use crate::Failure;
    use crate::backend_kind::BackendKind;
    use poseidon_plan::Backend;
    use poseidon_testbed::{Testbed, private_netns};

    pub(super) fn testbed() -> Result<Box<dyn Backend + Sync>, Failure> {
        Ok(Box::new(Testbed { stacks: super::stacks() }))
    }

    /// Replaces this process with the same command in private namespaces, which are required for runs with real
    /// packets.
    pub(crate) fn enter_namespaces(kind: BackendKind) -> Result<(), Failure> {
        if kind == BackendKind::Sim || private_netns::is_inside() {
            return Ok(());
        }
        let error = private_netns::exec_inside();
        Err(Failure::Run(format!(
            "cannot create namespaces for real packets: {error}; run as root (`poseidon doctor` checks the machine)"
        )))
    }

    pub(crate) fn clean_testbed() -> Result<(), Failure> {
        let removed =
            private_netns::remove_stale_cgroups().map_err(|error| Failure::Run(error.to_string()))?;
        removed.iter().for_each(|path| outln!("removed {}", path.display()));
        if removed.is_empty() {
            outln!("nothing to remove");
        }
        Ok(())
    }
}

#[cfg(not(feature = "linux"))]
mod linux {
    use crate::Failure;
    use crate::backend_kind::BackendKind;
    use poseidon_plan::Backend;

    const NOT_BUILT: Failure = Failure::NotBuilt(crate::linux::HOW_TO_GET_IT);

    pub(super) fn testbed() -> Result<Box<dyn Backend + Sync>, Failure> {
        Err(NOT_BUILT)
    }

    pub(crate) fn enter_namespaces(kind: BackendKind) -> Result<(), Failure> {
        if kind == BackendKind::Sim { Ok(()) } else { Err(NOT_BUILT) }
    }

    pub(crate) fn clean_testbed() -> Result<(), Failure> {
        Err(NOT_BUILT)
    }
}
