//! Compares results with the flow completion times of HPCC's ns-3 simulator (`fct.txt`).

use crate::compare::{ComparisonRow, message_means};
use crate::report::{ReportError, load_study};
use crate::stats::{mean, percentile};
use crate::store::{SCENARIO_FILE, Store};
use crate::study::natural_order;
use poseidon_traces::FctRow;
use std::collections::BTreeMap;

/// The metrics that a file of completion times contains.
pub const FCT_METRICS: &[&str] = &[
    "messages",
    "latency_mean_us",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "slowdown_p50",
    "slowdown_p99",
    "slowdown_p999",
];

/// Compares every message traffic of a folder with a file of completion times. The file's value is the second one.
pub fn compare_with_fct(
    store: &Store,
    rows: &[FctRow],
    metrics: &[&str],
    program: &str,
) -> Result<Vec<ComparisonRow>, ReportError> {
    let reference = fct_metrics(rows);
    let mut names = store.studies_with(SCENARIO_FILE)?;
    names.sort_by_key(|name| natural_order(name));
    let mut compared = Vec::new();
    for name in &names {
        let runs = load_study(store, 0, name, program)?.1;
        let summaries: Vec<_> = runs.iter().map(|run| &run.run).collect();
        for mut row in message_means(name, &summaries, metrics) {
            if let Some(second) = reference.get(row.metric.as_str()) {
                row.second = *second;
                compared.push(row);
            }
        }
    }
    Ok(compared)
}

/// Computes the metrics of completion times. The slowdown divides by the standalone completion time of the file.
fn fct_metrics(rows: &[FctRow]) -> BTreeMap<&'static str, f64> {
    let sorted = |value: fn(&FctRow) -> f64| {
        let mut values: Vec<f64> = rows.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let latencies = sorted(|row| row.completion.get() as f64 / 1e3);
    let slowdowns = sorted(|row| row.completion.get() as f64 / (row.standalone.get() as f64).max(1.0));
    let mut metrics = BTreeMap::from([("messages", rows.len() as f64)]);
    metrics.extend(mean(&latencies).map(|mean| ("latency_mean_us", mean)));
    let shares = [(0.5, "latency_p50_us", "slowdown_p50"), (0.99, "latency_p99_us", "slowdown_p99")];
    for (share, latency, slowdown) in shares.into_iter().chain([(0.999, "latency_p999_us", "slowdown_p999")])
    {
        metrics.extend(percentile(&latencies, share).map(|value| (latency, value)));
        metrics.extend(percentile(&slowdowns, share).map(|value| (slowdown, value)));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{Bytes, Nanos};

    #[test]
    fn metrics_of_three_flows_are_exact() {
        let row = |completion, standalone| FctRow {
            from: 0,
            to: 1,
            source_port: 10_000,
            destination_port: 100,
            size: Bytes::new(1_000),
            start: Nanos::ZERO,
            completion: Nanos::new(completion),
            standalone: Nanos::new(standalone),
        };
        let metrics = fct_metrics(&[row(3_000, 1_000), row(1_000, 1_000), row(2_000, 500)]);
        assert_eq!(metrics["messages"], 3.0);
        assert_eq!(metrics["latency_mean_us"], 2.0);
        assert_eq!(metrics["latency_p50_us"], 2.0);
        assert_eq!(metrics["slowdown_p50"], 3.0);
        assert_eq!(metrics["slowdown_p999"], 4.0);
        assert_eq!(fct_metrics(&[]).get("latency_p50_us"), None);
    }
}
