//! Metrics for message latencies, slowdowns and finish times. An unfinished message has an infinite latency.

use super::{Reducer, cumulative_shares, ideal_latency_us, to_us};
use crate::bound::Bounds;
use crate::resolve::{PhaseWindow, ResolvedRun, TrafficGroup};
use crate::samples::{
    MessageSamples, PERCENTILES, Pool, Quantity, Selection, SizedSlowdown, Times, TooFewMessages,
};
use crate::stats::{mean, rank_correlation};
use crate::summary::{MissingValue, PhaseSummary, Summary};
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::traffic::{Event, Message};
use poseidon_types::{Bytes, MessageId, Picos};

/// Start and finish times are stored only for traffic groups with at most this many messages. A figure cannot show
/// more.
const MAX_FINISH_TIMES: usize = 10_000;

/// Selects messages by traffic and size.
pub(super) struct MessageSelector<'a> {
    pub(super) name: &'a str,
    /// Indices of traffic groups.
    pub(super) groups: Vec<usize>,
    pub(super) from: Bytes,
    pub(super) below: Bytes,
}

impl MessageSelector<'_> {
    fn includes_size(&self, size: Bytes) -> bool {
        size >= self.from && size < self.below
    }
}

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
        self.unfinished == 0
    }

    pub(super) fn on_acknowledged(&mut self, row: &MessageRow) {
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

    /// Returns the latencies of all messages in a group that started before the run ended.
    pub(super) fn latencies(&self, group: &TrafficGroup, run_end: Picos) -> Vec<MessageLatency> {
        let plan = &self.resolved.plan;
        let latency = |message: &MessageId| {
            let start = self.starts[message.index()];
            let Message { connection, amount, .. } = plan.messages[message.index()];
            let (size, available) = (amount.bytes()?, run_end.checked_sub(start)?);
            let connection = plan.connections[connection.index()];
            let since_start =
                |time: Picos| if time == NEVER { None } else { Some(to_us(time.checked_sub(start)?)) };
            Some(MessageLatency {
                start_us: to_us(start),
                available_us: to_us(available),
                latency_us: since_start(self.acknowledged[message.index()]),
                arrival_us: since_start(self.arrivals[message.index()]),
                ideal_us: ideal_latency_us(plan, connection.from, connection.to, size.get()),
                size,
            })
        };
        group.messages.messages.iter().filter_map(latency).collect()
    }
}

/// The latency of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLatency {
    start_us: f64,
    /// The time from the start of the message to the end of the run.
    available_us: f64,
    /// The time until the sender has received all ACKs; `None` if the message did not finish.
    latency_us: Option<f64>,
    /// The time until the receiver has all bytes; `None` if the message did not arrive.
    arrival_us: Option<f64>,
    /// The latency in an empty network.
    ideal_us: f64,
    size: Bytes,
}

impl MessageLatency {
    /// Returns the value of a quantity. For an unfinished message, returns a lower bound as the error.
    fn quantity(&self, quantity: Quantity) -> Result<f64, f64> {
        match quantity {
            Quantity::Latency => self.latency_us.ok_or(self.available_us),
            Quantity::Slowdown => self
                .latency_us
                .map(|latency| latency / self.ideal_us)
                .ok_or(self.available_us / self.ideal_us),
            Quantity::Arrival => self.arrival_us.ok_or(self.available_us),
        }
    }

    fn finish_us(&self) -> Option<f64> {
        self.latency_us.map(|latency| self.start_us + latency)
    }
}

/// Rounds a value to the file's single precision, so that metrics for one seed and for all seeds agree.
#[expect(
    clippy::cast_possible_truncation,
    reason = "seven digits are more precise than the spread over seeds"
)]
const fn to_sample(value: f64) -> f32 {
    value as f32
}

/// Collects a quantity's values over all messages.
fn times(messages: &[MessageLatency], quantity: Quantity) -> Times {
    let (mut finished, mut unfinished) = (Vec::new(), Vec::new());
    for message in messages {
        match message.quantity(quantity) {
            Ok(value) => finished.push(to_sample(value)),
            Err(lower_bound) => unfinished.push(to_sample(lower_bound)),
        }
    }
    Times::new(finished, unfinished)
}

/// Returns the reason text for a percentile that was not reached.
pub(crate) fn not_reached(unfinished_share: f64) -> String {
    format!("not reached ({} unfinished)", format_percent(unfinished_share))
}

/// Formats a share as a percentage.
pub(crate) fn format_percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0 %".into(),
        percent if percent < 0.01 => format!("{percent:.4} %"),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

impl Reducer<'_> {
    /// Returns one selector for each traffic group with messages, and one for each message class.
    pub(super) fn message_selectors(&self) -> Vec<MessageSelector<'_>> {
        let with_messages = self.resolved.groups.iter().enumerate().filter(|(_, group)| !group.is_long);
        let by_traffic = with_messages.map(|(index, group)| MessageSelector {
            name: &group.name,
            groups: vec![index],
            from: Bytes::ZERO,
            below: Bytes::MAX,
        });
        let by_class = self.resolved.classes.iter().map(|class| MessageSelector {
            name: &class.name,
            groups: class.groups.clone(),
            from: class.from,
            below: class.below,
        });
        by_traffic.chain(by_class).collect()
    }

    /// Returns the selected messages that start in a phase.
    fn select_messages(
        &self,
        selector: &MessageSelector<'_>,
        window: &PhaseWindow,
        latencies: &[Vec<MessageLatency>],
    ) -> Vec<MessageLatency> {
        let (from, to) = (to_us(self.resolved.messages_from(window)), to_us(window.end));
        let is_selected = |message: &&MessageLatency| {
            message.start_us >= from && message.start_us < to && selector.includes_size(message.size)
        };
        let groups = selector.groups.iter();
        groups.flat_map(|group| latencies[*group].iter().filter(is_selected).copied()).collect()
    }

    /// Adds the metrics of the selected messages to a phase, and returns their times.
    pub(super) fn message_metrics(
        &self,
        selector: &MessageSelector<'_>,
        window: &PhaseWindow,
        latencies: &[Vec<MessageLatency>],
        phase: &mut PhaseSummary,
    ) -> Selection {
        let messages = self.select_messages(selector, window, latencies);
        let mut metrics = MessageMetrics::new(selector.name, &messages, phase);
        metrics.put_counts();
        let quantities = [Quantity::Latency, Quantity::Slowdown, Quantity::Arrival];
        let all_times = quantities.map(|quantity| times(&messages, quantity));
        for (quantity, times) in quantities.into_iter().zip(&all_times) {
            metrics.put_percentiles(quantity, times);
        }
        metrics.put_finish_times(to_us(window.start));
        let sized_slowdown = |message: &MessageLatency| {
            let slowdown = message.quantity(Quantity::Slowdown);
            let is_finished = slowdown.is_ok();
            let slowdown = to_sample(slowdown.unwrap_or_else(|lower_bound| lower_bound));
            SizedSlowdown { bytes: message.size.get(), slowdown, is_finished }
        };
        Selection::new(&window.name, selector.name, all_times, messages.iter().map(sized_slowdown).collect())
    }

    /// Adds the latency distribution of each traffic group's finished messages.
    pub(super) fn latency_distributions(&self, samples: &MessageSamples, summary: &mut Summary) {
        for group in self.resolved.groups.iter().filter(|group| !group.is_long) {
            let selections = samples.selections.iter().filter(|selection| selection.name == group.name);
            let pool = Pool::new(selections.map(|selection| (selection.times(Quantity::Latency), 1)));
            if !pool.is_empty() {
                let points = cumulative_shares(pool.len(), |share| pool.percentile(share)?.value());
                summary.distributions.insert(format!("{}.latency_us", group.name), points);
            }
        }
    }

    /// Adds the start and finish time of each message.
    pub(super) fn finish_times(&self, latencies: &[Vec<MessageLatency>], summary: &mut Summary) {
        for (group, messages) in self.resolved.groups.iter().zip(latencies) {
            if !group.is_long && messages.len() <= MAX_FINISH_TIMES {
                let points = messages.iter();
                let points = points.filter_map(|message| Some((message.start_us, message.finish_us()?)));
                summary.finishes.insert(group.name.clone(), points.collect());
            }
        }
    }
}

/// Adds message metrics to a phase.
struct MessageMetrics<'a> {
    name: &'a str,
    messages: &'a [MessageLatency],
    finished: Vec<&'a MessageLatency>,
    unfinished: usize,
    unfinished_share: f64,
    phase: &'a mut PhaseSummary,
}

impl<'a> MessageMetrics<'a> {
    fn new(name: &'a str, messages: &'a [MessageLatency], phase: &'a mut PhaseSummary) -> Self {
        let finished: Vec<&MessageLatency> =
            messages.iter().filter(|message| message.latency_us.is_some()).collect();
        let unfinished = messages.len() - finished.len();
        let unfinished_share = if unfinished == 0 { 0.0 } else { unfinished as f64 / messages.len() as f64 };
        Self { name, messages, finished, unfinished, unfinished_share, phase }
    }

    /// Adds a metric: its value, a lower bound, or the reason for a missing value.
    fn put(&mut self, metric: &str, reading: Result<Bounds, TooFewMessages>) {
        let name = format!("{}.{metric}", self.name);
        let missing = match reading {
            Ok(bounds) => match bounds.value() {
                Some(value) => {
                    self.phase.values.insert(name, value);
                    return;
                }
                None if bounds.low.is_finite() => {
                    MissingValue { reason: not_reached(self.unfinished_share), at_least: Some(bounds.low) }
                }
                None => return,
            },
            Err(error) => MissingValue { reason: error.to_string(), at_least: None },
        };
        self.phase.missing.insert(name, missing);
    }

    fn put_exact(&mut self, metric: &str, value: f64) {
        self.put(metric, Ok(Bounds::exact(value)));
    }

    /// Adds a metric over all messages. The value is a lower bound if some messages did not finish.
    fn put_over_all(&mut self, metric: &str, value: f64) {
        let bounds = if self.unfinished == 0 { Bounds::exact(value) } else { Bounds::at_least(value) };
        self.put(metric, Ok(bounds));
    }

    fn put_counts(&mut self) {
        self.put_exact("messages", self.finished.len() as f64);
        self.put_exact("unfinished", self.unfinished as f64);
        if !self.messages.is_empty() {
            self.put_exact("unfinished_share", self.unfinished_share);
            let latencies: Vec<f64> =
                self.messages.iter().map(|m| m.latency_us.unwrap_or(m.available_us)).collect();
            self.put_over_all("latency_mean_us", mean(&latencies).unwrap_or(f64::NAN));
        }
    }

    fn put_percentiles(&mut self, quantity: Quantity, times: &Times) {
        let (name, unit) = quantity.affixes();
        if self.messages.is_empty() {
            return;
        }
        for (share, percentile) in PERCENTILES {
            self.put(
                &format!("{name}_{percentile}{unit}"),
                Pool::new([(times, 1)]).checked_percentile(share, percentile),
            );
        }
    }

    /// Adds the metrics for the spread and order of finish times.
    fn put_finish_times(&mut self, phase_start_us: f64) {
        let mut finishes: Vec<f64> =
            self.messages.iter().map(|m| m.start_us + m.latency_us.unwrap_or(m.available_us)).collect();
        finishes.sort_unstable_by(f64::total_cmp);
        if let [first, .., last] = finishes.as_slice() {
            self.put_over_all("finish_spread_us", last - first);
            self.put_over_all("finish_last_us", last - phase_start_us);
        }
        let starts: Vec<f64> = self.finished.iter().map(|message| message.start_us).collect();
        let ends: Vec<f64> = self.finished.iter().filter_map(|message| message.finish_us()).collect();
        if let Some(order) = rank_correlation(&starts, &ends) {
            self.put_exact("finish_order", order);
        }
    }
}
