//! Reads all runs of studies from an object store: for their state, and to copy them into a results folder.

use super::claims::{ClaimText, claim_key};
use super::{MAX_TEXT, RemoteResults, RunRecord, is_safe_study, run_key};
use crate::claims::ClaimStatus;
use crate::manifest::Manifest;
use crate::merge::{MergeError, MergeReport};
use crate::store::{FailedRun, SCENARIO_FILE, Store, StoreError, read_manifest, write_file};
use crate::study::natural_order;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;

/// The requests at the same time. The answers take milliseconds, and the server answers them in parallel.
const CONNECTIONS: usize = 16;

/// What [`RemoteResults::pull`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullReport {
    /// The runs that were copied.
    pub copied: usize,
    /// The runs that the results folder already had.
    pub present: usize,
}

impl RemoteResults {
    /// Returns the names of the stored studies, sorted.
    pub fn studies(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names("studies/", ".toml")?;
        names.retain(|name| is_safe_study(name));
        names.sort_by_key(|name| natural_order(name));
        Ok(names)
    }

    /// Returns the text of a study's scenario.
    pub(crate) fn scenario(&self, study: &str) -> Result<Vec<u8>, StoreError> {
        let key = super::study_key(study);
        let text = self.storage.get(&key, MAX_TEXT)?;
        text.map(|object| object.bytes).ok_or_else(|| self.corrupt(&key, "it does not exist"))
    }

    /// Lists the complete runs of a study.
    fn runs(&self, study: &str) -> Result<Vec<String>, StoreError> {
        self.names(&format!("runs/{study}/"), ".json")
    }

    /// Lists the keys with this prefix and suffix, without both.
    fn names(&self, prefix: &str, suffix: &str) -> Result<Vec<String>, StoreError> {
        let objects = self.storage.list(prefix.trim_end_matches('/'))?;
        let name = |key: &str| Some(key.strip_prefix(prefix)?.strip_suffix(suffix)?.to_owned());
        Ok(objects.iter().filter_map(|object| name(&object.key)).collect())
    }

    /// Calls a function with the text of the record of each run, and returns the results in no particular order.
    pub(crate) fn map_records<T: Send>(
        &self,
        study: &str,
        map: impl Fn(&[u8]) -> Option<T> + Sync,
    ) -> Result<Vec<T>, StoreError> {
        // The runs of a study "a/b" are not those of a study "a".
        let runs: Vec<String> = self.runs(study)?.into_iter().filter(|run| !run.contains('/')).collect();
        let read = |run: &String| -> Result<Option<T>, StoreError> {
            let object = self.storage.get(&run_key(study, run), MAX_TEXT)?;
            Ok(object.and_then(|object| map(&object.bytes)))
        };
        let results: Result<Vec<Option<T>>, StoreError> = concurrently(&runs, read).into_iter().collect();
        Ok(results?.into_iter().flatten().collect())
    }

    /// Lists the claims of the runs of a study that are not complete. Of a run that was taken over, the last claim
    /// counts.
    pub(crate) fn list_claims(&self, study: &str) -> Result<Vec<ClaimStatus>, StoreError> {
        let complete: BTreeSet<String> = self.runs(study)?.into_iter().collect();
        let mut last: BTreeMap<String, u32> = BTreeMap::new();
        for name in self.names(&format!("claims/{study}/"), "")? {
            let Some((run, generation)) = name.rsplit_once('.') else { continue };
            let Ok(generation) = generation.parse::<u32>() else { continue };
            if !complete.contains(run) && !run.contains('/') {
                let known = last.entry(run.to_owned()).or_default();
                *known = generation.max(*known);
            }
        }
        let last: Vec<(String, u32)> = last.into_iter().collect();
        let read = |(run, generation): &(String, u32)| -> Result<Option<ClaimStatus>, StoreError> {
            let key = claim_key(&format!("claims/{study}/{run}"), *generation);
            let claim = self.claims.read(&key)?;
            Ok(claim.map(|(text, is_expired)| ClaimStatus {
                run: run.clone(),
                owner: text.map(|ClaimText { owner, .. }| owner),
                is_expired,
            }))
        };
        let claims: Result<Vec<Option<ClaimStatus>>, StoreError> =
            concurrently(&last, read).into_iter().collect();
        Ok(claims?.into_iter().flatten().collect())
    }

    /// Lists the failed runs of a study that have not succeeded since.
    pub(crate) fn failures(&self, study: &str) -> Result<Vec<FailedRun>, StoreError> {
        let complete: BTreeSet<String> = self.runs(study)?.into_iter().collect();
        let mut names = self.names(&format!("failures/{study}/"), ".json")?;
        names.retain(|run| !complete.contains(run) && !run.contains('/'));
        names.sort();
        let mut failures = Vec::new();
        for name in names {
            let object = self.storage.get(&super::failure_key(study, &name), MAX_TEXT)?;
            failures.extend(object.and_then(|object| serde_json::from_slice(&object.bytes).ok()));
        }
        Ok(failures)
    }

    /// Copies the complete runs of a study that the results folder does not have. Corrupt runs are skipped, and `warn` is
    /// called with the reason.
    pub fn pull(
        &self,
        store: &Store,
        study: &str,
        warn: &(dyn Fn(&str) + Sync),
    ) -> Result<PullReport, StoreError> {
        let report = Mutex::new(PullReport::default());
        self.for_each_record(study, warn, |record| {
            let folder = store.run_folder(study, &record.manifest.run_name());
            let is_present = read_manifest(&folder).ok().flatten().is_some_and(|manifest| {
                let is_file = |(name, _): &(String, u64)| folder.join(name).is_file();
                let has_requests = record
                    .manifest
                    .requests()
                    .all(|request| manifest.requests().any(|known| known == request));
                !manifest.interrupted && has_requests && record.manifest.files.iter().all(is_file)
            });
            if !is_present {
                self.download(store, study, &record.manifest.run_name(), &record)?;
            }
            self.remember(run_key(study, &record.manifest.run_name()), &record);
            let mut report = super::lock(&report);
            if is_present {
                report.present += 1
            } else {
                report.copied += 1
            }
            Ok(())
        })?;
        Ok(report.into_inner().unwrap_or_default())
    }

    fn for_each_record(
        &self,
        study: &str,
        warn: &(dyn Fn(&str) + Sync),
        handle: impl Fn(RunRecord) -> Result<(), StoreError> + Sync,
    ) -> Result<(), StoreError> {
        let runs: Vec<String> = self.runs(study)?.into_iter().filter(|run| !run.contains('/')).collect();
        let results = concurrently(&runs, |run| {
            let record = self.read_record(study, run);
            match record.and_then(|record| record.map_or(Ok(()), &handle)) {
                Err(error @ StoreError::CorruptObject { .. }) => {
                    warn(&error.to_string());
                    Ok(())
                }
                result => result,
            }
        });
        results.into_iter().collect()
    }

    /// Copies the complete runs of all studies into a results folder, as [`crate::merge::merge`] does with a folder.
    pub fn merge_into(
        &self,
        target: &Store,
        report: &mut MergeReport,
        warn: &(dyn Fn(&str) + Sync),
    ) -> Result<(), MergeError> {
        for study in self.studies()? {
            let text = self.scenario(&study)?;
            let folder = target.study_folder(&study);
            match fs::read(folder.join(SCENARIO_FILE)) {
                Ok(other) if other == text => {}
                Ok(_) if report.other_scenarios.contains(&study) => {}
                Ok(_) => report.other_scenarios.push(study.clone()),
                Err(_) => write_file(&folder, SCENARIO_FILE, &text)?,
            }
            let different: Mutex<Option<MergeError>> = Mutex::new(None);
            let (copied, present, corrupt) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            let warn = |text: &str| {
                corrupt.fetch_add(1, Ordering::Relaxed);
                warn(text);
            };
            self.for_each_record(&study, &warn, |record| {
                let run = record.manifest.run_name();
                let folder = target.run_folder(&study, &run);
                let is_complete = |manifest: &Manifest| !manifest.interrupted;
                match read_manifest(&folder).ok().flatten().filter(is_complete) {
                    Some(found) if found.result_hash != record.manifest.result_hash => {
                        super::lock(&different).get_or_insert_with(|| MergeError::Different {
                            first_folder: folder,
                            second_folder: format!("{}/{}", self.url(), run_key(&study, &run)).into(),
                            first: found.result_hash,
                            second: record.manifest.result_hash,
                        });
                    }
                    Some(found) => {
                        let mut merged = found;
                        let new: Vec<_> = record
                            .manifest
                            .requests()
                            .filter(|request| !merged.requests().any(|known| known == *request))
                            .collect();
                        if !new.is_empty() {
                            merged.other_requests.extend(new);
                            target.write_manifest(&study, &merged)?;
                        }
                        present.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {
                        self.download(target, &study, &run, &record)?;
                        copied.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            })?;
            if let Some(error) = different.into_inner().unwrap_or_default() {
                return Err(error);
            }
            report.copied += copied.into_inner();
            report.present += present.into_inner();
            report.incomplete += corrupt.into_inner();
            if !report.studies.contains(&study) {
                report.studies.push(study);
            }
        }
        Ok(())
    }
}

/// Calls a function with each item, for several items at the same time, and returns the results in the order of the
/// items.
fn concurrently<I: Sync, T: Send>(items: &[I], map: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return results };
            results.push((index, map(item)));
        }
    };
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..CONNECTIONS.min(items.len())).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("the function does not panic")).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
