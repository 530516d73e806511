//! The result of a rollout plan.

use super::objective::{Direction, Objective};
use crate::stats::{Estimate, mean};
use serde::Serialize;

/// A candidate: switches that are upgraded together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// The name, as selectors write it: `rack3`.
    pub name: String,
    /// The switches.
    pub switches: Vec<String>,
}

/// A planned rollout.
#[derive(Clone, Debug, Serialize)]
pub struct RolloutPlan {
    /// The study name.
    pub study: String,
    /// The cell name; empty if the study has one cell.
    pub cell: String,
    /// The phase in which the objective is measured.
    pub phase: String,
    /// The metric to improve.
    pub objective: Objective,
    /// The number of seeds that choose an upgrade. They are the seeds from 1.
    pub choosing_seeds: u32,
    /// The number of seeds that judge an upgrade. They follow the seeds that choose.
    pub judging_seeds: u32,
    /// The switches that write telemetry before the first upgrade.
    pub start_switches: Vec<String>,
    /// The candidates, and the mean number of bytes that wait in each before the first upgrade.
    pub candidates: Vec<CongestedUnit>,
    /// The result of the search.
    #[serde(flatten)]
    pub search: Search,
    /// The effect of the plan on the other traffic, on the judging seeds. Empty if there are no upgrades.
    pub side_effects: Vec<SideEffect>,
}

/// The effect of a plan on traffic that is not its objective, as means over the judging seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideEffect {
    /// The metric, such as `websearch.slowdown_p50`.
    pub metric: String,
    /// Whether a smaller or a larger value is better.
    pub direction: Direction,
    /// The value before the first upgrade.
    pub before: f64,
    /// The value after the last upgrade of the plan.
    pub after: f64,
    /// The value if all candidates are upgraded.
    pub all_upgraded: f64,
    /// The paired gain of the plan. A negative gain is a cost.
    pub gain: Estimate,
}

/// A candidate and its congestion before the first upgrade.
#[derive(Clone, Debug, Serialize)]
pub struct CongestedUnit {
    /// The candidate.
    #[serde(flatten)]
    pub unit: Unit,
    /// The mean number of bytes that wait in the unit's switches.
    pub queued_bytes: f64,
}

/// The upgrades that the search chose, and their comparison with other orders.
#[derive(Clone, Debug, Serialize)]
pub struct Search {
    /// The objective before the first upgrade.
    pub start: Point,
    /// The upgrades, in order.
    pub steps: Vec<Step>,
    /// Why the search ended.
    pub stop: StopReason,
    /// The next upgrade, which the search did not accept.
    pub rejected: Option<Step>,
    /// The objective if all candidates are upgraded.
    pub all_upgraded: Point,
    /// Other orders at the same numbers of upgrades.
    pub baselines: Vec<Baseline>,
    /// The chosen order against each baseline at the last step.
    pub comparisons: Vec<OrderComparison>,
    /// The number of configurations that were evaluated. A configuration counts once per set of seeds.
    pub evaluations: usize,
}

/// Why the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The budget is used up.
    Budget,
    /// All candidates are upgraded.
    NoCandidates,
    /// The gain of the best next upgrade is within the noise.
    WithinNoise,
}

/// The objective of a configuration on the judging seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The number of upgrades.
    pub upgrades: usize,
    /// The objective of each judging seed.
    pub values: Vec<f64>,
    /// The mean over the seeds.
    pub mean: f64,
    /// The paired gain over the start. A positive gain is an improvement.
    pub gain: Estimate,
}

impl Point {
    /// Creates the point of a configuration from its values and the values of the start.
    pub(super) fn new(upgrades: usize, values: Vec<f64>, start: &[f64], direction: Direction) -> Self {
        let gain = direction.gain(start, &values);
        Self { upgrades, mean: mean(&values).unwrap_or(f64::NAN), gain, values }
    }
}

/// An upgrade.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The upgraded unit.
    #[serde(flatten)]
    pub unit: Unit,
    /// The objective after the upgrade.
    #[serde(flatten)]
    pub point: Point,
    /// The paired gain of this upgrade alone.
    pub step_gain: Estimate,
}

/// How a baseline orders the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The most congested switch first, as the paper suggests.
    BottleneckFirst,
    /// Random orders.
    Random,
}

impl core::fmt::Display for Order {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::BottleneckFirst => "bottleneck first",
            Self::Random => "random",
        })
    }
}

/// A baseline: one or more orders of the candidates.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    /// How the candidates are ordered.
    pub order: Order,
    /// The names of the candidates in each order.
    pub orders: Vec<Vec<String>>,
    /// The objective at some numbers of upgrades.
    pub points: Vec<BaselinePoint>,
}

/// The objective of a baseline after a number of upgrades.
#[derive(Clone, Debug, Serialize)]
pub struct BaselinePoint {
    /// The number of upgrades.
    pub upgrades: usize,
    /// The objective under each order.
    pub orders: Vec<Point>,
}

impl BaselinePoint {
    /// Returns the objective of each judging seed, averaged over the orders.
    pub fn mean_values(&self) -> Vec<f64> {
        let seeds = self.orders.first().map_or(0, |order| order.values.len());
        let of_seed = |seed: usize| self.orders.iter().map(|order| order.values[seed]).sum::<f64>();
        (0..seeds).map(|seed| of_seed(seed) / self.orders.len() as f64).collect()
    }

    /// Returns the mean over orders and seeds.
    pub fn mean(&self) -> f64 {
        mean(&self.mean_values()).unwrap_or(f64::NAN)
    }

    /// Returns the smallest and the largest mean of an order.
    pub fn range(&self) -> (f64, f64) {
        let means = || self.orders.iter().map(|order| order.mean);
        (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// The chosen order against a baseline, at the same number of upgrades.
#[derive(Clone, Debug, Serialize)]
pub struct OrderComparison {
    /// The baseline.
    pub order: Order,
    /// The number of upgrades.
    pub upgrades: usize,
    /// The paired advantage of the chosen order. A positive advantage means that the chosen order is better.
    pub advantage: Estimate,
    /// What the interval of the advantage shows.
    pub outcome: OrderOutcome,
}

/// The outcome of a comparison of two orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderOutcome {
    /// The chosen order is better.
    Better,
    /// The chosen order is worse.
    Worse,
    /// The interval contains zero.
    NotDistinguishable,
}

impl OrderOutcome {
    /// Returns what the 95 % interval of an advantage shows.
    pub(super) fn of(advantage: &Estimate) -> Self {
        let [low, high] = interval(advantage);
        if low > 0.0 {
            Self::Better
        } else if high < 0.0 {
            Self::Worse
        } else {
            Self::NotDistinguishable
        }
    }
}

/// Returns the 95 % interval of an estimate. With one seed, the interval is unbounded.
pub fn interval(estimate: &Estimate) -> [f64; 2] {
    let half = estimate.half.unwrap_or(f64::INFINITY);
    [estimate.mean - half, estimate.mean + half]
}
