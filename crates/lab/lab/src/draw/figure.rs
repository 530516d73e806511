//! A figure: panels one above the other, with the same left and right edge.

use super::bars::{self, Layout};
use super::canvas::{Canvas, INK, LEADING, LETTERS, UNITS_PER_MM, WIDTH, Words, width, wrapped};
use super::frame::{Plot, TICK, draw_frame, draw_no_data, y_ticks};
use super::legend::Legend;
use super::palette::Looks;
use super::scale::{Ruler, Span, Wishes, Zero};
use super::ticks::Tick;
use super::trace::Frame;
use super::{Axis, Chart, Marks, Scale, lines};

/// How high the frame around the data is.
const PLOT_HEIGHT: f64 = 132.0;

/// Between things.
const GAP: f64 = 4.0;

/// The colour of notes.
const NOTE: &str = "#555555";

/// Right of the frame: room for half a label.
const RIGHT: f64 = 12.0;

/// Draws a figure.
pub(super) fn draw(charts: &[Chart]) -> String {
    let nothing = [Chart::nothing()];
    let charts = if charts.is_empty() { &nothing } else { charts };
    let looks = Looks::of(charts);
    let panels: Vec<Panel<'_>> = (0..charts.len()).map(|i| Panel::new(charts, i)).collect();
    let labels = panels.iter().flat_map(|panel| &panel.y_ticks).map(|tick| width(&tick.label));
    let left = GAP + LEADING + labels.fold(LETTERS, f64::max) + TICK + GAP;

    let mut body = Canvas::default();
    let mut top = GAP;
    for panel in &panels {
        top = panel.draw(&mut body, top, left, &looks);
    }
    let height = top;

    let mut canvas = Canvas::default();
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let attributes = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("role", "img"),
        ("width", &format!("{:.2}mm", WIDTH / UNITS_PER_MM)),
        ("height", &format!("{:.2}mm", height / UNITS_PER_MM)),
        ("viewBox", &format!("0 0 {WIDTH:.2} {height:.2}")),
        ("font-family", "Helvetica, Arial, sans-serif"),
        ("font-size", &format!("{LETTERS:.2}")),
        ("fill", INK),
    ];
    canvas.open("svg", &[], &attributes);
    canvas.text("title", &titles.join("; "));
    canvas.shape("rect", &[("width", WIDTH), ("height", height)], &[("fill", "#ffffff")]);
    canvas.append(body);
    canvas.close("svg");
    canvas.finish()
}

/// A chart in its figure, with what is known before its place is.
struct Panel<'a> {
    chart: &'a Chart,
    title: Vec<String>,
    legend: Option<Legend>,
    /// Both axes; none where there is no data.
    spans: Option<(Span, Span)>,
    y_ticks: Vec<Tick>,
    has_x_label: bool,
    /// What is said below it, in lines.
    notes: Vec<String>,
}

impl<'a> Panel<'a> {
    fn new(charts: &'a [Chart], number: usize) -> Self {
        let chart = &charts[number];
        let legend = Legend::of(&chart.marks, GAP);
        let above = number.checked_sub(1).map(|above| Legend::of(&charts[above].marks, GAP));
        let spans = x_span(charts, chart).and_then(|x| Some((x, y_span(chart, &x)?)));
        // The values above bars take from the axis what they need, and that is not yet known.
        let length = if is_bars(chart) { PLOT_HEIGHT - bars::LONGEST_VALUE } else { PLOT_HEIGHT };
        Self {
            chart,
            title: titled(&chart.title, number, charts.len()),
            // What the panel above has said is not said again.
            legend: (above.as_ref() != Some(&legend)).then_some(legend),
            spans,
            y_ticks: spans.map(|(_, y)| y_ticks(&y, length)).unwrap_or_default(),
            has_x_label: charts.get(number + 1).is_none_or(|below| !share_x(chart, below)),
            notes: chart.notes.iter().flat_map(|note| wrapped(note, WIDTH - 2.0 * GAP)).collect(),
        }
    }

    /// Draws it below `top` and says where it ends.
    fn draw(&self, canvas: &mut Canvas, mut top: f64, left: f64, looks: &Looks<'_>) -> f64 {
        canvas.open("g", &[], &[("class", "panel")]);
        for line in &self.title {
            let at = (GAP, top + LETTERS);
            canvas.words(&Words::new(at, line).looking(&[("font-weight", "bold")]).within(WIDTH - 2.0 * GAP));
            top += LEADING;
        }
        if let Some(legend) = &self.legend {
            legend.draw(canvas, top, looks);
            top += legend.height();
        }
        // The label of the highest tick reaches above the frame.
        top += 2.0 * GAP;
        let frame = Frame { left, top, right: WIDTH - RIGHT, bottom: top + PLOT_HEIGHT };
        let foot = match self.spans {
            Some(spans) => self.draw_data(canvas, frame, spans, looks),
            None => {
                draw_frame(canvas, &frame);
                draw_no_data(canvas, &frame, &self.chart.notes);
                GAP
            }
        };
        let middle = f64::midpoint(frame.top, frame.bottom);
        // A long one reaches down beside the labels of the other axis.
        let shift = if width(&self.chart.y.label) > PLOT_HEIGHT { 2.0 * GAP } else { 0.0 };
        let label =
            Words::new((GAP + LETTERS - 2.0, middle + shift), &self.chart.y.label).centred().turned(-90.0);
        canvas.words(&label.within(PLOT_HEIGHT + 2.0 * shift));
        let mut end = frame.bottom + foot;
        if self.has_x_label {
            // Centred below the frame; a long one below the page, or it would be cut off.
            let (label, room) = (&self.chart.x.label, frame.right - frame.left + 2.0 * RIGHT);
            let middle =
                if width(label) > room { WIDTH / 2.0 } else { f64::midpoint(frame.left, frame.right) };
            canvas.words(&Words::new((middle, end + LETTERS), label).centred().within(WIDTH - 2.0 * GAP));
            end += LEADING;
        }
        for note in &self.notes {
            let looks = [("class", "note"), ("fill", NOTE)];
            canvas.words(&Words::new((GAP, end + LETTERS), note).looking(&looks).within(WIDTH - 2.0 * GAP));
            end += LEADING;
        }
        canvas.close("g");
        end + 2.0 * GAP
    }

    /// Draws axes and data, and says how much room the axis below needs.
    fn draw_data(&self, canvas: &mut Canvas, frame: Frame, (x, y): (Span, Span), looks: &Looks<'_>) -> f64 {
        let x = Ruler { span: x, low: frame.left, high: frame.right };
        let y = Ruler { span: y, low: frame.bottom, high: frame.top };
        let plot = Plot { frame, x, y };
        let draw_axes = |canvas: &mut Canvas| {
            plot.draw_y_axis(canvas, &self.y_ticks);
            plot.draw_x_axis(canvas);
            draw_frame(canvas, &frame);
            TICK + LEADING
        };
        match &self.chart.marks {
            Marks::Lines(lines) => {
                let foot = draw_axes(canvas);
                lines::draw_lines(canvas, &plot, lines, looks);
                foot
            }
            Marks::Points(lines) => {
                let foot = draw_axes(canvas);
                lines::draw_points(canvas, &plot, lines, looks);
                foot
            }
            Marks::Bars { groups, series } => {
                let layout = Layout::new(groups, series, &frame);
                let (below, above) = layout.room(groups.len(), series, &y.span, PLOT_HEIGHT);
                let plot = Plot { y: Ruler { low: y.low - below, high: y.high + above, ..y }, ..plot };
                plot.draw_y_axis(canvas, &self.y_ticks);
                draw_frame(canvas, &frame);
                bars::draw(canvas, &plot, &layout, groups.len(), series, looks);
                layout.draw_names(canvas, &frame, groups);
                layout.foot
            }
        }
    }
}

impl Chart {
    /// A chart of nothing.
    fn nothing() -> Self {
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

const fn is_bars(chart: &Chart) -> bool {
    matches!(chart.marks, Marks::Bars { .. })
}

/// Whether two charts have the same axis from left to right: then it has the same ends, and one label for both.
fn share_x(one: &Chart, other: &Chart) -> bool {
    let is_same_kind = match (&one.marks, &other.marks) {
        (Marks::Bars { groups, .. }, Marks::Bars { groups: others, .. }) => groups == others,
        _ => is_bars(one) == is_bars(other),
    };
    one.x == other.x && is_same_kind
}

/// The title, with the letter by which a caption names a panel if there are several.
fn titled(title: &str, number: usize, count: usize) -> Vec<String> {
    let letter =
        u8::try_from(number).ok().and_then(|number| b'a'.checked_add(number)).filter(u8::is_ascii_lowercase);
    let title = match letter {
        Some(letter) if count > 1 => format!("({}) {title}", char::from(letter)),
        _ => title.to_owned(),
    };
    wrapped(&title, WIDTH - 2.0 * GAP)
}

/// The axis from left to right of a chart, and of all that share it.
fn x_span(charts: &[Chart], chart: &Chart) -> Option<Span> {
    if let Marks::Bars { groups, .. } = &chart.marks {
        // Bars have groups there and no values: any axis will do.
        return Span::new(Scale::Linear, 0.0, groups.len() as f64);
    }
    let sharing = || charts.iter().filter(|other| share_x(chart, other));
    let values = sharing().flat_map(|chart| match &chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => {
            let not_reached = lines.iter().flat_map(lines::not_reached);
            lines.iter().flat_map(lines::values).map(|(x, _)| x).chain(not_reached).collect::<Vec<_>>()
        }
        Marks::Bars { .. } => Vec::new(),
    });
    // Lines may end at the frame; a point there would be half outside.
    let is_rounded = sharing().any(|chart| matches!(chart.marks, Marks::Points(_)));
    Span::of(&chart.x, values, Wishes { zero: Zero::IfNear, is_rounded })
}

/// The axis upwards of a chart.
fn y_span(chart: &Chart, x: &Span) -> Option<Span> {
    let scale = chart.y.scale;
    match &chart.marks {
        Marks::Lines(lines) | Marks::Points(lines) => {
            let is_seen = |value: f64| x.share(value).is_some_and(|share| (0.0..=1.0).contains(&share));
            let values =
                lines.iter().flat_map(lines::values).filter(|(x, _)| is_seen(*x)).flat_map(|(_, y)| y);
            let zero = if matches!(chart.marks, Marks::Lines(_)) { Zero::Always } else { Zero::IfNear };
            Span::of(&chart.y, values, Wishes { zero, is_rounded: true })
        }
        Marks::Bars { groups, series } => {
            // Above even bars there is room for their values, which serves as well as a round number.
            let is_rounded = scale == Scale::Log || bars::are_many(groups.len(), series);
            let values = bars::values(groups.len(), series, scale);
            Span::of(&chart.y, values, Wishes { zero: Zero::Always, is_rounded })
        }
    }
}
