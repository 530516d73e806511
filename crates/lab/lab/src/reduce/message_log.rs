//! The times of messages, collected during a run.

use super::ring_log::{RingLog, SampledMessage};
use super::{ideal_latency_us, to_us};
use crate::resolve::{ResolvedRun, TrafficGroup};
use crate::samples::Quantity;
use poseidon_plan::patterns::RepetitionTimes;
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::rings::RingTable;
use poseidon_plan::traffic::{Event, Message};
use poseidon_types::{Bytes, MessageId, Picos};

/// The start, arrival and acknowledgment times of each message in a plan.
#[derive(Debug)]
pub(super) struct MessageLog<'a> {
    resolved: &'a ResolvedRun,
    /// The start time of each message; [`NEVER`] if it has not started.
    starts: Vec<Picos>,
    arrivals: Vec<Picos>,
    acknowledged: Vec<Picos>,
    /// The number of events and joins that each message is still waiting for.
    pending_events: Vec<u32>,
    /// The number of events that each join is still waiting for.
    pending_joins: Vec<u32>,
    /// The completion time of the latest join that each message waits for. Empty if the plan has no joins.
    joined: Vec<Picos>,
    /// For each message, whether its traffic group has message metrics.
    is_measured: Vec<bool>,
    /// The number of counted messages that have not finished.
    unfinished: usize,
    /// The messages of rings, which have higher numbers.
    rings: Vec<RingLog>,
}

const NEVER: Picos = Picos::MAX;

impl<'a> MessageLog<'a> {
    pub(super) fn new(resolved: &'a ResolvedRun) -> Self {
        let plan = &resolved.plan;
        let count = plan.messages.len();
        let mut pending_events = vec![0; count];
        plan.dependencies.iter().for_each(|dependency| pending_events[dependency.dependent.index()] += 1);
        plan.joins.dependents.iter().for_each(|dependent| pending_events[dependent.message.index()] += 1);
        let mut pending_joins = vec![0; plan.joins.len()];
        plan.joins.prerequisites.iter().for_each(|event| pending_joins[event.join.index()] += 1);
        let joined = vec![Picos::ZERO; if plan.joins.is_empty() { 0 } else { count }];
        let mut is_measured = vec![false; count];
        for group in resolved.groups.iter().filter(|group| !group.is_long) {
            group.messages.messages.iter().for_each(|message| is_measured[message.index()] = true);
        }
        let starts = plan.messages.iter().zip(&pending_events);
        let starts =
            starts.map(|(message, pending)| if *pending == 0 { message.start } else { NEVER }).collect();
        let never = || vec![NEVER; count];
        let mut log = Self {
            resolved,
            starts,
            arrivals: never(),
            acknowledged: never(),
            pending_events,
            pending_joins,
            joined,
            is_measured,
            unfinished: 0,
            rings: RingTable::new(&plan.rings, plan.transport.mtu)
                .layouts()
                .iter()
                .map(|layout| RingLog::new(resolved, layout))
                .collect(),
        };
        log.unfinished = (0..count).filter(|message| log.is_counted(*message)).count();
        log
    }

    /// Returns whether a message counts. It counts if its traffic is measured and it starts in the measured part of the
    /// run.
    fn is_counted(&self, message: usize) -> bool {
        let start = self.starts[message];
        self.is_measured[message]
            && start >= self.resolved.messages_from
            && start < self.resolved.measured_until
    }

    /// Returns the time at which a message started, or `None` if it has not started.
    pub(super) fn start(&self, message: MessageId) -> Option<Picos> {
        Some(self.starts[message.index()]).filter(|time| *time != NEVER)
    }

    /// Returns the time at which a message was fully received, or `None` if it has not arrived.
    pub(super) fn arrival(&self, message: MessageId) -> Option<Picos> {
        Some(self.arrivals[message.index()]).filter(|time| *time != NEVER)
    }

    /// Returns whether every counted message has finished.
    pub(super) fn has_drained(&self) -> bool {
        self.unfinished == 0 && self.rings.iter().all(RingLog::has_drained)
    }

    /// Returns the log of the ring to which a message belongs.
    fn ring_of(&mut self, message: MessageId) -> Option<&mut RingLog> {
        if message.index() < self.starts.len() {
            return None;
        }
        let after = self.rings.partition_point(|ring| ring.first_message() <= message);
        self.rings.get_mut(after.checked_sub(1)?)
    }

    /// Returns the log of a group's ring, or `None` if the plan lists the group's messages.
    pub(super) fn ring(&self, group: &TrafficGroup) -> Option<&RingLog> {
        self.rings.get(group.collective.as_ref()?.ring?)
    }

    /// Returns the times of a ring's repetitions.
    pub(super) fn ring_times(&self, ring: usize) -> Option<Vec<RepetitionTimes>> {
        self.rings.get(ring).map(RingLog::repetition_times)
    }

    pub(super) fn on_acknowledged(&mut self, row: &MessageRow) {
        if let Some(ring) = self.ring_of(row.message) {
            ring.on_acknowledged(row);
            return;
        }
        let message = row.message.index();
        if self.acknowledged[message] == NEVER {
            let is_counted = self.is_counted(message);
            self.starts[message] = row.start;
            self.acknowledged[message] = row.acknowledged;
            self.unfinished -= usize::from(is_counted);
        }
        self.start_dependents(row.message, Event::Acknowledged, row.acknowledged);
    }

    pub(super) fn on_received(&mut self, row: &ReceivedRow) {
        if let Some(ring) = self.ring_of(row.message) {
            ring.on_received(row);
            return;
        }
        self.arrivals[row.message.index()] = row.time;
        self.start_dependents(row.message, Event::Received, row.time);
    }

    /// Starts the messages that were waiting only for this event.
    fn start_dependents(&mut self, message: MessageId, event: Event, time: Picos) {
        let plan = &self.resolved.plan;
        for dependent in plan.dependents_of(message, event) {
            self.meet_dependency(dependent.index(), time);
        }
        for join in plan.joins.waiting_for(message, event) {
            let pending = &mut self.pending_joins[join.index()];
            *pending = pending.saturating_sub(1);
            if *pending == 0 {
                let complete = time + plan.joins.delays[join.index()];
                for dependent in plan.joins.dependents_of(join).map(MessageId::index) {
                    // The delay of the join can end after events that are recorded later.
                    self.joined[dependent] = self.joined[dependent].max(complete);
                    self.meet_dependency(dependent, time);
                }
            }
        }
    }

    /// Counts a dependency or a join of a message as met. Starts the message if it was the last one.
    fn meet_dependency(&mut self, dependent: usize, time: Picos) {
        self.pending_events[dependent] = self.pending_events[dependent].saturating_sub(1);
        if self.pending_events[dependent] == 0 && self.starts[dependent] == NEVER {
            let ready = self.joined.get(dependent).map_or(time, |joined| time.max(*joined));
            self.starts[dependent] = ready + self.resolved.plan.messages[dependent].start;
            self.unfinished += usize::from(self.is_counted(dependent));
        }
    }

    /// Returns the latencies of all messages in a group that started before the run ended. For a ring with many
    /// messages, returns those of a sample.
    pub(super) fn latencies(&self, group: &TrafficGroup, run_end: Picos) -> Vec<MessageLatency> {
        if let Some(ring) = self.ring(group) {
            return ring.sampled_messages().filter_map(|message| self.latency(message, run_end)).collect();
        }
        let known = |time: Picos| Some(time).filter(|time| *time != NEVER);
        let times = |message: &MessageId| {
            let Message { connection, amount, .. } = self.resolved.plan.messages[message.index()];
            let times = SampledMessage {
                connection,
                size: amount.bytes()?,
                start: self.starts[message.index()],
                arrival: known(self.arrivals[message.index()]),
                acknowledged: known(self.acknowledged[message.index()]),
            };
            self.latency(times, run_end)
        };
        group.messages.messages.iter().filter_map(times).collect()
    }

    /// Returns the latency of a message that started before the run ended.
    fn latency(&self, times: SampledMessage, run_end: Picos) -> Option<MessageLatency> {
        let SampledMessage { connection, size, start, arrival, acknowledged } = times;
        let available = run_end.checked_sub(start)?;
        let plan = &self.resolved.plan;
        let connection = plan.connections[connection.index()];
        let since_start = |time: Option<Picos>| time?.checked_sub(start).map(to_us);
        Some(MessageLatency {
            start_us: to_us(start),
            available_us: to_us(available),
            latency_us: since_start(acknowledged),
            arrival_us: since_start(arrival),
            ideal_us: ideal_latency_us(plan, connection.from, connection.to, size.get()),
            size,
        })
    }
}

/// The latency of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLatency {
    pub(super) start_us: f64,
    /// The time from the start of the message to the end of the run.
    pub(super) available_us: f64,
    /// The time until the sender has received all ACKs; `None` if the message did not finish.
    pub(super) latency_us: Option<f64>,
    /// The time until the receiver has all bytes; `None` if the message did not arrive.
    arrival_us: Option<f64>,
    /// The latency in an empty network.
    ideal_us: f64,
    pub(super) size: Bytes,
}

impl MessageLatency {
    /// Returns the value of a quantity. For an unfinished message, returns a lower bound as the error.
    pub(super) fn quantity(&self, quantity: Quantity) -> Result<f64, f64> {
        match quantity {
            Quantity::Latency => self.latency_us.ok_or(self.available_us),
            Quantity::Slowdown => self
                .latency_us
                .map(|latency| latency / self.ideal_us)
                .ok_or(self.available_us / self.ideal_us),
            Quantity::Arrival => self.arrival_us.ok_or(self.available_us),
        }
    }

    pub(super) fn finish_us(&self) -> Option<f64> {
        self.latency_us.map(|latency| self.start_us + latency)
    }
}
