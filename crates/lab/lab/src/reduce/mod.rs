//! Reduces a run's rows to its summary. The reducer stores only what the summary needs.

mod collectives;
mod decisions;
mod ideal;
mod links;
mod message_log;
mod messages;
mod queues;
mod rates;
mod ring_log;
mod senders;

pub use ideal::{ideal_latency, ideal_latency_us};
pub(crate) use messages::{format_percent, not_reached};

use crate::resolve::{PhaseWindow, ResolvedRun, TrafficGroup};
use crate::samples::MessageSamples;
use crate::stats::{percentile, supports_percentile};
use crate::summary::{PhaseSummary, Summary};
use decisions::DecisionLog;
use links::LinkLog;
use message_log::{MessageLatency, MessageLog};
use poseidon_plan::deadlock::deadlocked_ports;
use poseidon_plan::recording::NodePort;
use poseidon_plan::records::{
    DecisionRow, MessageRow, PauseTimeRow, PauseWaitRow, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
    TrimRow,
};
use poseidon_plan::topology::Node;
use poseidon_plan::{Plan, Report, SwitchPort};
use poseidon_types::{ConnectionId, Picos};
use queues::QueueLog;
use rates::ReceiverLog;
use senders::SenderLog;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The cumulative shares at which a distribution is stored.
pub(crate) const SHARES: &[f64] = &[
    0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8,
    0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.992, 0.994, 0.995, 0.996, 0.997, 0.998,
    0.9985, 0.999, 0.9995, 0.9999,
];

/// A sink that reduces rows to a summary.
#[derive(Debug)]
pub struct Reducer<'a> {
    resolved: &'a ResolvedRun,
    /// Whether the summary contains time series. Figures show only the first seed's time series.
    include_series: bool,
    connections: ConnectionIndex,
    receivers: ReceiverLog,
    senders: SenderLog,
    queues: QueueLog,
    links: LinkLog,
    decisions: DecisionLog,
    messages: MessageLog<'a>,
    trims: Vec<TrimRow>,
    pause_times: Vec<PauseTimeRow>,
    pause_waits: Vec<PauseWaitRow>,
}

impl<'a> Reducer<'a> {
    /// Creates a reducer for a run. `include_series` determines whether the summary contains time series.
    pub fn new(resolved: &'a ResolvedRun, include_series: bool) -> Self {
        Self {
            resolved,
            include_series,
            connections: ConnectionIndex::new(resolved),
            receivers: ReceiverLog::new(&resolved.plan),
            senders: SenderLog::new(resolved),
            queues: QueueLog::new(resolved),
            links: LinkLog::new(resolved),
            decisions: DecisionLog::new(resolved),
            messages: MessageLog::new(resolved),
            trims: Vec::new(),
            pause_times: Vec::new(),
            pause_waits: Vec::new(),
        }
    }

    fn plan(&self) -> &'a Plan {
        &self.resolved.plan
    }

    /// Returns the index of the phase that is being measured at `time`.
    fn phase_at(&self, time: Picos) -> Option<usize> {
        self.resolved.phases.iter().position(|window| window.settled_at <= time && time <= window.end)
    }

    /// Returns a connection's traffic group and the group's index.
    fn group(&self, connection: ConnectionId) -> Option<(usize, &'a TrafficGroup)> {
        let index = self.connections.group_index(connection);
        self.resolved.groups.get(index).map(|group| (index, group))
    }

    /// Returns the watch-list index of each connection in a group.
    fn watched_indices(&self, group: &TrafficGroup) -> impl Iterator<Item = usize> + '_ {
        group
            .connections
            .clone()
            .map(|connection| self.connections.watched_index(ConnectionId::new(connection)))
    }

    /// Returns whether every counted message has finished, so that the drain can end.
    pub fn has_drained(&self) -> bool {
        self.messages.has_drained()
    }

    /// Returns the summary.
    pub fn summary(self, report: &Report) -> Summary {
        self.finish(report).0
    }

    /// Returns the summary and the times of all counted messages.
    pub fn finish(mut self, report: &Report) -> (Summary, MessageSamples) {
        let mut summary = Summary::default();
        let mut samples = MessageSamples::default();
        let latencies: Vec<Vec<MessageLatency>> = self
            .resolved
            .groups
            .iter()
            .map(
                |group| if group.is_long { Vec::new() } else { self.messages.latencies(group, report.ended) },
            )
            .collect();
        self.decisions.sort_rtts();
        for (phase, window) in self.resolved.phases.iter().enumerate() {
            if let Some(window) = completed_part(window, report) {
                let phase_summary = self.phase_summary(phase, &window, report, &latencies, &mut samples);
                summary.phases.push(phase_summary);
            }
        }
        self.collective_times(&mut summary);
        self.rtt_distributions(&mut summary);
        self.buffer_distributions(&mut summary);
        self.latency_distributions(&samples, &mut summary);
        if self.include_series {
            for (index, group) in self.resolved.groups.iter().enumerate() {
                self.rate_series(group, &mut summary);
                self.sender_series(index, group, &mut summary);
            }
            self.finish_times(&latencies, &mut summary);
            self.queue_series(&mut summary);
        }
        (summary, samples)
    }

    /// Returns a phase's metrics and adds its messages to `samples`.
    fn phase_summary(
        &self,
        phase: usize,
        window: &PhaseWindow,
        report: &Report,
        latencies: &[Vec<MessageLatency>],
        samples: &mut MessageSamples,
    ) -> PhaseSummary {
        let mut summary = PhaseSummary {
            name: window.name.clone(),
            begins_us: to_us(window.start),
            ends_us: to_us(window.end),
            measured_from_us: to_us(self.resolved.measured_from(window)),
            messages_from_us: to_us(self.resolved.messages_from(window)),
            ..PhaseSummary::default()
        };
        for selector in self.message_selectors() {
            let selection = self.message_metrics(&selector, window, latencies, &mut summary);
            samples.selections.push(selection);
        }
        self.collective_metrics(window, &mut summary);
        let mut values = BTreeMap::new();
        self.flow_metrics(phase, window, &mut values);
        self.queue_metrics(window, &mut values);
        self.buffer_metrics(window, &mut values);
        self.link_metrics(&mut values);
        report_metrics(report, &mut values);
        self.trim_metrics(report, &mut values);
        self.pause_metrics(&mut values);
        summary.values.extend(values);
        summary
    }

    /// Adds the metrics of packet trimming, if switches trim packets.
    fn trim_metrics(&self, report: &Report, values: &mut BTreeMap<String, f64>) {
        if self.plan().switch.trim.is_none() {
            return;
        }
        let mut put = |name: String, value: u64| values.insert(name, value as f64);
        put("run.trimmed".into(), report.trimmed);
        put("run.trimmed_last_hop".into(), report.trimmed_at_last_hop);
        put("run.trimmed_port_max".into(), self.trims.iter().map(|row| row.trimmed).max().unwrap_or(0));
        put("run.nacks".into(), report.nacks);
        for queue in &self.resolved.queues {
            let row = self.trims.iter().find(|row| SwitchPort::new(row.switch, row.port) == queue.port);
            put(format!("{}.trimmed_packets", queue.name), row.map_or(0, |row| row.trimmed));
        }
    }

    /// Adds the pause times of ports, if the scenario observes them.
    fn pause_metrics(&self, values: &mut BTreeMap<String, f64>) {
        if !self.resolved.measures_pauses {
            return;
        }
        let times: Vec<f64> = self.pause_times.iter().map(|row| to_us(row.paused)).collect();
        let longest = times.iter().copied().fold(0.0, f64::max);
        values.insert("run.paused_ports".into(), times.len() as f64);
        values.insert("run.paused_us".into(), times.iter().sum());
        values.insert("run.paused_port_max_us".into(), longest);
        values.insert("run.deadlocked_ports".into(), deadlocked_ports(&self.pause_waits).len() as f64);
        for queue in &self.resolved.queues {
            let port = NodePort::new(Node::Switch(queue.port.switch), queue.port.port);
            let row = self.pause_times.iter().find(|row| row.port == port);
            let paused = row.map_or(0.0, |row| to_us(row.paused));
            values.insert(format!("{}.paused_us", queue.name), paused);
        }
    }

    /// Adds the rate, fairness and decision metrics.
    fn flow_metrics(&self, phase: usize, window: &PhaseWindow, values: &mut BTreeMap<String, f64>) {
        for (index, group) in self.resolved.groups.iter().enumerate() {
            let mut put = |name: &str, value: f64| {
                if value.is_finite() {
                    values.insert(format!("{}.{name}", group.name), value);
                }
            };
            if group.is_long && group.has_rates {
                self.rate_metrics(group, window, phase, &mut put);
            }
            if group.has_rates {
                self.fairness_metrics(group, window, &mut put);
            }
            if group.has_decisions {
                self.decision_metrics(index, group, phase, &mut put);
            }
        }
    }
}

/// Returns the part of a phase that the run completed: the whole phase unless the run was interrupted. Averages cover
/// only this part. Returns `None` if the run ended before the measured part of the phase.
fn completed_part<'w>(window: &'w PhaseWindow, report: &Report) -> Option<Cow<'w, PhaseWindow>> {
    if !report.interrupted || report.ended >= window.end {
        return Some(Cow::Borrowed(window));
    }
    (report.ended > window.settled_at)
        .then(|| Cow::Owned(PhaseWindow { end: report.ended, ..window.clone() }))
}

/// The traffic group and watch-list index of each connection.
#[derive(Debug)]
struct ConnectionIndex {
    group: Vec<u32>,
    watched: Vec<u32>,
}

impl ConnectionIndex {
    /// The entry for a connection that has no group or is not watched.
    const NONE: u32 = u32::MAX;

    fn new(resolved: &ResolvedRun) -> Self {
        let plan = &resolved.plan;
        let mut group = vec![Self::NONE; plan.connections.len()];
        for (index, traffic) in (0..).zip(&resolved.groups) {
            traffic.connections.clone().for_each(|connection| group[connection as usize] = index);
        }
        let mut watched = vec![Self::NONE; plan.connections.len()];
        for (index, connection) in (0..).zip(&plan.watched_connections) {
            watched[connection.index()] = index;
        }
        Self { group, watched }
    }

    /// Returns the index of a connection's group, which is out of range if the connection has no group.
    fn group_index(&self, connection: ConnectionId) -> usize {
        self.group[connection.index()] as usize
    }

    /// Returns a connection's index in the watch list, which is out of range if the connection is not watched.
    fn watched_index(&self, connection: ConnectionId) -> usize {
        self.watched[connection.index()] as usize
    }
}

/// Converts a time to microseconds.
fn to_us(time: Picos) -> f64 {
    time.get() as f64 / 1e6
}

/// Returns a distribution at the stored shares for which there are enough samples.
pub(crate) fn cumulative_shares(samples: usize, percentile: impl Fn(f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let supported = SHARES.iter().filter(|share| **share < 0.5 || supports_percentile(**share, samples));
    supported.filter_map(|share| Some((percentile(*share)?, *share))).collect()
}

/// Adds the percentiles for which there are enough sorted values.
fn put_percentiles(sorted: &[f64], scale: f64, name: &str, unit: &str, put: &mut dyn FnMut(&str, f64)) {
    for (share, percentile_name) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")] {
        if supports_percentile(share, sorted.len()) {
            put(
                &format!("{name}_{percentile_name}{unit}"),
                percentile(sorted, share).unwrap_or(f64::NAN) * scale,
            );
        }
    }
}

/// Adds the metrics of the whole run.
fn report_metrics(report: &Report, values: &mut BTreeMap<String, f64>) {
    let mut put = |name: &str, value: u64| values.insert(format!("run.{name}"), value as f64);
    put("drops", report.dropped);
    put("retransmitted", report.retransmitted);
    put("timeouts", report.timeouts);
    put("marks", report.marks);
    put("repaths", report.repaths);
    put("pauses", report.pauses);
    put("decisions", report.decisions);
    put("packet_hops", report.packet_hops);
    let mut put_share = |name: &str, part: u64, whole: u64| {
        if whole > 0 {
            values.insert(format!("run.{name}"), part as f64 / whole as f64);
        }
    };
    put_share("retransmitted_share", report.retransmitted, report.sent);
    put_share("telemetry_share", report.decisions_with_telemetry, report.decisions);
    put_share("marks_taken_share", report.marks_carried, report.marks);
    if report.max_lateness > Picos::ZERO {
        values.insert("run.late_ms".into(), report.max_lateness.get() as f64 / 1e9);
    }
}

impl Sink for Reducer<'_> {
    fn record_message(&mut self, row: MessageRow) {
        let Some(connection) = self.plan().connection_of(row.message) else { return };
        let Some((_, group)) = self.group(connection) else { return };
        if group.is_long {
            return;
        }
        self.messages.on_acknowledged(&row);
        self.receivers.record_finish(self.connections.watched_index(connection), row.acknowledged);
    }

    fn record_received(&mut self, row: ReceivedRow) {
        self.messages.on_received(&row);
    }

    fn record_trims(&mut self, row: TrimRow) {
        self.trims.push(row);
    }

    fn record_pause_time(&mut self, row: PauseTimeRow) {
        self.pause_times.push(row);
    }

    fn record_pause_wait(&mut self, row: PauseWaitRow) {
        self.pause_waits.push(row);
    }

    fn record_queue(&mut self, row: QueueRow) {
        self.queues.record(self.resolved, &row);
        self.links.record(&row);
    }

    fn record_sender(&mut self, row: SenderRow) {
        let watched = self.connections.watched_index(row.connection);
        let phase = self.phase_at(row.time);
        // Only the first connection in a group has a time series.
        let series = if self.include_series {
            let group = self.group(row.connection);
            group.filter(|(_, group)| group.connections.start == row.connection.get()).map(|(index, _)| index)
        } else {
            None
        };
        self.senders.record(&row, watched, phase, series);
    }

    fn record_receiver(&mut self, row: ReceiverRow) {
        self.receivers.record(self.connections.watched_index(row.connection), row.received);
    }

    fn record_decision(&mut self, row: DecisionRow) {
        let Some((group_index, group)) = self.group(row.connection) else { return };
        if !group.has_decisions {
            return;
        }
        let watched = self.connections.watched_index(row.connection);
        let phase = self.phase_at(row.time);
        self.decisions.record(&row, watched, group_index, phase);
    }
}
