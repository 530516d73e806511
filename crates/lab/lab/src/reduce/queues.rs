//! Metrics for queues and switch buffers.

use super::{Reducer, cumulative_shares};
use crate::resolve::{PhaseWindow, ResolvedRun};
use crate::stats::{mean, percentile, supports_percentile};
use crate::summary::Summary;
use poseidon_plan::SwitchPort;
use poseidon_plan::records::QueueRow;
use poseidon_types::SwitchId;
use std::collections::BTreeMap;

/// A sample of a watched queue.
#[derive(Clone, Copy, Debug)]
struct QueueSample {
    /// The number of queued bytes.
    queued: u64,
    /// The queueing delay in nanoseconds.
    delay: u64,
    /// The number of bytes sent since the start of the run.
    sent: u64,
}

/// A switch buffer's occupancy over all its queues, stored as the largest sample in each bin.
#[derive(Clone, Debug, Default)]
struct BufferLog {
    /// The time of the current sample in picoseconds.
    sample_time: u64,
    /// The number of queued bytes in the current sample.
    sample_bytes: u64,
    /// The largest sample in the current bin.
    bin_max: u64,
    /// The end time of each bin in picoseconds, and the largest sample in the bin.
    bins: Vec<(u64, u64)>,
}

impl BufferLog {
    fn add(&mut self, row: &QueueRow, bin: u64) {
        let time = row.time.get();
        if time != self.sample_time {
            self.bin_max = self.bin_max.max(self.sample_bytes);
            if self.sample_time / bin != time / bin {
                self.bins.push((time / bin * bin, self.bin_max));
                self.bin_max = 0;
            }
            (self.sample_time, self.sample_bytes) = (time, 0);
        }
        self.sample_bytes += row.queued.get();
    }
}

/// The samples of watched queues and buffers.
#[derive(Debug)]
pub(super) struct QueueLog {
    /// The samples of each watched queue.
    queues: Vec<Vec<QueueSample>>,
    /// The occupancy of each watched buffer.
    buffers: BTreeMap<SwitchId, BufferLog>,
}

impl QueueLog {
    pub(super) fn new(resolved: &ResolvedRun) -> Self {
        let switches = resolved.buffers.iter().flat_map(|buffer| &buffer.switches);
        Self {
            queues: vec![Vec::new(); resolved.queues.len()],
            buffers: switches.map(|switch| (*switch, BufferLog::default())).collect(),
        }
    }

    pub(super) fn record(&mut self, resolved: &ResolvedRun, row: &QueueRow) {
        for (queue, samples) in resolved.queues.iter().zip(&mut self.queues) {
            if queue.port == SwitchPort::new(row.switch, row.port) {
                samples.push(QueueSample {
                    queued: row.queued.get(),
                    delay: row.delay.get(),
                    sent: row.sent.get(),
                });
            }
        }
        if let Some(buffer) = self.buffers.get_mut(&row.switch) {
            buffer.add(row, resolved.bin.get());
        }
    }

    /// Returns the sorted bin maxima of these switches in bytes, for bins that end within an interval.
    fn bin_maxima(&self, switches: &[SwitchId], from: u64, to: u64) -> Vec<f64> {
        let bins =
            switches.iter().filter_map(|switch| self.buffers.get(switch)).flat_map(|buffer| &buffer.bins);
        let mut maxima: Vec<f64> =
            bins.filter(|(end, _)| *end > from && *end <= to).map(|(_, max)| *max as f64).collect();
        maxima.sort_unstable_by(f64::total_cmp);
        maxima
    }
}

impl Reducer<'_> {
    /// Adds the metrics of all watched queues.
    pub(super) fn queue_metrics(&self, window: &PhaseWindow, values: &mut BTreeMap<String, f64>) {
        let sample_interval = self.plan().sample_every.get();
        let (from, to) = (self.sample_time(window.settled_at), self.sample_time(window.end));
        for (queue, samples) in self.resolved.queues.iter().zip(&self.queues.queues) {
            let index =
                |time: u64| usize::try_from((time / sample_interval).saturating_sub(1)).unwrap_or(usize::MAX);
            let Some(measured) = samples.get(index(from)..=index(to).min(samples.len().saturating_sub(1)))
            else {
                continue;
            };
            let mut put = |name: &str, value: f64| {
                if value.is_finite() {
                    values.insert(format!("{}.{name}", queue.name), value);
                }
            };
            put_queue_lengths(measured, &mut put);
            self.put_utilisation(measured, queue.rate.get() as f64, &mut put);
        }
    }

    /// Adds a queue's link utilisation and its length ripple. `rate` is in bits per second.
    fn put_utilisation(&self, samples: &[QueueSample], rate: f64, put: &mut dyn FnMut(&str, f64)) {
        let sample_interval = self.plan().sample_every.get();
        let [first, .., last] = samples else { return };
        let utilisation = |first: &QueueSample, last: &QueueSample, intervals: usize| {
            (last.sent - first.sent) as f64 * 8.0
                / (rate * (intervals as u64 * sample_interval) as f64 / 1e12)
        };
        put("utilisation", utilisation(first, last, samples.len() - 1));
        let samples_per_bin =
            usize::try_from(self.resolved.bin.get() / sample_interval).unwrap_or(usize::MAX);
        let bins = samples.windows(samples_per_bin.saturating_add(1)).step_by(samples_per_bin);
        let bin_utilisation = |bin: &[QueueSample]| utilisation(&bin[0], &bin[bin.len() - 1], bin.len() - 1);
        put("utilisation_min", bins.clone().map(bin_utilisation).fold(f64::NAN, f64::min));
        let ripple = |bin: &[QueueSample]| {
            let queued = bin.iter().map(|sample| sample.queued);
            (queued.clone().max().unwrap_or(0) - queued.min().unwrap_or(0)) as f64
        };
        let ripples: Vec<f64> = bins.map(ripple).collect();
        put("waiting_ripple_bytes", mean(&ripples).unwrap_or(f64::NAN));
    }

    /// Adds the metrics of all watched buffers.
    pub(super) fn buffer_metrics(&self, window: &PhaseWindow, values: &mut BTreeMap<String, f64>) {
        for buffer in &self.resolved.buffers {
            let (from, to) = (window.settled_at.get(), window.end.get());
            let maxima = self.queues.bin_maxima(&buffer.switches, from, to);
            let mut put = |name: &str, value: Option<f64>| {
                if let Some(value) = value {
                    values.insert(format!("{}.{name}", buffer.name), value);
                }
            };
            put("buffer_mean_bytes", mean(&maxima));
            put("buffer_max_bytes", maxima.last().copied());
            for (share, name) in [(0.5, "p50"), (0.99, "p99")] {
                let value = percentile(&maxima, share).filter(|_| supports_percentile(share, maxima.len()));
                put(&format!("buffer_{name}_bytes"), value);
            }
        }
    }

    /// Adds the occupancy distribution of each watched buffer in the last phase.
    pub(super) fn buffer_distributions(&self, summary: &mut Summary) {
        let last_phase = self.resolved.phases.last();
        for buffer in &self.resolved.buffers {
            let from = last_phase.map_or(0, |window| window.settled_at.get());
            let to = self.resolved.measured_until.get();
            let maxima = self.queues.bin_maxima(&buffer.switches, from, to);
            if !maxima.is_empty() {
                let points = cumulative_shares(maxima.len(), |share| percentile(&maxima, share));
                summary.distributions.insert(format!("{}.buffer_bytes", buffer.name), points);
            }
        }
    }

    /// Adds time series of each queue's delay, length and send rate.
    pub(super) fn queue_series(&self, summary: &mut Summary) {
        let sample_interval = self.plan().sample_every.get();
        for (queue, samples) in self.resolved.queues.iter().zip(&self.queues.queues) {
            let time_us = |index: usize| (index + 1) as f64 * sample_interval as f64 / 1e6;
            let series = |value: fn(&QueueSample) -> f64| {
                samples.iter().enumerate().map(|(i, sample)| (time_us(i), value(sample))).collect::<Vec<_>>()
            };
            summary.series.insert(format!("{}.delay_us", queue.name), series(|s| s.delay as f64 / 1e3));
            summary.series.insert(format!("{}.waiting_bytes", queue.name), series(|s| s.queued as f64));
            let samples_per_bin =
                usize::try_from(self.resolved.bin.get() / sample_interval).unwrap_or(usize::MAX);
            let send_rate = |(bin, samples): (usize, &[QueueSample])| {
                let bits = (samples[samples.len() - 1].sent - samples[0].sent) as f64 * 8.0;
                (time_us((bin + 1) * samples_per_bin), bits * 1e3 / self.resolved.bin.get() as f64)
            };
            let bins =
                samples.windows(samples_per_bin.saturating_add(1)).step_by(samples_per_bin).enumerate();
            summary.series.insert(format!("{}.sent_gbps", queue.name), bins.map(send_rate).collect());
        }
    }
}

/// Adds the queueing delay and queue length metrics of these samples.
fn put_queue_lengths(samples: &[QueueSample], put: &mut dyn FnMut(&str, f64)) {
    if samples.len() < 2 {
        return;
    }
    let sorted = |value: fn(&QueueSample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let delays = sorted(|sample| sample.delay as f64 / 1e3);
    put("delay_mean_us", mean(&delays).unwrap_or(f64::NAN));
    for (share, name) in [(0.5, "delay_p50_us"), (0.95, "delay_p95_us"), (0.99, "delay_p99_us")] {
        if supports_percentile(share, delays.len()) {
            put(name, percentile(&delays, share).unwrap_or(f64::NAN));
        }
    }
    let queued = sorted(|sample| sample.queued as f64);
    put("waiting_mean_bytes", mean(&queued).unwrap_or(f64::NAN));
    for (share, name) in [(0.5, "p50"), (0.95, "p95"), (0.99, "p99")] {
        if supports_percentile(share, queued.len()) {
            let value = percentile(&queued, share).unwrap_or(f64::NAN);
            put(&format!("waiting_{name}_bytes"), value);
        }
    }
    let (low, high) = (queued[0], queued[queued.len() - 1]);
    put("waiting_max_bytes", high);
    put("waiting_swing_bytes", high - low);
}
