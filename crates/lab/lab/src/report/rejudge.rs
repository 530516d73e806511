//! Rejudges changed claims using published numbers, without running the study.

use super::numbers::parse_by_seed;
use super::provenance::{PlanFingerprint, Provenance};
use super::publish::{SEEDS_FILE, read_numbers, write_verdicts};
use super::{ReportError, StudyReport};
use crate::expression::Expression;
use crate::judge::{Verdict, cell_name, judge};
use crate::manifest::content_hash;
use crate::reduce::not_reached;
use crate::samples::{MessageStorage, PercentileName};
use crate::scenario::{ClaimSpec, Label};
use crate::study::Study;
use crate::summary::{MissingValue, PhaseSummary, RunSummary, Summary};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The number of rejudged claims, by the kind of numbers used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgeCounts {
    /// Claims judged by per-seed values, which gives the same result as new runs.
    pub by_seeds: usize,
    /// Claims judged by means over seeds, because per-seed values are not published.
    pub by_means: usize,
    /// Claims that keep their verdict because a number is not published.
    pub unchanged: usize,
}

impl JudgeCounts {
    /// Adds the counts of another study.
    pub fn add(&mut self, other: Self) {
        self.by_seeds += other.by_seeds;
        self.by_means += other.by_means;
        self.unchanged += other.unchanged;
    }
}

/// The note for a claim that was judged by means.
const MEANS_NOTE: &str = "Judged again by published means over seeds.";

/// Judges a published study against its scenario's current claims and writes the verdicts. `plans` is the fingerprint
/// of the scenario's current plans. If all claims were judged by per-seed values and the plans have not changed, the
/// study becomes current.
pub fn judge_again(
    folder: &Path,
    report: &mut StudyReport,
    study: &Study,
    plans: Option<&PlanFingerprint>,
    commit: &str,
) -> Result<JudgeCounts, ReportError> {
    let seeds_file = folder.join(&report.name).join(SEEDS_FILE);
    let by_seed = match fs::read_to_string(&seeds_file) {
        Ok(text) => parse_by_seed(&text).map_err(ReportError::table(&seeds_file))?,
        Err(_) => Vec::new(),
    };
    let means = read_numbers(folder, report)?;
    let has_one_seed = means.iter().all(|(_, number)| number.seeds == 1);
    let by_seed: Values =
        by_seed.into_iter().map(|(key, values)| ((key.cell, key.phase, key.name), values)).collect();
    let means: Values = means
        .into_iter()
        .map(|(key, number)| ((key.cell, key.phase, key.name), BTreeMap::from([(1, number.mean)])))
        .collect();
    let (seed_runs, mean_runs) = (runs_with_values(study, &by_seed), runs_with_values(study, &means));
    let mut counts = JudgeCounts::default();
    let mut verdicts = Vec::new();
    for claim in &study.scenario().claim {
        let previous = report.verdicts.iter().find(|verdict| verdict.claim == claim.says);
        let has_metrics = |values: &Values| {
            metric_names(claim).iter().all(|metric| values.keys().any(|(_, _, name)| name == metric))
        };
        if claim.metric.is_empty() || has_metrics(&by_seed) || has_one_seed && has_metrics(&means) {
            counts.by_seeds += 1;
            let runs = if has_metrics(&by_seed) { &seed_runs } else { &mean_runs };
            verdicts.push(judge(claim, runs)?);
        } else if has_metrics(&means) {
            counts.by_means += 1;
            verdicts.push(verdict_by_means(judge(claim, &mean_runs)?, previous));
        } else {
            counts.unchanged += 1;
            verdicts.push(previous.cloned().map_or_else(|| judge(claim, &[]), Ok)?);
        }
    }
    report.verdicts = verdicts;
    let scenario = study.scenario();
    report.title.clone_from(&scenario.title);
    report.source.clone_from(&scenario.source);
    report.about.clone_from(&scenario.about);
    let is_exact = counts.by_means + counts.unchanged == 0;
    let is_current = |provenance: &&mut Provenance| is_exact && plans == Some(&provenance.plans);
    if let Some(provenance) = report.provenance.as_mut().filter(is_current) {
        let scenario_hash = content_hash(study.text.as_bytes());
        if provenance.scenario_hash != scenario_hash {
            let judged_at = Some(commit.to_owned());
            *provenance = Provenance { scenario_hash, judged_at, ..provenance.clone() };
            report.stale_reason = None;
        }
    }
    write_verdicts(folder, report)?;
    Ok(counts)
}

/// The per-seed values for each cell, phase and metric.
type Values = BTreeMap<(String, String, String), BTreeMap<u64, f64>>;

/// Returns the metric names in a claim.
fn metric_names(claim: &ClaimSpec) -> Vec<String> {
    let expression = Expression::parse(&claim.metric).ok();
    expression
        .map_or_else(Vec::new, |expression| expression.metrics().into_iter().map(str::to_owned).collect())
}

/// Returns the verdict on a claim judged by means. If the condition has not changed and every percentile was reached,
/// keeps the earlier verdict, which is more precise because it used per-seed values.
fn verdict_by_means(mut verdict: Verdict, previous: Option<&Verdict>) -> Verdict {
    let is_reached = verdict.cells.iter().all(|cell| cell.measured.is_some());
    if let Some(previous) = previous.filter(|previous| is_reached && previous.condition == verdict.condition)
    {
        let (claim, paper, gating) = (verdict.claim, verdict.paper, verdict.gating);
        return Verdict { claim, paper, gating, ..previous.clone() };
    }
    verdict.note = format!("{} {MEANS_NOTE}", verdict.note).trim().to_owned();
    verdict
}

/// Returns runs with these values, in the scenario's cell order.
fn runs_with_values(study: &Study, values: &Values) -> Vec<RunSummary> {
    let mut runs = Vec::new();
    for cell in &study.cells {
        let name = cell_name(&cell.labels);
        let cell_values = || values.iter().filter(|((cell, ..), _)| *cell == name);
        let seeds: BTreeSet<u64> = cell_values().flat_map(|(_, by_seed)| by_seed.keys().copied()).collect();
        for seed in seeds {
            let mut phases: BTreeMap<&str, BTreeMap<String, f64>> = BTreeMap::new();
            for ((_, phase, metric), by_seed) in cell_values() {
                if let Some(value) = by_seed.get(&seed) {
                    phases.entry(phase).or_default().insert(metric.clone(), *value);
                }
            }
            runs.push(run_with_values(study, &cell.labels, seed, phases));
        }
    }
    runs
}

/// Replaces unreached percentiles with lower bounds. Older publications computed percentiles over finished messages
/// only. A percentile that lies among the unfinished messages is larger than the published value.
fn replace_unreached_percentiles(phase: &mut PhaseSummary) {
    let count = |traffic: &str, metric: &str| phase.values.get(&format!("{traffic}.{metric}")).copied();
    let unfinished_share = |traffic: &str| {
        let (finished, unfinished) = (count(traffic, "messages")?, count(traffic, "unfinished")?);
        (unfinished > 0.0).then(|| unfinished / (finished + unfinished))
    };
    let mut unreached = Vec::new();
    for (metric, value) in &phase.values {
        let Some(name) = PercentileName::parse(metric) else { continue };
        if let Some(share) = unfinished_share(name.owner).filter(|share| *share > 1.0 - name.share) {
            let missing = MissingValue { reason: not_reached(share), at_least: Some(*value) };
            unreached.push((metric.clone(), missing));
        }
    }
    for (metric, missing) in unreached {
        phase.values.remove(&metric);
        phase.missing.insert(metric, missing);
    }
}

/// Returns a run with these values, keyed by phase and metric.
fn run_with_values(
    study: &Study,
    labels: &[Label],
    seed: u64,
    phases: BTreeMap<&str, BTreeMap<String, f64>>,
) -> RunSummary {
    let order = &study.scenario().phase;
    let phase = |(name, values): (&str, BTreeMap<String, f64>)| {
        let mut phase = PhaseSummary { name: name.to_owned(), values, ..PhaseSummary::default() };
        replace_unreached_percentiles(&mut phase);
        phase
    };
    let mut phases: Vec<PhaseSummary> = phases.into_iter().map(phase).collect();
    phases.sort_by_key(|phase| order.iter().position(|known| known.name == phase.name));
    RunSummary {
        labels: labels.into(),
        seed,
        summary: Summary { phases, ..Summary::default() }.into(),
        messages: MessageStorage::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_percentile_among_unfinished_messages_is_a_lower_bound() {
        let values = [
            ("a.messages", 965.0),
            ("a.unfinished", 35.0),
            ("a.latency_p50_us", 5.0),
            ("a.latency_p99_us", 9.0),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let mut phase = PhaseSummary { name: "all".into(), values, ..PhaseSummary::default() };
        replace_unreached_percentiles(&mut phase);
        assert_eq!(phase.values.get("a.latency_p50_us"), Some(&5.0));
        let missing = MissingValue { reason: "not reached (3.5 % unfinished)".into(), at_least: Some(9.0) };
        assert_eq!(phase.missing, BTreeMap::from([("a.latency_p99_us".to_owned(), missing)]));
    }
}
