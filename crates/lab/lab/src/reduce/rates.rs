//! Numbers of flows whose rates are looked at: shares, steadiness, convergence.

use super::{FEW, Reducer};
use crate::resolve::{GroupOf, Window};
use crate::stats::{jain, mean, standard_deviation};
use crate::summary::Summary;
use poseidon_plan::traffic::Amount;
use poseidon_types::Picos;

/// Jain's index from which on flows are fair.
const FAIR: f64 = 0.95;
/// A bin slides in so many steps over its own length, all of which must be fair.
const SUSTAINED: usize = 5;

impl Reducer<'_> {
    /// Payload that a watched connection had received at a time that is a sample's, bytes.
    pub(super) fn received_at(&self, watched: usize, at: u64) -> f64 {
        let index = at / self.plan().sample_every.get();
        let sample = index.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let samples = &self.received[watched];
        // A run that was broken off has fewer.
        sample.map_or(0.0, |index| samples.get(index).or_else(|| samples.last()).copied().unwrap_or(0) as f64)
    }

    /// The rate of a watched connection between two times, Gbps.
    pub(super) fn rate(&self, watched: usize, from: u64, to: u64) -> f64 {
        (self.received_at(watched, to) - self.received_at(watched, from)) * 8e3 / (to - from) as f64
    }

    /// A time, moved down to that of a sample.
    pub(super) fn on_sample(&self, at: Picos) -> u64 {
        let every = self.plan().sample_every.get();
        at.get() / every * every
    }

    pub(super) fn rates(
        &self,
        group: &GroupOf,
        window: &Window,
        phase: usize,
        put: &mut dyn FnMut(&str, f64),
    ) {
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

    /// Jain's index of the flows of a group that send all through a bin, which slides from one time to another in steps of a fifth: its
    /// end, us, and the index. A bin with fewer than two such flows has none.
    fn fairness(&self, group: &GroupOf, from: u64, to: u64) -> Vec<(f64, f64)> {
        let (bin, every) = (self.resolved.bin.get(), self.plan().sample_every.get());
        let step = (bin / SUSTAINED as u64 / every).max(1) * every;
        let flows: Vec<(u64, u64, usize)> = self.lives(group).collect();
        let mut all = Vec::new();
        for end in (from + bin..=to).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let begin = end - bin;
            let lives = |(first, last, _): &&(u64, u64, usize)| *first <= begin && *last >= end;
            let rates: Vec<f64> =
                flows.iter().filter(lives).map(|(.., place)| self.rate(*place, begin, end)).collect();
            if rates.len() > 1
                && let Some(index) = jain(&rates)
            {
                all.push((end as f64 / 1e6, index));
            }
        }
        all
    }

    /// From when to when each flow of a group sends, ps, and its place among the watched.
    fn lives(&self, group: &GroupOf) -> impl Iterator<Item = (u64, u64, usize)> {
        let plan = self.plan();
        group.messages.messages.iter().map(move |message| {
            let message = plan.messages[*message as usize];
            let place = self.watched_at[message.connection as usize] as usize;
            let planned = match message.amount {
                Amount::Until(until) => until.get(),
                Amount::Exactly(_) => u64::MAX,
            };
            (message.at.get(), self.ended[place].unwrap_or(planned), place)
        })
    }

    /// How soon flows are fair to each other, and how fair they are over all bins.
    pub(super) fn fairness_values(&self, group: &GroupOf, window: &Window, put: &mut dyn FnMut(&str, f64)) {
        let begins = self.on_sample(window.begins);
        let bins = self.fairness(group, begins, self.on_sample(window.ends));
        let Some((last, _)) = bins.last() else { return };
        let is_fair = |run: &&[(f64, f64)]| run.iter().all(|(_, index)| *index >= FAIR);
        let found = bins.windows(SUSTAINED).find(is_fair).and_then(|run| run.first());
        // Flows that never get there count with the time that they had.
        let at = found.map_or(*last, |(at, _)| *at);
        put("fair_us", at - begins as f64 / 1e6);
        put("fair_reached", f64::from(u8::from(found.is_some())));
        let indices: Vec<f64> = bins.iter().map(|(_, index)| *index).collect();
        put("jain_mean", mean(&indices).unwrap_or(f64::NAN));
    }

    /// Rates and fairness over time, for the seed that is drawn.
    pub(super) fn rate_series(&self, index: usize, group: &GroupOf, summary: &mut Summary) {
        let bin = self.resolved.bin.get();
        let end = self.on_sample(self.plan().stop);
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
            let sum =
                |(a, b): &(u64, u64)| -> f64 { places.iter().map(|place| self.rate(*place, *a, *b)).sum() };
            let totals: Vec<(f64, f64)> = times.iter().map(|time| (time.1 as f64 / 1e6, sum(time))).collect();
            let means = totals.iter().map(|(at, total)| (*at, total / places.len() as f64)).collect();
            summary.series.insert(format!("{}.rate_gbps", group.name), means);
            summary.series.insert(format!("{}.total_gbps", group.name), totals);
            summary.series.insert(format!("{}.jain", group.name), self.fairness(group, 0, end));
        }
        let first = &self.sender_series[index];
        if group.is_long && !first.is_empty() {
            let pick = |f: fn(&(f64, f64, f64)) -> (f64, f64)| first.iter().map(f).collect::<Vec<_>>();
            summary
                .series
                .insert(format!("{}.window_packets", group.name), pick(|(at, window, _)| (*at, *window)));
            summary.series.insert(format!("{}.srtt_us", group.name), pick(|(at, _, rtt)| (*at, *rtt)));
        }
    }
}
