//! Recordings: an additional run of a resolved plan, with more rows than its study stores.
//!
//! | file | contents |
//! |---|---|
//! | [`perfetto`] | a trace of the whole run for `ui.perfetto.dev` |
//! | [`pcapng`] | the packets of chosen ports for Wireshark, with real headers |
//! | [`qlog`] | the window, the RTT and the pacing of chosen connections for qlog viewers |
//!
//! A recording runs the same plan again. It stores nothing in the study's folder of runs, and it changes neither the
//! plan's hash nor its results: [`Report::result_hash`] equals that of the plain run.

mod error;
pub mod pcapng;
pub mod perfetto;
pub mod qlog;
mod select;
mod tee;

pub use error::RecordingError;
pub use select::{
    MAX_RECORDED_CONNECTIONS, MAX_RECORDED_PORTS, RecordedWindow, Selection, parse_node_port, select,
};
pub use tee::Tee;

use crate::resolve::ResolvedRun;
use core::ops::ControlFlow;
use poseidon_plan::recording::Recording;
use poseidon_plan::records::{DropCause, Progress, Sink};
use poseidon_plan::{Backend, Plan, PlanError, Report, SwitchPort};
use poseidon_types::{ConnectionId, Picos, PortId};

/// What a recording contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingOptions {
    /// The ports whose queues are sampled. [`all_ports`] returns every port.
    pub ports: Vec<SwitchPort>,
    /// The connections that are sampled at both ends.
    pub connections: Vec<ConnectionId>,
    /// The sampling interval. Zero stands for the interval of the plan.
    pub sample_every: Picos,
    /// The rows that a plain run does not have.
    pub recording: Recording,
    /// The recording ends at this time, or at the end of the measured part if that is earlier.
    pub until: Picos,
}

impl Default for RecordingOptions {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            connections: Vec::new(),
            sample_every: Picos::ZERO,
            recording: Recording::NOTHING,
            until: Picos::MAX,
        }
    }
}

/// Runs the plan of `resolved` again and passes its rows to `sink`.
///
/// The samples are those of the options, not those of the plan. The law's decisions are logged only if the plan logs
/// them. Rows of messages, arrivals and drops always reach the sink. The sink can stop the recording.
///
/// The run continues until the end of the measured part, without a drain.
pub fn record(
    resolved: &ResolvedRun,
    options: &RecordingOptions,
    backend: &dyn Backend,
    sink: &mut dyn Sink,
) -> Result<Report, PlanError> {
    let mut plan = resolved.plan.clone();
    plan.watched_ports.clone_from(&options.ports);
    plan.watched_connections.clone_from(&options.connections);
    plan.watched_ports.sort_unstable();
    plan.watched_ports.dedup();
    plan.watched_connections.sort_unstable();
    plan.watched_connections.dedup();
    if !options.sample_every.is_zero() {
        plan.sample_every = options.sample_every;
    }
    let mut stop_after = StopAfter { time: options.until.min(resolved.measured_until) };
    backend.record(&plan, &options.recording, &mut Tee(vec![sink, &mut stop_after]))
}

/// Returns every egress port of every switch, sorted.
pub fn all_ports(plan: &Plan, backend: &dyn Backend) -> Vec<SwitchPort> {
    let ports_of = |switch| {
        (0..backend.port_count(plan, switch)).map(move |port| SwitchPort::new(switch, PortId::new(port)))
    };
    plan.topology.switch_ids().flat_map(ports_of).collect()
}

/// Says why a packet was dropped.
const fn drop_reason(cause: DropCause) -> &'static str {
    match cause {
        DropCause::Buffer => "the buffer is full",
        DropCause::Link => "the link is down",
        DropCause::Loss => "the link lost it",
    }
}

/// Stops the run after a time.
struct StopAfter {
    time: Picos,
}

impl Sink for StopAfter {
    fn on_progress(&mut self, progress: Progress) -> ControlFlow<()> {
        if progress.now > self.time { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
