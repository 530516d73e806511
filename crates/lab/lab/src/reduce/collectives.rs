//! Metrics for collectives, as nccl-tests defines them.

use super::{Reducer, to_us};
use crate::resolve::{PhaseWindow, TrafficGroup};
use crate::stats::{mean, percentile};
use crate::summary::{CollectiveSummary, MissingValue, PhaseSummary, Summary};
use poseidon_plan::patterns::{CollectiveRuns, RankFinish, RepetitionTimes};
use poseidon_types::Picos;

/// The names of the metrics that need finished repetitions.
const TIME_METRICS: [&str; 5] =
    ["completion_us", "completion_max_us", "algbw_gb_per_s", "busbw_gb_per_s", "straggler"];

impl Reducer<'_> {
    /// Adds the metrics of the repetitions that start in a phase.
    pub(super) fn collective_metrics(&self, window: &PhaseWindow, phase: &mut PhaseSummary) {
        let (from, until) = (self.resolved.messages_from(window), window.end);
        for (group, runs) in self.collectives() {
            let repetitions = self.repetition_times(group, runs);
            let in_phase =
                |times: &&RepetitionTimes| times.start.is_some_and(|start| start >= from && start < until);
            let started: Vec<&RepetitionTimes> = repetitions.iter().filter(in_phase).collect();
            let durations: Vec<Picos> = started.iter().filter_map(|times| times.duration()).collect();
            let name = |metric: &str| format!("{}.{metric}", group.name);
            phase.values.insert(name("repetitions"), durations.len() as f64);
            if started.is_empty() {
                continue;
            }
            if durations.len() < started.len() {
                let unfinished = started.len() - durations.len();
                let reason = format!("{unfinished} of {} repetitions did not finish", started.len());
                for metric in TIME_METRICS {
                    let missing = MissingValue { reason: reason.clone(), at_least: None };
                    phase.missing.insert(name(metric), missing);
                }
                continue;
            }
            let mean_of = |value: &dyn Fn(Picos) -> f64| {
                let values: Vec<f64> = durations.iter().map(|duration| value(*duration)).collect();
                mean(&values).unwrap_or(f64::NAN)
            };
            let mean_time = mean_of(&to_us);
            // nccl-tests divides the size by the mean time of the repetitions.
            let algbw = runs.info.size.get() as f64 / mean_time / 1e3;
            let stragglers: Vec<f64> = started.iter().filter_map(|times| straggler(times)).collect();
            let values = [
                mean_time,
                durations.iter().copied().map(to_us).fold(0.0, f64::max),
                algbw,
                algbw * runs.info.bus_factor(),
                mean(&stragglers).unwrap_or(f64::NAN),
            ];
            if let Some(exposed) = exposed_us(&started, runs.info.compute_gap) {
                phase.values.insert(name("exposed_us"), exposed);
            }
            let finite = TIME_METRICS.into_iter().zip(values).filter(|(_, value)| value.is_finite());
            phase.values.extend(finite.map(|(metric, value)| (name(metric), value)));
        }
    }

    /// Adds the times of all repetitions.
    pub(super) fn collective_times(&self, summary: &mut Summary) {
        for (group, runs) in self.collectives() {
            let durations = self.repetition_times(group, runs);
            let collective = CollectiveSummary {
                algorithm: runs.info.algorithm.to_owned(),
                operation: runs.info.operation.name().to_owned(),
                ranks: runs.info.ranks,
                size_bytes: runs.info.size.get(),
                bus_factor: runs.info.bus_factor(),
                times_us: durations.iter().filter_map(RepetitionTimes::duration).map(to_us).collect(),
            };
            summary.collectives.insert(group.name.clone(), collective);
        }
    }

    fn collectives(&self) -> impl Iterator<Item = (&TrafficGroup, &CollectiveRuns)> {
        self.resolved.groups.iter().filter_map(|group| Some((group, group.collective.as_ref()?)))
    }

    fn repetition_times(&self, group: &TrafficGroup, runs: &CollectiveRuns) -> Vec<RepetitionTimes> {
        if let Some(times) = runs.ring.and_then(|ring| self.messages.ring_times(ring)) {
            return times;
        }
        let (start, arrival) =
            (|message| self.messages.start(message), |message| self.messages.arrival(message));
        runs.repetition_times(&group.messages, start, arrival)
    }
}

/// Returns the time per repetition that the ranks do not compute: the time from the start of the first repetition to the
/// end of the last one, minus the computations in between, divided by the number of repetitions. Returns `None` if the
/// ranks do not compute.
fn exposed_us(repetitions: &[&RepetitionTimes], compute_gap: Picos) -> Option<f64> {
    if compute_gap.is_zero() {
        return None;
    }
    let (first, last) = (repetitions.first()?, repetitions.last()?);
    let total = to_us(last.slowest()?.1.checked_sub(first.start?)?);
    let count = repetitions.len() as f64;
    Some((total - (count - 1.0) * to_us(compute_gap)) / count)
}

/// Returns the time of the slowest rank divided by the time of the median rank.
fn straggler(times: &RepetitionTimes) -> Option<f64> {
    let start = times.start?;
    let finished = times.ranks.iter().filter_map(|finish| match finish {
        RankFinish::At(time) => time.checked_sub(start).map(to_us),
        RankFinish::ReceivesNothing | RankFinish::Unfinished => None,
    });
    let mut finished: Vec<f64> = finished.collect();
    finished.sort_unstable_by(f64::total_cmp);
    Some(finished.last()? / percentile(&finished, 0.5)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_communication_excludes_the_computation() {
        let us = |us: u64| Picos::new(us * 1_000_000);
        let repetition = |start: u64, ends: [u64; 2]| RepetitionTimes {
            start: Some(us(start)),
            ranks: ends.map(|end| RankFinish::At(us(end))).to_vec(),
        };
        // Rank 1 finishes 2 us later than rank 0, and both compute for 10 us.
        let times = [repetition(0, [3, 5]), repetition(13, [17, 19]), repetition(27, [31, 33])];
        let times: Vec<&RepetitionTimes> = times.iter().collect();
        assert_eq!(exposed_us(&times, us(10)), Some(13.0 / 3.0));
        assert_eq!(exposed_us(&times[..1], us(10)), Some(5.0));
        assert_eq!((exposed_us(&times, Picos::ZERO), exposed_us(&[], us(10))), (None, None));
    }

    #[test]
    fn straggler_compares_the_slowest_rank_with_the_median() {
        let at = |us: u64| RankFinish::At(Picos::new((10 + us) * 1_000_000));
        let times = RepetitionTimes {
            start: Some(Picos::new(10_000_000)),
            ranks: vec![RankFinish::ReceivesNothing, at(4), at(2), at(6)],
        };
        assert_eq!(straggler(&times), Some(1.5));
    }
}
