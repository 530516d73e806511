//! Evaluates metric expressions over a cell's seeds.
//!
//! Message percentiles are computed over the pooled messages of all seeds. Their confidence intervals come from
//! resampling seeds with replacement (bootstrap). Every other metric has one value per seed.

use crate::bound::Bounds;
use crate::expression::Expression;
use crate::reduce::format_percent;
use crate::samples::{PercentileName, Pool, Selection};
use crate::scenario::Label;
use crate::stats::{Estimate, percentile};
use crate::summary::{PhaseSummary, RunSummary};
use std::collections::BTreeMap;

/// The number of bootstrap resamples per interval.
const RESAMPLES: u32 = 200;

/// The seeds that a value is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Draw {
    /// All seeds, pooled.
    Pool,
    /// One seed.
    Seed(u64),
    /// Seeds drawn with replacement. The same resample number draws the same seeds in every cell.
    Resample(u32),
}

/// Values keyed by the seeds from which they are computed.
pub type Draws = BTreeMap<Draw, Bounds>;

/// The values of an expression in a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Either one value per seed, or a pooled value for all seeds plus the values for resamples and single seeds.
    pub draws: Draws,
    /// The share of unfinished messages, if the expression uses message times.
    pub unfinished: Option<f64>,
    /// Why the value is missing.
    pub missing: Option<String>,
}

impl Reading {
    /// Returns whether the value is pooled over the messages of all seeds.
    pub fn is_pooled(&self) -> bool {
        self.draws.contains_key(&Draw::Pool)
    }

    /// Returns the values to judge: the pooled value if there is one, otherwise one value per seed.
    pub fn values_to_judge(&self) -> Vec<Bounds> {
        match self.draws.get(&Draw::Pool) {
            Some(pooled) => vec![*pooled],
            None => self.seeds().map(|(_, bounds)| bounds).collect(),
        }
    }

    fn seeds(&self) -> impl Iterator<Item = (u64, Bounds)> + '_ {
        self.draws.iter().filter_map(|(draw, bounds)| match draw {
            Draw::Seed(seed) => Some((*seed, *bounds)),
            Draw::Pool | Draw::Resample(_) => None,
        })
    }

    /// Returns the value with its confidence interval if all underlying values are known.
    pub fn estimate(&self) -> Option<Estimate> {
        let seeds: Option<Vec<f64>> = self.seeds().map(|(_, bounds)| bounds.value()).collect();
        let Some(pooled) = self.draws.get(&Draw::Pool) else { return Estimate::from_values(&seeds?) };
        let resamples: Option<Vec<f64>> = self
            .draws
            .iter()
            .filter(|(draw, _)| matches!(draw, Draw::Resample(_)))
            .map(|(_, bounds)| bounds.value())
            .collect();
        let quantiles = |mut values: Vec<f64>, shares: [f64; 2]| {
            values.sort_unstable_by(f64::total_cmp);
            Some([percentile(&values, shares[0])?, percentile(&values, shares[1])?])
        };
        let interval = resamples.and_then(|values| quantiles(values, [0.025, 0.975]));
        Some(Estimate {
            mean: pooled.value()?,
            half: interval.map(|[low, high]| (high - low) / 2.0),
            n: self.seeds().count().max(1),
            interval,
            spread: seeds.filter(|seeds| seeds.len() > 1).and_then(|values| quantiles(values, [0.0, 1.0])),
        })
    }

    /// Returns why the value is missing or unknown.
    pub fn reason(&self) -> Option<String> {
        if self.missing.is_some() {
            return self.missing.clone();
        }
        let unknown =
            self.values_to_judge().into_iter().filter(|bounds| bounds.value().is_none()).collect::<Vec<_>>();
        let first = unknown.first()?;
        let share = format_percent(self.unfinished.unwrap_or(0.0));
        // For a ratio, a lower bound of zero carries no information.
        let is_trivial = first.is_unknown() || (first.low == 0.0 && first.high.is_infinite());
        let bound = if is_trivial { String::new() } else { format!(", {first}") };
        Some(format!("not reached ({share} unfinished){bound}"))
    }

    /// Combines the values with the corresponding values of another cell.
    #[must_use]
    pub fn combine(&self, other: &Self, combine: impl Fn(Bounds, Bounds) -> Bounds) -> Self {
        let combine_draw =
            |(draw, this): (&Draw, &Bounds)| Some((*draw, combine(*this, *other.draws.get(draw)?)));
        Self {
            draws: self
                .draws
                .iter()
                .filter_map(combine_draw)
                .filter(|(_, value)| is_a_number(*value))
                .collect(),
            unfinished: larger(self.unfinished, other.unfinished),
            missing: self.missing.clone().or_else(|| other.missing.clone()),
        }
    }

    /// Averages the corresponding values of several readings.
    pub fn mean(readings: &[&Self]) -> Self {
        let Some((first, rest)) = readings.split_first() else { return Self::default() };
        let sum = rest.iter().fold((*first).clone(), |sum, next| sum.combine(next, |a, b| a + b));
        let count = Bounds::exact(readings.len() as f64);
        Self { draws: sum.draws.iter().map(|(draw, sum)| (*draw, *sum / count)).collect(), ..sum }
    }
}

fn larger(first: Option<f64>, other: Option<f64>) -> Option<f64> {
    first.into_iter().chain(other).reduce(f64::max)
}

/// Evaluates an expression in each cell, treating each phase as a separate cell. Omits cells that have neither a value
/// nor a reason for a missing value.
pub fn readings(expression: &Expression, runs: &[RunSummary]) -> BTreeMap<Vec<Label>, Reading> {
    let mut cells: BTreeMap<Vec<Label>, Vec<SeedPhase<'_>>> = BTreeMap::new();
    for run in runs {
        for phase in &run.summary.phases {
            cells.entry(with_phase(&run.labels, &phase.name)).or_default().push(SeedPhase { run, phase });
        }
    }
    let reading = |(labels, seeds): (Vec<Label>, Vec<SeedPhase<'_>>)| {
        let reading = Evaluation { expression, seeds }.evaluate();
        let has_result = !reading.draws.is_empty() || reading.missing.is_some();
        has_result.then_some((labels, reading))
    };
    cells.into_iter().filter_map(reading).collect()
}

/// Returns a run's labels with the phase appended.
pub fn with_phase(labels: &[Label], phase: &str) -> Vec<Label> {
    let phase = Label { sweep: "phase".into(), value: phase.to_owned() };
    labels.iter().cloned().chain([phase]).collect()
}

/// One phase of one seed's run.
struct SeedPhase<'a> {
    run: &'a RunSummary,
    phase: &'a PhaseSummary,
}

impl<'a> SeedPhase<'a> {
    fn selection(&self, name: &str) -> Option<&'a Selection> {
        self.run.messages.selection(&self.phase.name, name)
    }
}

/// The evaluation of an expression over a cell's seeds.
struct Evaluation<'a> {
    expression: &'a Expression,
    seeds: Vec<SeedPhase<'a>>,
}

impl Evaluation<'_> {
    fn evaluate(&self) -> Reading {
        let names: Vec<PercentileName<'_>> =
            self.expression.metrics().into_iter().filter_map(PercentileName::parse).collect();
        let is_pooled = !names.is_empty()
            && names.iter().all(|name| self.seeds.iter().all(|seed| seed.selection(name.owner).is_some()));
        let mut reading = Reading { unfinished: self.unfinished(), ..Reading::default() };
        if !is_pooled {
            for seed in &self.seeds {
                let value = self.expression.bounds(&|metric| seed.phase.bounds(metric));
                if let Some(value) = value.filter(|value| is_a_number(*value)) {
                    reading.draws.insert(Draw::Seed(seed.run.seed), value);
                }
            }
            if reading.draws.is_empty() {
                reading.missing = self.reason();
            }
            return reading;
        }
        for name in &names {
            if let Err(error) =
                self.pool(name, &self.unit_weights()).checked_percentile(name.share, name.name)
            {
                reading.missing = Some(error.to_string());
                return reading;
            }
        }
        let mut insert = |draw: Draw, weights: &[usize]| {
            if let Some(value) = self.value(weights) {
                reading.draws.insert(draw, value);
            }
        };
        insert(Draw::Pool, &self.unit_weights());
        if self.seeds.len() > 1 {
            (0..RESAMPLES)
                .for_each(|number| insert(Draw::Resample(number), &resample(number, self.seeds.len())));
            for (index, seed) in self.seeds.iter().enumerate() {
                let mut weights = vec![0; self.seeds.len()];
                weights[index] = 1;
                // A seed with too few messages for the percentile does not contribute to the spread.
                let is_supported = |name: &PercentileName<'_>| {
                    self.pool(name, &weights).checked_percentile(name.share, name.name).is_ok()
                };
                if names.iter().all(is_supported) {
                    insert(Draw::Seed(seed.run.seed), &weights);
                }
            }
        }
        reading
    }

    /// Returns weights that count each seed once.
    fn unit_weights(&self) -> Vec<usize> {
        vec![1; self.seeds.len()]
    }

    fn pool(&self, name: &PercentileName<'_>, weights: &[usize]) -> Pool<'_> {
        let weighted = self.seeds.iter().zip(weights);
        Pool::new(
            weighted.filter_map(|(seed, weight)| {
                Some((seed.selection(name.owner)?.times(name.quantity), *weight))
            }),
        )
    }

    /// Evaluates the expression over weighted seeds. Percentiles cover all messages; other metrics are averaged.
    fn value(&self, weights: &[usize]) -> Option<Bounds> {
        let metric = |metric: &str| match PercentileName::parse(metric) {
            Some(name) => self.pool(&name, weights).percentile(name.share),
            None => {
                let total = Bounds::exact(weights.iter().sum::<usize>() as f64);
                let drawn = self.seeds.iter().zip(weights).filter(|(_, weight)| **weight > 0);
                let mut sum = Bounds::exact(0.0);
                for (seed, weight) in drawn {
                    sum = sum + seed.phase.bounds(metric)? * Bounds::exact(*weight as f64);
                }
                Some(sum / total)
            }
        };
        self.expression.bounds(&metric).filter(|value| is_a_number(*value))
    }

    /// Returns the share of unfinished messages over all seeds. If the expression uses message times of several traffic
    /// patterns, returns the largest share.
    fn unfinished(&self) -> Option<f64> {
        let is_time = |metric: &str| {
            ["latency_", "slowdown_", "arrival_", "finish_"].iter().any(|kind| metric.starts_with(kind))
        };
        let share = |metric: &str| {
            let (owner, _) = metric.rsplit_once('.').filter(|(_, last)| is_time(last))?;
            let sum = |count: &str| -> Option<f64> {
                self.seeds.iter().map(|seed| seed.phase.values.get(&format!("{owner}.{count}"))).sum()
            };
            let (finished, unfinished) = (sum("messages")?, sum("unfinished")?);
            (finished + unfinished > 0.0).then(|| unfinished / (finished + unfinished))
        };
        self.expression.metrics().into_iter().filter_map(share).reduce(f64::max)
    }

    /// Returns why the first missing metric has no value.
    fn reason(&self) -> Option<String> {
        let metrics = self.expression.metrics();
        let mut missing = metrics
            .iter()
            .flat_map(|metric| self.seeds.iter().filter_map(move |seed| seed.phase.missing.get(*metric)));
        missing.next().map(|missing| missing.reason.clone())
    }
}

/// Returns whether the bounds describe a number rather than the result of a division by zero.
fn is_a_number(bounds: Bounds) -> bool {
    !bounds.low.is_nan() && (bounds.low < bounds.high || bounds.low.is_finite())
}

/// Draws `count` seeds with replacement and returns how often each seed was drawn.
fn resample(number: u32, count: usize) -> Vec<usize> {
    let mut weights = vec![0; count];
    let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..count {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        #[expect(clippy::cast_possible_truncation, reason = "below the number of seeds")]
        let index = ((u128::from(mixed) * count as u128) >> 64) as usize;
        weights[index] += 1;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resamples_draw_all_seeds_about_equally_often() {
        let mut sums = vec![0_usize; 5];
        for number in 0..RESAMPLES {
            let weights = resample(number, 5);
            assert_eq!(weights.iter().sum::<usize>(), 5);
            assert_eq!(weights, resample(number, 5));
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
        // The expected count of each seed is 200, with a standard deviation of 12.6.
        assert!(sums.iter().all(|sum| (140..=260).contains(sum)), "{sums:?}");
    }
}
