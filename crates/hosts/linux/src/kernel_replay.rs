//! Runs the law in the kernel, after the verifier has checked it and the JIT has compiled it.
//!
//! ```text
//! Start, Steps ──update──> map `input`  ─┐
//!                                        ├─ BPF_PROG_TEST_RUN: bpf/replay.bpf.c
//! Outcomes    <──lookup─── map `output` ─┘
//! ```
//!
//! The program is never attached, so it sees no packets. Loading it requires root and Linux 5.17 (`bpf_loop`).

use crate::flow::Flow;
use crate::object::{AlignedBytes, KernelError, load_object, refused};
use crate::replay::{Outcome, Start, Step};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Map, MapCore as _, MapFlags, Object, Program, ProgramInput, ProgramMut};
use poseidon_types::Nanos;
use std::os::fd::AsFd as _;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// The number of steps per batch. Equals `MAX_STEPS` in `bpf/replay.bpf.c`.
const BATCH_STEPS: usize = 512;

static OBJECT: &AlignedBytes<[u8]> =
    &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/replay.bpf.o")));

/// The loaded replay program. Dropping this value unloads the program.
#[derive(Debug)]
pub struct KernelReplay {
    object: Object,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayResult {
    /// One outcome per step.
    pub outcomes: Vec<Outcome>,
    /// The kernel's running time, including the time to write the outcomes.
    pub elapsed: Nanos,
}

impl KernelReplay {
    /// Loads the program. A loaded program has passed the verifier.
    pub fn load() -> Result<Self, KernelError> {
        Ok(Self { object: load_object(&OBJECT.0, |_| Ok(()))? })
    }

    /// Applies `steps` to `flow`, in as many batches as necessary.
    pub fn replay(&self, flow: Flow, steps: &[Step]) -> Result<ReplayResult, KernelError> {
        let (input, output) = (self.map("input")?, self.map("output")?);
        let program = self.program()?;
        let key = 0_u32.to_ne_bytes();
        let mut start = Start { flow, steps: 0 };
        let mut result = ReplayResult { outcomes: Vec::with_capacity(steps.len()), elapsed: Nanos::ZERO };
        for batch in steps.chunks(BATCH_STEPS) {
            start.steps = batch.len() as u64;
            let mut bytes = [start.as_bytes(), batch.as_bytes()].concat();
            bytes.resize(size_of::<Start>() + BATCH_STEPS * size_of::<Step>(), 0);
            input.update(&key, &bytes, MapFlags::ANY).map_err(refused("writing the steps"))?;
            let run = program.test_run(ProgramInput::default()).map_err(refused("running the program"))?;
            let value = output.lookup(&key, MapFlags::ANY).map_err(refused("reading the outcomes"))?;
            let mismatch = || KernelError::ObjectMismatch { missing: "an output of the expected size" };
            let value = value.filter(|_| run.return_value == 0).ok_or_else(mismatch)?;
            let (elapsed, rest) = u64::read_from_prefix(&value).map_err(|_| mismatch())?;
            let (outcomes, _) =
                <[Outcome]>::ref_from_prefix_with_elems(rest, batch.len()).map_err(|_| mismatch())?;
            result.elapsed += Nanos::new(elapsed);
            result.outcomes.extend_from_slice(outcomes);
            start.flow = outcomes.last().map_or(start.flow, |last| last.flow);
        }
        Ok(result)
    }

    /// Returns how many instructions the verifier processed. The verifier's limit is one million.
    pub fn verified_instructions(&self) -> Result<u32, KernelError> {
        let id = Program::id_from_fd(self.program()?.as_fd()).map_err(refused("reading the program id"))?;
        let loaded = ProgInfoIter::default().find(|info| info.id == id);
        loaded
            .map(|info| info.verified_insns)
            .ok_or(KernelError::ObjectMismatch { missing: "its loaded program" })
    }

    fn map(&self, name: &'static str) -> Result<Map<'_>, KernelError> {
        let map = self.object.maps().find(|map| map.name() == name);
        map.ok_or(KernelError::ObjectMismatch { missing: name })
    }

    fn program(&self) -> Result<ProgramMut<'_>, KernelError> {
        self.object.progs_mut().next().ok_or(KernelError::ObjectMismatch { missing: "the program" })
    }
}
