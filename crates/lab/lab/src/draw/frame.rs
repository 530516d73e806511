//! What surrounds the data of a chart: frame, grid, ticks and labels.

use super::canvas::{Canvas, HALF_DIGIT, INK, LETTERS, Path, WIDTH, Words, width};
use super::scale::{Ruler, Span};
use super::ticks::{Tick, ticks};
use super::trace::{Frame, Place};

/// How long a tick is.
pub(super) const TICK: f64 = 3.5;

/// How long a small tick is, between decades.
const SMALL_TICK: f64 = 2.0;

/// Between neighbouring labels of an axis, at least.
const APART: f64 = 7.0;

/// Between the baselines of neighbouring labels above each other, at least: digits reach neither up nor down as far as letters.
const CLOSEST: f64 = 0.9 * LETTERS;

/// Between neighbouring ticks, at least.
const CLOSEST_TICKS: f64 = 1.4;

/// Half the width of the caps of an interval.
const CAP: f64 = 2.0;

const GRID: &[(&str, &str)] = &[("stroke", "#dddddd"), ("stroke-width", "0.7")];
const AXIS: &[(&str, &str)] = &[("stroke", INK), ("stroke-width", "0.8")];

/// A chart's frame and its axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) frame: Frame,
    pub(super) x: Ruler,
    pub(super) y: Ruler,
}

impl Plot {
    /// Where a point is on the page.
    pub(super) fn place(&self, (x, y): Place) -> Option<Place> {
        Some((self.x.place(x)?, self.y.place(y)?))
    }

    /// Draws an interval at `x` between two values, as far as the axis goes, with this colour around it, and says from where to
    /// where it is.
    pub(super) fn draw_whisker(
        &self,
        canvas: &mut Canvas,
        x: f64,
        (low, high): (f64, f64),
        halo: Option<&str>,
    ) -> Option<(f64, f64)> {
        let (from, to) = (self.y.place_within(low)?, self.y.place_within(high)?);
        if x < self.frame.left || x > self.frame.right {
            return None;
        }
        for (colour, thickness) in halo.map(|colour| (colour, "2.2")).into_iter().chain([(INK, "0.9")]) {
            let looks = [("stroke", colour), ("stroke-width", thickness)];
            canvas.line((x, from), (x, to), &looks);
            for (value, end) in [(low, from), (high, to)] {
                // An end that is cut off has no cap.
                if value >= self.y.span.low && value <= self.y.span.high {
                    canvas.line((x - CAP, end), (x + CAP, end), &looks);
                }
            }
        }
        Some((from, to))
    }

    /// Draws grid, ticks and their labels from the bottom to the top.
    pub(super) fn draw_y_axis(&self, canvas: &mut Canvas, ticks: &[Tick]) {
        let Frame { left, right, .. } = self.frame;
        for tick in ticks {
            let Some(y) = self.y.place(tick.value) else { continue };
            if tick.label.is_empty() {
                canvas.line((left - SMALL_TICK, y), (left, y), AXIS);
                continue;
            }
            canvas.line((left, y), (right, y), GRID);
            canvas.line((left - TICK, y), (left, y), AXIS);
            canvas.words(&Words::new((left - TICK - 2.0, y + HALF_DIGIT), &tick.label).ending());
        }
    }

    /// Draws ticks and their labels from left to right.
    pub(super) fn draw_x_axis(&self, canvas: &mut Canvas) {
        let bottom = self.frame.bottom;
        for tick in x_ticks(&self.x) {
            let Some(x) = self.x.place(tick.value) else { continue };
            let length = if tick.label.is_empty() { SMALL_TICK } else { TICK };
            canvas.line((x, bottom), (x, bottom + length), AXIS);
            let middle = label_middle(x, &tick.label);
            canvas.words(&Words::new((middle, bottom + TICK + LETTERS), &tick.label).centred());
        }
    }
}

/// The ticks of an axis upwards that is so long.
pub(super) fn y_ticks(span: &Span, length: f64) -> Vec<Tick> {
    ticks(span, |ticks| are_apart(ticks, |tick| Some((span.share(tick.value)? * length, CLOSEST))))
}

/// The ticks of an axis from left to right.
fn x_ticks(ruler: &Ruler) -> Vec<Tick> {
    let reach =
        |tick: &Tick| Some((label_middle(ruler.place(tick.value)?, &tick.label), width(&tick.label) + APART));
    ticks(&ruler.span, |ticks| are_apart(ticks, reach))
}

/// Where a label has its middle: at its tick, or as near as the edge of the page allows.
fn label_middle(x: f64, label: &str) -> f64 {
    x.min(WIDTH - width(label) / 2.0)
}

/// Whether ticks, and labels of these middles and lengths, stay apart.
fn are_apart(ticks: &[Tick], reach: impl Fn(&Tick) -> Option<(f64, f64)>) -> bool {
    let labelled = ticks.iter().filter(|tick| !tick.label.is_empty());
    let labelled: Vec<(f64, f64)> = labelled.filter_map(&reach).collect();
    let all: Vec<f64> = ticks.iter().filter_map(&reach).map(|(middle, _)| middle).collect();
    labelled.windows(2).all(|pair| pair[1].0 - pair[0].0 >= f64::midpoint(pair[0].1, pair[1].1))
        && all.windows(2).all(|pair| pair[1] - pair[0] >= CLOSEST_TICKS)
}

/// Draws the frame itself.
pub(super) fn draw_frame(canvas: &mut Canvas, frame: &Frame) {
    let size = [
        ("x", frame.left),
        ("y", frame.top),
        ("width", frame.right - frame.left),
        ("height", frame.bottom - frame.top),
    ];
    canvas.shape("rect", &size, &[&[("class", "plot"), ("fill", "none")], AXIS].concat());
}

/// Says that there is nothing to draw; why stands below.
pub(super) fn draw_no_data(canvas: &mut Canvas, frame: &Frame, notes: &[String]) {
    let middle = (f64::midpoint(frame.left, frame.right), f64::midpoint(frame.top, frame.bottom));
    let text = if notes.is_empty() { "no data" } else { "no data, for the reason below" };
    canvas.words(&Words::new(middle, text).centred().within(frame.right - frame.left));
}

/// Marks a value that was not reached: an arrow that ends at the top edge.
pub(super) fn draw_not_reached(canvas: &mut Canvas, frame: &Frame, x: f64, colour: &str) {
    if x < frame.left || x > frame.right {
        return;
    }
    let (tip, base) = (frame.top + 1.0, frame.top + 8.0);
    let mut path = Path::default();
    path.around(&[(x, tip), (x + 4.0, base), (x - 4.0, base)]);
    canvas.path(
        &path,
        &[("class", "not-reached"), ("fill", "#ffffff"), ("stroke", colour), ("stroke-width", "1.2")],
    );
}
