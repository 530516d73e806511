//! Compares the results of the same scenarios in two folders, for example from two backends or program versions.

use crate::judge::cell_name;
use crate::report::{ReportError, load_study};
use crate::runner::result_hash;
use crate::scenario::Label;
use crate::stats::mean;
use crate::store::{FinishedRun, SCENARIO_FILE, Store, StoreError};
use crate::study::natural_order;
use crate::summary::RunSummary;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The metrics that are compared by default: throughput, fairness and queues.
pub const DEFAULT_METRICS: &[&str] = &["share", "total_gbps", "jain", "delay_p50_us", "utilisation"];

/// The values of one metric in one cell, from both folders.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The study name.
    pub study: String,
    /// The cell name, followed by the phase name if there are several phases.
    pub cell: String,
    /// The name of the traffic pattern or queue, or `run`.
    #[serde(rename = "of")]
    pub subject: String,
    /// The metric name.
    pub metric: String,
    /// The mean over seeds in the first folder.
    pub first: f64,
    /// The mean over seeds in the second folder.
    pub second: f64,
}

impl ComparisonRow {
    /// Returns the second value divided by the first.
    pub fn ratio(&self) -> f64 {
        self.second / self.first
    }
}

/// The comparison of two folders.
#[derive(Clone, Debug, Default)]
pub struct FolderComparison {
    /// The compared metrics.
    pub rows: Vec<ComparisonRow>,
    /// The names of all metrics present in both folders.
    pub known_metrics: BTreeSet<String>,
    /// The studies with the same results in both folders, each with the hash of its results.
    pub equal: Vec<(String, String)>,
}

/// Compares the studies present in both folders, sorted by name in natural order. Results from `program` take
/// precedence.
pub fn compare_folders(
    first: &Store,
    second: &Store,
    metrics: &[&str],
    program: &str,
) -> Result<FolderComparison, ReportError> {
    let mut comparison = FolderComparison::default();
    for name in &common_studies(first, second)? {
        let runs = [load_study(first, 0, name, program)?.1, load_study(second, 0, name, program)?.1];
        let [hash, other_hash] = runs.each_ref().map(|runs| result_hash(runs));
        if hash == other_hash {
            comparison.equal.push((name.clone(), hash));
        }
        let [first, second] = runs.each_ref().map(|runs| summaries(runs));
        comparison.rows.extend(compare_runs(name, &first, &second, metrics));
        let shared = &metric_names(&first) & &metric_names(&second);
        comparison.known_metrics.extend(shared);
    }
    Ok(comparison)
}

/// Returns the names of the studies present in both folders, in natural order.
pub fn common_studies(first: &Store, second: &Store) -> Result<Vec<String>, StoreError> {
    let mut names = first.studies_with(SCENARIO_FILE)?;
    names.sort_by_key(|name| natural_order(name));
    names.retain(|name| second.study_folder(name).join(SCENARIO_FILE).is_file());
    Ok(names)
}

fn summaries(runs: &[FinishedRun]) -> Vec<&RunSummary> {
    runs.iter().map(|run| &run.run).collect()
}

/// Compares the metrics present in both run lists, in the order of the first list.
pub fn compare_runs(
    study: &str,
    first: &[&RunSummary],
    second: &[&RunSummary],
    metrics: &[&str],
) -> Vec<ComparisonRow> {
    let (first, mut second) = (means(first, metrics), means(second, metrics));
    let rows = first.into_iter().filter_map(|(key, first)| {
        let second = second.remove(&key)?;
        let Key { cell, subject, metric, .. } = key;
        Some(ComparisonRow { study: study.to_owned(), cell, subject, metric, first, second })
    });
    rows.collect()
}

/// Returns the means of metrics over seeds, as rows without a second value.
pub(crate) fn message_means(study: &str, runs: &[&RunSummary], metrics: &[&str]) -> Vec<ComparisonRow> {
    let rows = means(runs, metrics).into_iter().map(|(key, first)| {
        let Key { cell, subject, metric, .. } = key;
        ComparisonRow { study: study.to_owned(), cell, subject, metric, first, second: f64::NAN }
    });
    rows.collect()
}

/// Returns the metric names in these runs, without the traffic or queue prefix.
fn metric_names(runs: &[&RunSummary]) -> BTreeSet<String> {
    let phases = runs.iter().flat_map(|run| &run.summary.phases);
    let names = phases.flat_map(|phase| phase.values.keys());
    names.filter_map(|name| Some(name.rsplit_once('.')?.1.to_owned())).collect()
}

/// A metric's sort key. The cell and phase indices come first, so rows follow the scenario order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    order: (usize, usize),
    subject: String,
    metric: String,
    cell: String,
}

/// Returns each metric's mean over seeds.
fn means(runs: &[&RunSummary], metrics: &[&str]) -> BTreeMap<Key, f64> {
    let mut cells: Vec<&[Label]> = Vec::new();
    let mut values: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let labels = &*run.labels;
        let cell_index = cells.iter().position(|other| *other == labels).unwrap_or_else(|| {
            cells.push(labels);
            cells.len() - 1
        });
        for (phase_index, phase) in run.summary.phases.iter().enumerate() {
            let mut labels = labels.to_vec();
            labels.push(Label { sweep: "phase".to_owned(), value: phase.name.clone() });
            for (name, value) in &phase.values {
                let Some((subject, metric)) = name.rsplit_once('.') else { continue };
                if metrics.contains(&metric) {
                    let key = Key {
                        order: (cell_index, phase_index),
                        subject: subject.to_owned(),
                        metric: metric.to_owned(),
                        cell: cell_name(&labels),
                    };
                    values.entry(key).or_default().push(*value);
                }
            }
        }
    }
    values.into_iter().filter_map(|(key, values)| Some((key, mean(&values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::MessageStorage;
    use crate::summary::{PhaseSummary, Summary};

    fn run(law: &str, seed: u64, values: &[(&str, f64)]) -> RunSummary {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let phase = PhaseSummary { name: "all".to_owned(), ends_us: 1.0, values, ..PhaseSummary::default() };
        let summary = Summary { phases: vec![phase], ..Summary::default() };
        let labels = [Label { sweep: "law".to_owned(), value: law.to_owned() }].into();
        RunSummary { labels, seed, summary: summary.into(), messages: MessageStorage::None }
    }

    #[test]
    fn means_of_shared_metrics_are_compared_in_the_order_of_the_first_list() {
        let first = [
            run("swift", 1, &[("flows.jain", 0.5), ("flows.odd", 1.0)]),
            run("swift", 2, &[("flows.jain", 0.7)]),
            run("cubic", 1, &[("flows.jain", 0.9)]),
            run("only-here", 1, &[("flows.jain", 1.0)]),
        ];
        let second = [run("swift", 1, &[("flows.jain", 0.3)]), run("cubic", 1, &[("flows.jain", 0.9)])];
        let [first, second] = [first.each_ref().to_vec(), second.each_ref().to_vec()];
        let rows = compare_runs("study", &first, &second, DEFAULT_METRICS);
        let keys: Vec<_> = rows.iter().map(|row| (row.cell.as_str(), row.metric.as_str())).collect();
        assert_eq!(keys, [("law swift", "jain"), ("law cubic", "jain")]);
        assert!((rows[0].first - 0.6).abs() < 1e-12 && (rows[0].ratio() - 0.5).abs() < 1e-12, "{rows:?}");
    }
}
