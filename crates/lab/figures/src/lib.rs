//! Renders charts as SVG figures, and their data as CSV.
//!
//! A [`Chart`] contains data but no styling. All figures share one style, which is readable in greyscale and for
//! colour-blind readers, because series differ in dashes, markers and hatching as well as in colour.

mod bar_marks;
mod canvas;
mod csv_table;
mod description;
mod end_labels;
mod frame;
mod geometry;
mod layout;
mod legend;
mod line_marks;
mod numbers;
mod palette;
mod scale;
mod ticks;

pub use description::{FigureDescription, SeriesAppearance, describe_figure};
pub use geometry::PanelGeometry;
pub use palette::DARK_COLOURS;

use serde::{Deserialize, Serialize};

/// Renders charts as one SVG figure. The charts are stacked vertically on a white background, one paper column wide.
///
/// The output is deterministic. A series has the same style in all charts of a figure. Charts with the same x axis
/// share its range. A NaN leaves a gap. An infinite value stands for a value that was not reached, and is marked at the
/// top edge. Data outside an axis range is clipped.
pub fn render_svg(charts: &[Chart]) -> String {
    layout::draw(charts, &[])
}

/// Renders charts like [`render_svg`], with the same style for a series in every figure if its name is in
/// `fixed_names`. The position in the list determines the style, so append new names at the end.
pub fn render_svg_with_fixed_styles(charts: &[Chart], fixed_names: &[&str]) -> String {
    layout::draw(charts, fixed_names)
}

/// Renders chart data as CSV: one row per point or bar, with the chart title, axis labels and series name.
///
/// Bars have a `group` instead of an `x`. Numbers are written exactly. A NaN becomes an empty cell.
pub fn render_csv(charts: &[Chart]) -> String {
    csv_table::write_table(charts)
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The data.
    pub marks: Marks,
    /// Notes printed below the chart. If the chart has no data, they explain why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Chart {
    /// Returns whether the chart has no value to show. A value that was not reached counts as a value.
    pub fn is_empty(&self) -> bool {
        let is_value = |value: &f64| value.is_finite() || *value == f64::INFINITY;
        match &self.marks {
            Marks::Lines(lines) | Marks::Points(lines) => {
                !lines.iter().flat_map(|line| &line.points).any(|(x, y)| x.is_finite() && is_value(y))
            }
            Marks::Bars { series, .. } => !series.iter().flat_map(|bars| &bars.values).any(is_value),
        }
    }
}

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The label: the quantity and its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// The lower end; `None` derives it from the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// The upper end; `None` derives it from the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
}

/// The mapping from values to positions on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// A linear scale.
    Linear,
    /// A logarithmic scale. Values that are not positive are omitted.
    Log,
    /// A logarithmic scale of the distance from one: 0.9, 0.99, 0.999. This scale shows the tail of a distribution.
    Tail,
}

/// The data of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Marks {
    /// Lines, for time series, sweeps and distributions.
    Lines(Vec<LineSeries>),
    /// Points without lines, for scatter plots.
    Points(Vec<LineSeries>),
    /// Grouped bars.
    Bars {
        /// The groups, from left to right.
        groups: Vec<String>,
        /// The series. Each has one bar per group.
        series: Vec<BarSeries>,
    },
}

/// A series of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineSeries {
    /// The name in the legend.
    pub name: String,
    /// The points, in drawing order.
    #[serde(with = "pairs_with_gaps")]
    pub points: Vec<(f64, f64)>,
    /// The half-widths of the 95 % confidence intervals of the y values; empty if there are no intervals.
    #[serde(default, rename = "half", skip_serializing_if = "Vec::is_empty", with = "numbers_with_gaps")]
    pub half_widths: Vec<f64>,
    /// Whether this is a reference line, drawn thin and grey behind the other series.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_reference: bool,
}

/// A series of bars, one per group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BarSeries {
    /// The name in the legend.
    pub name: String,
    /// The values. A NaN has no bar. An infinite value stands for a value that was not reached.
    #[serde(with = "numbers_with_gaps")]
    pub values: Vec<f64>,
    /// The half-widths of the 95 % confidence intervals of the values; empty if there are no intervals.
    #[serde(default, rename = "half", skip_serializing_if = "Vec::is_empty", with = "numbers_with_gaps")]
    pub half_widths: Vec<f64>,
}

/// Serializes numbers that can be NaN or infinite, which JSON cannot represent.
mod numbers_with_gaps {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A number in JSON. Infinity becomes the word `not-reached`, and NaN becomes `null`.
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum JsonNumber {
        Number(f64),
        Word(Word),
        Gap(()),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Word {
        NotReached,
    }

    pub(super) fn serialize<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        let to_json = |number: &f64| match *number {
            f64::INFINITY => JsonNumber::Word(Word::NotReached),
            finite if finite.is_finite() => JsonNumber::Number(finite),
            _ => JsonNumber::Gap(()),
        };
        numbers.iter().map(to_json).collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        let to_f64 = |number| match number {
            JsonNumber::Number(number) => number,
            JsonNumber::Word(Word::NotReached) => f64::INFINITY,
            JsonNumber::Gap(()) => f64::NAN,
        };
        Ok(Vec::<JsonNumber>::deserialize(deserializer)?.into_iter().map(to_f64).collect())
    }
}

/// Serializes points as one flat JSON list of alternating x and y values.
mod pairs_with_gaps {
    use super::numbers_with_gaps;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
        let flat: Vec<f64> = points.iter().flat_map(|(x, y)| [*x, *y]).collect();
        numbers_with_gaps::serialize(&flat, serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(f64, f64)>, D::Error> {
        let flat = numbers_with_gaps::deserialize(deserializer)?;
        Ok(flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }
}

#[cfg(test)]
mod tests;
