//! Judges claims against run results.
//!
//! A claim is checked in every cell that it covers. A percentile of message times is judged once, over the messages of
//! all seeds. Claims about other metrics are judged seed by seed, and hold in a cell if they hold in at least 8 out of
//! 10 seeds. A claim holds if it holds in all of its cells. If only a lower bound on a value is known, the claim is
//! judged only if the bound settles the outcome. Otherwise, the claim is not comparable.

use crate::bound::Bounds;
use crate::expression::Expression;
use crate::pooled::{Draw, Reading, readings};
use crate::scenario::{ClaimError, ClaimSpec, Comparison, FormProblem, Label, Scalar};
use crate::stats::Estimate;
use crate::summary::RunSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The claim holds.
    Holds,
    /// The claim does not hold.
    Fails,
    /// The claim cannot be compared with our results.
    NotComparable,
    /// None of the claim's cells was run.
    NotRun,
}

/// A claim and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The claim text.
    #[serde(rename = "says")]
    pub claim: String,
    /// Where the paper makes the claim.
    pub paper: String,
    /// The measured metric, as an expression. It is not stored; published verdicts lack it.
    #[serde(skip)]
    pub metric: String,
    /// The condition, in words.
    #[serde(rename = "must")]
    pub condition: String,
    /// The value stated in the paper, if any.
    #[serde(rename = "near")]
    pub paper_value: Option<f64>,
    /// Whether the whole suite fails if this claim fails.
    pub gating: bool,
    /// The outcome over all cells.
    pub outcome: Outcome,
    /// Why the claim is not comparable, or a remark about the claim.
    pub note: String,
    /// The outcome in each cell.
    pub cells: Vec<CellVerdict>,
}

/// The outcome of a claim in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellVerdict {
    /// The cell name.
    pub cell: String,
    /// The measured value over all seeds. If this is `None`, `reason` explains why the value is unknown.
    #[serde(rename = "ours")]
    pub measured: Option<Estimate>,
    /// Why the value is unknown: `not reached (3.5 % unfinished), above 120`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The share of unfinished messages, for metrics based on message times.
    #[serde(rename = "unfinished", default, skip_serializing_if = "Option::is_none")]
    pub unfinished_share: Option<f64>,
    /// The number of seeds for which the condition holds. A percentile over all seeds counts as one seed.
    pub passed: usize,
    /// The number of seeds that were judged.
    #[serde(rename = "of")]
    pub judged: usize,
    /// The outcome in this cell.
    pub outcome: Outcome,
}

/// Judges a claim against run results.
pub fn judge(claim: &ClaimSpec, runs: &[RunSummary]) -> Result<Verdict, ClaimError> {
    let condition = condition_of(claim)?;
    check_form(claim)?;
    let mut verdict = Verdict {
        claim: claim.says.clone(),
        paper: claim.paper.clone(),
        metric: claim.metric.clone(),
        condition: condition.to_string(),
        paper_value: claim.near,
        gating: claim.gating,
        outcome: Outcome::NotComparable,
        note: claim.note.clone(),
        cells: Vec::new(),
    };
    if let Some(reason) = &claim.not_comparable {
        verdict.note.clone_from(reason);
        if claim.metric.is_empty() {
            return Ok(verdict);
        }
    }
    let points = points(claim, runs)?;
    verdict.cells = match &condition {
        Condition::Rising(axis) => judge_trend(&points, axis, |before, after| (after - before).is_above(0.0)),
        Condition::Falling(axis) => {
            judge_trend(&points, axis, |before, after| (after - before).is_below(0.0))
        }
        condition => judge_points(&points, &|value| condition.holds(value)),
    };
    if claim.not_comparable.is_none() {
        let has_cell = |outcome: Outcome| verdict.cells.iter().any(|cell| cell.outcome == outcome);
        verdict.outcome = match verdict.cells.as_slice() {
            [] => Outcome::NotRun,
            _ if has_cell(Outcome::Fails) => Outcome::Fails,
            _ if has_cell(Outcome::NotComparable) => Outcome::NotComparable,
            _ => Outcome::Holds,
        };
    }
    Ok(verdict)
}

/// A claim's condition on a value.
enum Condition {
    Above(f64),
    Below(f64),
    Within([f64; 2]),
    Near(f64),
    /// The logarithm of the ratio must be between half and twice the logarithm of the paper's ratio.
    NearRatio(f64),
    /// The ratio that remains after the reduction must be near the paper's ratio.
    NearReduction(f64),
    Rising(String),
    Falling(String),
    /// No condition: the value is reported but not judged.
    None,
}

impl Condition {
    /// Returns whether a value satisfies the condition; `None` if the bounds on the value are inconclusive.
    fn holds(&self, value: Bounds) -> Option<bool> {
        match self {
            Self::Above(limit) => value.is_above(*limit),
            Self::Below(limit) => value.is_below(*limit),
            Self::Within(range) => value.is_within(*range),
            // A quantity must be between half and twice the paper's value.
            Self::Near(paper) => value.is_within(sorted_pair(paper / 2.0, paper * 2.0)),
            Self::NearRatio(paper) => {
                let log_ratio = libm::log(*paper);
                value.ln().is_within(sorted_pair(log_ratio / 2.0, log_ratio * 2.0))
            }
            Self::NearReduction(paper) => Self::NearRatio(1.0 - paper).holds(Bounds::exact(1.0) - value),
            Self::Rising(_) | Self::Falling(_) => Some(false),
            Self::None => Some(true),
        }
    }

    /// Returns the condition for a value stated in the paper. Ratios are compared by logarithm, because half of "twice
    /// as much" would be "the same".
    fn near(paper: f64, claim: &ClaimSpec) -> Self {
        match (&claim.against, claim.form) {
            (Some(_), Comparison::Ratio | Comparison::Factor) => Self::NearRatio(paper),
            (Some(_), Comparison::Reduction) => Self::NearReduction(paper),
            _ => Self::Near(paper),
        }
    }
}

fn sorted_pair(a: f64, b: f64) -> [f64; 2] {
    [a.min(b), a.max(b)]
}

impl core::fmt::Display for Condition {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Above(limit) => write!(f, "above {limit}"),
            Self::Below(limit) => write!(f, "below {limit}"),
            Self::Within([low, high]) => write!(f, "{low} to {high}"),
            Self::Near(paper) => write!(f, "half to twice {paper}"),
            Self::NearRatio(paper) => {
                let [low, high] = sorted_pair(paper.sqrt(), paper * paper);
                write!(f, "{} to {} (about {paper})", format_three_digits(low), format_three_digits(high))
            }
            Self::NearReduction(paper) => {
                let remaining = 1.0 - paper;
                let [low, high] = sorted_pair(1.0 - remaining.sqrt(), 1.0 - remaining * remaining);
                write!(f, "{} to {} (about {paper})", format_three_digits(low), format_three_digits(high))
            }
            Self::Rising(axis) => write!(f, "rises with {axis}"),
            Self::Falling(axis) => write!(f, "falls with {axis}"),
            Self::None => f.write_str("reported"),
        }
    }
}

/// Formats a value with three significant digits and without trailing zeros.
fn format_three_digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    rounded.to_string()
}

fn condition_of(claim: &ClaimSpec) -> Result<Condition, ClaimError> {
    let candidates = [
        claim.above.map(Condition::Above),
        claim.below.map(Condition::Below),
        claim.within.map(Condition::Within),
        claim.near.map(|paper| Condition::near(paper, claim)),
        claim.rising.clone().map(Condition::Rising),
        claim.falling.clone().map(Condition::Falling),
    ];
    let mut conditions = candidates.into_iter().flatten();
    match (conditions.next(), conditions.next()) {
        (Some(condition), None) => Ok(condition),
        (None, _) if claim.not_comparable.is_some() => Ok(Condition::None),
        (None, _) => Err(ClaimError::NoCondition { claim: claim.says.clone() }),
        (Some(_), Some(_)) => Err(ClaimError::TwoConditions { claim: claim.says.clone() }),
    }
}

/// Rejects claims that can never fail or never hold.
fn check_form(claim: &ClaimSpec) -> Result<(), ClaimError> {
    let is_share_of_gain = claim.form == Comparison::ShareOfGain;
    let near = claim.near.map(|paper| Condition::near(paper, claim));
    let problem = if claim.against.is_none() && (claim.form != Comparison::Ratio || claim.baseline.is_some())
    {
        FormProblem::NoOtherCell
    } else if is_share_of_gain != claim.baseline.is_some() {
        FormProblem::IncompleteShareOfGain
    } else if claim.within.is_some_and(|[low, high]| low > high || low.is_nan() || high.is_nan()) {
        FormProblem::EmptyRange
    } else if claim.near == Some(0.0) {
        FormProblem::NearZero
    } else if matches!(near, Some(Condition::NearRatio(ratio)) if ratio <= 0.0 || ratio == 1.0) {
        FormProblem::NearRatioOfOne
    } else if matches!(near, Some(Condition::NearReduction(reduction)) if reduction >= 1.0) {
        FormProblem::NearFullReduction
    } else if claim.gating && claim.not_comparable.is_some() {
        FormProblem::GatingNotComparable
    } else {
        return Ok(());
    };
    Err(ClaimError::Form { claim: claim.says.clone(), problem })
}

/// A cell's reading in one phase.
#[derive(Clone, Debug)]
struct Point {
    labels: Vec<Label>,
    reading: Reading,
}

/// Returns the points that a claim covers. Each phase is a separate point.
fn points(claim: &ClaimSpec, runs: &[RunSummary]) -> Result<Vec<Point>, ClaimError> {
    let expression = Expression::parse(&claim.metric)
        .map_err(|source| ClaimError::Metric { claim: claim.says.clone(), source })?;
    let readings = readings(&expression, runs);
    check_sweeps(claim, &readings)?;
    let is_covered = |labels: &[Label]| {
        claim.cells.iter().all(|(sweep, value)| {
            labels.iter().any(|label| label.sweep == *sweep && value.0.contains(&label.value))
        })
    };
    let mut points = Vec::new();
    for (labels, reading) in readings.iter().filter(|(labels, _)| is_covered(labels)) {
        let Some(reading) = compared_reading(claim, labels, reading, &readings) else { continue };
        if !reading.draws.is_empty() || reading.missing.is_some() {
            points.push(Point { labels: labels.clone(), reading });
        }
    }
    sort_by_run_order(&mut points, runs);
    if let Some(axis) = &claim.average_over {
        points = average_over(&points, axis);
    }
    Ok(points)
}

/// Checks that every sweep named in a claim exists.
fn check_sweeps(claim: &ClaimSpec, readings: &BTreeMap<Vec<Label>, Reading>) -> Result<(), ClaimError> {
    let other_cells = claim.against.iter().chain(&claim.baseline).flat_map(BTreeMap::keys);
    let axes = [&claim.average_over, &claim.rising, &claim.falling].into_iter().flatten();
    for sweep in claim.cells.keys().chain(other_cells).chain(axes) {
        let exists = readings.keys().any(|labels| labels.iter().any(|label| label.sweep == *sweep));
        if !readings.is_empty() && !exists {
            return Err(ClaimError::UnknownSweep { claim: claim.says.clone(), sweep: sweep.clone() });
        }
    }
    Ok(())
}

/// Returns a cell's reading, or its comparison with the other cell if the claim compares cells. Returns `None` if the
/// other cell was not run.
fn compared_reading(
    claim: &ClaimSpec,
    labels: &[Label],
    reading: &Reading,
    readings: &BTreeMap<Vec<Label>, Reading>,
) -> Option<Reading> {
    let Some(against) = &claim.against else { return Some(reading.clone()) };
    let other = readings.get(&with_values(labels, against))?;
    match claim.form {
        Comparison::ShareOfGain => {
            let baseline = readings.get(&with_values(labels, claim.baseline.as_ref()?))?;
            Some(share_of_gain(reading, other, baseline))
        }
        form => Some(reading.combine(other, |this, other| compare(form, this, other))),
    }
}

/// Sorts points in run order, which matches the order in the scenario file.
fn sort_by_run_order(points: &mut [Point], runs: &[RunSummary]) {
    let mut positions: BTreeMap<(&[Label], &str), usize> = BTreeMap::new();
    let phases = runs.iter().flat_map(|run| run.summary.phases.iter().map(move |phase| (run, phase)));
    for (position, (run, phase)) in phases.enumerate() {
        positions.entry((&run.labels, &phase.name)).or_insert(position);
    }
    let position = |point: &Point| {
        // The phase is the last label.
        let (phase, labels) = point.labels.split_last()?;
        positions.get(&(labels, phase.value.as_str())).copied()
    };
    points.sort_by_cached_key(position);
}

/// Compares the values of two cells.
fn compare(form: Comparison, this: Bounds, other: Bounds) -> Bounds {
    match form {
        Comparison::Ratio => this / other,
        Comparison::Factor => other / this,
        Comparison::Reduction => Bounds::exact(1.0) - this / other,
        Comparison::Difference | Comparison::ShareOfGain => this - other,
    }
}

/// Returns the fraction of the gain from `baseline` to `other` that this cell achieves.
fn share_of_gain(this: &Reading, other: &Reading, baseline: &Reading) -> Reading {
    let gain = baseline.combine(this, |baseline, this| baseline - this);
    let full_gain = baseline.combine(other, |baseline, other| baseline - other);
    gain.combine(&full_gain, |gain, full_gain| match full_gain.value() {
        // If there is no gain, the share is zero.
        Some(loss) if loss <= 0.0 => Bounds::exact(0.0),
        _ => gain / full_gain,
    })
}

/// Returns `labels` with these sweep values replaced.
fn with_values(labels: &[Label], values: &BTreeMap<String, Scalar>) -> Vec<Label> {
    let replace = |label: &Label| Label {
        sweep: label.sweep.clone(),
        value: values.get(&label.sweep).map_or_else(|| label.value.clone(), |value| value.0.clone()),
    };
    labels.iter().map(replace).collect()
}

/// Groups points that differ only along one axis, keyed by their remaining labels.
fn group_without_axis<'a>(points: &'a [Point], axis: &str) -> Vec<(Vec<Label>, Vec<&'a Point>)> {
    let mut groups: Vec<(Vec<Label>, Vec<&Point>)> = Vec::new();
    for point in points {
        let labels: Vec<Label> = point.labels.iter().filter(|label| label.sweep != axis).cloned().collect();
        match groups.iter_mut().find(|(other, _)| *other == labels) {
            Some((_, members)) => members.push(point),
            None => groups.push((labels, vec![point])),
        }
    }
    groups
}

/// Averages points over an axis.
fn average_over(points: &[Point], axis: &str) -> Vec<Point> {
    let average = |(labels, members): (Vec<Label>, Vec<&Point>)| {
        let readings: Vec<&Reading> = members.iter().map(|point| &point.reading).collect();
        Point { labels, reading: Reading::mean(&readings) }
    };
    group_without_axis(points, axis).into_iter().map(average).collect()
}

/// Judges each point separately.
fn judge_points(points: &[Point], holds: &dyn Fn(Bounds) -> Option<bool>) -> Vec<CellVerdict> {
    let verdict = |point: &Point| {
        let answers: Vec<Option<bool>> = point.reading.values_to_judge().into_iter().map(holds).collect();
        cell_verdict(point, &answers)
    };
    points.iter().map(verdict).collect()
}

/// Judges the points along an axis. A seed passes if every step goes in the right direction.
fn judge_trend(
    points: &[Point],
    axis: &str,
    step_holds: fn(Bounds, Bounds) -> Option<bool>,
) -> Vec<CellVerdict> {
    let judge_group = |(_, members): &(Vec<Label>, Vec<&Point>)| -> Vec<CellVerdict> {
        let is_judged = |draw: &Draw| match draw {
            Draw::Pool => true,
            Draw::Seed(_) => members.iter().all(|point| !point.reading.is_pooled()),
            Draw::Resample(_) => false,
        };
        let first = members.first().into_iter().flat_map(|point| point.reading.draws.keys());
        let shared = first.filter(|draw| {
            is_judged(draw) && members.iter().all(|point| point.reading.draws.contains_key(draw))
        });
        let trend_holds = |draw: &Draw| {
            let step = |pair: &[&Point]| step_holds(pair[0].reading.draws[draw], pair[1].reading.draws[draw]);
            let steps: Vec<Option<bool>> = members.windows(2).map(step).collect();
            match steps.as_slice() {
                // A single cell neither rises nor falls.
                [] => Some(false),
                _ if steps.contains(&Some(false)) => Some(false),
                _ if steps.contains(&None) => None,
                _ => Some(true),
            }
        };
        let answers: Vec<Option<bool>> = shared.map(trend_holds).collect();
        members.iter().map(|point| cell_verdict(point, &answers)).collect()
    };
    group_without_axis(points, axis).iter().flat_map(judge_group).collect()
}

/// Combines the answers for all seeds into a cell verdict.
fn cell_verdict(point: &Point, answers: &[Option<bool>]) -> CellVerdict {
    let passed = answers.iter().filter(|answer| **answer == Some(true)).count();
    let undecided = answers.iter().filter(|answer| answer.is_none()).count();
    let outcome = match answers.len() {
        0 => Outcome::NotComparable,
        judged if enough_seeds_passed(passed, judged) => Outcome::Holds,
        judged if enough_seeds_passed(passed + undecided, judged) => Outcome::NotComparable,
        _ => Outcome::Fails,
    };
    let measured = point.reading.estimate();
    CellVerdict {
        cell: cell_name(&point.labels),
        reason: if measured.is_none() { point.reading.reason() } else { None },
        measured,
        unfinished_share: point.reading.unfinished,
        passed,
        judged: answers.len(),
        outcome,
    }
}

/// Returns whether at least 8 out of 10 seeds passed.
fn enough_seeds_passed(passed: usize, judged: usize) -> bool {
    judged > 0 && passed * 10 >= judged * 8
}

/// Returns the cell name, without the implicit phase `all`.
pub fn cell_name(labels: &[Label]) -> String {
    let visible = labels.iter().filter(|label| !(label.sweep == "phase" && label.value == "all"));
    let parts: Vec<String> = visible.map(|label| format!("{} {}", label.sweep, label.value)).collect();
    parts.join(", ")
}
