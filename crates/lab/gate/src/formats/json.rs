//! The report as JSON.

use crate::report::GateReport;

/// Renders all fields of a report as indented JSON.
pub fn render_json(report: &GateReport) -> String {
    let text = serde_json::to_string_pretty(report).expect("a report consists of texts, numbers and lists");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::super::test_report::{HOSTILE, report};
    use super::*;

    #[test]
    fn a_report_is_valid_json_with_its_verdicts() {
        let value: serde_json::Value =
            serde_json::from_str(&render_json(&report())).expect("the report is JSON");
        assert_eq!(value["schema"], 1);
        assert_eq!(value["verdict"], "fail");
        assert_eq!(value["comparisons"][1]["direction"], "maximise");
        assert_eq!(
            value["comparisons"][1]["margin"],
            serde_json::json!({ "kind": "relative", "value": 0.01 })
        );
        assert_eq!(value["comparisons"][3]["cell"], HOSTILE);
        assert_eq!(value["comparisons"][3]["inconclusive_because"], "noise");
        assert_eq!(value["looks"][0]["can_fail"], false);
    }
}
