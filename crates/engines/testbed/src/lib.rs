//! A [`Backend`] that uses real packets. It builds the network of a scenario from network namespaces, and its hosts
//! run Linux TCP, or a real stack over UDP.
//!
//! ```text
//!   Plan ──layout──> hosts h0, h1, …   namespaces with TCP: cubic, bbr, Poseidon, Swift, DCTCP
//!                    switches s0, …    namespaces that forward; each port shapes (TBF) and stamps (INT) or marks (RPM)
//!                    links             veth; a link with a delay is two TAP devices and a delay line
//!          ──run───> connections, and queue samples from kernel tracepoints ──> records
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`layout`] | the namespaces and devices for a plan, or the reason why the plan is rejected |
//! | [`private_netns`] | private namespaces, which the kernel removes when the process exits |
//! | `network` | namespaces, links, addresses, shapers |
//! | [`delay_line`] | links with a delay |
//! | `laws` | the Linux congestion control for each law |
//! | `flow` | running connections: their clock, their rows, and what they report |
//! | `traffic` | TCP connections and their messages |
//! | `stacks`, `udp` | connections in a real stack (quinn), and their sockets |
//! | `run` | the run's schedule, samples and report |
//!
//! Results are not reproducible: two runs with the same seed differ, and other work on the machine affects the
//! results. One machine can shape links of up to 500 Mbps. Faster links and host-to-switch links are not shaped.

pub mod delay_line;
mod flow;
mod laws;
pub mod layout;
mod namespace;
mod network;
pub mod private_netns;
mod run;
mod stacks;
mod traffic;
mod udp;

use layout::Layout;
use poseidon_plan::records::Sink;
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report, SwitchPort};
use poseidon_types::{Signals, SwitchId};

/// Runs plans on this machine. The process must run in private namespaces ([`private_netns`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Testbed {
    /// Creates the real transport stacks of plans that use them. If `None`, the testbed rejects such plans.
    pub stacks: Option<&'static dyn StackFactory>,
}

impl Backend for Testbed {
    fn available_signals(&self, plan: &Plan) -> Signals {
        layout::available_signals(plan)
    }

    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<SwitchPort>> {
        let Ok(layout) = Layout::new(plan) else { return vec![Vec::new(); connections.len()] };
        connections.iter().map(|connection| layout.route(connection.from, connection.to)).collect()
    }

    fn port_count(&self, plan: &Plan, switch: SwitchId) -> u32 {
        Layout::new(plan).map_or(0, |layout| layout.port_count(switch))
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report> {
        plan.check(self.available_signals(plan))?;
        let layout = Layout::new(plan)?;
        let stacks = stacks::check(plan, self.stacks)?;
        run::run(plan, &layout, stacks, sink)
    }
}

/// Wraps a machine error with the operation that failed.
pub(crate) fn machine_error(operation: impl core::fmt::Display, error: impl core::fmt::Display) -> PlanError {
    PlanError::BackendFailed(format!("{operation}: {error}"))
}

pub(crate) type Result<T> = core::result::Result<T, PlanError>;
