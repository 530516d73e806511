//! Numbers of messages: how long they took, by themselves and by their size, and in which order. A message that did not finish counts
//! with an infinite time.

use super::{Reducer, distribution, ideal_us};
use crate::bound::Bounds;
use crate::resolve::{GroupOf, Resolved, Window};
use crate::samples::{MessageSamples, PERCENTILES, Pool, Quantity, Selection, SizedSlowdown, Times};
use crate::stats::{mean, rank_correlation};
use crate::summary::{Missing, PhaseSummary, Summary};
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::traffic::{Event, Message};
use poseidon_types::{Bytes, Picos};

/// Starts and finishes are kept of at most so many messages: more than that nobody tells apart in a figure.
const MANY: usize = 10_000;

/// Messages of some traffics, of some sizes.
pub(super) struct Chosen<'a> {
    pub(super) name: &'a str,
    /// By place among the groups.
    pub(super) groups: Vec<usize>,
    pub(super) from: Bytes,
    pub(super) below: Bytes,
}

impl Chosen<'_> {
    fn has(&self, size: Bytes) -> bool {
        size >= self.from && size < self.below
    }
}

/// When each message of a plan began, arrived and was acknowledged.
#[derive(Debug)]
pub(super) struct MessageLog<'a> {
    resolved: &'a Resolved,
    /// Per message: when it began; `NEVER` while it has not.
    starts: Vec<Picos>,
    arrivals: Vec<Picos>,
    acknowledged: Vec<Picos>,
    /// Per message: how many events it still waits for.
    awaited: Vec<u32>,
    /// Per message: whether it belongs to traffic that is measured as messages.
    is_measured: Vec<bool>,
    /// How many messages that count have begun, or will at their time, and have not finished.
    open: usize,
}

const NEVER: Picos = Picos::MAX;

impl<'a> MessageLog<'a> {
    pub(super) fn new(resolved: &'a Resolved) -> Self {
        let plan = &resolved.plan;
        let count = plan.messages.len();
        let mut awaited = vec![0; count];
        plan.after.iter().for_each(|after| awaited[after.then as usize] += 1);
        let mut is_measured = vec![false; count];
        for group in resolved.groups.iter().filter(|group| !group.is_long) {
            group.messages.messages.iter().for_each(|message| is_measured[*message as usize] = true);
        }
        let starts = plan.messages.iter().zip(&awaited);
        let starts =
            starts.map(|(message, awaited)| if *awaited == 0 { message.at } else { NEVER }).collect();
        let nothing = || vec![NEVER; count];
        let mut log = Self {
            resolved,
            starts,
            arrivals: nothing(),
            acknowledged: nothing(),
            awaited,
            is_measured,
            open: 0,
        };
        log.open = (0..count).filter(|message| log.counts(*message)).count();
        log
    }

    /// Whether a message that has begun, or has its time in the plan, is one of those that numbers are about.
    fn counts(&self, message: usize) -> bool {
        let start = self.starts[message];
        self.is_measured[message]
            && start >= self.resolved.messages_from
            && start < self.resolved.measured_until
    }

    /// Whether every message that counts has finished.
    pub(super) fn has_drained(&self) -> bool {
        self.open == 0
    }

    pub(super) fn on_acknowledged(&mut self, row: &MessageRow) {
        let message = row.message as usize;
        if self.acknowledged[message] == NEVER {
            let counted = self.counts(message);
            self.starts[message] = row.start;
            self.acknowledged[message] = row.acknowledged;
            self.open -= usize::from(counted);
        }
        self.begin_dependents(row.message, Event::Acknowledged, row.acknowledged);
    }

    pub(super) fn on_received(&mut self, row: &ReceivedRow) {
        self.arrivals[row.message as usize] = row.at;
        self.begin_dependents(row.message, Event::Received, row.at);
    }

    /// Messages that wait for this one begin, where it was the last that they waited for.
    fn begin_dependents(&mut self, message: u32, event: Event, at: Picos) {
        let after = &self.resolved.plan.after;
        let first = after.partition_point(|after| (after.message, after.event) < (message, event));
        for after in
            after[first..].iter().take_while(|after| (after.message, after.event) == (message, event))
        {
            let then = after.then as usize;
            self.awaited[then] = self.awaited[then].saturating_sub(1);
            if self.awaited[then] == 0 && self.starts[then] == NEVER {
                self.starts[then] = at + self.resolved.plan.messages[then].at;
                self.open += usize::from(self.counts(then));
            }
        }
    }

    /// What became of the messages of a group that had begun when the run ended.
    pub(super) fn of_group(&self, group: &GroupOf, ended: Picos) -> Vec<MessageTime> {
        let plan = &self.resolved.plan;
        let time = |message: &u32| {
            let start = self.starts[*message as usize];
            let Message { connection, amount, .. } = plan.messages[*message as usize];
            let (size, had) = (amount.bytes()?, ended.checked_sub(start)?);
            let ends = plan.connections[connection as usize];
            let taken = |at: Picos| if at == NEVER { None } else { Some(us(at.checked_sub(start)?)) };
            Some(MessageTime {
                start_us: us(start),
                had_us: us(had),
                latency_us: taken(self.acknowledged[*message as usize]),
                arrival_us: taken(self.arrivals[*message as usize]),
                ideal_us: ideal_us(plan, ends.from, ends.to, size.get()),
                size,
            })
        };
        group.messages.messages.iter().filter_map(time).collect()
    }
}

fn us(at: Picos) -> f64 {
    at.get() as f64 / 1e6
}

/// What became of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageTime {
    start_us: f64,
    /// From its start to the end of the run.
    had_us: f64,
    /// `None` while it has not been acknowledged.
    latency_us: Option<f64>,
    /// `None` while it is not whole at its receiver.
    arrival_us: Option<f64>,
    /// Its latency in an empty network.
    ideal_us: f64,
    size: Bytes,
}

impl MessageTime {
    /// What was measured; or else what it is greater than.
    fn of(&self, quantity: Quantity) -> Result<f64, f64> {
        match quantity {
            Quantity::Latency => self.latency_us.ok_or(self.had_us),
            Quantity::Slowdown => {
                self.latency_us.map(|latency| latency / self.ideal_us).ok_or(self.had_us / self.ideal_us)
            }
            Quantity::Arrival => self.arrival_us.ok_or(self.had_us),
        }
    }

    fn finish_us(&self) -> Option<f64> {
        self.latency_us.map(|latency| self.start_us + latency)
    }
}

/// Numbers of messages are samples of single precision, here as in the file, so that those of one seed and of all are the same.
#[expect(clippy::cast_possible_truncation, reason = "seven digits are more than any seed repeats")]
const fn sample(value: f64) -> f32 {
    value as f32
}

fn times(messages: &[MessageTime], quantity: Quantity) -> Times {
    let (mut finished, mut unfinished) = (Vec::new(), Vec::new());
    for message in messages {
        match message.of(quantity) {
            Ok(value) => finished.push(sample(value)),
            Err(had) => unfinished.push(sample(had)),
        }
    }
    Times::new(finished, unfinished)
}

/// The share of messages that did not finish, in words, for a number that cannot be given.
pub(crate) fn not_reached(unfinished_share: f64) -> String {
    format!("not reached ({} unfinished)", percent(unfinished_share))
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0 %".into(),
        percent if percent < 0.01 => format!("{percent:.4} %"),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

impl Reducer<'_> {
    /// The messages that were chosen and begin in a phase.
    fn chosen_messages(&self, of: &Chosen<'_>, window: &Window) -> Vec<MessageTime> {
        let (from, to) = (us(self.resolved.messages_from(window)), us(window.ends));
        let is_meant = |message: &&MessageTime| {
            message.start_us >= from && message.start_us < to && of.has(message.size)
        };
        of.groups.iter().flat_map(|group| self.messages[*group].iter().filter(is_meant).copied()).collect()
    }

    /// Puts the numbers of messages into a phase and gives their times.
    pub(super) fn message_values(
        &self,
        of: &Chosen<'_>,
        window: &Window,
        phase: &mut PhaseSummary,
    ) -> Selection {
        let messages = self.chosen_messages(of, window);
        let finished: Vec<&MessageTime> =
            messages.iter().filter(|message| message.latency_us.is_some()).collect();
        let unfinished = messages.len() - finished.len();
        let share = if unfinished == 0 { 0.0 } else { unfinished as f64 / messages.len() as f64 };
        let mut put = |name: &str, reading: Result<Bounds, String>| {
            let name = format!("{}.{name}", of.name);
            match reading {
                Ok(bounds) => match bounds.value() {
                    Some(value) => drop(phase.values.insert(name, value)),
                    None if bounds.low.is_finite() => {
                        let missing = Missing { reason: not_reached(share), at_least: Some(bounds.low) };
                        phase.missing.insert(name, missing);
                    }
                    None => {}
                },
                Err(reason) => drop(phase.missing.insert(name, Missing { reason, at_least: None })),
            }
        };
        // A mean or a last finish is one of all messages: where some did not finish, it is greater than what they had.
        let of_all =
            |value: f64| Ok(if unfinished == 0 { Bounds::exact(value) } else { Bounds::at_least(value) });
        put("messages", Ok(Bounds::exact(finished.len() as f64)));
        put("unfinished", Ok(Bounds::exact(unfinished as f64)));
        if !messages.is_empty() {
            put("unfinished_share", Ok(Bounds::exact(share)));
            let latencies: Vec<f64> = messages.iter().map(|m| m.latency_us.unwrap_or(m.had_us)).collect();
            put("latency_mean_us", of_all(mean(&latencies).unwrap_or(f64::NAN)));
        }
        let all = [Quantity::Latency, Quantity::Slowdown, Quantity::Arrival];
        let all_times = all.map(|quantity| times(&messages, quantity));
        for (quantity, times) in all.into_iter().zip(&all_times) {
            let (name, unit) = quantity.words();
            for (share, word) in PERCENTILES.iter().filter(|_| !messages.is_empty()) {
                put(&format!("{name}_{word}{unit}"), Pool::new([(times, 1)]).reading(*share, word));
            }
        }
        let mut finishes: Vec<f64> =
            messages.iter().map(|m| m.start_us + m.latency_us.unwrap_or(m.had_us)).collect();
        finishes.sort_unstable_by(f64::total_cmp);
        if let [first, .., last] = finishes.as_slice() {
            put("finish_spread_us", of_all(last - first));
            put("finish_last_us", of_all(last - us(window.begins)));
        }
        let starts: Vec<f64> = finished.iter().map(|message| message.start_us).collect();
        let ends: Vec<f64> = finished.iter().filter_map(|message| message.finish_us()).collect();
        if let Some(order) = rank_correlation(&starts, &ends) {
            put("finish_order", Ok(Bounds::exact(order)));
        }
        let sized = |message: &MessageTime| {
            let slowdown = message.of(Quantity::Slowdown);
            let is_finished = slowdown.is_ok();
            let slowdown = sample(slowdown.unwrap_or_else(|at_least| at_least));
            SizedSlowdown { bytes: message.size.get(), slowdown, is_finished }
        };
        Selection::new(&window.name, of.name, all_times, messages.iter().map(sized).collect())
    }

    /// The distribution of the latencies of each traffic, as far as messages finished.
    pub(super) fn latency_distributions(&self, samples: &MessageSamples, summary: &mut Summary) {
        for group in self.resolved.groups.iter().filter(|group| !group.is_long) {
            let of_group = samples.selections.iter().filter(|selection| selection.name == group.name);
            let pool = Pool::new(of_group.map(|selection| (selection.times(Quantity::Latency), 1)));
            if !pool.is_empty() {
                let points = distribution(pool.len(), |share| pool.percentile(share)?.value());
                summary.distributions.insert(format!("{}.latency_us", group.name), points);
            }
        }
    }

    /// Start and finish of each message.
    pub(super) fn finishes(&self, summary: &mut Summary) {
        for (index, group) in self.resolved.groups.iter().enumerate() {
            if !group.is_long && self.messages[index].len() <= MANY {
                let points = self.messages[index].iter();
                let points = points.filter_map(|message| Some((message.start_us, message.finish_us()?)));
                summary.finishes.insert(group.name.clone(), points.collect());
            }
        }
    }
}
