//! Tests properties that hold for all figures.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), scale, from: None, to: None }
}

pub(super) fn line(name: &str, points: &[(f64, f64)]) -> LineSeries {
    LineSeries {
        name: name.to_owned(),
        points: points.to_vec(),
        half_widths: Vec::new(),
        is_reference: false,
    }
}

pub(super) fn line_chart(lines: Vec<LineSeries>) -> Chart {
    let (x, y) = (axis("time (µs)", Scale::Linear), axis("rate (Gbps)", Scale::Linear));
    Chart { title: "lines".to_owned(), x, y, marks: Marks::Lines(lines), notes: Vec::new() }
}

pub(super) fn bar_chart(groups: &[&str], series: &[(&str, &[f64])]) -> Chart {
    let groups = groups.iter().map(|name| (*name).to_owned()).collect();
    let bars = |&(name, values): &(&str, &[f64])| BarSeries {
        name: name.to_owned(),
        values: values.to_vec(),
        half_widths: vec![],
    };
    let marks = Marks::Bars { groups, series: series.iter().map(bars).collect() };
    let (x, y) = (axis("senders", Scale::Linear), axis("rate (Gbps)", Scale::Linear));
    Chart { title: "bars".to_owned(), x, y, marks, notes: Vec::new() }
}

/// An SVG element: its name, attributes, ancestors, and the text directly after its tag.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    ancestors: Vec<&'a str>,
    text: &'a str,
}

impl Tag<'_> {
    fn attribute(&self, name: &str) -> Option<&str> {
        let from = self.attributes.find(&format!(" {name}=\""))? + name.len() + 3;
        self.attributes[from..].split('"').next()
    }

    fn number(&self, name: &str) -> f64 {
        self.attribute(name).unwrap_or_else(|| panic!("no {name} in {}", self.attributes)).parse().unwrap()
    }

    fn has_class(&self, class: &str) -> bool {
        self.attribute("class") == Some(class)
    }
}

/// Parses the elements of an SVG document, and asserts that it is well-formed.
fn tags(svg: &str) -> Vec<Tag<'_>> {
    let mut open: Vec<&str> = Vec::new();
    let mut tags = Vec::new();
    let mut pieces = svg.split('<');
    assert_eq!(pieces.next(), Some(""), "text before the document");
    for piece in pieces {
        let (tag, text) = piece.split_once('>').expect("every tag ends with >");
        assert!(!text.contains('>') && !tag.contains('<'));
        let entities = ["&amp;", "&lt;", "&gt;", "&quot;"];
        for (i, _) in piece.match_indices('&') {
            assert!(entities.iter().any(|entity| piece[i..].starts_with(entity)), "{piece}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "elements are nested");
            continue;
        }
        let inner = tag.strip_suffix('/').unwrap_or(tag);
        let (name, _) = inner.split_once(' ').unwrap_or((inner, ""));
        let attributes = &inner[name.len()..];
        assert_eq!(attributes.matches('"').count() % 2, 0, "{tag}");
        assert!(!open.is_empty() || tags.is_empty(), "the document has one root");
        tags.push(Tag { name, attributes, ancestors: open.clone(), text });
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "unclosed elements: {open:?}");
    tags
}

fn plots<'a>(tags: &'a [Tag<'a>]) -> Vec<&'a Tag<'a>> {
    tags.iter().filter(|tag| tag.has_class("plot")).collect()
}

fn texts(svg: &str) -> Vec<String> {
    let unescape = |text: &str| {
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    };
    tags(svg).iter().filter(|tag| tag.name == "text").map(|tag| unescape(tag.text)).collect()
}

/// Returns the elements of all legends.
fn legend<'a>(tags: &'a [Tag<'a>]) -> Vec<&'a Tag<'a>> {
    let mut elements = Vec::new();
    let mut depth = None;
    for tag in tags {
        depth = depth.filter(|depth| tag.ancestors.len() > *depth);
        if depth.is_some() {
            elements.push(tag);
        } else if tag.has_class("legend") {
            depth = Some(tag.ancestors.len());
        }
    }
    elements
}

#[test]
fn a_figure_has_a_role_a_title_and_a_white_background() {
    let svg = render_svg(&[line_chart(vec![line("a & b", &[(0.0, 1.0), (1.0, 2.0)])])]);
    let tags = tags(&svg);
    assert_eq!((tags[0].name, tags[0].attribute("role")), ("svg", Some("img")));
    assert_eq!((tags[1].name, tags[1].text), ("title", "lines"));
    assert_eq!((tags[2].name, tags[2].attribute("fill")), ("rect", Some("#ffffff")));
    assert!(texts(&svg).contains(&"a & b".to_owned()));
}

#[test]
fn rendering_is_deterministic() {
    let charts = || {
        let points: Vec<(f64, f64)> = (0..3000).map(|i| (f64::from(i), libm::sin(f64::from(i)))).collect();
        [line_chart(vec![line("wave", &points)]), bar_chart(&["one"], &[("hpcc", &[0.1])])]
    };
    assert_eq!(render_svg(&charts()), render_svg(&charts()));
    assert_eq!(render_csv(&charts()), render_csv(&charts()));
}

#[test]
fn long_lines_are_thinned_and_keep_their_peaks() {
    let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
    points[54_321].1 = 50.0;
    let svg = render_svg(&[line_chart(vec![line("saw", &points)])]);
    assert!(svg.len() < 100_000, "{}", svg.len());
    let tags = tags(&svg);
    let top = plots(&tags)[0].number("y");
    // The peak is the only value at the upper end of the axis.
    let has_peak =
        |tag: &Tag<'_>| tag.attribute("d").is_some_and(|path| path.contains(&format!(" {top:.2}")));
    assert!(tags.iter().any(has_peak));
}

#[test]
fn the_legend_lists_every_series_above_the_plot() {
    let names =
        ["poseidon", "hpcc", "power<tcp>", "swift", "a law with a rather long name", "dctcp", "timely"];
    let mut lines: Vec<LineSeries> = names.iter().map(|name| line(name, &[(0.0, 1.0), (1.0, 2.0)])).collect();
    lines[3].is_reference = true;
    let series: Vec<(&str, &[f64])> = names.iter().map(|name| (*name, &[1.0, 2.0][..])).collect();
    for chart in [line_chart(lines), bar_chart(&["one", "two"], &series)] {
        let svg = render_svg(&[chart]);
        let tags = tags(&svg);
        let top = plots(&tags)[0].number("y");
        let legend = legend(&tags);
        for name in names {
            let escaped = name.replace('<', "&lt;").replace('>', "&gt;");
            assert!(legend.iter().any(|tag| tag.text == escaped), "{name}");
        }
        let rows: Vec<f64> =
            legend.iter().filter(|tag| tag.name == "text").map(|tag| tag.number("y")).collect();
        assert!(rows.iter().all(|baseline| baseline + 3.0 < top), "{rows:?} {top}");
        assert!(rows.first() < rows.last(), "the names need several rows");
        let rects: Vec<_> = legend.iter().filter(|tag| tag.name == "rect").collect();
        assert!(rects.iter().all(|tag| tag.number("y") + tag.number("height") < top));
    }
}

#[test]
fn panels_share_edges_legend_and_x_label() {
    let two_lines = |values: [f64; 2]| {
        vec![line("hpcc", &[(0.0, values[0]), (10.0, values[1])]), line("swift", &[(0.0, 1.0)])]
    };
    let (mut upper, mut lower) = (line_chart(two_lines([1.0, 2.0])), line_chart(two_lines([1e6, 2e6])));
    let charts = [upper.clone(), lower.clone()];
    let text = render_svg(&charts);
    let tags = tags(&text);
    let plots = plots(&tags);
    assert_eq!(plots.len(), 2);
    assert_eq!(plots[0].number("x"), plots[1].number("x"));
    assert_eq!(plots[0].number("width"), plots[1].number("width"));
    assert!(plots[0].number("y") + plots[0].number("height") < plots[1].number("y"));
    let count = |svg: &str, label: &str| texts(svg).iter().filter(|text| *text == label).count();
    assert_eq!([count(&text, "hpcc"), count(&text, "time (µs)")], [1, 1]);
    assert_eq!([count(&text, "(a) lines"), count(&text, "(b) lines")], [1, 1]);
    // Panels with different axes and series have their own labels.
    lower.x.label = "load".to_owned();
    upper.marks = Marks::Lines(vec![line("queue", &[(0.0, 1.0)])]);
    let text = render_svg(&[upper, lower]);
    assert_eq!(
        [count(&text, "hpcc"), count(&text, "queue"), count(&text, "time (µs)"), count(&text, "load")],
        [1; 4]
    );
}

#[test]
fn every_finite_value_has_a_bar() {
    let chart =
        bar_chart(&["a", "b", "c"], &[("x", &[1.0, 0.0, f64::NAN]), ("y", &[-2.0, f64::INFINITY, 1e-9])]);
    let text = render_svg(&[chart]);
    let tags = tags(&text);
    assert_eq!(tags.iter().filter(|tag| tag.has_class("bar")).count(), 4);
    let values: Vec<&str> = tags.iter().filter(|tag| tag.has_class("value")).map(|tag| tag.text).collect();
    assert_eq!(values, ["1", "0", "−2", "1e−9"]);
}

#[test]
fn a_logarithmic_axis_omits_values_that_are_not_positive() {
    let mut chart = bar_chart(&["a", "b", "c"], &[("x", &[1.0, 0.0, 1000.0])]);
    chart.y.scale = Scale::Log;
    let text = render_svg(&[chart]);
    assert_eq!(tags(&text).iter().filter(|tag| tag.has_class("bar")).count(), 2);
    assert!(texts(&text).contains(&"0".to_owned()), "the value is still printed");

    let mut chart =
        line_chart(vec![line("x", &[(-1.0, 1.0), (0.0, 1.0), (1.0, 1.0), (2.0, 2.0), (3.0, 0.0)])]);
    (chart.x.scale, chart.y.scale) = (Scale::Log, Scale::Log);
    let text = render_svg(&[chart]);
    let markers = tags(&text).iter().filter(|tag| tag.name == "circle").count();
    assert_eq!(markers, 1 + 2, "one in the legend, two in the plot");
}

#[test]
fn nan_leaves_a_gap() {
    let points = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 1.0)];
    let text = render_svg(&[line_chart(vec![line("x", &points)])]);
    let tags = tags(&text);
    let paths: Vec<&str> = tags.iter().filter_map(|tag| tag.attribute("d")).collect();
    assert_eq!(paths.last().unwrap().matches('M').count(), 2);
}

#[test]
fn empty_charts_show_no_data() {
    let empty = [
        line_chart(vec![]),
        line_chart(vec![line("x", &[(1.0, f64::NAN)])]),
        bar_chart(&[], &[("x", &[])]),
        bar_chart(&["a"], &[("x", &[f64::NAN])]),
    ];
    for chart in empty {
        let text = render_svg(&[chart]);
        assert_eq!(plots(&tags(&text)).len(), 1);
        assert!(texts(&text).contains(&"no data".to_owned()));
    }
    assert!(texts(&render_svg(&[])).contains(&"no data".to_owned()));
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -10.0..100.0f64,
        2 => any::<f64>(),
        1 => 0.0..1.0f64,
        1 => prop::sample::select(vec![
            0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324,
        ]),
    ]
}

fn any_axis() -> impl Strategy<Value = Axis> {
    let scale = prop::sample::select(vec![Scale::Linear, Scale::Log, Scale::Tail]);
    (".{0,40}", scale, prop::option::of(any_number()), prop::option::of(any_number()))
        .prop_map(|(label, scale, from, to)| Axis { label, scale, from, to })
}

fn any_line() -> impl Strategy<Value = LineSeries> {
    (".{0,30}", vec((any_number(), any_number()), 0..60), vec(any_number(), 0..60), any::<bool>()).prop_map(
        |(name, points, half_widths, is_reference)| LineSeries { name, points, half_widths, is_reference },
    )
}

fn any_marks() -> impl Strategy<Value = Marks> {
    let bars = || {
        (".{0,30}", vec(any_number(), 0..12), vec(any_number(), 0..12))
            .prop_map(|(name, values, half_widths)| BarSeries { name, values, half_widths })
    };
    prop_oneof![
        vec(any_line(), 0..10).prop_map(Marks::Lines),
        vec(any_line(), 0..10).prop_map(Marks::Points),
        (vec(".{0,30}", 0..40), vec(bars(), 0..10))
            .prop_map(|(groups, series)| Marks::Bars { groups, series }),
    ]
}

fn any_chart() -> impl Strategy<Value = Chart> {
    let notes = vec(".{0,120}", 0..3);
    (".{0,80}", any_axis(), any_axis(), any_marks(), notes).prop_map(|(title, x, y, marks, notes)| Chart {
        title,
        x,
        y,
        marks,
        notes,
    })
}

#[test]
fn unreached_values_have_a_marker_at_the_top_edge() {
    let mut lines = line_chart(vec![line("a", &[(1.0, 2.0), (2.0, f64::INFINITY), (3.0, f64::INFINITY)])]);
    lines.notes = vec!["a: not reached (3.5 % unfinished)".to_owned()];
    let bars = bar_chart(&["x", "y"], &[("a", &[1.0, f64::INFINITY]), ("b", &[f64::NAN, 2.0])]);
    for (chart, marker_count) in [(lines, 2), (bars, 1)] {
        let notes = chart.notes.clone();
        let svg = render_svg(&[chart]);
        let tags = tags(&svg);
        let top = plots(&tags)[0].number("y");
        let markers: Vec<_> = tags.iter().filter(|tag| tag.has_class("not-reached")).collect();
        assert_eq!(markers.len(), marker_count);
        for marker in markers {
            let path = marker.attribute("d").expect("the marker is a path");
            let tip: f64 = path
                .split(['M', 'L', ' '])
                .nth(2)
                .expect("the path has a first point")
                .parse()
                .expect("coordinates are numbers");
            assert!((tip - top).abs() < 2.0, "{path} is not at {top}");
        }
        assert!(notes.iter().all(|note| texts(&svg).contains(note)), "{:?}", texts(&svg));
    }
}

proptest! {
    #[test]
    fn every_chart_stays_on_its_page(charts in vec(any_chart(), 0..4)) {
        let svg = render_svg(&charts);
        let tags = tags(&svg);
        let view_box: Vec<f64> = tags[0].attribute("viewBox").unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
        let is_on_page = |x: f64, y: f64| (-4.0..=view_box[2] + 4.0).contains(&x) && (-4.0..=view_box[3] + 4.0).contains(&y);
        for tag in &tags[1..] {
            let attributes = tag.attributes.to_lowercase();
            prop_assert!(!attributes.contains("nan") && !attributes.contains("inf"), "{}", tag.attributes);
            if let Some(path) = tag.attribute("d") {
                for point in path.split(['M', 'L', 'Z']).filter(|point| !point.is_empty()) {
                    let (x, y) = point.split_once(' ').unwrap();
                    prop_assert!(is_on_page(x.parse().unwrap(), y.parse().unwrap()), "{}", path);
                }
            }
            for (x, y) in [("x", "y"), ("cx", "cy"), ("x1", "y1"), ("x2", "y2")] {
                if tag.attribute(x).is_some() {
                    prop_assert!(is_on_page(tag.number(x), tag.number(y)), "{}", tag.attributes);
                }
            }
            if tag.has_class("bar") {
                prop_assert!(tag.number("width") >= 0.0 && tag.number("height") >= 0.0);
            }
        }
    }

    #[test]
    fn every_chart_has_one_csv_row_per_value(charts in vec(any_chart(), 0..4)) {
        let row_count = |chart: &Chart| match &chart.marks {
            Marks::Lines(lines) | Marks::Points(lines) => lines.iter().map(|line| line.points.len()).sum(),
            Marks::Bars { groups, series } => groups.len() * series.len(),
        };
        let text = render_csv(&charts);
        let rows = csv::Reader::from_reader(text.as_bytes()).records().filter(Result::is_ok).count();
        prop_assert_eq!(rows, charts.iter().map(row_count).sum::<usize>());
    }
}
