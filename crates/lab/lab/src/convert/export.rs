//! Writes the flows of a run for another simulator. Dependencies between messages become triggers.

use crate::resolve::ResolvedRun;
use core::num::NonZeroU32;
use poseidon_plan::Plan;
use poseidon_plan::patterns::collectives::MAX_EXPANDED_MESSAGES;
use poseidon_plan::traffic::{Amount, Event};
use poseidon_traces::{FlowFile, FlowStart, StartUnit, TraceFlow, Trigger, TriggerKind, WriteError};
use poseidon_types::{HostId, MessageId};
use std::collections::BTreeMap;
use std::io::Write;

/// A format of flow lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// CSV with a header; start times in picoseconds.
    Csv,
    /// The flow files of HPCC's ns-3 simulator.
    Hpcc,
    /// A connection matrix of htsim, with this unit of start times.
    Htsim(StartUnit),
}

/// The reason that the flows of a run cannot be exported.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the error message documents each variant and its fields")]
pub enum ExportError {
    #[error(
        "message {message} has no fixed size; flow lists contain only flows with a size: remove long flows"
    )]
    LongFlow { message: u32 },
    #[error(
        "message {message} waits and then starts with a delay, which a trigger cannot express; remove the delay"
    )]
    DelayedDependent { message: u32 },
    #[error(
        "messages wait for different sets of messages that all contain message {message}, but a flow activates only one \
         trigger per event; export a pattern with simpler dependencies"
    )]
    SeveralTriggers { message: u32 },
    #[error(
        "messages wait for joins, which no file format expresses; export a collective without repetitions, or one with \
         fewer prerequisites per message"
    )]
    Joins,
    #[error(
        "a ring with more than {limit} messages has no list of messages; export fewer ranks, channels or repetitions"
    )]
    Ring { limit: u64 },
    #[error("the run has dependencies between messages, which only htsim files express; use --format htsim")]
    Dependencies,
    #[error("{0}")]
    Write(WriteError),
}

/// Returns the flows of a run. Messages of one connection share an id.
pub fn flow_file(resolved: &ResolvedRun) -> Result<FlowFile, ExportError> {
    let plan = &resolved.plan;
    if !plan.joins.is_empty() {
        return Err(ExportError::Joins);
    }
    if !plan.rings.is_empty() {
        return Err(ExportError::Ring { limit: MAX_EXPANDED_MESSAGES });
    }
    let triggers = Triggers::new(plan)?;
    let node = |host: HostId| {
        let numbers = resolved.node_numbers.as_ref();
        numbers.and_then(|numbers| numbers.get(host.index()).copied()).unwrap_or_else(|| host.get())
    };
    let mut messages_on = vec![0u32; plan.connections.len()];
    plan.messages.iter().for_each(|message| messages_on[message.connection.index()] += 1);
    let mut numbers = vec![0u32; plan.connections.len()];
    let mut flows = Vec::with_capacity(plan.messages.len());
    for (index, message) in plan.messages.iter().enumerate() {
        let id = MessageId::from_index(index);
        let Amount::Exactly(size) = message.amount else {
            return Err(ExportError::LongFlow { message: id.get() });
        };
        let connection = message.connection.index();
        let ends = plan.connections[connection];
        let start = match triggers.starting(id) {
            Some(_) if !message.start.is_zero() => {
                return Err(ExportError::DelayedDependent { message: id.get() });
            }
            Some(trigger) => FlowStart::OnTrigger(trigger),
            None => FlowStart::At(message.start),
        };
        let mut flow = TraceFlow::new(node(ends.from), node(ends.to), size, start);
        flow.priority = Some(ends.priority.into());
        flow.send_done = triggers.activated_by(id, Event::Acknowledged);
        flow.receive_done = triggers.activated_by(id, Event::Received);
        if messages_on[connection] > 1 {
            numbers[connection] += 1;
            flow.message = Some(numbers[connection]);
        }
        if flow.message.is_some() || triggers.starting(id).is_some() {
            // Flows without `msg` have ids of their own, above those of connections.
            let number = if flow.message.is_some() { connection } else { plan.connections.len() + index };
            flow.id = u32::try_from(number + 1).ok().and_then(NonZeroU32::new);
        }
        flows.push(flow);
    }
    Ok(FlowFile { flows, triggers: triggers.list, failures: Vec::new(), nodes: Some(nodes(resolved)) })
}

/// The priority class of exported flows.
const HPCC_CLASS: u32 = 3;

/// Returns the number of nodes of the network.
fn nodes(resolved: &ResolvedRun) -> u32 {
    let hosts = resolved.plan.topology.hosts();
    let largest = resolved.node_numbers.as_ref().and_then(|numbers| numbers.iter().max());
    largest.map_or(hosts, |largest| largest.saturating_add(1))
}

/// Writes flows in a format.
pub fn write_flow_file(
    file: &FlowFile,
    format: ExportFormat,
    output: &mut impl Write,
) -> Result<(), ExportError> {
    if !matches!(format, ExportFormat::Htsim(_)) && !file.triggers.is_empty() {
        return Err(ExportError::Dependencies);
    }
    let mut labelled = file.clone();
    if !matches!(format, ExportFormat::Htsim(_)) {
        labelled.remove_labels();
    }
    for flow in &mut labelled.flows {
        flow.priority = match format {
            ExportFormat::Csv => flow.priority,
            // Class 3 is the one that HPCC's generator uses.
            ExportFormat::Hpcc => Some(HPCC_CLASS),
            ExportFormat::Htsim(_) => None,
        };
    }
    match format {
        ExportFormat::Csv => poseidon_traces::write_csv(&labelled, output),
        ExportFormat::Hpcc => poseidon_traces::write_hpcc(&labelled, output),
        ExportFormat::Htsim(unit) => poseidon_traces::write_cm(&labelled, unit, output),
    }
    .map_err(ExportError::Write)
}

/// The triggers of a plan: one for each set of messages that others wait for.
struct Triggers {
    list: Vec<Trigger>,
    starting: BTreeMap<MessageId, NonZeroU32>,
    activated: BTreeMap<(MessageId, Event), NonZeroU32>,
}

impl Triggers {
    fn new(plan: &Plan) -> Result<Self, ExportError> {
        let mut waits: BTreeMap<MessageId, Vec<(MessageId, Event)>> = BTreeMap::new();
        for dependency in &plan.dependencies {
            waits.entry(dependency.dependent).or_default().push((dependency.prerequisite, dependency.event));
        }
        let mut triggers = Self { list: Vec::new(), starting: BTreeMap::new(), activated: BTreeMap::new() };
        let mut by_set: BTreeMap<Vec<(MessageId, Event)>, NonZeroU32> = BTreeMap::new();
        for (dependent, mut set) in waits {
            set.sort_unstable();
            let trigger = match by_set.get(&set) {
                Some(trigger) => *trigger,
                None => {
                    let trigger = triggers.add(&set)?;
                    by_set.insert(set, trigger);
                    trigger
                }
            };
            triggers.starting.insert(dependent, trigger);
        }
        Ok(triggers)
    }

    /// Adds the trigger that fires after all events of a set.
    fn add(&mut self, set: &[(MessageId, Event)]) -> Result<NonZeroU32, ExportError> {
        let number = u32::try_from(self.list.len() + 1).unwrap_or(u32::MAX);
        let id = NonZeroU32::new(number).expect("numbers start at one");
        let count = u32::try_from(set.len()).ok().and_then(NonZeroU32::new).expect("a set is not empty");
        let kind = if set.len() == 1 { TriggerKind::OneShot } else { TriggerKind::Barrier { count } };
        self.list.push(Trigger { id, kind });
        for event in set {
            if self.activated.insert(*event, id).is_some() {
                return Err(ExportError::SeveralTriggers { message: event.0.get() });
            }
        }
        Ok(id)
    }

    /// Returns the trigger that starts a message.
    fn starting(&self, message: MessageId) -> Option<NonZeroU32> {
        self.starting.get(&message).copied()
    }

    /// Returns the trigger that an event of a message activates.
    fn activated_by(&self, message: MessageId, event: Event) -> Option<NonZeroU32> {
        self.activated.get(&(message, event)).copied()
    }
}
