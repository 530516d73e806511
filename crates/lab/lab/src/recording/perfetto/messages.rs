//! Slices of messages, with arrows between the steps of a collective.

use super::dependencies::Dependencies;
use crate::recording::RecordedWindow;
use crate::resolve::{ResolvedRun, TrafficGroup};
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_types::{HostId, MessageId, Picos};
use std::collections::BTreeMap;

/// The largest number of messages that a trace shows at the same time, per host and traffic pattern.
const MAX_LANES: usize = 32;

/// The slice of a message, without its track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageSlice {
    pub(super) message: MessageId,
    pub(super) host: HostId,
    /// The index of the traffic group.
    pub(super) group: usize,
    /// Slices of one lane do not overlap.
    pub(super) lane: usize,
    pub(super) start: Picos,
    pub(super) end: Picos,
    pub(super) name: String,
    pub(super) outgoing: Vec<u64>,
    pub(super) incoming: Option<u64>,
}

/// The messages of a run.
#[derive(Debug)]
pub(super) struct Messages<'a> {
    resolved: &'a ResolvedRun,
    window: RecordedWindow,
    dependencies: Option<Dependencies<'a>>,
    /// For each traffic group, the steps of its messages, if it is a collective.
    collectives: Vec<Option<CollectiveSteps>>,
    is_finished: Vec<bool>,
    /// For each host and traffic group, the time at which each lane becomes free.
    lanes: BTreeMap<(HostId, usize), Vec<Picos>>,
}

impl<'a> Messages<'a> {
    pub(super) fn new(resolved: &'a ResolvedRun, window: RecordedWindow) -> Self {
        let dependencies = Dependencies::new(&resolved.plan);
        let steps = |group| dependencies.as_ref().and_then(|found| CollectiveSteps::new(group, found));
        Self {
            resolved,
            window,
            collectives: resolved.groups.iter().map(steps).collect(),
            dependencies,
            is_finished: vec![false; resolved.plan.messages.len()],
            lanes: BTreeMap::new(),
        }
    }

    pub(super) fn on_received(&mut self, row: &ReceivedRow) {
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.on_received(row);
        }
    }

    /// Returns the slice of a finished message, unless it is outside the window. The error is that too many messages
    /// overlap.
    pub(super) fn on_acknowledged(&mut self, row: &MessageRow) -> Result<Option<MessageSlice>, TooManyLanes> {
        // The messages of rings are not in the plan's list, and a trace does not show those that do not finish.
        if let Some(is_finished) = self.is_finished.get_mut(row.message.index()) {
            *is_finished = true;
        }
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.on_acknowledged(row);
        }
        if row.acknowledged < self.window.from || row.start >= self.window.to {
            return Ok(None);
        }
        self.slice(row.message, row.start, row.acknowledged).map(Some)
    }

    /// Returns the messages that started in the window but did not finish, with the end of the recording as their end.
    /// The start of a message that waited for others is not known.
    pub(super) fn unfinished(&self, end: Picos) -> Vec<(MessageId, Picos)> {
        let plan = &self.resolved.plan;
        let waits = plan.dependent_mask();
        let messages = (0..).map(MessageId::new).zip(&plan.messages);
        messages
            .filter(|(id, message)| {
                !self.is_finished[id.index()] && !waits[id.index()] && message.start < end.min(self.window.to)
            })
            .map(|(id, message)| (id, message.start))
            .collect()
    }

    /// Returns the slice of a message.
    pub(super) fn slice(
        &mut self,
        message: MessageId,
        start: Picos,
        end: Picos,
    ) -> Result<MessageSlice, TooManyLanes> {
        let connection_id = self.resolved.plan.connection_of(message).unwrap_or_default();
        let connection = self.resolved.plan.connections[connection_id.index()];
        let groups = &self.resolved.groups;
        let group = groups.iter().position(|group| group.connections.contains(&connection_id.get()));
        let group = group.unwrap_or(0);
        let lane = self.take_lane(connection.from, group, start, end)?;
        let collective = self.collectives.get(group).and_then(Option::as_ref);
        let name = match collective.and_then(|steps| steps.describe(message, groups.get(group)?)) {
            Some(step) => format!("{step} to host{}", connection.to.get()),
            None => format!("message {} to host{}", message.get(), connection.to.get()),
        };
        let dependencies = self.dependencies.as_mut();
        let (outgoing, incoming) = dependencies.map_or((Vec::new(), None), |dependencies| {
            (dependencies.outgoing(message), dependencies.incoming(message))
        });
        Ok(MessageSlice { message, host: connection.from, group, lane, start, end, name, outgoing, incoming })
    }

    fn take_lane(
        &mut self,
        host: HostId,
        group: usize,
        start: Picos,
        end: Picos,
    ) -> Result<usize, TooManyLanes> {
        let lanes = self.lanes.entry((host, group)).or_default();
        if let Some(lane) = lanes.iter().position(|free_at| *free_at <= start) {
            lanes[lane] = end;
            return Ok(lane);
        }
        if lanes.len() == MAX_LANES {
            return Err(TooManyLanes);
        }
        lanes.push(end);
        Ok(lanes.len() - 1)
    }
}

/// The steps of a collective's messages.
#[derive(Debug)]
struct CollectiveSteps {
    /// For each message of the group, its repetition and its step.
    steps: Vec<(u32, u32)>,
    /// For each repetition, the smallest step of its messages. Steps are counted over all repetitions.
    first_steps: Vec<u32>,
}

impl CollectiveSteps {
    fn new(group: &TrafficGroup, dependencies: &Dependencies<'_>) -> Option<Self> {
        let runs = group.collective.as_ref()?;
        let messages = group.messages.messages.iter();
        let steps: Vec<(u32, u32)> = messages
            .zip(runs.receivers())
            .map(|(message, (repetition, _))| (repetition, dependencies.step(*message)))
            .collect();
        let mut first_steps = vec![u32::MAX; runs.repetitions as usize];
        for (repetition, step) in &steps {
            let first = &mut first_steps[*repetition as usize];
            *first = step.min(first).to_owned();
        }
        Some(Self { steps, first_steps })
    }

    /// Returns a message's repetition and step as text.
    fn describe(&self, message: MessageId, group: &TrafficGroup) -> Option<String> {
        let position = group.messages.messages.binary_search(&message).ok()?;
        let (repetition, step) = *self.steps.get(position)?;
        let step = step - self.first_steps.get(repetition as usize)? + 1;
        Some(match self.first_steps.len() {
            1 => format!("step {step}"),
            _ => format!("run {}, step {step}", repetition + 1),
        })
    }
}

/// More messages of a host overlap than a trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyLanes;
