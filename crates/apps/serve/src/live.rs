//! Turns the rows of a run into points of live plots: rates of traffic, lengths of queues, and finished messages.
//!
//! A plot needs a few hundred points, so rows are averaged over intervals. The points of a job are bounded and stay in
//! memory until the job is forgotten. Event streams read from there, so a slow browser never delays a run.

use crate::job::{Job, now};
use crate::series::{LiveSeries, SeriesInfo, SeriesKind};
use core::ops::ControlFlow;
use core::time::Duration;
use poseidon_lab::judge::cell_name;
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::study::RunId;
use poseidon_plan::records::{DropRow, MessageRow, Progress, QueueRow, ReceiverRow, Sink};
use poseidon_plan::topology::SwitchPort;
use poseidon_types::Picos;
use std::collections::BTreeMap;
use std::time::Instant;

/// The number of points in a series of a complete run.
const POINTS: u64 = 400;

/// The largest number of series in a job.
const MAX_SERIES: usize = 150;

/// The largest number of series in a cell.
const MAX_SERIES_PER_CELL: usize = 12;

/// The time between two batches of points.
const BATCH_INTERVAL: Duration = Duration::from_millis(50);

/// A sink that collects points of one run.
pub(crate) struct LiveSink<'a> {
    job: &'a Job,
    interval: u64,
    interval_start: u64,
    /// The time of the last row.
    last: u64,
    rates: Vec<Rate>,
    /// The rate and the connection's position in it, by connection.
    connections: BTreeMap<u32, (usize, usize)>,
    queues: Vec<Queue>,
    messages: Option<Counter>,
    drops: Counter,
    /// New points, with the indices of their series.
    batch: Vec<(usize, f64, f64)>,
    sent: Option<Instant>,
}

/// The payload of a traffic group.
struct Rate {
    series: usize,
    /// The bytes that each connection has received, now and at the start of the interval.
    received: Vec<(u64, u64)>,
}

/// The longest queue of a port in the interval.
struct Queue {
    series: usize,
    port: SwitchPort,
    longest: u64,
}

/// A count of events.
struct Counter {
    series: usize,
    count: u64,
}

impl<'a> LiveSink<'a> {
    /// Adds the series of a run to its job. Returns `None` if the job has too many.
    pub(crate) fn new(job: &'a Job, run: &RunId, resolved: &ResolvedRun) -> Option<Self> {
        let plan = &resolved.plan;
        let cell = cell_name(&run.labels);
        let measured = resolved.groups.iter().filter(|group| group.has_rates).take(MAX_SERIES_PER_CELL);
        let queue_count = MAX_SERIES_PER_CELL.min(resolved.queues.len());
        let has_messages = resolved.groups.iter().any(|group| !group.is_long);
        let law = single_law(resolved);
        let end_us = resolved.measured_until.get() / 1_000_000;
        let new_series = |kind, of: &str, flows, law: Option<&str>| {
            let (of, cell, law) = (of.to_owned(), cell.clone(), law.map(str::to_owned));
            LiveSeries {
                info: SeriesInfo { kind, of, flows, cell, law, end_us, order: run.index },
                points: Vec::new(),
            }
        };
        job.update(|state| {
            if state.series.len() + 2 * MAX_SERIES_PER_CELL + 2 > MAX_SERIES {
                state.unplotted_cells += 1;
                return None;
            }
            let mut add = |series| {
                state.series.push(series);
                state.series.len() - 1
            };
            let (mut rates, mut connections) = (Vec::new(), BTreeMap::new());
            for group in measured {
                let flows = group.connections.len();
                let series = add(new_series(SeriesKind::Rate, &group.name, flows, Some(&group.law)));
                let positions = group.connections.clone().enumerate();
                connections.extend(positions.map(|(position, id)| (id, (rates.len(), position))));
                rates.push(Rate { series, received: vec![(0, 0); flows] });
            }
            let queues = resolved.queues[..queue_count].iter().map(|queue| Queue {
                series: add(new_series(SeriesKind::Queue, &queue.name, 0, law)),
                port: queue.port,
                longest: 0,
            });
            let queues = queues.collect();
            let messages = has_messages
                .then(|| Counter { series: add(new_series(SeriesKind::Messages, "", 0, law)), count: 0 });
            let drops = Counter { series: add(new_series(SeriesKind::Drops, "", 0, law)), count: 0 };
            Some(Self {
                job,
                interval: interval(plan.stop, plan.sample_every),
                interval_start: 0,
                last: 0,
                rates,
                connections,
                queues,
                messages,
                drops,
                batch: Vec::new(),
                sent: None,
            })
        })
    }

    /// Ends all intervals before this time.
    fn advance(&mut self, time: Picos) {
        let time = time.get();
        self.last = self.last.max(time);
        if time > self.interval_start + self.interval {
            self.end_interval(self.interval_start + self.interval);
            // Without rows, there are no points.
            self.interval_start = (time - 1) / self.interval * self.interval;
        }
    }

    /// Adds a point to each series.
    fn end_interval(&mut self, end: u64) {
        let (time, length) = (end as f64 / 1e6, (end - self.interval_start) as f64);
        if length <= 0.0 {
            return;
        }
        for rate in &mut self.rates {
            let (mut bytes, mut active) = (0, 0_u32);
            for (now, before) in &mut rate.received {
                active += u32::from(now > before);
                bytes += *now - *before;
                *before = *now;
            }
            let gbps = if active > 0 { bytes as f64 * 8e3 / length / f64::from(active) } else { 0.0 };
            self.batch.push((rate.series, time, gbps));
        }
        for queue in &mut self.queues {
            self.batch.push((queue.series, time, core::mem::take(&mut queue.longest) as f64 / 1e3));
        }
        for counter in self.messages.iter().chain([&self.drops]) {
            self.batch.push((counter.series, time, counter.count as f64));
        }
    }

    /// Gives the new points to the job.
    fn send(&mut self) {
        self.sent = Some(now());
        if self.batch.is_empty() {
            return;
        }
        self.job.update(|state| {
            for (series, time, value) in self.batch.drain(..) {
                state.series[series].points.push((time, value));
            }
        });
    }
}

/// Returns the interval between points: a multiple of the sample interval.
fn interval(stop: Picos, sample_every: Picos) -> u64 {
    let sample = sample_every.get().max(1);
    stop.get().div_ceil(POINTS).div_ceil(sample).max(1) * sample
}

/// Returns the law of all traffic, if it is the same.
fn single_law(resolved: &ResolvedRun) -> Option<&str> {
    let (first, rest) = resolved.groups.split_first()?;
    rest.iter().all(|group| group.law == first.law).then_some(first.law.as_str())
}

impl Sink for LiveSink<'_> {
    fn record_message(&mut self, row: MessageRow) {
        self.advance(row.acknowledged);
        if let Some(messages) = &mut self.messages {
            messages.count += 1;
        }
    }

    fn record_drop(&mut self, row: DropRow) {
        self.advance(row.time);
        self.drops.count += 1;
    }

    fn record_queue(&mut self, row: QueueRow) {
        self.advance(row.time);
        let is_port = |queue: &&mut Queue| queue.port.switch == row.switch && queue.port.port == row.port;
        if let Some(queue) = self.queues.iter_mut().find(is_port) {
            queue.longest = queue.longest.max(row.queued.get());
        }
    }

    fn record_receiver(&mut self, row: ReceiverRow) {
        self.advance(row.time);
        if let Some((rate, position)) = self.connections.get(&row.connection.get()) {
            self.rates[*rate].received[*position].0 = row.received.get();
        }
    }

    fn on_progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.advance(progress.now);
        if self.sent.is_none_or(|sent| sent.elapsed() >= BATCH_INTERVAL) {
            self.send();
        }
        ControlFlow::Continue(())
    }
}

impl Drop for LiveSink<'_> {
    fn drop(&mut self) {
        self.end_interval(self.last.max(self.interval_start));
        self.send();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_a_multiple_of_the_sample_interval() {
        let micros = |micros: u64| Picos::new(micros * 1_000_000);
        assert_eq!(interval(micros(12_000), micros(50)), micros(50).get());
        assert_eq!(interval(micros(120_000), micros(50)), micros(300).get());
        assert_eq!(interval(micros(1), micros(50)), micros(50).get());
        let interval = interval(micros(1_000_003), micros(7));
        assert!(interval.is_multiple_of(micros(7).get()) && interval * POINTS >= micros(1_000_003).get());
    }
}
