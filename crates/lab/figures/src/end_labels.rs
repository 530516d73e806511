//! Writes the names of lines at their right ends. A chart with many lines has these labels instead of a legend, because
//! colours repeat after seven lines.

use super::canvas::{Canvas, FONT_SIZE, HALF_DIGIT, Label, text_width};
use super::frame::Plot;
use super::geometry::Point;
use super::palette::{REFERENCE_COLOUR, StyleMap};
use super::{LineSeries, Marks};
use std::collections::BTreeSet;

/// The smallest number of lines with labels at their ends.
const MIN_LINES: usize = 8;

/// The largest number of lines with labels at their ends. More labels would not fit beside the plot.
const MAX_LINES: usize = 12;

/// The largest width of a label. Longer names use a smaller font.
const MAX_WIDTH: f64 = 78.0;

/// The distance between the plot and a label, which a leader crosses.
const LEADER_LENGTH: f64 = 9.0;

/// The smallest distance between the baselines of labels.
const SPACING: f64 = 0.94 * FONT_SIZE;

/// The labels of a chart's lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EndLabels {
    label_width: f64,
}

impl EndLabels {
    /// Returns the labels of a chart; `None` if a legend suits the chart better.
    pub(super) fn new(marks: &Marks) -> Option<Self> {
        let Marks::Lines(lines) = marks else { return None };
        let names: BTreeSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        let is_suitable = (MIN_LINES..=MAX_LINES).contains(&lines.len())
            && names.len() == lines.len()
            && !names.contains("");
        let widest = names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
        is_suitable.then_some(Self { label_width: widest.min(MAX_WIDTH) })
    }

    /// Returns the width that the labels need beside the plot.
    pub(super) fn width(&self) -> f64 {
        LEADER_LENGTH + 2.0 + self.label_width
    }

    /// Draws the labels and their leaders.
    pub(super) fn draw(&self, canvas: &mut Canvas, plot: &Plot, lines: &[LineSeries], styles: &StyleMap<'_>) {
        let mut ends: Vec<(&LineSeries, Point)> =
            lines.iter().filter_map(|line| Some((line, last_visible_point(plot, line)?))).collect();
        ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let wanted: Vec<f64> = ends.iter().map(|(_, end)| end.1).collect();
        canvas.open("g", &[], &[("class", "end-labels")]);
        for ((line, end), y) in ends.iter().zip(spread(&wanted, plot.frame.top, plot.frame.bottom)) {
            let colour = if line.is_reference { REFERENCE_COLOUR } else { styles.style(&line.name).colour };
            let x = plot.frame.right + LEADER_LENGTH;
            canvas.line(
                *end,
                (x, y),
                &[("stroke", colour), ("stroke-width", "0.8"), ("stroke-opacity", "0.7")],
            );
            let label = Label::new((x + 2.0, y + HALF_DIGIT), &line.name);
            canvas.label(&label.fit_to(self.label_width));
        }
        canvas.close("g");
    }
}

/// Returns the page position of the last point inside the frame.
fn last_visible_point(plot: &Plot, line: &LineSeries) -> Option<Point> {
    let positions = line.points.iter().rev().filter_map(|&point| plot.position(point));
    positions.into_iter().find(|&point| plot.frame.contains(point))
}

/// Moves sorted positions apart, so that labels do not overlap, and keeps them between `top` and `bottom`.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let spacing = SPACING.min((bottom - top) / wanted.len().max(1) as f64);
    let mut positions = wanted.to_vec();
    let mut lowest_free = top;
    for position in &mut positions {
        *position = position.max(lowest_free);
        lowest_free = *position + spacing;
    }
    let mut highest_free = bottom;
    for position in positions.iter_mut().rev() {
        *position = position.min(highest_free);
        highest_free = *position - spacing;
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::super::tests::{line, line_chart};
    use super::*;
    use crate::render_svg;

    #[test]
    fn labels_do_not_overlap_and_stay_beside_the_plot() {
        let wanted = [50.0, 50.0, 51.0, 98.0, 99.0, 100.0];
        let positions = spread(&wanted, 0.0, 100.0);
        assert!(positions.windows(2).all(|pair| pair[1] - pair[0] > SPACING - 1e-9), "{positions:?}");
        assert!(positions.iter().all(|position| (0.0..=100.0).contains(position)), "{positions:?}");
        assert_eq!(spread(&[10.0, 60.0], 0.0, 100.0), [10.0, 60.0]);
    }

    #[test]
    fn many_lines_have_labels_instead_of_a_legend() {
        let chart = |count: u32| {
            let lines = (0..count).map(|i| line(&format!("flow {i}"), &[(0.0, 1.0), (1.0, f64::from(i))]));
            render_svg(&[line_chart(lines.collect())])
        };
        let (few, many) = (chart(7), chart(10));
        assert!(few.contains("class=\"legend\"") && !few.contains("class=\"end-labels\""));
        assert!(!many.contains("class=\"legend\"") && many.contains("class=\"end-labels\""));
        assert!((0..10).all(|i| many.contains(&format!(">flow {i}</text>"))), "{many}");
    }
}
