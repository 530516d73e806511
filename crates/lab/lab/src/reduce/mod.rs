//! From rows to numbers: a sink that keeps what the summary needs and no more.

mod decisions;
mod ideal;
mod messages;
mod queues;
mod rates;

pub use ideal::ideal_us;
pub(crate) use messages::{not_reached, percent};

use crate::resolve::{GroupOf, Resolved};
use crate::samples::MessageSamples;
use crate::stats::{can_carry, percentile};
use crate::summary::{PhaseSummary, Summary};
use messages::{Chosen, MessageLog, MessageTime};
use poseidon_plan::records::{
    DecisionRow, DropRow, MessageRow, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_plan::{Plan, Report};
use poseidon_types::{Bytes, Picos};
use queues::{Buffer, QueueSample};
use std::collections::BTreeMap;

/// No group.
const NOBODY: u32 = u32::MAX;
/// Series are kept of each flow of a group where it has at most so many.
const FEW: u32 = 16;
/// Where the shares of a distribution are kept.
pub(crate) const SHARES: &[f64] = &[
    0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8,
    0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.992, 0.994, 0.995, 0.996, 0.997, 0.998,
    0.9985, 0.999, 0.9995, 0.9999,
];

/// Takes the rows of a run and keeps what its summary needs.
#[derive(Debug)]
pub struct Reducer<'a> {
    resolved: &'a Resolved,
    keeps_series: bool,
    /// Per connection: its group, and its place among those that are watched.
    group_of: Vec<u32>,
    watched_at: Vec<u32>,
    /// Per watched connection: payload received, sample by sample.
    received: Vec<Vec<u64>>,
    /// Per watched connection and phase: sums of window and smoothed round-trip time, and how many.
    senders: Vec<Vec<[f64; 3]>>,
    /// Per group: window and smoothed round-trip time of its first flow over time.
    sender_series: Vec<Vec<(f64, f64, f64)>>,
    /// Per watched queue: samples.
    queues: Vec<Vec<QueueSample>>,
    /// Per group with decisions and phase: round-trip times, ns.
    rtts: Vec<Vec<Vec<f64>>>,
    /// Per group with decisions and phase: the sum of what those round trips are when nothing waits, ns.
    unloaded: Vec<Vec<f64>>,
    /// Per group with decisions and phase: sum of hop delays, ns, and how many.
    signals: Vec<Vec<(f64, f64)>>,
    /// Per watched connection: the last window and when it was cut, ps.
    cuts: Vec<(u64, Vec<u64>)>,
    /// When messages began, arrived and were acknowledged.
    log: MessageLog<'a>,
    /// Per group: what became of its messages, once the run has ended.
    messages: Vec<Vec<MessageTime>>,
    /// Per watched connection: when its last message was acknowledged, ps.
    ended: Vec<Option<u64>>,
    /// By switch: watched buffers.
    buffers: BTreeMap<u32, Buffer>,
    /// Per watched connection: its round trip when nothing waits, ns.
    base_rtts: Vec<f64>,
}

impl<'a> Reducer<'a> {
    /// For a run of this; `keeps_series` for the one whose series are drawn.
    pub fn new(resolved: &'a Resolved, keeps_series: bool) -> Self {
        let plan = &resolved.plan;
        let mut group_of = vec![NOBODY; plan.connections.len()];
        for (index, group) in (0..).zip(&resolved.groups) {
            group.connections.clone().for_each(|connection| group_of[connection as usize] = index);
        }
        let mut watched_at = vec![NOBODY; plan.connections.len()];
        for (index, connection) in (0..).zip(&plan.watched_connections) {
            watched_at[*connection as usize] = index;
        }
        let watched = plan.watched_connections.len();
        let (groups, phases) = (resolved.groups.len(), resolved.phases.len());
        Self {
            resolved,
            keeps_series,
            group_of,
            watched_at,
            received: vec![Vec::new(); watched],
            senders: vec![vec![[0.0; 3]; phases]; watched],
            sender_series: vec![Vec::new(); groups],
            queues: vec![Vec::new(); resolved.queues.len()],
            rtts: vec![vec![Vec::new(); phases]; groups],
            unloaded: vec![vec![0.0; phases]; groups],
            signals: vec![vec![(0.0, 0.0); phases]; groups],
            cuts: vec![(0, Vec::new()); watched],
            log: MessageLog::new(resolved),
            messages: vec![Vec::new(); groups],
            ended: vec![None; watched],
            buffers: resolved
                .buffers
                .iter()
                .flat_map(|buffer| &buffer.switches)
                .map(|switch| (*switch, Buffer::default()))
                .collect(),
            base_rtts: plan
                .watched_connections
                .iter()
                .map(|connection| {
                    let ends = plan.connections[*connection as usize];
                    plan.base_rtt(ends.from, ends.to).get() as f64 / 1e3
                })
                .collect(),
        }
    }

    fn plan(&self) -> &'a Plan {
        &self.resolved.plan
    }

    /// The phase that is being measured at a time.
    fn phase_at(&self, at: Picos) -> Option<usize> {
        self.resolved.phases.iter().position(|window| window.settled <= at && at <= window.ends)
    }

    fn group(&self, connection: u32) -> Option<(usize, &'a GroupOf)> {
        let index = self.group_of[connection as usize] as usize;
        self.resolved.groups.get(index).map(|group| (index, group))
    }

    /// Whether every message that counts has finished: then a drain has nothing left to wait for.
    pub fn has_drained(&self) -> bool {
        self.log.has_drained()
    }

    /// The numbers.
    pub fn summary(self, report: &Report) -> Summary {
        self.finish(report).0
    }

    /// The numbers, and the times of all messages that count.
    pub fn finish(mut self, report: &Report) -> (Summary, MessageSamples) {
        let mut summary = Summary::default();
        let mut samples = MessageSamples::default();
        let groups = self.resolved.groups.iter().enumerate().filter(|(_, group)| !group.is_long);
        for (index, group) in groups {
            self.messages[index] = self.log.of_group(group, report.ended);
        }
        self.rtts.iter_mut().flatten().for_each(|list| list.sort_unstable_by(f64::total_cmp));
        for phase in 0..self.resolved.phases.len() {
            let window = &self.resolved.phases[phase];
            let mut values = BTreeMap::new();
            let mut of_phase = PhaseSummary { name: window.name.clone(), ..PhaseSummary::default() };
            for (index, group) in self.resolved.groups.iter().enumerate() {
                let mut put = |name: &str, value: f64| {
                    if value.is_finite() {
                        values.insert(format!("{}.{name}", group.name), value);
                    }
                };
                if group.is_long && group.has_rates {
                    self.rates(group, window, phase, &mut put);
                }
                if group.has_rates {
                    self.fairness_values(group, window, &mut put);
                }
                if group.has_decisions {
                    self.decisions(index, group, phase, &mut put);
                }
            }
            for chosen in self.chosen() {
                samples.selections.push(self.message_values(&chosen, window, &mut of_phase));
            }
            self.queue_values(window, &mut values);
            self.buffer_values(window, &mut values);
            report_values(report, &mut values);
            let us = |at: Picos| at.get() as f64 / 1e6;
            of_phase.values.extend(values);
            (of_phase.begins_us, of_phase.ends_us) = (us(window.begins), us(window.ends));
            of_phase.measured_from_us = us(self.resolved.measured_from(window));
            of_phase.messages_from_us = us(self.resolved.messages_from(window));
            summary.phases.push(of_phase);
        }
        self.distributions(&mut summary);
        self.latency_distributions(&samples, &mut summary);
        if self.keeps_series {
            self.series(&mut summary);
        }
        (summary, samples)
    }

    /// Messages by traffic and by class.
    fn chosen(&self) -> Vec<Chosen<'a>> {
        let short = self.resolved.groups.iter().enumerate().filter(|(_, group)| !group.is_long);
        let by_traffic = short.map(|(place, group)| Chosen {
            name: &group.name,
            groups: vec![place],
            from: Bytes::ZERO,
            below: Bytes::MAX,
        });
        let by_class = self.resolved.classes.iter().map(|class| Chosen {
            name: &class.name,
            groups: class.groups.clone(),
            from: class.from,
            below: class.below,
        });
        by_traffic.chain(by_class).collect()
    }

    fn distributions(&self, summary: &mut Summary) {
        for (index, group) in self.resolved.groups.iter().enumerate() {
            let mut rtts: Vec<f64> = self.rtts[index].iter().flatten().copied().collect();
            rtts.sort_unstable_by(f64::total_cmp);
            if !rtts.is_empty() {
                let points = distribution(rtts.len(), |share| Some(percentile(&rtts, share)? * 1e-3));
                summary.distributions.insert(format!("{}.rtt_us", group.name), points);
            }
        }
        self.buffer_distributions(summary);
    }

    fn series(&self, summary: &mut Summary) {
        for (index, group) in self.resolved.groups.iter().enumerate() {
            self.rate_series(index, group, summary);
        }
        self.finishes(summary);
        self.queue_series(summary);
    }
}

/// A distribution by the shares that are kept of one, as far as so many samples carry them.
pub(crate) fn distribution(samples: usize, percentile: impl Fn(f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let carried = SHARES.iter().filter(|share| **share < 0.5 || can_carry(**share, samples));
    carried.filter_map(|share| Some((percentile(*share)?, *share))).collect()
}

fn put_percentiles(sorted: &[f64], scale: f64, name: &str, unit: &str, put: &mut dyn FnMut(&str, f64)) {
    for (share, word) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")] {
        if can_carry(share, sorted.len()) {
            put(&format!("{name}_{word}{unit}"), percentile(sorted, share).unwrap_or(f64::NAN) * scale);
        }
    }
}

fn report_values(report: &Report, values: &mut BTreeMap<String, f64>) {
    let mut put = |name: &str, value: u64| values.insert(format!("run.{name}"), value as f64);
    put("drops", report.dropped);
    put("retransmitted", report.retransmitted);
    put("timeouts", report.timeouts);
    put("marks", report.marks);
    put("repaths", report.repaths);
    put("pauses", report.pauses);
    put("decisions", report.decisions);
    put("packet_hops", report.packet_hops);
    let mut put_share = |name: &str, part: u64, of: u64| {
        if of > 0 {
            values.insert(format!("run.{name}"), part as f64 / of as f64);
        }
    };
    put_share("telemetry_share", report.decisions_with_telemetry, report.decisions);
    put_share("marks_taken_share", report.marks_taken, report.marks);
    if report.late > Picos::ZERO {
        values.insert("run.late_ms".into(), report.late.get() as f64 / 1e9);
    }
}

impl Sink for Reducer<'_> {
    fn message(&mut self, row: MessageRow) {
        let message = self.plan().messages[row.message as usize];
        let Some((_, group)) = self.group(message.connection) else { return };
        if group.is_long {
            return;
        }
        self.log.on_acknowledged(&row);
        if let Some(ended) = self.ended.get_mut(self.watched_at[message.connection as usize] as usize) {
            *ended = Some(row.acknowledged.get());
        }
    }

    fn received(&mut self, row: ReceivedRow) {
        self.log.on_received(&row);
    }

    fn drop(&mut self, _: DropRow) {}

    fn queue(&mut self, row: QueueRow) {
        self.queue_row(&row);
    }

    fn sender(&mut self, row: SenderRow) {
        let place = self.watched_at[row.connection as usize] as usize;
        let window = row.window.q24() as f64 / f64::from(1 << 24);
        if let Some(phase) = self.phase_at(row.at) {
            let [w, r, n] = &mut self.senders[place][phase];
            *w += window;
            *r += row.srtt.get() as f64;
            *n += 1.0;
        }
        if self.keeps_series
            && let Some((index, group)) = self.group(row.connection)
            && group.connections.start == row.connection
        {
            self.sender_series[index].push((row.at.get() as f64 / 1e6, window, row.srtt.get() as f64 / 1e3));
        }
    }

    fn receiver(&mut self, row: ReceiverRow) {
        let place = self.watched_at[row.connection as usize] as usize;
        self.received[place].push(row.received.get());
    }

    fn decision(&mut self, row: DecisionRow) {
        let Some((index, group)) = self.group(row.connection) else { return };
        if !group.has_decisions {
            return;
        }
        let place = self.watched_at[row.connection as usize] as usize;
        let (last, cuts) = &mut self.cuts[place];
        if row.window.q24() < *last {
            cuts.push(row.at.get());
        }
        *last = row.window.q24();
        if let Some(phase) = self.phase_at(row.at) {
            self.rtts[index][phase].push(row.rtt.get() as f64);
            self.unloaded[index][phase] += self.base_rtts[place];
            if let Some(delay) = row.hop_delay {
                let (sum, count) = &mut self.signals[index][phase];
                *sum += delay.get() as f64;
                *count += 1.0;
            }
        }
    }
}
