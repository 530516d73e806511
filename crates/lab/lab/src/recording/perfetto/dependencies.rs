//! Which message released a message, for arrows between slices.

use poseidon_plan::Plan;
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::traffic::Event;
use poseidon_types::{JoinId, MessageId, Picos};

/// With more messages, a trace has no arrows.
const MAX_MESSAGES: usize = 1_000_000;

/// The largest number of arrows that begin at one slice.
const MAX_OUTGOING: usize = 16;

/// The dependencies of a plan's messages, and the times of the events that they wait for.
#[derive(Debug)]
pub(super) struct Dependencies<'a> {
    plan: &'a Plan,
    /// The dependencies, sorted by the message that waits.
    by_dependent: Vec<(MessageId, MessageId, Event)>,
    /// The joins that messages wait for, sorted by message.
    joins_of: Vec<(MessageId, JoinId)>,
    /// The events that joins wait for, sorted by join.
    events_of: Vec<(JoinId, MessageId, Event)>,
    /// For each join, the message of its last event, once it is known.
    last_of_join: Vec<Option<(Picos, MessageId)>>,
    /// For each message, its distance from a message without prerequisites.
    steps: Vec<u32>,
    received: Vec<Picos>,
    acknowledged: Vec<Picos>,
}

impl<'a> Dependencies<'a> {
    /// Returns `None` if no message waits for another, or if there are too many messages.
    pub(super) fn new(plan: &'a Plan) -> Option<Self> {
        let messages = plan.messages.len();
        if (plan.dependencies.is_empty() && plan.joins.is_empty()) || messages > MAX_MESSAGES {
            return None;
        }
        let dependencies = plan.dependencies.iter();
        let mut by_dependent: Vec<_> =
            dependencies.map(|item| (item.dependent, item.prerequisite, item.event)).collect();
        by_dependent.sort_unstable();
        let mut joins_of: Vec<_> =
            plan.joins.dependents.iter().map(|item| (item.message, item.join)).collect();
        joins_of.sort_unstable();
        let prerequisites = plan.joins.prerequisites.iter();
        let mut events_of: Vec<_> = prerequisites.map(|item| (item.join, item.message, item.event)).collect();
        events_of.sort_unstable();
        let mut dependencies = Self {
            plan,
            by_dependent,
            joins_of,
            events_of,
            last_of_join: vec![None; plan.joins.len()],
            steps: Vec::new(),
            received: vec![Picos::MAX; messages],
            acknowledged: vec![Picos::MAX; messages],
        };
        dependencies.steps = dependencies.compute_steps();
        Some(dependencies)
    }

    /// Returns each message's step. A message only waits for messages that come earlier in the plan.
    fn compute_steps(&self) -> Vec<u32> {
        let mut steps: Vec<u32> = Vec::with_capacity(self.plan.messages.len());
        let mut join_steps: Vec<Option<u32>> = vec![None; self.plan.joins.len()];
        for message in (0..self.plan.messages.len()).map(MessageId::from_index) {
            let step_after = |earlier: &MessageId| steps.get(earlier.index()).map_or(0, |step| step + 1);
            let direct = self.prerequisites_of(message).map(|(_, earlier, _)| step_after(earlier)).max();
            let mut step = direct.unwrap_or(0);
            for (_, join) in self.joins_of(message) {
                let computed = join_steps[join.index()].unwrap_or_else(|| {
                    self.events_of(*join).map(|(_, earlier, _)| step_after(earlier)).max().unwrap_or(0)
                });
                join_steps[join.index()] = Some(computed);
                step = step.max(computed);
            }
            steps.push(step);
        }
        steps
    }

    fn prerequisites_of(
        &self,
        message: MessageId,
    ) -> impl Iterator<Item = &(MessageId, MessageId, Event)> + '_ {
        let first = self.by_dependent.partition_point(|item| item.0 < message);
        self.by_dependent[first..].iter().take_while(move |item| item.0 == message)
    }

    fn joins_of(&self, message: MessageId) -> impl Iterator<Item = &(MessageId, JoinId)> + '_ {
        let first = self.joins_of.partition_point(|item| item.0 < message);
        self.joins_of[first..].iter().take_while(move |item| item.0 == message)
    }

    fn events_of(&self, join: JoinId) -> impl Iterator<Item = &(JoinId, MessageId, Event)> + '_ {
        let first = self.events_of.partition_point(|item| item.0 < join);
        self.events_of[first..].iter().take_while(move |item| item.0 == join)
    }

    pub(super) fn on_received(&mut self, row: &ReceivedRow) {
        if let Some(received) = self.received.get_mut(row.message.index()) {
            *received = row.time;
        }
    }

    pub(super) fn on_acknowledged(&mut self, row: &MessageRow) {
        if let Some(acknowledged) = self.acknowledged.get_mut(row.message.index()) {
            *acknowledged = row.acknowledged;
        }
    }

    fn time_of(&self, message: MessageId, event: Event) -> Picos {
        match event {
            Event::Received => self.received[message.index()],
            Event::Acknowledged => self.acknowledged[message.index()],
        }
    }

    /// Returns the step of a message in its chain of dependencies, counted from one.
    pub(super) fn step(&self, message: MessageId) -> u32 {
        self.steps[message.index()] + 1
    }

    /// Returns the message whose event released `message`, which must have started.
    fn releasing_message(&mut self, message: MessageId) -> Option<MessageId> {
        let direct = self.prerequisites_of(message).map(|(_, earlier, event)| {
            let time = self.time_of(*earlier, *event);
            (time, *earlier)
        });
        let mut last = direct.max();
        let joins: Vec<JoinId> = self.joins_of(message).map(|(_, join)| *join).collect();
        for join in joins {
            if self.last_of_join[join.index()].is_none() {
                let events = self.events_of(join);
                self.last_of_join[join.index()] =
                    events.map(|(_, earlier, event)| (self.time_of(*earlier, *event), *earlier)).max();
            }
            let delay = self.plan.joins.delays[join.index()];
            last = last.max(self.last_of_join[join.index()].map(|(time, earlier)| (time + delay, earlier)));
        }
        last.filter(|(time, _)| *time < Picos::MAX).map(|(_, message)| message)
    }

    /// Returns the arrows from a message to the messages that wait for it.
    pub(super) fn outgoing(&self, message: MessageId) -> Vec<u64> {
        let plan = self.plan;
        let events = [Event::Received, Event::Acknowledged].into_iter();
        let dependents = events.flat_map(|event| {
            let joins = plan.joins.waiting_for(message, event);
            plan.dependents_of(message, event).chain(joins.flat_map(|join| plan.joins.dependents_of(join)))
        });
        dependents.take(MAX_OUTGOING).map(|dependent| arrow(message, dependent)).collect()
    }

    /// Returns the arrow to a message from the message that released it.
    pub(super) fn incoming(&mut self, message: MessageId) -> Option<u64> {
        self.releasing_message(message).map(|earlier| arrow(earlier, message))
    }
}

/// Returns the number of the arrow between two messages.
fn arrow(from: MessageId, to: MessageId) -> u64 {
    u64::from(from.get()) << 32 | u64::from(to.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_testkit::plans::feature_plans;
    use poseidon_types::Bytes;

    fn plan(name: &str) -> Plan {
        let plans = feature_plans();
        plans.into_iter().find(|(found, _)| *found == name).expect("the plan exists").1
    }

    #[test]
    fn arrows_come_from_the_last_prerequisite() {
        for name in ["dependencies", "joins"] {
            let plan = plan(name);
            let mut dependencies = Dependencies::new(&plan).expect("messages depend on messages");
            let messages = (0..plan.messages.len()).map(MessageId::from_index);
            for message in messages.clone() {
                // Later messages arrive later.
                let time = Picos::new(u64::from(message.get()) + 1);
                dependencies.on_received(&ReceivedRow { message, time });
                dependencies.on_acknowledged(&MessageRow {
                    message,
                    start: Picos::ZERO,
                    acknowledged: time,
                    size: Bytes::new(1),
                    retransmitted: 0,
                });
            }
            let mut released = 0;
            for message in messages {
                let Some(incoming) = dependencies.incoming(message) else {
                    assert_eq!(dependencies.step(message), 1, "{name}: {message} waits for nothing");
                    continue;
                };
                released += 1;
                let from = MessageId::new(u32::try_from(incoming >> 32).expect("32 bits"));
                assert!(from < message && dependencies.step(from) < dependencies.step(message));
                let direct = plan.dependencies.iter().filter(|item| item.dependent == message);
                assert!(direct.clone().all(|item| item.prerequisite <= from), "{name}: {message}");
                let outgoing = dependencies.outgoing(from);
                assert!(outgoing.contains(&incoming) || outgoing.len() == MAX_OUTGOING);
            }
            assert!(released > 10, "{name}");
        }
    }
}
