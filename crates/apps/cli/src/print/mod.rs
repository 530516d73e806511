//! Prints results as text and as JSON.

mod catalog;
mod table;

pub(crate) use catalog::{print_law, print_laws, print_names, print_plan, print_scenarios};

use crate::Failure;
use crate::output::{Colour, line_width};
use poseidon_figures::{BarSeries, Marks};
use poseidon_lab::compare::ComparisonRow;
use poseidon_lab::expression::Expression;
use poseidon_lab::judge::{Outcome, cell_name};
use poseidon_lab::nccl::nccl_result;
use poseidon_lab::pooled::{readings, with_phase};
use poseidon_lab::report::{
    CardEntry, Grade, ReportCard, ReportError, StudyReport, format_measured, format_number, outcome_word,
};
use poseidon_lab::scenario::Label;
use poseidon_lab::store::{FinishedRun, complete_runs};
use poseidon_lab::summary::{MAIN_METRICS, RunSummary};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use table::{print_blocks, print_table, print_wrapped_table};

/// Prints reports, manifests and metrics as JSON.
pub(crate) fn print_json(reports: &[StudyReport], runs: &[FinishedRun], hash: &str) -> Result<(), Failure> {
    let runs: Vec<_> = runs
        .iter()
        .map(|run| {
            let summary = &run.run.summary;
            let mut value = serde_json::json!({ "manifest": run.manifest, "phases": summary.phases });
            if !summary.collectives.is_empty() {
                let results = summary.collectives.iter().map(|(name, times)| nccl_result(name, times));
                value["collectives"] = results.collect();
            }
            value
        })
        .collect();
    let output = serde_json::json!({ "result_hash": hash, "studies": reports, "runs": runs });
    outln!("{}", serde_json::to_string_pretty(&output)?);
    Ok(())
}

/// Prints the verdict table. The first column names the study if there are several.
pub(crate) fn print_verdicts(reports: &[StudyReport]) {
    let mut rows = vec![["entry", "claim", "paper", "condition", "measured", "verdict"].map(str::to_owned)];
    let mut colours = vec![None];
    for report in reports {
        if let Some(omissions) = &report.omissions {
            let mut row = [(); 6].map(|()| String::new());
            row[0].clone_from(&report.name);
            row[1] = format!("quick run: {omissions}");
            rows.push(row);
            colours.push(None);
        }
        for verdict in &report.verdicts {
            let gate = if verdict.gating { " *" } else { "" };
            rows.push([
                report.name.clone(),
                verdict.claim.clone(),
                verdict.paper.clone(),
                verdict.condition.clone(),
                format_measured(verdict),
                format!("{}{gate}", outcome_word(verdict.outcome)),
            ]);
            colours.push(Some(outcome_colour(verdict.outcome)));
        }
    }
    let (max_widths, weights) = ([14, 46, 34, 20, 24, 16], [4, 9, 5, 4, 5, 3]);
    match reports {
        [_] => {
            let rows: Vec<[String; 5]> = rows.into_iter().map(|[_, row @ ..]| row).collect();
            let [_, max_widths @ ..] = max_widths;
            let [_, weights @ ..] = weights;
            let colour = |row: usize, column: usize| colours[row].filter(|_| column == 4);
            print_wrapped_table(&rows, &max_widths, &weights, &colour);
        }
        _ => {
            let colour = |row: usize, column: usize| colours[row].filter(|_| column == 5);
            print_wrapped_table(&rows, &max_widths, &weights, &colour);
        }
    }
    outln!("\n* gating: the suite fails if one of these claims fails");
}

fn outcome_colour(outcome: Outcome) -> Colour {
    match outcome {
        Outcome::Holds => Colour::Green,
        Outcome::Fails => Colour::Red,
        Outcome::NotComparable | Outcome::NotRun => Colour::Yellow,
    }
}

/// Prints a report card: one row per scenario, one column per law.
pub(crate) fn print_card(card: &ReportCard) {
    let mut rows = vec![core::iter::once("scenario".to_owned()).chain(card.laws.iter().cloned()).collect()];
    for scenario in &card.scenarios {
        let grade = |entry: &CardEntry| format!("{} {}", entry.grade.symbol(), entry.number);
        let grades = scenario.entries.iter().map(grade);
        rows.push(core::iter::once(scenario.short_name().to_owned()).chain(grades).collect::<Vec<_>>());
    }
    print_blocks(&rows, 1);
    let legend = Grade::ALL.map(|grade| format!("{} {}: {}", grade.symbol(), grade.word(), grade.meaning()));
    outln!("\n{}", legend.join("\n"));
}

/// Prints a comparison of two results folders.
pub(crate) fn print_comparison(
    rows: &[ComparisonRow],
    folders: [&Path; 2],
    json: bool,
) -> Result<(), Failure> {
    if json {
        outln!("{}", serde_json::to_string_pretty(rows)?);
        return Ok(());
    }
    let [first, second] = folders.map(|folder| folder.display().to_string());
    let header = ["entry", "cell", "of", "metric", &first, &second, "ratio"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let [first, second, ratio] = [row.first, row.second, row.ratio()].map(format_number);
        let (study, cell) = (row.study.clone(), row.cell.clone());
        vec![study, cell, row.subject.clone(), row.metric.clone(), first, second, ratio]
    }));
    print_table(&lines);
    Ok(())
}

/// Prints the report on one study: bar charts, metrics, counters and verdicts.
pub(crate) fn print_study(report: &StudyReport, runs: &[FinishedRun]) -> Result<(), Failure> {
    outln!("{}\n{}", report.title, report.source);
    if let Some(omissions) = &report.omissions {
        outln!("quick run: {omissions}");
    }
    if report.interrupted > 0 {
        outln!(
            "{} of {} runs were interrupted; their rows are valid, but they are not judged",
            report.interrupted,
            report.runs
        );
    }
    for figure in &report.figures {
        for chart in &figure.charts {
            if let Marks::Bars { groups, series } = &chart.marks {
                print_bars(&figure.title, &chart.y.label, groups, series);
            }
        }
    }
    print_metrics(runs)?;
    print_counters(runs);
    if !report.verdicts.is_empty() {
        outln!();
        print_verdicts(core::slice::from_ref(report));
    }
    for file in &report.figure_files {
        outln!("figure: {file}");
    }
    Ok(())
}

/// Prints a bar chart as text.
fn print_bars(title: &str, unit: &str, groups: &[String], series: &[BarSeries]) {
    outln!("\n{title} ({unit})");
    let values = series.iter().flat_map(|bars| &bars.values).copied().filter(|value| value.is_finite());
    let largest = values.fold(0.0, f64::max);
    let name_width = series.iter().map(|bars| bars.name.chars().count()).max().unwrap_or(0);
    // The rest of the line is for the indentation, the name and the number.
    let width = line_width().saturating_sub(name_width + 18).clamp(10, 40);
    if !series.iter().flat_map(|bars| &bars.values).any(|value| !value.is_nan()) {
        outln!("    no value; the metrics below give the reason");
        return;
    }
    for (index, group) in groups.iter().enumerate() {
        if !group.is_empty() {
            outln!("  {group}");
        }
        for bars in series {
            let Some(value) = bars.values.get(index).filter(|value| !value.is_nan()) else { continue };
            if value.is_infinite() {
                outln!("    {:<name_width$} not reached", bars.name);
                continue;
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the length is at most the width of the chart"
            )]
            let length = if largest > 0.0 { (value / largest * width as f64).round() as usize } else { 0 };
            let (bar, number) = ("█".repeat(length), format_number(*value));
            outln!("    {:<name_width$} {bar:<width$} {number}", bars.name);
        }
    }
}

/// The metrics that are numbers of messages.
const COUNTS: [&str; 2] = ["messages", "unfinished"];

/// The key of a table row: the cell position, the cell name, and the traffic or queue.
type MetricRow = (usize, String, String);

/// A printed metric.
struct MetricText {
    /// The value, or the reason why there is none.
    text: String,
    has_value: bool,
}

/// Prints the main metrics, aggregated over seeds. A study that has none of them prints all its metrics.
fn print_metrics(runs: &[FinishedRun]) -> Result<(), Failure> {
    let runs = complete_runs(runs).map_err(ReportError::from)?;
    let mut values = metric_values(&runs, &|metric| MAIN_METRICS.contains(&metric))?;
    if values.is_empty() {
        values = metric_values(&runs, &|_| true)?;
    }
    let is_in = |metric: &&str| values.values().any(|row| row.contains_key(*metric));
    let has_value =
        |metric: &&str| values.values().filter_map(|row| row.get(*metric)).any(|metric| metric.has_value);
    let others: BTreeSet<&str> = values.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let others = others.into_iter().filter(|metric| !MAIN_METRICS.contains(metric));
    let metrics = MAIN_METRICS.iter().copied().filter(is_in).chain(others);
    let (columns, without_value): (Vec<&str>, Vec<&str>) = metrics.partition(has_value);
    if columns.is_empty() && without_value.is_empty() {
        return Ok(());
    }
    let mut rows = vec![vec!["cell".to_owned(), "of".to_owned()]];
    rows[0].extend(columns.iter().map(|metric| (*metric).to_owned()));
    for ((_, cell, subject), values) in &values {
        let mut row = vec![cell.clone(), subject.clone()];
        let text = |metric: &&str| match values.get(*metric) {
            Some(metric) if metric.has_value => metric.text.clone(),
            Some(_) => "-".to_owned(),
            None => String::new(),
        };
        row.extend(columns.iter().map(text));
        rows.push(row);
    }
    outln!("\nMetrics (means over seeds; percentiles over the messages of all seeds)");
    print_blocks(&rows, 2);
    print_table(&describe_missing(&values, columns.iter().chain(&without_value)));
    Ok(())
}

/// Describes the metrics without a value: one line per metric, with the reason of the first cell.
fn describe_missing<'a>(
    values: &BTreeMap<MetricRow, BTreeMap<String, MetricText>>,
    metrics: impl Iterator<Item = &'a &'a str>,
) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for metric in metrics {
        let is_missing = |text: &&MetricText| !text.has_value && !text.text.is_empty();
        let mut missing = values.iter().filter_map(|((_, cell, subject), row)| {
            row.get(*metric).filter(is_missing).map(|text| (cell, subject, &text.text))
        });
        let Some((cell, subject, reason)) = missing.next() else { continue };
        let others = match missing.count() {
            0 => String::new(),
            count => format!("; {count} more without a value"),
        };
        let cell = if cell.is_empty() { String::new() } else { format!(" ({cell})") };
        lines.push(vec![format!("- {subject}.{metric}{cell}: {reason}{others}")]);
    }
    lines
}

/// Returns the selected metrics of all cells, by row and metric name. The counters have their own table, so the metrics
/// of the whole run are left out.
fn metric_values(
    runs: &[RunSummary],
    is_selected: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<MetricRow, BTreeMap<String, MetricText>>, Failure> {
    let mut cells: Vec<Vec<Label>> = Vec::new();
    let mut known_cells: BTreeSet<(&[Label], &str)> = BTreeSet::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for run in runs {
        for phase in &run.summary.phases {
            if known_cells.insert((&run.labels, &phase.name)) {
                cells.push(with_phase(&run.labels, &phase.name));
            }
            names.extend(phase.values.keys().chain(phase.missing.keys()).map(String::as_str));
        }
    }
    let mut values: BTreeMap<MetricRow, BTreeMap<String, MetricText>> = BTreeMap::new();
    for name in names {
        let Some((subject, metric)) = name.split_once('.') else { continue };
        if subject == "run" || !is_selected(metric) {
            continue;
        }
        let expression = Expression::parse(name).map_err(|error| Failure::Run(error.to_string()))?;
        let readings = readings(&expression, runs);
        for (position, labels) in cells.iter().enumerate() {
            let Some(reading) = readings.get(labels) else { continue };
            let value = reading.estimate().map(|estimate| match estimate.mean {
                mean if COUNTS.contains(&metric) && mean.fract() == 0.0 => format!("{mean:.0}"),
                mean => format_number(mean),
            });
            let has_value = value.is_some();
            let text = value.or_else(|| reading.reason()).unwrap_or_default();
            let row = (position, cell_name(labels), subject.to_owned());
            values.entry(row).or_default().insert(metric.to_owned(), MetricText { text, has_value });
        }
    }
    Ok(values)
}

/// Prints the laws in use, and the packet and decision counters, summed over seeds.
fn print_counters(runs: &[FinishedRun]) {
    let mut cells: Vec<(String, Vec<&FinishedRun>)> = Vec::new();
    let mut positions: BTreeMap<&[Label], usize> = BTreeMap::new();
    // Metrics do not contain interrupted runs either.
    for run in runs.iter().filter(|run| !run.manifest.interrupted) {
        let position = *positions.entry(&run.run.labels).or_insert(cells.len());
        match cells.get_mut(position) {
            Some((_, runs)) => runs.push(run),
            None => cells.push((cell_name(&run.run.labels), vec![run])),
        }
    }
    let columns = CounterColumns {
        has_marks: runs.iter().any(|run| run.manifest.counters.number("marks") > Some(0)),
        has_lateness: runs.iter().any(|run| lateness_ps(run) > 0),
    };
    let mut rows = vec![columns.header()];
    let seeds_are_equal = !cells.is_empty() && cells.iter().all(|(_, runs)| have_equal_results(runs));
    rows.extend(cells.into_iter().map(|(name, runs)| columns.row(name, &runs)));
    outln!("\nCounters");
    print_blocks(&rows, 1);
    if seeds_are_equal {
        outln!(
            "all seeds have the same result, because nothing in this scenario is random; one seed is enough"
        );
    }
}

/// Returns whether several seeds of a cell have the same result.
fn have_equal_results(runs: &[&FinishedRun]) -> bool {
    runs.len() > 1 && runs.iter().all(|run| run.manifest.result_hash == runs[0].manifest.result_hash)
}

/// Returns the largest scheduling delay of a run with real packets, in picoseconds.
fn lateness_ps(run: &FinishedRun) -> u64 {
    run.manifest.counters.number("late_ps").unwrap_or(0)
}

/// The optional columns of the counter table.
struct CounterColumns {
    has_marks: bool,
    has_lateness: bool,
}

impl CounterColumns {
    fn header(&self) -> Vec<String> {
        let mut header =
            vec!["cell", "seeds", "laws", "decisions", "with telemetry", "drops", "timeouts", "packet-hops"];
        if self.has_marks {
            header.extend(["marks", "marks carried"]);
        }
        if self.has_lateness {
            header.push("max lateness");
        }
        header.into_iter().map(str::to_owned).collect()
    }

    /// Returns a cell's table row. `runs` contains the cell's runs.
    fn row(&self, cell: String, runs: &[&FinishedRun]) -> Vec<String> {
        let sum =
            |key: &str| -> u64 { runs.iter().filter_map(|run| run.manifest.counters.number(key)).sum() };
        let (decisions, with_telemetry) = (sum("decisions"), sum("decisions_with_telemetry"));
        let telemetry_share = if decisions > 0 {
            format!("{:.0} %", 100.0 * with_telemetry as f64 / decisions as f64)
        } else {
            String::new()
        };
        let mut flows_by_law: BTreeMap<&str, u64> = BTreeMap::new();
        for binding in &runs[0].manifest.law_bindings {
            *flows_by_law.entry(binding.law.as_str()).or_default() += binding.connections;
        }
        let laws: Vec<String> = flows_by_law.iter().map(|(law, flows)| format!("{law} x{flows}")).collect();
        let mut row = vec![
            cell,
            runs.len().to_string(),
            laws.join(", "),
            decisions.to_string(),
            telemetry_share,
            sum("dropped_packets").to_string(),
            sum("timeouts").to_string(),
            sum("packet_hops").to_string(),
        ];
        if self.has_marks {
            row.extend([sum("marks").to_string(), sum("marks_taken").to_string()]);
        }
        if self.has_lateness {
            let max_lateness = runs.iter().map(|run| lateness_ps(run)).max().unwrap_or(0);
            row.push(format!("{:.1} ms", max_lateness as f64 / 1e9));
        }
        row
    }
}
