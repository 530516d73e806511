//! Shares the runs of studies through an object store. Each process computes into a folder of its own.
//!
//! ```text
//! format.json                the version of this layout
//! studies/STUDY.toml         the scenario
//! blobs/3f/3f0a…             the content of a file, under its SHA-256 hash
//! runs/STUDY/RUN.json        the record of a complete run: its manifest, and the names and hashes of its files
//! claims/STUDY/RUN.1         the process that computes a run
//! failures/STUDY/RUN.json    why a run failed
//! clock/…                    objects that exist for a moment, to read the clock of the server
//! ```
//!
//! A writer first creates the blobs and then the record, so a run with a record is complete. A blob never changes, and a
//! record is one object. Files of different writers therefore cannot be mixed, even if a run is computed twice. Readers
//! compare each file with its hash.
//!
//! Every object of the hot path is found by its name. Only `status` and the collection of all runs list objects.

mod claims;
mod collect;

use crate::manifest::{Manifest, RunRequest};
use crate::objects::{ObjectError, ObjectStorage};
use crate::shared::{RunClaim, SharedResults};
use crate::store::{FailedRun, MANIFEST_FILE, Store, StoreError, is_requested, process_name, read_manifest};
use crate::study::Study;
use crate::tables::Format;
use claims::RemoteClaims;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use collect::PullReport;

/// The object that marks a prefix with results, and names the version of the layout.
const FORMAT_KEY: &str = "format.json";
const FORMAT_TEXT: &str = "{\"format\": \"poseidon results\", \"version\": 1}\n";

/// The largest record, scenario, claim or failure that is read.
const MAX_TEXT: u64 = 16 << 20;

/// The results below a prefix of an object store.
#[derive(Debug)]
pub struct RemoteResults {
    storage: Arc<dyn ObjectStorage>,
    claims: RemoteClaims,
    /// The runs that are known to be in the object store.
    known: Mutex<BTreeMap<String, KnownRun>>,
    /// The blobs whose content is not that of their name. They are replaced.
    corrupt: Mutex<BTreeSet<String>>,
}

/// What a record contains.
#[derive(Debug)]
struct KnownRun {
    requests: Vec<RunRequest>,
    files: BTreeSet<String>,
}

/// A complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RunRecord {
    manifest: Manifest,
    files: Vec<RecordFile>,
}

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordFile {
    name: String,
    size: u64,
    sha256: String,
}

/// The content of [`FORMAT_KEY`].
#[derive(Deserialize)]
struct FormatMarker {
    format: String,
    version: u32,
}

impl RemoteResults {
    /// Opens a prefix to compute runs, and checks that the server honours conditional puts. Claims expire after `expiry`
    /// without a heartbeat.
    pub fn open(storage: Arc<dyn ObjectStorage>, expiry: Duration) -> Result<Self, StoreError> {
        let create = || storage.create(FORMAT_KEY, FORMAT_TEXT.as_bytes());
        // The second attempt must fail.
        if create()? && create()? {
            return Err(ObjectError::NoConditionalPut { url: storage.url().to_owned() }.into());
        }
        Self::check_format(storage.as_ref())?;
        Ok(Self::new(storage, expiry))
    }

    /// Opens a prefix with results to read them. Returns `None` if there are none.
    pub fn open_existing(storage: Arc<dyn ObjectStorage>) -> Result<Option<Self>, StoreError> {
        let exists = Self::check_format(storage.as_ref())?;
        Ok(exists.then(|| Self::new(storage, crate::claims::DEFAULT_EXPIRY)))
    }

    fn new(storage: Arc<dyn ObjectStorage>, expiry: Duration) -> Self {
        let claims = RemoteClaims::new(Arc::clone(&storage), expiry);
        Self { storage, claims, known: Mutex::default(), corrupt: Mutex::default() }
    }

    /// Returns whether the prefix has results.
    fn check_format(storage: &dyn ObjectStorage) -> Result<bool, StoreError> {
        let Some(marker) = storage.get(FORMAT_KEY, MAX_TEXT)? else { return Ok(false) };
        let reason = match serde_json::from_slice::<FormatMarker>(&marker.bytes) {
            Ok(marker) if marker.format == "poseidon results" && marker.version == 1 => return Ok(true),
            Ok(marker) => {
                format!("it says {} version {}; use the program that wrote it", marker.format, marker.version)
            }
            Err(error) => error.to_string(),
        };
        Err(corrupt(storage, FORMAT_KEY, reason))
    }

    /// Returns the URL of the prefix.
    pub fn url(&self) -> &str {
        self.storage.url()
    }

    /// Reads the record of a run. Returns `None` if the run is not complete.
    fn read_record(&self, study: &str, run: &str) -> Result<Option<RunRecord>, StoreError> {
        let key = run_key(study, run);
        let Some(object) = self.storage.get(&key, MAX_TEXT)? else { return Ok(None) };
        parse_record(&object.bytes, run).map(Some).map_err(|reason| self.corrupt(&key, reason))
    }

    fn corrupt(&self, key: &str, reason: impl Into<String>) -> StoreError {
        corrupt(self.storage.as_ref(), key, reason.into())
    }

    /// Copies a run into the results folder. The manifest is written last.
    fn download(&self, store: &Store, study: &str, run: &str, record: &RunRecord) -> Result<(), StoreError> {
        let folder = store.run_folder(study, run);
        let mut corrupt = None;
        for file in &record.files {
            let path = folder.join(&file.name);
            if hash_file(&path).is_ok_and(|(size, sha256)| size == file.size && sha256 == file.sha256) {
                continue;
            }
            match self.download_blob(file, &path) {
                // The other files are read too, so that all corrupt blobs are known and replaced.
                Err(error @ StoreError::CorruptObject { .. }) => corrupt = Some(error),
                result => result?,
            }
        }
        if let Some(error) = corrupt {
            return Err(error);
        }
        store.write_manifest(study, &record.manifest)
    }

    /// Writes a blob to a file under a temporary name, compares it with its hash and renames it.
    fn download_blob(&self, file: &RecordFile, path: &Path) -> Result<(), StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let key = blob_key(&file.sha256);
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(folder).map_err(StoreError::io(path))?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{}.{}-{number}.part", file.name, process_name()));
        let remove_on_error = |error: StoreError| {
            let _ = fs::remove_file(&temporary);
            error
        };
        let content = File::create(&temporary).map_err(StoreError::io(&temporary))?;
        let mut sink = HashingWriter { file: content, hasher: Sha256::new(), size: 0, max_size: file.size };
        let found = self.storage.read_to(&key, &mut sink);
        let (size, sha256) = (sink.size, hex(&sink.hasher.finalize()));
        let result = match found {
            Ok(true) if size == file.size && sha256 == file.sha256 => {
                fs::rename(&temporary, path).map_err(StoreError::io(path))
            }
            Ok(true) => Err(self.corrupt_blob(&key, "its content does not have the hash in its name")),
            Ok(false) => Err(self.corrupt_blob(&key, "it does not exist, although a run names it")),
            Err(_) if size > file.size => Err(self.corrupt_blob(&key, "it is larger than its run says")),
            Err(error) => Err(error.into()),
        };
        result.map_err(remove_on_error)
    }

    fn corrupt_blob(&self, key: &str, reason: &str) -> StoreError {
        lock(&self.corrupt).insert(key.to_owned());
        self.corrupt(key, reason)
    }

    /// Creates a blob from a file, unless it exists with this size.
    fn upload_blob(&self, file: &RecordFile, path: &Path) -> Result<(), StoreError> {
        let key = blob_key(&file.sha256);
        let is_corrupt = lock(&self.corrupt).contains(&key);
        if !is_corrupt {
            let is_created = self.storage.create_from_file(&key, path)?;
            if is_created || self.storage.info(&key)?.is_some_and(|info| info.size == file.size) {
                return Ok(());
            }
        }
        self.storage.put_file(&key, path)?;
        lock(&self.corrupt).remove(&key);
        Ok(())
    }

    fn remember(&self, key: String, record: &RunRecord) {
        let requests = record.manifest.requests().collect();
        let files = record.files.iter().map(|file| file.name.clone()).collect();
        lock(&self.known).insert(key, KnownRun { requests, files });
    }

    /// Returns whether the object store has all requests and files of a run.
    fn is_known(&self, key: &str, manifest: &Manifest, files: &[String]) -> bool {
        lock(&self.known).get(key).is_some_and(|known| {
            manifest.requests().all(|request| known.requests.contains(&request))
                && files.iter().all(|file| known.files.contains(file))
        })
    }
}

impl SharedResults for RemoteResults {
    fn is_folder(&self) -> bool {
        false
    }

    fn write_scenario(&self, store: &Store, study: &Study) -> Result<(), StoreError> {
        store.write_scenario(study)?;
        let key = study_key(&study.name);
        let stored = self.storage.get(&key, MAX_TEXT)?;
        if stored.is_none_or(|object| object.bytes != study.text.as_bytes()) {
            self.storage.put(&key, study.text.as_bytes())?;
        }
        Ok(())
    }

    fn has_run(&self, _: &Store, study: &Study, run: &str, rows: Option<Format>) -> Result<bool, StoreError> {
        // A corrupt record is replaced.
        let record = match self.read_record(&study.name, run) {
            Err(StoreError::CorruptObject { .. }) => None,
            record => record?,
        };
        Ok(record.is_some_and(|record| is_requested(study, &record.manifest) && has_rows(&record, rows)))
    }

    fn fetch(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        rows: Option<Format>,
        warn: &dyn Fn(&str),
    ) -> Result<(), StoreError> {
        let key = run_key(&study.name, run);
        let folder = store.run_folder(&study.name, run);
        let local = read_manifest(&folder).ok().flatten().filter(|manifest| !manifest.interrupted);
        let is_here = local
            .is_some_and(|manifest| rows.is_none_or(|format| store.has_rows(&study.name, &manifest, format)));
        if is_here && lock(&self.known).contains_key(&key) {
            return Ok(());
        }
        let copy = || -> Result<(), StoreError> {
            let Some(record) = self.read_record(&study.name, run)? else { return Ok(()) };
            if !has_rows(&record, rows) {
                return Ok(());
            }
            if !is_here {
                self.download(store, &study.name, run, &record)?;
            }
            self.remember(key, &record);
            Ok(())
        };
        match copy() {
            Err(error @ StoreError::CorruptObject { .. }) => {
                warn(&format!("{error}; the run is repeated"));
                Ok(())
            }
            result => result,
        }
    }

    fn claim(
        &self,
        _: &Store,
        study: &Study,
        run: &str,
        description: &str,
    ) -> Result<Option<Box<dyn RunClaim>>, StoreError> {
        let claim = self.claims.claim(&study.name, run, description)?;
        Ok(claim.map(|claim| -> Box<dyn RunClaim> { Box::new(claim) }))
    }

    fn publish(&self, store: &Store, study: &Study, run: &str) -> Result<(), StoreError> {
        let folder = store.run_folder(&study.name, run);
        let Some(manifest) = read_manifest(&folder)?.filter(|manifest| !manifest.interrupted) else {
            return Ok(());
        };
        let (key, names) = (run_key(&study.name, run), data_files(&folder)?);
        if self.is_known(&key, &manifest, &names) {
            return Ok(());
        }
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let path = folder.join(&name);
            let (size, sha256) = hash_file(&path).map_err(StoreError::io(&path))?;
            let file = RecordFile { name, size, sha256 };
            self.upload_blob(&file, &path)?;
            files.push(file);
        }
        let mut record = RunRecord { manifest, files };
        if !self.storage.create(&key, &serde_json::to_vec_pretty(&record)?)? {
            // Another process has computed the same run, or a run without rows is replaced by one with rows.
            let stored = match self.read_record(&study.name, run) {
                Err(StoreError::CorruptObject { .. }) => None,
                stored => stored?,
            };
            if let Some(stored) = &stored {
                let [first, second] = [stored, &record].map(|record| record.manifest.result_hash.clone());
                if first != second {
                    let url = format!("{}/{key}", self.url());
                    return Err(StoreError::DifferentResults { url, first, second });
                }
                record = record.merged_into(stored);
            }
            if stored.as_ref() != Some(&record) {
                self.storage.put(&key, &serde_json::to_vec_pretty(&record)?)?;
            }
        }
        self.remember(key, &record);
        Ok(())
    }

    fn write_failure(
        &self,
        _: &Store,
        study: &Study,
        run: &str,
        failure: &FailedRun,
    ) -> Result<(), StoreError> {
        let key = failure_key(&study.name, run);
        Ok(self.storage.put(&key, &serde_json::to_vec_pretty(failure)?)?)
    }

    fn has_failed(&self, _: &Store, study: &Study, run: &str) -> Result<bool, StoreError> {
        // The caller has looked for the record of the run.
        Ok(self.storage.info(&failure_key(&study.name, run))?.is_some())
    }
}

impl RunRecord {
    /// Adds the requests and files of this record to those of a stored one with the same result.
    fn merged_into(self, stored: &Self) -> Self {
        let mut merged = stored.clone();
        for request in self.manifest.requests() {
            if !merged.manifest.requests().any(|known| known == request) {
                merged.manifest.other_requests.push(request);
            }
        }
        let is_new = |file: &&RecordFile| !stored.files.iter().any(|known| known.name == file.name);
        let new: Vec<RecordFile> = self.files.iter().filter(is_new).cloned().collect();
        for (name, rows) in &self.manifest.files {
            if new.iter().any(|file| file.name == *name) {
                merged.manifest.files.retain(|(known, _)| known != name);
                merged.manifest.files.push((name.clone(), *rows));
                // The rows are now in this study.
                merged.manifest.made_in = None;
            }
        }
        merged.files.extend(new);
        merged
    }
}

/// Returns whether a record has rows in a format, if one is requested.
fn has_rows(record: &RunRecord, rows: Option<Format>) -> bool {
    rows.is_none_or(|format| {
        let extension = format!(".{}", format.name());
        let mut rows = record.manifest.files.iter().filter(|(name, _)| name.ends_with(&extension)).peekable();
        let has_file = |name: &str| record.files.iter().any(|file| file.name == name);
        rows.peek().is_some() && rows.all(|(name, _)| has_file(name))
    })
}

/// Parses the record of a run. The text is hostile: its names become names of files.
fn parse_record(text: &[u8], run: &str) -> Result<RunRecord, String> {
    let record: RunRecord = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if record.manifest.interrupted {
        return Err("the run was interrupted".into());
    }
    if record.manifest.run_name() != run {
        return Err(format!("it is the record of the run {}", record.manifest.run_name()));
    }
    let is_hash =
        |text: &str| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut names = BTreeSet::new();
    for RecordFile { name, sha256, .. } in &record.files {
        if !is_safe_name(name) || name == MANIFEST_FILE || !names.insert(name) {
            return Err(format!("{name:?} is not the name of a file of a run"));
        }
        if !is_hash(sha256) {
            return Err(format!("{sha256:?} is not a SHA-256 hash"));
        }
    }
    for (name, _) in &record.manifest.files {
        if !is_safe_name(name) {
            return Err(format!("{name:?} is not the name of a file of a run"));
        }
    }
    if record.manifest.made_in.as_ref().is_some_and(|study| !is_safe_study(study)) {
        return Err("it names an invalid study".into());
    }
    Ok(record)
}

/// Returns whether a name can be that of a file or a folder, and is not hidden.
fn is_safe_name(name: &str) -> bool {
    let is_safe = |c: char| !c.is_control() && !"/\\:".contains(c);
    !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && name.chars().all(is_safe)
}

/// Returns whether a name can be that of a study: at most three levels of folders.
fn is_safe_study(name: &str) -> bool {
    name.split('/').count() <= 3 && name.split('/').all(is_safe_name)
}

/// Returns the names of the files of a run that go into blobs: all but the manifest and temporary files.
fn data_files(folder: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(StoreError::io(folder))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != MANIFEST_FILE && is_safe_name(&name) && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the size and the SHA-256 hash of a file.
fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut hasher, mut size) = (File::open(path)?, Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((size, hex(&hasher.finalize())));
        }
        hasher.update(&buffer[..count]);
        size += count as u64;
    }
}

/// A file whose content is hashed while it is written.
struct HashingWriter {
    file: File,
    hasher: Sha256,
    size: u64,
    max_size: u64,
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.size += bytes.len() as u64;
        if self.size > self.max_size {
            return Err(io::Error::other("the object is too large"));
        }
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn corrupt(storage: &dyn ObjectStorage, key: &str, reason: String) -> StoreError {
    StoreError::CorruptObject { url: format!("{}/{key}", storage.url()), reason }
}

fn study_key(study: &str) -> String {
    format!("studies/{study}.toml")
}

fn run_key(study: &str, run: &str) -> String {
    format!("runs/{study}/{run}.json")
}

fn failure_key(study: &str, run: &str) -> String {
    format!("failures/{study}/{run}.json")
}

/// The two levels keep folders small on servers that store objects as files.
fn blob_key(sha256: &str) -> String {
    format!("blobs/{}/{sha256}", &sha256[..2])
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the folder in which a task computes runs for an object store, below the folder for temporary files. No other
/// process uses it.
pub fn temporary_folder() -> PathBuf {
    std::env::temp_dir().join(format!("poseidon-{}", process_name()))
}

#[cfg(test)]
mod tests;
