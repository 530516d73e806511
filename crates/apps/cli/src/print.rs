//! What people read, and what programs do.

use crate::Failure;
use crate::catalog::{self, SCENARIOS};
use poseidon_lab::compare::Row;
use poseidon_lab::draw::Marks;
use poseidon_lab::expression::Expression;
use poseidon_lab::judge::{Ran, named};
use poseidon_lab::pooled::{readings, with_phase};
use poseidon_lab::report::{self, Shown};
use poseidon_lab::study::{Finished, Study};
use poseidon_laws::{AnyParams, LAWS};
use std::collections::BTreeMap;
use std::path::Path;

/// Everything, for programs.
pub(crate) fn json(shown: &[Shown], finished: &[Finished], hash: &str) -> Result<(), Failure> {
    let runs: Vec<_> = finished
        .iter()
        .map(|run| serde_json::json!({ "manifest": run.manifest, "phases": run.ran.summary.phases }))
        .collect();
    let all = serde_json::json!({ "result_hash": hash, "studies": shown, "runs": runs });
    say!("{}", serde_json::to_string_pretty(&all).map_err(|error| Failure::Run(error.to_string()))?);
    Ok(())
}

/// The table of claims.
pub(crate) fn verdicts(shown: &[Shown]) {
    let mut rows = vec![["entry", "claim", "paper", "must be", "ours", "verdict"].map(str::to_owned)];
    for study in shown {
        if let Some(cut) = &study.cut {
            rows.push([
                study.name.clone(),
                format!("cut: {cut}"),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
        for verdict in &study.verdicts {
            let gate = if verdict.gating { " *" } else { "" };
            rows.push([
                study.name.clone(),
                verdict.says.clone(),
                verdict.paper.clone(),
                verdict.must.clone(),
                report::ours(verdict),
                format!("{}{gate}", report::word(verdict.outcome)),
            ]);
        }
    }
    table(&rows, &[12, 46, 34, 20, 24, 16]);
    say!("\n* gating: the suite fails where one of these fails");
}

/// What two folders say.
pub(crate) fn side_by_side(rows: &[Row], folders: [&Path; 2], json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string_pretty(rows).map_err(|error| Failure::Run(error.to_string()))?;
        say!("{text}");
        return Ok(());
    }
    let [first, second] = folders.map(|folder| folder.display().to_string());
    let head = ["entry", "cell", "of", "metric", &first, &second, "ratio"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let [one, other, ratio] = [row.first, row.second, row.ratio()].map(report::number);
        vec![row.study.clone(), row.cell.clone(), row.of.clone(), row.metric.clone(), one, other, ratio]
    }));
    plain(&lines);
    Ok(())
}

/// One study: what it is, what was measured, what that says.
pub(crate) fn study(shown: &Shown, finished: &[Finished]) -> Result<(), Failure> {
    say!("{}\n{}", shown.title, shown.source);
    if let Some(cut) = &shown.cut {
        say!("cut: {cut}");
    }
    if shown.interrupted > 0 {
        say!(
            "{} of {} runs were broken off; their rows are valid up to then, but nothing is judged by them",
            shown.interrupted,
            shown.runs
        );
    }
    for (title, charts) in &shown.figures {
        for chart in charts {
            if let Marks::Bars { groups, series } = &chart.marks {
                bars(title, &chart.y.label, groups, series);
            }
        }
    }
    measures(finished)?;
    accounts(finished);
    if !shown.verdicts.is_empty() {
        say!();
        verdicts(core::slice::from_ref(shown));
    }
    for file in &shown.figure_files {
        say!("figure: {file}");
    }
    Ok(())
}

/// Bars as text.
fn bars(title: &str, unit: &str, groups: &[String], series: &[poseidon_lab::draw::Bars]) {
    const WIDTH: f64 = 40.0;
    say!("\n{title} ({unit})");
    let all = series.iter().flat_map(|bars| &bars.values).copied().filter(|value| value.is_finite());
    let largest = all.fold(0.0, f64::max);
    let name_width = series.iter().map(|bars| bars.name.chars().count()).max().unwrap_or(0);
    for (index, group) in groups.iter().enumerate() {
        if !group.is_empty() {
            say!("  {group}");
        }
        for bars in series {
            let Some(value) = bars.values.get(index).filter(|value| !value.is_nan()) else { continue };
            if value.is_infinite() {
                say!("    {:<name_width$} not reached", bars.name);
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "at most the width of a bar")]
            let cells = if largest > 0.0 { (value / largest * WIDTH).round() as usize } else { 0 };
            say!("    {:<name_width$} {:<40} {}", bars.name, "█".repeat(cells), report::number(*value));
        }
    }
}

/// What most people look at first, of all that was measured.
const FIRST: &[&str] = &[
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

/// What most people look at first, over seeds; the rest is in the summaries.
fn measures(finished: &[Finished]) -> Result<(), Failure> {
    let whole = finished.iter().filter(|run| !run.manifest.interrupted);
    let runs = whole.map(Finished::with_messages).collect::<Result<Vec<Ran>, _>>();
    let runs = runs.map_err(|error| Failure::Run(error.to_string()))?;
    let mut all: BTreeMap<(usize, String, String), BTreeMap<&str, String>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for run in &runs {
        for phase in &run.summary.phases {
            let labels = with_phase(&run.labels, &phase.name);
            let cell = named(&labels);
            if order.contains(&cell) {
                continue;
            }
            order.push(cell.clone());
            for name in phase.values.keys().chain(phase.missing.keys()) {
                let Some((of, metric)) = name.split_once('.') else { continue };
                let Some(metric) = FIRST.iter().find(|first| **first == metric) else { continue };
                let expression = Expression::parse(name).map_err(Failure::Run)?;
                if let Some(reading) = readings(&expression, &runs).get(&labels) {
                    let value = reading.estimate().map(|estimate| report::number(estimate.mean));
                    let text = value.or_else(|| reading.reason()).unwrap_or_default();
                    let key = (order.len(), cell.clone(), of.to_owned());
                    all.entry(key).or_default().insert(metric, text);
                }
            }
        }
    }
    let columns: Vec<&&str> =
        FIRST.iter().filter(|metric| all.values().any(|values| values.contains_key(**metric))).collect();
    if columns.is_empty() {
        return Ok(());
    }
    let mut rows = vec![vec!["cell".to_owned(), "of".to_owned()]];
    rows[0].extend(columns.iter().map(|metric| (**metric).to_owned()));
    for ((_, cell, of), values) in all {
        let mut row = vec![cell, of];
        row.extend(columns.iter().map(|metric| values.get(**metric).cloned().unwrap_or_default()));
        rows.push(row);
    }
    say!("\nWhat was measured: means over seeds; percentiles over the messages of all seeds");
    plain(&rows);
    Ok(())
}

/// What really happened: laws bound, decisions taken, telemetry seen, drops; summed over seeds.
fn accounts(finished: &[Finished]) {
    let mut cells: Vec<(String, Vec<&Finished>)> = Vec::new();
    for run in finished {
        let name = named(&run.ran.labels);
        match cells.iter_mut().find(|(other, _)| *other == name) {
            Some((_, runs)) => runs.push(run),
            None => cells.push((name, vec![run])),
        }
    }
    let mut head = vec![
        "cell",
        "seeds",
        "laws bound",
        "decisions",
        "with telemetry",
        "drops",
        "timeouts",
        "packet-hops",
    ];
    let is_marked = finished.iter().any(|run| run.manifest.account["marks"].as_u64() > Some(0));
    if is_marked {
        head.extend(["marks", "of them taken along"]);
    }
    let late = |run: &Finished| run.manifest.account["late_ps"].as_u64().unwrap_or(0);
    let is_real = finished.iter().any(|run| late(run) > 0);
    if is_real {
        head.push("late at worst");
    }
    let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for (name, runs) in cells {
        let sum =
            |key: &str| -> u64 { runs.iter().filter_map(|run| run.manifest.account[key].as_u64()).sum() };
        let decisions = sum("decisions");
        let with = sum("decisions_with_telemetry");
        let mut bound: BTreeMap<&str, u64> = BTreeMap::new();
        for group in &runs[0].manifest.bound {
            *bound.entry(group.law.as_str()).or_default() += group.connections;
        }
        let bound: Vec<String> = bound.iter().map(|(law, flows)| format!("{law} x{flows}")).collect();
        let share = if decisions > 0 {
            format!("{:.0} %", 100.0 * with as f64 / decisions as f64)
        } else {
            String::new()
        };
        let mut row = vec![
            name,
            runs.len().to_string(),
            bound.join(", "),
            decisions.to_string(),
            share,
            sum("dropped_packets").to_string(),
            sum("timeouts").to_string(),
            sum("packet_hops").to_string(),
        ];
        if is_marked {
            row.extend([sum("marks").to_string(), sum("marks_taken").to_string()]);
        }
        if is_real {
            let latest = runs.iter().map(|run| late(run)).max().unwrap_or(0);
            row.push(format!("{:.1} ms", latest as f64 / 1e9));
        }
        rows.push(row);
    }
    say!("\nWhat really happened");
    plain(&rows);
}

/// Prints a table whose columns are as wide as they need to be.
fn plain(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    table_lines(rows, &vec![usize::MAX; columns]).iter().for_each(|line| say!("{line}"));
}

/// Prints a table with columns of at most these widths; longer cells go on in the next line.
fn table<const N: usize>(rows: &[[String; N]], widest: &[usize; N]) {
    table_lines(rows, widest).iter().for_each(|line| say!("{line}"));
}

/// The lines of a table. A cell that is wider than its column may be goes on in the next line, between words; a word is never broken,
/// so a column is at least as wide as its longest one.
fn table_lines<R: AsRef<[String]>>(rows: &[R], widest: &[usize]) -> Vec<String> {
    let cell = |row: &R, column: usize| row.as_ref().get(column).cloned().unwrap_or_default();
    let width = |(column, widest): (usize, &usize)| {
        let cells = || rows.iter().map(|row| cell(row, column));
        let longest = cells().map(|cell| in_one_line(&cell).chars().count()).max().unwrap_or(0);
        let words = cells().flat_map(|cell| cell.split_whitespace().map(|word| word.chars().count()).max());
        longest.min(*widest).max(words.max().unwrap_or(0))
    };
    let widths: Vec<usize> = widest.iter().enumerate().map(width).collect();
    let mut lines = Vec::new();
    for row in rows {
        let cells: Vec<Vec<String>> =
            widths.iter().enumerate().map(|(column, width)| wrapped(&cell(row, column), *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let parts: Vec<String> = cells
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{:<width$}", cell.get(line).map_or("", String::as_str)))
                .collect();
            lines.push(parts.join("  ").trim_end().to_owned());
        }
    }
    lines
}

/// Text without line ends and with single spaces, as [`wrapped`] has it.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one from the start");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// What would be run.
pub(crate) fn plans(studies: &[Study], seeds: Option<u32>, json: bool) {
    if json {
        let list: Vec<_> = studies
            .iter()
            .map(|study| {
                let scenario = study.scenario();
                serde_json::json!({
                    "name": study.name, "title": scenario.title, "source": scenario.source,
                    "cells": study.cells.len(), "runs": study.runs(seeds), "claims": scenario.claim.len(),
                })
            })
            .collect();
        say!("{}", serde_json::Value::from(list));
        return;
    }
    let mut rows = vec![["entry", "cells", "runs", "claims", "title"].map(str::to_owned).to_vec()];
    for study in studies {
        let scenario = study.scenario();
        rows.push(vec![
            study.name.clone(),
            study.cells.len().to_string(),
            study.runs(seeds).to_string(),
            scenario.claim.len().to_string(),
            scenario.title.clone(),
        ]);
    }
    plain(&rows);
}

/// The table of laws, or one of them.
pub(crate) fn laws(name: Option<&str>, json: bool) -> Result<(), Failure> {
    let Some(name) = name else {
        if json {
            let list: Vec<_> = LAWS
                .iter()
                .map(|law| serde_json::json!({ "name": law.name, "source": law.source, "state_bytes": law.state_bytes }))
                .collect();
            say!("{}", serde_json::Value::from(list));
            return Ok(());
        }
        let mut rows = vec![["law", "bytes per flow", "needs", "source"].map(str::to_owned).to_vec()];
        for law in LAWS {
            let needs = AnyParams::of(law.name).map(|params| params.needs().to_string()).unwrap_or_default();
            rows.push(vec![law.name.into(), law.state_bytes.to_string(), needs, law.source.into()]);
        }
        plain(&rows);
        return Ok(());
    };
    let params = catalog::law(name)?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    params.each(&mut |info, value| {
        rows.push(vec![info.name.replace('_', "-"), value.to_string(), info.says.trim().to_owned()]);
    });
    if json {
        let list: Vec<_> = rows
            .iter()
            .map(|row| serde_json::json!({ "name": row[0], "value": row[1], "says": row[2] }))
            .collect();
        say!("{}", serde_json::Value::from(list));
        return Ok(());
    }
    if let Some(law) = LAWS.iter().find(|law| law.name == name) {
        say!("{name}: {}\nneeds {}; {} bytes per flow\n", law.source, params.needs(), law.state_bytes);
    }
    rows.insert(0, ["parameter", "value", "what it is"].map(str::to_owned).to_vec());
    plain(&rows);
    let mut presets = Vec::new();
    params.presets(&mut |name, says| presets.push(format!("{name}: {says}")));
    for preset in presets {
        say!("preset {preset}");
    }
    Ok(())
}

/// The built-in scenarios, or the text of one.
pub(crate) fn scenarios(name: Option<&str>, json: bool) -> Result<(), Failure> {
    if let Some(name) = name {
        say!("{}", catalog::study(name, false)?.text.trim_end());
        return Ok(());
    }
    let studies: Vec<(&str, Study)> = SCENARIOS
        .iter()
        .map(|(name, text)| {
            Ok((*name, Study::read(&format!("{name}.toml"), text, false).map_err(Failure::Scenario)?))
        })
        .collect::<Result<_, Failure>>()?;
    if json {
        let list: Vec<_> = studies
            .iter()
            .map(|(name, study)| serde_json::json!({ "name": name, "title": study.scenario().title, "source": study.scenario().source }))
            .collect();
        say!("{}", serde_json::Value::from(list));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = studies
        .iter()
        .map(|(name, study)| vec![(*name).to_owned(), study.scenario().title.clone()])
        .collect();
    plain(&rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each column begins in a line, for cells that have a capital first letter of their own.
    fn begins(lines: &[String], letter: char) -> Vec<usize> {
        lines.iter().filter_map(|line| line.chars().position(|c| c == letter)).collect()
    }

    #[test]
    fn columns_line_up_whatever_is_in_them() {
        let rows = [
            ["A", "B", "C"],
            ["A-very-long-word-that-cannot-be-broken", "B and three more words", "C"],
            ["A", "B with a\nline end in it", "C"],
            ["A \u{b5}\u{b5}\u{b5}", "B", "C  spaces"],
        ]
        .map(|row| row.map(str::to_owned));
        for widest in [[12, 10, 5], [usize::MAX; 3], [1; 3]] {
            let lines = table_lines(&rows, &widest);
            for letter in ['A', 'B', 'C'] {
                let places = begins(&lines, letter);
                assert_eq!(places.len(), rows.len(), "{letter} {lines:#?}");
                assert!(places.iter().all(|place| *place == places[0]), "{letter} {places:?} {lines:#?}");
            }
        }
    }

    #[test]
    fn a_long_cell_goes_on_in_the_next_line() {
        let rows = [["one two three".to_owned(), "x".to_owned()]];
        assert_eq!(table_lines(&rows, &[7, 7]), ["one two  x", "three"]);
    }
}
