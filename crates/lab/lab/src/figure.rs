//! Figures from summaries: what a scenario asks to be drawn, as charts.

use crate::by_size;
use crate::draw::{Axis, Bars, Chart, Line, Marks, Scale};
use crate::expression::Expression;
use crate::judge::Ran;
use crate::pooled::{Reading, readings};
use crate::reduce::{distribution as shares_of, percent};
use crate::samples::{Pool, Quantity};
use crate::scenario::{FigureKind, FigureSpec, Label, Scalars};
use crate::stats::Estimate;
use std::collections::{BTreeMap, BTreeSet};

/// The charts of a figure, one above the other, each with what must be known to read it below.
pub fn charts(spec: &FigureSpec, runs: &[Ran]) -> Result<Vec<Chart>, String> {
    let mut charts = panels(spec, runs)?;
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
    let has_panels = charts.len() > 1;
    for (number, chart) in charts.iter_mut().enumerate() {
        // Panels are told apart by what they show.
        if let Some(metric) = spec.metric.0.get(number).filter(|_| has_panels) {
            chart.title = format!("{}: {metric}", chart.title);
        }
        let is_by_size = spec.metric.0.get(number).is_some_and(|metric| metric.ends_with("_by_size"));
        let caption = match (spec.kind, seeds.len()) {
            (_, 0 | 1) => "one seed".to_owned(),
            (FigureKind::Series, count) if !is_by_size => format!("the first of {count} seeds"),
            (FigureKind::Finish | FigureKind::Phase, count) => format!("the first of {count} seeds"),
            (_, count) => format!("{count} seeds"),
        };
        if !runs.is_empty() {
            chart.notes.insert(0, caption);
        }
        if chart.notes.is_empty() {
            chart.notes.push("no runs".into());
        }
    }
    Ok(charts)
}

fn panels(spec: &FigureSpec, runs: &[Ran]) -> Result<Vec<Chart>, String> {
    match spec.kind {
        // Several metrics without anything to tell cells apart stand beside each other.
        FigureKind::Bars if spec.by.is_none() && spec.metric.0.len() > 1 => {
            Ok(vec![side_by_side(spec, runs)?])
        }
        FigureKind::Bars => spec.metric.0.iter().map(|metric| bars(spec, metric, runs)).collect(),
        FigureKind::Lines => spec.metric.0.iter().map(|metric| lines(spec, metric, runs)).collect(),
        FigureKind::Series => Ok(spec.metric.0.iter().map(|name| series(spec, name, runs)).collect()),
        FigureKind::Distribution => {
            Ok(spec.metric.0.iter().map(|name| distribution(spec, name, runs)).collect())
        }
        FigureKind::Finish => Ok(spec.metric.0.iter().map(|name| finish(spec, name, runs)).collect()),
        FigureKind::Phase => Ok(spec.metric.0.iter().map(|name| phase(spec, name, runs)).collect()),
    }
}

fn chart(spec: &FigureSpec, x: Scale, y: Scale, marks: Marks) -> Chart {
    let axis = |label: &str, scale| Axis { label: label.to_owned(), scale, from: None, to: None };
    let x = Axis { from: spec.from_x, to: spec.to_x, ..axis(&spec.x, x) };
    Chart { title: spec.title.clone(), x, y: axis(&spec.y, y), marks, notes: Vec::new() }
}

fn scale(log: bool) -> Scale {
    if log { Scale::Log } else { Scale::Linear }
}

fn is_meant(labels: &[Label], cells: &BTreeMap<String, Scalars>) -> bool {
    cells.iter().all(|(sweep, value)| {
        let mut of_sweep = labels.iter().filter(|label| label.sweep == *sweep).peekable();
        of_sweep.peek().is_none() || of_sweep.any(|label| value.0.contains(&label.value))
    })
}

fn label<'a>(labels: &'a [Label], sweep: Option<&String>) -> &'a str {
    let found = sweep.and_then(|sweep| labels.iter().find(|label| label.sweep == *sweep));
    found.map_or("", |label| label.value.as_str())
}

/// The values of an axis in the order in which cells were run, and with phases as they come.
fn order_of(runs: &[Ran], sweep: Option<&String>) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for run in runs {
        let own =
            run.labels.iter().filter(|label| Some(&label.sweep) == sweep).map(|label| label.value.clone());
        let phases = run.summary.phases.iter().filter(|_| sweep.is_some_and(|sweep| sweep == "phase"));
        for value in own.chain(phases.map(|phase| phase.name.clone())) {
            if !order.contains(&value) {
                order.push(value);
            }
        }
    }
    if order.is_empty() { vec![String::new()] } else { order }
}

/// What is known of a metric, by what lies along the axis and by series.
struct Table {
    values: BTreeMap<(String, String), Estimate>,
    /// Where it is not a number: why.
    reasons: BTreeMap<(String, String), String>,
}

impl Table {
    /// Reads a metric. Cells that differ in something else than the axis and the series are taken together.
    fn of(metric: &str, spec: &FigureSpec, runs: &[Ran]) -> Result<Self, String> {
        let expression =
            Expression::parse(metric).map_err(|why| format!("figure {:?}: {why}", spec.title))?;
        let mut all: BTreeMap<(String, String), Vec<Reading>> = BTreeMap::new();
        for (labels, reading) in readings(&expression, runs) {
            if is_meant(&labels, &spec.cells) {
                let key = (label(&labels, spec.along.as_ref()), label(&labels, spec.by.as_ref()));
                all.entry((key.0.to_owned(), key.1.to_owned())).or_default().push(reading);
            }
        }
        let mut table = Self { values: BTreeMap::new(), reasons: BTreeMap::new() };
        for (key, readings) in all {
            let estimate = match readings.as_slice() {
                [one] => one.estimate(),
                many => {
                    let values: Option<Vec<f64>> =
                        many.iter().flat_map(Reading::judged).map(|bounds| bounds.value()).collect();
                    values.as_deref().and_then(Estimate::of)
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

    /// A value to draw: infinite where it was not reached.
    fn value(&self, key: &(String, String)) -> f64 {
        let not_reached = || self.reasons.get(key).filter(|reason| reason.starts_with("not reached"));
        match self.values.get(key) {
            Some(estimate) => estimate.mean,
            None if not_reached().is_some() => f64::INFINITY,
            None => f64::NAN,
        }
    }

    fn half(&self, key: &(String, String)) -> f64 {
        self.values.get(key).map_or(f64::NAN, half)
    }

    /// Why values are missing, each reason once with the series it is about.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for ((along, by), reason) in &self.reasons {
            let of = [by.as_str(), along.as_str()].into_iter().filter(|word| !word.is_empty());
            let of: Vec<&str> = of.collect();
            notes.push(if of.is_empty() { reason.clone() } else { format!("{}: {reason}", of.join(", ")) });
        }
        // More than a few would take the room of the figure.
        if notes.len() > MOST_NOTES {
            let more = notes.len() - MOST_NOTES;
            notes.truncate(MOST_NOTES);
            notes.push(format!("and {more} more without a value, see the table"));
        }
        notes
    }
}

/// So many missing values are explained below a chart.
const MOST_NOTES: usize = 4;

fn bars(spec: &FigureSpec, metric: &str, runs: &[Ran]) -> Result<Chart, String> {
    let table = Table::of(metric, spec, runs)?;
    let groups: Vec<String> = order_of(runs, spec.along.as_ref())
        .into_iter()
        .filter(|group| table.keys().any(|(along, _)| along == group))
        .collect();
    let of = |name: &String| {
        let key = |group: &String| (group.clone(), name.clone());
        Bars {
            name: if name.is_empty() { metric.to_owned() } else { name.clone() },
            values: groups.iter().map(|group| table.value(&key(group))).collect(),
            half: groups.iter().map(|group| table.half(&key(group))).collect(),
        }
    };
    let names = order_of(runs, spec.by.as_ref());
    let mut series: Vec<Bars> =
        names.iter().filter(|name| table.keys().any(|(_, by)| by == *name)).map(of).collect();
    if let Some(reference) = &spec.reference {
        let should = Table::of(reference, spec, runs)?;
        let first = |group: &String| {
            should.values.iter().find(|((along, _), _)| along == group).map_or(f64::NAN, |(_, e)| e.mean)
        };
        series.push(Bars {
            name: reference_name(spec),
            values: groups.iter().map(first).collect(),
            half: Vec::new(),
        });
    }
    let marks = Marks::Bars { groups, series };
    Ok(Chart { notes: table.notes(), ..chart(spec, Scale::Linear, scale(spec.log_y), marks) })
}

/// Bars of several metrics in one chart.
fn side_by_side(spec: &FigureSpec, runs: &[Ran]) -> Result<Chart, String> {
    let (mut groups, mut series, mut notes) = (Vec::<String>::new(), Vec::new(), Vec::new());
    for metric in &spec.metric.0 {
        let chart = bars(spec, metric, runs)?;
        notes.extend(chart.notes.into_iter().map(|note| format!("{metric}: {note}")));
        if let Marks::Bars { groups: of_metric, series: bars } = chart.marks {
            // A metric that a cell lacks has no bar there.
            for group in &of_metric {
                if !groups.contains(group) {
                    groups.push(group.clone());
                }
            }
            series.extend(bars.into_iter().map(|bars| (of_metric.clone(), bars)));
        }
    }
    let spread = |(of_metric, bars): (Vec<String>, Bars)| {
        let place = |group: &String| of_metric.iter().position(|other| other == group);
        let pick = |list: &[f64]| {
            let at = |group: &String| place(group).and_then(|at| list.get(at)).copied().unwrap_or(f64::NAN);
            groups.iter().map(at).collect()
        };
        Bars { values: pick(&bars.values), half: pick(&bars.half), name: bars.name }
    };
    let marks = Marks::Bars { series: series.into_iter().map(spread).collect(), groups: groups.clone() };
    Ok(Chart { notes, ..chart(spec, Scale::Linear, scale(spec.log_y), marks) })
}

fn lines(spec: &FigureSpec, metric: &str, runs: &[Ran]) -> Result<Chart, String> {
    let table = Table::of(metric, spec, runs)?;
    let line = |name: &String, table: &Table, is_reference: bool| {
        let mut points: Vec<(f64, f64, f64)> = table
            .keys()
            .filter(|(_, by)| by == name)
            .filter_map(|key| Some((number(&key.0)?, table.value(key), table.half(key))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line {
            name: if name.is_empty() { metric.to_owned() } else { name.clone() },
            points: points.iter().map(|(x, y, _)| (*x, *y)).collect(),
            half: points.iter().map(|(.., half)| *half).collect(),
            is_reference,
        }
    };
    let names = order_of(runs, spec.by.as_ref());
    let mut all: Vec<Line> = names
        .iter()
        .filter(|name| table.keys().any(|(_, by)| by == *name))
        .map(|name| line(name, &table, false))
        .collect();
    if let Some(reference) = &spec.reference {
        let should = Table::of(reference, spec, runs)?;
        if let Some((_, by)) = should.keys().next() {
            let by = by.clone();
            all.push(Line { name: reference_name(spec), half: Vec::new(), ..line(&by, &should, true) });
        }
    }
    let marks = Marks::Lines(all);
    Ok(Chart { notes: table.notes(), ..chart(spec, scale(spec.log_x), scale(spec.log_y), marks) })
}

/// The number that a label begins with: `"40 us"` is 40.
fn number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    label[..end].parse().ok()
}

fn series(spec: &FigureSpec, name: &str, runs: &[Ran]) -> Chart {
    if let Some(metric) = by_size::parse(name) {
        return slowdown_by_size(spec, &metric, runs);
    }
    let mut all = Vec::new();
    for run in runs.iter().filter(|run| run.seed == 1 && is_meant(&run.labels, &spec.cells)) {
        let by = label(&run.labels, spec.by.as_ref());
        let is_drawn = |(x, _): &&(f64, f64)| {
            spec.from_x.is_none_or(|from| *x >= from) && spec.to_x.is_none_or(|to| *x <= to)
        };
        let mut add = |name: String, points: &Vec<(f64, f64)>| {
            let points = points.iter().filter(is_drawn).copied().collect();
            all.push(Line { name, points, half: Vec::new(), is_reference: false });
        };
        match name.split_once("[*]") {
            Some((group, metric)) => {
                for flow in 0.. {
                    let Some(points) = run.summary.series.get(&format!("{group}[{flow}]{metric}")) else {
                        break;
                    };
                    add(format!("{by} flow {}", flow + 1).trim().to_owned(), points);
                }
            }
            None => {
                for name in name.split(',').map(str::trim) {
                    if let Some(points) = run.summary.series.get(name) {
                        let group = name.split_once('.').map_or(name, |(group, _)| group);
                        add(if by.is_empty() { group.to_owned() } else { by.to_owned() }, points);
                    }
                }
            }
        }
    }
    all.extend(expected(spec, runs));
    let mut chart = chart(spec, scale(spec.log_x), scale(spec.log_y), Marks::Lines(all));
    in_a_fitting_unit(&mut chart);
    chart
}

/// Slowdown by size, over the messages of all seeds.
fn slowdown_by_size(spec: &FigureSpec, metric: &by_size::BySize<'_>, runs: &[Ran]) -> Chart {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for name in order_of(runs, spec.by.as_ref()) {
        let meant = runs
            .iter()
            .filter(|run| is_meant(&run.labels, &spec.cells) && label(&run.labels, spec.by.as_ref()) == name);
        let curve = by_size::curve(metric, meant);
        let of = if name.is_empty() { metric.of.to_owned() } else { name };
        notes.extend(curve.notes.into_iter().map(|note| format!("{of}: {note}")));
        if !curve.points.is_empty() {
            lines.push(Line { name: of, points: curve.points, half: Vec::new(), is_reference: false });
        }
    }
    Chart { notes, ..chart(spec, scale(spec.log_x), scale(spec.log_y), Marks::Lines(lines)) }
}

/// What a reference is called: by what it is where everybody knows it, else by its expression.
fn reference_name(spec: &FigureSpec) -> String {
    let reference = spec.reference.as_deref().unwrap_or_default();
    if reference.ends_with(".fair_share_gbps") { "max-min fair".into() } else { reference.to_owned() }
}

/// What should be, phase by phase: the value of the reference in the first cell that is drawn.
fn expected(spec: &FigureSpec, runs: &[Ran]) -> Option<Line> {
    let expression = Expression::parse(spec.reference.as_ref()?).ok()?;
    let run = runs.iter().find(|run| run.seed == 1 && is_meant(&run.labels, &spec.cells))?;
    let mut points = Vec::new();
    for phase in &run.summary.phases {
        let value = expression.value(&|name| phase.values.get(name).copied()).unwrap_or(f64::NAN);
        points.extend([(phase.begins_us, value), (phase.ends_us, value)]);
    }
    Some(Line { name: reference_name(spec), points, half: Vec::new(), is_reference: true })
}

/// Long times read better in milliseconds, and very long ones in seconds.
fn in_a_fitting_unit(chart: &mut Chart) {
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

/// Half the interval of an estimate, where it rests on enough seeds to be worth drawing: of two it is thirteen standard errors wide.
fn half(estimate: &Estimate) -> f64 {
    estimate.half.filter(|_| estimate.n > 2).unwrap_or(f64::NAN)
}

/// Distributions: of messages over those of all seeds, of anything else each share the mean over seeds.
fn distribution(spec: &FigureSpec, name: &str, runs: &[Ran]) -> Chart {
    let meant = |by: &str| {
        runs.iter()
            .filter(|run| is_meant(&run.labels, &spec.cells) && label(&run.labels, spec.by.as_ref()) == by)
            .collect::<Vec<_>>()
    };
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for by in order_of(runs, spec.by.as_ref()) {
        let meant = meant(&by);
        let pooled = name.strip_suffix(".latency_us").and_then(|of| pooled_distribution(of, &meant));
        let points = match pooled {
            Some((points, unfinished)) => {
                if unfinished > 0.0 {
                    notes.push(
                        format!("{by}: {} unfinished", percent(unfinished)).trim_start_matches(": ").into(),
                    );
                }
                points
            }
            None => mean_distribution(name, &meant),
        };
        if !points.is_empty() {
            lines.push(Line { points, name: by, half: Vec::new(), is_reference: false });
        }
    }
    Chart { notes, ..chart(spec, scale(spec.log_x), Scale::Tail, Marks::Lines(lines)) }
}

/// The distribution of the latencies of all messages, and the share that did not finish.
fn pooled_distribution(of: &str, runs: &[&Ran]) -> Option<(Vec<(f64, f64)>, f64)> {
    let mut times = Vec::new();
    for run in runs {
        for phase in &run.summary.phases {
            times.push((run.messages.selection(&phase.name, of)?.times(Quantity::Latency), 1));
        }
    }
    let pool = Pool::new(times);
    let points = shares_of(pool.len(), |share| pool.percentile(share)?.value());
    Some((points, pool.unfinished_share()))
}

fn mean_distribution(name: &str, runs: &[&Ran]) -> Vec<(f64, f64)> {
    let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (value, share) in runs.iter().filter_map(|run| run.summary.distributions.get(name)).flatten() {
        #[expect(clippy::cast_possible_truncation, reason = "shares are at most one")]
        let key = (share * 1e6).round() as u64;
        shares.entry(key).or_default().push(*value);
    }
    let point = |(share, values): (&u64, &Vec<f64>)| Some((Estimate::of(values)?.mean, *share as f64 / 1e6));
    shares.iter().filter_map(point).collect()
}

fn finish(spec: &FigureSpec, name: &str, runs: &[Ran]) -> Chart {
    let meant = runs.iter().filter(|run| run.seed == 1 && is_meant(&run.labels, &spec.cells));
    let line = |run: &Ran| {
        let points = run.summary.finishes.get(name)?.clone();
        let name = label(&run.labels, spec.by.as_ref()).to_owned();
        Some(Line { name, points, half: Vec::new(), is_reference: false })
    };
    chart(spec, Scale::Linear, Scale::Linear, Marks::Points(meant.filter_map(line).collect()))
}

/// Every path of a model, all alike.
fn phase(spec: &FigureSpec, name: &str, runs: &[Ran]) -> Chart {
    let mut paths = Vec::new();
    for run in runs.iter().filter(|run| run.seed == 1) {
        for number in 0.. {
            let Some(points) = run.summary.series.get(&format!("{name}[{number}].path")) else { break };
            let name = name.to_owned();
            paths.push(Line { name, points: points.clone(), half: Vec::new(), is_reference: false });
        }
    }
    chart(spec, Scale::Linear, Scale::Linear, Marks::Lines(paths))
}
