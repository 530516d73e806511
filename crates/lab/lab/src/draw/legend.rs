//! The legend: above what it explains, in as many rows as it needs, so that it never covers data.

use super::canvas::{Canvas, HALF_DIGIT, LEADING, LETTERS, WIDTH, Words, width};
use super::palette::{Looks, REFERENCE};
use super::trace::Frame;
use super::{Marks, bars, lines};

/// How long the sample of a line is: its dashes must be seen.
const SAMPLE: f64 = 26.0;

/// The side of the sample of a bar.
const BOX: f64 = 10.0;

/// Between a sample and its name.
const GAP: f64 = 4.0;

/// Between a name and the next sample.
const SPACE: f64 = 10.0;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Line,
    Points,
    Reference,
    Bars,
}

impl Kind {
    const fn sample(self) -> f64 {
        match self {
            Self::Line | Self::Reference => SAMPLE,
            Self::Points | Self::Bars => BOX,
        }
    }
}

/// The names of a chart's series, in rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Legend {
    /// Name, kind, distance from the left, row.
    entries: Vec<(String, Kind, f64, usize)>,
}

impl Legend {
    /// The legend of these marks, from `left` to the edge of the page.
    pub(super) fn of(marks: &Marks, left: f64) -> Self {
        let series: Vec<(&str, Kind)> = match marks {
            Marks::Lines(lines) | Marks::Points(lines) => {
                let usual = if matches!(marks, Marks::Lines(_)) { Kind::Line } else { Kind::Points };
                let kind = |is_reference| if is_reference { Kind::Reference } else { usual };
                lines.iter().map(|line| (line.name.as_str(), kind(line.is_reference))).collect()
            }
            Marks::Bars { series, .. } => {
                series.iter().map(|bars| (bars.name.as_str(), Kind::Bars)).collect()
            }
        };
        let (mut x, mut row) = (left, 0);
        let mut entries: Vec<(String, Kind, f64, usize)> = Vec::new();
        for (name, kind) in series {
            if name.is_empty() || entries.iter().any(|entry| entry.0 == name && entry.1 == kind) {
                continue;
            }
            let needed = kind.sample() + GAP + width(name);
            if x > left && x + needed > WIDTH {
                (x, row) = (left, row + 1);
            }
            entries.push((name.to_owned(), kind, x, row));
            x += needed + SPACE;
        }
        Self { entries }
    }

    /// How high it is.
    pub(super) fn height(&self) -> f64 {
        self.entries.last().map_or(0.0, |entry| (entry.3 + 1) as f64 * LEADING)
    }

    /// Draws it below `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: f64, looks: &Looks<'_>) {
        if self.entries.is_empty() {
            return;
        }
        canvas.open("g", &[], &[("class", "legend")]);
        for (name, kind, x, row) in &self.entries {
            let baseline = top + *row as f64 * LEADING + LETTERS;
            let middle = baseline - HALF_DIGIT;
            let end = x + kind.sample();
            match kind {
                Kind::Line => {
                    lines::stroke(canvas, &[vec![(*x, middle), (end, middle)]], &looks.look(name));
                    looks.look(name).mark(canvas, (x + SAMPLE / 2.0, middle), lines::RADIUS);
                }
                Kind::Points => looks.look(name).mark(canvas, (x + BOX / 2.0, middle), lines::RADIUS),
                Kind::Reference => {
                    let dashes = looks.reference_dashes(name);
                    lines::stroke_reference(canvas, &[vec![(*x, middle), (end, middle)]], dashes);
                }
                Kind::Bars => {
                    let half = BOX / 2.0;
                    let frame = Frame { left: *x, top: middle - half, right: end, bottom: middle + half };
                    bars::fill(canvas, &frame, &looks.look(name), "key");
                }
            }
            let colour: &[(&str, &str)] = if *kind == Kind::Reference { &[("fill", REFERENCE)] } else { &[] };
            let room = WIDTH - end - GAP - 1.0;
            canvas.words(&Words::new((end + GAP, baseline), name).looking(colour).within(room));
        }
        canvas.close("g");
    }
}
