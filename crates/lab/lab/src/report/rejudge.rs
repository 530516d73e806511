//! Claims that have changed, judged again by published numbers: a study of hours need not run for that.

use super::numbers::read_by_seed;
use super::provenance::{Plans, Provenance};
use super::publish::{BY_SEED, write_verdicts};
use super::{Shown, published_numbers};
use crate::expression::Expression;
use crate::judge::{Ran, Verdict, judge, named};
use crate::reduce::not_reached;
use crate::samples::{Messages, PercentileName};
use crate::scenario::{ClaimSpec, Label};
use crate::store::hash;
use crate::study::Study;
use crate::summary::{Missing, PhaseSummary, Summary};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// How the claims of a study were judged again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejudged {
    /// By their values of each seed, as a run would be.
    pub exactly: usize,
    /// By means over seeds, as nothing else is published.
    pub by_means: usize,
    /// Not at all, as a number is not published: they keep their verdict, or have none.
    pub kept: usize,
}

/// What judged a claim by means says of itself.
const BY_MEANS: &str = "Judged again by published means over seeds.";

/// Judges a published study by the claims that its scenario has now and writes the verdicts. Where every claim could be judged exactly and
/// `plans`, those that the scenario has now, are the published ones, the study is no longer older than its scenario.
pub fn judge_again(
    folder: &Path,
    shown: &mut Shown,
    study: &Study,
    plans: Option<&Plans>,
    commit: &str,
) -> Result<Rejudged, String> {
    let by_seed = match fs::read_to_string(folder.join(&shown.name).join(BY_SEED)) {
        Ok(text) => read_by_seed(&text)?,
        Err(_) => Vec::new(),
    };
    let means = published_numbers(folder, shown)?;
    let is_one_seed = means.iter().all(|(_, number)| number.seeds == 1);
    let by_seed: Values =
        by_seed.into_iter().map(|(key, values)| ((key.cell, key.phase, key.name), values)).collect();
    let means: Values = means
        .into_iter()
        .map(|(key, number)| ((key.cell, key.phase, key.name), BTreeMap::from([(1, number.mean)])))
        .collect();
    let (exact, averaged) = (runs(study, &by_seed), runs(study, &means));
    let mut rejudged = Rejudged::default();
    let mut verdicts = Vec::new();
    for claim in &study.scenario().claim {
        let before = shown.verdicts.iter().find(|verdict| verdict.says == claim.says);
        let is_in = |values: &Values| {
            metrics(claim).iter().all(|metric| values.keys().any(|(_, _, name)| name == metric))
        };
        if claim.metric.is_empty() || is_in(&by_seed) || is_one_seed && is_in(&means) {
            rejudged.exactly += 1;
            let runs = if is_in(&by_seed) { &exact } else { &averaged };
            verdicts.push(judge(claim, runs)?);
        } else if is_in(&means) {
            rejudged.by_means += 1;
            verdicts.push(by_means(judge(claim, &averaged)?, before));
        } else {
            rejudged.kept += 1;
            verdicts.push(before.cloned().map_or_else(|| judge(claim, &[]), Ok)?);
        }
    }
    shown.verdicts = verdicts;
    let scenario = study.scenario();
    shown.title.clone_from(&scenario.title);
    shown.source.clone_from(&scenario.source);
    shown.about.clone_from(&scenario.about);
    let is_exact = rejudged.by_means + rejudged.kept == 0;
    if let Some(provenance) = shown.provenance.as_mut().filter(|own| is_exact && plans == Some(&own.plans)) {
        let scenario_hash = hash(study.text.as_bytes());
        if provenance.scenario_hash != scenario_hash {
            let judged_at = Some(commit.to_owned());
            *provenance = Provenance { scenario_hash, judged_at, ..provenance.clone() };
            shown.stale = None;
        }
    }
    write_verdicts(folder, shown)?;
    Ok(rejudged)
}

/// Numbers by cell, phase and name, and by seed.
type Values = BTreeMap<(String, String, String), BTreeMap<u64, f64>>;

fn metrics(claim: &ClaimSpec) -> Vec<String> {
    let expression = Expression::parse(&claim.metric).ok();
    expression.map_or_else(Vec::new, |of| of.metrics().into_iter().map(str::to_owned).collect())
}

/// A verdict by means: where the condition has not changed, the verdict by seeds is the better one and stays, unless it rests on a percentile
/// that was not reached.
fn by_means(mut verdict: Verdict, before: Option<&Verdict>) -> Verdict {
    let is_reached = verdict.cells.iter().all(|cell| cell.ours.is_some());
    if let Some(before) = before.filter(|before| is_reached && before.must == verdict.must) {
        let (says, paper, gating) = (verdict.says, verdict.paper, verdict.gating);
        return Verdict { says, paper, gating, ..before.clone() };
    }
    verdict.note = format!("{} {BY_MEANS}", verdict.note).trim().to_owned();
    verdict
}

/// Runs that have these numbers, in the order of the scenario's cells.
fn runs(study: &Study, values: &Values) -> Vec<Ran> {
    let mut all = Vec::new();
    for cell in &study.cells {
        let name = named(&cell.labels);
        let of_cell = || values.iter().filter(|((of, ..), _)| *of == name);
        let seeds: BTreeSet<u64> = of_cell().flat_map(|(_, by_seed)| by_seed.keys().copied()).collect();
        for seed in seeds {
            let mut phases: BTreeMap<&str, BTreeMap<String, f64>> = BTreeMap::new();
            for ((_, phase, metric), by_seed) in of_cell() {
                if let Some(value) = by_seed.get(&seed) {
                    phases.entry(phase).or_default().insert(metric.clone(), *value);
                }
            }
            all.push(run(study, &cell.labels, seed, phases));
        }
    }
    all
}

/// Studies that were published before unfinished messages counted have percentiles over finished messages. Where one falls among the
/// unfinished, it is greater than that.
fn take_out_what_was_not_reached(phase: &mut PhaseSummary) {
    let count = |of: &str, what: &str| phase.values.get(&format!("{of}.{what}")).copied();
    let unfinished_share = |of: &str| {
        let (finished, unfinished) = (count(of, "messages")?, count(of, "unfinished")?);
        (unfinished > 0.0).then(|| unfinished / (finished + unfinished))
    };
    let mut not_there = Vec::new();
    for (metric, value) in &phase.values {
        let Some(name) = PercentileName::parse(metric) else { continue };
        if let Some(share) = unfinished_share(name.of).filter(|share| *share > 1.0 - name.share) {
            not_there.push((metric.clone(), Missing { reason: not_reached(share), at_least: Some(*value) }));
        }
    }
    for (metric, missing) in not_there {
        phase.values.remove(&metric);
        phase.missing.insert(metric, missing);
    }
}

fn run(study: &Study, labels: &[Label], seed: u64, phases: BTreeMap<&str, BTreeMap<String, f64>>) -> Ran {
    let order = &study.scenario().phase;
    let phase = |(name, values): (&str, BTreeMap<String, f64>)| {
        let mut phase = PhaseSummary { name: name.to_owned(), values, ..PhaseSummary::default() };
        take_out_what_was_not_reached(&mut phase);
        phase
    };
    let mut phases: Vec<PhaseSummary> = phases.into_iter().map(phase).collect();
    phases.sort_by_key(|phase| order.iter().position(|known| known.name == phase.name));
    Ran {
        labels: labels.to_vec(),
        seed,
        summary: Summary { phases, ..Summary::default() },
        messages: Messages::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_percentile_among_the_unfinished_is_a_bound() {
        let values = [
            ("a.messages", 965.0),
            ("a.unfinished", 35.0),
            ("a.latency_p50_us", 5.0),
            ("a.latency_p99_us", 9.0),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let mut phase = PhaseSummary { name: "all".into(), values, ..PhaseSummary::default() };
        take_out_what_was_not_reached(&mut phase);
        assert_eq!(phase.values.get("a.latency_p50_us"), Some(&5.0));
        let missing = Missing { reason: "not reached (3.5 % unfinished)".into(), at_least: Some(9.0) };
        assert_eq!(phase.missing, BTreeMap::from([("a.latency_p99_us".to_owned(), missing)]));
    }
}
