//! What several suites need.

use core::num::NonZeroU32;
use poseidon_plan::records::Kept;
use poseidon_plan::{Backend, Plan, Report};
use poseidon_sim::Simulator;
use poseidon_types::Picos;

/// So many microseconds.
pub(crate) const fn us(us: u64) -> Picos {
    Picos::new(us * 1_000_000)
}

/// Runs a plan that makes sense.
pub(crate) fn run(plan: &Plan) -> (Kept, Report) {
    let mut kept = Kept::default();
    let report = Simulator::with_threads(NonZeroU32::MIN).run(plan, &mut kept).expect("runs");
    (kept, report)
}
