//! The head's values in the Bencher Metric Format.

use super::{single_line, spread};
use crate::report::GateReport;
use serde_json::{Map, Value, json};

/// Renders the median and the range of the head's values. A benchmark is a scenario with its cell and its traffic or
/// queue, and a measure is the last part of a metric name.
pub fn render_bencher(report: &GateReport) -> String {
    let mut benchmarks: Map<String, Value> = Map::new();
    for comparison in &report.comparisons {
        let Some([median, low, high]) = spread(&comparison.head_values) else { continue };
        let (subject, measure) = comparison.metric.rsplit_once('.').unwrap_or(("", &comparison.metric));
        let parts = [comparison.scenario.as_str(), comparison.cell.as_str(), subject];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let benchmark = benchmarks.entry(single_line(&parts.join("/"))).or_insert_with(|| json!({}));
        benchmark[single_line(measure)] = json!({ "value": median, "lower_value": low, "upper_value": high });
    }
    format!("{:#}\n", Value::Object(benchmarks))
}

#[cfg(test)]
mod tests {
    use super::super::test_report::report;
    use super::*;

    #[test]
    fn metrics_of_one_subject_are_measures_of_one_benchmark() {
        let value: Value = serde_json::from_str(&render_bencher(&report())).expect("the output is JSON");
        let benchmarks = value.as_object().expect("the output is an object");
        assert_eq!(benchmarks.len(), 4, "{value}");
        let expected = json!({ "value": 10.1, "lower_value": 10.0, "upper_value": 10.3 });
        assert_eq!(value["tiny/law swift/flows"]["total_gbps"], expected);
        assert!(benchmarks.keys().all(|name| !name.contains(char::is_control)));
    }
}
