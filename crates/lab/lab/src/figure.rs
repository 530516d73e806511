//! Builds the charts of a scenario's figures from run summaries.

use crate::by_size;
use crate::expression::{Expression, ExpressionError};
use crate::pooled::{Reading, readings};
use crate::reduce::{cumulative_shares, format_percent};
use crate::samples::{Pool, Quantity};
use crate::scenario::{FigureKind, FigureSpec, Label, Scalars};
use crate::stats::Estimate;
use crate::summary::RunSummary;
use poseidon_figures::{Axis, BarSeries, Chart, LineSeries, Marks, Scale};
use std::collections::{BTreeMap, BTreeSet};

/// The error for a figure whose metric is not a valid expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("figure {title:?}: {source}")]
pub struct FigureError {
    /// The figure title.
    pub title: String,
    /// The syntax error.
    pub source: ExpressionError,
}

/// Returns a figure's charts from top to bottom. Each chart has a note that states the number of seeds.
pub fn charts(spec: &FigureSpec, runs: &[RunSummary]) -> Result<Vec<Chart>, FigureError> {
    let mut charts = panels(spec, runs)?;
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
    let has_panels = charts.len() > 1;
    for (panel, chart) in charts.iter_mut().enumerate() {
        // Each panel title includes its metric.
        if let Some(metric) = spec.metric.0.get(panel).filter(|_| has_panels) {
            chart.title = format!("{}: {metric}", chart.title);
        }
        let is_by_size = spec.metric.0.get(panel).is_some_and(|metric| metric.ends_with("_by_size"));
        let caption = match (spec.kind, seeds.len()) {
            (_, 0 | 1) => "one seed".to_owned(),
            (FigureKind::Series, count) if !is_by_size => format!("the first of {count} seeds"),
            (FigureKind::Finish | FigureKind::Phase, count) => format!("the first of {count} seeds"),
            (_, count) => format!("{count} seeds"),
        };
        let caption = match averaged_sweeps(spec, runs).as_slice() {
            [] => caption,
            sweeps => format!("{caption}, mean over {}", sweeps.join(" and ")),
        };
        if runs.is_empty() {
            chart.notes.push("no runs".into());
            continue;
        }
        if chart.notes.is_empty() && chart.is_empty() {
            let metric = spec.metric.0.get(panel).map_or("the metric", String::as_str);
            chart.notes.push(missing_data_reason(spec, metric, runs));
        }
        chart.notes.insert(0, caption);
    }
    Ok(charts)
}

/// Returns the sweeps with several values that a chart of a metric neither shows nor selects.
fn averaged_sweeps<'a>(spec: &FigureSpec, runs: &'a [RunSummary]) -> Vec<&'a str> {
    if !matches!(spec.kind, FigureKind::Bars | FigureKind::Lines) {
        return Vec::new();
    }
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for label in
        runs.iter().filter(|run| includes(&run.labels, &spec.cells)).flat_map(|run| run.labels.iter())
    {
        if spec.along.as_ref() != Some(&label.sweep) && spec.by.as_ref() != Some(&label.sweep) {
            values.entry(&label.sweep).or_default().insert(&label.value);
        }
    }
    values.into_iter().filter(|(_, values)| values.len() > 1).map(|(sweep, _)| sweep).collect()
}

/// Returns why a chart has no value, although there are runs.
fn missing_data_reason(spec: &FigureSpec, metric: &str, runs: &[RunSummary]) -> String {
    let included = || runs.iter().filter(|run| includes(&run.labels, &spec.cells));
    let needs_first_seed = matches!(spec.kind, FigureKind::Series | FigureKind::Finish | FigureKind::Phase);
    if included().next().is_none() {
        "no run belongs to the cells that the figure selects".to_owned()
    } else if needs_first_seed && included().all(|run| run.seed != 1) {
        "the figure shows seed 1, which was not run".to_owned()
    } else {
        format!("no run has {metric}")
    }
}

fn panels(spec: &FigureSpec, runs: &[RunSummary]) -> Result<Vec<Chart>, FigureError> {
    match spec.kind {
        // Several metrics share one chart if no sweep selects the series.
        FigureKind::Bars if spec.by.is_none() && spec.metric.0.len() > 1 => {
            Ok(vec![bars_of_metrics(spec, runs)?])
        }
        FigureKind::Bars => spec.metric.0.iter().map(|metric| bars(spec, metric, runs)).collect(),
        FigureKind::Lines => spec.metric.0.iter().map(|metric| lines(spec, metric, runs)).collect(),
        FigureKind::Series => Ok(spec.metric.0.iter().map(|name| time_series(spec, name, runs)).collect()),
        FigureKind::Distribution => {
            Ok(spec.metric.0.iter().map(|name| distribution(spec, name, runs)).collect())
        }
        FigureKind::Finish => Ok(spec.metric.0.iter().map(|name| finish_times(spec, name, runs)).collect()),
        FigureKind::Phase => Ok(spec.metric.0.iter().map(|name| phase_plot(spec, name, runs)).collect()),
    }
}

fn new_chart(spec: &FigureSpec, x: Scale, y: Scale, marks: Marks) -> Chart {
    let axis = |label: &str, scale| Axis { label: label.to_owned(), scale, from: None, to: None };
    let x = Axis { from: spec.from_x, to: spec.to_x, ..axis(&spec.x, x) };
    Chart { title: spec.title.clone(), x, y: axis(&spec.y, y), marks, notes: Vec::new() }
}

fn linear_or_log(log: bool) -> Scale {
    if log { Scale::Log } else { Scale::Linear }
}

/// Returns whether a figure includes a cell.
fn includes(labels: &[Label], cells: &BTreeMap<String, Scalars>) -> bool {
    cells.iter().all(|(sweep, value)| {
        let mut sweep_labels = labels.iter().filter(|label| label.sweep == *sweep).peekable();
        sweep_labels.peek().is_none() || sweep_labels.any(|label| value.0.contains(&label.value))
    })
}

/// Returns a cell's value for a sweep, or an empty string if the cell has none.
fn value_of<'a>(labels: &'a [Label], sweep: Option<&String>) -> &'a str {
    let label = sweep.and_then(|sweep| labels.iter().find(|label| label.sweep == *sweep));
    label.map_or("", |label| label.value.as_str())
}

/// Returns the values of a sweep, or the phase names, in run order.
fn values_in_order(runs: &[RunSummary], sweep: Option<&String>) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for run in runs {
        let cell_values =
            run.labels.iter().filter(|label| Some(&label.sweep) == sweep).map(|label| label.value.clone());
        let phases = run.summary.phases.iter().filter(|_| sweep.is_some_and(|sweep| sweep == "phase"));
        for value in cell_values.chain(phases.map(|phase| phase.name.clone())) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    if values.is_empty() { vec![String::new()] } else { values }
}

/// A metric's estimates, keyed by x-axis value and series.
struct MetricTable {
    values: BTreeMap<(String, String), Estimate>,
    /// The reasons why values are missing.
    reasons: BTreeMap<(String, String), String>,
}

impl MetricTable {
    /// Evaluates a metric. Cells that differ only in sweeps that the figure does not show are averaged.
    fn new(metric: &str, spec: &FigureSpec, runs: &[RunSummary]) -> Result<Self, FigureError> {
        let expression =
            Expression::parse(metric).map_err(|source| FigureError { title: spec.title.clone(), source })?;
        let mut by_key: BTreeMap<(String, String), Vec<Reading>> = BTreeMap::new();
        for (labels, reading) in readings(&expression, runs) {
            if includes(&labels, &spec.cells) {
                let key = (value_of(&labels, spec.along.as_ref()), value_of(&labels, spec.by.as_ref()));
                by_key.entry((key.0.to_owned(), key.1.to_owned())).or_default().push(reading);
            }
        }
        let mut table = Self { values: BTreeMap::new(), reasons: BTreeMap::new() };
        for (key, readings) in by_key {
            let estimate = match readings.as_slice() {
                [reading] => reading.estimate(),
                readings => {
                    let values: Option<Vec<f64>> = readings
                        .iter()
                        .flat_map(Reading::values_to_judge)
                        .map(|bounds| bounds.value())
                        .collect();
                    values.as_deref().and_then(Estimate::from_values)
                }
            };
            match estimate {
                Some(estimate) => drop(table.values.insert(key, estimate)),
                None => {
                    let reason = readings.iter().find_map(Reading::reason);
                    drop(table.reasons.insert(key, reason.unwrap_or_else(|| "not measured".into())));
                }
            }
        }
        Ok(table)
    }

    fn keys(&self) -> impl Iterator<Item = &(String, String)> {
        self.values.keys().chain(self.reasons.keys())
    }

    /// Returns the value to draw: infinity if it was not reached, NaN if it is missing.
    fn value(&self, key: &(String, String)) -> f64 {
        let is_unreached = self.reasons.get(key).is_some_and(|reason| reason.starts_with("not reached"));
        match self.values.get(key) {
            Some(estimate) => estimate.mean,
            None if is_unreached => f64::INFINITY,
            None => f64::NAN,
        }
    }

    fn half_width(&self, key: &(String, String)) -> f64 {
        self.values.get(key).map_or(f64::NAN, half_width)
    }

    /// Returns one note per missing value.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for ((along, by), reason) in &self.reasons {
            let key = [by.as_str(), along.as_str()].into_iter().filter(|value| !value.is_empty());
            let key: Vec<&str> = key.collect();
            notes.push(if key.is_empty() { reason.clone() } else { format!("{}: {reason}", key.join(", ")) });
        }
        // More notes would take too much space.
        if notes.len() > MAX_NOTES {
            let omitted = notes.len() - MAX_NOTES;
            notes.truncate(MAX_NOTES);
            notes.push(format!("and {omitted} more without a value, see the table"));
        }
        notes
    }
}

/// The maximum number of missing values for which a chart has notes.
const MAX_NOTES: usize = 4;

/// Builds a bar chart of one metric.
fn bars(spec: &FigureSpec, metric: &str, runs: &[RunSummary]) -> Result<Chart, FigureError> {
    let table = MetricTable::new(metric, spec, runs)?;
    let groups: Vec<String> = values_in_order(runs, spec.along.as_ref())
        .into_iter()
        .filter(|group| table.keys().any(|(along, _)| along == group))
        .collect();
    let bar_series = |name: &String| {
        let key = |group: &String| (group.clone(), name.clone());
        BarSeries {
            name: if name.is_empty() { metric.to_owned() } else { name.clone() },
            values: groups.iter().map(|group| table.value(&key(group))).collect(),
            half_widths: groups.iter().map(|group| table.half_width(&key(group))).collect(),
        }
    };
    let names = values_in_order(runs, spec.by.as_ref());
    let mut series: Vec<BarSeries> =
        names.iter().filter(|name| table.keys().any(|(_, by)| by == *name)).map(bar_series).collect();
    if let Some(reference) = &spec.reference {
        let references = MetricTable::new(reference, spec, runs)?;
        let reference_value = |group: &String| {
            references
                .values
                .iter()
                .find(|((along, _), _)| along == group)
                .map_or(f64::NAN, |(_, estimate)| estimate.mean)
        };
        series.push(BarSeries {
            name: reference_name(spec),
            values: groups.iter().map(reference_value).collect(),
            half_widths: Vec::new(),
        });
    }
    let marks = Marks::Bars { groups, series };
    Ok(Chart { notes: table.notes(), ..new_chart(spec, Scale::Linear, linear_or_log(spec.log_y), marks) })
}

/// Builds a bar chart of several metrics.
fn bars_of_metrics(spec: &FigureSpec, runs: &[RunSummary]) -> Result<Chart, FigureError> {
    let (mut groups, mut series, mut notes) = (Vec::<String>::new(), Vec::new(), Vec::new());
    for metric in &spec.metric.0 {
        let chart = bars(spec, metric, runs)?;
        notes.extend(chart.notes.into_iter().map(|note| format!("{metric}: {note}")));
        if let Marks::Bars { groups: metric_groups, series: bars } = chart.marks {
            // A cell gets no bar for a metric that it lacks.
            for group in &metric_groups {
                if !groups.contains(group) {
                    groups.push(group.clone());
                }
            }
            series.extend(bars.into_iter().map(|bars| (metric_groups.clone(), bars)));
        }
    }
    let expand = |(metric_groups, bars): (Vec<String>, BarSeries)| {
        let index_of = |group: &String| metric_groups.iter().position(|other| other == group);
        let pick = |values: &[f64]| {
            let value = |group: &String| {
                index_of(group).and_then(|index| values.get(index)).copied().unwrap_or(f64::NAN)
            };
            groups.iter().map(value).collect()
        };
        BarSeries { values: pick(&bars.values), half_widths: pick(&bars.half_widths), name: bars.name }
    };
    let marks = Marks::Bars { series: series.into_iter().map(expand).collect(), groups: groups.clone() };
    Ok(Chart { notes, ..new_chart(spec, Scale::Linear, linear_or_log(spec.log_y), marks) })
}

/// Builds a line chart of one metric along a sweep.
fn lines(spec: &FigureSpec, metric: &str, runs: &[RunSummary]) -> Result<Chart, FigureError> {
    let table = MetricTable::new(metric, spec, runs)?;
    let line = |name: &String, table: &MetricTable, is_reference: bool| {
        let mut points: Vec<(f64, f64, f64)> = table
            .keys()
            .filter(|(_, by)| by == name)
            .filter_map(|key| Some((leading_number(&key.0)?, table.value(key), table.half_width(key))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        LineSeries {
            name: if name.is_empty() { metric.to_owned() } else { name.clone() },
            points: points.iter().map(|(x, y, _)| (*x, *y)).collect(),
            half_widths: points.iter().map(|(.., half)| *half).collect(),
            is_reference,
        }
    };
    let names = values_in_order(runs, spec.by.as_ref());
    let mut lines: Vec<LineSeries> = names
        .iter()
        .filter(|name| table.keys().any(|(_, by)| by == *name))
        .map(|name| line(name, &table, false))
        .collect();
    if let Some(reference) = &spec.reference {
        let references = MetricTable::new(reference, spec, runs)?;
        if let Some((_, by)) = references.keys().next() {
            let by = by.clone();
            let reference = line(&by, &references, true);
            lines.push(LineSeries { name: reference_name(spec), half_widths: Vec::new(), ..reference });
        }
    }
    let marks = Marks::Lines(lines);
    Ok(Chart {
        notes: table.notes(),
        ..new_chart(spec, linear_or_log(spec.log_x), linear_or_log(spec.log_y), marks)
    })
}

/// Returns a line without confidence intervals.
fn line_without_intervals(name: String, points: Vec<(f64, f64)>) -> LineSeries {
    LineSeries { name, points, half_widths: Vec::new(), is_reference: false }
}

/// Parses the number at the start of a label: `"40 us"` is 40.
fn leading_number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    label[..end].parse().ok()
}

/// Builds a line chart of time series.
fn time_series(spec: &FigureSpec, name: &str, runs: &[RunSummary]) -> Chart {
    if let Some(metric) = by_size::parse(name) {
        return slowdown_by_size(spec, &metric, runs);
    }
    let mut lines = Vec::new();
    for run in runs.iter().filter(|run| run.seed == 1 && includes(&run.labels, &spec.cells)) {
        let by = value_of(&run.labels, spec.by.as_ref());
        let is_visible = |(x, _): &&(f64, f64)| {
            spec.from_x.is_none_or(|from| *x >= from) && spec.to_x.is_none_or(|to| *x <= to)
        };
        let mut add_line = |name: String, points: &Vec<(f64, f64)>| {
            let points = points.iter().filter(is_visible).copied().collect();
            lines.push(line_without_intervals(name, points));
        };
        match name.split_once("[*]") {
            Some((group, metric)) => {
                for flow in 0.. {
                    let Some(points) = run.summary.series.get(&format!("{group}[{flow}]{metric}")) else {
                        break;
                    };
                    add_line(format!("{by} flow {}", flow + 1).trim().to_owned(), points);
                }
            }
            None => {
                for name in name.split(',').map(str::trim) {
                    if let Some(points) = run.summary.series.get(name) {
                        let group = name.split_once('.').map_or(name, |(group, _)| group);
                        add_line(if by.is_empty() { group.to_owned() } else { by.to_owned() }, points);
                    }
                }
            }
        }
    }
    lines.extend(reference_by_phase(spec, runs));
    let mut chart =
        new_chart(spec, linear_or_log(spec.log_x), linear_or_log(spec.log_y), Marks::Lines(lines));
    choose_time_unit(&mut chart);
    chart
}

/// Builds a line chart of slowdown by message size, using the messages of all seeds.
fn slowdown_by_size(spec: &FigureSpec, metric: &by_size::CurveName<'_>, runs: &[RunSummary]) -> Chart {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for name in values_in_order(runs, spec.by.as_ref()) {
        let included = runs.iter().filter(|run| {
            includes(&run.labels, &spec.cells) && value_of(&run.labels, spec.by.as_ref()) == name
        });
        let curve = by_size::compute_curve(metric, included);
        let name = if name.is_empty() { metric.owner.to_owned() } else { name };
        notes.extend(curve.notes.into_iter().map(|note| format!("{name}: {note}")));
        if !curve.points.is_empty() {
            lines.push(line_without_intervals(name, curve.points));
        }
    }
    Chart {
        notes,
        ..new_chart(spec, linear_or_log(spec.log_x), linear_or_log(spec.log_y), Marks::Lines(lines))
    }
}

/// Returns a reference line's name in the legend: a common name if there is one, otherwise the expression.
fn reference_name(spec: &FigureSpec) -> String {
    let reference = spec.reference.as_deref().unwrap_or_default();
    if reference.ends_with(".fair_share_gbps") { "max-min fair".into() } else { reference.to_owned() }
}

/// Returns the reference line as a step function over phases, using the first cell in the figure.
fn reference_by_phase(spec: &FigureSpec, runs: &[RunSummary]) -> Option<LineSeries> {
    let expression = Expression::parse(spec.reference.as_ref()?).ok()?;
    let run = runs.iter().find(|run| run.seed == 1 && includes(&run.labels, &spec.cells))?;
    let mut points = Vec::new();
    for phase in &run.summary.phases {
        let value = expression.value(&|name| phase.values.get(name).copied()).unwrap_or(f64::NAN);
        points.extend([(phase.begins_us, value), (phase.ends_us, value)]);
    }
    Some(LineSeries { is_reference: true, ..line_without_intervals(reference_name(spec), points) })
}

/// Converts a long time axis to milliseconds or seconds.
fn choose_time_unit(chart: &mut Chart) {
    let Marks::Lines(lines) = &mut chart.marks else { return };
    let longest = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(0.0, f64::max);
    let (unit, label) = match longest {
        _ if chart.x.label != "us" => return,
        ..=5e3 => return,
        ..=5e6 => (1e3, "ms"),
        _ => (1e6, "s"),
    };
    chart.x.label = label.into();
    (chart.x.from, chart.x.to) = (chart.x.from.map(|x| x / unit), chart.x.to.map(|x| x / unit));
    lines.iter_mut().flat_map(|line| &mut line.points).for_each(|(x, _)| *x /= unit);
}

/// Returns the half-width of the confidence interval if there are at least three seeds. With only two seeds, the
/// half-width would be thirteen standard errors.
fn half_width(estimate: &Estimate) -> f64 {
    estimate.half.filter(|_| estimate.n > 2).unwrap_or(f64::NAN)
}

/// Builds a chart of distributions. Message latencies are pooled over all seeds; other values are averaged over seeds.
fn distribution(spec: &FigureSpec, name: &str, runs: &[RunSummary]) -> Chart {
    let runs_of = |by: &str| {
        runs.iter()
            .filter(|run| includes(&run.labels, &spec.cells) && value_of(&run.labels, spec.by.as_ref()) == by)
            .collect::<Vec<_>>()
    };
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for by in values_in_order(runs, spec.by.as_ref()) {
        let included = runs_of(&by);
        let pooled =
            name.strip_suffix(".latency_us").and_then(|traffic| pooled_distribution(traffic, &included));
        let points = match pooled {
            Some((points, unfinished)) => {
                if unfinished > 0.0 {
                    notes.push(
                        format!("{by}: {} unfinished", format_percent(unfinished))
                            .trim_start_matches(": ")
                            .into(),
                    );
                }
                points
            }
            None => mean_distribution(name, &included),
        };
        if !points.is_empty() {
            lines.push(line_without_intervals(by, points));
        }
    }
    Chart { notes, ..new_chart(spec, linear_or_log(spec.log_x), Scale::Tail, Marks::Lines(lines)) }
}

/// Returns the latency distribution of all messages in a traffic group, and the share of unfinished messages.
fn pooled_distribution(traffic: &str, runs: &[&RunSummary]) -> Option<(Vec<(f64, f64)>, f64)> {
    let mut times = Vec::new();
    for run in runs {
        for phase in &run.summary.phases {
            times.push((run.messages.selection(&phase.name, traffic)?.times(Quantity::Latency), 1));
        }
    }
    let pool = Pool::new(times);
    let points = cumulative_shares(pool.len(), |share| pool.percentile(share)?.value());
    Some((points, pool.unfinished_share()))
}

/// Averages a distribution over runs.
fn mean_distribution(name: &str, runs: &[&RunSummary]) -> Vec<(f64, f64)> {
    let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (value, share) in runs.iter().filter_map(|run| run.summary.distributions.get(name)).flatten() {
        #[expect(clippy::cast_possible_truncation, reason = "shares are at most one")]
        let key = (share * 1e6).round() as u64;
        shares.entry(key).or_default().push(*value);
    }
    let point =
        |(share, values): (&u64, &Vec<f64>)| Some((Estimate::from_values(values)?.mean, *share as f64 / 1e6));
    shares.iter().filter_map(point).collect()
}

/// Builds a chart of message finish times against start times.
fn finish_times(spec: &FigureSpec, name: &str, runs: &[RunSummary]) -> Chart {
    let included = runs.iter().filter(|run| run.seed == 1 && includes(&run.labels, &spec.cells));
    let line = |run: &RunSummary| {
        let points = run.summary.finishes.get(name)?.clone();
        let name = value_of(&run.labels, spec.by.as_ref()).to_owned();
        Some(line_without_intervals(name, points))
    };
    new_chart(spec, Scale::Linear, Scale::Linear, Marks::Points(included.filter_map(line).collect()))
}

/// Builds a phase plot of a model's trajectories.
fn phase_plot(spec: &FigureSpec, name: &str, runs: &[RunSummary]) -> Chart {
    let mut paths = Vec::new();
    for run in runs.iter().filter(|run| run.seed == 1) {
        for path in 0.. {
            let Some(points) = run.summary.series.get(&format!("{name}[{path}].path")) else { break };
            paths.push(line_without_intervals(name.to_owned(), points.clone()));
        }
    }
    new_chart(spec, Scale::Linear, Scale::Linear, Marks::Lines(paths))
}
