//! The layout of a figure: vertically stacked panels with common left and right edges.

use super::bar_marks::{self, BarLayout};
use super::canvas::{
    Canvas, FONT_SIZE, LINE_HEIGHT, Label, TEXT_COLOUR, UNITS_PER_MM, WIDTH, text_width, wrap,
};
use super::end_labels::EndLabels;
use super::frame::{Plot, TICK_LENGTH, draw_frame, draw_no_data, y_ticks};
use super::geometry::{Frame, PanelGeometry};
use super::legend::Legend;
use super::palette::StyleMap;
use super::scale::{AxisRange, PageAxis, RangeOptions, ZeroPolicy};
use super::ticks::Tick;
use super::{Axis, Chart, Marks, Scale, line_marks};

/// The height of the plot area.
const PLOT_HEIGHT: f64 = 132.0;

/// The padding between elements.
const GAP: f64 = 4.0;

/// The colour of notes.
const NOTE_COLOUR: &str = "#555555";

/// The margin to the right of the plot, which has room for half a tick label.
const RIGHT_MARGIN: f64 = 12.0;

/// The panels of a figure, drawn but not yet part of an SVG document.
struct Body {
    canvas: Canvas,
    height: f64,
    panels: Vec<Option<PanelGeometry>>,
}

impl Body {
    fn new(charts: &[Chart], fixed_names: &[&str]) -> Self {
        let styles = StyleMap::new(charts, fixed_names);
        let panels: Vec<Panel<'_>> = (0..charts.len()).map(|i| Panel::new(charts, i)).collect();
        let labels = panels.iter().flat_map(|panel| &panel.y_ticks).map(|tick| text_width(&tick.label));
        let left = GAP + LINE_HEIGHT + labels.fold(FONT_SIZE, f64::max) + TICK_LENGTH + GAP;
        let right = panels.iter().map(|panel| panel.right_margin).fold(RIGHT_MARGIN, f64::max);
        let mut body = Self { canvas: Canvas::default(), height: GAP, panels: Vec::new() };
        for panel in &panels {
            let edges = (left, WIDTH - right);
            let (bottom, geometry) = panel.draw(&mut body.canvas, body.height, edges, &styles);
            body.height = bottom;
            body.panels.push(geometry);
        }
        body
    }
}

/// Returns the size of a figure and the geometry of its panels.
pub(super) fn measure(charts: &[Chart], fixed_names: &[&str]) -> ([f64; 2], Vec<Option<PanelGeometry>>) {
    let body = Body::new(charts, fixed_names);
    ([WIDTH, body.height], body.panels)
}

/// Draws a figure. The names in `fixed_names` have fixed styles.
pub(super) fn draw(charts: &[Chart], fixed_names: &[&str]) -> String {
    let empty = [Chart::empty()];
    let charts = if charts.is_empty() { &empty } else { charts };
    let Body { canvas: body, height, .. } = Body::new(charts, fixed_names);

    let mut canvas = Canvas::default();
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let attributes = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("role", "img"),
        ("width", &format!("{:.2}mm", WIDTH / UNITS_PER_MM)),
        ("height", &format!("{:.2}mm", height / UNITS_PER_MM)),
        ("viewBox", &format!("0 0 {WIDTH:.2} {height:.2}")),
        ("font-family", "Helvetica, Arial, sans-serif"),
        ("font-size", &format!("{FONT_SIZE:.2}")),
        ("fill", TEXT_COLOUR),
    ];
    canvas.open("svg", &[], &attributes);
    canvas.text("title", &titles.join("; "));
    canvas.shape("rect", &[("width", WIDTH), ("height", height)], &[("fill", "#ffffff")]);
    canvas.append(body);
    canvas.close("svg");
    canvas.finish()
}

/// A chart that has not been placed on the page yet.
struct Panel<'a> {
    chart: &'a Chart,
    title: Vec<String>,
    legend: Option<Legend>,
    /// The ranges of both axes; `None` if there is no data.
    ranges: Option<(AxisRange, AxisRange)>,
    y_ticks: Vec<Tick>,
    has_x_label: bool,
    /// The lines of text below the chart.
    notes: Vec<String>,
    /// The names at the ends of the lines, if there are too many lines for a legend.
    end_labels: Option<EndLabels>,
    /// The space to the right of the plot.
    right_margin: f64,
}

impl<'a> Panel<'a> {
    fn new(charts: &'a [Chart], index: usize) -> Self {
        let chart = &charts[index];
        let legend = Legend::new(&chart.marks, GAP);
        let above = index.checked_sub(1).map(|above| Legend::new(&charts[above].marks, GAP));
        let end_labels = EndLabels::new(&chart.marks);
        let ranges = x_range(charts, chart).and_then(|x| Some((x, y_range(chart, &x)?)));
        // In a bar chart, printed values shorten the axis by an amount that is not known yet.
        let length =
            if is_bar_chart(chart) { PLOT_HEIGHT - bar_marks::MAX_VALUE_LENGTH } else { PLOT_HEIGHT };
        Self {
            chart,
            title: title_lines(&chart.title, index, charts.len()),
            // The legend is omitted if the panel above has the same legend, or if the lines have labels.
            legend: (above.as_ref() != Some(&legend) && end_labels.is_none()).then_some(legend),
            right_margin: end_labels.as_ref().map_or(RIGHT_MARGIN, EndLabels::width),
            end_labels,
            ranges,
            y_ticks: ranges.map(|(_, y)| y_ticks(&y, length)).unwrap_or_default(),
            has_x_label: charts.get(index + 1).is_none_or(|below| !shares_x_axis(chart, below)),
            notes: chart.notes.iter().flat_map(|note| wrap(note, WIDTH - 2.0 * GAP)).collect(),
        }
    }

    /// Draws the panel below `top` and between the edges of its plot area. Returns its bottom coordinate and its
    /// geometry.
    fn draw(
        &self,
        canvas: &mut Canvas,
        mut top: f64,
        (left, right): (f64, f64),
        styles: &StyleMap<'_>,
    ) -> (f64, Option<PanelGeometry>) {
        canvas.open("g", &[], &[("class", "panel")]);
        for line in &self.title {
            let anchor = (GAP, top + FONT_SIZE);
            canvas.label(
                &Label::new(anchor, line)
                    .with_attributes(&[("font-weight", "bold")])
                    .fit_to(WIDTH - 2.0 * GAP),
            );
            top += LINE_HEIGHT;
        }
        if let Some(legend) = &self.legend {
            legend.draw(canvas, top, styles);
            top += legend.height();
        }
        // The highest tick label extends above the frame.
        top += 2.0 * GAP;
        let frame = Frame { left, top, right, bottom: top + PLOT_HEIGHT };
        let (x_axis_height, geometry) = match self.ranges {
            Some(ranges) => {
                let (height, geometry) = self.draw_data(canvas, frame, ranges, styles);
                (height, Some(geometry))
            }
            None => {
                draw_frame(canvas, &frame);
                draw_no_data(canvas, &frame, &self.chart.notes);
                (GAP, None)
            }
        };
        let middle = f64::midpoint(frame.top, frame.bottom);
        // A long label extends downwards, next to the x-axis labels.
        let shift = if text_width(&self.chart.y.label) > PLOT_HEIGHT { 2.0 * GAP } else { 0.0 };
        let label =
            Label::new((GAP + FONT_SIZE - 2.0, middle + shift), &self.chart.y.label).centred().rotated(-90.0);
        canvas.label(&label.fit_to(PLOT_HEIGHT + 2.0 * shift));
        let mut bottom = frame.bottom + x_axis_height;
        if self.has_x_label {
            // The label is centred below the frame. A long label is centred on the page, because it would be clipped
            // otherwise.
            let (label, max_length) = (&self.chart.x.label, frame.right - frame.left + 2.0 * RIGHT_MARGIN);
            let middle = if text_width(label) > max_length {
                WIDTH / 2.0
            } else {
                f64::midpoint(frame.left, frame.right)
            };
            canvas
                .label(&Label::new((middle, bottom + FONT_SIZE), label).centred().fit_to(WIDTH - 2.0 * GAP));
            bottom += LINE_HEIGHT;
        }
        for note in &self.notes {
            let attributes = [("class", "note"), ("fill", NOTE_COLOUR)];
            canvas.label(
                &Label::new((GAP, bottom + FONT_SIZE), note)
                    .with_attributes(&attributes)
                    .fit_to(WIDTH - 2.0 * GAP),
            );
            bottom += LINE_HEIGHT;
        }
        canvas.close("g");
        (bottom + 2.0 * GAP, geometry)
    }

    /// Draws the axes and the data. Returns the height of the x axis and the geometry of the panel.
    fn draw_data(
        &self,
        canvas: &mut Canvas,
        frame: Frame,
        (x, y): (AxisRange, AxisRange),
        styles: &StyleMap<'_>,
    ) -> (f64, PanelGeometry) {
        let x = PageAxis { range: x, low: frame.left, high: frame.right };
        let y = PageAxis { range: y, low: frame.bottom, high: frame.top };
        let plot = Plot { frame, x, y };
        let draw_axes = |canvas: &mut Canvas| {
            plot.draw_y_axis(canvas, &self.y_ticks);
            plot.draw_x_axis(canvas);
            draw_frame(canvas, &frame);
            TICK_LENGTH + LINE_HEIGHT
        };
        match &self.chart.marks {
            Marks::Lines(lines) => {
                let x_axis_height = draw_axes(canvas);
                line_marks::draw_lines(canvas, &plot, lines, styles);
                if let Some(labels) = &self.end_labels {
                    labels.draw(canvas, &plot, lines, styles);
                }
                (x_axis_height, plot.geometry(None))
            }
            Marks::Points(lines) => {
                let x_axis_height = draw_axes(canvas);
                line_marks::draw_points(canvas, &plot, lines, styles);
                (x_axis_height, plot.geometry(None))
            }
            Marks::Bars { groups, series } => {
                let layout = BarLayout::new(groups, series, &frame);
                let (below, above) = layout.value_margins(groups.len(), series, &y.range, PLOT_HEIGHT);
                let plot = Plot { y: PageAxis { low: y.low - below, high: y.high + above, ..y }, ..plot };
                plot.draw_y_axis(canvas, &self.y_ticks);
                draw_frame(canvas, &frame);
                bar_marks::draw(canvas, &plot, &layout, groups.len(), series, styles);
                layout.draw_group_labels(canvas, &frame, groups);
                (layout.labels_height, plot.geometry(Some(layout.widths())))
            }
        }
    }
}

impl Chart {
    /// Returns an empty chart.
    fn empty() -> Self {
        let axis = || Axis { label: String::new(), scale: Scale::Linear, from: None, to: None };
        Self {
            title: String::new(),
            x: axis(),
            y: axis(),
            marks: Marks::Lines(Vec::new()),
            notes: Vec::new(),
        }
    }
}

const fn is_bar_chart(chart: &Chart) -> bool {
    matches!(chart.marks, Marks::Bars { .. })
}

/// Returns whether two charts have the same x axis, and therefore share its range and label.
fn shares_x_axis(chart: &Chart, other: &Chart) -> bool {
    let is_same_kind = match (&chart.marks, &other.marks) {
        (Marks::Bars { groups, .. }, Marks::Bars { groups: other_groups, .. }) => groups == other_groups,
        _ => is_bar_chart(chart) == is_bar_chart(other),
    };
    chart.x == other.x && is_same_kind
}

/// Splits a title into lines. In a figure with several panels, the title starts with the panel letter.
fn title_lines(title: &str, index: usize, count: usize) -> Vec<String> {
    let letter =
        u8::try_from(index).ok().and_then(|index| b'a'.checked_add(index)).filter(u8::is_ascii_lowercase);
    let title = match letter {
        Some(letter) if count > 1 => format!("({}) {title}", char::from(letter)),
        _ => title.to_owned(),
    };
    wrap(&title, WIDTH - 2.0 * GAP)
}

/// Returns the range of the x axis, over all charts that share it.
fn x_range(charts: &[Chart], chart: &Chart) -> Option<AxisRange> {
    if let Marks::Bars { groups, .. } = &chart.marks {
        // Bar charts have groups instead of x values, so any valid range will do.
        return AxisRange::new(Scale::Linear, 0.0, groups.len() as f64);
    }
    let charts_with_axis = || charts.iter().filter(|other| shares_x_axis(chart, other));
    let values = charts_with_axis().flat_map(|chart| match &chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => {
            let unreached = lines.iter().flat_map(line_marks::unreached_x);
            lines.iter().flat_map(line_marks::values).map(|(x, _)| x).chain(unreached).collect::<Vec<_>>()
        }
        Marks::Bars { .. } => Vec::new(),
    });
    // Lines may end at the frame, but half of a marker at the frame would lie outside.
    let round_ends = charts_with_axis().any(|chart| matches!(chart.marks, Marks::Points(_)));
    AxisRange::from_data(&chart.x, values, RangeOptions { zero: ZeroPolicy::IfNear, round_ends })
}

/// Returns the range of the y axis.
fn y_range(chart: &Chart, x: &AxisRange) -> Option<AxisRange> {
    let scale = chart.y.scale;
    match &chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => {
            let is_visible =
                |value: f64| x.fraction(value).is_some_and(|fraction| (0.0..=1.0).contains(&fraction));
            let values = lines
                .iter()
                .flat_map(line_marks::values)
                .filter(|(x, _)| is_visible(*x))
                .flat_map(|(_, y)| y);
            let zero =
                if matches!(chart.marks, Marks::Lines(_)) { ZeroPolicy::Always } else { ZeroPolicy::IfNear };
            AxisRange::from_data(&chart.y, values, RangeOptions { zero, round_ends: true })
        }
        Marks::Bars { groups, series } => {
            // A linear axis leaves room for the values above the bars, so its end need not be a round number.
            let round_ends = scale == Scale::Log || bar_marks::hides_values(groups.len(), series);
            let values = bar_marks::values(groups.len(), series, scale);
            AxisRange::from_data(&chart.y, values, RangeOptions { zero: ZeroPolicy::Always, round_ends })
        }
    }
}
