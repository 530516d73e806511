//! Draws grouped bars, and prints their values above them if there is room.

use super::canvas::{Canvas, FONT_SIZE, LINE_HEIGHT, Label, Path, TEXT_COLOUR, text_width, wrap};
use super::frame::{Plot, draw_unreached_marker};
use super::geometry::{Frame, Point};
use super::numbers::format_short;
use super::palette::{Direction, Hatching, SeriesStyle, StyleMap};
use super::scale::{AxisRange, position};
use super::{BarSeries, Scale};

/// The maximum number of bars in a chart that prints values.
const MAX_LABELLED_BARS: usize = 24;

/// The fraction of a group's width that its bars occupy.
const FILLED_FRACTION: f64 = 0.82;

/// The distance between hatching lines.
const HATCHING_SPACING: f64 = 4.0;

/// The distance between a bar and its printed value.
const GAP: f64 = 3.0;

/// The smallest height of a bar.
const MIN_BAR_HEIGHT: f64 = 1.0;

/// The height of a digit.
const DIGIT_HEIGHT: f64 = 0.74 * FONT_SIZE;

/// The rotation of group labels that do not fit side by side.
const SLANT_DEGREES: f64 = 40.0;

/// The positions and sizes of the bars and their labels.
#[derive(Clone, Debug)]
pub(super) struct BarLayout {
    group_width: f64,
    bar_width: f64,
    /// The orientation of the printed values; `None` if values are not printed.
    value_orientation: Option<Orientation>,
    group_labels: GroupLabels,
    /// The height that the group labels need below the plot.
    pub(super) labels_height: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orientation {
    Horizontal,
    Vertical,
}

/// How the group labels are printed.
#[derive(Clone, Debug)]
enum GroupLabels {
    /// Horizontally, wrapped into lines.
    Lines(Vec<Vec<String>>),
    /// Slanted, with this maximum length.
    Slanted(f64),
    /// Vertically, with this maximum length.
    Vertical(f64),
}

impl BarLayout {
    /// Computes the layout of these bars in a frame.
    pub(super) fn new(groups: &[String], series: &[BarSeries], frame: &Frame) -> Self {
        let group_width = (frame.right - frame.left) / groups.len().max(1) as f64;
        let bar_width = group_width * FILLED_FRACTION / series.len().max(1) as f64;
        let value_widths: Vec<f64> = finite_bars(groups.len(), series)
            .map(|(_, _, value, _)| text_width(&format_short(value)))
            .collect();
        let widest = value_widths.iter().copied().fold(0.0, f64::max);
        let value_orientation = match value_widths.len() {
            1..=MAX_LABELLED_BARS if widest + 2.0 <= bar_width => Some(Orientation::Horizontal),
            1..=MAX_LABELLED_BARS => Some(Orientation::Vertical),
            _ => None,
        };
        let (group_labels, labels_height) = GroupLabels::new(groups, group_width, frame.left);
        Self { group_width, bar_width, value_orientation, group_labels, labels_height }
    }

    /// Returns the widths of a group and of a bar.
    pub(super) const fn widths(&self) -> [f64; 2] {
        [self.group_width, self.bar_width]
    }

    /// Returns the margins that the printed values need below and above the y axis, in a frame of this height.
    pub(super) fn value_margins(
        &self,
        groups: usize,
        series: &[BarSeries],
        range: &AxisRange,
        height: f64,
    ) -> (f64, f64) {
        let needed = |value: f64| match self.value_orientation {
            Some(Orientation::Horizontal) => DIGIT_HEIGHT + 2.0 * GAP,
            Some(Orientation::Vertical) => self.value_length(&format_short(value)) + 2.0 * GAP,
            None => GAP,
        };
        let is_downward = |value: f64| value < 0.0 && position(range.scale, value).is_some();
        let below = finite_bars(groups, series)
            .filter(|bar| is_downward(bar.2))
            .map(|bar| needed(bar.2))
            .fold(0.0, f64::max);
        let length =
            finite_bars(groups, series).filter(|bar| !is_downward(bar.2)).map(|(_, _, value, half)| {
                let end =
                    range.fraction((value + half.unwrap_or(0.0)).clamp(range.low, range.high)).unwrap_or(0.0);
                (height - below - needed(value)) / end.max(0.01)
            });
        let length = length.fold(height - below, f64::min);
        (below, height - below - length)
    }

    /// Returns the length of a vertically printed value. Narrow bars use smaller digits, so that neighbouring values do
    /// not touch.
    fn value_length(&self, text: &str) -> f64 {
        text_width(text).min(MAX_VALUE_LENGTH).min(text_width(text) * self.bar_width / DIGIT_HEIGHT)
    }

    /// Returns the x coordinate of a group's centre.
    fn group_centre(&self, frame: &Frame, group: usize) -> f64 {
        frame.left + (group as f64 + 0.5) * self.group_width
    }

    /// Returns the left and right edges of a bar.
    fn bar_edges(&self, frame: &Frame, group: usize, series: usize, count: usize) -> (f64, f64) {
        let left = self.group_centre(frame, group) + (series as f64 - count as f64 / 2.0) * self.bar_width;
        // A thin white line separates neighbouring bars.
        (left + 0.04 * self.bar_width, left + 0.96 * self.bar_width)
    }

    /// Prints the group labels below the plot.
    pub(super) fn draw_group_labels(&self, canvas: &mut Canvas, frame: &Frame, groups: &[String]) {
        for (group, name) in groups.iter().enumerate() {
            let x = self.group_centre(frame, group);
            let baseline = frame.bottom + GAP + FONT_SIZE;
            match &self.group_labels {
                GroupLabels::Lines(lines) => {
                    for (row, line) in lines[group].iter().enumerate() {
                        let anchor = (x, baseline + row as f64 * LINE_HEIGHT);
                        canvas.label(&Label::new(anchor, line).centred().fit_to(self.group_width));
                    }
                }
                GroupLabels::Slanted(max_length) => {
                    let anchor = (x + DIGIT_HEIGHT / 2.0, baseline - GAP);
                    let label = Label::new(anchor, name).right_aligned().rotated(-SLANT_DEGREES);
                    canvas.label(&label.fit_to(*max_length));
                }
                GroupLabels::Vertical(max_length) => {
                    // Narrow groups use a smaller font, even if the names are short.
                    let max_length = max_length.min(text_width(name) * self.group_width / DIGIT_HEIGHT);
                    let anchor = (x + DIGIT_HEIGHT / 2.0, frame.bottom + 2.0 * GAP);
                    canvas.label(&Label::new(anchor, name).right_aligned().rotated(-90.0).fit_to(max_length));
                }
            }
        }
    }
}

/// The maximum length of a printed value. Longer values use a smaller font.
pub(super) const MAX_VALUE_LENGTH: f64 = 44.0;

/// The maximum length of a group label. Longer labels use a smaller font.
const MAX_LABEL_LENGTH: f64 = 80.0;

impl GroupLabels {
    /// Chooses how to print the group labels, and returns the height that they need.
    fn new(groups: &[String], group_width: f64, left: f64) -> (Self, f64) {
        let lines: Vec<Vec<String>> = groups.iter().map(|name| wrap(name, group_width - 3.0)).collect();
        let rows = lines.iter().map(Vec::len).max().unwrap_or(0);
        if rows <= 3 && lines.iter().flatten().all(|line| text_width(line) <= group_width - 3.0) {
            // Labels with several lines need more distance from the axis label.
            let gap = if rows > 1 { 2.0 * GAP } else { GAP };
            return (Self::Lines(lines), gap + rows as f64 * LINE_HEIGHT);
        }
        let widest = groups.iter().map(|name| text_width(name)).fold(0.0, f64::max).min(MAX_LABEL_LENGTH);
        let slant = SLANT_DEGREES.to_radians();
        if group_width * libm::sin(slant) >= FONT_SIZE {
            // The first label must not extend beyond the left edge of the page.
            let max_length = widest.min((left + group_width / 2.0) / libm::cos(slant));
            return (Self::Slanted(max_length), GAP + max_length * libm::sin(slant) + DIGIT_HEIGHT);
        }
        (Self::Vertical(widest), 3.0 * GAP + widest)
    }
}

/// Iterates over all bars with a finite value. Each item contains the group, the series, the value and the half-width
/// of the 95 % confidence interval, if there is one.
fn finite_bars(
    groups: usize,
    series: &[BarSeries],
) -> impl Iterator<Item = (usize, usize, f64, Option<f64>)> {
    series.iter().enumerate().flat_map(move |(s, bars)| {
        bars.values.iter().take(groups).enumerate().filter(|(_, value)| value.is_finite()).map(
            move |(g, &value)| {
                (g, s, value, bars.half_widths.get(g).copied().filter(|half| half.is_finite() && *half > 0.0))
            },
        )
    })
}

/// Returns whether there are too many bars to print their values.
pub(super) fn hides_values(groups: usize, series: &[BarSeries]) -> bool {
    finite_bars(groups, series).count() > MAX_LABELLED_BARS
}

/// Returns the values that the y axis must cover.
pub(super) fn values(groups: usize, series: &[BarSeries], scale: Scale) -> impl Iterator<Item = f64> {
    let lowest =
        finite_bars(groups, series).map(|bar| bar.2).filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    finite_bars(groups, series).flat_map(move |(_, _, value, half)| {
        let half = half.unwrap_or(0.0);
        match scale {
            Scale::Linear => [value, value - half, value + half],
            // The lowest bar must be visible. An interval that reaches zero does not extend the axis.
            Scale::Log => [value, lowest * 0.6, value + half],
            Scale::Tail => [value, value, value + half],
        }
    })
}

/// Draws the bars of a chart.
pub(super) fn draw(
    canvas: &mut Canvas,
    plot: &Plot,
    layout: &BarLayout,
    groups: usize,
    series: &[BarSeries],
    styles: &StyleMap<'_>,
) {
    let base = plot.y.position_clamped(0.0).unwrap_or(plot.y.low);
    if plot.y.range.low < 0.0 {
        let attributes = [("stroke", TEXT_COLOUR), ("stroke-width", "0.8")];
        canvas.line((plot.frame.left, base), (plot.frame.right, base), &attributes);
    }
    draw_unreached_bars(canvas, plot, layout, groups, series, styles);
    for (group, series_index, value, half) in finite_bars(groups, series) {
        let (left, right) = layout.bar_edges(&plot.frame, group, series_index, series.len());
        let middle = f64::midpoint(left, right);
        let style = styles.style(&series[series_index].name);
        // A logarithmic scale cannot show zero, but the value is still printed.
        let has_bar = plot.y.position(value).is_some();
        let end = plot.y.position_clamped(value).unwrap_or(base);
        if has_bar {
            // A small positive value must still be visible.
            let min_top = if value > 0.0 { base - MIN_BAR_HEIGHT } else { base };
            let frame = Frame { left, right, top: end.min(min_top), bottom: end.max(base) };
            draw_bar(canvas, &frame, &style, "bar");
            if value < plot.y.range.low || value > plot.y.range.high {
                draw_break(canvas, &frame);
            }
        }
        let interval = half.filter(|_| has_bar).map(|half| (value - half, value + half));
        // A dark whisker on a dark bar needs a white outline.
        let halo = (style.hatching == Hatching::Solid).then_some("#ffffff");
        let whisker = interval.and_then(|interval| plot.draw_whisker(canvas, middle, interval, halo));
        let ends = whisker.unwrap_or((end, end));
        let Some(orientation) = layout.value_orientation else { continue };
        let text = format_short(value);
        let is_upward = value >= 0.0;
        let edge = if is_upward { end.min(ends.1) - GAP } else { end.max(ends.0) + GAP };
        match orientation {
            Orientation::Horizontal => {
                let baseline = if is_upward { edge } else { edge + DIGIT_HEIGHT };
                canvas.label(
                    &Label::new((middle, baseline), &text).centred().with_attributes(&[("class", "value")]),
                );
            }
            Orientation::Vertical => {
                let label = Label::new((middle + DIGIT_HEIGHT / 2.0, edge), &text)
                    .rotated(-90.0)
                    .with_attributes(&[("class", "value")]);
                let label = if is_upward { label } else { label.right_aligned() };
                canvas.label(&label.fit_to(layout.value_length(&text)));
            }
        }
    }
}

/// Draws a marker at the top edge for each unreached value.
fn draw_unreached_bars(
    canvas: &mut Canvas,
    plot: &Plot,
    layout: &BarLayout,
    groups: usize,
    series: &[BarSeries],
    styles: &StyleMap<'_>,
) {
    for (series_index, bars) in series.iter().enumerate() {
        let unreached =
            bars.values.iter().take(groups).enumerate().filter(|(_, value)| **value == f64::INFINITY);
        for (group, _) in unreached {
            let (left, right) = layout.bar_edges(&plot.frame, group, series_index, series.len());
            draw_unreached_marker(
                canvas,
                &plot.frame,
                f64::midpoint(left, right),
                styles.style(&bars.name).colour,
            );
        }
    }
}

/// Draws one bar.
pub(super) fn draw_bar(canvas: &mut Canvas, frame: &Frame, style: &SeriesStyle, class: &str) {
    let colour = if style.hatching == Hatching::Solid { style.colour } else { style.tint };
    let size = [
        ("x", frame.left),
        ("y", frame.top),
        ("width", frame.right - frame.left),
        ("height", frame.bottom - frame.top),
    ];
    // The outline keeps a bar of zero height visible.
    canvas.shape(
        "rect",
        &size,
        &[("class", class), ("fill", colour), ("stroke", style.colour), ("stroke-width", "0.9")],
    );
    if let Hatching::Lines(directions) = style.hatching {
        let mut path = Path::default();
        for direction in directions {
            draw_hatching(&mut path, frame, *direction);
        }
        canvas.path(&path, &[("fill", "none"), ("stroke", style.colour), ("stroke-width", "0.9")]);
    }
}

/// Fills a frame with parallel lines. SVG patterns need IDs, which would clash between figures on one page.
fn draw_hatching(path: &mut Path, frame: &Frame, direction: Direction) {
    let (frame_width, frame_height) = (frame.right - frame.left, frame.bottom - frame.top);
    let (length, first, last): (f64, Point, Point) = match direction {
        // Each line runs from `first` + offset to `last` + offset.
        Direction::Rising => {
            (frame_width + frame_height, (frame.left - frame_height, frame.bottom), (frame.left, frame.top))
        }
        Direction::Falling => {
            (frame_width + frame_height, (frame.left - frame_height, frame.top), (frame.left, frame.bottom))
        }
        Direction::Vertical => (frame_width, (frame.left, frame.bottom), (frame.left, frame.top)),
        Direction::Horizontal => (frame_height, (frame.left, frame.bottom), (frame.right, frame.bottom)),
    };
    let offsets =
        core::iter::successors(Some(HATCHING_SPACING / 2.0), |offset| Some(offset + HATCHING_SPACING));
    for offset in offsets.take_while(|offset| *offset < length) {
        let (dx, dy) = if direction == Direction::Horizontal { (0.0, -offset) } else { (offset, 0.0) };
        for piece in frame.clip(&[(first.0 + dx, first.1 + dy), (last.0 + dx, last.1 + dy)]) {
            path.polyline(&piece);
        }
    }
}

/// Draws a white break mark near the end of a bar that is longer than the axis.
fn draw_break(canvas: &mut Canvas, frame: &Frame) {
    let y = frame.top + 8.0_f64.min((frame.bottom - frame.top) / 2.0);
    canvas.line(
        (frame.left - 1.0, y + 2.0),
        (frame.right + 1.0, y - 2.0),
        &[("stroke", "#ffffff"), ("stroke-width", "2.5")],
    );
}
