//! The provenance of a published result: the scenario text, the plans, the code and the commit.
//!
//! A study is stale if the scenario text or a plan has changed since the run. A code change does not make the study
//! stale. To check newer code against published numbers, run the study again with `poseidon verify`.

use crate::canonical::{closed_form_hash, plan_hash};
use crate::judge::cell_name;
use crate::manifest::{Manifest, content_hash};
use crate::scenario::ScenarioError;
use crate::study::Study;
use core::fmt;
use poseidon_plan::Backend;
use serde::{Deserialize, Serialize};

/// The label for stale studies in the results table.
pub const STALE_LABEL: &str = "older than its scenario";

/// The provenance of a published study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The commit that contains the code and the scenario.
    pub commit: String,
    /// The program that ran the study.
    #[serde(rename = "tool")]
    pub program: String,
    /// The code hash.
    pub code_hash: String,
    /// The hash of the scenario text.
    pub scenario_hash: String,
    /// The plans of the runs.
    pub plans: PlanFingerprint,
    /// Whether the study ran the quick form of the scenario.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub quick: bool,
    /// Whether the study ran on real packets. Only the testbed can resolve the plans of such studies.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub on_linux: bool,
    /// The commit that contains the claims, if the claims have changed since the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_at: Option<String>,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "From commit {}: {}", short_hash(&self.commit), self.program)?;
        match &self.judged_at {
            Some(commit) => write!(f, ", judged again at commit {}.", short_hash(commit)),
            None => write!(f, "."),
        }
    }
}

/// Returns the first ten digits of a commit hash.
fn short_hash(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// The number of plans in a study, and a hash of all plans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFingerprint {
    /// The number of plans: one per cell and seed.
    pub count: usize,
    /// The hash of each plan's cell, seed and plan hash, ordered by cell and seed.
    pub hash: String,
}

impl PlanFingerprint {
    /// Returns the fingerprint of runs, which must be ordered by cell and seed.
    pub fn of_runs<'a>(runs: impl Iterator<Item = &'a Manifest>) -> Self {
        let lines: Vec<String> =
            runs.map(|run| plan_line(&cell_name(&run.cell), run.seed, &run.plan_hash)).collect();
        Self::of_lines(&lines)
    }

    /// Returns the fingerprint of a study's current plans.
    pub fn of_study(study: &Study, backend: &dyn Backend) -> Result<Self, ScenarioError> {
        let mut lines = Vec::new();
        let is_skipped = study.skip_reason().is_some();
        for cell in study.cells.iter().filter(|_| !is_skipped) {
            for seed in 1..=u64::from(study.seed_count(cell, None)) {
                let plan = match cell.scenario.analytic {
                    Some(form) => closed_form_hash(form, &cell.labels),
                    None => plan_hash(&study.resolve(cell, seed, backend)?),
                };
                lines.push(plan_line(&cell_name(&cell.labels), seed, &plan));
            }
        }
        Ok(Self::of_lines(&lines))
    }

    fn of_lines(lines: &[String]) -> Self {
        Self { count: lines.len(), hash: content_hash(lines.concat().as_bytes()) }
    }
}

fn plan_line(cell: &str, seed: u64, plan: &str) -> String {
    format!("{cell}\t{seed}\t{plan}\n")
}

/// Returns the reason why a published study is stale; `None` if it is current. `study` is the current scenario, and
/// `plans` are its current plans. If `plans` is `None`, plans are not compared.
pub fn stale_reason(
    provenance: Option<&Provenance>,
    study: Option<&Study>,
    plans: Option<&PlanFingerprint>,
) -> Option<String> {
    let Some(provenance) = provenance else { return Some("it was published without hashes".into()) };
    let Some(study) = study else { return Some("its scenario no longer exists".into()) };
    let current_hash = content_hash(study.text.as_bytes());
    if provenance.scenario_hash != current_hash {
        return Some(format!(
            "the hash of its scenario was {} and is now {current_hash}",
            provenance.scenario_hash
        ));
    }
    let PlanFingerprint { count, hash } = &provenance.plans;
    match plans {
        Some(current) if current.count != *count => {
            Some(format!("it had {count} runs and now has {}", current.count))
        }
        Some(current) if current.hash != *hash => {
            Some(format!("the hash of its plans was {hash} and is now {}", current.hash))
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\nsource = \"s\"\nanalytic = \"fair-ramp\"\n";

    #[test]
    fn a_study_is_stale_if_its_text_or_a_plan_has_changed() {
        let study = Study::read("scenarios/a.toml", TEXT, false).expect("the scenario is valid");
        let plans = |hash: &str| PlanFingerprint { count: 1, hash: hash.into() };
        let published = Provenance {
            commit: "c".into(),
            program: "t".into(),
            code_hash: "0".into(),
            scenario_hash: content_hash(TEXT.as_bytes()),
            plans: plans("p"),
            quick: false,
            on_linux: false,
            judged_at: None,
        };
        let stale = |study: Option<&Study>, plans: &PlanFingerprint| {
            stale_reason(Some(&published), study, Some(plans)).unwrap_or_default()
        };
        assert_eq!(stale(Some(&study), &plans("p")), "");
        assert_eq!(stale_reason(Some(&published), Some(&study), None), None);
        let changed = Study::read("scenarios/a.toml", &format!("{TEXT}# more\n"), false)
            .expect("the scenario is valid");
        assert!(stale(Some(&changed), &plans("p")).starts_with("the hash of its scenario was "));
        assert_eq!(stale(Some(&study), &plans("q")), "the hash of its plans was p and is now q");
        assert_eq!(
            stale(Some(&study), &PlanFingerprint { count: 2, hash: "p".into() }),
            "it had 1 runs and now has 2"
        );
        assert_eq!(stale(None, &plans("p")), "its scenario no longer exists");
        assert_eq!(
            stale_reason(None, Some(&study), None).as_deref(),
            Some("it was published without hashes")
        );
    }
}
