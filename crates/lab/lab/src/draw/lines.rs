//! Lines and points, with their 95 % intervals.

use std::collections::BTreeSet;

use super::Line;
use super::canvas::{Canvas, Path};
use super::frame::{Plot, draw_not_reached};
use super::palette::{Look, Looks, REFERENCE};
use super::trace::{Frame, Place, thinned};

/// From the middle of a marker to its rim.
pub(super) const RADIUS: f64 = 2.6;

/// The same, where there are so many points that they would cover each other.
const SMALL_RADIUS: f64 = 1.5;

/// More points than this have small markers.
const CROWD: usize = 150;

/// A line with more points than this has not all of them marked, or its dashes would not be seen.
const FEW_POINTS: usize = 24;

/// A line with more points than this, after thinning, is drawn thin.
const LONG_LINE: usize = 300;

/// Between the marks of points that were not reached.
const APART: f64 = 9.0;

/// So many markers tell a long line from others.
const MARKERS_OF_LONG_LINE: u8 = 7;

/// The values that the axes must hold: first and second values of all points, with their intervals.
pub(super) fn values(line: &Line) -> impl Iterator<Item = (f64, [f64; 3])> {
    line.points.iter().enumerate().filter(|(_, (x, y))| x.is_finite() && y.is_finite()).map(|(i, &(x, y))| {
        let half = half(line, i).unwrap_or(0.0);
        (x, [y, y - half, y + half])
    })
}

/// Where points lie from left to right whose second value is infinite: it was not reached.
pub(super) fn not_reached(line: &Line) -> impl Iterator<Item = f64> {
    line.points.iter().filter(|(x, y)| x.is_finite() && *y == f64::INFINITY).map(|(x, _)| *x)
}

/// Draws lines.
pub(super) fn draw_lines(canvas: &mut Canvas, plot: &Plot, lines: &[Line], looks: &Looks<'_>) {
    for line in series(lines) {
        draw_band(canvas, plot, line, &looks.look(&line.name));
    }
    draw_references(canvas, plot, lines, looks);
    // Markers come after all lines: no line of one series covers the marker of another.
    for line in series(lines) {
        stroke(canvas, &pieces(plot, line), &looks.look(&line.name));
    }
    for line in series(lines) {
        let look = looks.look(&line.name);
        for place in marked(plot, line, looks.number(&line.name)) {
            look.mark(canvas, place, RADIUS);
        }
    }
    draw_not_reached_marks(canvas, plot, lines, looks);
}

/// Draws a mark at the top edge for each point that was not reached; those of several series stand beside each other.
fn draw_not_reached_marks(canvas: &mut Canvas, plot: &Plot, lines: &[Line], looks: &Looks<'_>) {
    let count = series(lines).filter(|line| not_reached(line).next().is_some()).count();
    let half = APART * (count as f64 - 1.0).max(0.0) / 2.0;
    let (left, right) = (plot.frame.left + APART / 2.0 + half, plot.frame.right - APART / 2.0 - half);
    let marked = series(lines).filter(|line| not_reached(line).next().is_some());
    for (number, line) in marked.enumerate() {
        for x in not_reached(line).filter_map(|x| plot.x.place(x)) {
            let middle = x.max(left).min(right.max(left));
            let place = middle - half + APART * number as f64;
            draw_not_reached(canvas, &plot.frame, place, looks.look(&line.name).colour);
        }
    }
}

/// Draws points.
pub(super) fn draw_points(canvas: &mut Canvas, plot: &Plot, lines: &[Line], looks: &Looks<'_>) {
    draw_references(canvas, plot, lines, looks);
    let count: usize = series(lines).map(|line| line.points.len()).sum();
    let radius = if count > CROWD { SMALL_RADIUS } else { RADIUS };
    for line in series(lines) {
        for (i, &point) in line.points.iter().enumerate() {
            if let (Some(place), Some(half)) = (plot.place(point), half(line, i)) {
                plot.draw_whisker(canvas, place.0, (point.1 - half, point.1 + half), None);
            }
        }
        let look = looks.look(&line.name);
        let mut seen = BTreeSet::new();
        for place in
            line.points.iter().filter_map(|&point| plot.place(point)).filter(|&place| plot.frame.holds(place))
        {
            // Two markers of a series in the same place are one.
            if seen.insert((cell(place.0), cell(place.1))) {
                look.mark(canvas, place, radius);
            }
        }
    }
}

/// Draws a line of a series.
pub(super) fn stroke(canvas: &mut Canvas, pieces: &[Vec<Place>], look: &Look) {
    // Thick lines would hide what a long one does from point to point.
    let is_long = pieces.iter().map(Vec::len).sum::<usize>() > LONG_LINE;
    stroke_with(canvas, pieces, look.colour, if is_long { "1" } else { "1.4" }, look.dashes);
}

/// Draws a line that says what should be.
pub(super) fn stroke_reference(canvas: &mut Canvas, pieces: &[Vec<Place>], dashes: &str) {
    stroke_with(canvas, pieces, REFERENCE, "0.9", dashes);
}

fn stroke_with(canvas: &mut Canvas, pieces: &[Vec<Place>], colour: &str, thickness: &str, dashes: &str) {
    let mut path = Path::default();
    for piece in pieces {
        path.through(piece);
    }
    let looks = [
        ("fill", "none"),
        ("stroke", colour),
        ("stroke-width", thickness),
        ("stroke-linejoin", "round"),
        ("stroke-dasharray", dashes),
    ];
    // The last is left out where there are no dashes.
    canvas.path(&path, if dashes.is_empty() { &looks[..4] } else { &looks });
}

fn series(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| !line.is_reference)
}

fn draw_references(canvas: &mut Canvas, plot: &Plot, lines: &[Line], looks: &Looks<'_>) {
    for line in lines.iter().filter(|line| line.is_reference) {
        stroke_reference(canvas, &pieces(plot, line), looks.reference_dashes(&line.name));
    }
}

/// Half the interval of a point, where it has one.
fn half(line: &Line, point: usize) -> Option<f64> {
    line.half.get(point).copied().filter(|half| half.is_finite() && *half > 0.0)
}

/// The places of a line's points, in runs without a gap.
fn runs(plot: &Plot, line: &Line) -> Vec<Vec<Place>> {
    let places: Vec<Option<Place>> = line.points.iter().map(|&point| plot.place(point)).collect();
    places.split(Option::is_none).map(|run| run.iter().copied().flatten().collect()).collect()
}

/// What of a line is drawn.
fn pieces(plot: &Plot, line: &Line) -> Vec<Vec<Place>> {
    runs(plot, line).iter().flat_map(|run| plot.frame.cut(&thinned(run))).collect()
}

/// Where a line has markers.
fn marked(plot: &Plot, line: &Line, number: usize) -> Vec<Place> {
    let runs = runs(plot, line);
    let all = || runs.iter().flatten().copied().filter(|&place| plot.frame.holds(place));
    if all().count() <= FEW_POINTS {
        return all().collect();
    }
    // At equal distances along the longer side of the line, those of each series a little further than those of the one before.
    // Counted from the frame, or from the line if it is so short that few would be left.
    let ends = |side: fn(&Place) -> f64| {
        let sides = || runs.iter().flatten().filter(|&&place| plot.frame.holds(place)).map(side);
        (sides().fold(f64::MAX, f64::min), sides().fold(f64::MIN, f64::max))
    };
    let (across, up) = (ends(|place| place.0), ends(|place| place.1));
    let is_wide = across.1 - across.0 >= up.1 - up.0;
    let own = if is_wide { across } else { up };
    let Frame { left, right, top, bottom } = plot.frame;
    let frame = if is_wide { (left, right) } else { (top, bottom) };
    let (low, high) = if own.1 - own.0 > (frame.1 - frame.0) / 2.0 { frame } else { own };
    let gap = (high - low) / f64::from(MARKERS_OF_LONG_LINE);
    let shift = (0.15 + 0.27 * number as f64) % 1.0;
    let nearest = |wanted: f64| {
        let distance = |place: &Place| (if is_wide { place.0 } else { place.1 } - wanted).abs();
        all().min_by(|one, other| distance(one).total_cmp(&distance(other)))
    };
    let wanted = (0..MARKERS_OF_LONG_LINE).map(|i| low + (f64::from(i) + shift) * gap);
    let wanted = wanted.filter(|at| (own.0..=own.1).contains(at));
    let mut marked: Vec<Place> = wanted.filter_map(nearest).collect();
    // A point between two gaps has no line: only a marker shows it.
    marked
        .extend(runs.iter().filter(|run| run.len() == 1).flatten().filter(|&&place| plot.frame.holds(place)));
    marked
}

/// Draws the 95 % interval of a line.
fn draw_band(canvas: &mut Canvas, plot: &Plot, line: &Line, look: &Look) {
    let edges = |i: usize, (x, y): Place| {
        let (place, half) = (plot.place((x, y))?, half(line, i)?);
        // What a scale has no place for, like zero on a logarithmic one, is at its end.
        Some((place.0, plot.y.place_within(y - half)?, plot.y.place_within(y + half)?))
    };
    let edges: Vec<_> = line.points.iter().enumerate().map(|(i, &point)| edges(i, point)).collect();
    let mut path = Path::default();
    for (run, first) in split(&edges) {
        if let [(x, ..)] = run[..] {
            let (y, half) = (line.points[first].1, half(line, first).unwrap_or(0.0));
            plot.draw_whisker(canvas, x, (y - half, y + half), None);
            continue;
        }
        let mut corners = thinned(&run.iter().map(|&(x, _, high)| (x, high)).collect::<Vec<_>>());
        corners
            .extend(thinned(&run.iter().map(|&(x, low, _)| (x, low)).collect::<Vec<_>>()).into_iter().rev());
        path.around(&plot.frame.cut_area(&corners));
    }
    canvas.path(&path, &[("fill", look.colour), ("fill-opacity", "0.2")]);
}

type Edges = (f64, f64, f64);

/// Runs without a gap, each with the number of its first point.
fn split(edges: &[Option<Edges>]) -> Vec<(Vec<Edges>, usize)> {
    let mut runs: Vec<(Vec<Edges>, usize)> = Vec::new();
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

/// Which cell of a fine grid a place is in.
#[expect(clippy::cast_possible_truncation, reason = "a place is at most some hundreds from the origin")]
fn cell(at: f64) -> i32 {
    libm::round(at * 4.0) as i32
}
