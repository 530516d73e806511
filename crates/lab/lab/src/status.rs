//! How far the studies of a results folder are: which runs are done, running, failed and left, and when they end.

use crate::claims::{ClaimStatus, list_claims};
use crate::manifest::{RunRequest, content_hash};
use crate::remote::RemoteResults;
use crate::scenario::{Label, ScenarioError};
use crate::store::{FailedRun, SCENARIO_FILE, Store, StoreError, read_small_file};
use crate::study::{Study, natural_order};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The state of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StudyStatus {
    /// The name of the study.
    pub study: String,
    /// Whether the numbers count the runs of the quick form.
    pub quick: bool,
    /// The number of runs.
    pub runs: usize,
    /// The runs with a complete result.
    pub done: usize,
    /// The runs that a process computes now.
    pub running: usize,
    /// The runs whose process has ended without a result, or sends no heartbeat. Another process can repeat them.
    pub abandoned: usize,
    /// The runs that failed.
    pub failed: usize,
    /// The runs that nobody has started.
    pub left: usize,
    /// The duration of all done runs, in seconds.
    pub wall_s: f64,
    /// The estimated time until the end in seconds, from the durations of done runs and the number of running ones.
    /// `None` if nothing is running or no run is done.
    pub eta_s: Option<f64>,
    /// The running runs: the machine, the process and the run.
    pub running_runs: Vec<RunningRun>,
    /// The failed runs, with their errors.
    pub failed_runs: Vec<FailedRun>,
}

/// A run that a process computes now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunningRun {
    /// The machine.
    pub host: String,
    /// The process number.
    pub pid: u32,
    /// The study, cell and seed.
    pub run: String,
}

/// An error while reading the state of a results folder.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The folder cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

/// The part of a manifest that the state needs.
#[derive(Deserialize)]
struct ManifestHead {
    scenario_hash: String,
    quick: bool,
    cell: Vec<Label>,
    seed: u64,
    interrupted: bool,
    wall_s: f64,
    #[serde(rename = "also", default)]
    other_requests: Vec<RunRequest>,
}

/// The part of a record in an object store that the state needs.
#[derive(Deserialize)]
struct RecordHead {
    manifest: ManifestHead,
}

/// Reads the state of all studies in a results folder, sorted by name. `seeds` overrides the number of seeds in the
/// scenarios. Of a study without runs of its full form, the quick form counts.
pub fn read_status(store: &Store, seeds: Option<u32>) -> Result<Vec<StudyStatus>, StatusError> {
    let mut names = store.studies_with(SCENARIO_FILE)?;
    names.sort_by_key(|name| natural_order(name));
    names.iter().map(|name| read_study_status(store, name, seeds)).collect()
}

/// Reads the state of all studies in an object store, as [`read_status`] does.
pub fn read_remote_status(
    remote: &RemoteResults,
    seeds: Option<u32>,
) -> Result<Vec<StudyStatus>, StatusError> {
    let status = |name: &String| {
        // Claims first: a run that ends in between is done, not left.
        let claims = remote.list_claims(name)?;
        let manifests = remote
            .map_records(name, |text| Some(serde_json::from_slice::<RecordHead>(text).ok()?.manifest))?;
        let failures = remote.failures(name)?;
        summarize(name, &remote.scenario(name)?, manifests, claims, failures, seeds)
    };
    remote.studies()?.iter().map(status).collect()
}

fn read_study_status(store: &Store, name: &str, seeds: Option<u32>) -> Result<StudyStatus, StatusError> {
    let folder = store.study_folder(name);
    let path = folder.join(SCENARIO_FILE);
    let text = fs::read(&path).map_err(StoreError::io(&path))?;
    let manifests: Vec<ManifestHead> = store.map_runs(name, read_head)?;
    summarize(name, &text, manifests, list_claims(&folder), store.failures(name), seeds)
}

/// Counts the runs of a study with this scenario.
fn summarize(
    name: &str,
    text: &[u8],
    manifests: Vec<ManifestHead>,
    claims: Vec<ClaimStatus>,
    failures: Vec<FailedRun>,
    seeds: Option<u32>,
) -> Result<StudyStatus, StatusError> {
    let read = |quick| Study::read_bytes(&format!("scenarios/{name}.toml"), text, quick);
    let scenario_hash = content_hash(text);
    let is_current = |hash: &str| hash == scenario_hash;
    let has_full = manifests.iter().any(|head| is_current(&head.scenario_hash) && !head.quick);
    let has_quick = manifests.iter().any(|head| is_current(&head.scenario_hash) && head.quick);
    let study = read(has_quick && !has_full)?;
    let mut done: BTreeMap<(Vec<Label>, u64), f64> = BTreeMap::new();
    for head in manifests.into_iter().filter(|head| !head.interrupted) {
        let ManifestHead { scenario_hash, quick, cell, seed, wall_s, other_requests, .. } = head;
        let first = RunRequest { scenario_hash, quick, cell };
        for request in core::iter::once(first).chain(other_requests) {
            if is_current(&request.scenario_hash) && request.quick == study.is_quick {
                done.insert((request.cell, seed), wall_s);
            }
        }
    }
    Ok(count_runs(&study, seeds, &done, claims, failures))
}

fn read_head(folder: &Path) -> Option<ManifestHead> {
    read_small_file(&folder.join("manifest.json"), |text| serde_json::from_slice(text).ok()).ok()?
}

fn count_runs(
    study: &Study,
    seeds: Option<u32>,
    done: &BTreeMap<(Vec<Label>, u64), f64>,
    claims: Vec<ClaimStatus>,
    failed_runs: Vec<FailedRun>,
) -> StudyStatus {
    let (mut runs, mut done_count, mut wall_s, mut expected_s) = (0, 0, 0.0, 0.0);
    let mean = |durations: &[f64]| {
        (!durations.is_empty()).then(|| durations.iter().sum::<f64>() / durations.len() as f64)
    };
    let mut durations_of: BTreeMap<&[Label], Vec<f64>> = BTreeMap::new();
    for ((cell, _), wall_s) in done {
        durations_of.entry(cell).or_default().push(*wall_s);
    }
    let all: Vec<f64> = done.values().copied().collect();
    for cell in &study.cells {
        let durations = durations_of.get(cell.labels.as_slice());
        let expected = durations.and_then(|durations| mean(durations)).or_else(|| mean(&all)).unwrap_or(0.0);
        for seed in 1..=u64::from(study.seed_count(cell, seeds)) {
            runs += 1;
            match done.get(&(cell.labels.clone(), seed)) {
                Some(duration) => {
                    done_count += 1;
                    wall_s += duration;
                }
                None => expected_s += expected,
            }
        }
    }
    let running_runs: Vec<RunningRun> = claims
        .iter()
        .filter(|claim| !claim.is_expired)
        .map(|claim| match &claim.owner {
            Some(owner) => RunningRun { host: owner.host.clone(), pid: owner.pid, run: owner.run.clone() },
            None => RunningRun { host: "unknown".into(), pid: 0, run: claim.run.clone() },
        })
        .collect();
    let (running, abandoned) = (running_runs.len(), claims.len() - running_runs.len());
    let failed_names: BTreeSet<(&[Label], u64)> =
        failed_runs.iter().map(|run| (run.cell.as_slice(), run.seed)).collect();
    let failed = failed_names.len();
    StudyStatus {
        study: study.name.clone(),
        quick: study.is_quick,
        runs,
        done: done_count,
        running,
        abandoned,
        failed,
        left: runs.saturating_sub(done_count + running + abandoned + failed),
        wall_s,
        eta_s: (running > 0 && done_count > 0).then(|| expected_s / running as f64),
        running_runs,
        failed_runs,
    }
}
