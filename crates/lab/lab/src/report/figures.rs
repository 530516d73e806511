//! Figures as they are published: the charts, with no more points than can be seen, from which they are drawn again.

use crate::draw::{Chart, Line, Marks};

/// A figure: its title and its charts.
pub type Figure = (String, Vec<Chart>);

/// Most points of a published line: as many as a column of a paper shows.
const MOST_POINTS: usize = 300;

/// Digits that a published point keeps: a figure shows three.
const DIGITS: usize = 5;

/// Figures as JSON, one per line.
pub(super) fn write_figures(figures: &[Figure]) -> Result<String, String> {
    let small = figures.iter().map(|(title, charts)| (title, charts.iter().map(thinned).collect::<Vec<_>>()));
    let lines: Result<Vec<String>, String> =
        small.map(|figure| serde_json::to_string(&figure).map_err(|error| error.to_string())).collect();
    Ok(format!("[\n{}\n]\n", lines?.join(",\n")))
}

/// Reads what [`write_figures`] wrote.
pub(super) fn read_figures(text: &str) -> Result<Vec<Figure>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A chart with fewer points and digits.
fn thinned(chart: &Chart) -> Chart {
    let mut chart = chart.clone();
    match &mut chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => lines.iter_mut().for_each(thin_line),
        Marks::Bars { series, .. } => {
            for bars in series {
                bars.values.iter_mut().chain(&mut bars.half).for_each(shorten);
            }
        }
    }
    chart
}

/// Keeps of each stretch of a line its lowest and highest point, so that no peak is lost, and both ends.
fn thin_line(line: &mut Line) {
    let count = line.points.len();
    if count > MOST_POINTS {
        let mut kept = vec![0, count - 1];
        let stretches = MOST_POINTS / 2 - 1;
        for stretch in 0..stretches {
            let of_stretch = stretch * count / stretches..(stretch + 1) * count / stretches;
            let by_height = |a: &usize, b: &usize| line.points[*a].1.total_cmp(&line.points[*b].1);
            kept.extend(of_stretch.clone().min_by(by_height));
            kept.extend(of_stretch.max_by(by_height));
        }
        kept.sort_unstable();
        kept.dedup();
        line.points = kept.iter().map(|index| line.points[*index]).collect();
        if !line.half.is_empty() {
            line.half = kept.iter().map(|index| line.half.get(*index).copied().unwrap_or(f64::NAN)).collect();
        }
    }
    line.points.iter_mut().flat_map(|(x, y)| [x, y]).chain(&mut line.half).for_each(shorten);
}

fn shorten(value: &mut f64) {
    *value = round_to_digits(*value, DIGITS);
}

/// A number rounded to so many digits.
pub(super) fn round_to_digits(value: f64, digits: usize) -> f64 {
    if value.is_finite() { format!("{value:.*e}", digits - 1).parse().unwrap_or(value) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Axis, Scale, svg};

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let axis = || Axis { label: "x".into(), scale: Scale::Linear, from: None, to: None };
        let line = Line { name: "a".into(), points, half: Vec::new(), is_reference: false };
        Chart { title: "t".into(), x: axis(), y: axis(), marks: Marks::Lines(vec![line]), notes: Vec::new() }
    }

    fn read_back(chart: &Chart) -> Chart {
        let text = write_figures(&[("t".into(), vec![chart.clone()])]).expect("can be written");
        let figures = read_figures(&text).expect("can be read");
        figures[0].1[0].clone()
    }

    #[test]
    fn a_short_line_is_drawn_again_as_it_was_with_its_gaps() {
        let before = chart(vec![(0.0, 1.5), (1.0, f64::NAN), (2.0, 3.25), (3.0, f64::INFINITY)]);
        assert_eq!(svg(&[read_back(&before)]), svg(&[before]));
    }

    #[test]
    fn a_long_line_keeps_its_ends_and_its_peak() {
        let height = |i: u32| if i == 7_777 { 99.0 } else { f64::from(i % 10) };
        let points: Vec<_> = (0..20_000).map(|i| (f64::from(i), height(i))).collect();
        let Marks::Lines(lines) = read_back(&chart(points)).marks else { panic!("lines stay lines") };
        let points = &lines[0].points;
        assert!(points.len() <= MOST_POINTS, "{}", points.len());
        assert_eq!((points[0], points[points.len() - 1]), ((0.0, 0.0), (19_999.0, 9.0)));
        assert!(points.contains(&(7_777.0, 99.0)));
    }
}
