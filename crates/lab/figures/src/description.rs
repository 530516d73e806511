//! Describes a rendered figure for interactive pages: where its panels are, and how its series look.

use super::geometry::PanelGeometry;
use super::palette::{REFERENCE_COLOUR, StyleMap};
use super::{Chart, Marks, layout};
use serde::Serialize;

/// The geometry of a rendered figure and the appearance of its series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureDescription {
    /// The width and the height of the SVG view box.
    pub size: [f64; 2],
    /// The panels, in the order of the charts. A panel without data has no geometry.
    pub panels: Vec<Option<PanelGeometry>>,
    /// The series of all panels. Every name occurs once.
    pub series: Vec<SeriesAppearance>,
}

/// The appearance of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeriesAppearance {
    /// The name.
    pub name: String,
    /// The colour on a light background.
    pub colour: &'static str,
    /// The dash pattern; empty for a solid line.
    pub dashes: &'static str,
    /// Whether this is a reference line.
    pub is_reference: bool,
}

/// Describes the figure that [`super::render_svg_with_fixed_styles`] renders from the same arguments.
pub fn describe_figure(charts: &[Chart], fixed_names: &[&str]) -> FigureDescription {
    let styles = StyleMap::new(charts, fixed_names);
    let mut series: Vec<SeriesAppearance> = Vec::new();
    for (name, is_reference) in charts.iter().flat_map(series_names) {
        if series.iter().all(|known| (known.name.as_str(), known.is_reference) != (name, is_reference)) {
            let (colour, dashes) = match is_reference {
                true => (REFERENCE_COLOUR, styles.reference_dashes(name)),
                false => (styles.style(name).colour, styles.style(name).dashes),
            };
            series.push(SeriesAppearance { name: name.to_owned(), colour, dashes, is_reference });
        }
    }
    let (size, panels) = layout::measure(charts, fixed_names);
    FigureDescription { size, panels, series }
}

/// Returns the name of each series, and whether it is a reference line.
fn series_names(chart: &Chart) -> Vec<(&str, bool)> {
    match &chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => {
            lines.iter().map(|line| (line.name.as_str(), line.is_reference)).collect()
        }
        Marks::Bars { series, .. } => series.iter().map(|bars| (bars.name.as_str(), false)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bar_chart, line, line_chart};
    use super::*;
    use crate::render_svg;

    #[test]
    fn the_geometry_is_that_of_the_svg() {
        let mut points = line_chart(vec![line("a", &[(0.0, 1.0), (10.0, 90.0)])]);
        points.marks = match points.marks {
            Marks::Lines(lines) => Marks::Points(lines),
            marks => marks,
        };
        let charts = [
            line_chart(vec![line("a", &[(0.0, 1.0), (10.0, 90.0)])]),
            bar_chart(&["one", "two"], &[("a", &[3.0, 4.0]), ("b", &[1.0, 2.0])]),
            line_chart(vec![]),
            points,
        ];
        let svg = render_svg(&charts);
        let described = describe_figure(&charts, &[]);
        assert!(svg.contains(&format!("viewBox=\"0 0 {:.2} {:.2}\"", described.size[0], described.size[1])));
        assert_eq!(
            described.panels.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, true, false, true]
        );
        for panel in described.panels.iter().flatten() {
            let [left, top, right, bottom] = panel.frame;
            let frame = format!(
                "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{:.2}\" height=\"{:.2}\" class=\"plot\"",
                right - left,
                bottom - top
            );
            assert!(svg.contains(&frame), "{frame}");
        }
        let bars = described.panels[1].expect("there is data").bars.expect("there are bars");
        assert!(bars[0] > 2.0 * bars[1] && bars[1] > 0.0, "{bars:?}");
    }

    #[test]
    fn a_series_is_described_once_with_its_colour() {
        let mut chart = line_chart(vec![line("own", &[(0.0, 1.0)]), line("fair", &[(0.0, 1.0)])]);
        if let Marks::Lines(lines) = &mut chart.marks {
            lines[1].is_reference = true;
        }
        let described = describe_figure(&[chart.clone(), chart], &["law", "own"]);
        let seen: Vec<(&str, &str)> =
            described.series.iter().map(|series| (series.name.as_str(), series.colour)).collect();
        assert_eq!(seen, [("own", "#D55E00"), ("fair", REFERENCE_COLOUR)]);
    }
}
