//! Numbers of queues and of whole buffers.

use super::{Reducer, distribution};
use crate::resolve::Window;
use crate::stats::{can_carry, mean, percentile};
use crate::summary::Summary;
use poseidon_plan::records::QueueRow;
use std::collections::BTreeMap;

/// What a queue was at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueSample {
    pub(super) waiting: u64,
    pub(super) delay: u64,
    pub(super) sent: u64,
}

/// The buffer of a switch: all its queues together, the largest sample of each bin.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// The instant that is being added up, ps, and what waits there.
    at: u64,
    sum: u64,
    /// The largest of the bin so far.
    largest: u64,
    /// The end of each bin, ps, and its largest sample.
    bins: Vec<(u64, u64)>,
}

impl Buffer {
    fn add(&mut self, row: &QueueRow, bin: u64) {
        let at = row.at.get();
        if at != self.at {
            self.largest = self.largest.max(self.sum);
            if self.at / bin != at / bin {
                self.bins.push((at / bin * bin, self.largest));
                self.largest = 0;
            }
            (self.at, self.sum) = (at, 0);
        }
        self.sum += row.waiting.get();
    }
}

impl Reducer<'_> {
    pub(super) fn queue_row(&mut self, row: &QueueRow) {
        for (queue, samples) in self.resolved.queues.iter().zip(&mut self.queues) {
            if queue.port == (row.switch, row.port) {
                samples.push(QueueSample {
                    waiting: row.waiting.get(),
                    delay: row.delay.get(),
                    sent: row.sent.get(),
                });
            }
        }
        if let Some(buffer) = self.buffers.get_mut(&row.switch) {
            buffer.add(row, self.resolved.bin.get());
        }
    }

    pub(super) fn queue_values(&self, window: &Window, values: &mut BTreeMap<String, f64>) {
        let every = self.plan().sample_every.get();
        let (from, to) = (self.on_sample(window.settled), self.on_sample(window.ends));
        for (queue, samples) in self.resolved.queues.iter().zip(&self.queues) {
            let index = |at: u64| usize::try_from((at / every).saturating_sub(1)).unwrap_or(usize::MAX);
            let Some(inside) = samples.get(index(from)..=index(to).min(samples.len().saturating_sub(1)))
            else {
                continue;
            };
            let mut put = |name: &str, value: f64| {
                if value.is_finite() {
                    values.insert(format!("{}.{name}", queue.name), value);
                }
            };
            self.samples(inside, queue.rate.get() as f64, &mut put);
        }
    }

    /// What the samples of a queue say; `rate` is its link's, bits per second.
    fn samples(&self, inside: &[QueueSample], rate: f64, put: &mut dyn FnMut(&str, f64)) {
        let every = self.plan().sample_every.get();
        let [first, .., last] = inside else { return };
        let sorted = |what: fn(&QueueSample) -> f64| {
            let mut values: Vec<f64> = inside.iter().map(what).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let delays = sorted(|sample| sample.delay as f64 / 1e3);
        put("delay_mean_us", mean(&delays).unwrap_or(f64::NAN));
        for (share, name) in [(0.5, "delay_p50_us"), (0.99, "delay_p99_us")] {
            if can_carry(share, delays.len()) {
                put(name, percentile(&delays, share).unwrap_or(f64::NAN));
            }
        }
        let waiting = sorted(|sample| sample.waiting as f64);
        put("waiting_mean_bytes", mean(&waiting).unwrap_or(f64::NAN));
        for (share, word) in [(0.5, "p50"), (0.99, "p99")] {
            if can_carry(share, waiting.len()) {
                let value = percentile(&waiting, share).unwrap_or(f64::NAN);
                put(&format!("waiting_{word}_bytes"), value);
            }
        }
        let (low, high) = (waiting[0], waiting[waiting.len() - 1]);
        put("waiting_max_bytes", high);
        put("waiting_swing_bytes", high - low);
        let used = |first: &QueueSample, last: &QueueSample, samples: usize| {
            (last.sent - first.sent) as f64 * 8.0 / (rate * (samples as u64 * every) as f64 / 1e12)
        };
        put("utilisation", used(first, last, inside.len() - 1));
        let per_bin = usize::try_from(self.resolved.bin.get() / every).unwrap_or(usize::MAX);
        let bins = inside.windows(per_bin.saturating_add(1)).step_by(per_bin);
        let of_bin = |bin: &[QueueSample]| used(&bin[0], &bin[bin.len() - 1], bin.len() - 1);
        put("utilisation_min", bins.clone().map(of_bin).fold(f64::NAN, f64::min));
        let swing = |bin: &[QueueSample]| {
            let waiting = bin.iter().map(|sample| sample.waiting);
            (waiting.clone().max().unwrap_or(0) - waiting.min().unwrap_or(0)) as f64
        };
        let swings: Vec<f64> = bins.map(swing).collect();
        put("waiting_ripple_bytes", mean(&swings).unwrap_or(f64::NAN));
    }

    /// The largest samples of all switches of a buffer in a time, sorted, bytes.
    fn largest(&self, switches: &[u32], from: u64, to: u64) -> Vec<f64> {
        let bins = switches.iter().filter_map(|switch| self.buffers.get(switch)).flat_map(|b| &b.bins);
        let mut all: Vec<f64> =
            bins.filter(|(end, _)| *end > from && *end <= to).map(|(_, most)| *most as f64).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    }

    pub(super) fn buffer_values(&self, window: &Window, values: &mut BTreeMap<String, f64>) {
        for buffer in &self.resolved.buffers {
            let all = self.largest(&buffer.switches, window.settled.get(), window.ends.get());
            let mut put = |name: &str, value: Option<f64>| {
                if let Some(value) = value {
                    values.insert(format!("{}.{name}", buffer.name), value);
                }
            };
            put("buffer_mean_bytes", mean(&all));
            put("buffer_max_bytes", all.last().copied());
            for (share, word) in [(0.5, "p50"), (0.99, "p99")] {
                let carried = percentile(&all, share).filter(|_| can_carry(share, all.len()));
                put(&format!("buffer_{word}_bytes"), carried);
            }
        }
    }

    pub(super) fn buffer_distributions(&self, summary: &mut Summary) {
        let last = self.resolved.phases.last();
        for buffer in &self.resolved.buffers {
            let from = last.map_or(0, |window| window.settled.get());
            let all = self.largest(&buffer.switches, from, self.resolved.measured_until.get());
            if !all.is_empty() {
                let points = distribution(all.len(), |share| percentile(&all, share));
                summary.distributions.insert(format!("{}.buffer_bytes", buffer.name), points);
            }
        }
    }

    pub(super) fn queue_series(&self, summary: &mut Summary) {
        let every = self.plan().sample_every.get();
        for (queue, samples) in self.resolved.queues.iter().zip(&self.queues) {
            let at = |index: usize| (index + 1) as f64 * every as f64 / 1e6;
            let pick = |f: fn(&QueueSample) -> f64| {
                samples.iter().enumerate().map(|(i, sample)| (at(i), f(sample))).collect::<Vec<_>>()
            };
            summary.series.insert(format!("{}.delay_us", queue.name), pick(|s| s.delay as f64 / 1e3));
            summary.series.insert(format!("{}.waiting_bytes", queue.name), pick(|s| s.waiting as f64));
            let per_bin = usize::try_from(self.resolved.bin.get() / every).unwrap_or(usize::MAX);
            let of_bin = |(bin, pair): (usize, &[QueueSample])| {
                let bits = (pair[pair.len() - 1].sent - pair[0].sent) as f64 * 8.0;
                (at((bin + 1) * per_bin), bits * 1e3 / self.resolved.bin.get() as f64)
            };
            let bins = samples.windows(per_bin.saturating_add(1)).step_by(per_bin).enumerate();
            summary.series.insert(format!("{}.sent_gbps", queue.name), bins.map(of_bin).collect());
        }
    }
}
