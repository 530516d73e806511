//! Numbers of laws, from their decisions ACK by ACK.

use super::{Reducer, put_percentiles};
use crate::resolve::GroupOf;
use crate::stats::mean;
use poseidon_laws::AnyParams;

impl Reducer<'_> {
    pub(super) fn decisions(
        &self,
        index: usize,
        group: &GroupOf,
        phase: usize,
        put: &mut dyn FnMut(&str, f64),
    ) {
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
}
