//! The legend, which is placed above the plot in as many rows as needed, so that it never covers data.

use super::canvas::{Canvas, FONT_SIZE, HALF_DIGIT, LINE_HEIGHT, Label, WIDTH, text_width};
use super::geometry::Frame;
use super::palette::{REFERENCE_COLOUR, StyleMap};
use super::{Marks, bar_marks, line_marks};

/// The length of a line sample, which must be long enough to show the dash pattern.
const LINE_SAMPLE_LENGTH: f64 = 26.0;

/// The side length of a bar sample.
const BAR_SAMPLE_SIZE: f64 = 10.0;

/// The distance between a sample and its name.
const SAMPLE_GAP: f64 = 4.0;

/// The distance between a name and the next sample.
const ENTRY_GAP: f64 = 10.0;

/// The kind of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeriesKind {
    Line,
    Points,
    Reference,
    Bars,
}

impl SeriesKind {
    const fn sample_width(self) -> f64 {
        match self {
            Self::Line | Self::Reference => LINE_SAMPLE_LENGTH,
            Self::Points | Self::Bars => BAR_SAMPLE_SIZE,
        }
    }
}

/// A legend entry.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    name: String,
    kind: SeriesKind,
    /// The left edge of the sample.
    x: f64,
    row: usize,
}

/// The legend of a chart, arranged in rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Legend {
    entries: Vec<Entry>,
}

impl Legend {
    /// Lays out the legend of `marks` between `left` and the right edge of the page.
    pub(super) fn new(marks: &Marks, left: f64) -> Self {
        let series: Vec<(&str, SeriesKind)> = match marks {
            Marks::Lines(lines) | Marks::Points(lines) => {
                let default_kind =
                    if matches!(marks, Marks::Lines(_)) { SeriesKind::Line } else { SeriesKind::Points };
                let kind = |is_reference| if is_reference { SeriesKind::Reference } else { default_kind };
                lines.iter().map(|line| (line.name.as_str(), kind(line.is_reference))).collect()
            }
            Marks::Bars { series, .. } => {
                series.iter().map(|bars| (bars.name.as_str(), SeriesKind::Bars)).collect()
            }
        };
        let (mut x, mut row) = (left, 0);
        let mut entries: Vec<Entry> = Vec::new();
        for (name, kind) in series {
            if name.is_empty() || entries.iter().any(|entry| entry.name == name && entry.kind == kind) {
                continue;
            }
            let needed = kind.sample_width() + SAMPLE_GAP + text_width(name);
            if x > left && x + needed > WIDTH {
                (x, row) = (left, row + 1);
            }
            entries.push(Entry { name: name.to_owned(), kind, x, row });
            x += needed + ENTRY_GAP;
        }
        Self { entries }
    }

    /// Returns the height of the legend.
    pub(super) fn height(&self) -> f64 {
        self.entries.last().map_or(0.0, |entry| (entry.row + 1) as f64 * LINE_HEIGHT)
    }

    /// Draws the legend below `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: f64, styles: &StyleMap<'_>) {
        if self.entries.is_empty() {
            return;
        }
        canvas.open("g", &[], &[("class", "legend")]);
        for Entry { name, kind, x, row } in &self.entries {
            let baseline = top + *row as f64 * LINE_HEIGHT + FONT_SIZE;
            let middle = baseline - HALF_DIGIT;
            let end = x + kind.sample_width();
            match kind {
                SeriesKind::Line => {
                    line_marks::stroke(canvas, &[vec![(*x, middle), (end, middle)]], &styles.style(name));
                    styles.style(name).draw_marker(
                        canvas,
                        (x + LINE_SAMPLE_LENGTH / 2.0, middle),
                        line_marks::MARKER_RADIUS,
                    );
                }
                SeriesKind::Points => styles.style(name).draw_marker(
                    canvas,
                    (x + BAR_SAMPLE_SIZE / 2.0, middle),
                    line_marks::MARKER_RADIUS,
                ),
                SeriesKind::Reference => {
                    let dashes = styles.reference_dashes(name);
                    line_marks::stroke_reference(canvas, &[vec![(*x, middle), (end, middle)]], dashes);
                }
                SeriesKind::Bars => {
                    let half = BAR_SAMPLE_SIZE / 2.0;
                    let frame = Frame { left: *x, top: middle - half, right: end, bottom: middle + half };
                    bar_marks::draw_bar(canvas, &frame, &styles.style(name), "key");
                }
            }
            let colour: &[(&str, &str)] =
                if *kind == SeriesKind::Reference { &[("fill", REFERENCE_COLOUR)] } else { &[] };
            let max_length = WIDTH - end - SAMPLE_GAP - 1.0;
            canvas.label(
                &Label::new((end + SAMPLE_GAP, baseline), name).with_attributes(colour).fit_to(max_length),
            );
        }
        canvas.close("g");
    }
}
