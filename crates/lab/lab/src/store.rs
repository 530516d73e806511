//! Stores results in one folder per study, with one subfolder per run. A run's subfolder is named after the hash of its
//! plan and program.
//!
//! ```text
//! results/poseidon/fig14b/scenario.toml            the scenario
//! results/poseidon/fig14b/runs/3f0a…/summary.json  the metrics
//! results/poseidon/fig14b/runs/3f0a…/manifest.json the run metadata
//! results/poseidon/fig14b/runs/3f0a…/messages.bin  the completion time of each message
//! results/poseidon/fig14b/runs/3f0a…/plan.txt      the effective configuration
//! results/poseidon/fig14b/runs/3f0a…/*.parquet     the rows, if requested
//! results/poseidon/fig14b/claims/3f0a….1           the process that computes a run ([`crate::claims`])
//! results/poseidon/fig14b/failures/3f0a….json      why a run failed
//! ```
//!
//! The manifest is written last, so a folder with a manifest is complete. Studies that need the same plan share its
//! run. The second study copies the summary, and its manifest names the study that executed the run.

use crate::host::host_name;
use crate::manifest::{Manifest, RunRequest, content_hash};
use crate::objects::ObjectError;
use crate::parallel::parallel_map;
use crate::samples::{MessageSamples, MessageStorage, SamplesError};
use crate::scenario::Label;
use crate::study::{RunId, Study};
use crate::summary::{RunSummary, Summary};
use crate::tables::Format;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The file that stores a study's scenario. A folder that contains this file contains results.
pub const SCENARIO_FILE: &str = "scenario.toml";
const SUMMARY_FILE: &str = "summary.json";
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
const MESSAGES_FILE: &str = "messages.bin";
const PLAN_FILE: &str = "plan.txt";
/// The folder of failed runs in the folder of a study.
const FAILURES_FOLDER: &str = "failures";

/// An error while reading or writing results.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder cannot be accessed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// A file does not contain the expected JSON.
    #[error("{} is corrupt: {source}", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The JSON error.
        source: serde_json::Error,
    },
    /// A result cannot be written as JSON.
    #[error("cannot write a result as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
    /// A stored run cannot be loaded.
    #[error("{0}; remove that folder and run the study again")]
    UnreadableRun(#[source] Box<Self>),
    /// An object store cannot be accessed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An object in an object store is not what this program writes.
    #[error("{url} is corrupt: {reason}; remove that object and run the study again")]
    CorruptObject {
        /// The URL of the object.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The same program computed different results for the same plan.
    #[error(
        "{url} has the result {first}, but this machine computed {second} for the same plan and program; remove the \
         wrong one: results are not reproducible on one of the machines"
    )]
    DifferentResults {
        /// The URL of the run.
        url: String,
        /// The hash of the stored result.
        first: String,
        /// The hash of the computed result.
        second: String,
    },
}

impl StoreError {
    /// Adds the path to an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }
}

/// A completed run with its result.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// The study's index in the study list.
    pub study: usize,
    /// The result.
    pub run: RunSummary,
    /// The run metadata.
    pub manifest: Manifest,
}

impl FinishedRun {
    /// Loads the message times from disk and returns the complete result.
    pub fn with_messages(&self) -> Result<RunSummary, SamplesError> {
        Ok(RunSummary { messages: self.run.messages.load()?, ..self.run.clone() })
    }
}

/// Loads the message times of all runs that were not interrupted.
pub fn complete_runs<'a>(
    runs: impl IntoIterator<Item = &'a FinishedRun>,
) -> Result<Vec<RunSummary>, SamplesError> {
    let complete: Vec<&FinishedRun> = runs.into_iter().filter(|run| !run.manifest.interrupted).collect();
    parallel_map(&complete, |run| run.with_messages()).into_iter().collect()
}

/// The completed runs of a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredRuns {
    /// The cell labels and the seed of each run that has a reusable result for this text of the scenario.
    pub runs: BTreeSet<(Vec<Label>, u64)>,
    /// The names of all runs with a reusable result, also of other texts of the scenario.
    pub names: BTreeSet<String>,
    /// The cell labels and the seed of each run that only lacks the requested rows.
    pub without_rows: BTreeSet<(Vec<Label>, u64)>,
    /// The number of runs that this study executed.
    pub count: usize,
    /// The duration of these runs in seconds.
    pub wall_s: f64,
    /// The packet-hops of these runs.
    pub packet_hops: u64,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    /// The cell labels.
    pub cell: Vec<Label>,
    /// The seed.
    pub seed: u64,
    /// The error.
    pub error: String,
}

/// A results folder.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    /// Whether each file of a run is on the disk before its name appears.
    is_synced: bool,
}

impl Store {
    /// Opens a results folder, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), is_synced: false }
    }

    /// Writes each file of a run to the disk before its name appears, so that a machine that stops leaves no run with
    /// lost data. A run then takes about 10 ms longer.
    #[must_use]
    pub fn synced(self) -> Self {
        Self { is_synced: true, ..self }
    }

    /// Returns the root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a study's folder.
    pub fn study_folder(&self, study: &str) -> PathBuf {
        self.root.join(study)
    }

    /// Returns a run's folder.
    pub fn run_folder(&self, study: &str, run_name: &str) -> PathBuf {
        self.study_folder(study).join("runs").join(run_name)
    }

    /// Writes a study's scenario file, unless it has this content.
    pub fn write_scenario(&self, study: &Study) -> Result<(), StoreError> {
        let folder = self.study_folder(&study.name);
        if fs::read(folder.join(SCENARIO_FILE)).is_ok_and(|text| text == study.text.as_bytes()) {
            return Ok(());
        }
        write_file(&folder, SCENARIO_FILE, study.text.as_bytes())
    }

    /// Returns whether a study has a complete result of a run, with rows in this format if `rows` is set. Reads one
    /// manifest.
    pub fn has_run(&self, study: &Study, run_name: &str, rows: Option<Format>) -> bool {
        let manifest = read_manifest(&self.run_folder(&study.name, run_name)).ok().flatten();
        manifest.is_some_and(|manifest| {
            let has_rows = rows.is_none_or(|format| self.has_rows(&study.name, &manifest, format));
            !manifest.interrupted && has_rows && is_requested(study, &manifest)
        })
    }

    /// Records that a run failed.
    pub fn write_failure(&self, study: &str, run_name: &str, failure: &FailedRun) -> Result<(), StoreError> {
        write_json(&self.study_folder(study).join(FAILURES_FOLDER), &format!("{run_name}.json"), failure)
    }

    /// Returns whether a run has failed and has not succeeded since.
    pub fn has_failed(&self, study: &str, run_name: &str) -> bool {
        self.failure_file(study, run_name).is_file()
    }

    fn failure_file(&self, study: &str, run_name: &str) -> PathBuf {
        self.study_folder(study).join(FAILURES_FOLDER).join(format!("{run_name}.json"))
    }

    /// Lists the failed runs of a study. Unreadable files are skipped.
    pub fn failures(&self, study: &str) -> Vec<FailedRun> {
        let folder = self.study_folder(study).join(FAILURES_FOLDER);
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.into_iter().filter_map(read).collect()
    }

    /// Finds a complete stored result of this or another study. If `rows` is set, the result must have rows in that
    /// format, and rows of this study must name a cell of the study. Unreadable results are skipped, and `warn` is
    /// called with the reason.
    pub fn find(
        &self,
        study: &Study,
        run_name: &str,
        rows: Option<Format>,
        warn: &dyn Fn(&str),
    ) -> Option<(Summary, Manifest)> {
        let find_in_study = |name: &str| {
            let (summary, manifest) = read_run(&self.run_folder(name, run_name)).unwrap_or_else(|error| {
                warn(&format!("{error}; the run is repeated"));
                None
            })?;
            let has_rows = rows.is_none_or(|format| {
                self.has_rows(name, &manifest, format)
                    && (name != study.name || has_cell(study, &manifest.cell))
            });
            (!manifest.interrupted && has_rows).then_some((summary, manifest))
        };
        find_in_study(&study.name).or_else(|| {
            let others = self.studies_with(SCENARIO_FILE).unwrap_or_default();
            others.iter().filter(|other| **other != study.name).find_map(|other| {
                let (summary, manifest) = find_in_study(other)?;
                let made_in = manifest.made_in.clone().or_else(|| Some(other.clone()));
                Some((summary, Manifest { made_in, ..manifest }))
            })
        })
    }

    /// Lists the runs of a study that `program` has completed for the same scenario text, and their total duration. If
    /// `rows` is set, a run must have rows in that format. Reads only manifests, and skips those that are unreadable.
    pub fn stored_runs(&self, study: &Study, program: &str, rows: Option<Format>) -> StoredRuns {
        let scenario_hash = content_hash(study.text.as_bytes());
        let mut stored = StoredRuns::default();
        let manifests = self.map_runs(&study.name, |folder| read_manifest(folder).ok().flatten());
        for manifest in manifests.unwrap_or_default() {
            if manifest.interrupted || manifest.program != program {
                continue;
            }
            if manifest.made_in.is_none() && manifest.wall_s > 0.0 {
                stored.count += 1;
                stored.wall_s += manifest.wall_s;
                stored.packet_hops += manifest.counters.number("packet_hops").unwrap_or(0);
            }
            let lacks_rows = rows.is_some_and(|format| !self.has_rows(&study.name, &manifest, format));
            // Rows name a cell of the study that wrote them.
            if rows.is_some() && !lacks_rows && !has_cell(study, &manifest.cell) {
                continue;
            }
            let requests = manifest
                .requests()
                .filter(|request| request.scenario_hash == scenario_hash && request.quick == study.is_quick)
                .map(|request| (request.cell, manifest.seed));
            if lacks_rows {
                stored.without_rows.extend(requests);
            } else {
                stored.runs.extend(requests);
                stored.names.insert(manifest.run_name());
            }
        }
        stored
    }

    /// Returns whether all row files listed in a manifest exist in this format, in the folder of the study that wrote
    /// them.
    pub(crate) fn has_rows(&self, study: &str, manifest: &Manifest, format: Format) -> bool {
        let folder = self.run_folder(manifest.made_in.as_deref().unwrap_or(study), &manifest.run_name());
        let extension = format!(".{}", format.name());
        let mut files = manifest.files.iter().filter(|(name, _)| name.ends_with(&extension)).peekable();
        let exists =
            |name: &str| fs::metadata(folder.join(name)).is_ok_and(|file| file.is_file() && file.len() > 0);
        files.peek().is_some() && files.all(|(name, _)| exists(name))
    }

    /// Returns the names of all studies whose folder contains `file`, in no particular order. Folders may be nested two
    /// levels deep.
    pub fn studies_with(&self, file: &str) -> Result<Vec<String>, StoreError> {
        let mut studies = Vec::new();
        let mut scan = |folder: &Path, prefix: &str| -> Result<Vec<String>, StoreError> {
            let mut subfolders = Vec::new();
            let entries = fs::read_dir(folder).map_err(StoreError::io(&self.root))?;
            for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                if entry.path().join(file).is_file() {
                    studies.push(name);
                } else {
                    subfolders.push(name);
                }
            }
            Ok(subfolders)
        };
        for folder in scan(&self.root, "")? {
            scan(&self.root.join(&folder), &format!("{folder}/"))?;
        }
        Ok(studies)
    }

    /// Writes a run's message times.
    pub fn write_messages(
        &self,
        study: &str,
        run_name: &str,
        messages: &MessageSamples,
    ) -> Result<(), StoreError> {
        self.write_file(&self.run_folder(study, run_name), MESSAGES_FILE, &messages.to_bytes())
    }

    /// Returns the location of a run's message times.
    pub fn messages(&self, study: &str, run_name: &str) -> MessageStorage {
        messages_in(&self.run_folder(study, run_name))
    }

    /// Writes a run's effective configuration.
    pub fn write_plan(&self, study: &str, run_name: &str, text: &str) -> Result<(), StoreError> {
        write_file(&self.run_folder(study, run_name), PLAN_FILE, text.as_bytes())
    }

    /// Writes a run's summary and manifest. An interrupted run does not replace a complete one, which another process
    /// may have written in the meantime.
    pub fn write_run(&self, study: &str, summary: &Summary, manifest: &Manifest) -> Result<(), StoreError> {
        let run_name = manifest.run_name();
        let folder = self.run_folder(study, &run_name);
        let is_complete = |manifest: &Manifest| !manifest.interrupted;
        if manifest.interrupted && read_manifest(&folder).ok().flatten().as_ref().is_some_and(is_complete) {
            return Ok(());
        }
        self.write_file(&folder, SUMMARY_FILE, &serde_json::to_vec_pretty(summary)?)?;
        self.write_file(&folder, MANIFEST_FILE, &serde_json::to_vec_pretty(manifest)?)?;
        if !manifest.interrupted {
            // Usually, there is no such file.
            let _ = fs::remove_file(self.failure_file(study, &run_name));
        }
        Ok(())
    }

    /// Writes a run's manifest.
    pub(crate) fn write_manifest(&self, study: &str, manifest: &Manifest) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec_pretty(manifest)?;
        self.write_file(&self.run_folder(study, &manifest.run_name()), MANIFEST_FILE, &bytes)
    }

    /// Calls a function with the folder of each run of a study, on all cores, and returns the results in no particular
    /// order.
    pub(crate) fn map_runs<T: Send>(
        &self,
        study: &str,
        map: impl Fn(&Path) -> Option<T> + Sync,
    ) -> Result<Vec<T>, StoreError> {
        let folder = self.study_folder(study).join("runs");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io(&folder)(error)),
        };
        let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        Ok(parallel_map(&paths, |path| map(path)).into_iter().flatten().collect())
    }

    fn write_file(&self, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        replace_file(folder, name, bytes, self.is_synced)
    }

    /// Records that a stored result also satisfies this request, and returns the manifest for this request.
    pub fn reuse_run(
        &self,
        study: &Study,
        id: &RunId,
        summary: &Summary,
        mut manifest: Manifest,
    ) -> Result<Manifest, StoreError> {
        let request = RunRequest {
            scenario_hash: content_hash(study.text.as_bytes()),
            quick: study.is_quick,
            cell: id.labels.clone(),
        };
        let run_name = manifest.run_name();
        let folder = self.run_folder(&study.name, &run_name);
        if manifest.scenario != study.name {
            let manifest = Manifest { scenario: study.name.clone(), ..manifest.for_request(request) };
            // Each study reads message times from its own folder.
            if let Some(made_in) = &manifest.made_in {
                let source = self.run_folder(made_in, &run_name).join(MESSAGES_FILE);
                if source.is_file() {
                    let bytes = fs::read(&source).map_err(StoreError::io(&source))?;
                    write_file(&folder, MESSAGES_FILE, &bytes)?;
                }
            }
            return self.write_run(&study.name, summary, &manifest).map(|()| manifest);
        }
        if !manifest.requests().any(|known| known == request) {
            manifest.other_requests.push(request.clone());
            write_json(&folder, MANIFEST_FILE, &manifest)?;
        }
        Ok(manifest.for_request(request))
    }

    /// Loads the runs that `program` has completed for this text of the study, by the index of the cell and the seed. If
    /// `rows` is set, a run must have rows in that format. Unreadable runs are skipped. The scenario must not name
    /// files, because their content can change while the text stays.
    pub(crate) fn load_reusable_runs(
        &self,
        study_index: usize,
        study: &Study,
        program: &str,
        rows: Option<Format>,
    ) -> BTreeMap<(usize, u64), FinishedRun> {
        let scenario_hash = content_hash(study.text.as_bytes());
        let cells = cell_indices(study);
        let matches =
            |request: &RunRequest| request.scenario_hash == scenario_hash && request.quick == study.is_quick;
        let read = |folder: &Path| {
            let manifest = read_manifest(folder).ok().flatten()?;
            let is_reusable = manifest.program == program
                && !manifest.interrupted
                && manifest.requests().any(|request| matches(&request))
                && rows.is_none_or(|format| {
                    self.has_rows(&study.name, &manifest, format) && has_cell(study, &manifest.cell)
                });
            let summary = is_reusable.then(|| read_summary(folder).ok()).flatten()?;
            Some(runs_of_study(study_index, &cells, folder, (summary, manifest), matches))
        };
        let runs = self.map_runs(&study.name, read).unwrap_or_default();
        runs.into_iter().flatten().map(|(cell, seed, run)| ((cell, seed), run)).collect()
    }

    /// Loads the stored runs that match a study's scenario text, ordered by cell and seed. `study_index` is stored in
    /// each run as its study. If several programs ran the same plan, the result from `program` takes precedence.
    pub fn load_runs(
        &self,
        study_index: usize,
        study: &Study,
        program: &str,
    ) -> Result<Vec<FinishedRun>, StoreError> {
        let scenario_hash = content_hash(study.text.as_bytes());
        let matches =
            |request: &RunRequest| request.scenario_hash == scenario_hash && request.quick == study.is_quick;
        let cells = cell_indices(study);
        let read = |folder: &Path| match read_run(folder) {
            Ok(run) => run.map(|run| Ok(runs_of_study(study_index, &cells, folder, run, matches))),
            Err(error) => Some(Err(StoreError::UnreadableRun(Box::new(error)))),
        };
        let read: Vec<Vec<(usize, u64, FinishedRun)>> =
            self.map_runs(&study.name, read)?.into_iter().collect::<Result<_, _>>()?;
        let mut runs: Vec<(usize, u64, FinishedRun)> = read.into_iter().flatten().collect();
        runs.sort_by_cached_key(|(cell, seed, run)| {
            let manifest = &run.manifest;
            let other_program = (manifest.program != program).then(|| manifest.program.clone());
            (*cell, *seed, manifest.interrupted, other_program)
        });
        runs.dedup_by_key(|(cell, seed, _)| (*cell, *seed));
        Ok(runs.into_iter().map(|(.., run)| run).collect())
    }
}

/// The index and the labels of each cell, by its labels.
type CellIndices<'a> = BTreeMap<&'a [Label], (usize, Arc<[Label]>)>;

fn cell_indices(study: &Study) -> CellIndices<'_> {
    let labels = study.cells.iter().map(|cell| cell.labels.as_slice());
    labels.enumerate().map(|(index, labels)| (labels, (index, labels.into()))).collect()
}

/// The size of a file without message times: the magic number and the number of selections.
const EMPTY_MESSAGES_BYTES: u64 = 16;

/// Returns the location of the message times in the folder of a run. A file without times need not be read.
fn messages_in(folder: &Path) -> MessageStorage {
    let file = folder.join(MESSAGES_FILE);
    match fs::metadata(&file) {
        Ok(metadata) if metadata.is_file() && metadata.len() != EMPTY_MESSAGES_BYTES => {
            MessageStorage::File(file)
        }
        _ => MessageStorage::None,
    }
}

/// Returns a stored run once for each request that it satisfies, with the index of its cell and its seed.
fn runs_of_study(
    study_index: usize,
    cells: &CellIndices<'_>,
    folder: &Path,
    (summary, manifest): (Summary, Manifest),
    matches: impl Fn(&RunRequest) -> bool,
) -> Vec<(usize, u64, FinishedRun)> {
    let (summary, messages) = (Arc::new(summary), messages_in(folder));
    let mut requests: Vec<RunRequest> = manifest.requests().filter(matches).collect();
    let run_of = |request: RunRequest, manifest: Manifest| {
        let (cell, labels) = cells.get(request.cell.as_slice())?;
        let run = RunSummary {
            labels: Arc::clone(labels),
            seed: manifest.seed,
            summary: Arc::clone(&summary),
            messages: messages.clone(),
        };
        let manifest = manifest.for_request(request);
        Some((*cell, manifest.seed, FinishedRun { study: study_index, run, manifest }))
    };
    let Some(last) = requests.pop() else { return Vec::new() };
    let mut runs: Vec<_> =
        requests.into_iter().filter_map(|request| run_of(request, manifest.clone())).collect();
    runs.extend(run_of(last, manifest));
    runs
}

/// Returns whether a manifest satisfies a request for this text of the study.
pub(crate) fn is_requested(study: &Study, manifest: &Manifest) -> bool {
    let scenario_hash = content_hash(study.text.as_bytes());
    manifest
        .requests()
        .any(|request| request.scenario_hash == scenario_hash && request.quick == study.is_quick)
}

/// Returns whether a study has a cell with these labels.
fn has_cell(study: &Study, labels: &[Label]) -> bool {
    study.cells.iter().any(|cell| cell.labels == labels)
}

/// Reads the result in a folder. Returns `None` if the folder has no manifest, because the result is then incomplete.
fn read_run(folder: &Path) -> Result<Option<(Summary, Manifest)>, StoreError> {
    let Some(manifest) = read_manifest(folder)? else { return Ok(None) };
    Ok(Some((read_summary(folder)?, manifest)))
}

pub(crate) fn read_summary(folder: &Path) -> Result<Summary, StoreError> {
    let path = folder.join(SUMMARY_FILE);
    read_small_file(&path, |summary| from_json(&path, summary)).map_err(StoreError::io(&path))?
}

/// Reads a file and parses it. Unlike [`fs::read`], does not ask for its size, and needs no memory for each file, which
/// saves time with 10^5 files.
pub(crate) fn read_small_file<T>(path: &Path, parse: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
    thread_local! {
        static CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    CONTENT.with_borrow_mut(|content| {
        content.clear();
        fs::File::open(path)?.take(u64::MAX).read_to_end(content)?;
        Ok(parse(content))
    })
}

/// Reads the manifest in a folder, if there is one.
pub(crate) fn read_manifest(folder: &Path) -> Result<Option<Manifest>, StoreError> {
    let path = folder.join(MANIFEST_FILE);
    match read_small_file(&path, |manifest| from_json(&path, manifest)) {
        Ok(manifest) => manifest.map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io(&path)(error)),
    }
}

fn from_json<T: serde::de::DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(text).map_err(|source| StoreError::Corrupt { path: path.to_owned(), source })
}

/// Writes a value as indented JSON.
pub(crate) fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
    write_file(folder, name, &serde_json::to_vec_pretty(value)?)
}

/// Writes a file, creating its folders if necessary. The file is written under a temporary name and renamed, so readers
/// never see a partial file. The temporary name is unique, so concurrent writers do not interfere with each other. The
/// last writer wins.
pub(crate) fn write_file(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    replace_file(folder, name, bytes, false)
}

/// Writes a file like [`write_file`]. If `is_synced` is set, its content is on the disk before its name appears.
fn replace_file(folder: &Path, name: &str, bytes: &[u8], is_synced: bool) -> Result<(), StoreError> {
    static WRITE_COUNT: AtomicU64 = AtomicU64::new(0);
    let path = folder.join(name);
    fs::create_dir_all(folder).map_err(StoreError::io(&path))?;
    let write_number = WRITE_COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{name}.{}-{write_number}.part", process_name()));
    let written = write_temporary(&temporary, bytes, is_synced).and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        StoreError::io(&path)(error)
    })
}

fn write_temporary(path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    if is_synced { file.sync_data() } else { Ok(()) }
}

/// Returns a name that no other process has, also on other machines.
pub(crate) fn process_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("{}-{}", host_name(), std::process::id()))
}
