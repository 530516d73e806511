//! Flow rate metrics: shares, stability, fairness and convergence.

use super::Reducer;
use crate::resolve::{PhaseWindow, TrafficGroup};
use crate::stats::{jain, mean, standard_deviation};
use crate::summary::Summary;
use poseidon_plan::Plan;
use poseidon_plan::traffic::Amount;
use poseidon_types::{Bytes, ConnectionId, Picos};

/// The smallest value of Jain's index at which flows count as fair.
const FAIR_INDEX: f64 = 0.95;

/// The number of steps in which a sliding bin moves by one bin length. Flows have become fair once they are fair in
/// this many consecutive steps.
const STEPS_PER_BIN: usize = 5;

/// The maximum number of flows in a group with per-flow rate series.
const MAX_FLOW_SERIES: usize = 16;

/// Receiver-side samples of the watched connections.
#[derive(Debug)]
pub(super) struct ReceiverLog {
    /// For each watched connection, the received payload in bytes at each sample.
    received: Vec<Vec<u64>>,
    /// The time when the last message of each watched connection was acknowledged, in picoseconds.
    finished: Vec<Option<u64>>,
}

impl ReceiverLog {
    pub(super) fn new(plan: &Plan) -> Self {
        let watched = plan.watched_connections.len();
        Self { received: vec![Vec::new(); watched], finished: vec![None; watched] }
    }

    pub(super) fn record(&mut self, watched: usize, received: Bytes) {
        self.received[watched].push(received.get());
    }

    /// Records a message's finish time. Connections that are not watched are ignored.
    pub(super) fn record_finish(&mut self, watched: usize, time: Picos) {
        if let Some(finished) = self.finished.get_mut(watched) {
            *finished = Some(time.get());
        }
    }
}

/// The period in which a flow is active, in picoseconds.
struct ActivePeriod {
    start: u64,
    end: u64,
    watched: usize,
}

impl Reducer<'_> {
    /// Returns the payload that a connection had received by a sample time, in bytes.
    fn received_bytes(&self, watched: usize, time: u64) -> f64 {
        let index = time / self.plan().sample_every.get();
        let sample = index.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let samples = &self.receivers.received[watched];
        // An interrupted run has fewer samples.
        sample.map_or(0.0, |index| samples.get(index).or_else(|| samples.last()).copied().unwrap_or(0) as f64)
    }

    /// Returns a connection's rate between two times, in Gbps.
    pub(super) fn rate_gbps(&self, watched: usize, from: u64, to: u64) -> f64 {
        (self.received_bytes(watched, to) - self.received_bytes(watched, from)) * 8e3 / (to - from) as f64
    }

    /// Rounds a time down to the last sample time.
    pub(super) fn sample_time(&self, time: Picos) -> u64 {
        let sample_interval = self.plan().sample_every.get();
        time.get() / sample_interval * sample_interval
    }

    /// Adds the rate, fairness and stability metrics of long flows.
    pub(super) fn rate_metrics(
        &self,
        group: &TrafficGroup,
        window: &PhaseWindow,
        phase: usize,
        put: &mut dyn FnMut(&str, f64),
    ) {
        let active: Vec<u32> = group
            .connections
            .clone()
            .filter(|connection| window.fair_shares[*connection as usize] > 0.0)
            .collect();
        put("flows", active.len() as f64);
        let (from, to) = (self.sample_time(window.settled_at), self.sample_time(window.end));
        if active.is_empty() || from >= to {
            return;
        }
        let watched: Vec<usize> =
            active.iter().map(|c| self.connections.watched_index(ConnectionId::new(*c))).collect();
        let rates: Vec<f64> = watched.iter().map(|watched| self.rate_gbps(*watched, from, to)).collect();
        let fair: Vec<f64> = active.iter().map(|c| window.fair_shares[*c as usize] / 1e9).collect();
        let shares: Vec<f64> = rates.iter().zip(&fair).map(|(rate, fair)| rate / fair).collect();
        let mean_of = |values: &[f64]| mean(values).unwrap_or(f64::NAN);
        put("rate_gbps", mean_of(&rates));
        put("rate_min_gbps", rates.iter().copied().fold(f64::INFINITY, f64::min));
        put("rate_max_gbps", rates.iter().copied().fold(0.0, f64::max));
        put("total_gbps", rates.iter().sum());
        put("fair_share_gbps", mean_of(&fair));
        put("share", mean_of(&shares));
        put("share_min", shares.iter().copied().fold(f64::INFINITY, f64::min));
        put("fairness_gap", shares.iter().map(|share| (share - 1.0).abs()).fold(0.0, f64::max));
        put("jain", jain(&rates).unwrap_or(f64::NAN));
        self.put_rate_deviations(&watched, (from, to), mean_of(&fair), put);
        put("converged_us", self.convergence_us(&watched, window).unwrap_or(f64::NAN));
        self.put_ramp_times(group, window, put);
        self.sender_metrics(&watched, phase, put);
    }

    /// Adds the standard deviations of the rates over bins.
    fn put_rate_deviations(
        &self,
        watched: &[usize],
        (from, to): (u64, u64),
        mean_fair_share: f64,
        put: &mut dyn FnMut(&str, f64),
    ) {
        let bin = self.resolved.bin.get();
        let bins: Vec<(u64, u64)> =
            (0..(to - from) / bin).map(|k| (from + k * bin, from + (k + 1) * bin)).collect();
        if bins.len() > 1 {
            let binned: Vec<Vec<f64>> = watched
                .iter()
                .map(|watched| bins.iter().map(|(from, to)| self.rate_gbps(*watched, *from, *to)).collect())
                .collect();
            let all: Vec<f64> = binned.iter().flatten().copied().collect();
            let deviation = standard_deviation(&all).unwrap_or(f64::NAN);
            put("rate_sd_gbps", deviation);
            put("rate_sd_share", deviation / mean_fair_share);
            let per_flow: Vec<f64> = binned.iter().filter_map(|bins| standard_deviation(bins)).collect();
            put("wobble_gbps", mean(&per_flow).unwrap_or(f64::NAN));
        }
    }

    /// Returns the time from the start of a phase until flows are fair in all later bins, in microseconds.
    fn convergence_us(&self, watched: &[usize], window: &PhaseWindow) -> Option<f64> {
        let (from, to) = (self.sample_time(window.start), self.sample_time(window.end));
        let bin = self.resolved.bin.get();
        let mut since = None;
        for k in 0..(to - from) / bin {
            let (start, end) = (from + k * bin, from + (k + 1) * bin);
            let rates: Vec<f64> =
                watched.iter().map(|watched| self.rate_gbps(*watched, start, end)).collect();
            if jain(&rates)? < FAIR_INDEX {
                since = None;
            } else if since.is_none() {
                since = Some((end - window.start.get()) as f64 / 1e6);
            }
        }
        since
    }

    /// Adds the time that flows starting in a phase take to reach 90 % of their fair share.
    fn put_ramp_times(&self, group: &TrafficGroup, window: &PhaseWindow, put: &mut dyn FnMut(&str, f64)) {
        let plan = self.plan();
        let (bin, sample_interval) = (self.resolved.bin.get(), plan.sample_every.get());
        let (mut slowest, mut cuts) = (f64::NAN, Vec::new());
        let (mut started, mut reached) = (0.0, 0.0);
        for message in &group.messages.messages {
            let message = plan.messages[message.index()];
            let fair = window.fair_shares[message.connection.index()] / 1e9;
            if message.start < window.start || message.start >= window.end || fair <= 0.0 {
                continue;
            }
            let watched = self.connections.watched_index(message.connection);
            let first = message.start.get().div_ceil(sample_interval) * sample_interval + bin;
            let last = self.sample_time(window.end);
            let mut ends = (0..).map(|k| first + k * sample_interval).take_while(|end| *end <= last);
            // For a flow that never reaches 90 %, use the time available to the flow.
            let found = ends.find(|end| self.rate_gbps(watched, end - bin, *end) >= 0.9 * fair);
            let end = found.unwrap_or(last);
            started += 1.0;
            reached += f64::from(u8::from(found.is_some()));
            slowest = f64::max(slowest, (end - message.start.get()) as f64 / 1e6);
            cuts.push(self.decisions.count_cuts(watched, message.start.get(), end) as f64);
        }
        put("t90_us", slowest);
        put("t90_reached", reached / started);
        if group.has_decisions {
            put("cuts_to_t90", mean(&cuts).unwrap_or(f64::NAN));
        }
    }

    /// Returns Jain's index over a sliding bin, for the group's flows that are active throughout the bin. Each entry
    /// contains the bin's end time in microseconds and the index. Bins with fewer than two such flows are omitted.
    fn fairness_series(&self, group: &TrafficGroup, from: u64, to: u64) -> Vec<(f64, f64)> {
        let (bin, sample_interval) = (self.resolved.bin.get(), self.plan().sample_every.get());
        let step = (bin / STEPS_PER_BIN as u64 / sample_interval).max(1) * sample_interval;
        let flows: Vec<ActivePeriod> = self.active_periods(group).collect();
        let mut series = Vec::new();
        for end in (from + bin..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let start = end - bin;
            let is_active = |flow: &&ActivePeriod| flow.start <= start && flow.end >= end;
            let rates: Vec<f64> =
                flows.iter().filter(is_active).map(|flow| self.rate_gbps(flow.watched, start, end)).collect();
            if rates.len() > 1
                && let Some(index) = jain(&rates)
            {
                series.push((end as f64 / 1e6, index));
            }
        }
        series
    }

    /// Returns the active period of each flow in a group.
    fn active_periods(&self, group: &TrafficGroup) -> impl Iterator<Item = ActivePeriod> {
        let plan = self.plan();
        group.messages.messages.iter().map(move |message| {
            let message = plan.messages[message.index()];
            let watched = self.connections.watched_index(message.connection);
            let planned_end = match message.amount {
                Amount::Until(until) => until.get(),
                Amount::Exactly(_) => u64::MAX,
            };
            let end = self.receivers.finished[watched].unwrap_or(planned_end);
            ActivePeriod { start: message.start.get(), end, watched }
        })
    }

    /// Adds the time until flows become fair, and their mean fairness over bins.
    pub(super) fn fairness_metrics(
        &self,
        group: &TrafficGroup,
        window: &PhaseWindow,
        put: &mut dyn FnMut(&str, f64),
    ) {
        let start = self.sample_time(window.start);
        let bins = self.fairness_series(group, start, self.sample_time(window.end));
        let Some((last, _)) = bins.last() else { return };
        let is_fair = |steps: &&[(f64, f64)]| steps.iter().all(|(_, index)| *index >= FAIR_INDEX);
        let first_fair = bins.windows(STEPS_PER_BIN).find(is_fair).and_then(|steps| steps.first());
        // If the flows never become fair, use the time available to them.
        let time_us = first_fair.map_or(*last, |(end, _)| *end);
        put("fair_us", time_us - start as f64 / 1e6);
        put("fair_reached", f64::from(u8::from(first_fair.is_some())));
        let indices: Vec<f64> = bins.iter().map(|(_, index)| *index).collect();
        put("jain_mean", mean(&indices).unwrap_or(f64::NAN));
    }

    /// Adds time series of a group's rates and fairness.
    pub(super) fn rate_series(&self, group: &TrafficGroup, summary: &mut Summary) {
        if !group.has_rates || group.connections.is_empty() {
            return;
        }
        let bin = self.resolved.bin.get();
        let end = self.sample_time(self.plan().stop);
        let watched: Vec<usize> = self.watched_indices(group).collect();
        let bins: Vec<(u64, u64)> = (0..end / bin).map(|k| (k * bin, (k + 1) * bin)).collect();
        let flow_series = |watched: usize| -> Vec<(f64, f64)> {
            bins.iter().map(|(from, to)| (*to as f64 / 1e6, self.rate_gbps(watched, *from, *to))).collect()
        };
        if watched.len() <= MAX_FLOW_SERIES {
            for (flow, watched) in watched.iter().enumerate() {
                summary.series.insert(format!("{}[{flow}].rate_gbps", group.name), flow_series(*watched));
            }
        }
        let total = |(from, to): &(u64, u64)| -> f64 {
            watched.iter().map(|watched| self.rate_gbps(*watched, *from, *to)).sum()
        };
        let totals: Vec<(f64, f64)> = bins.iter().map(|bin| (bin.1 as f64 / 1e6, total(bin))).collect();
        let means = totals.iter().map(|(time, total)| (*time, total / watched.len() as f64)).collect();
        summary.series.insert(format!("{}.rate_gbps", group.name), means);
        summary.series.insert(format!("{}.total_gbps", group.name), totals);
        summary.series.insert(format!("{}.jain", group.name), self.fairness_series(group, 0, end));
    }
}
