//! Expressions of metrics over the seeds of a cell.
//!
//! Percentiles of messages are taken over the messages of all seeds together; how far they can be trusted is found by drawing seeds again
//! with replacement (bootstrap). Everything else has a value in each seed.

use crate::bound::Bounds;
use crate::expression::Expression;
use crate::judge::Ran;
use crate::reduce::percent;
use crate::samples::{PercentileName, Pool, Selection};
use crate::scenario::Label;
use crate::stats::{Estimate, percentile};
use crate::summary::PhaseSummary;
use std::collections::BTreeMap;

/// How often seeds are drawn again for an interval.
const RESAMPLES: u32 = 200;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Draw {
    /// All seeds together.
    Pool,
    /// One seed.
    Seed(u64),
    /// Seeds drawn with replacement; the same number draws the same seeds in every cell.
    Resample(u32),
}

/// Values by where they come from.
pub type Draws = BTreeMap<Draw, Bounds>;

/// What is known of an expression in a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Its values: of each seed; or of all together, with those of resamples and of seeds beside it.
    pub draws: Draws,
    /// The share of messages that did not finish, where the expression has a time of messages.
    pub unfinished: Option<f64>,
    /// Why there is no value.
    pub missing: Option<String>,
}

impl Reading {
    /// Whether it is one value over the messages of all seeds.
    pub fn is_pooled(&self) -> bool {
        self.draws.contains_key(&Draw::Pool)
    }

    /// The values that are judged: that of all seeds together, or else that of each.
    pub fn judged(&self) -> Vec<Bounds> {
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

    /// The value with its interval, where every value that it is made of is known.
    pub fn estimate(&self) -> Option<Estimate> {
        let seeds: Option<Vec<f64>> = self.seeds().map(|(_, bounds)| bounds.value()).collect();
        let Some(pooled) = self.draws.get(&Draw::Pool) else { return Estimate::of(&seeds?) };
        let resamples: Option<Vec<f64>> = self
            .draws
            .iter()
            .filter(|(draw, _)| matches!(draw, Draw::Resample(_)))
            .map(|(_, bounds)| bounds.value())
            .collect();
        let ends = |mut values: Vec<f64>, shares: [f64; 2]| {
            values.sort_unstable_by(f64::total_cmp);
            Some([percentile(&values, shares[0])?, percentile(&values, shares[1])?])
        };
        let interval = resamples.and_then(|values| ends(values, [0.025, 0.975]));
        Some(Estimate {
            mean: pooled.value()?,
            half: interval.map(|[low, high]| (high - low) / 2.0),
            n: self.seeds().count().max(1),
            interval,
            spread: seeds.filter(|seeds| seeds.len() > 1).and_then(|values| ends(values, [0.0, 1.0])),
        })
    }

    /// Why the value is not given in numbers, in words.
    pub fn reason(&self) -> Option<String> {
        if self.missing.is_some() {
            return self.missing.clone();
        }
        let unknown = self.judged().into_iter().filter(|bounds| bounds.value().is_none()).collect::<Vec<_>>();
        let first = unknown.first()?;
        let share = percent(self.unfinished.unwrap_or(0.0));
        // That a ratio is above zero is no news.
        let says_nothing = first.is_unknown() || (first.low == 0.0 && first.high.is_infinite());
        let known = if says_nothing { String::new() } else { format!(", {first}") };
        Some(format!("not reached ({share} unfinished){known}"))
    }

    /// Joins this with another cell's, value by value.
    #[must_use]
    pub fn join(&self, other: &Self, join: impl Fn(Bounds, Bounds) -> Bounds) -> Self {
        let both = |(draw, this): (&Draw, &Bounds)| Some((*draw, join(*this, *other.draws.get(draw)?)));
        Self {
            draws: self.draws.iter().filter_map(both).filter(|(_, value)| is_a_number(*value)).collect(),
            unfinished: larger(self.unfinished, other.unfinished),
            missing: self.missing.clone().or_else(|| other.missing.clone()),
        }
    }

    /// The mean of several, value by value.
    pub fn mean(of: &[&Self]) -> Self {
        let Some((first, rest)) = of.split_first() else { return Self::default() };
        let sum = rest.iter().fold((*first).clone(), |sum, next| sum.join(next, |a, b| a + b));
        let count = Bounds::exact(of.len() as f64);
        Self { draws: sum.draws.iter().map(|(draw, sum)| (*draw, *sum / count)).collect(), ..sum }
    }
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

/// What is known of an expression, by cell; phases are cells. A cell that lacks one of its metrics for no reason is not there.
pub fn readings(expression: &Expression, runs: &[Ran]) -> BTreeMap<Vec<Label>, Reading> {
    let mut cells: BTreeMap<Vec<Label>, Vec<OfSeed<'_>>> = BTreeMap::new();
    for run in runs {
        for phase in &run.summary.phases {
            cells.entry(with_phase(&run.labels, &phase.name)).or_default().push(OfSeed { run, phase });
        }
    }
    let reading = |(labels, seeds): (Vec<Label>, Vec<OfSeed<'_>>)| {
        let reading = Cell { expression, seeds }.reading();
        let is_there = !reading.draws.is_empty() || reading.missing.is_some();
        is_there.then_some((labels, reading))
    };
    cells.into_iter().filter_map(reading).collect()
}

/// The labels of a run with its phase.
pub fn with_phase(labels: &[Label], phase: &str) -> Vec<Label> {
    let phase = Label { sweep: "phase".into(), value: phase.to_owned() };
    labels.iter().cloned().chain([phase]).collect()
}

/// A phase of a run.
struct OfSeed<'a> {
    run: &'a Ran,
    phase: &'a PhaseSummary,
}

impl<'a> OfSeed<'a> {
    fn selection(&self, name: &str) -> Option<&'a Selection> {
        self.run.messages.selection(&self.phase.name, name)
    }
}

/// An expression in a cell.
struct Cell<'a> {
    expression: &'a Expression,
    seeds: Vec<OfSeed<'a>>,
}

impl Cell<'_> {
    fn reading(&self) -> Reading {
        let names: Vec<PercentileName<'_>> =
            self.expression.metrics().into_iter().filter_map(PercentileName::parse).collect();
        let is_pooled = !names.is_empty()
            && names.iter().all(|name| self.seeds.iter().all(|seed| seed.selection(name.of).is_some()));
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
            if let Err(why) = self.pool(name, &self.once()).reading(name.share, name.word) {
                reading.missing = Some(why);
                return reading;
            }
        }
        let mut put = |draw: Draw, weights: &[usize]| {
            if let Some(value) = self.value(weights) {
                reading.draws.insert(draw, value);
            }
        };
        put(Draw::Pool, &self.once());
        if self.seeds.len() > 1 {
            (0..RESAMPLES).for_each(|number| put(Draw::Resample(number), &drawn(number, self.seeds.len())));
            for (place, seed) in self.seeds.iter().enumerate() {
                let mut weights = vec![0; self.seeds.len()];
                weights[place] = 1;
                // A seed that has not the messages for the percentile says nothing about the spread.
                if names.iter().all(|name| self.pool(name, &weights).reading(name.share, name.word).is_ok()) {
                    put(Draw::Seed(seed.run.seed), &weights);
                }
            }
        }
        reading
    }

    /// Each seed once.
    fn once(&self) -> Vec<usize> {
        vec![1; self.seeds.len()]
    }

    fn pool(&self, name: &PercentileName<'_>, weights: &[usize]) -> Pool<'_> {
        let weighted = self.seeds.iter().zip(weights);
        Pool::new(
            weighted
                .filter_map(|(seed, weight)| Some((seed.selection(name.of)?.times(name.quantity), *weight))),
        )
    }

    /// The value over seeds of these weights: percentiles of all their messages, means of everything else.
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

    /// The share of unfinished messages of all seeds, the largest of those traffics whose times are in the expression.
    fn unfinished(&self) -> Option<f64> {
        let is_time = |metric: &str| {
            ["latency_", "slowdown_", "arrival_", "finish_"].iter().any(|kind| metric.starts_with(kind))
        };
        let share = |metric: &str| {
            let (of, _) = metric.rsplit_once('.').filter(|(_, last)| is_time(last))?;
            let sum = |what: &str| -> Option<f64> {
                self.seeds.iter().map(|seed| seed.phase.values.get(&format!("{of}.{what}"))).sum()
            };
            let (finished, unfinished) = (sum("messages")?, sum("unfinished")?);
            (finished + unfinished > 0.0).then(|| unfinished / (finished + unfinished))
        };
        self.expression.metrics().into_iter().filter_map(share).reduce(f64::max)
    }

    /// Why the first metric that is missing is.
    fn reason(&self) -> Option<String> {
        let metrics = self.expression.metrics();
        let mut missing = metrics
            .iter()
            .flat_map(|metric| self.seeds.iter().filter_map(move |seed| seed.phase.missing.get(*metric)));
        missing.next().map(|missing| missing.reason.clone())
    }
}

/// Whether it is one: not what is left of a division by zero.
fn is_a_number(bounds: Bounds) -> bool {
    !bounds.low.is_nan() && (bounds.low < bounds.high || bounds.low.is_finite())
}

/// How often each of `count` seeds is drawn in a resample.
fn drawn(number: u32, count: usize) -> Vec<usize> {
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
        let place = ((u128::from(mixed) * count as u128) >> 64) as usize;
        weights[place] += 1;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resamples_draw_as_many_as_there_are_and_all_seeds_alike() {
        let mut sums = vec![0_usize; 5];
        for number in 0..RESAMPLES {
            let weights = drawn(number, 5);
            assert_eq!(weights.iter().sum::<usize>(), 5);
            assert_eq!(weights, drawn(number, 5));
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
        // 200 expected of each, standard deviation 12.6.
        assert!(sums.iter().all(|sum| (140..=260).contains(sum)), "{sums:?}");
    }
}
