//! Every scenario of the repository: it can be read, worked out and judged, and nothing that it names is missing.

use core::num::NonZeroU32;
use poseidon_lab::judge::{Outcome, judge};
use poseidon_lab::scenario::Scenario;
use poseidon_lab::study::Study;
use poseidon_sim::Simulator;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The entries of each paper: figures and tables that say something about how flows behave.
const ENTRIES: [(&str, &str); 4] = [
    (
        "poseidon",
        "fig1c fig2 fig3 fig7a fig7b fig8 fig12b fig13b fig14b fig14c fig14d fig15a fig15b fig16a fig16b fig17a fig17b fig18a fig18b \
         fig19a fig19b fig20a fig20b fig21a fig21b fig21c fig21d fig22 fig23a fig23b",
    ),
    (
        "powertcp",
        "fig2a fig2b fig3a fig3b fig3c fig4-10to1 fig4-255to1 fig5 fig6a fig6b fig7a fig7b fig7c fig7d fig7e fig7f fig7g fig7h fig8a \
         fig8b fig9 fig10 fig11",
    ),
    (
        "vai-sf",
        "fig1a fig1b fig1c fig1d fig2 fig3 fig4 fig5a fig5b fig5c fig5d fig6a fig6b fig6c fig6d fig8 fig9 fig10 fig11 fig12 fig13",
    ),
    ("rpm", "fig5 lemma1 table2-exp1 table2-exp2 table2-exp3"),
];

/// Those on which the suite fails where their claims do.
const GATES: [(&str, &str); 4] = [
    (
        "poseidon",
        "fig2 fig3 fig7a fig7b fig8 fig12b fig13b fig14b fig14c fig14d fig15a fig15b fig16a fig16b fig18a fig18b fig20b fig21a fig23a \
         fig23b",
    ),
    ("powertcp", "fig2a fig2b fig3a fig3b fig3c fig4-10to1 fig4-255to1 fig5 fig7g fig8a fig8b"),
    (
        "vai-sf",
        "fig1a fig1b fig1c fig1d fig2 fig3 fig4 fig5a fig5b fig5c fig5d fig6a fig6b fig6c fig6d fig8 fig9 fig10 fig11 fig12 fig13",
    ),
    ("rpm", "lemma1 table2-exp2 table2-exp3"),
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder of scenarios").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Every scenario, cut or not, as a study.
fn studies(quick: bool) -> Vec<Study> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a text");
        Study::read(&path.to_string_lossy(), &text, quick).unwrap_or_else(|error| panic!("{error}"))
    };
    files(&root()).into_iter().map(read).collect()
}

#[test]
fn the_entries_of_the_papers_are_all_there() {
    let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    for (paper, entries) in ENTRIES {
        let there: BTreeSet<String> = files(&root().join(paper)).into_iter().map(stem).collect();
        let meant: BTreeSet<String> = entries.split_whitespace().map(str::to_owned).collect();
        assert_eq!(there, meant, "{paper}");
    }
}

#[test]
fn a_scenario_names_its_figure() {
    for study in studies(false) {
        let (source, name) = (&study.scenario().source, study.name.rsplit('/').next().expect("a name"));
        if let Some(number) = name.strip_prefix("fig") {
            // fig. 5(a) is fig5a, and what follows a dash is one of several scenarios of a figure.
            let number = number.split('-').next().expect("a number");
            let plain = source.replace(['(', ')'], "");
            assert!(plain.contains(&format!("fig. {number}")), "{name}: {source}");
        }
    }
}

#[test]
fn every_cell_can_be_worked_out_and_every_claim_judged() {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    for quick in [false, true] {
        for study in studies(quick) {
            study.check(&simulator).unwrap_or_else(|error| panic!("{error}"));
            for claim in &study.scenario().claim {
                let verdict = judge(claim, &[]).unwrap_or_else(|why| panic!("{}: {why}", study.name));
                assert!(matches!(verdict.outcome, Outcome::NotRun | Outcome::NotComparable));
            }
        }
    }
}

#[test]
fn a_quick_study_is_smaller() {
    for (whole, quick) in studies(false).into_iter().zip(studies(true)) {
        let work = |study: &Study| -> f64 {
            let run = |cell: &poseidon_lab::scenario::Cell| {
                f64::from(study.seeds(cell, None)) * cell.scenario.stop.0.get() as f64
            };
            study.cells.iter().map(run).sum()
        };
        if quick.scenario().quick.skip.is_some() {
            assert!(quick.cut().is_some_and(|cut| cut.starts_with("not run: ")), "{}", whole.name);
            continue;
        }
        assert_eq!(work(&quick) < work(&whole), quick.cut().is_some(), "{}", whole.name);
        assert!(work(&quick) <= work(&whole), "{}", whole.name);
        assert_eq!(whole.cut(), None, "{}", whole.name);
    }
}

#[test]
fn every_scenario_has_a_source_and_a_figure() {
    for study in studies(false) {
        let scenario = study.scenario();
        assert!(!scenario.title.is_empty() && !scenario.source.is_empty(), "{}", study.name);
        let draws = !scenario.figure.is_empty() || scenario.withdrawn.is_some();
        assert!(draws, "{} draws nothing", study.name);
        for claim in &scenario.claim {
            assert!(!claim.says.is_empty() && !claim.paper.is_empty(), "{}: {:?}", study.name, claim.says);
        }
    }
}

#[test]
fn figures_that_show_behaviour_are_gates() {
    for (paper, gates) in GATES {
        for study in studies(false) {
            let Some(entry) = study.name.strip_prefix(&format!("{paper}/")) else { continue };
            let has_gate = study.scenario().claim.iter().any(|claim| claim.gating);
            assert_eq!(has_gate, gates.split_whitespace().any(|gate| gate == entry), "{}", study.name);
        }
    }
}

#[test]
fn names_that_are_not_there_are_refused_with_their_line() {
    let text = fs::read_to_string(root().join("poseidon/fig14c.toml")).expect("a text");
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let line_of =
        |part: &str| 1 + text.lines().position(|line| line.contains(part)).expect("it stands there");
    for (part, instead, says) in [
        ("metric = \"red.signal_us\"", "metric = \"red.sinal_us\"", "did you mean \"signal_us\"?"),
        ("metric = \"red.target_us\"", "metric = \"rde.target_us\"", "did you mean \"red\"?"),
        ("metric = \"red.target_us\"", "metric = \"green.target_us\"", "add \"green\" to observe.decisions"),
        ("metric = \"red.target_us\"", "metric = \"red.latency_p50_us\"", "is a number of messages"),
        ("metric = \"red.target_us\"", "metric = \"1 + 1\"", "holds no metric"),
        (
            "against = { phase = \"(2,2)\" }",
            "against = { phase = \"(2,3)\" }",
            "\"phase\" is never \"(2,3)\"",
        ),
        ("against = { phase = \"(2,2)\" }", "against = { pase = \"(2,2)\" }", "did you mean \"phase\"?"),
        ("where  = { law = \"swift\",", "where  = { law = \"swfit\",", "did you mean \"swift\"?"),
        ("metric = [\"red.queueing_us\"]", "metric = [\"red.quing_us\"]", "did you mean \"queueing_us\"?"),
        ("where = { law = \"swift\" }", "where = { lwa = \"swift\" }", "did you mean \"law\"?"),
    ] {
        let wrong = text.replacen(part, instead, 1);
        assert_ne!(wrong, text, "{part}");
        let study = Study::read("fig14c.toml", &wrong, false).unwrap_or_else(|error| panic!("{error}"));
        let said = study.check(&simulator).expect_err(instead).to_string();
        // What is missing in a list is said where the list is.
        let place = if says.contains("observe.decisions") { "decisions = " } else { part };
        assert!(said.starts_with(&format!("fig14c.toml:{}: ", line_of(place))), "{instead}: {said}");
        assert!(said.contains(says), "{instead}: {said}");
    }
}

/// The keys that the schema has for a table: of the scenario itself, or of a definition.
fn schema_keys(schema: &serde_json::Value, definition: Option<&str>) -> BTreeSet<String> {
    let table = definition.map_or(schema, |name| &schema["$defs"][name]);
    let properties = table["properties"].as_object().unwrap_or_else(|| panic!("{definition:?}: {table}"));
    properties.keys().cloned().collect()
}

#[test]
fn the_schema_for_editors_knows_every_key() {
    let schema = serde_json::to_value(schemars::schema_for!(Scenario)).expect("JSON");
    let known = schema_keys(&schema, None);
    for path in files(&root()) {
        let table: toml::Table = fs::read_to_string(&path).expect("a text").parse().expect("TOML");
        let assert_known = |table: &toml::Table, known: &BTreeSet<String>| {
            for key in table.keys() {
                assert!(known.contains(key), "{}: {key} is not in {known:?}", path.display());
            }
        };
        assert_known(&table, &known);
        for (key, definition) in [
            ("traffic", "TrafficSpec"),
            ("phase", "PhaseSpec"),
            ("claim", "ClaimSpec"),
            ("figure", "FigureSpec"),
            ("observe", "ObserveSpec"),
            ("switch", "SwitchSpec"),
            ("transport", "TransportSpec"),
            ("quick", "QuickSpec"),
        ] {
            let known = schema_keys(&schema, Some(definition));
            match table.get(key) {
                Some(toml::Value::Table(one)) => assert_known(one, &known),
                Some(toml::Value::Array(list)) => {
                    list.iter().filter_map(toml::Value::as_table).for_each(|one| assert_known(one, &known));
                }
                _ => {}
            }
        }
    }
}
