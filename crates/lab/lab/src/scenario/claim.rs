//! The part of a scenario that says what it should show, and what is drawn.

use super::text::{OneOrMore, Scalar, Scalars};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a paper says, as something that can fail.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClaimSpec {
    /// The claim in a sentence.
    pub says: String,
    /// What is measured: an expression of metrics, such as `victim.rate_gbps / victim.fair_share_gbps`.
    #[serde(default)]
    pub metric: String,
    /// The cells it is about: a value, or several, of sweeps and of `phase`.
    #[serde(default, rename = "where")]
    pub cells: BTreeMap<String, Scalars>,
    /// The cells it is held against: the same with these values instead.
    pub against: Option<BTreeMap<String, Scalar>>,
    /// The cells that gains are counted from, for `share-of-gain`.
    pub baseline: Option<BTreeMap<String, Scalar>>,
    /// How the two are held together.
    #[serde(default, rename = "as")]
    pub form: As,
    /// The mean over this sweep (or `phase`) instead of each value by itself.
    pub average_over: Option<String>,
    /// It must be above this.
    pub above: Option<f64>,
    /// It must be below this.
    pub below: Option<f64>,
    /// It must lie between these.
    pub within: Option<[f64; 2]>,
    /// It must grow along this sweep.
    pub rising: Option<String>,
    /// It must fall along this sweep.
    pub falling: Option<String>,
    /// The number that the paper gives: ours should be between half and twice of it; of a ratio to another cell, on logarithms: as far from one.
    pub near: Option<f64>,
    /// Where in the paper, and what it says there.
    pub paper: String,
    /// Whether the suite fails where this fails.
    #[serde(default)]
    pub gating: bool,
    /// Why it cannot be held against ours.
    pub not_comparable: Option<String>,
    /// What was found out about it, beside the verdict.
    #[serde(default)]
    pub note: String,
}

/// How a value is held together with another cell's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As {
    /// This divided by the other.
    #[default]
    Ratio,
    /// The other divided by this: how many times lower this is.
    Factor,
    /// How much lower this is, as a part of the other.
    Reduction,
    /// This less the other.
    Difference,
    /// How far this comes from the baseline towards the other: 1 for all the way.
    ShareOfGain,
}

/// A figure.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FigureSpec {
    /// What it shows, in a few words.
    pub title: String,
    /// What kind it is.
    pub kind: FigureKind,
    /// What is drawn: an expression of metrics; for `series` and `distribution`, the names of series or distributions.
    pub metric: OneOrMore,
    /// What lies along the axis: a sweep or `phase`.
    pub along: Option<String>,
    /// One line or bar for each value of this: a sweep, `phase`.
    pub by: Option<String>,
    /// Only these cells.
    #[serde(default, rename = "where")]
    pub cells: BTreeMap<String, Scalars>,
    /// The label of the axis from left to right.
    #[serde(default)]
    pub x: String,
    /// The label of the axis upwards.
    #[serde(default)]
    pub y: String,
    /// Where the axis from left to right begins, where not everything is drawn: microseconds for `series`.
    pub from_x: Option<f64>,
    /// Where it ends.
    pub to_x: Option<f64>,
    /// Logarithmic from left to right.
    #[serde(default)]
    pub log_x: bool,
    /// Logarithmic upwards.
    #[serde(default)]
    pub log_y: bool,
    /// An expression that is drawn as what should be.
    pub reference: Option<String>,
}

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// A metric as bars, by `along` and `by`.
    Bars,
    /// A metric as lines along a sweep.
    Lines,
    /// What was written down over time, of the first seed; one panel per name.
    Series,
    /// A distribution, cumulated, with its tail stretched.
    Distribution,
    /// Start against finish.
    Finish,
    /// Window against queue: the paths of a fluid model from many starts, one panel per name.
    Phase,
}
