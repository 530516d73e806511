//! From summaries to verdicts.
//!
//! A claim is held against every cell it is about, seed by seed; it holds in a cell where at least eight of ten seeds say so, and
//! altogether where it holds in each cell.

use crate::expression::Expression;
use crate::scenario::{As, ClaimSpec, Label, Scalar};
use crate::stats::{Estimate, mean};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run as verdicts see it.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The cell.
    pub labels: Vec<Label>,
    /// The seed.
    pub seed: u64,
    /// What it came down to.
    pub summary: Summary,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// It cannot be held against ours.
    NotComparable,
    /// Its cells were not run.
    NotRun,
}

/// A claim and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The claim.
    pub says: String,
    /// Where in the paper.
    pub paper: String,
    /// What must hold, in words.
    pub must: String,
    /// The number the paper gives, where it does.
    pub near: Option<f64>,
    /// Whether the suite fails where this fails.
    pub gating: bool,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it is not comparable, or what was found out.
    pub note: String,
    /// What was measured, cell by cell.
    pub cells: Vec<Measured>,
}

/// What was measured in one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The cell, in words.
    pub cell: String,
    /// Over seeds.
    pub ours: Estimate,
    /// In how many seeds it holds, of how many.
    pub passed: usize,
    /// See `passed`.
    pub of: usize,
    /// Whether that is enough.
    pub holds: bool,
}

/// Judges a claim.
pub fn judge(claim: &ClaimSpec, runs: &[Ran]) -> Result<Verdict, String> {
    let must = must(claim)?;
    check_form(claim)?;
    let mut verdict = Verdict {
        says: claim.says.clone(),
        paper: claim.paper.clone(),
        must: must.to_string(),
        near: claim.near,
        gating: claim.gating,
        outcome: Outcome::NotComparable,
        note: claim.note.clone(),
        cells: Vec::new(),
    };
    if let Some(why) = &claim.not_comparable {
        verdict.note.clone_from(why);
        if claim.metric.is_empty() {
            return Ok(verdict);
        }
    }
    let points = points(claim, runs)?;
    verdict.cells = match &must {
        Must::Rising(axis) => along(&points, axis, |a, b| b > a),
        Must::Falling(axis) => along(&points, axis, |a, b| b < a),
        other => each(&points, &|value| other.holds(value)),
    };
    if claim.not_comparable.is_none() {
        verdict.outcome = match verdict.cells.as_slice() {
            [] => Outcome::NotRun,
            cells if cells.iter().all(|cell| cell.holds) => Outcome::Holds,
            _ => Outcome::Fails,
        };
    }
    Ok(verdict)
}

/// What must hold of a value.
enum Must {
    Above(f64),
    Below(f64),
    Within([f64; 2]),
    Near(f64),
    Rising(String),
    Falling(String),
    Nothing,
}

impl Must {
    fn holds(&self, value: f64) -> bool {
        match self {
            Self::Above(limit) => value > *limit,
            Self::Below(limit) => value < *limit,
            Self::Within([low, high]) => (*low..=*high).contains(&value),
            // Sizes: green within half and twice of the paper's.
            Self::Near(paper) => (0.5..=2.0).contains(&(value / paper)),
            Self::Rising(_) | Self::Falling(_) => false,
            Self::Nothing => true,
        }
    }
}

impl core::fmt::Display for Must {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Above(limit) => write!(f, "above {limit}"),
            Self::Below(limit) => write!(f, "below {limit}"),
            Self::Within([low, high]) => write!(f, "{low} to {high}"),
            Self::Near(paper) => write!(f, "half to twice {paper}"),
            Self::Rising(axis) => write!(f, "rises with {axis}"),
            Self::Falling(axis) => write!(f, "falls with {axis}"),
            Self::Nothing => f.write_str("reported"),
        }
    }
}

fn must(claim: &ClaimSpec) -> Result<Must, String> {
    let all = [
        claim.above.map(Must::Above),
        claim.below.map(Must::Below),
        claim.within.map(Must::Within),
        claim.near.map(Must::Near),
        claim.rising.clone().map(Must::Rising),
        claim.falling.clone().map(Must::Falling),
    ];
    let mut given = all.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(must), None) => Ok(must),
        (None, _) if claim.not_comparable.is_some() => Ok(Must::Nothing),
        (None, _) => Err(format!(
            "claim {:?} says nothing that can fail; add above, below, within, near, rising or falling",
            claim.says
        )),
        (Some(_), Some(_)) => Err(format!("claim {:?} has two conditions; make it two claims", claim.says)),
    }
}

/// Refuses a claim that could not fail, or not hold, whatever is measured.
fn check_form(claim: &ClaimSpec) -> Result<(), String> {
    let is_share = claim.form == As::ShareOfGain;
    let why = if claim.against.is_none() && (claim.form != As::Ratio || claim.baseline.is_some()) {
        "is held against nothing; add against, or leave out as and baseline"
    } else if is_share != claim.baseline.is_some() {
        "needs both for a share of a gain: as = \"share-of-gain\" and a baseline"
    } else if claim.within.is_some_and(|[low, high]| low > high || low.is_nan() || high.is_nan()) {
        "has a range that nothing is within; write the smaller number first"
    } else if claim.near == Some(0.0) {
        "cannot be half to twice of zero; write within"
    } else if claim.gating && claim.not_comparable.is_some() {
        "is gating, but not comparable, so it cannot fail; leave out one of them"
    } else {
        return Ok(());
    };
    Err(format!("claim {:?} {why}", claim.says))
}

/// A cell and phase with its value in each seed.
#[derive(Clone, Debug)]
struct Point {
    labels: Vec<Label>,
    by_seed: BTreeMap<u64, f64>,
}

impl Point {
    fn values(&self) -> Vec<f64> {
        self.by_seed.values().copied().collect()
    }
}

/// The seeds that all of these points have.
fn shared_seeds(points: &[&Point]) -> Vec<u64> {
    let first = points.first().into_iter().flat_map(|point| point.by_seed.keys().copied());
    first.filter(|seed| points.iter().all(|point| point.by_seed.contains_key(seed))).collect()
}

/// The cells that a claim is about, each phase a cell of its own.
fn points(claim: &ClaimSpec, runs: &[Ran]) -> Result<Vec<Point>, String> {
    let expression =
        Expression::parse(&claim.metric).map_err(|why| format!("claim {:?}: {why}", claim.says))?;
    let here = values(&expression, runs);
    let is_meant = |labels: &[Label]| {
        claim
            .cells
            .iter()
            .all(|(sweep, value)| labels.iter().any(|l| l.sweep == *sweep && value.0.contains(&l.value)))
    };
    let others = claim.against.iter().chain(&claim.baseline).flat_map(BTreeMap::keys);
    let axes = [&claim.average_over, &claim.rising, &claim.falling].into_iter().flatten();
    for sweep in claim.cells.keys().chain(others).chain(axes) {
        if !here.is_empty() && !here.keys().any(|labels| labels.iter().any(|label| label.sweep == *sweep)) {
            return Err(format!("claim {:?}: there is no sweep {sweep:?}", claim.says));
        }
    }
    let mut points = Vec::new();
    for (labels, by_seed) in here.iter().filter(|(labels, _)| is_meant(labels)) {
        let by_seed = match &claim.against {
            None => by_seed.clone(),
            Some(against) => {
                let other = replaced(labels, against);
                let Some(others) = here.get(&other) else { continue };
                let base = claim.baseline.as_ref().and_then(|baseline| here.get(&replaced(labels, baseline)));
                let pair = |(seed, value): (&u64, &f64)| {
                    let base = base.and_then(|base| base.get(seed)).copied().unwrap_or(f64::NAN);
                    let held = form(claim.form, *value, *others.get(seed)?, base);
                    held.is_finite().then_some((*seed, held))
                };
                by_seed.iter().filter_map(pair).collect()
            }
        };
        if !by_seed.is_empty() {
            points.push(Point { labels: labels.clone(), by_seed });
        }
    }
    order(&mut points, runs);
    if let Some(axis) = &claim.average_over {
        points = averaged(&points, axis);
    }
    Ok(points)
}

/// Puts points into the order in which their cells were run, which is that of the file.
fn order(points: &mut [Point], runs: &[Ran]) {
    let place = |point: &Point| {
        runs.iter()
            .flat_map(|run| run.summary.phases.iter().map(move |phase| (run, phase.name.as_str())))
            .position(|(run, phase)| with_phase(&run.labels, phase) == point.labels)
    };
    points.sort_by_cached_key(place);
}

fn form(form: As, this: f64, other: f64, base: f64) -> f64 {
    match form {
        As::Ratio => this / other,
        As::Factor => other / this,
        As::Reduction => 1.0 - this / other,
        As::Difference => this - other,
        // Where there is no gain, nothing of one is kept.
        As::ShareOfGain if base <= other => 0.0,
        As::ShareOfGain => (base - this) / (base - other),
    }
}

fn replaced(labels: &[Label], with: &BTreeMap<String, Scalar>) -> Vec<Label> {
    let other = |label: &Label| Label {
        sweep: label.sweep.clone(),
        value: with.get(&label.sweep).map_or_else(|| label.value.clone(), |value| value.0.clone()),
    };
    labels.iter().map(other).collect()
}

fn with_phase(labels: &[Label], phase: &str) -> Vec<Label> {
    let phase = Label { sweep: "phase".into(), value: phase.to_owned() };
    labels.iter().cloned().chain([phase]).collect()
}

/// The value of an expression by cell (phases being cells) and seed.
pub fn values(expression: &Expression, runs: &[Ran]) -> BTreeMap<Vec<Label>, BTreeMap<u64, f64>> {
    let mut all: BTreeMap<Vec<Label>, BTreeMap<u64, f64>> = BTreeMap::new();
    for run in runs {
        for phase in &run.summary.phases {
            let value = expression.value(&|name| phase.values.get(name).copied());
            if let Some(value) = value.filter(|value| value.is_finite()) {
                all.entry(with_phase(&run.labels, &phase.name)).or_default().insert(run.seed, value);
            }
        }
    }
    all
}

/// Points that differ in one axis only, together, by what else they are.
fn without<'a>(points: &'a [Point], axis: &str) -> Vec<(Vec<Label>, Vec<&'a Point>)> {
    let mut rows: Vec<(Vec<Label>, Vec<&Point>)> = Vec::new();
    for point in points {
        let labels: Vec<Label> = point.labels.iter().filter(|label| label.sweep != axis).cloned().collect();
        match rows.iter_mut().find(|(other, _)| *other == labels) {
            Some((_, members)) => members.push(point),
            None => rows.push((labels, vec![point])),
        }
    }
    rows
}

/// The mean over an axis, seed by seed.
fn averaged(points: &[Point], axis: &str) -> Vec<Point> {
    let point = |(labels, members): (Vec<Label>, Vec<&Point>)| {
        let of_seed = |seed: u64| {
            let values: Vec<f64> = members.iter().map(|point| point.by_seed[&seed]).collect();
            (seed, mean(&values).unwrap_or(f64::NAN))
        };
        let by_seed = shared_seeds(&members).into_iter().map(of_seed).collect();
        Point { labels, by_seed }
    };
    without(points, axis).into_iter().map(point).collect()
}

fn each(points: &[Point], holds: &dyn Fn(f64) -> bool) -> Vec<Measured> {
    let measured = |point: &Point| {
        let values = point.values();
        let passed = values.iter().filter(|value| holds(**value)).count();
        Some(Measured {
            cell: named(&point.labels),
            ours: Estimate::of(&values)?,
            passed,
            of: values.len(),
            holds: enough(passed, values.len()),
        })
    };
    points.iter().filter_map(measured).collect()
}

/// The cells along an axis: in how many seeds every step goes the right way.
fn along(points: &[Point], axis: &str, goes: fn(f64, f64) -> bool) -> Vec<Measured> {
    let measured = |(_, members): &(Vec<Label>, Vec<&Point>)| -> Vec<Measured> {
        let seeds = shared_seeds(members);
        let is_right =
            |seed: &&u64| members.windows(2).all(|pair| goes(pair[0].by_seed[seed], pair[1].by_seed[seed]));
        let passed = seeds.iter().filter(is_right).count();
        let holds = members.len() > 1 && enough(passed, seeds.len());
        let one = |point: &&Point| {
            let ours = Estimate::of(&point.values())?;
            Some(Measured { cell: named(&point.labels), ours, passed, of: seeds.len(), holds })
        };
        members.iter().filter_map(one).collect()
    };
    without(points, axis).iter().flat_map(measured).collect()
}

/// Eight of ten.
fn enough(passed: usize, of: usize) -> bool {
    of > 0 && passed * 10 >= of * 8
}

/// A cell in words. The only phase of a run without phases is not named.
pub fn named(labels: &[Label]) -> String {
    let shown = labels.iter().filter(|label| !(label.sweep == "phase" && label.value == "all"));
    let words: Vec<String> = shown.map(|label| format!("{} {}", label.sweep, label.value)).collect();
    words.join(", ")
}
