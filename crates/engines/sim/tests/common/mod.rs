//! Helpers shared by several test suites.

use core::num::NonZeroU32;
use poseidon_plan::records::MemorySink;
use poseidon_plan::{Backend, Plan, Report};
use poseidon_sim::Simulator;
use poseidon_types::Picos;

/// Converts microseconds to picoseconds.
pub(crate) const fn us(us: u64) -> Picos {
    Picos::new(us * 1_000_000)
}

/// Runs a valid plan on one thread.
pub(crate) fn run(plan: &Plan) -> (MemorySink, Report) {
    let mut rows = MemorySink::default();
    let report = Simulator::with_threads(NonZeroU32::MIN).run(plan, &mut rows).expect("the plan runs");
    (rows, report)
}
