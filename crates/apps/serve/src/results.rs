//! The result of a study as JSON for the page: numbers, verdicts, figures, time series and files.

use crate::files::study_files;
use crate::scenario::unwrap_lines;
use poseidon_lab::expression::Expression;
use poseidon_lab::judge::{Verdict, cell_name};
use poseidon_lab::pooled::{readings, with_phase};
use poseidon_lab::report::{
    ReportError, StudyReport, format_cell, format_measured, format_number, load_study, outcome_word,
};
use poseidon_lab::runner::result_hash;
use poseidon_lab::scenario::Label;
use poseidon_lab::stats::mean;
use poseidon_lab::store::{FinishedRun, Store, complete_runs};
use poseidon_lab::study::Study;
use poseidon_lab::summary::{MAIN_METRICS, METRICS, RunSummary};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of points of a time series.
const MAX_POINTS: usize = 600;

/// The largest number of time series in a result.
const MAX_SERIES: usize = 400;

/// The time series that the page plots, by the end of their names. Series of single flows are left out.
const PLOTTED: [&str; 8] = [
    ".rate_gbps",
    ".total_gbps",
    ".sent_gbps",
    ".delay_us",
    ".waiting_bytes",
    ".window_packets",
    ".srtt_us",
    ".jain",
];

/// Describes a study that is stored in the results folder.
pub(crate) fn describe_stored(store: &Store, name: &str, program: &str) -> Result<Value, ReportError> {
    let (study, runs) = load_study(store, 0, name, program)?;
    let report = StudyReport::new(&study, &runs.iter().collect::<Vec<_>>())?;
    describe_study(store, &study, &runs, &report)
}

/// Describes a study and its runs.
pub(crate) fn describe_study(
    store: &Store,
    study: &Study,
    runs: &[FinishedRun],
    report: &StudyReport,
) -> Result<Value, ReportError> {
    let summaries = complete_runs(runs)?;
    let cells = cells_of(&summaries);
    let folder = store.study_folder(&study.name);
    let figures = (1..).zip(&report.figures).map(|(number, figure)| {
        let file = |extension: &str| {
            let name = format!("figure-{number}.{extension}");
            folder.join(&name).is_file().then(|| format!("{}/{name}", study.name))
        };
        json!({ "title": figure.title, "svg": file("svg"), "csv": file("csv") })
    });
    Ok(json!({
        "study": study.name,
        "title": report.title,
        "source": report.source,
        "about": unwrap_lines(&report.about),
        "text": study.text,
        "quick": study.is_quick,
        "analytic": study.scenario().analytic.is_some(),
        "omissions": report.omissions,
        "runs": report.runs,
        "interrupted": report.interrupted,
        "seconds": report.wall_s,
        "hash": result_hash(runs),
        "cells": cells.iter().map(|labels| describe_cell(labels, runs)).collect::<Vec<_>>(),
        "metrics": metrics(study, &summaries, &cells),
        "counters": counters(runs),
        "verdicts": report.verdicts.iter().map(describe_verdict).collect::<Vec<_>>(),
        "figures": figures.collect::<Vec<_>>(),
        "series": series(&summaries),
        "files": study_files(store, &study.name),
    }))
}

/// Returns the labels of all cells, with their phases, in the order of the runs.
fn cells_of(runs: &[RunSummary]) -> Vec<Vec<Label>> {
    let mut cells: Vec<Vec<Label>> = Vec::new();
    for run in runs {
        for phase in &run.summary.phases {
            let labels = with_phase(&run.labels, &phase.name);
            if !cells.contains(&labels) {
                cells.push(labels);
            }
        }
    }
    cells
}

fn describe_cell(labels: &[Label], runs: &[FinishedRun]) -> Value {
    let run_labels: Vec<&Label> = labels.iter().filter(|label| label.sweep != "phase").collect();
    let of_cell = |run: &&FinishedRun| run.run.labels.iter().eq(run_labels.iter().copied());
    let runs: Vec<&FinishedRun> = runs.iter().filter(of_cell).collect();
    let pairs: Vec<[&str; 2]> = labels.iter().map(|label| [label.sweep.as_str(), &label.value]).collect();
    let run_labels: Vec<Label> = run_labels.into_iter().cloned().collect();
    json!({
        "name": cell_name(labels),
        "run": cell_name(&run_labels),
        "labels": pairs,
        "law": runs.first().and_then(|run| law_of(run)),
        "seeds": runs.len(),
    })
}

/// Returns the law of a run, if all its traffic has the same law.
fn law_of(run: &FinishedRun) -> Option<&str> {
    let (first, rest) = run.manifest.law_bindings.split_first()?;
    rest.iter().all(|binding| binding.law == first.law).then_some(first.law.as_str())
}

/// Returns one entry per metric, with a value for each cell. The main metrics are those that the command line prints,
/// computed in the same way. The others are means over seeds.
fn metrics(study: &Study, runs: &[RunSummary], cells: &[Vec<Label>]) -> Vec<Value> {
    let phases = runs.iter().flat_map(|run| &run.summary.phases);
    let names: BTreeSet<&str> = phases
        .flat_map(|phase| phase.values.keys().chain(phase.missing.keys()))
        .map(String::as_str)
        .collect();
    // Traffic comes first, in the order of the scenario.
    let traffic = &study.scenario().traffic;
    let position = |name: &str| {
        let owner = name.split_once('.').map_or(name, |(owner, _)| owner);
        traffic.iter().position(|pattern| pattern.name == owner).unwrap_or(traffic.len())
    };
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| position(name));
    let mut entries = Vec::new();
    for name in names {
        let Some((of, metric)) = name.split_once('.') else { continue };
        let is_main = of != "run" && MAIN_METRICS.contains(&metric);
        let values = if is_main { pooled_values(name, runs, cells) } else { mean_values(name, runs, cells) };
        let description = METRICS.iter().find(|info| info.name == metric).map_or("", |info| info.description);
        entries.push(json!({
            "of": of, "metric": metric, "main": is_main, "description": description, "values": values,
        }));
    }
    entries
}

/// Returns the values of a metric as the command line prints them: percentiles over the messages of all seeds, and
/// other metrics as means over seeds.
fn pooled_values(name: &str, runs: &[RunSummary], cells: &[Vec<Label>]) -> Vec<Value> {
    let Ok(expression) = Expression::parse(name) else { return Vec::new() };
    let readings = readings(&expression, runs);
    let value = |labels: &Vec<Label>| {
        let Some(reading) = readings.get(labels) else { return Value::Null };
        match reading.estimate() {
            Some(estimate) => {
                let text = estimate.half.map(format_number);
                json!({
                    "value": estimate.mean, "text": format_value(name, estimate.mean), "half": estimate.half,
                    "half_text": text,
                })
            }
            None => json!({ "text": reading.reason().unwrap_or_default() }),
        }
    };
    cells.iter().map(value).collect()
}

/// Formats a value. A number of messages is a whole number.
fn format_value(name: &str, value: f64) -> String {
    let is_count = name.ends_with(".messages") || name.ends_with(".unfinished");
    if is_count && value.fract() == 0.0 { format!("{value:.0}") } else { format_number(value) }
}

fn mean_values(name: &str, runs: &[RunSummary], cells: &[Vec<Label>]) -> Vec<Value> {
    let value = |labels: &Vec<Label>| {
        let values: Vec<f64> = runs
            .iter()
            .flat_map(|run| run.summary.phases.iter().map(move |phase| (run, phase)))
            .filter(|(run, phase)| with_phase(&run.labels, &phase.name) == *labels)
            .filter_map(|(_, phase)| phase.values.get(name).copied())
            .collect();
        match mean(&values) {
            Some(mean) => json!({ "value": mean, "text": format_number(mean) }),
            None => Value::Null,
        }
    };
    cells.iter().map(value).collect()
}

/// Returns the counters of each cell, summed over seeds.
fn counters(runs: &[FinishedRun]) -> Vec<Value> {
    let mut cells: Vec<(String, Vec<&FinishedRun>)> = Vec::new();
    for run in runs {
        let name = cell_name(&run.run.labels);
        match cells.iter_mut().find(|(other, _)| *other == name) {
            Some((_, runs)) => runs.push(run),
            None => cells.push((name, vec![run])),
        }
    }
    let describe = |(cell, runs): &(String, Vec<&FinishedRun>)| {
        let sum =
            |key: &str| -> u64 { runs.iter().filter_map(|run| run.manifest.counters.number(key)).sum() };
        let seconds: f64 = runs.iter().map(|run| run.manifest.wall_s).sum();
        json!({
            "cell": cell, "seeds": runs.len(), "decisions": sum("decisions"),
            "drops": sum("dropped_packets"), "timeouts": sum("timeouts"), "marks": sum("marks"),
            "packet_hops": sum("packet_hops"), "seconds": seconds,
        })
    };
    cells.iter().map(describe).collect()
}

fn describe_verdict(verdict: &Verdict) -> Value {
    let cells: Vec<Value> = verdict
        .cells
        .iter()
        .map(|cell| json!([cell.cell, format_cell(cell), outcome_word(cell.outcome)]))
        .collect();
    json!({
        "claim": verdict.claim, "paper": verdict.paper, "metric": verdict.metric,
        "condition": verdict.condition,
        "measured": format_measured(verdict), "outcome": outcome_word(verdict.outcome),
        "gating": verdict.gating, "note": verdict.note.trim(), "cells": cells,
    })
}

/// Returns the time series of the first seed of each cell, by cell and name: the times and the values.
fn series(runs: &[RunSummary]) -> Map<String, Value> {
    let (mut cells, mut count) = (Map::new(), 0);
    for run in runs.iter().filter(|run| run.seed == 1) {
        let is_plotted = |name: &str| !name.contains('[') && PLOTTED.iter().any(|end| name.ends_with(end));
        let plotted =
            run.summary.series.iter().filter(|(name, points)| is_plotted(name) && !points.is_empty());
        let series: BTreeMap<&String, Value> = plotted
            .take(MAX_SERIES.saturating_sub(count))
            .map(|(name, points)| (name, columns(&thin(points))))
            .collect();
        count += series.len();
        cells.insert(cell_name(&run.labels), json!(series));
    }
    cells
}

/// Splits points into a list of times and a list of values.
pub(crate) fn columns(points: &[(f64, f64)]) -> Value {
    let digits = |value: f64| (value.is_finite()).then(|| (value * 1e3).round() / 1e3);
    let times: Vec<Option<f64>> = points.iter().map(|(time, _)| digits(*time)).collect();
    let values: Vec<Option<f64>> = points.iter().map(|(_, value)| digits(*value)).collect();
    json!([times, values])
}

/// Keeps the lowest and the highest point of each section of a long series, so that no peak is lost.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let sections = MAX_POINTS / 2 - 1;
    let mut indices = vec![0, points.len() - 1];
    for section in 0..sections {
        let range = section * points.len() / sections..(section + 1) * points.len() / sections;
        let by_value = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        indices.extend(range.clone().min_by(by_value));
        indices.extend(range.max_by(by_value));
    }
    indices.sort_unstable();
    indices.dedup();
    indices.into_iter().map(|index| points[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_series_keeps_its_ends_and_peaks() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        points[5_003].1 = 99.0;
        let thinned = thin(&points);
        assert!(thinned.len() <= MAX_POINTS, "{}", thinned.len());
        assert_eq!((thinned[0], thinned[thinned.len() - 1]), (points[0], points[9_999]));
        assert!(thinned.contains(&(5_003.0, 99.0)));
        assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(thin(&points[..10]), points[..10]);
    }

    #[test]
    fn numbers_that_json_cannot_hold_become_null() {
        assert_eq!(columns(&[(1.0, f64::NAN), (2.00049, 0.1 + 0.2)]), json!([[1.0, 2.0], [null, 0.3]]));
    }
}
