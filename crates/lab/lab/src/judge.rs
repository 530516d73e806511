//! From summaries to verdicts.
//!
//! A claim is held against every cell it is about. A percentile of messages is judged once, over the messages of all seeds; everything else
//! seed by seed, and it holds in a cell where at least eight of ten seeds say so. A claim holds altogether where it holds in each cell.
//! A value that is only known to be above something is judged where that decides it, and is not comparable where it does not.

use crate::bound::Bounds;
use crate::expression::Expression;
use crate::pooled::{Draw, Reading, readings, with_phase};
use crate::samples::Messages;
use crate::scenario::{As, ClaimSpec, Label, Scalar};
use crate::stats::Estimate;
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
    /// How long its messages took.
    pub messages: Messages,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The cell, in words.
    pub cell: String,
    /// Over seeds; null where it is not known, and then there is a reason.
    pub ours: Option<Estimate>,
    /// Why it is not known: `not reached (3.5 % unfinished), above 120`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The share of messages that did not finish, where what is measured is a time of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<f64>,
    /// In how many seeds it holds, of how many; of a percentile over the messages of all seeds, one of one.
    pub passed: usize,
    /// See `passed`.
    pub of: usize,
    /// What became of the claim in this cell.
    pub outcome: Outcome,
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
        Must::Rising(axis) => along(&points, axis, |before, after| (after - before).is_above(0.0)),
        Must::Falling(axis) => along(&points, axis, |before, after| (after - before).is_below(0.0)),
        other => each(&points, &|value| other.holds(value)),
    };
    if claim.not_comparable.is_none() {
        let is_any = |outcome: Outcome| verdict.cells.iter().any(|cell| cell.outcome == outcome);
        verdict.outcome = match verdict.cells.as_slice() {
            [] => Outcome::NotRun,
            _ if is_any(Outcome::Fails) => Outcome::Fails,
            _ if is_any(Outcome::NotComparable) => Outcome::NotComparable,
            _ => Outcome::Holds,
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
    /// Of a ratio: as far from one, on logarithms, as half to twice of what the paper says.
    NearRatio(f64),
    /// Of a reduction: the ratio that is left of the other.
    NearReduction(f64),
    Rising(String),
    Falling(String),
    Nothing,
}

impl Must {
    /// Whether a value satisfies it; `None` where what is known of the value does not decide that.
    fn holds(&self, value: Bounds) -> Option<bool> {
        match self {
            Self::Above(limit) => value.is_above(*limit),
            Self::Below(limit) => value.is_below(*limit),
            Self::Within(range) => value.is_within(*range),
            // Quantities: within half and twice of the paper's.
            Self::Near(paper) => value.is_within(ordered(paper / 2.0, paper * 2.0)),
            Self::NearRatio(paper) => {
                let whole = libm::log(*paper);
                value.ln().is_within(ordered(whole / 2.0, whole * 2.0))
            }
            Self::NearReduction(paper) => Self::NearRatio(1.0 - paper).holds(Bounds::exact(1.0) - value),
            Self::Rising(_) | Self::Falling(_) => Some(false),
            Self::Nothing => Some(true),
        }
    }

    /// What a size of the paper asks for: of a ratio on logarithms, since half of "twice" would be "the same".
    fn near(paper: f64, claim: &ClaimSpec) -> Self {
        match (&claim.against, claim.form) {
            (Some(_), As::Ratio | As::Factor) => Self::NearRatio(paper),
            (Some(_), As::Reduction) => Self::NearReduction(paper),
            _ => Self::Near(paper),
        }
    }
}

fn ordered(one: f64, other: f64) -> [f64; 2] {
    [one.min(other), one.max(other)]
}

impl core::fmt::Display for Must {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Above(limit) => write!(f, "above {limit}"),
            Self::Below(limit) => write!(f, "below {limit}"),
            Self::Within([low, high]) => write!(f, "{low} to {high}"),
            Self::Near(paper) => write!(f, "half to twice {paper}"),
            Self::NearRatio(paper) => {
                let [low, high] = ordered(paper.sqrt(), paper * paper);
                write!(f, "{} to {} (about {paper})", digits(low), digits(high))
            }
            Self::NearReduction(paper) => {
                let left = 1.0 - paper;
                let [low, high] = ordered(1.0 - left.sqrt(), 1.0 - left * left);
                write!(f, "{} to {} (about {paper})", digits(low), digits(high))
            }
            Self::Rising(axis) => write!(f, "rises with {axis}"),
            Self::Falling(axis) => write!(f, "falls with {axis}"),
            Self::Nothing => f.write_str("reported"),
        }
    }
}

/// Three digits, without zeros behind.
fn digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    rounded.to_string()
}

fn must(claim: &ClaimSpec) -> Result<Must, String> {
    let all = [
        claim.above.map(Must::Above),
        claim.below.map(Must::Below),
        claim.within.map(Must::Within),
        claim.near.map(|paper| Must::near(paper, claim)),
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
    } else if let Some(paper) = claim.near
        && matches!(Must::near(paper, claim), Must::NearRatio(ratio) if ratio <= 0.0 || ratio == 1.0)
    {
        "is a ratio, which is judged by its distance from one; write within"
    } else if let Some(paper) = claim.near
        && matches!(Must::near(paper, claim), Must::NearReduction(part) if part >= 1.0)
    {
        "is a reduction, which is below one; write within"
    } else if claim.gating && claim.not_comparable.is_some() {
        "is gating, but not comparable, so it cannot fail; leave out one of them"
    } else {
        return Ok(());
    };
    Err(format!("claim {:?} {why}", claim.says))
}

/// A cell and phase with what is known of its value.
#[derive(Clone, Debug)]
struct Point {
    labels: Vec<Label>,
    reading: Reading,
}

/// The cells that a claim is about, each phase a cell of its own.
fn points(claim: &ClaimSpec, runs: &[Ran]) -> Result<Vec<Point>, String> {
    let expression =
        Expression::parse(&claim.metric).map_err(|why| format!("claim {:?}: {why}", claim.says))?;
    let here = readings(&expression, runs);
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
    for (labels, reading) in here.iter().filter(|(labels, _)| is_meant(labels)) {
        let reading = match &claim.against {
            None => reading.clone(),
            Some(against) => {
                let other = replaced(labels, against);
                let Some(others) = here.get(&other) else { continue };
                let base = claim.baseline.as_ref().and_then(|baseline| here.get(&replaced(labels, baseline)));
                match (claim.form, base) {
                    (As::ShareOfGain, None) => continue,
                    (As::ShareOfGain, Some(base)) => share_of_gain(reading, others, base),
                    (form, _) => reading.join(others, |this, other| held(form, this, other)),
                }
            }
        };
        if !reading.draws.is_empty() || reading.missing.is_some() {
            points.push(Point { labels: labels.clone(), reading });
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

/// A value held together with another cell's.
fn held(form: As, this: Bounds, other: Bounds) -> Bounds {
    match form {
        As::Ratio => this / other,
        As::Factor => other / this,
        As::Reduction => Bounds::exact(1.0) - this / other,
        As::Difference | As::ShareOfGain => this - other,
    }
}

/// How far a cell comes from a baseline towards another.
fn share_of_gain(this: &Reading, other: &Reading, base: &Reading) -> Reading {
    let gained = base.join(this, |base, this| base - this);
    let to_gain = base.join(other, |base, other| base - other);
    gained.join(&to_gain, |gained, to_gain| match to_gain.value() {
        // Where there is no gain, nothing of one is kept.
        Some(nothing) if nothing <= 0.0 => Bounds::exact(0.0),
        _ => gained / to_gain,
    })
}

fn replaced(labels: &[Label], with: &BTreeMap<String, Scalar>) -> Vec<Label> {
    let other = |label: &Label| Label {
        sweep: label.sweep.clone(),
        value: with.get(&label.sweep).map_or_else(|| label.value.clone(), |value| value.0.clone()),
    };
    labels.iter().map(other).collect()
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

/// The mean over an axis.
fn averaged(points: &[Point], axis: &str) -> Vec<Point> {
    let point = |(labels, members): (Vec<Label>, Vec<&Point>)| {
        let readings: Vec<&Reading> = members.iter().map(|point| &point.reading).collect();
        Point { labels, reading: Reading::mean(&readings) }
    };
    without(points, axis).into_iter().map(point).collect()
}

fn each(points: &[Point], holds: &dyn Fn(Bounds) -> Option<bool>) -> Vec<Measured> {
    let measured = |point: &Point| {
        let answers: Vec<Option<bool>> = point.reading.judged().into_iter().map(holds).collect();
        measured(point, &answers)
    };
    points.iter().map(measured).collect()
}

/// The cells along an axis: in how many seeds every step goes the right way.
fn along(points: &[Point], axis: &str, goes: fn(Bounds, Bounds) -> Option<bool>) -> Vec<Measured> {
    let judged = |(_, members): &(Vec<Label>, Vec<&Point>)| -> Vec<Measured> {
        let is_judged = |draw: &Draw| match draw {
            Draw::Pool => true,
            Draw::Seed(_) => members.iter().all(|point| !point.reading.is_pooled()),
            Draw::Resample(_) => false,
        };
        let first = members.first().into_iter().flat_map(|point| point.reading.draws.keys());
        let shared = first.filter(|draw| {
            is_judged(draw) && members.iter().all(|point| point.reading.draws.contains_key(draw))
        });
        let steps_of = |draw: &Draw| {
            let step = |pair: &[&Point]| goes(pair[0].reading.draws[draw], pair[1].reading.draws[draw]);
            let steps: Vec<Option<bool>> = members.windows(2).map(step).collect();
            match steps.as_slice() {
                // One cell alone neither rises nor falls.
                [] => Some(false),
                _ if steps.contains(&Some(false)) => Some(false),
                _ if steps.contains(&None) => None,
                _ => Some(true),
            }
        };
        let answers: Vec<Option<bool>> = shared.map(steps_of).collect();
        members.iter().map(|point| measured(point, &answers)).collect()
    };
    without(points, axis).iter().flat_map(judged).collect()
}

/// A cell with the answers of its seeds.
fn measured(point: &Point, answers: &[Option<bool>]) -> Measured {
    let passed = answers.iter().filter(|answer| **answer == Some(true)).count();
    let open = answers.iter().filter(|answer| answer.is_none()).count();
    let outcome = match answers.len() {
        0 => Outcome::NotComparable,
        of if enough(passed, of) => Outcome::Holds,
        of if enough(passed + open, of) => Outcome::NotComparable,
        _ => Outcome::Fails,
    };
    let ours = point.reading.estimate();
    Measured {
        cell: named(&point.labels),
        reason: if ours.is_none() { point.reading.reason() } else { None },
        ours,
        unfinished: point.reading.unfinished,
        passed,
        of: answers.len(),
        outcome,
    }
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
