//! What two folders of results say of the same scenarios, side by side: the simulator and real packets, or two states of a program.

use crate::judge::{Ran, named};
use crate::scenario::Label;
use crate::stats::mean;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is compared where nobody says: throughput, fairness and queues.
pub const METRICS: &[&str] = &["share", "total_gbps", "jain", "delay_p50_us", "utilisation"];

/// One number of one cell, twice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The study.
    pub study: String,
    /// The cell, and the phase where there are several.
    pub cell: String,
    /// Whose number: a traffic, a queue or `run`.
    pub of: String,
    /// Which.
    pub metric: String,
    /// The mean over the seeds of the first folder.
    pub first: f64,
    /// The mean over the seeds of the second.
    pub second: f64,
}

impl Row {
    /// The second over the first.
    pub fn ratio(&self) -> f64 {
        self.second / self.first
    }
}

/// Numbers that both have, in the order of the first.
pub fn compare(study: &str, first: &[&Ran], second: &[&Ran], metrics: &[&str]) -> Vec<Row> {
    let (first, mut second) = (means(first, metrics), means(second, metrics));
    let both = first.into_iter().filter_map(|(key, first)| {
        let second = second.remove(&key)?;
        let Key { cell, of, metric, .. } = key;
        Some(Row { study: study.to_owned(), cell, of, metric, first, second })
    });
    both.collect()
}

/// The metrics that runs have, by the end of their name.
pub fn metrics_of(runs: &[&Ran]) -> BTreeSet<String> {
    let phases = runs.iter().flat_map(|run| &run.summary.phases);
    let names = phases.flat_map(|phase| phase.values.keys());
    names.filter_map(|name| Some(name.rsplit_once('.')?.1.to_owned())).collect()
}

/// By place of the cell and of the phase, so that rows stand in the order of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: (usize, usize),
    of: String,
    metric: String,
    cell: String,
}

fn means(runs: &[&Ran], metrics: &[&str]) -> BTreeMap<Key, f64> {
    let mut cells: Vec<&[Label]> = Vec::new();
    let mut values: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let labels = run.labels.as_slice();
        let place = cells.iter().position(|other| *other == labels).unwrap_or_else(|| {
            cells.push(labels);
            cells.len() - 1
        });
        for (nth, phase) in run.summary.phases.iter().enumerate() {
            let mut labels = labels.to_vec();
            labels.push(Label { sweep: "phase".to_owned(), value: phase.name.clone() });
            for (name, value) in &phase.values {
                let Some((of, metric)) = name.rsplit_once('.') else { continue };
                if metrics.contains(&metric) {
                    let (of, metric) = (of.to_owned(), metric.to_owned());
                    let key = Key { place: (place, nth), of, metric, cell: named(&labels) };
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
    use crate::samples::Messages;
    use crate::summary::{PhaseSummary, Summary};

    fn run(law: &str, seed: u64, values: &[(&str, f64)]) -> Ran {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let phase = PhaseSummary { name: "all".to_owned(), ends_us: 1.0, values, ..PhaseSummary::default() };
        let summary = Summary { phases: vec![phase], ..Summary::default() };
        let labels = vec![Label { sweep: "law".to_owned(), value: law.to_owned() }];
        Ran { labels, seed, summary, messages: Messages::None }
    }

    #[test]
    fn means_of_what_both_have_stand_side_by_side_in_the_order_of_the_first() {
        let first = [
            run("swift", 1, &[("flows.jain", 0.5), ("flows.odd", 1.0)]),
            run("swift", 2, &[("flows.jain", 0.7)]),
            run("cubic", 1, &[("flows.jain", 0.9)]),
            run("only-here", 1, &[("flows.jain", 1.0)]),
        ];
        let second = [run("swift", 1, &[("flows.jain", 0.3)]), run("cubic", 1, &[("flows.jain", 0.9)])];
        let [first, second] = [first.each_ref().to_vec(), second.each_ref().to_vec()];
        let rows = compare("one", &first, &second, METRICS);
        let said: Vec<_> = rows.iter().map(|row| (row.cell.as_str(), row.metric.as_str())).collect();
        assert_eq!(said, [("law swift", "jain"), ("law cubic", "jain")]);
        assert!((rows[0].first - 0.6).abs() < 1e-12 && (rows[0].ratio() - 0.5).abs() < 1e-12, "{rows:?}");
    }
}
