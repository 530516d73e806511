//! Metrics for message latencies, slowdowns and finish times. An unfinished message has an infinite latency.

use super::message_log::MessageLatency;
use super::ring_log::RingLog;
use super::{Reducer, cumulative_shares, to_us};
use crate::bound::Bounds;
use crate::resolve::PhaseWindow;
use crate::samples::{
    MessageSamples, PERCENTILES, Pool, Quantity, Selection, SizedSlowdown, Times, TooFewMessages,
};
use crate::stats::{mean, rank_correlation};
use crate::summary::{MissingValue, PhaseSummary, Summary};
use poseidon_types::Bytes;

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

    /// Returns whether the latencies of the selected messages are a sample.
    fn sampling(&self, selector: &MessageSelector<'_>) -> Sampling {
        let is_sampled = |group: &usize| {
            self.messages.ring(&self.resolved.groups[*group]).is_some_and(RingLog::is_sampled)
        };
        match selector.groups.iter().filter(|group| is_sampled(group)).count() {
            0 => Sampling::None,
            _ if selector.groups.len() == 1 => Sampling::Ring,
            _ => Sampling::Mixed,
        }
    }

    /// Counts all selected messages, including those outside of samples. Returns the number of finished messages and
    /// the number of unfinished messages.
    fn count_messages(
        &self,
        selector: &MessageSelector<'_>,
        window: &PhaseWindow,
        latencies: &[Vec<MessageLatency>],
    ) -> (usize, usize) {
        let phase = self.resolved.phases.iter().position(|phase| phase.name == window.name).unwrap_or(0);
        let mut total = (0, 0);
        for group in &selector.groups {
            let (finished, unfinished) = match self.messages.ring(&self.resolved.groups[*group]) {
                Some(ring) => {
                    let (finished, unfinished) = ring.counts(phase, |size| selector.includes_size(size));
                    let to_usize = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
                    (to_usize(finished), to_usize(unfinished))
                }
                None => {
                    let only = MessageSelector { groups: vec![*group], ..*selector };
                    let messages = self.select_messages(&only, window, latencies);
                    let finished = messages.iter().filter(|message| message.latency_us.is_some()).count();
                    (finished, messages.len() - finished)
                }
            };
            total = (total.0 + finished, total.1 + unfinished);
        }
        total
    }

    /// Adds the metrics of the selected messages to a phase, and returns their times.
    pub(super) fn message_metrics(
        &self,
        selector: &MessageSelector<'_>,
        window: &PhaseWindow,
        latencies: &[Vec<MessageLatency>],
        phase: &mut PhaseSummary,
    ) -> Selection {
        let sampling = self.sampling(selector);
        let mut messages = self.select_messages(selector, window, latencies);
        if sampling == Sampling::Mixed {
            messages.clear();
        }
        let mut metrics = MessageMetrics::new(selector.name, &messages, phase);
        if sampling != Sampling::None {
            (metrics.finished_count, metrics.unfinished) = self.count_messages(selector, window, latencies);
        }
        metrics.put_counts();
        let quantities = [Quantity::Latency, Quantity::Slowdown, Quantity::Arrival];
        let all_times = quantities.map(|quantity| times(&messages, quantity));
        for (quantity, times) in quantities.into_iter().zip(&all_times) {
            metrics.put_percentiles(quantity, times);
        }
        match sampling {
            Sampling::None => metrics.put_finish_times(to_us(window.start)),
            Sampling::Ring => {}
            Sampling::Mixed => metrics.put_mixed_sample(),
        }
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
            let is_sampled = self.messages.ring(group).is_some_and(RingLog::is_sampled);
            if !group.is_long && !is_sampled && messages.len() <= MAX_FINISH_TIMES {
                let points = messages.iter();
                let points = points.filter_map(|message| Some((message.start_us, message.finish_us()?)));
                summary.finishes.insert(group.name.clone(), points.collect());
            }
        }
    }
}

/// Whether the latencies of a selection are a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampling {
    /// All messages have a latency.
    None,
    /// The messages are a sample of one ring.
    Ring,
    /// The selection combines a sample with other messages. Its latencies have no common distribution.
    Mixed,
}

/// Adds message metrics to a phase.
struct MessageMetrics<'a> {
    name: &'a str,
    messages: &'a [MessageLatency],
    finished: Vec<&'a MessageLatency>,
    finished_count: usize,
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
        let finished_count = finished.len();
        Self { name, messages, finished, finished_count, unfinished, unfinished_share, phase }
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
        self.put_exact("messages", self.finished_count as f64);
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

    /// Adds the reason for which a class that combines a sample with other messages has no percentiles.
    fn put_mixed_sample(&mut self) {
        for quantity in [Quantity::Latency, Quantity::Slowdown, Quantity::Arrival] {
            let (name, unit) = quantity.affixes();
            for (_, percentile) in PERCENTILES {
                let reason =
                    "the class combines a ring with many messages, which are sampled, with other traffic";
                let missing = MissingValue { reason: reason.into(), at_least: None };
                self.phase.missing.insert(format!("{}.{name}_{percentile}{unit}", self.name), missing);
            }
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
