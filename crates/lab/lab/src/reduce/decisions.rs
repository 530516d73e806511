//! Metrics of law decisions, computed from one row per ACK.

use super::{Reducer, cumulative_shares, put_percentiles};
use crate::resolve::{ResolvedRun, TrafficGroup};
use crate::stats::{mean, percentile};
use crate::summary::Summary;
use poseidon_laws::AnyParams;
use poseidon_plan::records::DecisionRow;

/// A traffic group's samples in one phase.
#[derive(Clone, Debug, Default)]
struct RttSamples {
    /// The RTTs in nanoseconds.
    rtts: Vec<f64>,
    /// The sum of the unloaded RTTs for the same ACKs, in nanoseconds.
    base_rtt_sum: f64,
    /// The sum of the largest hop delays, in nanoseconds.
    hop_delay_sum: f64,
    /// The number of ACKs with a hop delay.
    hop_delay_count: f64,
}

/// The window cuts of a connection.
#[derive(Clone, Debug, Default)]
struct WindowCuts {
    last_window: u64,
    /// The times of the cuts, in picoseconds.
    times: Vec<u64>,
}

/// The logged decisions of the watched connections.
#[derive(Debug)]
pub(super) struct DecisionLog {
    /// The samples of each group in each phase.
    samples: Vec<Vec<RttSamples>>,
    /// The window cuts of each watched connection.
    cuts: Vec<WindowCuts>,
    /// The unloaded RTT of each watched connection, in nanoseconds.
    base_rtts: Vec<f64>,
}

impl DecisionLog {
    pub(super) fn new(resolved: &ResolvedRun) -> Self {
        let plan = &resolved.plan;
        let base_rtt = |connection: &poseidon_types::ConnectionId| {
            let connection = plan.connections[connection.index()];
            plan.base_rtt(connection.from, connection.to).get() as f64 / 1e3
        };
        Self {
            samples: vec![vec![RttSamples::default(); resolved.phases.len()]; resolved.groups.len()],
            cuts: vec![WindowCuts::default(); plan.watched_connections.len()],
            base_rtts: plan.watched_connections.iter().map(base_rtt).collect(),
        }
    }

    pub(super) fn record(&mut self, row: &DecisionRow, watched: usize, group: usize, phase: Option<usize>) {
        let cuts = &mut self.cuts[watched];
        if row.window.q24() < cuts.last_window {
            cuts.times.push(row.time.get());
        }
        cuts.last_window = row.window.q24();
        if let Some(phase) = phase {
            let samples = &mut self.samples[group][phase];
            samples.rtts.push(row.rtt.get() as f64);
            samples.base_rtt_sum += self.base_rtts[watched];
            if let Some(delay) = row.hop_delay {
                samples.hop_delay_sum += delay.get() as f64;
                samples.hop_delay_count += 1.0;
            }
        }
    }

    /// Sorts the RTTs of every group and phase.
    pub(super) fn sort_rtts(&mut self) {
        let samples = self.samples.iter_mut().flatten();
        samples.for_each(|samples| samples.rtts.sort_unstable_by(f64::total_cmp));
    }

    /// Counts the window cuts of a connection between two times, inclusive.
    pub(super) fn count_cuts(&self, watched: usize, from: u64, to: u64) -> usize {
        self.cuts[watched].times.iter().filter(|time| **time >= from && **time <= to).count()
    }
}

impl Reducer<'_> {
    /// Adds a group's metrics for RTT, queueing delay, hop delay and window cuts.
    pub(super) fn decision_metrics(
        &self,
        index: usize,
        group: &TrafficGroup,
        phase: usize,
        put: &mut dyn FnMut(&str, f64),
    ) {
        let window = &self.resolved.phases[phase];
        let samples = &self.decisions.samples[index][phase];
        let rtts = &samples.rtts;
        let Some(rtt) = mean(rtts) else { return };
        put("rtt_mean_us", rtt / 1e3);
        put_percentiles(rtts, 1e-3, "rtt", "_us", put);
        put("queueing_us", (rtt - samples.base_rtt_sum / rtts.len() as f64) / 1e3);
        put("signal_us", samples.hop_delay_sum / samples.hop_delay_count / 1e3);
        let count_cuts =
            |watched| self.decisions.count_cuts(watched, window.settled_at.get(), window.end.get()) as f64;
        let cuts: Vec<f64> = self.watched_indices(group).map(count_cuts).collect();
        put("cuts", mean(&cuts).unwrap_or(f64::NAN));
        let plan = self.plan();
        let law = plan.connections[group.connections.start as usize].law;
        if let AnyParams::Poseidon(params) = &plan.laws[law as usize] {
            let (from, to) = (self.sample_time(window.settled_at), self.sample_time(window.end));
            // Use only the long flows that run throughout the phase.
            let runs_throughout = |watched: &usize| {
                !group.is_long || window.fair_shares[plan.watched_connections[*watched].index()] > 0.0
            };
            let rates: Vec<f64> = self
                .watched_indices(group)
                .filter(runs_throughout)
                .map(|watched| self.rate_gbps(watched, from, to))
                .collect();
            put("target_us", crate::analytic::target_us(params, mean(&rates).unwrap_or(f64::NAN)));
        }
    }

    /// Adds the RTT distribution of each group.
    pub(super) fn rtt_distributions(&self, summary: &mut Summary) {
        for (group, phases) in self.resolved.groups.iter().zip(&self.decisions.samples) {
            let mut rtts: Vec<f64> = phases.iter().flat_map(|samples| &samples.rtts).copied().collect();
            rtts.sort_unstable_by(f64::total_cmp);
            if !rtts.is_empty() {
                let points = cumulative_shares(rtts.len(), |share| Some(percentile(&rtts, share)? * 1e-3));
                summary.distributions.insert(format!("{}.rtt_us", group.name), points);
            }
        }
    }
}
