//! The report on a gate: every comparison with its verdict.

use crate::decision::{Decision, InconclusiveReason, Method, Verdict};
use crate::looks::LookAlpha;
use crate::rule::{Margin, Rule};
use poseidon_lab::report::format_number;
use poseidon_lab::rollout::Direction;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the JSON report.
pub const REPORT_SCHEMA: u32 = 1;

/// The result of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateReport {
    /// The version of this form.
    pub schema: u32,
    /// The worst verdict.
    pub verdict: Verdict,
    /// The base.
    pub base: String,
    /// The head.
    pub head: String,
    /// The error rate over all tests and looks.
    pub alpha: f64,
    /// The looks that took place.
    pub looks: Vec<LookReport>,
    /// The comparisons, in the order of the scenarios.
    pub comparisons: Vec<ComparisonReport>,
    /// Remarks for the reader, such as why seeds were added.
    pub notes: Vec<String>,
    /// The file of each scenario that has one, so that annotations can name it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// One look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LookReport {
    /// The number of seeds.
    pub seeds: u32,
    /// The part of alpha that the look could spend.
    pub alpha: f64,
    /// The number of tests.
    pub tests: usize,
    /// Whether a test could fail.
    pub can_fail: bool,
    /// The number of comparisons that were still inconclusive afterwards.
    pub inconclusive: usize,
}

impl LookReport {
    /// Describes a look.
    pub const fn new(seeds: u32, tests: usize, alpha: LookAlpha, inconclusive: usize) -> Self {
        Self { seeds, alpha: alpha.fail, tests, can_fail: alpha.can_fail, inconclusive }
    }
}

/// One metric of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonReport {
    /// The scenario.
    pub scenario: String,
    /// The cell and the phase; empty if the scenario has one of each.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// Whether a smaller or a larger value is better.
    pub direction: Direction,
    /// How much worse the metric may become.
    pub margin: Margin,
    /// The verdict.
    pub verdict: Verdict,
    /// Why the verdict is inconclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inconclusive_because: Option<InconclusiveReason>,
    /// The test.
    pub method: Method,
    /// The number of pairs, or of values of the smaller side.
    pub seeds: usize,
    /// The median of the base.
    pub base: Option<f64>,
    /// The median of the head.
    pub head: Option<f64>,
    /// The estimated change from base to head, relative if the margin is.
    pub change: Option<f64>,
    /// The one-sided bounds of the change.
    pub interval: Option<[f64; 2]>,
    /// The p-value of "the head is worse".
    pub p: Option<f64>,
    /// The p-value after Holm's correction over all tests.
    pub adjusted_p: Option<f64>,
    /// Cliff's delta, for values without pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cliffs_delta: Option<f64>,
    /// The number of seeds for which only one side has a value.
    #[serde(skip_serializing_if = "is_zero")]
    pub one_sided_seeds: usize,
    /// The head's value of each seed.
    pub head_values: Vec<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ComparisonReport {
    /// Sets the fields that follow from a decision.
    pub fn set_decision(&mut self, decision: &Decision, rule: &Rule) {
        let change = |worsening: f64| rule.worsening(worsening);
        self.verdict = decision.verdict;
        self.inconclusive_because = decision.inconclusive_because;
        self.method = decision.method;
        self.change = decision.worsening.map(change);
        self.interval = decision.bounds.map(|bounds| {
            let [a, b] = bounds.map(change);
            [a.min(b), a.max(b)]
        });
        self.p = decision.p;
        self.adjusted_p = decision.adjusted_p;
        self.cliffs_delta = decision.cliffs_delta;
    }

    /// Returns the metric with its cell: `victim.share [law swift]`.
    pub fn title(&self) -> String {
        if self.cell.is_empty() { self.metric.clone() } else { format!("{} [{}]", self.metric, self.cell) }
    }

    /// Formats the median of a side.
    pub fn format_value(value: Option<f64>) -> String {
        value.map_or_else(|| "-".to_owned(), format_number)
    }

    /// Formats the change and its interval: `+7.1 % (+5.9 to +8.2 %)`.
    pub fn format_change(&self) -> String {
        match (self.method, self.change, self.interval) {
            (Method::Identical, ..) => "identical".to_owned(),
            (_, None, _) => "-".to_owned(),
            (_, Some(change), None) => self.margin.format_change(change),
            (_, Some(change), Some([low, high])) => {
                let [low, high] = [low, high].map(|bound| self.margin.format_change(bound));
                let low = low.trim_end_matches(" %");
                format!("{} ({low} to {high})", self.margin.format_change(change))
            }
        }
    }

    /// Formats the rule: `+5 %` for a metric that may rise by 5 %, `-1 %` for one that may fall by 1 %.
    pub fn format_margin(&self) -> String {
        let sign = if self.direction == Direction::Minimise { '+' } else { '-' };
        format!("{sign}{}", self.margin)
    }

    /// Formats a p-value.
    pub fn format_p(p: Option<f64>) -> String {
        match p {
            None => "-".to_owned(),
            Some(p) if p >= 0.0001 => format!("{p:.4}"),
            Some(p) => format!("{p:.1e}"),
        }
    }

    /// Returns a sentence that explains the verdict.
    pub fn explain(&self) -> String {
        let change = self.format_change();
        let test = match self.method {
            Method::SignFlip => format!("{} pairs, p {}", self.seeds, Self::format_p(self.p)),
            Method::MannWhitney => {
                format!("{} values per side without pairs, p {}", self.seeds, Self::format_p(self.p))
            }
            Method::Identical | Method::NoValues => format!("{} seeds", self.seeds),
        };
        let adjusted = self.adjusted_p.map(|p| format!(", adjusted {}", Self::format_p(Some(p))));
        let test = format!("{test}{}", adjusted.unwrap_or_default());
        let margin = self.format_margin();
        match (self.verdict, self.method, self.inconclusive_because) {
            (Verdict::Pass, Method::Identical, _) => format!("identical results ({test})"),
            (Verdict::Pass, ..) => format!("changed by {change}, within the margin of {margin} ({test})"),
            (Verdict::Fail, ..) => format!("changed by {change}, beyond the margin of {margin} ({test})"),
            (Verdict::Inconclusive, _, inconclusive_because) => {
                let inconclusive_because = inconclusive_because
                    .map(|inconclusive_because| inconclusive_because.to_string())
                    .unwrap_or_default();
                format!("changed by {change}, margin {margin} ({test}): {inconclusive_because}")
            }
        }
    }
}

impl GateReport {
    /// Counts the comparisons with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.comparisons.iter().filter(|comparison| comparison.verdict == verdict).count()
    }

    /// Returns the comparisons of each scenario, in order.
    pub fn scenarios(&self) -> impl Iterator<Item = (&str, &[ComparisonReport])> {
        self.comparisons
            .chunk_by(|a, b| a.scenario == b.scenario)
            .map(|group| (group[0].scenario.as_str(), group))
    }

    /// Returns a sentence with all counts: `1 fails, 2 inconclusive, 9 pass`.
    pub fn summarise(&self) -> String {
        let [fail, inconclusive, pass] =
            [Verdict::Fail, Verdict::Inconclusive, Verdict::Pass].map(|verdict| self.count(verdict));
        format!(
            "{} comparisons: {fail} fail, {inconclusive} inconclusive, {pass} pass",
            self.comparisons.len()
        )
    }

    /// Returns the comparisons from bad to good. Equal verdicts keep their order.
    pub fn worst_first(&self) -> Vec<&ComparisonReport> {
        let mut sorted: Vec<&ComparisonReport> = self.comparisons.iter().collect();
        sorted.sort_by_key(|comparison| core::cmp::Reverse(comparison.verdict));
        sorted
    }
}
