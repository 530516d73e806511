//! Searches an order of upgrades and compares it with other orders.

use super::RolloutError;
use super::evaluation::{Evaluations, SeedSet, Upgrades};
use super::greedy::LazyGreedy;
use super::objective::Direction;
use super::plan::{
    Baseline, BaselinePoint, Order, OrderComparison, OrderOutcome, Point, Search, Step, StopReason, Unit,
    interval,
};
use crate::report::format_number;
use crate::stats::Estimate;
use poseidon_plan::random::RandomKey;

/// What to search.
#[derive(Clone, Debug)]
pub(super) struct SearchOptions {
    /// The maximum number of upgrades.
    pub(super) budget: usize,
    /// Whether the search continues if the best next upgrade is within the noise.
    pub(super) all_steps: bool,
    /// The number of random orders.
    pub(super) random_orders: u32,
    /// The numbers of upgrades at which baselines are evaluated; empty for powers of two.
    pub(super) baseline_steps: Vec<usize>,
    /// Whether a smaller or a larger objective is better.
    pub(super) direction: Direction,
    /// The number of candidates that are evaluated together.
    pub(super) batch: usize,
}

/// A search over the upgrades of a network.
pub(super) struct Searcher<'a> {
    pub(super) options: &'a SearchOptions,
    pub(super) units: &'a [Unit],
    /// The congestion of each unit before the first upgrade.
    pub(super) congestion: &'a [f64],
    pub(super) evaluations: Evaluations<'a>,
    /// Receives a line of text after each step.
    pub(super) on_note: &'a dyn Fn(&str),
}

impl Searcher<'_> {
    /// Chooses the upgrades, and evaluates the baselines at the same numbers of upgrades.
    pub(super) fn search(mut self) -> Result<Search, RolloutError> {
        let start = self.evaluations.evaluate_one(&Upgrades::new(), SeedSet::Judge)?;
        let start = self.point(0, start.clone(), &start);
        let (steps, stop, rejected) = self.choose_steps(&start)?;
        (self.on_note)("evaluating the other orders");
        let all: Upgrades = (0..self.units.len()).collect();
        let all_upgraded = self.evaluations.evaluate_one(&all, SeedSet::Judge)?;
        let all_upgraded = self.point(all.len(), all_upgraded, &start.values);
        let baselines = self.evaluate_baselines(&start, steps.len())?;
        let comparisons = steps.last().map_or_else(Vec::new, |last| {
            baselines.iter().filter_map(|baseline| self.compare(last, baseline)).collect()
        });
        let evaluations = self.evaluations.count();
        Ok(Search { start, steps, stop, rejected, all_upgraded, baselines, comparisons, evaluations })
    }

    fn point(&self, upgrades: usize, values: Vec<f64>, start: &[f64]) -> Point {
        Point::new(upgrades, values, start, self.options.direction)
    }

    /// Chooses upgrades until the budget is used up or the next upgrade is within the noise. Returns the upgrades, why
    /// the search ended, and the upgrade that was not accepted.
    fn choose_steps(&mut self, start: &Point) -> Result<(Vec<Step>, StopReason, Option<Step>), RolloutError> {
        let direction = self.options.direction;
        let mut greedy = LazyGreedy::new(self.units.len(), self.options.batch);
        let mut steps: Vec<Step> = Vec::new();
        while steps.len() < self.options.budget {
            let Some(unit) = greedy.find_best(&mut self.evaluations, direction)? else {
                return Ok((steps, StopReason::NoCandidates, None));
            };
            let before = steps.last().map_or(&start.values, |step| &step.point.values);
            let values = self.evaluations.evaluate_one(&greedy.upgraded(unit), SeedSet::Judge)?;
            let step_gain = direction.gain(before, &values);
            let is_noise = interval(&step_gain)[0] <= 0.0;
            let step = Step {
                unit: self.units[unit].clone(),
                point: self.point(steps.len() + 1, values, &start.values),
                step_gain,
            };
            self.note_step(&step, is_noise);
            if is_noise && !self.options.all_steps {
                return Ok((steps, StopReason::WithinNoise, Some(step)));
            }
            greedy.upgrade(unit);
            steps.push(step);
        }
        Ok((steps, StopReason::Budget, None))
    }

    fn note_step(&self, step: &Step, is_noise: bool) {
        let Step { unit, point, step_gain } = step;
        let [low, high] = interval(step_gain).map(format_number);
        let gain = format_number(step_gain.mean);
        let noise = if is_noise { ", within the noise" } else { "" };
        (self.on_note)(&format!(
            "step {}: {}, gain {gain} ({low} to {high}){noise}",
            point.upgrades, unit.name
        ));
    }

    /// Evaluates all baselines in one batch. `taken` is the number of upgrades that the search chose.
    fn evaluate_baselines(&mut self, start: &Point, taken: usize) -> Result<Vec<Baseline>, RolloutError> {
        let counts = baseline_steps(&self.options.baseline_steps, taken);
        let bottleneck_first = vec![order_by_congestion(self.congestion)];
        let random = (0..self.options.random_orders).map(|number| random_order(self.units.len(), number));
        let baselines = [(Order::BottleneckFirst, bottleneck_first), (Order::Random, random.collect())];
        let baselines: Vec<(Order, Vec<Vec<usize>>)> =
            baselines.into_iter().filter(|(_, orders)| !orders.is_empty()).collect();
        let first = |order: &Vec<usize>, count: usize| order[..count].iter().copied().collect::<Upgrades>();
        let all_orders = baselines.iter().flat_map(|(_, orders)| orders);
        let configurations: Vec<Upgrades> =
            all_orders.flat_map(|order| counts.iter().map(move |count| first(order, *count))).collect();
        self.evaluations.evaluate(&configurations, SeedSet::Judge)?;
        let mut result = Vec::new();
        for (kind, orders) in baselines {
            let mut points = Vec::new();
            for count in &counts {
                let configurations: Vec<Upgrades> = orders.iter().map(|order| first(order, *count)).collect();
                let values = self.evaluations.evaluate(&configurations, SeedSet::Judge)?;
                let orders =
                    values.into_iter().map(|values| self.point(*count, values, &start.values)).collect();
                points.push(BaselinePoint { upgrades: *count, orders });
            }
            let name = |unit: &usize| self.units[*unit].name.clone();
            let orders = orders.iter().map(|order| order.iter().map(name).collect()).collect();
            result.push(Baseline { order: kind, orders, points });
        }
        Ok(result)
    }

    /// Compares the last step with a baseline after the same number of upgrades.
    fn compare(&self, last: &Step, baseline: &Baseline) -> Option<OrderComparison> {
        let upgrades = last.point.upgrades;
        let point = baseline.points.iter().find(|point| point.upgrades == upgrades)?;
        let advantage: Estimate = self.options.direction.gain(&point.mean_values(), &last.point.values);
        Some(OrderComparison {
            order: baseline.order,
            upgrades,
            outcome: OrderOutcome::of(&advantage),
            advantage,
        })
    }
}

/// Returns the numbers of upgrades at which baselines are evaluated: the requested numbers, or powers of two, and
/// always the last step.
fn baseline_steps(requested: &[usize], taken: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = if requested.is_empty() {
        core::iter::successors(Some(1_usize), |count| count.checked_mul(2))
            .take_while(|count| *count < taken)
            .collect()
    } else {
        requested.to_vec()
    };
    counts.retain(|count| (1..taken).contains(count));
    counts.extend((taken > 0).then_some(taken));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Orders units by falling congestion. Units with equal congestion keep their order.
fn order_by_congestion(congestion: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..congestion.len()).collect();
    order.sort_by(|a, b| congestion[*b].total_cmp(&congestion[*a]));
    order
}

/// Returns a random order, which depends only on the number of units and the number of the order.
fn random_order(units: usize, number: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..units).collect();
    RandomKey::new(u64::from(number), "rollout").shuffle(&mut order);
    order
}

/// The smallest and the largest number of runs of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCount {
    /// The number of runs if the search uses its budget and evaluates no candidate twice.
    pub lazy: u64,
    /// The number of runs if every step evaluates every candidate.
    pub at_most: u64,
}

impl RunCount {
    /// Computes the numbers for this many candidates. `seeds` is the number of seeds that choose, and of seeds that
    /// judge.
    pub(super) fn new(options: &SearchOptions, units: usize, seeds: u32) -> Self {
        let (units, seeds) = (units as u64, u64::from(seeds));
        let budget = (options.budget as u64).min(units);
        let counts = baseline_steps(&options.baseline_steps, usize::try_from(budget).unwrap_or(usize::MAX));
        let orders = 1 + u64::from(options.random_orders);
        // The start on both sets of seeds, its congestion, each step on the judging seeds, and all candidates.
        let fixed = 3 + budget + 1 + orders.saturating_mul(counts.len() as u64);
        let choose_all = (0..budget).fold(0_u64, |sum, step| sum.saturating_add(units - step));
        let choose_lazily = units.saturating_add(budget.saturating_sub(1));
        let runs = |choose: u64| choose.saturating_add(fixed).saturating_mul(seeds);
        Self { lazy: runs(choose_lazily), at_most: runs(choose_all) }
    }
}
