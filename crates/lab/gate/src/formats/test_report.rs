//! A report with every verdict and with hostile names, for the tests of the formats.

use crate::decision::{InconclusiveReason, Method, Verdict};
use crate::report::{ComparisonReport, GateReport, LookReport, REPORT_SCHEMA};
use crate::rule::Margin;
use poseidon_lab::rollout::Direction;
use std::collections::BTreeMap;

/// A name with everything that a format could mistake for its own syntax.
pub(super) const HOSTILE: &str = "a<b>&\"'|`*_[x](y)]]>%0A::error::# SKIP\n\r\t\u{0}\u{1b}\u{ffff}\u{b5}";

/// Returns a comparison that passes.
pub(super) fn comparison(scenario: &str, cell: &str, metric: &str) -> ComparisonReport {
    ComparisonReport {
        scenario: scenario.into(),
        cell: cell.into(),
        metric: metric.into(),
        direction: Direction::Minimise,
        margin: Margin::Relative(0.05),
        verdict: Verdict::Pass,
        inconclusive_because: None,
        method: Method::SignFlip,
        seeds: 8,
        base: Some(10.0),
        head: Some(10.1),
        change: Some(0.01),
        interval: Some([-0.01, 0.03]),
        p: Some(0.2),
        adjusted_p: Some(0.4),
        cliffs_delta: None,
        one_sided_seeds: 0,
        head_values: vec![10.0, 10.1, 10.3],
    }
}

/// Returns a report with one failing, one inconclusive and two passing comparisons in two scenarios.
pub(super) fn report() -> GateReport {
    let pass = comparison("tiny", "law swift", "rpc.latency_p99_us");
    let fail = ComparisonReport {
        verdict: Verdict::Fail,
        direction: Direction::Maximise,
        margin: Margin::Relative(0.01),
        change: Some(-0.05),
        interval: Some([-0.06, -0.04]),
        p: Some(1.0 / 256.0),
        adjusted_p: Some(1.0 / 128.0),
        metric: "flows.total_gbps".into(),
        ..pass.clone()
    };
    let inconclusive = ComparisonReport {
        verdict: Verdict::Inconclusive,
        inconclusive_because: Some(InconclusiveReason::Noise),
        metric: "queue.delay_p99_us".into(),
        cell: HOSTILE.into(),
        scenario: HOSTILE.into(),
        ..pass.clone()
    };
    let identical = ComparisonReport {
        method: Method::Identical,
        change: None,
        interval: None,
        p: None,
        adjusted_p: None,
        cell: String::new(),
        ..pass.clone()
    };
    GateReport {
        schema: REPORT_SCHEMA,
        verdict: Verdict::Fail,
        base: "base.json".into(),
        head: format!("poseidon {HOSTILE}"),
        alpha: 0.01,
        looks: vec![LookReport { seeds: 8, alpha: 0.004, tests: 3, can_fail: false, inconclusive: 1 }],
        comparisons: vec![pass, fail, identical, inconclusive],
        notes: vec![format!("a note about {HOSTILE}")],
        files: BTreeMap::from([("tiny".into(), "ci/tiny,1:2.toml".into())]),
    }
}
