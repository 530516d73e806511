//! Tests of the protocol with an object store in memory, which can fail.

use super::*;
use crate::budget::{Limits, TimeEstimation};
use crate::claims::ClaimOwner;
use crate::manifest::Program;
use crate::merge::MergeReport;
use crate::objects::{Object, ObjectInfo};
use crate::runner::{
    RunEnvironment, RunObserver, RunOptions, Shard, TaskReport, TaskShare, result_hash, run_shared_studies,
    run_studies, run_task,
};
use crate::study::RunId;
use core::sync::atomic::AtomicBool;
use poseidon_plan::records::Progress;
use poseidon_sim::Simulator;
use poseidon_types::Picos;
use std::time::SystemTime;

const STUDY: &str = r#"title = "flows"
source = "none"
stop = "20 us"
seeds = 3

[topology]
kind = "star"
hosts = 3
link = { rate = "100 Gbps", delay = "1 us" }

[switch]
stamp = "auto"

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-1]"
to = "host2"
spread = "$spread"

[sweep]
law = ["poseidon", "swift"]
spread = ["1 us", "2 us"]
"#;

/// An object store in memory.
#[derive(Debug, Default)]
struct Memory {
    objects: Mutex<BTreeMap<String, (Vec<u8>, SystemTime)>>,
    /// The number of writes after which all writes fail.
    writes_left: Mutex<Option<usize>>,
    ignores_conditions: AtomicBool,
    lists: AtomicU64,
}

impl Memory {
    fn shared() -> Arc<Self> {
        Arc::new(Self::default())
    }

    fn keys(&self, prefix: &str) -> Vec<String> {
        lock(&self.objects).keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    fn count_write(&self, key: &str) -> Result<(), ObjectError> {
        match &mut *lock(&self.writes_left) {
            Some(0) => Err(ObjectError::Request { url: key.into(), source: "the server has ended".into() }),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn set_age(&self, key: &str, age: Duration) {
        lock(&self.objects).get_mut(key).expect("the object exists").1 = now() - age;
    }
}

fn now() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "a claim expires by wall-clock time")]
    SystemTime::now()
}

impl ObjectStorage for Memory {
    fn url(&self) -> &str {
        "memory:"
    }

    fn get(&self, key: &str, max_size: u64) -> Result<Option<Object>, ObjectError> {
        let found = lock(&self.objects).get(key).cloned();
        let object = found.map(|(bytes, modified)| Object { bytes, modified });
        match &object {
            Some(Object { bytes, .. }) if bytes.len() as u64 > max_size => {
                Err(ObjectError::TooLarge { url: key.into(), size: bytes.len() as u64, max_size })
            }
            _ => Ok(object),
        }
    }

    fn read_to(&self, key: &str, sink: &mut dyn Write) -> Result<bool, ObjectError> {
        let Some(object) = self.get(key, u64::MAX)? else { return Ok(false) };
        let error = |source: io::Error| ObjectError::Request { url: key.into(), source: source.into() };
        sink.write_all(&object.bytes).map(|()| true).map_err(error)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, ObjectError> {
        self.count_write(key)?;
        let mut objects = lock(&self.objects);
        if objects.contains_key(key) && !self.ignores_conditions.load(Ordering::SeqCst) {
            return Ok(false);
        }
        objects.insert(key.to_owned(), (bytes.to_vec(), now()));
        Ok(true)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), ObjectError> {
        self.count_write(key)?;
        lock(&self.objects).insert(key.to_owned(), (bytes.to_vec(), now()));
        Ok(())
    }

    fn create_from_file(&self, key: &str, file: &Path) -> Result<bool, ObjectError> {
        self.create(key, &fs::read(file).expect("the file is readable"))
    }

    fn put_file(&self, key: &str, file: &Path) -> Result<(), ObjectError> {
        self.put(key, &fs::read(file).expect("the file is readable"))
    }

    fn info(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        let info = |(bytes, modified): &(Vec<u8>, SystemTime)| ObjectInfo {
            key: key.to_owned(),
            size: bytes.len() as u64,
            modified: *modified,
        };
        Ok(lock(&self.objects).get(key).map(info))
    }

    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        lock(&self.objects).remove(key);
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let keys = self.keys(&format!("{prefix}/"));
        keys.iter().filter_map(|key| self.info(key).transpose()).collect()
    }
}

struct Silent;

impl RunObserver for Silent {
    fn on_start(&self, _: &RunId) {}
    fn on_progress(&self, _: &RunId, _: Progress, _: Picos) {}
    fn on_end(&self, _: &RunId, _: &Manifest, _: bool) {}
    fn is_interrupted(&self) -> bool {
        false
    }
    fn on_warning(&self, _: &str) {}
}

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("poseidon-remote-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn store(&self, name: &str) -> Store {
        Store::new(self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn study() -> Study {
    Study::read("s.toml", STUDY, false).unwrap_or_else(|error| panic!("{error}"))
}

fn options() -> RunOptions {
    RunOptions {
        seeds: None,
        jobs: 1,
        records: None,
        shard: Shard::WHOLE,
        program: Program { identity: "test".into(), code_hash: "test".into() },
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    }
}

fn open(storage: &Arc<Memory>) -> RemoteResults {
    let storage: Arc<dyn ObjectStorage> = Arc::<Memory>::clone(storage);
    RemoteResults::open(storage, Duration::from_secs(60)).unwrap_or_else(|error| panic!("{error}"))
}

fn simulator() -> Simulator {
    Simulator::with_threads(core::num::NonZeroU32::MIN)
}

/// Runs a task as a process of its own would.
fn task(storage: &Arc<Memory>, store: &Store, index: usize, count: usize) -> Result<TaskReport, String> {
    let (options, backend) = (options(), simulator());
    let environment = RunEnvironment { backend: &backend, store, options: &options, observer: &Silent };
    let task = TaskShare { shard: Shard { index, count }, helps_others: true };
    run_task(&[study()], task, &open(storage), &environment).map_err(|error| error.to_string())
}

/// Returns the hash of the results of one machine without an object store.
fn local_hash(folder: &Folder) -> String {
    let runs = run_studies(&[study()], &simulator(), &folder.store("alone"), &options(), &Silent);
    result_hash(&runs.unwrap_or_else(|error| panic!("{error}")))
}

/// Collects all runs on one machine, computes those that are missing, and returns the hash of all.
fn collect(storage: &Arc<Memory>, store: &Store) -> String {
    let (options, backend, remote) = (options(), simulator(), open(storage));
    remote.pull(store, "s", &|_| ()).unwrap_or_else(|error| panic!("{error}"));
    let environment = RunEnvironment { backend: &backend, store, options: &options, observer: &Silent };
    let runs = run_shared_studies(&[study()], &remote, &environment);
    result_hash(&runs.unwrap_or_else(|error| panic!("{error}")))
}

/// The name of the first complete run.
fn first_run(storage: &Memory) -> String {
    let keys = storage.keys("runs/s/");
    let name = keys.first().and_then(|key| key.strip_prefix("runs/s/")?.strip_suffix(".json"));
    name.expect("there is a run").to_owned()
}

#[test]
fn tasks_without_a_common_folder_compute_every_run_once() {
    let (folder, storage) = (Folder::new("tasks"), Memory::shared());
    let reports: Vec<TaskReport> = std::thread::scope(|scope| {
        let start = |index: usize| {
            let (folder, storage) = (&folder, &storage);
            scope.spawn(move || task(storage, &folder.store(&format!("task{index}")), index % 3, 3))
        };
        // Each task is started twice.
        let tasks: Vec<_> = (0..6).map(start).collect();
        tasks.into_iter().map(|task| task.join().expect("no task panics").expect("no task fails")).collect()
    });
    assert_eq!(reports.iter().map(|report| report.computed).sum::<usize>(), 12);
    assert_eq!(storage.keys("runs/s/").len(), 12);
    assert_eq!(storage.keys("claims/"), [""; 0]);
    assert_eq!(storage.keys("clock/"), [""; 0]);
    assert_eq!(storage.lists.load(Ordering::SeqCst), 0, "tasks list nothing");
    assert_eq!(collect(&storage, &folder.store("collected")), local_hash(&folder));
    let merged = folder.store("merged");
    let mut report = MergeReport::default();
    let existing: Arc<dyn ObjectStorage> = Arc::<Memory>::clone(&storage);
    let remote = RemoteResults::open_existing(existing).expect("it can be read").expect("there are results");
    remote.merge_into(&merged, &mut report, &|_| ()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((report.copied, report.present, report.incomplete), (12, 0, 0));
    assert_eq!(remote.studies().expect("memory is readable"), ["s"]);
}

#[test]
fn an_upload_that_stops_at_any_write_is_never_seen_as_complete() {
    let folder = Folder::new("torn");
    let expected = local_hash(&folder);
    // format.json twice, the scenario, the claim, three blobs and the record.
    for writes in 0..8 {
        let storage = Memory::shared();
        *lock(&storage.writes_left) = Some(writes);
        let store = folder.store(&format!("stopped{writes}"));
        let stopped =
            std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| task(&storage, &store, 0, 1)));
        assert!(!matches!(stopped, Ok(Ok(_))), "{writes}: the task cannot end well");
        assert_eq!(storage.keys("runs/"), [""; 0], "{writes}: there is no record");
        *lock(&storage.writes_left) = None;
        let report = task(&storage, &folder.store(&format!("next{writes}")), 0, 1).expect("the task ends");
        assert_eq!(report.computed, 12, "{writes}");
        assert_eq!(collect(&storage, &folder.store(&format!("all{writes}"))), expected);
    }
}

#[test]
fn a_run_that_was_computed_but_not_uploaded_is_uploaded_without_computing_it() {
    let (folder, storage) = (Folder::new("upload"), Memory::shared());
    let store = folder.store("local");
    let runs = run_studies(&[study()], &simulator(), &store, &options(), &Silent);
    assert!(runs.is_ok());
    let report = task(&storage, &store, 0, 1).expect("the task ends");
    assert_eq!((report.computed, report.found), (0, 12));
    assert_eq!(storage.keys("runs/s/").len(), 12);
}

#[test]
fn a_torn_blob_is_noticed_and_replaced() {
    let (folder, storage) = (Folder::new("blob"), Memory::shared());
    task(&storage, &folder.store("first"), 0, 1).expect("the task ends");
    // A blob of the same size with another content, and a blob that is shorter.
    for (position, blob) in
        storage.keys("blobs/").iter().enumerate().filter(|(position, _)| position % 5 == 0)
    {
        let mut objects = lock(&storage.objects);
        let (bytes, _) = objects.get_mut(blob).expect("the blob exists");
        if position == 0 {
            bytes[0] ^= 1;
        } else {
            bytes.truncate(bytes.len() / 2);
        }
    }
    assert_eq!(collect(&storage, &folder.store("second")), local_hash(&folder));
    // The blobs are whole again.
    let third = folder.store("third");
    let copied = open(&storage).pull(&third, "s", &|text| panic!("{text}")).expect("the runs are readable");
    assert_eq!(copied.copied, 12);
}

#[test]
fn a_torn_record_is_computed_again() {
    let (folder, storage) = (Folder::new("record"), Memory::shared());
    task(&storage, &folder.store("first"), 0, 1).expect("the task ends");
    let key = run_key("s", &first_run(&storage));
    let half = {
        let mut objects = lock(&storage.objects);
        let bytes = &mut objects.get_mut(&key).expect("the record exists").0;
        bytes.truncate(bytes.len() / 2);
        bytes.len()
    };
    let report = task(&storage, &folder.store("second"), 0, 1).expect("the task ends");
    assert_eq!((report.computed, report.found), (1, 11));
    assert!(lock(&storage.objects)[&key].0.len() > half);
}

#[test]
fn a_server_that_ignores_conditions_is_refused() {
    let storage = Memory::shared();
    storage.ignores_conditions.store(true, Ordering::SeqCst);
    let error =
        RemoteResults::open(storage, Duration::from_secs(60)).expect_err("tasks could not claim runs");
    assert!(error.to_string().contains("does not honour conditional puts"), "{error}");
}

#[test]
fn a_prefix_with_another_layout_is_refused() {
    let storage = Memory::shared();
    storage
        .put(FORMAT_KEY, b"{\"format\": \"poseidon results\", \"version\": 2}")
        .expect("memory is writable");
    let error = RemoteResults::open(storage, Duration::from_secs(60)).expect_err("the version is unknown");
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn names_in_a_record_cannot_leave_the_folder() {
    let (folder, storage) = (Folder::new("names"), Memory::shared());
    task(&storage, &folder.store("first"), 0, 1).expect("the task ends");
    let run = first_run(&storage);
    let text = lock(&storage.objects)[&run_key("s", &run)].0.clone();
    let text = String::from_utf8(text).expect("a record is text");
    assert!(parse_record(text.as_bytes(), &run).is_ok());
    for name in ["../../evil", "/etc/passwd", ".hidden", "manifest.json", "a\\\\b", ""] {
        let hostile = text.replacen("\"messages.bin\"", &format!("\"{name}\""), 1);
        assert_ne!(hostile, text);
        assert!(parse_record(hostile.as_bytes(), &run).is_err(), "{name}");
    }
    for study in ["../x", "/x", "a/../b", "a/b/c/d", ""] {
        assert!(!is_safe_study(study), "{study}");
    }
    assert!(is_safe_study("poseidon/fig14b"));
}

/// Creates a claim of a process of another machine, whose last heartbeat was `age` ago.
fn create_foreign_claim(storage: &Memory, run: &str, age: Duration) {
    let owner = ClaimOwner {
        host: "elsewhere".into(),
        pid: 1,
        identity: Some("another-boot pid:[1] 7".into()),
        run: "a study".into(),
        expiry_s: 60,
    };
    let text = claims::ClaimText { owner, token: "a token".into() };
    let key = format!("claims/s/{run}.1");
    storage.put(&key, &serde_json::to_vec(&text).expect("a claim is JSON")).expect("memory is writable");
    storage.set_age(&key, age);
}

#[test]
fn an_expired_claim_is_taken_over_by_exactly_one_process() {
    let storage = Memory::shared();
    for round in 0..20 {
        let run = format!("run{round}");
        create_foreign_claim(&storage, &run, Duration::from_secs(if round % 2 == 0 { 62 } else { 50 }));
        let processes: Vec<RemoteResults> = (0..8).map(|_| open(&storage)).collect();
        let winners = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for process in &processes {
                scope.spawn(|| {
                    let claim = process.claims.claim("s", &run, "a study").expect("memory is readable");
                    winners.lock().expect("no thread panics").extend(claim);
                });
            }
        });
        let winners = winners.into_inner().expect("no thread panics");
        assert_eq!(winners.len(), usize::from(round % 2 == 0), "{run}");
        drop(winners);
        let left = storage.keys(&format!("claims/s/{run}."));
        assert_eq!(left.len(), round % 2, "the owner also removes the expired claim: {left:?}");
    }
    assert_eq!(storage.keys("clock/"), [""; 0]);
}

#[test]
fn a_run_has_one_owner_until_its_claim_is_dropped() {
    let storage = Memory::shared();
    let (first, second) = (open(&storage), open(&storage));
    let claim =
        first.claims.claim("s", "a", "study a").expect("memory is readable").expect("the run is free");
    assert!(second.claims.claim("s", "a", "study a").expect("memory is readable").is_none());
    let listed = second.list_claims("s").expect("memory is readable");
    assert_eq!(listed.len(), 1);
    assert!(!listed[0].is_expired);
    drop(claim);
    assert!(second.claims.claim("s", "a", "study a").expect("memory is readable").is_some());
}
