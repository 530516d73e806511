//! Running studies and keeping their results, where something goes wrong: other writers, panics, files that are gone or corrupt.

use core::num::NonZeroU32;
use core::time::Duration;
use poseidon_lab::explain;
use poseidon_lab::store::{Manifest, Store};
use poseidon_lab::study::{self, Options, RunName, Study, StudyError, Watch};
use poseidon_lab::summary::Summary;
use poseidon_lab::tables::Format;
use poseidon_plan::records::{Progress, Sink};
use poseidon_plan::traffic::Connection;
use poseidon_plan::{Backend, Plan, PlanError, Report};
use poseidon_sim::Simulator;
use poseidon_types::{Picos, Signals};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};

/// Two flows into one port for less than half a millisecond, and messages beside them. The two cells have the same plan.
const TINY: &str = r#"title = "two flows"
source = "none"
stop = "0.4 ms"

[topology]
kind = "star"
hosts = 4
link = { rate = "100 Gbps", delay = "1 us" }

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

fn read(file: &str, text: &str) -> Study {
    Study::read(file, text, false).unwrap_or_else(|error| panic!("{error}"))
}

/// A folder of a test's own, empty.
fn folder(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("poseidon-runs-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn options(records: Option<Format>) -> Options {
    Options {
        seeds: None,
        jobs: 2,
        records,
        shard: (0, 1),
        identity: "test".to_owned(),
        code_hash: String::new(),
    }
}

/// Keeps the warnings and counts the runs.
#[derive(Default)]
struct Quiet {
    warnings: Mutex<Vec<String>>,
    begun: Mutex<u32>,
}

impl Watch for Quiet {
    fn begins(&self, _: &RunName) {
        *self.begun.lock().expect("no panic") += 1;
    }
    fn progress(&self, _: &RunName, _: Progress, _: Picos) {}
    fn ended(&self, _: &RunName, _: &Manifest, _: bool) {}
    fn is_interrupted(&self) -> bool {
        false
    }
    fn warn(&self, text: &str) {
        self.warnings.lock().expect("no panic").push(text.to_owned());
    }
}

/// Runs a study; how many of its runs were not there already, and the warnings.
fn run(study: &Study, store: &Store, records: Option<Format>) -> (u32, Vec<String>) {
    let watch = Quiet::default();
    let studies = core::slice::from_ref(study);
    let done = study::run(studies, &simulator(), store, &options(records), &watch);
    assert_eq!(done.unwrap_or_else(|error| panic!("{error}")).len(), 2);
    (watch.begun.into_inner().expect("no panic"), watch.warnings.into_inner().expect("no panic"))
}

/// The files below a folder whose path has this in it.
fn files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, part));
        } else if path.to_string_lossy().contains(part) {
            found.push(path);
        }
    }
    found
}

fn a_manifest() -> Manifest {
    let manifest = serde_json::json!({
        "tool": "test", "scenario": "tiny", "scenario_hash": "", "quick": false, "cell": [], "seed": 1,
        "plan_hash": "0123", "result_hash": "", "interrupted": false, "wall_s": 0.0, "bound": [], "account": null,
        "files": [],
    });
    serde_json::from_value(manifest).expect("a manifest")
}

#[test]
fn writers_of_the_same_result_do_not_disturb_each_other() {
    let folder = folder("writers");
    let store = Store::new(&folder);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    store.keep("tiny", &Summary::default(), &a_manifest()).expect("it can be written");
                }
            });
        }
    });
    assert_eq!(files(&folder, ".part"), [] as [PathBuf; 0]);
    let found = store.find("tiny", &a_manifest().run_name(), None, &|warning| panic!("{warning}"));
    assert_eq!(found, Some((Summary::default(), a_manifest())));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing_behind() {
    let folder = folder("unwritable");
    let store = Store::new(&folder);
    // A folder stands where the file should be.
    fs::create_dir_all(store.folder("tiny", &a_manifest().run_name()).join("summary.json")).unwrap();
    let error = store.keep("tiny", &Summary::default(), &a_manifest()).expect_err("refused");
    assert!(error.contains("summary.json"), "{error}");
    assert_eq!(files(&folder, ".part"), [] as [PathBuf; 0]);
    fs::remove_dir_all(folder).unwrap();
}

/// A simulator whose runs panic.
struct Panics(Simulator);

impl Backend for Panics {
    fn supplies(&self, plan: &Plan) -> Signals {
        self.0.supplies(plan)
    }
    fn routes(&self, plan: &Plan, connections: &[Connection]) -> Vec<Vec<(u32, u32)>> {
        self.0.routes(plan, connections)
    }
    fn ports(&self, plan: &Plan, switch: u32) -> u32 {
        self.0.ports(plan, switch)
    }
    fn run(&self, _: &Plan, _: &mut dyn Sink) -> Result<Report, PlanError> {
        panic!("this law divides by zero")
    }
}

#[test]
fn a_panic_ends_the_study_with_an_error_that_names_the_run() {
    for records in [None, Some(Format::Csv)] {
        let folder = folder("panic");
        let (to, from) = mpsc::channel();
        let store = Store::new(&folder);
        // The second cell waits for the plan of the first. In a thread, so that the test fails where it waits for ever.
        std::thread::spawn(move || {
            let study = read("tiny.toml", TINY);
            let backend = Panics(simulator());
            to.send(study::run(&[study], &backend, &store, &options(records), &Quiet::default()))
        });
        let error = from
            .recv_timeout(Duration::from_secs(60))
            .expect("the study ends")
            .expect_err("a study whose run panics has no result");
        let StudyError::Panicked { run, why } = &error else { panic!("{error}") };
        assert!(run.starts_with("tiny twin ") && run.ends_with(" seed 1"), "{run}");
        assert_eq!(why, "this law divides by zero");
        assert!(error.to_string().contains(run.as_str()), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn rows_that_are_gone_or_empty_are_made_again() {
    let folder = folder("rows");
    let store = Store::new(&folder);
    let one = read("scenarios/one/tiny.toml", TINY);
    assert_eq!(run(&one, &store, Some(Format::Csv)), (1, vec![]), "the cells share one plan");
    assert_eq!(run(&one, &store, Some(Format::Csv)), (0, vec![]));
    // A study with the same plan uses the rows of the first, and only their folder has them.
    let two = read("scenarios/two/tiny.toml", &format!("{TINY}# of another\n"));
    assert_eq!(run(&two, &store, Some(Format::Csv)), (0, vec![]));
    assert_eq!(run(&two, &store, Some(Format::Csv)), (0, vec![]));
    let rows = files(&folder, "receivers.csv");
    assert!(matches!(rows.as_slice(), [only] if only.starts_with(folder.join("one"))), "{rows:?}");

    fs::write(&rows[0], "").unwrap();
    assert_eq!(run(&one, &store, None), (0, vec![]), "whoever wants no rows does not look for them");
    assert_eq!(run(&one, &store, Some(Format::Csv)), (1, vec![]));
    assert!(fs::metadata(&rows[0]).unwrap().len() > 0);

    fs::remove_file(&rows[0]).unwrap();
    assert_eq!(run(&two, &store, Some(Format::Csv)), (1, vec![]));
    assert!(files(&folder, "receivers.csv")[0].starts_with(folder.join("two")));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_corrupt_result_is_named_and_made_again() {
    let folder = folder("corrupt");
    let store = Store::new(&folder);
    let study = read("tiny.toml", TINY);
    for name in ["manifest.json", "summary.json"] {
        run(&study, &store, None);
        let found = files(&folder, name);
        let [path] = found.as_slice() else { panic!("{found:?}") };
        let whole = fs::read(path).unwrap();
        fs::write(path, &whole[..whole.len() / 2]).unwrap();
        let path = path.display().to_string();
        let error = store.load(0, &study, "test").expect_err("a report would miss a run");
        assert!(error.contains(&path) && error.contains("is corrupt"), "{error}");
        let (begun, warnings) = run(&study, &store, None);
        assert_eq!((begun, warnings.len()), (1, 1), "{warnings:?}");
        assert!(warnings[0].contains(&path) && warnings[0].contains("is corrupt"), "{warnings:?}");
        assert_eq!(run(&study, &store, None), (0, vec![]));
        assert_eq!(store.load(0, &study, "test").unwrap().len(), 2);
    }
    // A run that has not ended has no manifest, and is no fault.
    fs::create_dir_all(store.folder("tiny", "unfinished")).unwrap();
    assert_eq!(store.load(0, &study, "test").unwrap().len(), 2);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn explain_and_the_summary_say_the_same_start_of_measuring() {
    let folder = folder("start");
    let store = Store::new(&folder);
    // 0.3 of 0.4 ms is 120 us, which is no multiple of the samples: rates are measured from the sample before.
    let study = read("tiny.toml", TINY);
    run(&study, &store, None);
    let resolved = study.resolve(&study.cells[0], 1, &simulator()).unwrap();
    let said = explain::plan(&resolved);
    let expected =
        "0 ps to 400 us; rates and queues are measured from 100 us, messages that start from 200 us count";
    assert!(said.contains(expected), "{said}");
    let finished = store.load(0, &study, "test").unwrap();
    let phase = &finished[0].ran.summary.phases[0];
    assert!((phase.measured_from_us - 100.0).abs() < 1e-9 && (phase.messages_from_us - 200.0).abs() < 1e-9);
    // What is counted is what is said: messages of the plan from 200 us on.
    let counted = phase.values["messages.messages"] + phase.values["messages.unfinished"];
    let from = Picos::new(200_000_000);
    let group = resolved.groups.iter().find(|group| group.name == "messages").unwrap();
    let messages = group.messages.messages.iter().map(|message| resolved.plan.messages[*message as usize]);
    assert!((counted - messages.filter(|message| message.at >= from).count() as f64).abs() < 1e-9);
    fs::remove_dir_all(folder).unwrap();
}
