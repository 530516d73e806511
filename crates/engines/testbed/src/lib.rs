//! A [`Backend`] of real packets: a scenario's network as network namespaces of this machine, with Linux's own TCP at its ends.
//!
//! ```text
//!   Plan ──layout──> hosts h0, h1, …   namespaces with TCP: cubic, bbr, Poseidon, Swift, DCTCP
//!                    switches s0, …    namespaces that forward; each port shaped (TBF), stamping (INT) or marking (RPM)
//!                    links             veth; one with a delay: two TAP devices and a program that holds packets back
//!          ──run───> connections between them, queues sampled from the kernel's own tracepoints ──> the records of any backend
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`layout`] | what is built for a plan, and why it is refused |
//! | [`room`] | a place where nothing outside is touched, and which the kernel clears when the process ends, however it ends |
//! | `network` | namespaces, wires, addresses, shapers |
//! | `delay` | the line that holds packets back |
//! | `laws` | which congestion control a law is in Linux |
//! | `traffic` | who sends what, and when |
//! | `run` | the clock of a run, what is written down, and the report |
//!
//! What is real is not repeatable: two runs of one seed differ, a busy machine disturbs, and a law runs on the clock of its host. Rates
//! are those that one machine can shape: up to 500 Mbps; a faster link is left unshaped, and so is what a host itself sends.

mod delay;
mod laws;
pub mod layout;
mod network;
pub mod room;
mod run;
mod traffic;

use layout::Layout;
use poseidon_plan::records::Sink;
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report};
use poseidon_types::Signals;

/// Runs plans on this machine. It must stand in a [`room`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Testbed;

impl Backend for Testbed {
    fn supplies(&self, plan: &Plan) -> Signals {
        layout::supplies(plan)
    }

    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<(u32, u32)>> {
        let Ok(layout) = Layout::of(plan) else { return vec![Vec::new(); connections.len()] };
        connections.iter().map(|connection| layout.route(connection.from, connection.to)).collect()
    }

    fn ports(&self, plan: &Plan, switch: u32) -> u32 {
        Layout::of(plan).map_or(0, |layout| layout.ports(switch))
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report> {
        plan.check(self.supplies(plan))?;
        let layout = Layout::of(plan)?;
        run::run(plan, &layout, sink)
    }
}

/// What the machine would not do, in words.
pub(crate) fn failed(doing: impl core::fmt::Display, why: impl core::fmt::Display) -> PlanError {
    PlanError::Machine(format!("{doing}: {why}"))
}

pub(crate) type Result<T> = core::result::Result<T, PlanError>;
