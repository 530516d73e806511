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
#[derive(Clone, Debug, PartialEq)]
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
    pub notes: Vec<String>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// How values are laid out on it.
    pub scale: Scale,
    /// Where it begins and ends, where the data should not decide.
    pub from: Option<f64>,
    /// See `from`.
    pub to: Option<f64>,
}

/// How values are laid out on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; what is not above zero is left out.
    Log,
    /// By their distance from one, logarithmically: 0.9, 0.99, 0.999. For the tail of a distribution.
    Tail,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is called.
    pub name: String,
    /// The points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
    /// Half the 95 % interval of each point's second value; empty where there is none.
    pub half: Vec<f64>,
    /// Drawn as a thin grey line behind the others: what should be.
    pub is_reference: bool,
}

/// A series of bars: one per group.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What it is called.
    pub name: String,
    /// The values; one that is not a number has no bar, one that is infinite was not reached.
    pub values: Vec<f64>,
    /// Half the 95 % interval of each; empty where there is none.
    pub half: Vec<f64>,
}

#[cfg(test)]
mod tests;
