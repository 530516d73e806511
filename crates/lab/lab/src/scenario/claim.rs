//! A scenario's claims and figures.

use super::text::{OneOrMore, Scalar, Scalars};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A claim of the paper in a form that can be checked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClaimSpec {
    /// The claim in one sentence.
    pub says: String,
    /// The measured value: an expression over metrics, such as `victim.rate_gbps / victim.fair_share_gbps`.
    #[serde(default)]
    pub metric: String,
    /// The cells that the claim applies to, selected by one or more values of each sweep or of `phase`.
    #[serde(default, rename = "where")]
    pub cells: BTreeMap<String, Scalars>,
    /// The cells to compare with, which differ from the claim's cells only in these values.
    pub against: Option<BTreeMap<String, Scalar>>,
    /// The baseline cells from which gains are measured, for `share-of-gain`.
    pub baseline: Option<BTreeMap<String, Scalar>>,
    /// How the two values are compared.
    #[serde(default, rename = "as")]
    pub form: Comparison,
    /// Averages over this sweep (or `phase`) instead of judging each value separately.
    pub average_over: Option<String>,
    /// The value must be above this number.
    pub above: Option<f64>,
    /// The value must be below this number.
    pub below: Option<f64>,
    /// The value must lie between these two numbers.
    pub within: Option<[f64; 2]>,
    /// The value must increase along this sweep.
    pub rising: Option<String>,
    /// The value must decrease along this sweep.
    pub falling: Option<String>,
    /// The number that the paper reports. The value must lie between half and twice this number. For a ratio to
    /// another cell, the logarithm of the value must lie between half and twice the logarithm of this number.
    pub near: Option<f64>,
    /// The location of the claim in the paper, and what the paper states there.
    pub paper: String,
    /// Whether a failure of this claim fails the whole suite.
    #[serde(default)]
    pub gating: bool,
    /// Why the claim cannot be compared with our results.
    pub not_comparable: Option<String>,
    /// A remark shown next to the verdict.
    #[serde(default)]
    pub note: String,
}

/// How a value is compared with the value of another cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "As")]
pub enum Comparison {
    /// This value divided by the other.
    #[default]
    Ratio,
    /// The other value divided by this value, which is how many times lower this value is.
    Factor,
    /// How much lower this value is, as a fraction of the other value.
    Reduction,
    /// This value minus the other.
    Difference,
    /// The fraction of the gain from the baseline to the other value that this value achieves; 1 is the full gain.
    ShareOfGain,
}

/// A figure.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FigureSpec {
    /// A short title.
    pub title: String,
    /// The kind of figure.
    pub kind: FigureKind,
    /// What to draw: an expression over metrics. For `series` and `distribution`, the names of series or distributions.
    pub metric: OneOrMore,
    /// The x axis: a sweep or `phase`.
    pub along: Option<String>,
    /// Draws one line or bar for each value of this sweep, or of `phase`.
    pub by: Option<String>,
    /// The cells to draw; all cells by default.
    #[serde(default, rename = "where")]
    pub cells: BTreeMap<String, Scalars>,
    /// The label of the x axis.
    #[serde(default)]
    pub x: String,
    /// The label of the y axis.
    #[serde(default)]
    pub y: String,
    /// The start of the x axis, in microseconds for `series`. By default, all data is drawn.
    pub from_x: Option<f64>,
    /// The end of the x axis, in the same unit as `from-x`. By default, all data is drawn.
    pub to_x: Option<f64>,
    /// Whether the x axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// Whether the y axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
    /// An expression to draw as a reference.
    pub reference: Option<String>,
}

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// A metric as bars, grouped by `along` and `by`.
    Bars,
    /// A metric as lines along a sweep.
    Lines,
    /// Time series of the first seed, with one panel per name.
    Series,
    /// A cumulative distribution with a stretched tail.
    Distribution,
    /// Start times versus finish times.
    Finish,
    /// A phase plot of window and queue: trajectories of a fluid model from many starting points, with one panel per
    /// name.
    Phase,
}
