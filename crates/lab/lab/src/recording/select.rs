//! Chooses what a recording contains, so that its files stay small.

use super::error::RecordingError;
use super::{RecordingOptions, all_ports};
use crate::resolve::ResolvedRun;
use poseidon_plan::recording::{NodePort, Recording};
use poseidon_plan::topology::Node;
use poseidon_plan::{Backend, Plan, SwitchPort};
use poseidon_types::{ConnectionId, HostId, Picos, PortId, SwitchId};

/// The largest number of connections that a recording samples unless the user lists them.
pub const MAX_RECORDED_CONNECTIONS: usize = 64;

/// The largest number of queues that a recording samples.
pub const MAX_RECORDED_PORTS: usize = 2_048;

/// The largest number of counter values in a trace, before unchanged values are omitted: about 120 MB.
const MAX_COUNTER_VALUES: u64 = 5_000_000;

/// The largest number of sampling times. The simulator visits every sampled node at each of them.
const MAX_SAMPLES: u64 = 10_000_000;

/// The counters of a sampled port: queue, delay and rate.
const COUNTERS_PER_PORT: u64 = 3;

/// The counters of a sampled connection: window, in flight, RTT, target, hop delay, pacing rate and goodput.
const COUNTERS_PER_CONNECTION: u64 = 7;

/// The time window of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedWindow {
    /// The begin.
    pub from: Picos,
    /// The end. A sample at the end belongs to the window.
    pub to: Picos,
}

impl RecordedWindow {
    /// Checks a window against a run. Without an end, the window ends with the measured part of the run.
    pub fn new(
        resolved: &ResolvedRun,
        from: Option<Picos>,
        to: Option<Picos>,
    ) -> Result<Self, RecordingError> {
        let end = resolved.measured_until;
        let (from, to) = (from.unwrap_or(Picos::ZERO), to.unwrap_or(Picos::MAX));
        if to <= from {
            return Err(RecordingError::EmptyWindow { from, to });
        }
        if from >= end {
            return Err(RecordingError::WindowOutsideRun { from, end });
        }
        Ok(Self { from, to: to.min(end) })
    }

    /// Returns whether a time is in the window.
    pub fn contains(&self, time: Picos) -> bool {
        (self.from..=self.to).contains(&time)
    }
}

/// What the user chooses to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Whether queues and connections are sampled, for a trace or a qlog.
    pub samples: bool,
    /// The connections to sample. Empty stands for the first connections of each traffic pattern.
    pub connections: Vec<u32>,
    /// The sampling interval. Without it, the interval of the scenario, or a multiple of it for long runs.
    pub sample_every: Option<Picos>,
    /// The ports whose packets are captured, as text.
    pub captured_ports: Vec<String>,
    /// The begin of the window.
    pub from: Option<Picos>,
    /// The end of the window.
    pub to: Option<Picos>,
}

/// Resolves a selection for a run.
pub fn select(
    resolved: &ResolvedRun,
    selection: &Selection,
    backend: &dyn Backend,
) -> Result<(RecordingOptions, RecordedWindow), RecordingError> {
    let window = RecordedWindow::new(resolved, selection.from, selection.to)?;
    let plan = &resolved.plan;
    let mut captured_ports: Vec<NodePort> = selection
        .captured_ports
        .iter()
        .map(|text| parse_node_port(text, plan, backend))
        .collect::<Result<_, _>>()?;
    captured_ports.sort_unstable();
    captured_ports.dedup();
    let mut options = RecordingOptions { until: window.to, ..RecordingOptions::default() };
    options.recording = Recording { captured_ports, window: window.from..window.to, ..Recording::NOTHING };
    if selection.samples {
        options.connections = select_connections(resolved, &selection.connections)?;
        options.ports = select_ports(resolved, &options.connections, backend);
        options.sample_every = choose_interval(resolved, selection.sample_every, &options, &window)?;
        options.recording.marks = true;
        options.recording.pauses = true;
        options.recording.law_states_every = options.sample_every;
    } else {
        // Nothing is sampled, so the interval does not matter, but it must not be zero.
        options.sample_every = plan.sample_every;
    }
    Ok((options, window))
}

/// Returns the given connections, or the first connections of each traffic group in turn.
fn select_connections(resolved: &ResolvedRun, chosen: &[u32]) -> Result<Vec<ConnectionId>, RecordingError> {
    let count = u32::try_from(resolved.plan.connections.len()).unwrap_or(u32::MAX);
    if let Some(connection) = chosen.iter().find(|connection| **connection >= count) {
        return Err(RecordingError::NoSuchConnection { connection: *connection, count });
    }
    if !chosen.is_empty() {
        let mut connections: Vec<ConnectionId> = chosen.iter().copied().map(ConnectionId::new).collect();
        connections.sort_unstable();
        connections.dedup();
        return Ok(connections);
    }
    let groups: Vec<_> = resolved.groups.iter().map(|group| group.connections.clone()).collect();
    let longest = groups.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let in_turn = (0..longest).flat_map(|position| {
        groups.iter().filter_map(move |group| group.clone().nth(position)).map(ConnectionId::new)
    });
    let mut connections: Vec<ConnectionId> = in_turn.take(MAX_RECORDED_CONNECTIONS).collect();
    connections.sort_unstable();
    Ok(connections)
}

/// Returns all ports, or if there are too many, the ports that the scenario watches and those on the routes of the
/// sampled connections.
fn select_ports(
    resolved: &ResolvedRun,
    connections: &[ConnectionId],
    backend: &dyn Backend,
) -> Vec<SwitchPort> {
    let plan = &resolved.plan;
    let ports = all_ports(plan, backend);
    if ports.len() <= MAX_RECORDED_PORTS {
        return ports;
    }
    let ends: Vec<_> = connections.iter().map(|connection| plan.connections[connection.index()]).collect();
    let mut ports: Vec<SwitchPort> = plan.watched_ports.clone();
    ports.extend(backend.routes(plan, &ends).into_iter().flatten());
    ports.truncate(MAX_RECORDED_PORTS);
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Returns the requested sampling interval, or the smallest multiple of the scenario's interval that keeps the trace
/// small.
fn choose_interval(
    resolved: &ResolvedRun,
    requested: Option<Picos>,
    options: &RecordingOptions,
    window: &RecordedWindow,
) -> Result<Picos, RecordingError> {
    let interval = requested.unwrap_or(resolved.plan.sample_every);
    // Nodes are sampled from the beginning of the run, and the samples before the window are not written.
    let samples = window.to.get().checked_div(interval.get()).unwrap_or(u64::MAX);
    if samples > MAX_SAMPLES {
        return Err(RecordingError::TooManySamples { interval, samples, limit: MAX_SAMPLES });
    }
    if requested.is_some() {
        return Ok(interval);
    }
    let counters = COUNTERS_PER_PORT * options.ports.len() as u64
        + COUNTERS_PER_CONNECTION * options.connections.len() as u64;
    let length = (window.to - window.from).get();
    let values = (length / interval.get()).saturating_mul(counters);
    Ok(interval * values.div_ceil(MAX_COUNTER_VALUES).max(1))
}

/// Parses a port, such as `host3:0` or `switch5:2`, and checks that it exists.
pub fn parse_node_port(text: &str, plan: &Plan, backend: &dyn Backend) -> Result<NodePort, RecordingError> {
    let not_a_port = || RecordingError::NotAPort { text: text.to_owned() };
    let (name, port) = text.split_once(':').ok_or_else(not_a_port)?;
    let port: u32 = port.parse().map_err(|_| not_a_port())?;
    let split = name.find(|c: char| c.is_ascii_digit()).ok_or_else(not_a_port)?;
    let (kind, number) = name.split_at(split);
    let number: u32 = number.parse().map_err(|_| not_a_port())?;
    let (node, kind, nodes) = match kind {
        "host" => (Node::Host(HostId::new(number)), "host", plan.topology.hosts()),
        "switch" => (Node::Switch(SwitchId::new(number)), "switch", plan.topology.switches()),
        _ => return Err(not_a_port()),
    };
    if number >= nodes {
        return Err(RecordingError::NoSuchNode { text: text.to_owned(), kind, count: nodes });
    }
    let ports = match node {
        Node::Host(_) => 1,
        Node::Switch(switch) => backend.port_count(plan, switch),
    };
    if port >= ports {
        let node = name.to_owned();
        return Err(RecordingError::NoSuchPort { text: text.to_owned(), node, count: ports });
    }
    Ok(NodePort::new(node, PortId::new(port)))
}
