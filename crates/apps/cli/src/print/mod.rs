//! Prints results as text and as JSON.

mod catalog;
mod table;

pub(crate) use catalog::{print_law, print_laws, print_plan, print_scenarios};

use crate::Failure;
use poseidon_figures::{BarSeries, Marks};
use poseidon_lab::compare::ComparisonRow;
use poseidon_lab::expression::Expression;
use poseidon_lab::judge::cell_name;
use poseidon_lab::pooled::{readings, with_phase};
use poseidon_lab::report::{ReportError, StudyReport, format_measured, format_number, outcome_word};
use poseidon_lab::store::{FinishedRun, complete_runs};
use std::collections::BTreeMap;
use std::path::Path;
use table::{print_table, print_wrapped_table};

/// Prints reports, manifests and metrics as JSON.
pub(crate) fn print_json(reports: &[StudyReport], runs: &[FinishedRun], hash: &str) -> Result<(), Failure> {
    let runs: Vec<_> = runs
        .iter()
        .map(|run| serde_json::json!({ "manifest": run.manifest, "phases": run.run.summary.phases }))
        .collect();
    let output = serde_json::json!({ "result_hash": hash, "studies": reports, "runs": runs });
    outln!("{}", serde_json::to_string_pretty(&output)?);
    Ok(())
}

/// Prints the verdict table.
pub(crate) fn print_verdicts(reports: &[StudyReport]) {
    let mut rows = vec![["entry", "claim", "paper", "condition", "measured", "verdict"].map(str::to_owned)];
    for report in reports {
        if let Some(omissions) = &report.omissions {
            let mut row = [(); 6].map(|()| String::new());
            row[0].clone_from(&report.name);
            row[1] = format!("quick run: {omissions}");
            rows.push(row);
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
        }
    }
    print_wrapped_table(&rows, &[12, 46, 34, 20, 24, 16]);
    outln!("\n* gating: the suite fails if one of these claims fails");
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
    const WIDTH: f64 = 40.0;
    outln!("\n{title} ({unit})");
    let values = series.iter().flat_map(|bars| &bars.values).copied().filter(|value| value.is_finite());
    let largest = values.fold(0.0, f64::max);
    let name_width = series.iter().map(|bars| bars.name.chars().count()).max().unwrap_or(0);
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
            let length = if largest > 0.0 { (value / largest * WIDTH).round() as usize } else { 0 };
            outln!("    {:<name_width$} {:<40} {}", bars.name, "█".repeat(length), format_number(*value));
        }
    }
}

/// The metrics in the printed table. The summaries contain all metrics.
const MAIN_METRICS: &[&str] = &[
    "rate_gbps",
    "fair_share_gbps",
    "jain",
    "unfinished_share",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "delay_mean_us",
    "utilisation",
];

/// The key of a table row: the cell position, the cell name, and the traffic or queue.
type MetricRow = (usize, String, String);

/// Prints the main metrics, aggregated over seeds.
fn print_metrics(runs: &[FinishedRun]) -> Result<(), Failure> {
    let values = main_metrics(runs)?;
    let is_present = |metric: &&&str| values.values().any(|row| row.contains_key(**metric));
    let columns: Vec<&&str> = MAIN_METRICS.iter().filter(is_present).collect();
    if columns.is_empty() {
        return Ok(());
    }
    let mut rows = vec![vec!["cell".to_owned(), "of".to_owned()]];
    rows[0].extend(columns.iter().map(|metric| (**metric).to_owned()));
    for ((_, cell, subject), values) in values {
        let mut row = vec![cell, subject];
        row.extend(columns.iter().map(|metric| values.get(**metric).cloned().unwrap_or_default()));
        rows.push(row);
    }
    outln!("\nMetrics (means over seeds; percentiles over the messages of all seeds)");
    print_table(&rows);
    Ok(())
}

/// Returns the main metrics of all cells as text, by row and metric name.
fn main_metrics(
    finished: &[FinishedRun],
) -> Result<BTreeMap<MetricRow, BTreeMap<&'static str, String>>, Failure> {
    let runs = complete_runs(finished).map_err(ReportError::from)?;
    let mut values: BTreeMap<MetricRow, BTreeMap<&str, String>> = BTreeMap::new();
    let mut cells: Vec<String> = Vec::new();
    for run in &runs {
        for phase in &run.summary.phases {
            let labels = with_phase(&run.labels, &phase.name);
            let cell = cell_name(&labels);
            if cells.contains(&cell) {
                continue;
            }
            cells.push(cell.clone());
            for name in phase.values.keys().chain(phase.missing.keys()) {
                let Some((subject, metric)) = name.split_once('.') else { continue };
                let Some(metric) = MAIN_METRICS.iter().find(|known| **known == metric) else { continue };
                let expression = Expression::parse(name).map_err(|error| Failure::Run(error.to_string()))?;
                if let Some(reading) = readings(&expression, &runs).get(&labels) {
                    let value = reading.estimate().map(|estimate| format_number(estimate.mean));
                    let text = value.or_else(|| reading.reason()).unwrap_or_default();
                    let row = (cells.len(), cell.clone(), subject.to_owned());
                    values.entry(row).or_default().insert(metric, text);
                }
            }
        }
    }
    Ok(values)
}

/// Prints the laws in use, and the packet and decision counters, summed over seeds.
fn print_counters(runs: &[FinishedRun]) {
    let mut cells: Vec<(String, Vec<&FinishedRun>)> = Vec::new();
    for run in runs {
        let name = cell_name(&run.run.labels);
        match cells.iter_mut().find(|(other, _)| *other == name) {
            Some((_, runs)) => runs.push(run),
            None => cells.push((name, vec![run])),
        }
    }
    let columns = CounterColumns {
        has_marks: runs.iter().any(|run| run.manifest.counters["marks"].as_u64() > Some(0)),
        has_lateness: runs.iter().any(|run| lateness_ps(run) > 0),
    };
    let mut rows = vec![columns.header()];
    rows.extend(cells.into_iter().map(|(name, runs)| columns.row(name, &runs)));
    outln!("\nCounters");
    print_table(&rows);
}

/// Returns the largest scheduling delay of a run with real packets, in picoseconds.
fn lateness_ps(run: &FinishedRun) -> u64 {
    run.manifest.counters["late_ps"].as_u64().unwrap_or(0)
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
            |key: &str| -> u64 { runs.iter().filter_map(|run| run.manifest.counters[key].as_u64()).sum() };
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
