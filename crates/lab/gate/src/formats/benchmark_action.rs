//! The head's values for github-action-benchmark, which draws trends over commits.

use super::{single_line, spread, unit_of};
use crate::report::GateReport;
use poseidon_lab::rollout::Direction;
use serde_json::{Value, json};

/// Which metrics to include. The action needs one file per direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchmarkDirection {
    /// For the tool `customSmallerIsBetter`.
    SmallerIsBetter,
    /// For the tool `customBiggerIsBetter`.
    BiggerIsBetter,
}

/// Renders the medians of the head's values with one direction, with half of their range.
pub fn render_benchmark(report: &GateReport, direction: BenchmarkDirection) -> String {
    let wanted = match direction {
        BenchmarkDirection::SmallerIsBetter => Direction::Minimise,
        BenchmarkDirection::BiggerIsBetter => Direction::Maximise,
    };
    let selected = report.comparisons.iter().filter(|comparison| comparison.direction == wanted);
    let entries: Vec<Value> = selected
        .filter_map(|comparison| {
            let [median, low, high] = spread(&comparison.head_values)?;
            Some(json!({
                "name": single_line(&format!("{} {}", comparison.scenario, comparison.title())),
                "unit": unit_of(&comparison.metric),
                "value": median,
                "range": format!("± {}", (high - low) / 2.0),
                "extra": format!("{}: {}", comparison.verdict.word(), single_line(&comparison.explain())),
            }))
        })
        .collect();
    format!("{:#}\n", Value::Array(entries))
}

#[cfg(test)]
mod tests {
    use super::super::test_report::report;
    use super::*;

    #[test]
    fn each_direction_has_its_metrics() {
        let parse = |direction| -> Vec<Value> {
            serde_json::from_str(&render_benchmark(&report(), direction)).expect("the output is JSON")
        };
        let (smaller, bigger) =
            (parse(BenchmarkDirection::SmallerIsBetter), parse(BenchmarkDirection::BiggerIsBetter));
        assert_eq!((smaller.len(), bigger.len()), (3, 1));
        assert_eq!(bigger[0]["name"], "tiny flows.total_gbps [law swift]");
        assert_eq!((&bigger[0]["unit"], &bigger[0]["value"]), (&json!("Gbps"), &json!(10.1)));
        assert!(bigger[0]["range"].as_str().is_some_and(|range| range.starts_with("± 0.15")), "{bigger:?}");
        let has_no_controls = |entry: &Value| !entry["name"].as_str().unwrap().contains(char::is_control);
        assert!(smaller.iter().all(has_no_controls));
    }
}
