//! What tells series apart: a colour, and a dash, a marker and a hatching for those who do not see it.
//!
//! The colours are Okabe and Ito's ("Color universal design", 2008) without yellow, which white paper swallows.

use super::canvas::{Canvas, Path};
use super::{Chart, Marks};

/// What is drawn as it should be.
pub(super) const REFERENCE: &str = "#777777";

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Its colour.
    pub(super) colour: &'static str,
    /// Its colour with twice as much white.
    pub(super) tint: &'static str,
    /// The dashes of its line; empty for a line without gaps.
    pub(super) dashes: &'static str,
    marker: Marker,
    is_open: bool,
    /// What fills its bars.
    pub(super) hatching: Hatching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Cross,
    Plus,
}

/// What fills a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hatching {
    /// The colour.
    Full,
    /// The tint, with lines in these directions.
    Lines(&'static [Direction]),
}

/// Which way the lines of a hatching go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Up to the right.
    Rising,
    /// Down to the right.
    Falling,
    /// Level.
    Level,
    /// Upright.
    Upright,
}

const LOOKS: [Look; 7] = {
    use Direction::{Falling, Level, Rising, Upright};
    use Hatching::{Full, Lines};
    const fn look(
        (colour, tint): (&'static str, &'static str),
        dashes: &'static str,
        marker: Marker,
        is_open: bool,
        hatching: Hatching,
    ) -> Look {
        Look { colour, tint, dashes, marker, is_open, hatching }
    }
    [
        look(("#0072B2", "#A6CEE4"), "", Marker::Circle, false, Full),
        look(("#D55E00", "#F0C7A6"), "6 2.5", Marker::Square, true, Lines(&[Rising])),
        look(("#009E73", "#A6DDCE"), "2 1.8", Marker::Up, false, Lines(&[])),
        look(("#E69F00", "#F6DEA6"), "8 2 2 2", Marker::Diamond, true, Lines(&[Rising, Falling])),
        look(("#CC79A7", "#EDD0E0"), "11 3", Marker::Down, false, Lines(&[Level])),
        look(("#000000", "#A6A6A6"), "4 1.5", Marker::Cross, true, Lines(&[Falling])),
        look(("#56B4E9", "#C4E5F7"), "7 2 1.5 2 1.5 2", Marker::Plus, true, Lines(&[Upright])),
    ]
};

const REFERENCE_DASHES: [&str; 3] = ["4 3", "1.5 2.5", "8 3 1.5 3"];

/// The look of the series with this number. After seven the colours and shapes begin again, with other dashes and
/// hatchings; what was filled is open, what was open is filled, and what was tinted is white.
pub(super) fn look(number: usize) -> Look {
    let (round, place) = (number / LOOKS.len(), number % LOOKS.len());
    let (own, other) = (LOOKS[place], LOOKS[(place + round) % LOOKS.len()]);
    let is_odd = round % 2 == 1;
    let tint = if is_odd { "#ffffff" } else { own.tint };
    let is_open = own.is_open != is_odd;
    Look { dashes: other.dashes, hatching: other.hatching, tint, is_open, ..own }
}

/// Which name has which look: the same in all panels of a figure, and no two the same.
#[derive(Debug, Default)]
pub(super) struct Looks<'a> {
    /// Each with whether it is alone in every panel that it is in.
    names: Vec<(&'a str, bool)>,
    references: Vec<&'a str>,
}

impl<'a> Looks<'a> {
    /// The looks of all series of a figure.
    pub(super) fn of(charts: &'a [Chart]) -> Self {
        let mut looks = Self::default();
        for chart in charts {
            let (references, names): (Vec<_>, Vec<_>) = match &chart.marks {
                Marks::Lines(lines) | Marks::Points(lines) => lines
                    .iter()
                    .map(|line| (line.name.as_str(), line.is_reference))
                    .partition(|series| series.1),
                Marks::Bars { series, .. } => {
                    (Vec::new(), series.iter().map(|bars| (bars.name.as_str(), false)).collect())
                }
            };
            for (name, _) in references {
                if !looks.references.contains(&name) {
                    looks.references.push(name);
                }
            }
            let is_alone = names.len() == 1;
            for (name, _) in names {
                match looks.names.iter_mut().find(|known| known.0 == name) {
                    Some(known) => known.1 &= is_alone,
                    None => looks.names.push((name, is_alone)),
                }
            }
        }
        looks
    }

    /// The number of a name: also what shifts its markers along a line, away from those of others.
    pub(super) fn number(&self, name: &str) -> usize {
        self.names.iter().position(|known| known.0 == name).unwrap_or(0)
    }

    /// The look of a name.
    pub(super) fn look(&self, name: &str) -> Look {
        let number = self.number(name);
        let look = look(number);
        // A line that is alone needs no dashes, which hide its peaks.
        if self.names.get(number).is_some_and(|known| known.1) { Look { dashes: "", ..look } } else { look }
    }

    /// The dashes of a reference.
    pub(super) fn reference_dashes(&self, name: &str) -> &'static str {
        let number = self.references.iter().position(|known| *known == name).unwrap_or(0);
        REFERENCE_DASHES[number % REFERENCE_DASHES.len()]
    }
}

impl Look {
    /// Draws its marker at a place, so large from the middle to the rim.
    pub(super) fn mark(&self, canvas: &mut Canvas, (x, y): (f64, f64), radius: f64) {
        let around = |corners: &[(f64, f64)]| {
            let mut path = Path::default();
            let corners: Vec<_> =
                corners.iter().map(|&(dx, dy)| (x + radius * dx, y + radius * dy)).collect();
            path.around(&corners);
            path
        };
        let across = |lines: [[(f64, f64); 2]; 2]| {
            let mut path = Path::default();
            for line in lines {
                path.through(&line.map(|(dx, dy)| (x + radius * dx, y + radius * dy)));
            }
            path
        };
        // Of about the same area, so that none looks more important.
        let path = match self.marker {
            Marker::Circle => {
                let looks = self.marker_looks();
                return canvas.shape("circle", &[("cx", x), ("cy", y), ("r", radius)], &looks);
            }
            Marker::Square => around(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::Up => around(&[(-1.2, 0.9), (0.0, -1.2), (1.2, 0.9)]),
            Marker::Down => around(&[(-1.2, -0.9), (0.0, 1.2), (1.2, -0.9)]),
            Marker::Diamond => around(&[(-1.3, 0.0), (0.0, -1.3), (1.3, 0.0), (0.0, 1.3)]),
            Marker::Cross => across([[(-1.0, -1.0), (1.0, 1.0)], [(-1.0, 1.0), (1.0, -1.0)]]),
            Marker::Plus => across([[(-1.2, 0.0), (1.2, 0.0)], [(0.0, -1.2), (0.0, 1.2)]]),
        };
        canvas.path(&path, &self.marker_looks());
    }

    fn marker_looks(&self) -> [(&'static str, &'static str); 3] {
        let fill = if self.is_open { "#ffffff" } else { self.colour };
        [("fill", fill), ("stroke", self.colour), ("stroke-width", "1")]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{line, line_chart};
    use super::*;

    #[test]
    fn no_two_series_differ_by_hue_alone() {
        // More than anyone can read.
        for (i, j) in (0..2 * LOOKS.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let (one, other) = (look(i), look(j));
            assert_ne!((one.dashes, one.marker), (other.dashes, other.marker), "{i} {j}");
            let is_white = |look: Look| look.tint == "#ffffff" && look.hatching != Hatching::Full;
            if one.hatching != Hatching::Full || other.hatching != Hatching::Full {
                assert_ne!((one.hatching, is_white(one)), (other.hatching, is_white(other)), "{i} {j}");
            }
            if i < LOOKS.len() {
                assert_ne!(one.dashes, other.dashes, "{i} {j}");
                assert_ne!(one.marker, other.marker, "{i} {j}");
            }
        }
    }

    #[test]
    fn a_name_looks_the_same_in_all_panels() {
        let chart = |names: &[&str]| line_chart(names.iter().map(|name| line(name, &[])).collect());
        let charts = [chart(&["hpcc", "swift"]), chart(&["queue"]), chart(&["swift"])];
        let looks = Looks::of(&charts);
        assert_eq!(["hpcc", "swift", "queue"].map(|name| looks.number(name)), [0, 1, 2]);
        // The queue is alone wherever it is; the law is not.
        assert_eq!(looks.look("queue").dashes, "");
        assert_eq!(looks.look("swift").dashes, LOOKS[1].dashes);
    }
}
