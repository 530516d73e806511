//! Figures: charts in, vector graphics and the data beside them out.
//!
//! A chart holds what is drawn and nothing of how: the look is one, for all. It reads in colour, in grey and by those who see no red or
//! green, because no two series differ by hue alone.

mod bars;
mod canvas;
mod data;
mod figure;
mod frame;
mod legend;
mod lines;
mod number;
mod palette;
mod scale;
mod ticks;
mod trace;

use serde::{Deserialize, Serialize};

/// A figure with these charts one above the other, as SVG: the column of a paper wide, on white, with nothing outside it. The
/// same charts give the same bytes.
///
/// A name looks the same in all charts of a figure. Charts with the same axis from left to right have the same ends of it.
/// What is not a number is a gap; a value that is infinite was not reached and has a mark at the top edge. What an axis ends before is cut
/// off there.
pub fn svg(charts: &[Chart]) -> String {
    figure::draw(charts)
}

/// The numbers of these charts as CSV, for the file beside the figure: each point or bar in a row of its own, with the names
/// of its chart, its axes and its series. Bars have a `group` and no `x`. Numbers are exact; a cell is empty for what is not one.
pub fn data(charts: &[Chart]) -> String {
    data::table(charts)
}

/// One chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows, in a few words.
    pub title: String,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis upwards.
    pub y: Axis,
    /// What is drawn.
    pub marks: Marks,
    /// What must be known to read it, in lines below it; where there is nothing to draw, why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// How values are laid out on it.
    pub scale: Scale,
    /// Where it begins and ends, where the data should not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// See `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
}

/// How values are laid out on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; what is not above zero is left out.
    Log,
    /// By their distance from one, logarithmically: 0.9, 0.99, 0.999. For the tail of a distribution.
    Tail,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Marks {
    /// Lines through points: time series, sweeps, distributions.
    Lines(Vec<Line>),
    /// Points alone: start against finish, phase plots.
    Points(Vec<Line>),
    /// Bars in groups.
    Bars {
        /// The groups, from left to right.
        groups: Vec<String>,
        /// The bars of each group.
        series: Vec<Bars>,
    },
}

/// A series of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What it is called.
    pub name: String,
    /// The points, in the order in which they are joined.
    #[serde(with = "pairs_with_gaps")]
    pub points: Vec<(f64, f64)>,
    /// Half the 95 % interval of each point's second value; empty where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "numbers_with_gaps")]
    pub half: Vec<f64>,
    /// Drawn as a thin grey line behind the others: what should be.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_reference: bool,
}

/// A series of bars: one per group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    /// What it is called.
    pub name: String,
    /// The values; one that is not a number has no bar, one that is infinite was not reached.
    #[serde(with = "numbers_with_gaps")]
    pub values: Vec<f64>,
    /// Half the 95 % interval of each; empty where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "numbers_with_gaps")]
    pub half: Vec<f64>,
}

/// Numbers in JSON, which has none that are not finite: those are `null`.
mod numbers_with_gaps {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A number as JSON has it: a value that was not reached is infinite, which JSON cannot write.
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(Word),
        Gap(()),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Word {
        NotReached,
    }

    pub(super) fn serialize<S: Serializer>(numbers: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let written = |number: &f64| match *number {
            f64::INFINITY => Written::Word(Word::NotReached),
            finite if finite.is_finite() => Written::Number(finite),
            _ => Written::Gap(()),
        };
        numbers.iter().map(written).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let number = |written| match written {
            Written::Number(number) => number,
            Written::Word(Word::NotReached) => f64::INFINITY,
            Written::Gap(()) => f64::NAN,
        };
        Ok(Vec::<Written>::deserialize(from)?.into_iter().map(number).collect())
    }
}

/// Points in JSON: one flat list, x and y in turn.
mod pairs_with_gaps {
    use super::numbers_with_gaps;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(points: &[(f64, f64)], to: S) -> Result<S::Ok, S::Error> {
        let flat: Vec<f64> = points.iter().flat_map(|(x, y)| [*x, *y]).collect();
        numbers_with_gaps::serialize(&flat, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, f64)>, D::Error> {
        let flat = numbers_with_gaps::deserialize(from)?;
        Ok(flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }
}

#[cfg(test)]
mod tests;
