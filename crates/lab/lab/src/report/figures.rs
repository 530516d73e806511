//! Figures, and published figures: charts thinned to the points that a reader can see.

use poseidon_figures::{
    Chart, FigureDescription, LineSeries, Marks, describe_figure, render_svg_with_fixed_styles,
};
use poseidon_laws::LAWS;

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The title.
    pub title: String,
    /// The charts, from top to bottom.
    pub charts: Vec<Chart>,
}

impl Figure {
    /// Renders the figure as SVG. A built-in law has the same style in every figure.
    pub fn to_svg(&self) -> String {
        render_svg_with_fixed_styles(&self.charts, &law_names())
    }

    /// Describes the SVG of the figure, for interactive pages.
    pub fn describe(&self) -> FigureDescription {
        describe_figure(&self.charts, &law_names())
    }
}

/// Returns the names of the built-in laws, which have fixed styles.
fn law_names() -> Vec<&'static str> {
    LAWS.iter().map(|law| law.name).collect()
}

/// How exactly a stored chart represents its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    /// The maximum number of points in a line.
    max_points: usize,
    /// The number of significant digits in a point.
    digits: usize,
}

/// The detail of published charts: as many points as a paper column can show. A figure shows three digits.
const PUBLISHED_DETAIL: Detail = Detail { max_points: 300, digits: 5 };

/// The detail of charts in a page, which a reader can enlarge.
pub(super) const PAGE_DETAIL: Detail = Detail { max_points: 3_000, digits: 7 };

/// Writes figures as JSON, one per line. Each figure is a pair of a title and its charts.
pub(super) fn write_figures(figures: &[Figure]) -> Result<String, serde_json::Error> {
    let write_line = |figure: &Figure| {
        let charts: Vec<Chart> =
            figure.charts.iter().map(|chart| thin_chart(chart, PUBLISHED_DETAIL)).collect();
        serde_json::to_string(&(&figure.title, charts))
    };
    let lines: Vec<String> = figures.iter().map(write_line).collect::<Result<_, _>>()?;
    Ok(format!("[\n{}\n]\n", lines.join(",\n")))
}

/// Reads the output of [`write_figures`].
pub(super) fn read_figures(text: &str) -> Result<Vec<Figure>, serde_json::Error> {
    let pairs: Vec<(String, Vec<Chart>)> = serde_json::from_str(text)?;
    Ok(pairs.into_iter().map(|(title, charts)| Figure { title, charts }).collect())
}

/// Returns a chart with fewer points and digits.
pub(super) fn thin_chart(chart: &Chart, detail: Detail) -> Chart {
    let mut chart = chart.clone();
    match &mut chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => {
            lines.iter_mut().for_each(|line| thin_line(line, detail))
        }
        Marks::Bars { series, .. } => {
            for bars in series {
                let values = bars.values.iter_mut().chain(&mut bars.half_widths);
                values.for_each(|value| *value = round_to_digits(*value, detail.digits));
            }
        }
    }
    chart
}

/// Thins a line. Both ends and the lowest and highest points of each section remain, so no peak is lost.
fn thin_line(line: &mut LineSeries, detail: Detail) {
    let count = line.points.len();
    if count > detail.max_points {
        let mut kept_indices = vec![0, count - 1];
        let sections = detail.max_points / 2 - 1;
        for section in 0..sections {
            let indices = section * count / sections..(section + 1) * count / sections;
            let by_height = |a: &usize, b: &usize| line.points[*a].1.total_cmp(&line.points[*b].1);
            kept_indices.extend(indices.clone().min_by(by_height));
            kept_indices.extend(indices.max_by(by_height));
        }
        kept_indices.sort_unstable();
        kept_indices.dedup();
        line.points = kept_indices.iter().map(|index| line.points[*index]).collect();
        if !line.half_widths.is_empty() {
            let half = |index: &usize| line.half_widths.get(*index).copied().unwrap_or(f64::NAN);
            line.half_widths = kept_indices.iter().map(half).collect();
        }
    }
    let values = line.points.iter_mut().flat_map(|(x, y)| [x, y]).chain(&mut line.half_widths);
    values.for_each(|value| *value = round_to_digits(*value, detail.digits));
}

/// Rounds a number to significant digits.
pub(super) fn round_to_digits(value: f64, digits: usize) -> f64 {
    if value.is_finite() { format!("{value:.*e}", digits - 1).parse().unwrap_or(value) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_figures::{Axis, Scale, render_svg};

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let axis = || Axis { label: "x".into(), scale: Scale::Linear, from: None, to: None };
        let line = LineSeries { name: "a".into(), points, half_widths: Vec::new(), is_reference: false };
        Chart { title: "t".into(), x: axis(), y: axis(), marks: Marks::Lines(vec![line]), notes: Vec::new() }
    }

    fn read_back(chart: &Chart) -> Chart {
        let text = write_figures(&[Figure { title: "t".into(), charts: vec![chart.clone()] }])
            .expect("figures are valid JSON");
        let figures = read_figures(&text).expect("the JSON is valid");
        figures[0].charts[0].clone()
    }

    #[test]
    fn a_law_has_the_same_colour_in_every_figure() {
        let svg = |names: [&str; 2]| {
            let line = |name: &str| LineSeries {
                name: name.to_owned(),
                points: vec![(0.0, 1.0), (1.0, 2.0)],
                half_widths: Vec::new(),
                is_reference: false,
            };
            let charts = vec![Chart { marks: Marks::Lines(names.map(line).to_vec()), ..chart(Vec::new()) }];
            Figure { title: "t".into(), charts }.to_svg()
        };
        // HPCC is the third law of the registry, wherever it stands in the figure.
        let figures = [svg(["hpcc", "poseidon"]), svg(["poseidon", "hpcc"]), svg(["dctcp", "hpcc"])];
        for (figure, expected) in figures.iter().zip([[true, true], [true, true], [true, false]]) {
            assert_eq!(["#009E73", "#0072B2"].map(|colour| figure.contains(colour)), expected, "{figure}");
        }
    }

    #[test]
    fn a_short_line_is_published_unchanged_with_its_gaps() {
        let before = chart(vec![(0.0, 1.5), (1.0, f64::NAN), (2.0, 3.25), (3.0, f64::INFINITY)]);
        assert_eq!(render_svg(&[read_back(&before)]), render_svg(&[before]));
    }

    #[test]
    fn a_long_line_keeps_its_ends_and_its_peak() {
        let height = |i: u32| if i == 7_777 { 99.0 } else { f64::from(i % 10) };
        let points: Vec<_> = (0..20_000).map(|i| (f64::from(i), height(i))).collect();
        let Marks::Lines(lines) = read_back(&chart(points)).marks else { panic!("the marks are not lines") };
        let points = &lines[0].points;
        assert!(points.len() <= PUBLISHED_DETAIL.max_points, "{}", points.len());
        assert_eq!((points[0], points[points.len() - 1]), ((0.0, 0.0), (19_999.0, 9.0)));
        assert!(points.contains(&(7_777.0, 99.0)));
    }
}
