//! Metrics for congestion windows and smoothed RTTs at senders.

use super::{Reducer, to_us};
use crate::resolve::{ResolvedRun, TrafficGroup};
use crate::summary::Summary;
use poseidon_plan::records::SenderRow;

/// The sums of a connection's samples in one phase.
#[derive(Clone, Copy, Debug, Default)]
struct SenderSums {
    window: f64,
    squared_window: f64,
    srtt: f64,
    count: f64,
}

/// A sample of a group's first connection.
#[derive(Clone, Copy, Debug)]
struct SenderSample {
    time_us: f64,
    window: f64,
    srtt_us: f64,
}

/// Sender-side samples of the watched connections.
#[derive(Debug)]
pub(super) struct SenderLog {
    /// The sums for each watched connection in each phase.
    sums: Vec<Vec<SenderSums>>,
    /// The samples of each group's first connection.
    series: Vec<Vec<SenderSample>>,
}

impl SenderLog {
    pub(super) fn new(resolved: &ResolvedRun) -> Self {
        let phases = resolved.phases.len();
        Self {
            sums: vec![vec![SenderSums::default(); phases]; resolved.plan.watched_connections.len()],
            series: vec![Vec::new(); resolved.groups.len()],
        }
    }

    /// Records a sample. `series` is the index of the group whose time series contains the sample.
    pub(super) fn record(
        &mut self,
        row: &SenderRow,
        watched: usize,
        phase: Option<usize>,
        series: Option<usize>,
    ) {
        let window = row.window.q24() as f64 / f64::from(1 << 24);
        if let Some(phase) = phase {
            let sums = &mut self.sums[watched][phase];
            sums.window += window;
            sums.squared_window += window * window;
            sums.srtt += row.srtt.get() as f64;
            sums.count += 1.0;
        }
        if let Some(group) = series {
            let sample =
                SenderSample { time_us: to_us(row.time), window, srtt_us: row.srtt.get() as f64 / 1e3 };
            self.series[group].push(sample);
        }
    }
}

impl Reducer<'_> {
    /// Adds the mean and the standard deviation of the window, and the mean smoothed RTT, of these connections.
    pub(super) fn sender_metrics(&self, watched: &[usize], phase: usize, put: &mut dyn FnMut(&str, f64)) {
        let mut total = SenderSums::default();
        for watched in watched {
            let sums = self.senders.sums[*watched][phase];
            total.window += sums.window;
            total.squared_window += sums.squared_window;
            total.srtt += sums.srtt;
            total.count += sums.count;
        }
        let window = total.window / total.count;
        put("window_packets", window);
        // The mean of the squares is not below the square of the mean, but for rounding.
        let variance = (total.squared_window / total.count - window * window).max(0.0);
        put("window_sd_packets", variance.sqrt());
        put("srtt_us", total.srtt / total.count / 1e3);
    }

    /// For long flows, adds time series of the first connection's window and smoothed RTT.
    pub(super) fn sender_series(&self, index: usize, group: &TrafficGroup, summary: &mut Summary) {
        let samples = &self.senders.series[index];
        if group.is_long && !samples.is_empty() {
            let series = |value: fn(&SenderSample) -> f64| {
                samples.iter().map(|sample| (sample.time_us, value(sample))).collect::<Vec<_>>()
            };
            let windows = series(|sample| sample.window);
            summary.series.insert(format!("{}.window_packets", group.name), windows);
            let srtts = series(|sample| sample.srtt_us);
            summary.series.insert(format!("{}.srtt_us", group.name), srtts);
        }
    }
}
