//! Tests failures while studies run: concurrent writers, panics, missing and corrupt files.

use core::num::NonZeroU32;
use core::time::Duration;
use poseidon_lab::budget::{LimitError, Limits, SpeedSource, SuiteEstimate, TimeEstimation};
use poseidon_lab::explain;
use poseidon_lab::manifest::{Manifest, Program};
use poseidon_lab::runner::{RunObserver, RunOptions, Shard, StudyError, run_studies};
use poseidon_lab::store::Store;
use poseidon_lab::study::{RunId, Study};
use poseidon_lab::summary::Summary;
use poseidon_lab::tables::Format;
use poseidon_plan::records::{Progress, Sink};
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report, SwitchPort};
use poseidon_sim::Simulator;
use poseidon_types::{Picos, Signals, SwitchId};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};

/// Two flows and some messages share one port for 0.4 ms. Both cells have the same plan.
const TINY: &str = r#"title = "two flows"
source = "none"
stop = "0.4 ms"

[topology]
kind = "star"
hosts = 4
link = { rate = "200 Gbps", delay = "1 us" }

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-1]"
to = "host2"

[[traffic]]
name = "messages"
kind = "uniform-random"
from = "host3"
to = "host2"
size = "10 kB"
rate = "1 Gbps"

[observe]
settle = 0.3
messages-from = "0.2 ms"

[sweep]
twin = ["a", "b"]
"#;

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

fn read_study(file: &str, text: &str) -> Study {
    Study::read(file, text, false).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the path of an empty temporary folder.
fn temp_folder(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("poseidon-runs-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn options(records: Option<Format>) -> RunOptions {
    let program = Program { identity: "test".to_owned(), code_hash: String::new() };
    RunOptions {
        seeds: None,
        jobs: 2,
        records,
        shard: Shard::WHOLE,
        program,
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    }
}

/// An observer that stores warnings and the estimate, and counts started runs.
#[derive(Default)]
struct RecordingObserver {
    warnings: Mutex<Vec<String>>,
    started: Mutex<u32>,
    estimate: Mutex<SuiteEstimate>,
}

impl RunObserver for RecordingObserver {
    fn on_estimate(&self, estimate: &SuiteEstimate) {
        estimate.clone_into(&mut self.estimate.lock().expect(NOT_POISONED));
    }
    fn on_start(&self, _: &RunId) {
        *self.started.lock().expect(NOT_POISONED) += 1;
    }
    fn on_progress(&self, _: &RunId, _: Progress, _: Picos) {}
    fn on_end(&self, _: &RunId, _: &Manifest, _: bool) {}
    fn is_interrupted(&self) -> bool {
        false
    }
    fn on_warning(&self, text: &str) {
        self.warnings.lock().expect(NOT_POISONED).push(text.to_owned());
    }
}

const NOT_POISONED: &str = "no thread panics while holding this lock";

/// Runs a study, and returns the number of started runs and the warnings.
fn run(study: &Study, store: &Store, records: Option<Format>) -> (u32, Vec<String>) {
    let observer = RecordingObserver::default();
    let studies = core::slice::from_ref(study);
    let runs = run_studies(studies, &simulator(), store, &options(records), &observer);
    assert_eq!(runs.unwrap_or_else(|error| panic!("{error}")).len(), 2);
    let started = observer.started.into_inner().expect(NOT_POISONED);
    (started, observer.warnings.into_inner().expect(NOT_POISONED))
}

/// Returns the files below a folder whose path contains `text`.
fn files(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder exists").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, text));
        } else if path.to_string_lossy().contains(text) {
            found.push(path);
        }
    }
    found
}

fn example_manifest() -> Manifest {
    let manifest = serde_json::json!({
        "tool": "test", "scenario": "tiny", "scenario_hash": "", "quick": false, "cell": [], "seed": 1,
        "plan_hash": "0123", "result_hash": "", "interrupted": false, "wall_s": 0.0, "bound": [], "account": null,
        "files": [],
    });
    serde_json::from_value(manifest).expect("the manifest is valid")
}

#[test]
fn concurrent_writers_of_one_result_do_not_conflict() {
    let folder = temp_folder("writers");
    let store = Store::new(&folder);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    store
                        .write_run("tiny", &Summary::default(), &example_manifest())
                        .expect("the folder is writable");
                }
            });
        }
    });
    assert_eq!(files(&folder, ".part"), [] as [PathBuf; 0]);
    let study = read_study("tiny.toml", TINY);
    let found = store.find(&study, &example_manifest().run_name(), None, &|warning| panic!("{warning}"));
    assert_eq!(found, Some((Summary::default(), example_manifest())));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_failed_write_leaves_no_temporary_file() {
    let folder = temp_folder("unwritable");
    let store = Store::new(&folder);
    // A folder with the file's name already exists.
    let run_folder = store.run_folder("tiny", &example_manifest().run_name());
    fs::create_dir_all(run_folder.join("summary.json")).unwrap();
    let write = store.write_run("tiny", &Summary::default(), &example_manifest());
    let error = write.expect_err("a file cannot replace a folder");
    assert!(error.to_string().contains("summary.json"), "{error}");
    assert_eq!(files(&folder, ".part"), [] as [PathBuf; 0]);
    fs::remove_dir_all(folder).unwrap();
}

/// A simulator whose runs panic.
struct PanickingBackend(Simulator);

impl Backend for PanickingBackend {
    fn available_signals(&self, plan: &Plan) -> Signals {
        self.0.available_signals(plan)
    }
    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<SwitchPort>> {
        self.0.routes(plan, connections)
    }
    fn port_count(&self, plan: &Plan, switch: SwitchId) -> u32 {
        self.0.port_count(plan, switch)
    }
    fn run(&self, _: &Plan, _: &mut dyn Sink) -> Result<Report, PlanError> {
        panic!("this law divides by zero")
    }
}

#[test]
fn a_panic_is_an_error_that_names_the_run() {
    for records in [None, Some(Format::Csv)] {
        let folder = temp_folder("panic");
        let (sender, receiver) = mpsc::channel();
        let store = Store::new(&folder);
        // The second cell waits for the first cell's plan. The study runs in a thread, so the test fails instead of
        // hanging if the study never ends.
        std::thread::spawn(move || {
            let study = read_study("tiny.toml", TINY);
            let backend = PanickingBackend(simulator());
            let observer = RecordingObserver::default();
            sender.send(run_studies(&[study], &backend, &store, &options(records), &observer))
        });
        let error = receiver
            .recv_timeout(Duration::from_secs(60))
            .expect("the study ends")
            .expect_err("a panic is an error");
        let StudyError::Panicked { run, message } = &error else { panic!("{error}") };
        assert!(run.starts_with("tiny twin ") && run.ends_with(" seed 1"), "{run}");
        assert_eq!(message, "this law divides by zero");
        assert!(error.to_string().contains(run.as_str()), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn runs_with_missing_or_empty_rows_are_repeated() {
    let folder = temp_folder("rows");
    let store = Store::new(&folder);
    let first = read_study("scenarios/one/tiny.toml", TINY);
    assert_eq!(run(&first, &store, Some(Format::Csv)), (1, vec![]), "both cells have the same plan");
    assert_eq!(run(&first, &store, Some(Format::Csv)), (0, vec![]));
    // A second study with the same plan uses the first study's rows, which are stored only once.
    let second = read_study("scenarios/two/tiny.toml", &format!("{TINY}# another study\n"));
    assert_eq!(run(&second, &store, Some(Format::Csv)), (0, vec![]));
    assert_eq!(run(&second, &store, Some(Format::Csv)), (0, vec![]));
    let rows = files(&folder, "receivers.csv");
    assert!(matches!(rows.as_slice(), [file] if file.starts_with(folder.join("one"))), "{rows:?}");

    fs::write(&rows[0], "").unwrap();
    assert_eq!(run(&first, &store, None), (0, vec![]), "a run without rows does not need them");
    assert_eq!(run(&first, &store, Some(Format::Csv)), (1, vec![]));
    assert!(fs::metadata(&rows[0]).unwrap().len() > 0);

    fs::remove_file(&rows[0]).unwrap();
    assert_eq!(run(&second, &store, Some(Format::Csv)), (1, vec![]));
    assert!(files(&folder, "receivers.csv")[0].starts_with(folder.join("two")));
    fs::remove_dir_all(folder).unwrap();
}

/// Runs a study of the tests with these options, and returns the number of started runs and the estimate.
fn run_with(study: &Study, store: &Store, options: &RunOptions) -> Result<(u32, SuiteEstimate), StudyError> {
    let observer = RecordingObserver::default();
    run_studies(core::slice::from_ref(study), &simulator(), store, options, &observer)?;
    let started = observer.started.into_inner().expect(NOT_POISONED);
    Ok((started, observer.estimate.into_inner().expect(NOT_POISONED)))
}

#[test]
fn the_estimate_counts_only_runs_without_a_stored_result() {
    let folder = temp_folder("estimate");
    let store = Store::new(&folder);
    let study = read_study("tiny.toml", &TINY.replace("[sweep]\ntwin = [\"a\", \"b\"]\n", ""));
    let with_seeds = |seeds| RunOptions {
        seeds: Some(seeds),
        time_estimation: TimeEstimation::FromSpeed,
        ..options(None)
    };
    let (started, estimate) = run_with(&study, &store, &with_seeds(2)).expect("the study runs");
    assert_eq!((started, estimate.runs, estimate.pending, estimate.jobs), (2, 2, 2, 2));
    assert!(matches!(estimate.time, Some((_, SpeedSource::Measurement))), "{estimate}");
    assert_eq!(estimate.weights.keys().copied().collect::<Vec<_>>(), [0, 1]);
    let (started, estimate) = run_with(&study, &store, &with_seeds(3)).expect("the study runs");
    assert_eq!((started, estimate.runs, estimate.pending, estimate.jobs), (1, 3, 1, 1));
    assert_eq!(estimate.weights.keys().copied().collect::<Vec<_>>(), [2]);
    let (started, estimate) = run_with(&study, &store, &with_seeds(3)).expect("the study runs");
    assert_eq!((started, estimate.pending, estimate.packet_hops, estimate.time), (0, 0, 0, None));
    // Another title changes the text, but no plan.
    let retitled = read_study("tiny.toml", &study.text.replacen("title = \"", "title = \"other: ", 1));
    assert_ne!(retitled.text, study.text);
    let (started, estimate) = run_with(&retitled, &store, &with_seeds(3)).expect("the study runs");
    assert_eq!((started, estimate.pending), (0, 0));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_limit_rejects_runs_before_anything_is_written() {
    let folder = temp_folder("limit");
    let store = Store::new(&folder);
    let study = read_study("tiny.toml", TINY);
    let memory = Limits { memory: Some(poseidon_types::Bytes::new(1_000)), time: None };
    let time = Limits { memory: None, time: Some(Duration::from_nanos(1)) };
    for (limits, is_memory) in [(memory, true), (time, false)] {
        let options = RunOptions { limits, time_estimation: TimeEstimation::FromSpeed, ..options(None) };
        let error = run_with(&study, &store, &options).expect_err("the limit is too small");
        let StudyError::Limit(limit) = &error else { panic!("{error}") };
        assert_eq!(matches!(limit, LimitError::Memory { .. }), is_memory, "{error}");
    }
    assert!(!folder.exists());
}

#[test]
fn rows_that_name_an_old_cell_are_written_again() {
    let folder = temp_folder("renamed");
    let store = Store::new(&folder);
    // With one job, the first cell runs first, and the second cell uses its rows.
    let started = |text: &str, records| {
        let options = RunOptions { jobs: 1, ..options(records) };
        run_with(&read_study("tiny.toml", text), &store, &options).expect("the study runs").0
    };
    let assert_cell = |expected: &str| {
        for file in files(&folder, ".csv") {
            let text = fs::read_to_string(&file).expect("the file is readable");
            assert!(text.starts_with("cell,seed,"), "{text}");
            let mut rows = text.lines().skip(1);
            assert!(rows.all(|row| row.starts_with(expected)), "{}: {text}", file.display());
        }
    };
    assert_eq!(started(TINY, Some(Format::Csv)), 1);
    assert_cell("twin a,1,");
    // The plan stays the same, but the first cell has another name.
    let renamed = TINY.replace("[\"a\", \"b\"]", "[\"first\", \"b\"]");
    assert_eq!(started(&renamed, None), 0, "metrics do not name a cell");
    assert_eq!(started(&renamed, Some(Format::Csv)), 1);
    assert_cell("twin first,1,");
    let renamed = TINY.replace("[\"a\", \"b\"]", "[\"first\", \"second\"]");
    assert_eq!(started(&renamed, Some(Format::Csv)), 0, "the rows still name a cell of the study");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_corrupt_result_is_reported_and_repeated() {
    let folder = temp_folder("corrupt");
    let store = Store::new(&folder);
    let study = read_study("tiny.toml", TINY);
    for name in ["manifest.json", "summary.json"] {
        run(&study, &store, None);
        let found = files(&folder, name);
        let [path] = found.as_slice() else { panic!("{found:?}") };
        let content = fs::read(path).unwrap();
        fs::write(path, &content[..content.len() / 2]).unwrap();
        let path = path.display().to_string();
        let error = store.load_runs(0, &study, "test").expect_err("the run is corrupt").to_string();
        assert!(error.contains(&path) && error.contains("is corrupt"), "{error}");
        let (started, warnings) = run(&study, &store, None);
        assert_eq!((started, warnings.len()), (1, 1), "{warnings:?}");
        assert!(warnings[0].contains(&path) && warnings[0].contains("is corrupt"), "{warnings:?}");
        assert_eq!(run(&study, &store, None), (0, vec![]));
        assert_eq!(store.load_runs(0, &study, "test").unwrap().len(), 2);
    }
    // An unfinished run has no manifest. This is not an error.
    fs::create_dir_all(store.run_folder("tiny", "unfinished")).unwrap();
    assert_eq!(store.load_runs(0, &study, "test").unwrap().len(), 2);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn explain_and_summary_report_the_same_measurement_start() {
    let folder = temp_folder("start");
    let store = Store::new(&folder);
    // 0.3 of 0.4 ms is 120 us, which is between two samples. The measurement starts at the earlier sample.
    let study = read_study("tiny.toml", TINY);
    run(&study, &store, None);
    let resolved = study.resolve(&study.cells[0], 1, &simulator()).unwrap();
    let text = explain::describe_run(&resolved);
    let expected =
        "0 ps to 400 us; rates and queues are measured from 100 us, messages that start from 200 us count";
    assert!(text.contains(expected), "{text}");
    let runs = store.load_runs(0, &study, "test").unwrap();
    let phase = &runs[0].run.summary.phases[0];
    assert!((phase.measured_from_us - 100.0).abs() < 1e-9 && (phase.messages_from_us - 200.0).abs() < 1e-9);
    // Only messages that start at 200 us or later count.
    let counted = phase.values["messages.messages"] + phase.values["messages.unfinished"];
    let from = Picos::new(200_000_000);
    let group = resolved.groups.iter().find(|group| group.name == "messages").unwrap();
    let messages = group.messages.messages.iter().map(|message| resolved.plan.messages[message.index()]);
    assert!((counted - messages.filter(|message| message.start >= from).count() as f64).abs() < 1e-9);
    fs::remove_dir_all(folder).unwrap();
}

/// A simulator that reports a pause of the machine in its first runs, and can end a run early.
struct PausingBackend {
    simulator: Simulator,
    /// The number of runs that report a pause.
    paused_runs: u32,
    runs: Mutex<u32>,
}

impl Backend for PausingBackend {
    fn available_signals(&self, plan: &Plan) -> Signals {
        self.simulator.available_signals(plan)
    }
    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<SwitchPort>> {
        self.simulator.routes(plan, connections)
    }
    fn port_count(&self, plan: &Plan, switch: SwitchId) -> u32 {
        self.simulator.port_count(plan, switch)
    }
    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        let mut report = self.simulator.run(plan, sink)?;
        let mut runs = self.runs.lock().expect(NOT_POISONED);
        *runs += 1;
        // Half a second, far above any limit.
        report.max_lateness = Picos::new(if *runs <= self.paused_runs { 500_000_000_000 } else { 1_000 });
        Ok(report)
    }
}

#[test]
fn a_run_during_which_the_machine_paused_is_repeated() {
    let study = read_study("tiny.toml", &TINY.replace("[sweep]\ntwin = [\"a\", \"b\"]\n", ""));
    // The last attempt is kept even if the machine paused again.
    for (paused_runs, attempts, warnings) in [(0, 1, 0), (2, 3, 2), (9, 4, 3)] {
        let folder = temp_folder(&format!("pause-{paused_runs}"));
        let backend = PausingBackend { simulator: simulator(), paused_runs, runs: Mutex::new(0) };
        let observer = RecordingObserver::default();
        let studies = core::slice::from_ref(&study);
        let runs = run_studies(studies, &backend, &Store::new(&folder), &options(None), &observer);
        let runs = runs.expect("the study runs");
        assert_eq!(*backend.runs.lock().expect(NOT_POISONED), attempts);
        assert_eq!(observer.warnings.lock().expect(NOT_POISONED).len(), warnings);
        let lateness = runs[0].manifest.counters.number("late_ps");
        assert_eq!(lateness == Some(1_000), paused_runs < 9, "{lateness:?}");
        fs::remove_dir_all(folder).unwrap();
    }
}
