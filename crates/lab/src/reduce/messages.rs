//! Numbers of messages: how long they took, by themselves and by their size, and in which order.

use super::{Reducer, Took, put_percentiles};
use crate::resolve::Window;
use crate::stats::{can_carry, mean, percentile, rank_correlation};
use crate::summary::Summary;
use poseidon_types::{Bytes, Picos};

/// Most bins by size.
const BINS: usize = 100;

/// Messages of some traffics, of some sizes.
pub(super) struct Chosen<'a> {
    pub(super) name: &'a str,
    /// By place among the groups.
    pub(super) groups: Vec<usize>,
    pub(super) from: Bytes,
    pub(super) below: Bytes,
}

impl Chosen<'_> {
    fn has(&self, size: Bytes) -> bool {
        size >= self.from && size < self.below
    }
}

impl Reducer<'_> {
    /// The messages that were chosen and begin in a time.
    fn taken(&self, of: &Chosen<'_>, from: Picos, to: Picos) -> Vec<Took> {
        let us = |at: Picos| at.get() as f64 / 1e6;
        let is_meant =
            |took: &&Took| took.start_us >= us(from) && took.start_us < us(to) && of.has(took.size);
        of.groups.iter().flat_map(|group| self.took[*group].iter().filter(is_meant).copied()).collect()
    }

    pub(super) fn messages(&self, of: &Chosen<'_>, window: &Window, put: &mut dyn FnMut(&str, f64)) {
        let (from, to) = (window.begins.max(self.resolved.messages_from), window.ends);
        let took = self.taken(of, from, to);
        let sorted = |what: fn(&Took) -> f64| {
            let mut values: Vec<f64> = took.iter().map(what).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let latencies = sorted(|took| took.latency_us);
        put("messages", latencies.len() as f64);
        put("unfinished", self.begun(of, from, to).saturating_sub(latencies.len()) as f64);
        put("latency_mean_us", mean(&latencies).unwrap_or(f64::NAN));
        put_percentiles(&latencies, 1.0, "latency", "_us", put);
        put_percentiles(&sorted(|took| took.slowdown), 1.0, "slowdown", "", put);
        let arrivals = of.groups.iter().flat_map(|group| &self.arrivals[*group]);
        let us = |at: Picos| at.get() as f64 / 1e6;
        let is_meant = |start: f64, size: Bytes| start >= us(from) && start < us(to) && of.has(size);
        let mut arrivals: Vec<f64> =
            arrivals.filter(|(start, _, size)| is_meant(*start, *size)).map(|(_, taken, _)| *taken).collect();
        arrivals.sort_unstable_by(f64::total_cmp);
        put_percentiles(&arrivals, 1.0, "arrival", "_us", put);
        let finishes = sorted(Took::finish_us);
        if let [first, .., last] = finishes.as_slice() {
            put("finish_spread_us", last - first);
            put("finish_last_us", last - us(window.begins));
        }
        let starts: Vec<f64> = took.iter().map(|took| took.start_us).collect();
        let ends: Vec<f64> = took.iter().map(Took::finish_us).collect();
        put("finish_order", rank_correlation(&starts, &ends).unwrap_or(f64::NAN));
    }

    /// How many that were chosen begin in a time.
    fn begun(&self, of: &Chosen<'_>, from: Picos, to: Picos) -> usize {
        let plan = self.plan();
        let is_meant = |message: &&u32| {
            let message = plan.messages[**message as usize];
            message.at >= from && message.at < to && message.amount.bytes().is_some_and(|size| of.has(size))
        };
        let messages =
            of.groups.iter().flat_map(|group| self.resolved.groups[*group].messages.messages.iter());
        messages.filter(is_meant).count()
    }

    /// Slowdown by size: messages sorted by their size, in bins of as many, each percentile where a bin can carry it. Sizes are
    /// those in the middle of their bins.
    pub(super) fn by_size(&self, of: &Chosen<'_>, summary: &mut Summary) {
        let mut took = self.taken(of, self.resolved.messages_from, Picos::MAX);
        took.sort_unstable_by(|a, b| a.size.cmp(&b.size).then(a.slowdown.total_cmp(&b.slowdown)));
        for (share, word, needed) in [(0.5, "p50", 20), (0.99, "p99", 1_000), (0.999, "p999", 10_000)] {
            let bins = (took.len() / needed).min(BINS);
            // A curve needs more than a few points.
            if bins < 5 {
                continue;
            }
            let mut points = Vec::new();
            for bin in 0..bins {
                let inside = &took[took.len() * bin / bins..took.len() * (bin + 1) / bins];
                let mut slowdowns: Vec<f64> = inside.iter().map(|took| took.slowdown).collect();
                slowdowns.sort_unstable_by(f64::total_cmp);
                let middle = inside[inside.len() / 2].size.get() as f64;
                if let Some(value) =
                    percentile(&slowdowns, share).filter(|_| can_carry(share, slowdowns.len()))
                {
                    points.push((middle, value));
                }
            }
            summary.series.insert(format!("{}.slowdown_{word}_by_size", of.name), points);
        }
    }
}
