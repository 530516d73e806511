//! Figures from summaries: what a scenario asks to be drawn, as charts.

use crate::draw::{Axis, Bars, Chart, Line, Marks, Scale};
use crate::expression::Expression;
use crate::judge::{Ran, values};
use crate::scenario::{FigureKind, FigureSpec, Label, Scalars};
use crate::stats::Estimate;
use std::collections::BTreeMap;

/// The charts of a figure, one above the other.
pub fn charts(spec: &FigureSpec, runs: &[Ran]) -> Result<Vec<Chart>, String> {
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
    Chart { title: spec.title.clone(), x, y: axis(&spec.y, y), marks }
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

/// Values of a metric over seeds, by what lies along the axis and by series. Cells that differ in something else are seeds of their own.
fn table(
    metric: &str,
    spec: &FigureSpec,
    runs: &[Ran],
) -> Result<BTreeMap<(String, String), Estimate>, String> {
    let expression = Expression::parse(metric).map_err(|why| format!("figure {:?}: {why}", spec.title))?;
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for (labels, by_seed) in values(&expression, runs) {
        if is_meant(&labels, &spec.cells) {
            let key = (label(&labels, spec.along.as_ref()), label(&labels, spec.by.as_ref()));
            all.entry((key.0.to_owned(), key.1.to_owned())).or_default().extend(by_seed.values());
        }
    }
    Ok(all.into_iter().filter_map(|(key, values)| Some((key, Estimate::of(&values)?))).collect())
}

fn bars(spec: &FigureSpec, metric: &str, runs: &[Ran]) -> Result<Chart, String> {
    let table = table(metric, spec, runs)?;
    let groups: Vec<String> = order_of(runs, spec.along.as_ref())
        .into_iter()
        .filter(|group| table.keys().any(|(along, _)| along == group))
        .collect();
    let of = |name: &String| {
        let cell = |group: &String| table.get(&(group.clone(), name.clone()));
        Bars {
            name: if name.is_empty() { metric.to_owned() } else { name.clone() },
            values: groups.iter().map(|group| cell(group).map_or(f64::NAN, |cell| cell.mean)).collect(),
            half: groups.iter().map(|group| cell(group).map_or(f64::NAN, half)).collect(),
        }
    };
    let names = order_of(runs, spec.by.as_ref());
    let mut series: Vec<Bars> =
        names.iter().filter(|name| table.keys().any(|(_, by)| by == *name)).map(of).collect();
    if let Some(reference) = &spec.reference {
        let should = self::table(reference, spec, runs)?;
        let first = |group: &String| {
            should.iter().find(|((along, _), _)| along == group).map_or(f64::NAN, |(_, e)| e.mean)
        };
        series.push(Bars {
            name: reference_name(spec),
            values: groups.iter().map(first).collect(),
            half: Vec::new(),
        });
    }
    Ok(chart(spec, Scale::Linear, scale(spec.log_y), Marks::Bars { groups, series }))
}

/// Bars of several metrics in one chart.
fn side_by_side(spec: &FigureSpec, runs: &[Ran]) -> Result<Chart, String> {
    let (mut groups, mut series) = (Vec::<String>::new(), Vec::new());
    for metric in &spec.metric.0 {
        let chart = bars(spec, metric, runs)?;
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
    let series = series.into_iter().map(spread).collect();
    Ok(chart(spec, Scale::Linear, scale(spec.log_y), Marks::Bars { groups, series }))
}

fn lines(spec: &FigureSpec, metric: &str, runs: &[Ran]) -> Result<Chart, String> {
    let table = table(metric, spec, runs)?;
    let line = |name: &String, table: &BTreeMap<(String, String), Estimate>, is_reference: bool| {
        let mut points: Vec<(f64, f64, f64)> = table
            .iter()
            .filter(|((_, by), _)| by == name)
            .filter_map(|((along, _), e)| Some((number(along)?, e.mean, half(e))))
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
        let should = self::table(reference, spec, runs)?;
        if let Some((_, by)) = should.keys().next() {
            let by = by.clone();
            all.push(Line { name: reference_name(spec), half: Vec::new(), ..line(&by, &should, true) });
        }
    }
    Ok(chart(spec, scale(spec.log_x), scale(spec.log_y), Marks::Lines(all)))
}

/// The number that a label begins with: `"40 us"` is 40.
fn number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    label[..end].parse().ok()
}

fn series(spec: &FigureSpec, name: &str, runs: &[Ran]) -> Chart {
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

/// Distributions, each share the mean over seeds.
fn distribution(spec: &FigureSpec, name: &str, runs: &[Ran]) -> Chart {
    let mut by_name: BTreeMap<String, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for run in runs.iter().filter(|run| is_meant(&run.labels, &spec.cells)) {
        let by = label(&run.labels, spec.by.as_ref()).to_owned();
        for (value, share) in run.summary.distributions.get(name).into_iter().flatten() {
            #[expect(clippy::cast_possible_truncation, reason = "shares are at most one")]
            let key = (share * 1e6).round() as u64;
            by_name.entry(by.clone()).or_default().entry(key).or_default().push(*value);
        }
    }
    let line = |name: String| {
        let shares = by_name.get(&name)?;
        let points = shares
            .iter()
            .filter_map(|(share, values)| Some((Estimate::of(values)?.mean, *share as f64 / 1e6)));
        Some(Line { points: points.collect(), name, half: Vec::new(), is_reference: false })
    };
    let all = order_of(runs, spec.by.as_ref()).into_iter().filter_map(line).collect();
    chart(spec, scale(spec.log_x), Scale::Tail, Marks::Lines(all))
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
