//! From rows to numbers: a sink that keeps what the summary needs and no more.

use crate::resolve::{GroupOf, Resolved, Window};
use crate::stats::{can_carry, jain, mean, percentile, standard_deviation};
use crate::summary::{PhaseSummary, Summary};
use poseidon_laws::AnyParams;
use poseidon_plan::records::{
    DecisionRow, DropRow, MessageRow, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_plan::{Plan, Report};
use poseidon_types::{Bytes, Picos};
use std::collections::BTreeMap;

/// No group.
const NOBODY: u32 = u32::MAX;
/// Series are kept of each flow of a group where it has at most so many.
const FEW: u32 = 16;
/// Where the shares of a distribution are kept.
const SHARES: &[f64] = &[
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
    /// Per group: start and latency in us, slowdown.
    latencies: Vec<Vec<(f64, f64, f64)>>,
    /// Per group: start, and from there to arrival, us.
    arrivals: Vec<Vec<(f64, f64)>>,
    /// Per watched connection: its round trip when nothing waits, ns.
    base_rtts: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct QueueSample {
    waiting: u64,
    delay: u64,
    sent: u64,
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
            latencies: vec![Vec::new(); groups],
            arrivals: vec![Vec::new(); groups],
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

    /// The numbers.
    pub fn summary(mut self, report: &Report) -> Summary {
        let mut summary = Summary::default();
        self.rtts.iter_mut().flatten().for_each(|list| list.sort_unstable_by(f64::total_cmp));
        for phase in 0..self.resolved.phases.len() {
            let window = &self.resolved.phases[phase];
            let mut values = BTreeMap::new();
            for (index, group) in self.resolved.groups.iter().enumerate() {
                let mut put = |name: &str, value: f64| {
                    if value.is_finite() {
                        values.insert(format!("{}.{name}", group.name), value);
                    }
                };
                if group.is_long && group.has_rates {
                    self.rates(group, window, phase, &mut put);
                }
                if group.has_decisions {
                    self.decisions(index, group, phase, &mut put);
                }
                if !group.is_long {
                    self.messages(index, group, window, &mut put);
                }
            }
            self.queue_values(window, &mut values);
            report_values(report, &mut values);
            let us = |at: Picos| at.get() as f64 / 1e6;
            summary.phases.push(PhaseSummary {
                name: window.name.clone(),
                begins_us: us(window.begins),
                ends_us: us(window.ends),
                values,
            });
        }
        self.distributions(&mut summary);
        if self.keeps_series {
            self.series(&mut summary);
        }
        summary
    }

    /// Payload that a watched connection had received at a time that is a sample's, bytes.
    fn received_at(&self, watched: usize, at: u64) -> f64 {
        let index = at / self.plan().sample_every.get();
        let sample = index.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let samples = &self.received[watched];
        // A run that was broken off has fewer.
        sample.map_or(0.0, |index| samples.get(index).or_else(|| samples.last()).copied().unwrap_or(0) as f64)
    }

    /// The rate of a watched connection between two times, Gbps.
    fn rate(&self, watched: usize, from: u64, to: u64) -> f64 {
        (self.received_at(watched, to) - self.received_at(watched, from)) * 8e3 / (to - from) as f64
    }

    /// A time, moved down to that of a sample.
    fn on_sample(&self, at: Picos) -> u64 {
        let every = self.plan().sample_every.get();
        at.get() / every * every
    }

    fn rates(&self, group: &GroupOf, window: &Window, phase: usize, put: &mut dyn FnMut(&str, f64)) {
        let active: Vec<u32> =
            group.connections.clone().filter(|connection| window.fair[*connection as usize] > 0.0).collect();
        put("flows", active.len() as f64);
        let (from, to) = (self.on_sample(window.settled), self.on_sample(window.ends));
        if active.is_empty() || from >= to {
            return;
        }
        let places: Vec<usize> = active.iter().map(|c| self.watched_at[*c as usize] as usize).collect();
        let rates: Vec<f64> = places.iter().map(|place| self.rate(*place, from, to)).collect();
        let fair: Vec<f64> = active.iter().map(|c| window.fair[*c as usize] / 1e9).collect();
        let shares: Vec<f64> = rates.iter().zip(&fair).map(|(rate, fair)| rate / fair).collect();
        let of = |list: &[f64]| mean(list).unwrap_or(f64::NAN);
        put("rate_gbps", of(&rates));
        put("rate_min_gbps", rates.iter().copied().fold(f64::INFINITY, f64::min));
        put("rate_max_gbps", rates.iter().copied().fold(0.0, f64::max));
        put("total_gbps", rates.iter().sum());
        put("fair_share_gbps", of(&fair));
        put("share", of(&shares));
        put("share_min", shares.iter().copied().fold(f64::INFINITY, f64::min));
        put("fairness_gap", shares.iter().map(|share| (share - 1.0).abs()).fold(0.0, f64::max));
        put("jain", jain(&rates).unwrap_or(f64::NAN));
        let bin = self.resolved.bin.get();
        let bins: Vec<(u64, u64)> =
            (0..(to - from) / bin).map(|k| (from + k * bin, from + (k + 1) * bin)).collect();
        if bins.len() > 1 {
            let binned: Vec<Vec<f64>> = places
                .iter()
                .map(|place| bins.iter().map(|(from, to)| self.rate(*place, *from, *to)).collect())
                .collect();
            let all: Vec<f64> = binned.iter().flatten().copied().collect();
            let sd = standard_deviation(&all).unwrap_or(f64::NAN);
            put("rate_sd_gbps", sd);
            put("rate_sd_share", sd / of(&fair));
            let own: Vec<f64> = binned.iter().filter_map(|bins| standard_deviation(bins)).collect();
            put("wobble_gbps", of(&own));
        }
        put("converged_us", self.converged(&places, window).unwrap_or(f64::NAN));
        self.ramps(group, window, put);
        let [window_sum, rtt_sum, count] = places.iter().fold([0.0; 3], |[w, r, n], place| {
            let [window, rtt, count] = self.senders[*place][phase];
            [w + window, r + rtt, n + count]
        });
        put("window_packets", window_sum / count);
        put("srtt_us", rtt_sum / count / 1e3);
    }

    /// From the beginning of a phase until every later bin is fair, us.
    fn converged(&self, places: &[usize], window: &Window) -> Option<f64> {
        let (from, to) = (self.on_sample(window.begins), self.on_sample(window.ends));
        let bin = self.resolved.bin.get();
        let mut since = None;
        for k in 0..(to - from) / bin {
            let (begin, end) = (from + k * bin, from + (k + 1) * bin);
            let rates: Vec<f64> = places.iter().map(|place| self.rate(*place, begin, end)).collect();
            if jain(&rates)? < 0.95 {
                since = None;
            } else if since.is_none() {
                since = Some((end - window.begins.get()) as f64 / 1e6);
            }
        }
        since
    }

    /// How long flows that begin in a phase take to 90 % of their fair share.
    fn ramps(&self, group: &GroupOf, window: &Window, put: &mut dyn FnMut(&str, f64)) {
        let plan = self.plan();
        let (bin, every) = (self.resolved.bin.get(), plan.sample_every.get());
        let (mut slowest, mut cuts) = (f64::NAN, Vec::new());
        let (mut begun, mut reached) = (0.0, 0.0);
        for message in &group.messages.messages {
            let message = plan.messages[*message as usize];
            let fair = window.fair[message.connection as usize] / 1e9;
            if message.at < window.begins || message.at >= window.ends || fair <= 0.0 {
                continue;
            }
            let place = self.watched_at[message.connection as usize] as usize;
            let first = message.at.get().div_ceil(every) * every + bin;
            let last = self.on_sample(window.ends);
            let mut ends = (0..).map(|k| first + k * every).take_while(|end| *end <= last);
            // One that never gets there counts with the time that it had.
            let found = ends.find(|end| self.rate(place, end - bin, *end) >= 0.9 * fair);
            let end = found.unwrap_or(last);
            begun += 1.0;
            reached += f64::from(u8::from(found.is_some()));
            slowest = f64::max(slowest, (end - message.at.get()) as f64 / 1e6);
            let within = |at: &&u64| **at >= message.at.get() && **at <= end;
            cuts.push(self.cuts[place].1.iter().filter(within).count() as f64);
        }
        put("t90_us", slowest);
        put("t90_reached", reached / begun);
        if group.has_decisions {
            put("cuts_to_t90", mean(&cuts).unwrap_or(f64::NAN));
        }
    }

    fn decisions(&self, index: usize, group: &GroupOf, phase: usize, put: &mut dyn FnMut(&str, f64)) {
        let window = &self.resolved.phases[phase];
        let rtts = &self.rtts[index][phase];
        let Some(rtt) = mean(rtts) else { return };
        put("rtt_mean_us", rtt / 1e3);
        put_percentiles(rtts, 1e-3, "rtt", "_us", put);
        put("queueing_us", (rtt - self.unloaded[index][phase] / rtts.len() as f64) / 1e3);
        let (sum, count) = self.signals[index][phase];
        put("signal_us", sum / count / 1e3);
        let watched = || group.connections.clone().map(|c| self.watched_at[c as usize] as usize);
        let within = |at: &&u64| **at >= window.settled.get() && **at <= window.ends.get();
        let cuts: Vec<f64> =
            watched().map(|place| self.cuts[place].1.iter().filter(within).count() as f64).collect();
        put("cuts", mean(&cuts).unwrap_or(f64::NAN));
        let plan = self.plan();
        let law = plan.connections[group.connections.start as usize].law;
        if let AnyParams::Poseidon(params) = &plan.laws[law as usize] {
            let (from, to) = (self.on_sample(window.settled), self.on_sample(window.ends));
            // Of long flows, those that run all along.
            let runs = |place: &usize| {
                !group.is_long || window.fair[plan.watched_connections[*place] as usize] > 0.0
            };
            let rates: Vec<f64> = watched().filter(runs).map(|place| self.rate(place, from, to)).collect();
            put("target_us", crate::analytic::target_us(params, mean(&rates).unwrap_or(f64::NAN)));
        }
    }

    fn messages(&self, index: usize, group: &GroupOf, window: &Window, put: &mut dyn FnMut(&str, f64)) {
        let (from, to) = (window.begins.max(self.resolved.messages_from), window.ends);
        let us = |at: Picos| at.get() as f64 / 1e6;
        let is_meant = |start: f64| start >= us(from) && start < us(to);
        let counts = self.latencies[index].iter().filter(|(start, ..)| is_meant(*start));
        let mut latencies: Vec<f64> = counts.clone().map(|(_, latency, _)| *latency).collect();
        let mut slowdowns: Vec<f64> = counts.map(|(.., slowdown)| *slowdown).collect();
        latencies.sort_unstable_by(f64::total_cmp);
        slowdowns.sort_unstable_by(f64::total_cmp);
        put("messages", latencies.len() as f64);
        let begun = |message: &&u32| {
            let at = self.plan().messages[**message as usize].at;
            at >= from && at < to
        };
        let begun = group.messages.messages.iter().filter(begun).count();
        put("unfinished", (begun.saturating_sub(latencies.len())) as f64);
        put("latency_mean_us", mean(&latencies).unwrap_or(f64::NAN));
        put_percentiles(&latencies, 1.0, "latency", "_us", put);
        put_percentiles(&slowdowns, 1.0, "slowdown", "", put);
        let arrivals = self.arrivals[index].iter().filter(|(start, _)| is_meant(*start));
        let mut arrivals: Vec<f64> = arrivals.map(|(_, taken)| *taken).collect();
        arrivals.sort_unstable_by(f64::total_cmp);
        put_percentiles(&arrivals, 1.0, "arrival", "_us", put);
    }

    fn queue_values(&self, window: &Window, values: &mut BTreeMap<String, f64>) {
        let every = self.plan().sample_every.get();
        let (from, to) = (self.on_sample(window.settled), self.on_sample(window.ends));
        for (queue, samples) in self.resolved.queues.iter().zip(&self.queues) {
            let index = |at: u64| usize::try_from((at / every).saturating_sub(1)).unwrap_or(usize::MAX);
            let Some(inside) = samples.get(index(from)..=index(to).min(samples.len().saturating_sub(1)))
            else {
                continue;
            };
            let [first, .., last] = inside else { continue };
            let mut put = |name: &str, value: f64| {
                if value.is_finite() {
                    values.insert(format!("{}.{name}", queue.name), value);
                }
            };
            let mut delays: Vec<f64> = inside.iter().map(|sample| sample.delay as f64 / 1e3).collect();
            delays.sort_unstable_by(f64::total_cmp);
            put("delay_mean_us", mean(&delays).unwrap_or(f64::NAN));
            if can_carry(0.99, delays.len()) {
                put("delay_p99_us", percentile(&delays, 0.99).unwrap_or(f64::NAN));
            }
            let waiting: Vec<f64> = inside.iter().map(|sample| sample.waiting as f64).collect();
            put("waiting_mean_bytes", mean(&waiting).unwrap_or(f64::NAN));
            put("waiting_max_bytes", waiting.iter().copied().fold(0.0, f64::max));
            let could = queue.rate.get() as f64 * ((inside.len() - 1) as u64 * every) as f64 / 1e12;
            put("utilisation", (last.sent - first.sent) as f64 * 8.0 / could);
        }
    }

    fn distributions(&self, summary: &mut Summary) {
        let of = |sorted: &[f64], scale: f64| -> Vec<(f64, f64)> {
            let carried = SHARES.iter().filter(|share| **share < 0.5 || can_carry(**share, sorted.len()));
            carried.filter_map(|share| Some((percentile(sorted, *share)? * scale, *share))).collect()
        };
        for (index, group) in self.resolved.groups.iter().enumerate() {
            let from = self.resolved.messages_from.get() as f64 / 1e6;
            let counts = self.latencies[index].iter().filter(|(start, ..)| *start >= from);
            let mut latencies: Vec<f64> = counts.map(|(_, latency, _)| *latency).collect();
            latencies.sort_unstable_by(f64::total_cmp);
            if !latencies.is_empty() {
                summary.distributions.insert(format!("{}.latency_us", group.name), of(&latencies, 1.0));
            }
            let mut rtts: Vec<f64> = self.rtts[index].iter().flatten().copied().collect();
            rtts.sort_unstable_by(f64::total_cmp);
            if !rtts.is_empty() {
                summary.distributions.insert(format!("{}.rtt_us", group.name), of(&rtts, 1e-3));
            }
        }
    }

    fn series(&self, summary: &mut Summary) {
        let every = self.plan().sample_every.get();
        let bin = self.resolved.bin.get();
        let end = self.on_sample(self.plan().stop);
        for (index, group) in self.resolved.groups.iter().enumerate() {
            if !group.is_long {
                let points =
                    self.latencies[index].iter().map(|(start, latency, _)| (*start, start + latency));
                summary.finishes.insert(group.name.clone(), points.collect());
                continue;
            }
            if group.has_rates && !group.connections.is_empty() {
                let places: Vec<usize> =
                    group.connections.clone().map(|c| self.watched_at[c as usize] as usize).collect();
                let times: Vec<(u64, u64)> = (0..end / bin).map(|k| (k * bin, (k + 1) * bin)).collect();
                let of = |place: usize| -> Vec<(f64, f64)> {
                    times.iter().map(|(a, b)| (*b as f64 / 1e6, self.rate(place, *a, *b))).collect()
                };
                if places.len() <= FEW as usize {
                    for (flow, place) in places.iter().enumerate() {
                        summary.series.insert(format!("{}[{flow}].rate_gbps", group.name), of(*place));
                    }
                }
                let mean_of = |(a, b): &(u64, u64)| {
                    let sum: f64 = places.iter().map(|place| self.rate(*place, *a, *b)).sum();
                    (*b as f64 / 1e6, sum / places.len() as f64)
                };
                summary
                    .series
                    .insert(format!("{}.rate_gbps", group.name), times.iter().map(mean_of).collect());
            }
            let first = &self.sender_series[index];
            if !first.is_empty() {
                let pick = |f: fn(&(f64, f64, f64)) -> (f64, f64)| first.iter().map(f).collect::<Vec<_>>();
                summary
                    .series
                    .insert(format!("{}.window_packets", group.name), pick(|(at, window, _)| (*at, *window)));
                summary.series.insert(format!("{}.srtt_us", group.name), pick(|(at, _, rtt)| (*at, *rtt)));
            }
        }
        for (queue, samples) in self.resolved.queues.iter().zip(&self.queues) {
            let at = |index: usize| (index + 1) as f64 * every as f64 / 1e6;
            let pick = |f: fn(&QueueSample) -> f64| {
                samples.iter().enumerate().map(|(i, sample)| (at(i), f(sample))).collect::<Vec<_>>()
            };
            summary.series.insert(format!("{}.delay_us", queue.name), pick(|s| s.delay as f64 / 1e3));
            summary.series.insert(format!("{}.waiting_bytes", queue.name), pick(|s| s.waiting as f64));
        }
    }
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
    if report.decisions > 0 {
        let share = report.decisions_with_telemetry as f64 / report.decisions as f64;
        values.insert("run.telemetry_share".into(), share);
    }
}

/// The time that a message takes in an empty network, us: its packets one behind the other on every wire, and the ACK of the last
/// behind that of the one before.
pub fn ideal_us(plan: &Plan, from: u32, to: u32, size: u64) -> f64 {
    let mtu = plan.transport.mtu.get();
    let before_last = size.div_ceil(mtu).saturating_sub(1);
    let last = Bytes::new(size - before_last * mtu) + plan.data_overhead();
    // When the last packet, the one before it and the first reach the next node, and how far apart those behind the first do.
    let (mut reaches, mut before, mut first, mut apart) =
        (Picos::ZERO, Picos::ZERO, Picos::ZERO, Picos::ZERO);
    for (index, link) in plan.topology.links_between(from, to).iter().enumerate() {
        let pipeline = if index == 0 { Picos::ZERO } else { plan.switch.pipeline };
        let full = link.rate.send_time_ceil(plan.data_size());
        apart = apart.max(full);
        first += pipeline + full;
        let free = before_last.checked_sub(1).map_or(Picos::ZERO, |others| first + apart * others);
        reaches = (reaches + pipeline).max(free) + link.rate.send_time_ceil(last) + link.delay;
        before = free + link.delay;
        first += link.delay;
    }
    for (index, link) in plan.topology.links_between(to, from).iter().enumerate() {
        let pipeline = if index == 0 { Picos::ZERO } else { plan.switch.pipeline };
        let ack = link.rate.send_time_ceil(plan.ack_size());
        before += pipeline + ack;
        reaches = (reaches + pipeline).max(before) + ack + link.delay;
        before += link.delay;
    }
    reaches.get() as f64 / 1e6
}

impl Sink for Reducer<'_> {
    fn message(&mut self, row: MessageRow) {
        let message = self.plan().messages[row.message as usize];
        let Some((index, group)) = self.group(message.connection) else { return };
        if group.is_long {
            return;
        }
        let latency = (row.acknowledged.get() - row.start.get()) as f64 / 1e6;
        let ends = self.plan().connections[message.connection as usize];
        let ideal = ideal_us(self.plan(), ends.from, ends.to, row.size.get());
        self.latencies[index].push((row.start.get() as f64 / 1e6, latency, latency / ideal));
    }

    fn received(&mut self, row: ReceivedRow) {
        let message = self.plan().messages[row.message as usize];
        if let Some((index, group)) = self.group(message.connection)
            && !group.is_long
        {
            // A message that waited for another has no time of its own in the plan; its latency is the sender's to tell.
            if let Some(taken) = row.at.checked_sub(message.at) {
                self.arrivals[index].push((message.at.get() as f64 / 1e6, taken.get() as f64 / 1e6));
            }
        }
    }

    fn drop(&mut self, _: DropRow) {}

    fn queue(&mut self, row: QueueRow) {
        for (queue, samples) in self.resolved.queues.iter().zip(&mut self.queues) {
            if queue.port == (row.switch, row.port) {
                samples.push(QueueSample {
                    waiting: row.waiting.get(),
                    delay: row.delay.get(),
                    sent: row.sent.get(),
                });
            }
        }
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
