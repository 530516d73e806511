//! Checks the scenario suite: its names, its laws, and a quick run of every scenario under two laws.

use core::num::NonZeroU32;
use poseidon_lab::budget::{Limits, TimeEstimation};
use poseidon_lab::judge::Outcome;
use poseidon_lab::manifest::{Manifest, Program};
use poseidon_lab::report::{CardInput, Grade, RefusedLaw, ReportCard, card_laws, check_law, render_card};
use poseidon_lab::runner::{RunObserver, RunOptions, Shard, run_studies};
use poseidon_lab::scenario::SpecErrorKind;
use poseidon_lab::store::Store;
use poseidon_lab::study::{LawsError, RunId, Study};
use poseidon_plan::records::Progress;
use poseidon_sim::Simulator;
use poseidon_types::Picos;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const NAMES: [&str; 16] = [
    "ack-thinning",
    "app-limited",
    "baseline",
    "beside-cubic",
    "ce-everything",
    "datacenter",
    "deep-buffer",
    "idle-restart",
    "incast",
    "jitter-reordering",
    "late-comer",
    "path-change",
    "random-loss",
    "rate-steps",
    "rtt-unfairness",
    "shallow-buffer",
];

/// The scenarios in datacenters, where the laws have other settings.
const DATACENTER: [&str; 2] = ["datacenter", "incast"];

/// The laws that need marks, and the scenarios whose switches mark.
const MARKED_LAWS: [&str; 3] = ["dcqcn", "dctcp", "nscc"];
const MARKING: [&str; 3] = ["ce-everything", "datacenter", "incast"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/suite")
}

fn read_study(name: &str, quick: bool) -> Study {
    let text = fs::read_to_string(folder().join(format!("{name}.toml"))).expect("the file can be read");
    let file = format!("scenarios/suite/{name}.toml");
    Study::read(&file, &text, quick).unwrap_or_else(|error| panic!("{error}"))
}

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

#[test]
fn the_suite_has_sixteen_scenarios() {
    let entries = fs::read_dir(folder()).expect("the folder can be read").flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let is_scenario = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let stem = |path: &PathBuf| path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    let found: BTreeSet<String> = files.iter().filter(is_scenario).map(stem).collect();
    assert_eq!(found, NAMES.map(str::to_owned).into());
}

#[test]
fn every_scenario_selects_its_law_and_explains_itself() {
    let settings = |study: &Study| format!("{:?}", study.scenario().laws);
    let baseline = settings(&read_study("baseline", false));
    for name in NAMES {
        let study = read_study(name, false);
        let scenario = study.scenario();
        assert!(scenario.about.contains("number"), "{name} does not explain its numbers");
        assert!(!scenario.claim.is_empty() && scenario.claim.iter().all(|claim| !claim.gating), "{name}");
        assert_eq!(scenario.seeds, 8, "{name}: the gate needs eight seeds");
        assert!(study.with_laws(&["cubic"]).is_ok(), "{name} has no sweep of laws");
        // The longer path needs longer delay targets.
        if !DATACENTER.contains(&name) && name != "rtt-unfairness" {
            assert_eq!(settings(&study), baseline, "{name}: all paths of 20 Mbit/s have the same settings");
        }
    }
}

/// The law that needs the state of circuits, which no scenario of the suite has.
const CIRCUIT_LAW: &str = "retcp";

#[test]
fn every_law_runs_unless_it_needs_marks_or_circuits() {
    for name in NAMES {
        let study = read_study(name, true);
        for law in poseidon_laws::LAWS {
            let needs_marks = MARKED_LAWS.contains(&law.name) && !MARKING.contains(&name);
            let needs_circuits = law.name == CIRCUIT_LAW;
            match check_law(&study, law.name, &simulator()) {
                Ok(()) => assert!(!needs_marks && !needs_circuits, "{name}: {}", law.name),
                Err(LawsError::Scenario(error)) if needs_circuits => {
                    let text = error.to_string();
                    assert!(text.contains("needs circuit-state"), "{name}: {}: {text}", law.name);
                }
                Err(LawsError::Scenario(error)) => {
                    let is_expected = matches!(error.error.kind, SpecErrorKind::MarksOff { .. });
                    assert!(needs_marks && is_expected, "{name}: {}: {error}", law.name);
                }
                Err(error) => panic!("{name}: {}: {error}", law.name),
            }
        }
    }
}

struct Quiet;

impl RunObserver for Quiet {
    fn on_start(&self, _: &RunId) {}
    fn on_progress(&self, _: &RunId, _: Progress, _: Picos) {}
    fn on_end(&self, _: &RunId, _: &Manifest, _: bool) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

#[test]
fn a_quick_run_gives_every_law_a_grade() {
    let store_folder = std::env::temp_dir().join(format!("poseidon-suite-{}", std::process::id()));
    let _ = fs::remove_dir_all(&store_folder);
    let laws = ["poseidon", "cubic"];
    let with_laws = |name| read_study(name, true).with_laws(&laws).unwrap_or_else(|error| panic!("{error}"));
    let studies = NAMES.map(with_laws);
    let options = RunOptions {
        seeds: Some(1),
        jobs: 2,
        records: None,
        shard: Shard::WHOLE,
        program: Program { identity: "test".to_owned(), code_hash: String::new() },
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    };
    let runs = run_studies(&studies, &simulator(), &Store::new(&store_folder), &options, &Quiet);
    let runs = runs.unwrap_or_else(|error| panic!("{error}"));
    let refused = RefusedLaw { law: "other".to_owned(), reason: "for the test".to_owned() };
    let input = |(index, study)| CardInput {
        study,
        runs: runs.iter().filter(|run| run.study == index).collect(),
        refused: vec![refused.clone()],
    };
    let inputs: Vec<CardInput<'_>> = studies.iter().enumerate().map(input).collect();
    let columns = ["poseidon", "cubic", "other"].map(str::to_owned);
    let card = ReportCard::new(&columns, &inputs).unwrap_or_else(|error| panic!("{error}"));
    for scenario in &card.scenarios {
        for entry in &scenario.entries[..2] {
            assert_ne!(entry.grade, Grade::None, "{} {}", scenario.name, entry.law);
            for verdict in &entry.verdicts {
                // A percentile of the incast needs the messages of all seeds.
                let is_judged = matches!(verdict.outcome, Outcome::Holds | Outcome::Fails);
                assert!(is_judged || scenario.short_name() == "incast", "{}: {verdict:?}", scenario.name);
            }
        }
        let [.., other] = scenario.entries.as_slice() else { panic!("there are three columns") };
        assert_eq!((other.grade, other.refused.as_deref()), (Grade::None, Some("for the test")));
    }
    let grade = |name: &str, law: &str| {
        let scenario = card.scenarios.iter().find(|scenario| scenario.short_name() == name);
        let entries = &scenario.expect("the suite has the scenario").entries;
        entries.iter().find(|entry| entry.law == law).expect("the card has the law").grade
    };
    // CUBIC fills a deep buffer, and Poseidon was made for datacenters.
    assert_ne!(grade("deep-buffer", "cubic"), Grade::Good);
    assert_eq!(grade("datacenter", "poseidon"), Grade::Good);
    let page = render_card(&card);
    let tables = card.to_markdown("card.html");
    for name in NAMES {
        assert!(page.contains(&format!("id=\"{name}\"")), "{name}");
        assert!(tables.contains(&format!("(card.html#{name})")), "{name}");
    }
    assert!(page.len() < 300_000, "the page has {} bytes", page.len());
    let _ = fs::remove_dir_all(&store_folder);
}

#[test]
fn a_card_has_the_built_in_laws_and_those_of_the_scenarios() {
    let laws = card_laws([&read_study("baseline", true)]);
    assert_eq!(laws.iter().filter(|law| *law == "poseidon").count(), 1);
    for law in ["fixed", "quinn-cubic", "smoltcp-reno"] {
        assert!(laws.iter().any(|known| known == law), "{law}: {laws:?}");
    }
    assert!(laws.iter().all(|law| law != "quinn-custom"), "only a program of its own has it: {laws:?}");
}
