//! The traffic of a flow list: connections, messages and dependencies.

use crate::flows::{FlowFile, FlowStart, TraceFlow, TriggerKind};
use crate::nodes::NodeMap;
use core::cmp::Reverse;
use core::fmt;
use core::num::NonZeroU32;
use poseidon_plan::patterns::{Pattern, PatternError, Traffic, TrafficClass};
use poseidon_plan::switch::MAX_PRIORITIES;
use poseidon_plan::traffic::{Amount, Event};
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Picos};
use std::collections::{BTreeMap, BinaryHeap};

/// The maximum number of dependencies. A barrier with `n` activations and `m` waiting flows needs `n * m`.
const MAX_DEPENDENCIES: usize = 1 << 24;

/// The traffic of a flow list, as a pattern.
///
/// Each flow is a message. Flows with the same id and a message number share a connection, and every other flow has a
/// connection of its own. A trigger becomes a dependency on each flow that activates it.
///
/// A plan's message can only wait for an event at its own sender. A trigger that starts a flow at another host is
/// therefore refused, because htsim passes the signal to the other host in no time.
///
/// ```
/// use poseidon_plan::patterns::{Pattern, TrafficClass};
/// use poseidon_traces::{NodeMap, PrioritySource, StartUnit, TraceTraffic, parse_cm};
///
/// let text = "Nodes 3\nConnections 2\nTriggers 1
///             0->1 id 1 start 0 size 1000 send_done_trigger 1
///             0->2 id 2 trigger 1 size 1000
///             trigger id 1 oneshot";
/// let file = parse_cm(text.as_bytes(), StartUnit::Microseconds, 1_000_000)?;
/// let traffic = TraceTraffic::new(&file, &NodeMap::Identity(3), PrioritySource::Class)?;
/// let traffic = traffic.generate(&TrafficClass::new(7, "serial"))?.into_plan_order();
/// assert_eq!((traffic.messages.len(), traffic.dependencies.len()), (2, 1));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTraffic {
    flows: Vec<Flow>,
    /// The dependencies, sorted by the dependent flow.
    waits: Vec<Wait>,
    /// The flows in an order in which each flow follows its prerequisites, or `None` for the order of the file.
    order: Option<Vec<u32>>,
}

/// Where the priority of a flow comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrioritySource {
    /// From the file. A flow without a priority has that of the traffic class.
    File,
    /// From the traffic class. The priorities in the file are ignored.
    Class,
}

/// A flow between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    from: HostId,
    to: HostId,
    size: Bytes,
    /// The start time, or zero for a flow that waits for a trigger.
    start: Picos,
    /// The id of the shared connection.
    connection: Option<NonZeroU32>,
    priority: Option<u8>,
}

/// A dependency between two flows, given by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    dependent: u32,
    prerequisite: u32,
    event: Event,
}

impl TraceTraffic {
    /// Converts the flows and triggers of a file. Failed links are not part of the traffic.
    pub fn new(file: &FlowFile, nodes: &NodeMap, priorities: PrioritySource) -> Result<Self, LowerError> {
        let flows = lower_flows(file, nodes, priorities)?;
        check_connections(file, &flows)?;
        let waits = find_waits(file, &flows)?;
        let order = order_flows(flows.len(), &waits).map_err(|index| LowerError::Cycle {
            trigger: awaited_trigger(&file.flows[index as usize])
                .expect("a flow in a cycle waits for a trigger"),
            flow: FlowName::new(&file.flows, index),
        })?;
        Ok(Self { flows, waits, order })
    }
}

impl Pattern for TraceTraffic {
    fn expected_messages(&self) -> f64 {
        self.flows.len() as f64
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        let mut traffic = Traffic::default();
        let mut shared: BTreeMap<NonZeroU32, ConnectionId> = BTreeMap::new();
        let mut counters: BTreeMap<(HostId, HostId), u64> = BTreeMap::new();
        let mut connections = Vec::with_capacity(self.flows.len());
        for flow in &self.flows {
            if let Some(connection) = flow.connection.and_then(|id| shared.get(&id)) {
                connections.push(*connection);
                continue;
            }
            let counter = counters.entry((flow.from, flow.to)).or_default();
            let mut connection = class.connection(flow.from, flow.to, *counter);
            connection.priority = flow.priority.unwrap_or(class.priority);
            *counter += 1;
            let connection = traffic.add_connection(connection);
            if let Some(id) = flow.connection {
                shared.insert(id, connection);
            }
            connections.push(connection);
        }
        let mut messages = vec![MessageId::default(); self.flows.len()];
        let mut add_message = |index: usize| {
            let flow = &self.flows[index];
            let amount = Amount::Exactly(flow.size);
            messages[index] = traffic.add_message(connections[index], flow.start, amount);
        };
        match &self.order {
            None => (0..self.flows.len()).for_each(&mut add_message),
            Some(order) => order.iter().for_each(|flow| add_message(*flow as usize)),
        }
        for wait in &self.waits {
            let (dependent, prerequisite) = (wait.dependent as usize, wait.prerequisite as usize);
            traffic.add_dependency(messages[dependent], wait.event, messages[prerequisite]);
        }
        Ok(traffic.grouped(&class.name))
    }
}

/// The reason that a flow list cannot be converted to traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowerError {
    /// There are too many flows for a plan.
    TooManyFlows,
    /// A flow's node is not a host of the network.
    UnknownNode {
        /// The flow.
        flow: FlowName,
        /// The node.
        node: u32,
        /// The number of hosts, if nodes have the numbers of hosts.
        hosts: Option<u32>,
    },
    /// A flow's nodes are the same host.
    SelfTraffic {
        /// The flow.
        flow: FlowName,
        /// The host.
        host: HostId,
    },
    /// A flow is empty.
    EmptyFlow {
        /// The flow.
        flow: FlowName,
    },
    /// A priority is too high for a plan.
    Priority {
        /// The flow.
        flow: FlowName,
        /// The priority.
        priority: u32,
    },
    /// Two flows have the same id, but they do not share a connection.
    DuplicateId {
        /// The id.
        id: NonZeroU32,
        /// The first flow.
        first: FlowName,
        /// The second flow.
        second: FlowName,
    },
    /// Two flows share a connection, but their ends or priorities differ.
    MixedConnection {
        /// The id of the connection.
        id: NonZeroU32,
        /// The first flow.
        first: FlowName,
        /// The second flow.
        second: FlowName,
    },
    /// A message has no id, so its connection is unknown.
    MissingId {
        /// The flow.
        flow: FlowName,
    },
    /// A flow waits for a trigger that is not defined.
    UndefinedTrigger {
        /// The trigger.
        trigger: NonZeroU32,
        /// The waiting flow.
        flow: FlowName,
    },
    /// A flow waits for a trigger that no flow activates.
    NeverActivated {
        /// The trigger.
        trigger: NonZeroU32,
        /// The waiting flow.
        flow: FlowName,
    },
    /// Several flows activate a trigger that fires at each activation or at the first.
    SeveralActivations {
        /// The trigger.
        trigger: NonZeroU32,
        /// When the trigger fires.
        kind: TriggerKind,
        /// The first flow that activates it.
        first: FlowName,
        /// The second flow that activates it.
        second: FlowName,
    },
    /// A barrier's count differs from the number of its activations.
    BarrierCount {
        /// The trigger.
        trigger: NonZeroU32,
        /// The count.
        count: NonZeroU32,
        /// The number of activations.
        activations: usize,
    },
    /// A trigger fires at one host and starts a flow at another.
    RemoteTrigger {
        /// The trigger.
        trigger: NonZeroU32,
        /// The flow that activates the trigger.
        prerequisite: FlowName,
        /// The event that activates it.
        event: Event,
        /// The waiting flow.
        dependent: FlowName,
    },
    /// The barriers need too many dependencies.
    TooManyDependencies {
        /// The trigger that exceeds the limit.
        trigger: NonZeroU32,
        /// The maximum number.
        limit: usize,
    },
    /// A flow waits for itself, directly or through other flows.
    Cycle {
        /// The trigger that the flow waits for.
        trigger: NonZeroU32,
        /// A flow in the cycle.
        flow: FlowName,
    },
}

impl LowerError {
    /// Returns the index of the flow that the error is about, or of the first of several.
    pub const fn flow(&self) -> Option<usize> {
        match self {
            Self::TooManyFlows | Self::BarrierCount { .. } | Self::TooManyDependencies { .. } => None,
            Self::UnknownNode { flow, .. }
            | Self::SelfTraffic { flow, .. }
            | Self::EmptyFlow { flow }
            | Self::Priority { flow, .. }
            | Self::DuplicateId { first: flow, .. }
            | Self::MixedConnection { first: flow, .. }
            | Self::MissingId { flow }
            | Self::UndefinedTrigger { flow, .. }
            | Self::NeverActivated { flow, .. }
            | Self::SeveralActivations { first: flow, .. }
            | Self::RemoteTrigger { dependent: flow, .. }
            | Self::Cycle { flow, .. } => Some(flow.index),
        }
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFlows => f.write_str("the file has more than 4,294,967,295 flows; split it"),
            Self::UnknownNode { flow, node, hosts: Some(hosts) } => write!(
                f,
                "{flow}: there is no host h{node}: the network has {hosts} hosts, from h0 to h{}; correct the flow, \
                 or choose a larger network",
                hosts.saturating_sub(1)
            ),
            Self::UnknownNode { flow, node, hosts: None } => write!(
                f,
                "{flow}: node {node} is not a host in the topology file; correct the flow, or add the host to the \
                 topology file"
            ),
            Self::SelfTraffic { flow, host } => {
                write!(f, "{flow}: both nodes are host {host}; map the nodes to different hosts")
            }
            Self::EmptyFlow { flow } => write!(f, "{flow} is empty; give it a size above zero"),
            Self::Priority { flow, priority } => {
                write!(
                    f,
                    "{flow}: priority {priority} is too high; use 0 to {}, or remove the priorities from the file",
                    MAX_PRIORITIES - 1
                )
            }
            Self::DuplicateId { id, first, second } => {
                write!(
                    f,
                    "{first} and {second} have the id {id}; add msg to share a connection, or change an id"
                )
            }
            Self::MixedConnection { id, first, second } => write!(
                f,
                "{first} and {second} share connection {id}, but their ends or priorities differ; change an id"
            ),
            Self::MissingId { flow } => {
                write!(f, "{flow} is a message without an id; add the connection's id")
            }
            Self::UndefinedTrigger { trigger, flow } => {
                write!(f, "{flow} waits for trigger {trigger}, which is not defined; define it")
            }
            Self::NeverActivated { trigger, flow } => write!(
                f,
                "{flow} waits for trigger {trigger}, which no flow activates; add send_done_trigger {trigger} or \
                 recv_done_trigger {trigger} to a flow"
            ),
            Self::SeveralActivations { trigger, kind, first, second } => write!(
                f,
                "{first} and {second} activate trigger {trigger}, which is {kind}; use a trigger for each, or a \
                 barrier that waits for all"
            ),
            Self::BarrierCount { trigger, count, activations } => write!(
                f,
                "trigger {trigger} is a barrier with the count {count}, but it has {activations} activations; set \
                 the count to {activations}"
            ),
            Self::RemoteTrigger { trigger, prerequisite, event, dependent } => {
                fmt_remote_trigger(f, *trigger, prerequisite, *event, dependent)
            }
            Self::TooManyDependencies { trigger, limit } => {
                write!(
                    f,
                    "trigger {trigger} raises the number of dependencies above {limit}; use smaller barriers"
                )
            }
            Self::Cycle { trigger, flow } => write!(
                f,
                "{flow} waits for trigger {trigger}, which needs {flow} to finish; give a flow of the cycle a start \
                 time"
            ),
        }
    }
}

/// Describes a trigger that fires at one host and starts a flow at another.
fn fmt_remote_trigger(
    f: &mut fmt::Formatter<'_>,
    trigger: NonZeroU32,
    prerequisite: &FlowName,
    event: Event,
    dependent: &FlowName,
) -> fmt::Result {
    let place = match event {
        Event::Acknowledged => "acknowledged at its sender",
        Event::Received => "received at its receiver",
    };
    write!(
        f,
        "trigger {trigger} fires when {prerequisite} is {place}, but {dependent} starts at another host; "
    )?;
    match event {
        Event::Acknowledged if prerequisite.to == dependent.from => {
            write!(f, "use recv_done_trigger {trigger} instead of send_done_trigger")
        }
        Event::Received if prerequisite.from == dependent.from => {
            write!(f, "use send_done_trigger {trigger} instead of recv_done_trigger")
        }
        Event::Acknowledged | Event::Received => {
            write!(f, "start it at a time, or by a flow that begins or ends at node {}", dependent.from)
        }
    }
}

impl core::error::Error for LowerError {}

/// A flow in an error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowName {
    /// The index of the flow in the file.
    pub index: usize,
    /// The sending node.
    pub from: u32,
    /// The receiving node.
    pub to: u32,
}

impl FlowName {
    fn new(flows: &[TraceFlow], index: u32) -> Self {
        let index = index as usize;
        Self { index, from: flows[index].from, to: flows[index].to }
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Users count from one.
        write!(f, "flow {} ({}->{})", self.index + 1, self.from, self.to)
    }
}

/// Returns the trigger that starts a flow.
const fn awaited_trigger(flow: &TraceFlow) -> Option<NonZeroU32> {
    match flow.start {
        FlowStart::OnTrigger(trigger) => Some(trigger),
        FlowStart::At(_) => None,
    }
}

/// Converts the flows without their triggers.
fn lower_flows(
    file: &FlowFile,
    nodes: &NodeMap,
    priorities: PrioritySource,
) -> Result<Vec<Flow>, LowerError> {
    if u32::try_from(file.flows.len()).is_err() {
        return Err(LowerError::TooManyFlows);
    }
    let lower = |(flow, index): (&TraceFlow, u32)| {
        let name = || FlowName::new(&file.flows, index);
        let host = |node| nodes.host(node).ok_or_else(|| unknown_node(name(), node, nodes));
        let (from, to) = (host(flow.from)?, host(flow.to)?);
        if from == to {
            return Err(LowerError::SelfTraffic { flow: name(), host: from });
        }
        if flow.size.is_zero() {
            return Err(LowerError::EmptyFlow { flow: name() });
        }
        let priority = match (priorities, flow.priority) {
            (PrioritySource::Class, _) | (PrioritySource::File, None) => None,
            (PrioritySource::File, Some(priority)) => {
                let small = u8::try_from(priority).ok().filter(|priority| *priority < MAX_PRIORITIES);
                Some(small.ok_or_else(|| LowerError::Priority { flow: name(), priority })?)
            }
        };
        let connection = match (flow.message, flow.id) {
            (None, _) => None,
            (Some(_), Some(id)) => Some(id),
            (Some(_), None) => return Err(LowerError::MissingId { flow: name() }),
        };
        let start = match flow.start {
            FlowStart::At(start) => start,
            FlowStart::OnTrigger(_) => Picos::ZERO,
        };
        Ok(Flow { from, to, size: flow.size, start, connection, priority })
    };
    file.flows.iter().zip(0..).map(lower).collect()
}

/// Returns the error for a node that is not a host.
const fn unknown_node(flow: FlowName, node: u32, nodes: &NodeMap) -> LowerError {
    let hosts = match nodes {
        NodeMap::Identity(hosts) => Some(*hosts),
        NodeMap::Table(_) => None,
    };
    LowerError::UnknownNode { flow, node, hosts }
}

/// Checks that flows with the same id share a connection with the same ends and priority.
fn check_connections(file: &FlowFile, flows: &[Flow]) -> Result<(), LowerError> {
    let mut ids: Vec<(NonZeroU32, u32)> =
        file.flows.iter().zip(0..).filter_map(|(flow, index)| Some((flow.id?, index))).collect();
    ids.sort_unstable();
    for pair in ids.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let [(id, first), (_, second)] = [pair[0], pair[1]];
        let (a, b) = (flows[first as usize], flows[second as usize]);
        let names = || (FlowName::new(&file.flows, first), FlowName::new(&file.flows, second));
        if a.connection.is_none() || b.connection.is_none() {
            let (first, second) = names();
            return Err(LowerError::DuplicateId { id, first, second });
        }
        if (a.from, a.to, a.priority) != (b.from, b.to, b.priority) {
            let (first, second) = names();
            return Err(LowerError::MixedConnection { id, first, second });
        }
    }
    Ok(())
}

/// Returns the dependencies, sorted by the dependent flow.
fn find_waits(file: &FlowFile, flows: &[Flow]) -> Result<Vec<Wait>, LowerError> {
    let kinds: BTreeMap<NonZeroU32, TriggerKind> =
        file.triggers.iter().map(|trigger| (trigger.id, trigger.kind)).collect();
    // The flows that activate each trigger, sorted by trigger and flow.
    let mut activations: Vec<(NonZeroU32, u32, Event)> = Vec::new();
    for (flow, index) in file.flows.iter().zip(0..) {
        activations.extend(flow.send_done.map(|trigger| (trigger, index, Event::Acknowledged)));
        activations.extend(flow.receive_done.map(|trigger| (trigger, index, Event::Received)));
    }
    activations.sort_unstable();
    let mut waits = Vec::new();
    for (flow, dependent) in file.flows.iter().zip(0..) {
        let Some(trigger) = awaited_trigger(flow) else { continue };
        let name = |index| FlowName::new(&file.flows, index);
        let Some(kind) = kinds.get(&trigger) else {
            return Err(LowerError::UndefinedTrigger { trigger, flow: name(dependent) });
        };
        let first = activations.partition_point(|(other, ..)| *other < trigger);
        let last = activations.partition_point(|(other, ..)| *other <= trigger);
        let activations = &activations[first..last];
        match (kind, activations) {
            (_, []) => return Err(LowerError::NeverActivated { trigger, flow: name(dependent) }),
            (TriggerKind::Barrier { count }, _) if activations.len() as u64 != u64::from(count.get()) => {
                let (count, activations) = (*count, activations.len());
                return Err(LowerError::BarrierCount { trigger, count, activations });
            }
            (TriggerKind::OneShot | TriggerKind::MultiShot, [(_, a, _), (_, b, _), ..]) => {
                let (first, second) = (name(*a), name(*b));
                return Err(LowerError::SeveralActivations { trigger, kind: *kind, first, second });
            }
            _ => {}
        }
        if waits.len() + activations.len() > MAX_DEPENDENCIES {
            return Err(LowerError::TooManyDependencies { trigger, limit: MAX_DEPENDENCIES });
        }
        for &(_, prerequisite, event) in activations {
            let event_host = match event {
                Event::Received => flows[prerequisite as usize].to,
                Event::Acknowledged => flows[prerequisite as usize].from,
            };
            if event_host != flows[dependent as usize].from {
                let (prerequisite, dependent) = (name(prerequisite), name(dependent));
                return Err(LowerError::RemoteTrigger { trigger, prerequisite, event, dependent });
            }
            waits.push(Wait { dependent, prerequisite, event });
        }
    }
    Ok(waits)
}

/// Returns an order in which each flow follows its prerequisites, or `None` if the order of the file is one. Otherwise,
/// flows stay as close to the order of the file as possible. Returns a flow of a cycle as the error.
fn order_flows(flows: usize, waits: &[Wait]) -> Result<Option<Vec<u32>>, u32> {
    if waits.iter().all(|wait| wait.prerequisite < wait.dependent) {
        return Ok(None);
    }
    let mut pending = vec![0_u32; flows];
    for wait in waits {
        pending[wait.dependent as usize] += 1;
    }
    let mut by_prerequisite = waits.to_vec();
    by_prerequisite.sort_unstable_by_key(|wait| (wait.prerequisite, wait.dependent));
    let mut ready: BinaryHeap<Reverse<u32>> =
        pending.iter().zip(0..).filter(|(count, _)| **count == 0).map(|(_, flow)| Reverse(flow)).collect();
    let mut order = Vec::with_capacity(flows);
    while let Some(Reverse(flow)) = ready.pop() {
        order.push(flow);
        let first = by_prerequisite.partition_point(|wait| wait.prerequisite < flow);
        for wait in by_prerequisite[first..].iter().take_while(|wait| wait.prerequisite == flow) {
            let count = &mut pending[wait.dependent as usize];
            *count -= 1;
            if *count == 0 {
                ready.push(Reverse(wait.dependent));
            }
        }
    }
    if order.len() == flows { Ok(Some(order)) } else { Err(find_cycle(&pending, waits)) }
}

/// Returns a flow that waits for itself. `pending` holds the number of unsatisfied prerequisites of each flow.
fn find_cycle(pending: &[u32], waits: &[Wait]) -> u32 {
    // Each pending flow has a pending prerequisite. Following them leads into a cycle.
    let mut prerequisites = vec![None; pending.len()];
    for wait in waits.iter().filter(|wait| pending[wait.prerequisite as usize] > 0) {
        prerequisites[wait.dependent as usize] = Some(wait.prerequisite);
    }
    let mut flow = pending.iter().zip(0..).find(|(count, _)| **count > 0).map_or(0, |(_, flow)| flow);
    // After as many steps as there are flows, the flow is inside the cycle.
    for _ in 0..pending.len() {
        flow = prerequisites[flow as usize].unwrap_or(flow);
    }
    flow
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::StartUnit;
    use crate::htsim_matrix::parse_cm;

    /// Parses connections and triggers, without a header, in a network of eight hosts.
    fn lower(body: &str) -> Result<TraceTraffic, LowerError> {
        let (flows, triggers): (Vec<&str>, Vec<&str>) = body.lines().partition(|line| line.contains("->"));
        let (flows, triggers) = (flows.len(), triggers.len());
        let text = format!("Nodes 8\nConnections {flows}\nTriggers {triggers}\n{body}\n");
        let file = parse_cm(text.as_bytes(), StartUnit::Nanoseconds, 1_000).expect("the file is valid");
        TraceTraffic::new(&file, &NodeMap::Identity(8), PrioritySource::File)
    }

    fn generate(body: &str) -> Traffic {
        let class = TrafficClass { priority: 1, ..TrafficClass::new(7, "trace") };
        lower(body).expect("the flows are valid").generate(&class).expect("the pattern is valid")
    }

    fn error(body: &str) -> String {
        lower(body).expect_err("the flows are refused").to_string()
    }

    /// Returns each dependency's prerequisite, event and dependent.
    fn dependencies(traffic: &Traffic) -> Vec<(u32, Event, u32)> {
        traffic.dependencies.iter().map(|d| (d.prerequisite.get(), d.event, d.dependent.get())).collect()
    }

    #[test]
    fn each_flow_has_its_own_connection() {
        let traffic = generate("0->1 start 5 size 10\n0->1 id 3 start 2 size 20 prio 4");
        assert_eq!((traffic.connections.len(), traffic.messages.len()), (2, 2));
        let [first, second] = [traffic.connections[0], traffic.connections[1]];
        assert_eq!((first.priority, second.priority), (1, 4));
        assert_ne!(first.entropy, second.entropy, "the flows take independent paths");
        assert_eq!(traffic.messages[1].start, Picos::new(2_000));
        assert_eq!(traffic.group("trace").map(|group| group.start), Some(Picos::new(2_000)));
    }

    #[test]
    fn messages_with_the_same_id_share_a_connection() {
        let traffic = generate(
            "0->1 id 1 msg start 0 size 10\n2->1 id 2 start 0 size 5\n0->1 id 1 msg start 0 size 20",
        );
        let connections: Vec<u32> = traffic.messages.iter().map(|message| message.connection.get()).collect();
        assert_eq!((traffic.connections.len(), connections), (2, vec![0, 1, 0]));
        assert_eq!(
            error("0->1 id 1 msg start 0 size 10\n0->2 id 1 msg start 0 size 10"),
            "flow 1 (0->1) and flow 2 (0->2) share connection 1, but their ends or priorities differ; change an id"
        );
        assert_eq!(
            error("0->1 id 1 start 0 size 10\n0->1 id 1 msg start 0 size 10"),
            "flow 1 (0->1) and flow 2 (0->1) have the id 1; add msg to share a connection, or change an id"
        );
    }

    #[test]
    fn triggers_become_dependencies() {
        // The acknowledgement happens at node 0, and the reception at node 1.
        let traffic = generate(
            "0->1 id 1 start 0 size 10 send_done_trigger 1 recv_done_trigger 2\n\
             0->2 id 2 trigger 1 size 10\n1->3 id 3 trigger 2 size 10\n1->2 id 4 trigger 2 size 10\n\
             trigger id 1 oneshot\ntrigger id 2 multishot",
        );
        assert_eq!(
            dependencies(&traffic),
            [(0, Event::Acknowledged, 1), (0, Event::Received, 2), (0, Event::Received, 3)]
        );
        assert_eq!(traffic.messages[1].start, Picos::ZERO);
    }

    #[test]
    fn barrier_waits_for_all_its_activations() {
        let flows = "0->1 id 1 start 0 size 10 send_done_trigger 1\n2->0 id 2 start 0 size 10 recv_done_trigger 1\n\
                     0->3 id 3 trigger 1 size 10\n";
        let traffic = generate(&format!("{flows}trigger id 1 barrier count 2"));
        assert_eq!(dependencies(&traffic), [(0, Event::Acknowledged, 2), (1, Event::Received, 2)]);
        for count in [1, 3] {
            assert_eq!(
                error(&format!("{flows}trigger id 1 barrier count {count}")),
                format!(
                    "trigger 1 is a barrier with the count {count}, but it has 2 activations; set the count to 2"
                )
            );
        }
        for kind in ["oneshot", "multishot"] {
            assert_eq!(
                error(&format!("{flows}trigger id 1 {kind}")),
                format!(
                    "flow 1 (0->1) and flow 2 (2->0) activate trigger 1, which is {kind}; use a trigger for each, \
                     or a barrier that waits for all"
                )
            );
        }
    }

    #[test]
    fn flow_can_be_listed_before_its_prerequisite() {
        let traffic = generate(
            "0->1 id 1 trigger 2 size 10\n0->2 id 2 trigger 1 size 20 send_done_trigger 2\n\
             0->3 id 3 start 0 size 30 send_done_trigger 1\ntrigger id 1 oneshot\ntrigger id 2 oneshot",
        );
        let sizes: Vec<_> = traffic.messages.iter().map(|message| message.amount.bytes()).collect();
        assert_eq!(sizes, [30, 20, 10].map(|size| Some(Bytes::new(size))));
        let mut dependencies = dependencies(&traffic);
        dependencies.sort_unstable();
        assert_eq!(dependencies, [(0, Event::Acknowledged, 1), (1, Event::Acknowledged, 2)]);
    }

    #[test]
    fn trigger_at_another_host_is_refused() {
        let remote = |done: &str, ends: &str| {
            error(&format!(
                "0->1 id 1 start 0 size 10 {done} 7\n{ends} id 2 trigger 7 size 10\ntrigger id 7 oneshot"
            ))
        };
        assert_eq!(
            remote("send_done_trigger", "1->2"),
            "trigger 7 fires when flow 1 (0->1) is acknowledged at its sender, but flow 2 (1->2) starts at another \
             host; use recv_done_trigger 7 instead of send_done_trigger"
        );
        assert_eq!(
            remote("recv_done_trigger", "0->2"),
            "trigger 7 fires when flow 1 (0->1) is received at its receiver, but flow 2 (0->2) starts at another \
             host; use send_done_trigger 7 instead of recv_done_trigger"
        );
        assert_eq!(
            remote("send_done_trigger", "3->2"),
            "trigger 7 fires when flow 1 (0->1) is acknowledged at its sender, but flow 2 (3->2) starts at another \
             host; start it at a time, or by a flow that begins or ends at node 3"
        );
    }

    #[test]
    fn cycle_is_refused() {
        let body = "0->4 id 4 trigger 2 size 1\n0->1 id 1 trigger 1 size 10 send_done_trigger 2\n\
                    0->2 id 2 trigger 2 size 10 send_done_trigger 1\ntrigger id 1 oneshot\ntrigger id 2 oneshot";
        assert_eq!(
            lower(body).map_err(|error| matches!(error, LowerError::Cycle { flow, .. } if flow.index > 0)),
            Err(true),
            "flow 1 waits for the cycle but is not part of it"
        );
        assert_eq!(
            error("0->1 id 1 trigger 1 size 10 send_done_trigger 1\ntrigger id 1 oneshot"),
            "flow 1 (0->1) waits for trigger 1, which needs flow 1 (0->1) to finish; give a flow of the cycle a \
             start time"
        );
    }

    #[test]
    fn trigger_without_activation_is_refused() {
        assert_eq!(
            error("0->1 id 1 trigger 1 size 10\ntrigger id 1 oneshot"),
            "flow 1 (0->1) waits for trigger 1, which no flow activates; add send_done_trigger 1 or \
             recv_done_trigger 1 to a flow"
        );
    }

    #[test]
    fn highest_priority_is_that_of_the_last_queue() {
        let flow = |priority| TraceFlow {
            priority: Some(priority),
            ..TraceFlow::new(0, 1, Bytes::new(1), FlowStart::At(Picos::ZERO))
        };
        let lower = |priority| {
            let file = FlowFile { flows: vec![flow(0), flow(priority)], ..FlowFile::default() };
            TraceTraffic::new(&file, &NodeMap::Identity(2), PrioritySource::File)
        };
        assert!(lower(7).is_ok());
        assert_eq!(lower(8).map_err(|error| error.flow()), Err(Some(1)));
    }

    #[test]
    fn nodes_and_priorities_are_mapped() {
        let flow = TraceFlow {
            priority: Some(2_000_000),
            ..TraceFlow::new(3, 1, Bytes::new(1), FlowStart::At(Picos::ZERO))
        };
        let file = FlowFile { flows: vec![flow], ..FlowFile::default() };
        let table = NodeMap::Table(vec![None, Some(HostId::new(0)), None, Some(HostId::new(1))]);
        let lower = |nodes: &NodeMap, priorities| TraceTraffic::new(&file, nodes, priorities);
        let traffic = lower(&table, PrioritySource::Class).expect("the flow is valid");
        let traffic = traffic.generate(&TrafficClass::new(7, "trace")).expect("the pattern is valid");
        assert_eq!(
            (traffic.connections[0].from, traffic.connections[0].to),
            (HostId::new(1), HostId::new(0))
        );
        let error =
            |nodes, priorities| lower(nodes, priorities).expect_err("the flow is refused").to_string();
        assert_eq!(
            error(&table, PrioritySource::File),
            "flow 1 (3->1): priority 2000000 is too high; use 0 to 7, or remove the priorities from the file"
        );
        assert_eq!(
            error(&NodeMap::Identity(3), PrioritySource::Class),
            "flow 1 (3->1): there is no host h3: the network has 3 hosts, from h0 to h2; correct the flow, or choose a \
             larger network"
        );
        let without_node_3 = NodeMap::Table(vec![None, Some(HostId::new(0))]);
        assert_eq!(
            error(&without_node_3, PrioritySource::Class),
            "flow 1 (3->1): node 3 is not a host in the topology file; correct the flow, or add the host to the \
             topology file"
        );
        let same = NodeMap::Table(vec![Some(HostId::new(0)); 4]);
        assert_eq!(
            error(&same, PrioritySource::Class),
            "flow 1 (3->1): both nodes are host h0; map the nodes to different hosts"
        );
    }
}
