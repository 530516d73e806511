//! Draws a chart's frame, grid, ticks and tick labels.

use super::canvas::{Canvas, FONT_SIZE, HALF_DIGIT, Label, Path, TEXT_COLOUR, WIDTH, text_width};
use super::geometry::{Frame, PanelGeometry, Point};
use super::scale::{AxisRange, PageAxis};
use super::ticks::{Tick, ticks};

/// The length of a tick.
pub(super) const TICK_LENGTH: f64 = 3.5;

/// The length of a minor tick between decades.
const MINOR_TICK_LENGTH: f64 = 2.0;

/// The smallest gap between neighbouring x-axis labels.
const MIN_LABEL_GAP: f64 = 7.0;

/// The smallest distance between the baselines of y-axis labels. Digits are shorter than a line of text.
const MIN_BASELINE_GAP: f64 = 0.9 * FONT_SIZE;

/// The smallest distance between ticks.
const MIN_TICK_GAP: f64 = 1.4;

/// Half the width of a whisker cap.
const CAP_HALF_WIDTH: f64 = 2.0;

const GRID_STYLE: &[(&str, &str)] = &[("stroke", "#dddddd"), ("stroke-width", "0.7")];
const AXIS_STYLE: &[(&str, &str)] = &[("stroke", TEXT_COLOUR), ("stroke-width", "0.8")];

/// The frame and axes of a chart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) frame: Frame,
    pub(super) x: PageAxis,
    pub(super) y: PageAxis,
}

impl Plot {
    /// Returns the page position of a data point, if both scales can show it.
    pub(super) fn position(&self, (x, y): Point) -> Option<Point> {
        Some((self.x.position(x)?, self.y.position(y)?))
    }

    /// Returns the geometry of the plot. `bars` are the widths of a group and of a bar.
    pub(super) const fn geometry(&self, bars: Option<[f64; 2]>) -> PanelGeometry {
        let Frame { left, top, right, bottom } = self.frame;
        PanelGeometry {
            frame: [left, top, right, bottom],
            x: [self.x.range.low, self.x.range.high],
            y: [self.y.range.low, self.y.range.high],
            y_positions: [self.y.low, self.y.high],
            bars,
        }
    }

    /// Draws a whisker at `x` between two values, clipped to the axis, with an optional outline colour. Returns the
    /// ends of the whisker.
    pub(super) fn draw_whisker(
        &self,
        canvas: &mut Canvas,
        x: f64,
        (low, high): (f64, f64),
        halo: Option<&str>,
    ) -> Option<(f64, f64)> {
        let (from, to) = (self.y.position_clamped(low)?, self.y.position_clamped(high)?);
        if x < self.frame.left || x > self.frame.right {
            return None;
        }
        for (colour, thickness) in
            halo.map(|colour| (colour, "2.2")).into_iter().chain([(TEXT_COLOUR, "0.9")])
        {
            let attributes = [("stroke", colour), ("stroke-width", thickness)];
            canvas.line((x, from), (x, to), &attributes);
            for (value, end) in [(low, from), (high, to)] {
                // A clipped end has no cap.
                if value >= self.y.range.low && value <= self.y.range.high {
                    canvas.line((x - CAP_HALF_WIDTH, end), (x + CAP_HALF_WIDTH, end), &attributes);
                }
            }
        }
        Some((from, to))
    }

    /// Draws the horizontal grid and the y-axis ticks.
    pub(super) fn draw_y_axis(&self, canvas: &mut Canvas, ticks: &[Tick]) {
        let Frame { left, right, .. } = self.frame;
        for tick in ticks {
            let Some(y) = self.y.position(tick.value) else { continue };
            if tick.label.is_empty() {
                canvas.line((left - MINOR_TICK_LENGTH, y), (left, y), AXIS_STYLE);
                continue;
            }
            canvas.line((left, y), (right, y), GRID_STYLE);
            canvas.line((left - TICK_LENGTH, y), (left, y), AXIS_STYLE);
            canvas
                .label(&Label::new((left - TICK_LENGTH - 2.0, y + HALF_DIGIT), &tick.label).right_aligned());
        }
    }

    /// Draws the x-axis ticks.
    pub(super) fn draw_x_axis(&self, canvas: &mut Canvas) {
        let bottom = self.frame.bottom;
        for tick in x_ticks(&self.x) {
            let Some(x) = self.x.position(tick.value) else { continue };
            let length = if tick.label.is_empty() { MINOR_TICK_LENGTH } else { TICK_LENGTH };
            canvas.line((x, bottom), (x, bottom + length), AXIS_STYLE);
            let centre = label_centre(x, &tick.label);
            canvas.label(&Label::new((centre, bottom + TICK_LENGTH + FONT_SIZE), &tick.label).centred());
        }
    }
}

/// Returns the ticks of a y axis with this length.
pub(super) fn y_ticks(range: &AxisRange, length: f64) -> Vec<Tick> {
    ticks(range, |ticks| {
        fit_without_overlap(ticks, |tick| Some((range.fraction(tick.value)? * length, MIN_BASELINE_GAP)))
    })
}

/// Returns the ticks of an x axis.
fn x_ticks(axis: &PageAxis) -> Vec<Tick> {
    let extent = |tick: &Tick| {
        Some((label_centre(axis.position(tick.value)?, &tick.label), text_width(&tick.label) + MIN_LABEL_GAP))
    };
    ticks(&axis.range, |ticks| fit_without_overlap(ticks, extent))
}

/// Returns the centre of a tick label, which is at the tick or as close to it as the page edge allows.
fn label_centre(x: f64, label: &str) -> f64 {
    x.min(WIDTH - text_width(label) / 2.0)
}

/// Returns whether ticks and labels keep their minimum distances. `extent` returns the centre and the length of a
/// label.
fn fit_without_overlap(ticks: &[Tick], extent: impl Fn(&Tick) -> Option<(f64, f64)>) -> bool {
    let labelled = ticks.iter().filter(|tick| !tick.label.is_empty());
    let labelled: Vec<(f64, f64)> = labelled.filter_map(&extent).collect();
    let centres: Vec<f64> = ticks.iter().filter_map(&extent).map(|(centre, _)| centre).collect();
    labelled.windows(2).all(|pair| pair[1].0 - pair[0].0 >= f64::midpoint(pair[0].1, pair[1].1))
        && centres.windows(2).all(|pair| pair[1] - pair[0] >= MIN_TICK_GAP)
}

/// Draws the rectangle around the plot.
pub(super) fn draw_frame(canvas: &mut Canvas, frame: &Frame) {
    let size = [
        ("x", frame.left),
        ("y", frame.top),
        ("width", frame.right - frame.left),
        ("height", frame.bottom - frame.top),
    ];
    canvas.shape("rect", &size, &[&[("class", "plot"), ("fill", "none")], AXIS_STYLE].concat());
}

/// Writes "no data" into an empty plot. The notes below the plot state the reason.
pub(super) fn draw_no_data(canvas: &mut Canvas, frame: &Frame, notes: &[String]) {
    let middle = (f64::midpoint(frame.left, frame.right), f64::midpoint(frame.top, frame.bottom));
    let text = if notes.is_empty() { "no data" } else { "no data, for the reason below" };
    canvas.label(&Label::new(middle, text).centred().fit_to(frame.right - frame.left));
}

/// Draws an arrow at the top edge to mark an unreached value.
pub(super) fn draw_unreached_marker(canvas: &mut Canvas, frame: &Frame, x: f64, colour: &str) {
    if x < frame.left || x > frame.right {
        return;
    }
    let (tip, base) = (frame.top + 1.0, frame.top + 8.0);
    let mut path = Path::default();
    path.polygon(&[(x, tip), (x + 4.0, base), (x - 4.0, base)]);
    canvas.path(
        &path,
        &[("class", "not-reached"), ("fill", "#ffffff"), ("stroke", colour), ("stroke-width", "1.2")],
    );
}
