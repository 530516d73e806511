//! The data of a page's figures and scenarios, compressed and embedded.
//!
//! The script of the page decodes it with `DecompressionStream("deflate-raw")`. Without a script, the page still shows
//! the figures as SVG.

use super::site::Site;
use crate::report::Figure;
use crate::report::figures::{PAGE_DETAIL, thin_chart};
use poseidon_figures::{Chart, DARK_COLOURS, FigureDescription, Marks, Scale};
use serde::Serialize;
use std::collections::BTreeMap;

/// The best compression. A page is written once and read often.
const COMPRESSION_LEVEL: u8 = 9;

/// A line with this many points is a time series, whatever its x axis. A figure marks each point of shorter lines.
const MIN_SERIES_POINTS: usize = 25;

/// The smallest number of points over time that are worth a zoom.
const MIN_TIMES: usize = 5;

/// The labels of time axes.
const TIME_UNITS: [&str; 5] = ["ns", "us", "µs", "ms", "s"];

#[derive(Serialize)]
struct PageData<'a> {
    /// The figures of each study.
    figures: BTreeMap<&'a str, Vec<FigureData>>,
    /// The scenario text of each study.
    scenarios: BTreeMap<&'a str, &'a str>,
    /// The colours on a dark background.
    dark: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
struct FigureData {
    charts: Vec<Chart>,
    description: FigureDescription,
    /// Whether the page replaces the figure with an interactive plot.
    live: bool,
    /// Whether lines have fewer points than the study measured.
    thinned: bool,
}

impl FigureData {
    fn new(figure: &Figure) -> Self {
        let charts: Vec<Chart> = figure.charts.iter().map(|chart| thin_chart(chart, PAGE_DETAIL)).collect();
        let point_count = |charts: &[Chart]| charts.iter().map(count_points).sum::<usize>();
        Self {
            description: figure.describe(),
            live: is_live(figure),
            thinned: point_count(&charts) < point_count(&figure.charts),
            charts,
        }
    }
}

fn count_points(chart: &Chart) -> usize {
    match &chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => lines.iter().map(|line| line.points.len()).sum(),
        Marks::Bars { .. } => 0,
    }
}

/// Returns whether a page shows a figure as interactive time series.
pub(super) fn is_live(figure: &Figure) -> bool {
    !figure.charts.is_empty() && figure.charts.iter().all(is_time_series)
}

/// Returns whether a chart is a time series: at least one long line, and x values that do not decrease.
fn is_time_series(chart: &Chart) -> bool {
    let Marks::Lines(lines) = &chart.marks else { return false };
    let is_sorted = lines.iter().all(|line| line.points.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let min_points = if TIME_UNITS.contains(&chart.x.label.as_str()) { MIN_TIMES } else { MIN_SERIES_POINTS };
    let is_long = lines.iter().any(|line| line.points.len() >= min_points);
    chart.x.scale == Scale::Linear && chart.y.scale != Scale::Tail && is_sorted && is_long
}

/// Returns the data of these studies as base64 text.
pub(super) fn encode(site: &Site<'_>, studies: &[usize]) -> String {
    let mut data = PageData {
        figures: BTreeMap::new(),
        scenarios: BTreeMap::new(),
        dark: DARK_COLOURS.into_iter().collect(),
    };
    for &index in studies {
        let (report, id) = (&site.reports[index], site.places[index].id.as_str());
        data.figures.insert(id, report.figures.iter().map(FigureData::new).collect());
        if let Some(text) = &report.scenario_text {
            data.scenarios.insert(id, text);
        }
    }
    let json = serde_json::to_vec(&data).expect("charts and text are valid JSON");
    base64(&miniz_oxide::deflate::compress_to_vec(&json, COMPRESSION_LEVEL))
}

/// Encodes bytes as base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= chunk.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_figures::{Axis, LineSeries};

    #[test]
    fn base64_matches_the_rfc() {
        // The vectors of RFC 4648, section 10.
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn only_long_sorted_lines_are_live() {
        let labelled_chart = |label: &str, scale: Scale, xs: &mut dyn Iterator<Item = f64>| {
            let axis = |scale| Axis { label: label.into(), scale, from: None, to: None };
            let points = xs.map(|x| (x, 1.0)).collect();
            let line = LineSeries { name: "a".into(), points, half_widths: Vec::new(), is_reference: false };
            let marks = Marks::Lines(vec![line]);
            Chart { title: "t".into(), x: axis(scale), y: axis(Scale::Linear), marks, notes: Vec::new() }
        };
        let chart = |scale: Scale, xs: &mut dyn Iterator<Item = f64>| labelled_chart("flows", scale, xs);
        let is_live = |chart: Chart| is_live(&Figure { title: "t".into(), charts: vec![chart] });
        assert!(is_live(chart(Scale::Linear, &mut (0..30).map(f64::from))));
        assert!(!is_live(chart(Scale::Linear, &mut (0..24).map(f64::from))));
        assert!(is_live(labelled_chart("ms", Scale::Linear, &mut (0..24).map(f64::from))));
        assert!(!is_live(labelled_chart("ms", Scale::Linear, &mut (0..4).map(f64::from))));
        assert!(!is_live(chart(Scale::Log, &mut (1..30).map(f64::from))));
        assert!(!is_live(chart(Scale::Linear, &mut (0..30).rev().map(f64::from))));
    }
}
