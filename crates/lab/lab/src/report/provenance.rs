//! What identifies a published result: the text of its scenario, its plans, the code and the commit.
//!
//! A study is older than its scenario where the scenario's text or a plan is no longer what was run. The code's hash does not count: newer
//! code is held against older numbers by running the study again (`poseidon verify`).

use crate::canonical::{closed_form_hash, plan_hash};
use crate::judge::named;
use crate::scenario::ScenarioError;
use crate::store::{Manifest, hash};
use crate::study::Study;
use core::fmt;
use poseidon_plan::Backend;
use serde::{Deserialize, Serialize};

/// What the table of results says of a study whose scenario has changed since.
pub const OLDER: &str = "older than its scenario";

/// What a published study comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The commit of the code and the scenario.
    pub commit: String,
    /// The program that ran it.
    pub tool: String,
    /// The hash of the code that made the numbers.
    pub code_hash: String,
    /// The hash of the scenario's text.
    pub scenario_hash: String,
    /// Its plans.
    pub plans: Plans,
    /// Whether it was cut.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub quick: bool,
    /// Whether it ran on real packets; only such a program can resolve its plans again.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub on_linux: bool,
    /// The commit whose claims it was judged by, where those have changed since it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_at: Option<String>,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "From commit {}: {}", short(&self.commit), self.tool)?;
        match &self.judged_at {
            Some(commit) => write!(f, ", judged again at commit {}.", short(commit)),
            None => write!(f, "."),
        }
    }
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// The plans of a study: how many, and one hash of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plans {
    /// How many: cells times seeds.
    pub count: usize,
    /// The hash of cell, seed and plan hash of each, in the order of cells and seeds.
    pub hash: String,
}

impl Plans {
    fn of(lines: &[String]) -> Self {
        Self { count: lines.len(), hash: hash(lines.concat().as_bytes()) }
    }
}

fn line(cell: &str, seed: u64, plan: &str) -> String {
    format!("{cell}\t{seed}\t{plan}\n")
}

/// The plans that runs have run; `runs` in the order of cells and seeds.
pub fn plans_of_runs<'a>(runs: impl Iterator<Item = &'a Manifest>) -> Plans {
    let lines: Vec<String> = runs.map(|run| line(&named(&run.cell), run.seed, &run.plan_hash)).collect();
    Plans::of(&lines)
}

/// The plans that a study has now.
pub fn plans_of(study: &Study, backend: &dyn Backend) -> Result<Plans, ScenarioError> {
    let mut lines = Vec::new();
    let is_skipped = study.is_quick && study.scenario().quick.skip.is_some();
    for cell in study.cells.iter().filter(|_| !is_skipped) {
        for seed in 1..=u64::from(study.seeds(cell, None)) {
            let plan = match cell.scenario.analytic {
                Some(which) => closed_form_hash(which, &cell.labels),
                None => plan_hash(&study.resolve(cell, seed, backend)?),
            };
            lines.push(line(&named(&cell.labels), seed, &plan));
        }
    }
    Ok(Plans::of(&lines))
}

/// Why a published study is older than its scenario, in words; `None` where it is not. `study` is the scenario as it is now, and
/// `plans` are its plans, where they are to be compared.
pub fn why_stale(
    provenance: Option<&Provenance>,
    study: Option<&Study>,
    plans: Option<&Plans>,
) -> Option<String> {
    let Some(provenance) = provenance else { return Some("it was published without hashes".into()) };
    let Some(study) = study else { return Some("its scenario is gone".into()) };
    let now = hash(study.text.as_bytes());
    if provenance.scenario_hash != now {
        return Some(format!("its scenario's hash was {} and is {now}", provenance.scenario_hash));
    }
    let Plans { count, hash } = &provenance.plans;
    match plans {
        Some(now) if now.count != *count => Some(format!("it had {count} runs and has {}", now.count)),
        Some(now) if now.hash != *hash => {
            Some(format!("the hash of its plans was {hash} and is {}", now.hash))
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\nsource = \"s\"\nanalytic = \"fair-ramp\"\n";

    #[test]
    fn a_study_is_stale_where_its_text_or_a_plan_has_changed() {
        let study = Study::read("scenarios/a.toml", TEXT, false).expect("a scenario");
        let plans = |hash: &str| Plans { count: 1, hash: hash.into() };
        let published = Provenance {
            commit: "c".into(),
            tool: "t".into(),
            code_hash: "0".into(),
            scenario_hash: hash(TEXT.as_bytes()),
            plans: plans("p"),
            quick: false,
            on_linux: false,
            judged_at: None,
        };
        let stale = |study: Option<&Study>, plans: &Plans| {
            why_stale(Some(&published), study, Some(plans)).unwrap_or_default()
        };
        assert_eq!(stale(Some(&study), &plans("p")), "");
        assert_eq!(why_stale(Some(&published), Some(&study), None), None);
        let changed = Study::read("scenarios/a.toml", &format!("{TEXT}# more\n"), false).expect("a scenario");
        assert!(stale(Some(&changed), &plans("p")).starts_with("its scenario's hash was "));
        assert_eq!(stale(Some(&study), &plans("q")), "the hash of its plans was p and is q");
        assert_eq!(stale(Some(&study), &Plans { count: 2, hash: "p".into() }), "it had 1 runs and has 2");
        assert_eq!(stale(None, &plans("p")), "its scenario is gone");
        assert_eq!(why_stale(None, Some(&study), None).as_deref(), Some("it was published without hashes"));
    }
}
