//! The law in the running kernel: as the verifier has passed it and the JIT has compiled it.
//!
//! ```text
//! Start, Steps ──update──> map `input`  ─┐
//!                                        ├─ BPF_PROG_TEST_RUN: bpf/replay.bpf.c
//! Outcomes    <──lookup─── map `output` ─┘
//! ```
//!
//! Nothing is attached and no packet is touched. It needs root and Linux 5.17 (`bpf_loop`).

use crate::flow::Flow;
use crate::replay::{Outcome, Start, Step};
use core::fmt;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{ErrorKind, Map, MapCore as _, MapFlags, MapHandle, MapType};
use libbpf_rs::{Object, ObjectBuilder, Program, ProgramInput, ProgramMut};
use libbpf_sys::bpf_map_create_opts;
use poseidon_types::Nanos;
use std::os::fd::AsFd as _;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Steps of one batch: `MOST_STEPS` of `bpf/replay.bpf.c`.
const MOST_STEPS: usize = 512;

/// libelf reads structs of eight bytes out of it.
#[repr(C, align(8))]
pub(crate) struct Aligned<Bytes: ?Sized>(pub(crate) Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/replay.bpf.o")));

/// The program that replays lives, loaded. It is unloaded when this is dropped.
#[derive(Debug)]
pub struct InKernel {
    object: Object,
}

/// What a replay gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// One per step.
    pub outcomes: Vec<Outcome>,
    /// What the kernel took for it, writing the outcomes included.
    pub took: Nanos,
}

/// Why the kernel did not run the law.
#[derive(Debug)]
#[non_exhaustive]
pub enum KernelError {
    /// This process may not load BPF programs.
    NotPermitted,
    /// The kernel refused a call, with what was being done.
    Refused {
        /// What was being done.
        doing: &'static str,
        /// What libbpf says.
        why: libbpf_rs::Error,
    },
    /// The object that was compiled with this crate lacks a map or a program, or one has another size.
    OtherObject {
        /// What is missing.
        lacks: &'static str,
    },
}

impl InKernel {
    /// Loads the program; the verifier has then passed it.
    pub fn load() -> Result<Self, KernelError> {
        may_load()?;
        let open = ObjectBuilder::default().open_memory(&OBJECT.0).map_err(refused("opening the object"))?;
        Ok(Self { object: open.load().map_err(refused("loading the program"))? })
    }

    /// Gives `steps` to `flow`, in as many batches as it takes.
    pub fn replay(&self, flow: Flow, steps: &[Step]) -> Result<Replayed, KernelError> {
        let (input, output) = (self.map("input")?, self.map("output")?);
        let program = self.program()?;
        let key = 0_u32.to_ne_bytes();
        let mut start = Start { flow, steps: 0 };
        let mut replayed = Replayed { outcomes: Vec::with_capacity(steps.len()), took: Nanos::ZERO };
        for batch in steps.chunks(MOST_STEPS) {
            start.steps = batch.len() as u64;
            let mut bytes = [start.as_bytes(), batch.as_bytes()].concat();
            bytes.resize(size_of::<Start>() + MOST_STEPS * size_of::<Step>(), 0);
            input.update(&key, &bytes, MapFlags::ANY).map_err(refused("writing the steps"))?;
            let run = program.test_run(ProgramInput::default()).map_err(refused("running the program"))?;
            let value = output.lookup(&key, MapFlags::ANY).map_err(refused("reading the outcomes"))?;
            let other = || KernelError::OtherObject { lacks: "an output of the expected size" };
            let value = value.filter(|_| run.return_value == 0).ok_or_else(other)?;
            let (took, rest) = u64::read_from_prefix(&value).map_err(|_| other())?;
            let (outcomes, _) =
                <[Outcome]>::ref_from_prefix_with_elems(rest, batch.len()).map_err(|_| other())?;
            replayed.took += Nanos::new(took);
            replayed.outcomes.extend_from_slice(outcomes);
            start.flow = outcomes.last().map_or(start.flow, |last| last.flow);
        }
        Ok(replayed)
    }

    /// How many instructions the verifier has walked through to pass the program; it gives up at a million.
    pub fn verified_instructions(&self) -> Result<u32, KernelError> {
        let id = Program::id_from_fd(self.program()?.as_fd()).map_err(refused("asking for the program"))?;
        let loaded = ProgInfoIter::default().find(|info| info.id == id);
        loaded
            .map(|info| info.verified_insns)
            .ok_or(KernelError::OtherObject { lacks: "its program, loaded" })
    }

    fn map(&self, name: &'static str) -> Result<Map<'_>, KernelError> {
        let found = self.object.maps().find(|map| map.name() == name);
        found.ok_or(KernelError::OtherObject { lacks: name })
    }

    fn program(&self) -> Result<ProgramMut<'_>, KernelError> {
        self.object.progs_mut().next().ok_or(KernelError::OtherObject { lacks: "the program" })
    }
}

/// Makes a map of a kind that always needs the permission. Loading the program would not tell: "permission denied" is also what
/// the verifier says of a program that it does not pass.
pub(crate) fn may_load() -> Result<(), KernelError> {
    let options =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, ..bpf_map_create_opts::default() };
    let made = MapHandle::create(MapType::LruHash, Some("may_load"), 4, 4, 1, &options);
    made.map(|_| ()).map_err(|why| match why.kind() {
        ErrorKind::PermissionDenied => KernelError::NotPermitted,
        _ => KernelError::Refused { doing: "making a map", why },
    })
}

pub(crate) fn refused(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> KernelError {
    move |why| KernelError::Refused { doing, why }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str("loading BPF programs is not permitted; run as root"),
            // The alternate form has the whole chain of causes.
            Self::Refused { doing, why } => write!(f, "the kernel refused {doing}: {why:#}"),
            Self::OtherObject { lacks } => {
                write!(f, "the BPF object lacks {lacks}; build poseidon-linux anew")
            }
        }
    }
}

impl core::error::Error for KernelError {}
