//! Where a panel is, clipping of lines and polygons to it, and removal of points that are indistinguishable in print.

use serde::Serialize;

/// A point on the page.
pub(super) type Point = (f64, f64);

/// The width of a column within which points are indistinguishable: a sixth of a typographic point.
const COLUMN_WIDTH: f64 = 0.25;

/// A rectangle on the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// Returns whether a point lies inside the frame or on its edge.
    pub(super) fn contains(&self, (x, y): Point) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    /// Clips a line to the frame and returns the visible pieces.
    pub(super) fn clip(&self, line: &[Point]) -> Vec<Vec<Point>> {
        let mut pieces: Vec<Vec<Point>> = Vec::new();
        for pair in line.windows(2) {
            let Some((from, to)) = self.clip_segment(pair[0], pair[1]) else { continue };
            match pieces.last_mut() {
                Some(piece) if piece.last() == Some(&from) => piece.push(to),
                _ => pieces.push(vec![from, to]),
            }
        }
        pieces
    }

    /// Clips a line segment to the frame (Liang–Barsky algorithm).
    fn clip_segment(&self, from: Point, to: Point) -> Option<(Point, Point)> {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        let edges = [
            (-dx, from.0 - self.left),
            (dx, self.right - from.0),
            (-dy, from.1 - self.top),
            (dy, self.bottom - from.1),
        ];
        for (slope, distance) in edges {
            if slope == 0.0 {
                if distance < 0.0 {
                    return None;
                }
            } else if slope < 0.0 {
                enter = enter.max(distance / slope);
            } else {
                leave = leave.min(distance / slope);
            }
        }
        let point_at = |fraction: f64| match fraction {
            // The end points must be exact, so that adjacent pieces join.
            0.0 => from,
            1.0 => to,
            _ => (from.0 + fraction * dx, from.1 + fraction * dy),
        };
        (enter <= leave).then(|| (point_at(enter), point_at(leave)))
    }

    /// Clips a polygon to the frame (Sutherland–Hodgman algorithm).
    pub(super) fn clip_polygon(&self, corners: &[Point]) -> Vec<Point> {
        type EdgeDistance<'a> = &'a dyn Fn(Point) -> f64;
        let edges: [EdgeDistance<'_>; 4] =
            [&|p| p.0 - self.left, &|p| self.right - p.0, &|p| p.1 - self.top, &|p| self.bottom - p.1];
        let mut corners = corners.to_vec();
        for distance in edges {
            let mut clipped = Vec::with_capacity(corners.len());
            for (i, &to) in corners.iter().enumerate() {
                let from = corners[if i == 0 { corners.len() - 1 } else { i - 1 }];
                let (before, after) = (distance(from), distance(to));
                if (before < 0.0) != (after < 0.0) {
                    let fraction = before / (before - after);
                    clipped.push((from.0 + fraction * (to.0 - from.0), from.1 + fraction * (to.1 - from.1)));
                }
                if after >= 0.0 {
                    clipped.push(to);
                }
            }
            corners = clipped;
        }
        corners
    }
}

/// Where a panel shows which values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PanelGeometry {
    /// The left, top, right and bottom edge of the plot area, in SVG units.
    pub frame: [f64; 4],
    /// The values at the left and right edge. Bar charts count groups.
    pub x: [f64; 2],
    /// The values at the lower and upper end of the y axis.
    pub y: [f64; 2],
    /// The vertical positions of these values, in SVG units.
    pub y_positions: [f64; 2],
    /// The widths of a group and of a bar, in SVG units; `None` for charts without bars.
    pub bars: Option<[f64; 2]>,
}

/// Removes redundant points from a line. Keeps the first, highest, lowest and last of the consecutive points in each
/// column. The remaining points do not move, so the line looks the same.
pub(super) fn thin(line: &[Point]) -> Vec<Point> {
    let column = |point: &Point| libm::floor(point.0 / COLUMN_WIDTH);
    let mut thinned = Vec::new();
    for run in line.chunk_by(|a, b| column(a) == column(b)) {
        if run.len() <= 4 {
            thinned.extend_from_slice(run);
            continue;
        }
        let by_height = |a: &(usize, &Point), b: &(usize, &Point)| a.1.1.total_cmp(&b.1.1);
        let points = || run.iter().enumerate();
        let lowest = points().min_by(by_height).map_or(0, |(i, _)| i);
        let highest = points().max_by(by_height).map_or(0, |(i, _)| i);
        let mut indices = [0, lowest.min(highest), lowest.max(highest), run.len() - 1].to_vec();
        indices.dedup();
        thinned.extend(indices.into_iter().map(|i| run[i]));
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: Frame = Frame { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };

    #[test]
    fn lines_are_clipped_to_the_frame() {
        assert_eq!(
            FRAME.clip(&[(-5.0, 5.0), (5.0, 5.0), (5.0, 15.0)]),
            [[(0.0, 5.0), (5.0, 5.0), (5.0, 10.0)]]
        );
        // The line leaves the frame at the top and enters it again, so there are two pieces.
        let pieces = FRAME.clip(&[(1.0, 5.0), (1.0, -5.0), (9.0, -5.0), (9.0, 5.0)]);
        assert_eq!(pieces, [[(1.0, 5.0), (1.0, 0.0)], [(9.0, 0.0), (9.0, 5.0)]]);
        assert!(FRAME.clip(&[(-1.0, 0.0), (-1.0, 10.0)]).is_empty());
        assert!(FRAME.clip(&[(-9.0, 5.0), (5.0, -9.0)]).is_empty());
    }

    #[test]
    fn polygons_are_clipped_to_the_frame() {
        let square = [(5.0, 5.0), (15.0, 5.0), (15.0, 8.0), (5.0, 8.0)];
        assert_eq!(FRAME.clip_polygon(&square), [(5.0, 5.0), (10.0, 5.0), (10.0, 8.0), (5.0, 8.0)]);
        assert!(FRAME.clip_polygon(&[(11.0, 0.0), (12.0, 0.0), (12.0, 5.0)]).is_empty());
        assert!(FRAME.clip_polygon(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn clipped_points_lie_inside_the_frame(
            line in proptest::collection::vec((-30.0..30.0f64, -30.0..30.0f64), 0..20)
        ) {
            let enlarged = Frame { left: -1e-9, top: -1e-9, right: 10.0 + 1e-9, bottom: 10.0 + 1e-9 };
            prop_assert!(FRAME.clip(&line).into_iter().flatten().all(|point| enlarged.contains(point)));
            prop_assert!(FRAME.clip_polygon(&line).into_iter().all(|point| enlarged.contains(point)));
        }

        #[test]
        fn thinning_keeps_ends_and_extremes(
            heights in proptest::collection::vec(0.0..100.0f64, 1..3_000)
        ) {
            let count = heights.len() as f64;
            let line: Vec<Point> = heights.iter().enumerate().map(|(i, y)| (30.0 * i as f64 / count, *y)).collect();
            let thinned = thin(&line);
            prop_assert!(thinned.len() <= 4 * 120);
            prop_assert_eq!((thinned[0], thinned[thinned.len() - 1]), (line[0], line[line.len() - 1]));
            // Each column spans the same heights.
            let ends = |line: &[Point], column: f64| {
                line.iter().filter(|point| libm::floor(point.0 / COLUMN_WIDTH) == column).fold((1e9, -1e9), |(low, high): (f64, f64), point| {
                    (low.min(point.1), high.max(point.1))
                })
            };
            for column in 0..120 {
                prop_assert_eq!(ends(&line, f64::from(column)), ends(&thinned, f64::from(column)));
            }
        }
    }
}
