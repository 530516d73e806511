//! Draws lines and points with their 95 % confidence intervals.

use std::collections::BTreeSet;

use super::LineSeries;
use super::canvas::{Canvas, Path};
use super::frame::{Plot, draw_unreached_marker};
use super::geometry::{Frame, Point, thin};
use super::palette::{REFERENCE_COLOUR, SeriesStyle, StyleMap};

/// The radius of a marker.
pub(super) const MARKER_RADIUS: f64 = 2.6;

/// The radius of a marker in a crowded chart.
const SMALL_MARKER_RADIUS: f64 = 1.5;

/// The maximum number of points in a chart with full-size markers.
const MAX_FULL_SIZE_MARKERS: usize = 150;

/// The maximum number of points in a line with a marker on every point. More markers would hide the dashes.
const MAX_POINTS_WITH_MARKERS: usize = 24;

/// Lines with more points than this, after thinning, are drawn with a thin stroke.
const LONG_LINE_POINTS: usize = 300;

/// The distance between the markers of unreached points.
const UNREACHED_MARKER_GAP: f64 = 9.0;

/// The number of markers on a long line.
const LONG_LINE_MARKERS: u8 = 7;

/// Returns the values that the axes must cover: the x value, and the y value with both ends of its interval.
pub(super) fn values(line: &LineSeries) -> impl Iterator<Item = (f64, [f64; 3])> {
    line.points.iter().enumerate().filter(|(_, (x, y))| x.is_finite() && y.is_finite()).map(|(i, &(x, y))| {
        let half = half_width(line, i).unwrap_or(0.0);
        (x, [y, y - half, y + half])
    })
}

/// Returns the x values of unreached points, whose y value is infinite.
pub(super) fn unreached_x(line: &LineSeries) -> impl Iterator<Item = f64> {
    line.points.iter().filter(|(x, y)| x.is_finite() && *y == f64::INFINITY).map(|(x, _)| *x)
}

/// Draws the lines of a chart.
pub(super) fn draw_lines(canvas: &mut Canvas, plot: &Plot, lines: &[LineSeries], styles: &StyleMap<'_>) {
    for line in data_lines(lines) {
        draw_band(canvas, plot, line, &styles.style(&line.name));
    }
    draw_references(canvas, plot, lines, styles);
    // Markers are drawn after all lines, so no line covers a marker.
    for line in data_lines(lines) {
        stroke(canvas, &visible_pieces(plot, line), &styles.style(&line.name));
    }
    for line in data_lines(lines) {
        let style = styles.style(&line.name);
        for point in marker_positions(plot, line, styles.index(&line.name)) {
            style.draw_marker(canvas, point, MARKER_RADIUS);
        }
    }
    draw_unreached_points(canvas, plot, lines, styles);
}

/// Draws a marker at the top edge for each unreached point. Markers of different series are placed side by side.
fn draw_unreached_points(canvas: &mut Canvas, plot: &Plot, lines: &[LineSeries], styles: &StyleMap<'_>) {
    let count = data_lines(lines).filter(|line| unreached_x(line).next().is_some()).count();
    let half = UNREACHED_MARKER_GAP * (count as f64 - 1.0).max(0.0) / 2.0;
    let (left, right) = (
        plot.frame.left + UNREACHED_MARKER_GAP / 2.0 + half,
        plot.frame.right - UNREACHED_MARKER_GAP / 2.0 - half,
    );
    let marked = data_lines(lines).filter(|line| unreached_x(line).next().is_some());
    for (index, line) in marked.enumerate() {
        for x in unreached_x(line).filter_map(|x| plot.x.position(x)) {
            let centre = x.max(left).min(right.max(left));
            let marker_x = centre - half + UNREACHED_MARKER_GAP * index as f64;
            draw_unreached_marker(canvas, &plot.frame, marker_x, styles.style(&line.name).colour);
        }
    }
}

/// Draws the points of a chart.
pub(super) fn draw_points(canvas: &mut Canvas, plot: &Plot, lines: &[LineSeries], styles: &StyleMap<'_>) {
    draw_references(canvas, plot, lines, styles);
    let count: usize = data_lines(lines).map(|line| line.points.len()).sum();
    let radius = if count > MAX_FULL_SIZE_MARKERS { SMALL_MARKER_RADIUS } else { MARKER_RADIUS };
    for line in data_lines(lines) {
        for (i, &point) in line.points.iter().enumerate() {
            if let (Some(point), Some(half)) = (plot.position(point), half_width(line, i)) {
                plot.draw_whisker(canvas, point.0, (point.1 - half, point.1 + half), None);
            }
        }
        let style = styles.style(&line.name);
        let mut drawn = BTreeSet::new();
        for point in line
            .points
            .iter()
            .filter_map(|&point| plot.position(point))
            .filter(|&point| plot.frame.contains(point))
        {
            // Coinciding markers of a series are drawn only once.
            if drawn.insert((grid_index(point.0), grid_index(point.1))) {
                style.draw_marker(canvas, point, radius);
            }
        }
    }
}

/// Draws the line of a series.
pub(super) fn stroke(canvas: &mut Canvas, pieces: &[Vec<Point>], style: &SeriesStyle) {
    // A thick stroke would hide the details of a long line.
    let is_long = pieces.iter().map(Vec::len).sum::<usize>() > LONG_LINE_POINTS;
    stroke_path(canvas, pieces, style.colour, if is_long { "1" } else { "1.4" }, style.dashes);
}

/// Draws a reference line.
pub(super) fn stroke_reference(canvas: &mut Canvas, pieces: &[Vec<Point>], dashes: &str) {
    stroke_path(canvas, pieces, REFERENCE_COLOUR, "0.9", dashes);
}

fn stroke_path(canvas: &mut Canvas, pieces: &[Vec<Point>], colour: &str, thickness: &str, dashes: &str) {
    let mut path = Path::default();
    for piece in pieces {
        path.polyline(piece);
    }
    let attributes = [
        ("fill", "none"),
        ("stroke", colour),
        ("stroke-width", thickness),
        ("stroke-linejoin", "round"),
        ("stroke-dasharray", dashes),
    ];
    // A solid line has no dash attribute.
    canvas.path(&path, if dashes.is_empty() { &attributes[..4] } else { &attributes });
}

fn data_lines(lines: &[LineSeries]) -> impl Iterator<Item = &LineSeries> {
    lines.iter().filter(|line| !line.is_reference)
}

fn draw_references(canvas: &mut Canvas, plot: &Plot, lines: &[LineSeries], styles: &StyleMap<'_>) {
    for line in lines.iter().filter(|line| line.is_reference) {
        stroke_reference(canvas, &visible_pieces(plot, line), styles.reference_dashes(&line.name));
    }
}

/// Returns the half-width of a point's 95 % confidence interval, if the point has an interval.
fn half_width(line: &LineSeries, point: usize) -> Option<f64> {
    line.half_widths.get(point).copied().filter(|half| half.is_finite() && *half > 0.0)
}

/// Returns the page positions of a line's points, split at gaps.
fn runs(plot: &Plot, line: &LineSeries) -> Vec<Vec<Point>> {
    let points: Vec<Option<Point>> = line.points.iter().map(|&point| plot.position(point)).collect();
    points.split(Option::is_none).map(|run| run.iter().copied().flatten().collect()).collect()
}

/// Returns the visible pieces of a line.
fn visible_pieces(plot: &Plot, line: &LineSeries) -> Vec<Vec<Point>> {
    runs(plot, line).iter().flat_map(|run| plot.frame.clip(&thin(run))).collect()
}

/// Returns the positions of a line's markers.
fn marker_positions(plot: &Plot, line: &LineSeries, index: usize) -> Vec<Point> {
    let runs = runs(plot, line);
    let visible_points = || runs.iter().flatten().copied().filter(|&point| plot.frame.contains(point));
    if visible_points().count() <= MAX_POINTS_WITH_MARKERS {
        return visible_points().collect();
    }
    // Markers are evenly spaced along the longer dimension of the line, and shifted from series to series. The spacing
    // depends on the frame size, or on the line's extent if the line is short.
    let extent_of = |coordinate: fn(&Point) -> f64| {
        let coordinates =
            || runs.iter().flatten().filter(|&&point| plot.frame.contains(point)).map(coordinate);
        (coordinates().fold(f64::MAX, f64::min), coordinates().fold(f64::MIN, f64::max))
    };
    let (x_extent, y_extent) = (extent_of(|point| point.0), extent_of(|point| point.1));
    let is_wide = x_extent.1 - x_extent.0 >= y_extent.1 - y_extent.0;
    let extent = if is_wide { x_extent } else { y_extent };
    let Frame { left, right, top, bottom } = plot.frame;
    let frame = if is_wide { (left, right) } else { (top, bottom) };
    let (low, high) = if extent.1 - extent.0 > (frame.1 - frame.0) / 2.0 { frame } else { extent };
    let gap = (high - low) / f64::from(LONG_LINE_MARKERS);
    let shift = (0.15 + 0.27 * index as f64) % 1.0;
    let nearest_point = |target: f64| {
        let distance = |point: &Point| (if is_wide { point.0 } else { point.1 } - target).abs();
        visible_points().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    };
    let targets = (0..LONG_LINE_MARKERS).map(|i| low + (f64::from(i) + shift) * gap);
    let targets = targets.filter(|coordinate| (extent.0..=extent.1).contains(coordinate));
    let mut markers: Vec<Point> = targets.filter_map(nearest_point).collect();
    // An isolated point between two gaps has no line, so it needs a marker.
    markers.extend(
        runs.iter().filter(|run| run.len() == 1).flatten().filter(|&&point| plot.frame.contains(point)),
    );
    markers
}

/// Draws the 95 % confidence interval of a line as a band.
fn draw_band(canvas: &mut Canvas, plot: &Plot, line: &LineSeries, style: &SeriesStyle) {
    let edges = |i: usize, (x, y): Point| {
        let (point, half) = (plot.position((x, y))?, half_width(line, i)?);
        // A value that the scale cannot show, such as zero on a log scale, is clamped to the axis.
        Some((point.0, plot.y.position_clamped(y - half)?, plot.y.position_clamped(y + half)?))
    };
    let edges: Vec<_> = line.points.iter().enumerate().map(|(i, &point)| edges(i, point)).collect();
    let mut path = Path::default();
    for (run, first) in split_runs(&edges) {
        if let [(x, ..)] = run[..] {
            let (y, half) = (line.points[first].1, half_width(line, first).unwrap_or(0.0));
            plot.draw_whisker(canvas, x, (y - half, y + half), None);
            continue;
        }
        let mut corners = thin(&run.iter().map(|&(x, _, high)| (x, high)).collect::<Vec<_>>());
        corners.extend(thin(&run.iter().map(|&(x, low, _)| (x, low)).collect::<Vec<_>>()).into_iter().rev());
        path.polygon(&plot.frame.clip_polygon(&corners));
    }
    canvas.path(&path, &[("fill", style.colour), ("fill-opacity", "0.2")]);
}

/// The x coordinate, the lower edge and the upper edge of a band.
type BandEdges = (f64, f64, f64);

/// Splits the edges of a band at gaps. Returns each run with the index of its first point.
fn split_runs(edges: &[Option<BandEdges>]) -> Vec<(Vec<BandEdges>, usize)> {
    let mut runs: Vec<(Vec<BandEdges>, usize)> = Vec::new();
    let mut is_open = false;
    for (i, edge) in edges.iter().enumerate() {
        match (edge, runs.last_mut()) {
            (Some(edge), Some((run, _))) if is_open => run.push(*edge),
            (Some(edge), _) => runs.push((vec![*edge], i)),
            (None, _) => {}
        }
        is_open = edge.is_some();
    }
    runs
}

/// Returns the index of a coordinate on a fine grid.
#[expect(clippy::cast_possible_truncation, reason = "coordinates are below one thousand")]
fn grid_index(coordinate: f64) -> i32 {
    libm::round(coordinate * 4.0) as i32
}
