//! Bars in groups, with their values above them where there is room.

use super::canvas::{Canvas, INK, LEADING, LETTERS, Path, Words, width, wrapped};
use super::frame::{Plot, draw_not_reached};
use super::number::short;
use super::palette::{Direction, Hatching, Look, Looks};
use super::scale::{Span, position};
use super::trace::{Frame, Place};
use super::{Bars, Scale};

/// With more bars than this, nobody would read a number above each.
const FEW_BARS: usize = 24;

/// How much of a group's width its bars take.
const FILLED: f64 = 0.82;

/// From line to line of a hatching.
const PITCH: f64 = 4.0;

/// Between a bar and its value.
const GAP: f64 = 3.0;

/// How high a bar is at least.
const LEAST_HEIGHT: f64 = 1.0;

/// How high digits are.
const DIGITS: f64 = 0.74 * LETTERS;

/// How names are turned that have not room beside each other.
const SLANT_DEGREES: f64 = 40.0;

/// Where bars and their words go, once the width of the plot is known.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    group: f64,
    bar: f64,
    values: Option<Turn>,
    names: Names,
    /// How much room the groups' names need below.
    pub(super) foot: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Level,
    Upright,
}

/// How the groups' names are written.
#[derive(Clone, Debug)]
enum Names {
    /// Level, in lines.
    Lines(Vec<Vec<String>>),
    /// Slanted, each as long as this at most.
    Slanted(f64),
    /// Upright, each as long as this at most.
    Upright(f64),
}

impl Layout {
    /// The layout in this frame.
    pub(super) fn new(groups: &[String], series: &[Bars], frame: &Frame) -> Self {
        let group = (frame.right - frame.left) / groups.len().max(1) as f64;
        let bar = group * FILLED / series.len().max(1) as f64;
        let texts: Vec<f64> =
            bars(groups.len(), series).map(|(_, _, value, _)| width(&short(value))).collect();
        let widest = texts.iter().copied().fold(0.0, f64::max);
        let values = match texts.len() {
            1..=FEW_BARS if widest + 2.0 <= bar => Some(Turn::Level),
            1..=FEW_BARS => Some(Turn::Upright),
            _ => None,
        };
        let (names, foot) = Names::of(groups, group, frame.left);
        Self { group, bar, values, names, foot }
    }

    /// How much of a frame's height the axis leaves free below and above, so that values have room.
    pub(super) fn room(&self, groups: usize, series: &[Bars], span: &Span, height: f64) -> (f64, f64) {
        let needed = |value: f64| match self.values {
            Some(Turn::Level) => DIGITS + 2.0 * GAP,
            Some(Turn::Upright) => self.length(&short(value)) + 2.0 * GAP,
            None => GAP,
        };
        let goes_down = |value: f64| value < 0.0 && position(span.scale, value).is_some();
        let below =
            bars(groups, series).filter(|bar| goes_down(bar.2)).map(|bar| needed(bar.2)).fold(0.0, f64::max);
        let length = bars(groups, series).filter(|bar| !goes_down(bar.2)).map(|(_, _, value, half)| {
            let end = span.share((value + half.unwrap_or(0.0)).clamp(span.low, span.high)).unwrap_or(0.0);
            (height - below - needed(value)) / end.max(0.01)
        });
        let length = length.fold(height - below, f64::min);
        (below, height - below - length)
    }

    /// How long a value is when upright. Narrow bars get small digits, so that neighbours do not touch.
    fn length(&self, text: &str) -> f64 {
        width(text).min(LONGEST_VALUE).min(width(text) * self.bar / DIGITS)
    }

    /// Where a group has its middle.
    fn middle(&self, frame: &Frame, group: usize) -> f64 {
        frame.left + (group as f64 + 0.5) * self.group
    }

    /// From where to where a bar goes.
    fn sides(&self, frame: &Frame, group: usize, series: usize, count: usize) -> (f64, f64) {
        let left = self.middle(frame, group) + (series as f64 - count as f64 / 2.0) * self.bar;
        // A hair of white between neighbours.
        (left + 0.04 * self.bar, left + 0.96 * self.bar)
    }

    /// Writes the groups' names below the plot.
    pub(super) fn draw_names(&self, canvas: &mut Canvas, frame: &Frame, groups: &[String]) {
        for (i, name) in groups.iter().enumerate() {
            let x = self.middle(frame, i);
            let baseline = frame.bottom + GAP + LETTERS;
            match &self.names {
                Names::Lines(lines) => {
                    for (row, line) in lines[i].iter().enumerate() {
                        let at = (x, baseline + row as f64 * LEADING);
                        canvas.words(&Words::new(at, line).centred().within(self.group));
                    }
                }
                Names::Slanted(longest) => {
                    let at = (x + DIGITS / 2.0, baseline - GAP);
                    canvas.words(&Words::new(at, name).ending().turned(-SLANT_DEGREES).within(*longest));
                }
                Names::Upright(longest) => {
                    // Narrow groups get small letters, however short the names.
                    let longest = longest.min(width(name) * self.group / DIGITS);
                    let at = (x + DIGITS / 2.0, frame.bottom + 2.0 * GAP);
                    canvas.words(&Words::new(at, name).ending().turned(-90.0).within(longest));
                }
            }
        }
    }
}

/// A value longer than this is written smaller.
pub(super) const LONGEST_VALUE: f64 = 44.0;

/// A group's name longer than this is written smaller.
const LONGEST_NAME: f64 = 80.0;

impl Names {
    fn of(groups: &[String], group: f64, left: f64) -> (Self, f64) {
        let lines: Vec<Vec<String>> = groups.iter().map(|name| wrapped(name, group - 3.0)).collect();
        let rows = lines.iter().map(Vec::len).max().unwrap_or(0);
        if rows <= 3 && lines.iter().flatten().all(|line| width(line) <= group - 3.0) {
            // Names of several lines are set off from the axis' label.
            let gap = if rows > 1 { 2.0 * GAP } else { GAP };
            return (Self::Lines(lines), gap + rows as f64 * LEADING);
        }
        let widest = groups.iter().map(|name| width(name)).fold(0.0, f64::max).min(LONGEST_NAME);
        let slant = SLANT_DEGREES.to_radians();
        if group * libm::sin(slant) >= LETTERS {
            // The first name must not begin left of the page.
            let longest = widest.min((left + group / 2.0) / libm::cos(slant));
            return (Self::Slanted(longest), GAP + longest * libm::sin(slant) + DIGITS);
        }
        (Self::Upright(widest), 3.0 * GAP + widest)
    }
}

/// All bars: group, series, value and, where there is one, half the interval. Not those whose value is not a finite number.
fn bars(groups: usize, series: &[Bars]) -> impl Iterator<Item = (usize, usize, f64, Option<f64>)> {
    series.iter().enumerate().flat_map(move |(s, bars)| {
        bars.values.iter().take(groups).enumerate().filter(|(_, value)| value.is_finite()).map(
            move |(g, &value)| {
                (g, s, value, bars.half.get(g).copied().filter(|half| half.is_finite() && *half > 0.0))
            },
        )
    })
}

/// Whether there are more bars than have their values above them.
pub(super) fn are_many(groups: usize, series: &[Bars]) -> bool {
    bars(groups, series).count() > FEW_BARS
}

/// The values that the axis must hold.
pub(super) fn values(groups: usize, series: &[Bars], scale: Scale) -> impl Iterator<Item = f64> {
    let lowest = bars(groups, series).map(|bar| bar.2).filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    bars(groups, series).flat_map(move |(_, _, value, half)| {
        let half = half.unwrap_or(0.0);
        match scale {
            Scale::Linear => [value, value - half, value + half],
            // The lowest bar has a length too, and an interval that reaches to zero does not decide how long.
            Scale::Log => [value, lowest * 0.6, value + half],
            Scale::Tail => [value, value, value + half],
        }
    })
}

/// Draws bars.
pub(super) fn draw(
    canvas: &mut Canvas,
    plot: &Plot,
    layout: &Layout,
    groups: usize,
    series: &[Bars],
    looks: &Looks<'_>,
) {
    let base = plot.y.place_within(0.0).unwrap_or(plot.y.low);
    if plot.y.span.low < 0.0 {
        let looks = [("stroke", INK), ("stroke-width", "0.8")];
        canvas.line((plot.frame.left, base), (plot.frame.right, base), &looks);
    }
    draw_not_reached_bars(canvas, plot, layout, groups, series, looks);
    for (group, number, value, half) in bars(groups, series) {
        let (left, right) = layout.sides(&plot.frame, group, number, series.len());
        let middle = f64::midpoint(left, right);
        let look = looks.look(&series[number].name);
        // A logarithmic scale has no place for zero, but the value is written.
        let has_bar = plot.y.place(value).is_some();
        let end = plot.y.place_within(value).unwrap_or(base);
        if has_bar {
            // What is little is seen to be more than nothing.
            let least = if value > 0.0 { base - LEAST_HEIGHT } else { base };
            let frame = Frame { left, right, top: end.min(least), bottom: end.max(base) };
            fill(canvas, &frame, &look, "bar");
            if value < plot.y.span.low || value > plot.y.span.high {
                draw_break(canvas, &frame);
            }
        }
        let interval = half.filter(|_| has_bar).map(|half| (value - half, value + half));
        // Dark on dark would not be seen.
        let halo = (look.hatching == Hatching::Full).then_some("#ffffff");
        let whisker = interval.and_then(|interval| plot.draw_whisker(canvas, middle, interval, halo));
        let ends = whisker.unwrap_or((end, end));
        let Some(turn) = layout.values else { continue };
        let text = short(value);
        let goes_up = value >= 0.0;
        let edge = if goes_up { end.min(ends.1) - GAP } else { end.max(ends.0) + GAP };
        match turn {
            Turn::Level => {
                let baseline = if goes_up { edge } else { edge + DIGITS };
                canvas.words(&Words::new((middle, baseline), &text).centred().looking(&[("class", "value")]));
            }
            Turn::Upright => {
                let words = Words::new((middle + DIGITS / 2.0, edge), &text)
                    .turned(-90.0)
                    .looking(&[("class", "value")]);
                canvas.words(&if goes_up { words } else { words.ending() }.within(layout.length(&text)));
            }
        }
    }
}

/// Draws a mark at the top edge for each bar whose value was not reached.
fn draw_not_reached_bars(
    canvas: &mut Canvas,
    plot: &Plot,
    layout: &Layout,
    groups: usize,
    series: &[Bars],
    looks: &Looks<'_>,
) {
    for (number, bars) in series.iter().enumerate() {
        let infinite =
            bars.values.iter().take(groups).enumerate().filter(|(_, value)| **value == f64::INFINITY);
        for (group, _) in infinite {
            let (left, right) = layout.sides(&plot.frame, group, number, series.len());
            draw_not_reached(canvas, &plot.frame, f64::midpoint(left, right), looks.look(&bars.name).colour);
        }
    }
}

/// Draws one bar.
pub(super) fn fill(canvas: &mut Canvas, frame: &Frame, look: &Look, class: &str) {
    let colour = if look.hatching == Hatching::Full { look.colour } else { look.tint };
    let size = [
        ("x", frame.left),
        ("y", frame.top),
        ("width", frame.right - frame.left),
        ("height", frame.bottom - frame.top),
    ];
    // The outline is what is seen of a bar without height.
    canvas.shape(
        "rect",
        &size,
        &[("class", class), ("fill", colour), ("stroke", look.colour), ("stroke-width", "0.9")],
    );
    if let Hatching::Lines(directions) = look.hatching {
        let mut path = Path::default();
        for direction in directions {
            hatch(&mut path, frame, *direction);
        }
        canvas.path(&path, &[("fill", "none"), ("stroke", look.colour), ("stroke-width", "0.9")]);
    }
}

/// Fills a frame with parallel lines. Drawn one by one: patterns need names, which would clash where figures share a page.
fn hatch(path: &mut Path, frame: &Frame, direction: Direction) {
    let (wide, high) = (frame.right - frame.left, frame.bottom - frame.top);
    let (length, first, last): (f64, Place, Place) = match direction {
        // Each line from `first` + offset to `last` + offset, along the side that it starts from.
        Direction::Rising => (wide + high, (frame.left - high, frame.bottom), (frame.left, frame.top)),
        Direction::Falling => (wide + high, (frame.left - high, frame.top), (frame.left, frame.bottom)),
        Direction::Upright => (wide, (frame.left, frame.bottom), (frame.left, frame.top)),
        Direction::Level => (high, (frame.left, frame.bottom), (frame.right, frame.bottom)),
    };
    let offsets = core::iter::successors(Some(PITCH / 2.0), |offset| Some(offset + PITCH));
    for offset in offsets.take_while(|offset| *offset < length) {
        let (dx, dy) = if direction == Direction::Level { (0.0, -offset) } else { (offset, 0.0) };
        for piece in frame.cut(&[(first.0 + dx, first.1 + dy), (last.0 + dx, last.1 + dy)]) {
            path.through(&piece);
        }
    }
}

/// Shows that a bar is longer than its axis: a white stroke across it, near its end.
fn draw_break(canvas: &mut Canvas, frame: &Frame) {
    let y = frame.top + 8.0_f64.min((frame.bottom - frame.top) / 2.0);
    canvas.line(
        (frame.left - 1.0, y + 2.0),
        (frame.right + 1.0, y - 2.0),
        &[("stroke", "#ffffff"), ("stroke-width", "2.5")],
    );
}
