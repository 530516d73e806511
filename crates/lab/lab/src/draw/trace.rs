//! Lines on the page: cut to their frame, and with no more points than can be seen.

/// A place on the page.
pub(super) type Place = (f64, f64);

/// Points within this width cannot be told apart: a sixth of a point in print.
const COLUMN: f64 = 0.25;

/// A rectangle on the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// Whether a place lies inside or on the edge.
    pub(super) fn holds(&self, (x, y): Place) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    /// What of a line is inside: none, one or several pieces.
    pub(super) fn cut(&self, line: &[Place]) -> Vec<Vec<Place>> {
        let mut pieces: Vec<Vec<Place>> = Vec::new();
        for pair in line.windows(2) {
            let Some((from, to)) = self.cut_segment(pair[0], pair[1]) else { continue };
            match pieces.last_mut() {
                Some(piece) if piece.last() == Some(&from) => piece.push(to),
                _ => pieces.push(vec![from, to]),
            }
        }
        pieces
    }

    /// What of a straight line is inside (Liang and Barsky).
    fn cut_segment(&self, from: Place, to: Place) -> Option<(Place, Place)> {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        let edges = [
            (-dx, from.0 - self.left),
            (dx, self.right - from.0),
            (-dy, from.1 - self.top),
            (dy, self.bottom - from.1),
        ];
        for (speed, room) in edges {
            if speed == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else if speed < 0.0 {
                enter = enter.max(room / speed);
            } else {
                leave = leave.min(room / speed);
            }
        }
        let at = |share: f64| match share {
            // Kept exact, so that pieces join.
            0.0 => from,
            1.0 => to,
            _ => (from.0 + share * dx, from.1 + share * dy),
        };
        (enter <= leave).then(|| (at(enter), at(leave)))
    }

    /// What of an area is inside (Sutherland and Hodgman).
    pub(super) fn cut_area(&self, corners: &[Place]) -> Vec<Place> {
        type Room<'a> = &'a dyn Fn(Place) -> f64;
        let edges: [Room<'_>; 4] =
            [&|p| p.0 - self.left, &|p| self.right - p.0, &|p| p.1 - self.top, &|p| self.bottom - p.1];
        let mut corners = corners.to_vec();
        for room in edges {
            let mut kept = Vec::with_capacity(corners.len());
            for (i, &to) in corners.iter().enumerate() {
                let from = corners[if i == 0 { corners.len() - 1 } else { i - 1 }];
                let (before, after) = (room(from), room(to));
                if (before < 0.0) != (after < 0.0) {
                    let share = before / (before - after);
                    kept.push((from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1)));
                }
                if after >= 0.0 {
                    kept.push(to);
                }
            }
            corners = kept;
        }
        corners
    }
}

/// The same line with fewer points: of those that lie in one column one after the other, the first, the highest, the lowest
/// and the last. Nothing moves, so the line covers what it covered.
pub(super) fn thinned(line: &[Place]) -> Vec<Place> {
    let column = |place: &Place| libm::floor(place.0 / COLUMN);
    let mut kept = Vec::new();
    for run in line.chunk_by(|one, other| column(one) == column(other)) {
        if run.len() <= 4 {
            kept.extend_from_slice(run);
            continue;
        }
        let by_height = |one: &(usize, &Place), other: &(usize, &Place)| one.1.1.total_cmp(&other.1.1);
        let places = || run.iter().enumerate();
        let lowest = places().min_by(by_height).map_or(0, |(i, _)| i);
        let highest = places().max_by(by_height).map_or(0, |(i, _)| i);
        let mut numbers = [0, lowest.min(highest), lowest.max(highest), run.len() - 1].to_vec();
        numbers.dedup();
        kept.extend(numbers.into_iter().map(|i| run[i]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: Frame = Frame { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 };

    #[test]
    fn lines_are_cut_at_the_frame() {
        assert_eq!(
            FRAME.cut(&[(-5.0, 5.0), (5.0, 5.0), (5.0, 15.0)]),
            [[(0.0, 5.0), (5.0, 5.0), (5.0, 10.0)]]
        );
        // Out at the top and in again: two pieces.
        let pieces = FRAME.cut(&[(1.0, 5.0), (1.0, -5.0), (9.0, -5.0), (9.0, 5.0)]);
        assert_eq!(pieces, [[(1.0, 5.0), (1.0, 0.0)], [(9.0, 0.0), (9.0, 5.0)]]);
        assert!(FRAME.cut(&[(-1.0, 0.0), (-1.0, 10.0)]).is_empty());
        assert!(FRAME.cut(&[(-9.0, 5.0), (5.0, -9.0)]).is_empty());
    }

    #[test]
    fn areas_are_cut_at_the_frame() {
        let square = [(5.0, 5.0), (15.0, 5.0), (15.0, 8.0), (5.0, 8.0)];
        assert_eq!(FRAME.cut_area(&square), [(5.0, 5.0), (10.0, 5.0), (10.0, 8.0), (5.0, 8.0)]);
        assert!(FRAME.cut_area(&[(11.0, 0.0), (12.0, 0.0), (12.0, 5.0)]).is_empty());
        assert!(FRAME.cut_area(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn cutting_leaves_nothing_outside(
            line in proptest::collection::vec((-30.0..30.0f64, -30.0..30.0f64), 0..20)
        ) {
            let grown = Frame { left: -1e-9, top: -1e-9, right: 10.0 + 1e-9, bottom: 10.0 + 1e-9 };
            prop_assert!(FRAME.cut(&line).into_iter().flatten().all(|place| grown.holds(place)));
            prop_assert!(FRAME.cut_area(&line).into_iter().all(|place| grown.holds(place)));
        }

        #[test]
        fn thinning_keeps_ends_and_extremes(
            heights in proptest::collection::vec(0.0..100.0f64, 1..3_000)
        ) {
            let count = heights.len() as f64;
            let line: Vec<Place> = heights.iter().enumerate().map(|(i, y)| (30.0 * i as f64 / count, *y)).collect();
            let kept = thinned(&line);
            prop_assert!(kept.len() <= 4 * 120);
            prop_assert_eq!((kept[0], kept[kept.len() - 1]), (line[0], line[line.len() - 1]));
            // In each column the same heights are covered.
            let ends = |line: &[Place], column: f64| {
                line.iter().filter(|place| libm::floor(place.0 / COLUMN) == column).fold((1e9, -1e9), |(low, high): (f64, f64), place| {
                    (low.min(place.1), high.max(place.1))
                })
            };
            for column in 0..120 {
                prop_assert_eq!(ends(&line, f64::from(column)), ends(&kept, f64::from(column)));
            }
        }
    }
}
