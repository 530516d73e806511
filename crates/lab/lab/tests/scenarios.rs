//! Checks that every scenario in the repository can be read, resolved and judged, and that all its names exist.

use core::num::NonZeroU32;
use poseidon_lab::judge::{Outcome, judge};
use poseidon_lab::scenario::{self, Scenario};
use poseidon_lab::study::Study;
use poseidon_sim::Simulator;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The figures and tables in each paper that have a scenario, which are those about flow behaviour.
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

/// The figures and tables whose claims gate the suite.
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

fn scenario_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the scenario folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(scenario_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn scenarios_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios")
}

/// Reads every scenario as a full or a quick study.
fn studies(quick: bool) -> Vec<Study> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("the file can be read");
        Study::read(&path.to_string_lossy(), &text, quick).unwrap_or_else(|error| panic!("{error}"))
    };
    scenario_files(&scenarios_folder()).into_iter().map(read).collect()
}

#[test]
fn every_listed_figure_has_a_scenario() {
    let stem = |path: PathBuf| path.file_stem().expect("the file has a name").to_string_lossy().into_owned();
    for (paper, entries) in ENTRIES {
        let found: BTreeSet<String> =
            scenario_files(&scenarios_folder().join(paper)).into_iter().map(stem).collect();
        let expected: BTreeSet<String> = entries.split_whitespace().map(str::to_owned).collect();
        assert_eq!(found, expected, "{paper}");
    }
}

#[test]
fn the_source_of_a_scenario_names_its_figure() {
    for study in studies(false) {
        let (source, name) =
            (&study.scenario().source, study.name.rsplit('/').next().expect("a study has a name"));
        if let Some(number) = name.strip_prefix("fig") {
            // The file name for fig. 5(a) is fig5a. A suffix after a dash distinguishes several scenarios for one
            // figure.
            let number = number.split('-').next().expect("a figure has a number");
            let plain = source.replace(['(', ')'], "");
            assert!(plain.contains(&format!("fig. {number}")), "{name}: {source}");
        }
    }
}

#[test]
fn every_cell_can_be_resolved_and_every_claim_judged() {
    check_and_judge(studies(false));
}

#[test]
fn every_cell_of_a_quick_study_can_be_resolved_and_every_claim_judged() {
    check_and_judge(studies(true));
}

fn check_and_judge(studies: Vec<Study>) {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    for study in studies {
        study.check(&simulator).unwrap_or_else(|error| panic!("{error}"));
        for claim in &study.scenario().claim {
            let verdict = judge(claim, &[]).unwrap_or_else(|error| panic!("{}: {error}", study.name));
            assert!(matches!(verdict.outcome, Outcome::NotRun | Outcome::NotComparable));
        }
    }
}

#[test]
fn a_quick_study_is_smaller_than_the_full_study() {
    for (full, quick) in studies(false).into_iter().zip(studies(true)) {
        let work = |study: &Study| -> f64 {
            let run = |cell: &scenario::Cell| {
                f64::from(study.seed_count(cell, None)) * cell.scenario.stop.0.get() as f64
            };
            study.cells.iter().map(run).sum()
        };
        if quick.scenario().quick.skip.is_some() {
            assert!(
                quick.quick_omissions().is_some_and(|text| text.starts_with("not run: ")),
                "{}",
                full.name
            );
            continue;
        }
        assert_eq!(work(&quick) < work(&full), quick.quick_omissions().is_some(), "{}", full.name);
        assert!(work(&quick) <= work(&full), "{}", full.name);
        assert_eq!(full.quick_omissions(), None, "{}", full.name);
    }
}

#[test]
fn every_scenario_has_a_source_and_a_figure() {
    for study in studies(false) {
        let scenario = study.scenario();
        assert!(!scenario.title.is_empty() && !scenario.source.is_empty(), "{}", study.name);
        let has_figure = !scenario.figure.is_empty() || scenario.withdrawn.is_some();
        assert!(has_figure, "{} has no figure", study.name);
        for claim in &scenario.claim {
            assert!(!claim.says.is_empty() && !claim.paper.is_empty(), "{}: {:?}", study.name, claim.says);
        }
    }
}

#[test]
fn figures_about_behaviour_gate_the_suite() {
    let studies = studies(false);
    for (paper, gates) in GATES {
        for study in &studies {
            let Some(entry) = study.name.strip_prefix(&format!("{paper}/")) else { continue };
            let has_gate = study.scenario().claim.iter().any(|claim| claim.gating);
            assert_eq!(has_gate, gates.split_whitespace().any(|gate| gate == entry), "{}", study.name);
        }
    }
}

#[test]
fn unknown_names_are_rejected_with_their_line() {
    let text =
        fs::read_to_string(scenarios_folder().join("poseidon/fig14c.toml")).expect("the file can be read");
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let line_of = |fragment: &str| {
        1 + text.lines().position(|line| line.contains(fragment)).expect("the scenario contains the fragment")
    };
    for (original, replacement, message) in [
        ("metric = \"red.signal_us\"", "metric = \"red.sinal_us\"", "did you mean \"signal_us\"?"),
        ("metric = \"red.target_us\"", "metric = \"rde.target_us\"", "did you mean \"red\"?"),
        ("metric = \"red.target_us\"", "metric = \"green.target_us\"", "add \"green\" to observe.decisions"),
        ("metric = \"red.target_us\"", "metric = \"red.latency_p50_us\"", "exists only for messages"),
        ("metric = \"red.target_us\"", "metric = \"1 + 1\"", "contains no metric"),
        (
            "against = { phase = \"(2,2)\" }",
            "against = { phase = \"(2,3)\" }",
            "\"phase\" has no value \"(2,3)\"",
        ),
        ("against = { phase = \"(2,2)\" }", "against = { pase = \"(2,2)\" }", "did you mean \"phase\"?"),
        ("where  = { law = \"swift\",", "where  = { law = \"swfit\",", "did you mean \"swift\"?"),
        ("metric = [\"red.queueing_us\"]", "metric = [\"red.quing_us\"]", "did you mean \"queueing_us\"?"),
        ("where = { law = \"swift\" }", "where = { lwa = \"swift\" }", "did you mean \"law\"?"),
    ] {
        let invalid = text.replacen(original, replacement, 1);
        assert_ne!(invalid, text, "{original}");
        let study = Study::read("fig14c.toml", &invalid, false).unwrap_or_else(|error| panic!("{error}"));
        let found = study.check(&simulator).expect_err(replacement).to_string();
        // A name that is missing from a list is reported on the line of the list.
        let location = if message.contains("observe.decisions") { "decisions = " } else { original };
        assert!(found.starts_with(&format!("fig14c.toml:{}: ", line_of(location))), "{replacement}: {found}");
        assert!(found.contains(message), "{replacement}: {found}");
    }
}

/// Returns the keys of a schema definition, or of the scenario itself if `definition` is `None`.
fn schema_keys(schema: &Value, definition: Option<&str>) -> BTreeSet<String> {
    let table = definition.map_or(schema, |name| &schema["$defs"][name]);
    let properties = table["properties"].as_object().unwrap_or_else(|| panic!("{definition:?}: {table}"));
    properties.keys().cloned().collect()
}

#[test]
fn the_editor_schema_contains_every_key() {
    let schema = serde_json::to_value(schemars::schema_for!(Scenario)).expect("the schema is JSON");
    let known = schema_keys(&schema, None);
    for path in scenario_files(&scenarios_folder()) {
        let table: toml::Table =
            fs::read_to_string(&path).expect("the file can be read").parse().expect("a scenario is TOML");
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
                Some(toml::Value::Table(inner)) => assert_known(inner, &known),
                Some(toml::Value::Array(list)) => {
                    list.iter()
                        .filter_map(toml::Value::as_table)
                        .for_each(|inner| assert_known(inner, &known));
                }
                _ => {}
            }
        }
    }
}

/// Validates a value against a schema. Supports only the keywords that our schema uses, and panics on any other
/// keyword.
fn check_schema(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let keywords = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Bool(false) => return Err("no value is allowed here".into()),
        schema => schema.as_object().expect("a schema is an object"),
    };
    let has_type = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("this test does not support the type {other}"),
    };
    let ensure = |holds: bool, reason: &str| if holds { Ok(()) } else { Err(format!("{value}: {reason}")) };
    let list = |argument: &Value| argument.as_array().cloned().expect("the argument is a list");
    for (keyword, argument) in keywords {
        match keyword.as_str() {
            "type" => {
                let kinds = if argument.is_array() { list(argument) } else { vec![argument.clone()] };
                ensure(
                    kinds.iter().any(|kind| has_type(kind.as_str().expect("a type is text"))),
                    &format!("is not of type {argument}"),
                )?;
            }
            "const" => ensure(value == argument, &format!("is not {argument}"))?,
            "enum" => ensure(list(argument).contains(value), &format!("is not in {argument}"))?,
            "minimum" => ensure(value.as_f64().is_none_or(|v| Some(v) >= argument.as_f64()), "is too small")?,
            "maximum" => ensure(value.as_f64().is_none_or(|v| Some(v) <= argument.as_f64()), "is too large")?,
            "minItems" => ensure(
                value.as_array().is_none_or(|v| Some(v.len() as u64) >= argument.as_u64()),
                "has too few items",
            )?,
            "maxItems" => ensure(
                value.as_array().is_none_or(|v| Some(v.len() as u64) <= argument.as_u64()),
                "has too many items",
            )?,
            "pattern" => {
                assert_eq!(argument, "^\\$[A-Za-z0-9_]+$", "this test supports only this pattern");
                let name = value.as_str().map(|text| text.strip_prefix('$').unwrap_or_default());
                let is_name = |name: &str| {
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                };
                ensure(name.is_none_or(is_name), "is not a variable")?;
            }
            "$ref" => {
                let name = argument
                    .as_str()
                    .and_then(|path| path.strip_prefix("#/$defs/"))
                    .expect("a reference names a definition");
                check_schema(root, &root["$defs"][name], value)?;
            }
            "anyOf" | "oneOf" => {
                let results: Vec<_> =
                    list(argument).iter().map(|subschema| check_schema(root, subschema, value)).collect();
                let matches = results.iter().filter(|result| result.is_ok()).count();
                let errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
                let is_valid = matches == 1 || matches > 1 && keyword == "anyOf";
                ensure(is_valid, &format!("matches {matches} subschemas: {errors:?}"))?;
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    check_schema(root, argument, item)?;
                }
            }
            "required" => {
                for key in list(argument) {
                    let key = key.as_str().expect("a key is text").to_owned();
                    ensure(value.as_object().is_none_or(|v| v.contains_key(&key)), &format!("lacks {key}"))?;
                }
            }
            "properties" => {
                for (key, property) in argument.as_object().expect("properties are an object") {
                    if let Some(value) = value.get(key) {
                        check_schema(root, property, value).map_err(|error| format!("{key}: {error}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let known = keywords.get("properties").and_then(Value::as_object);
                let is_other = |key: &&String| known.is_none_or(|known| !known.contains_key(*key));
                for key in value.as_object().into_iter().flat_map(|table| table.keys()).filter(is_other) {
                    check_schema(root, argument, &value[key]).map_err(|error| format!("{key}: {error}"))?;
                }
            }
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => {}
            other => panic!("this test does not support the keyword {other}"),
        }
    }
    Ok(())
}

#[test]
fn the_editor_schema_accepts_every_scenario_and_rejects_invalid_ones() {
    let schema = scenario::schema().to_value();
    let check = |text: &str| {
        let table: toml::Table = text.parse().expect("a scenario is TOML");
        check_schema(&schema, &schema, &serde_json::to_value(table).expect("TOML converts to JSON"))
    };
    let files = scenario_files(&scenarios_folder());
    assert!(files.len() > 80);
    for path in files {
        let text = fs::read_to_string(&path).expect("the file can be read");
        check(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let text = fs::read_to_string(scenarios_folder().join("quickstart.toml")).expect("the file can be read");
    for (added, is_valid) in [
        ("", true),
        ("seeds = 3\n", true),
        ("seeds = \"$n\"\n", true),
        ("seeds = \"two\"\n", false),
        ("seeds = \"$n of them\"\n", false),
        ("seeds = -1\n", false),
        ("sedes = 1\n", false),
        ("analytic = \"fair-ramp\"\n", true),
        ("analytic = \"$which\"\n", true),
        ("analytic = \"unfair-ramp\"\n", false),
        ("quick = { stop = 3 }\n", false),
    ] {
        // An added key replaces the same key in the scenario.
        let replaces = |line: &str, key: &str, head: &str| added.starts_with(key) && line.starts_with(head);
        let is_unchanged =
            |line: &&str| !replaces(line, "seeds", "seeds") && !replaces(line, "quick", "[quick");
        let rest: Vec<&str> = text.lines().filter(is_unchanged).collect();
        assert_eq!(check(&format!("{added}{}", rest.join("\n"))).is_ok(), is_valid, "{added}");
    }
}

/// Returns a scenario with these top-level keys, topology and traffic.
fn small_scenario(head: &str, topology: &str, traffic: &str) -> String {
    format!(
        "title = \"t\"\nsource = \"s\"\nstop = \"10 ms\"\n{head}\n[topology]\n{topology}\n\
         link = {{ rate = \"100 Gbps\", delay = \"1 us\" }}\n[[traffic]]\nname = \"traffic\"\n{traffic}\n"
    )
}

const STAR: &str = "kind = \"star\"\nhosts = 4";
const TREE: &str = "kind = \"fat-tree\"\nports = 4";
const FLOWS: &str = "kind = \"long-flows\"\nfrom = \"host0\"\nto = \"host1\"";

/// Returns the error message for an invalid scenario.
fn error_message(text: &str) -> String {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let result = Study::read("test.toml", text, false).and_then(|study| study.check(&simulator));
    result.expect_err(text).to_string()
}

#[test]
fn a_plan_that_is_too_large_is_rejected_before_it_is_built() {
    let poisson =
        "kind = \"poisson-flows\"\nsizes = \"websearch-powertcp\"\nrate = \"9000 Tbps\"\nload = \"1\"";
    let random =
        "kind = \"uniform-random\"\nfrom = \"host0\"\nto = \"host1\"\nsize = \"1 B\"\nrate = \"100 Gbps\"";
    let closed =
        "kind = \"closed-loop\"\nfrom = \"host0\"\nto = \"host1\"\nsize = \"1 kB\"\nmessages = 100_000_000";
    let rotating =
        "kind = \"rotating-incast\"\nfrom = \"host0\"\nto = \"host1\"\nsize = \"1 kB\"\nevery = \"1 ps\"";
    let requests = "kind = \"requests\"\nfan = 1\nsize = \"1 kB\"\nevery = \"2 ps\"";
    let values: Vec<String> = (0..1_000).map(|value| value.to_string()).collect();
    let list = values.join(", ");
    let sweeps = format!("{FLOWS}\n[sweep]\nx = [{list}]\ny = [{list}]");
    for (text, key, message) in [
        (
            small_scenario("", STAR, closed),
            "messages",
            "about 100,000,000 messages; a plan has at most 10,000,000",
        ),
        (
            small_scenario("", STAR, random),
            "rate",
            "about 125,000,000 messages; a plan has at most 10,000,000",
        ),
        (
            small_scenario("", STAR, rotating),
            "every",
            "about 10,000,000,000 messages; a plan has at most 10,000,000",
        ),
        (
            small_scenario("", TREE, requests),
            "every",
            "about 80,000,000,000 messages; a plan has at most 10,000,000",
        ),
        (small_scenario("", TREE, poisson), "load", "messages; a plan has at most 10,000,000"),
        (
            small_scenario("seeds = 1_000_000_000", STAR, FLOWS),
            "seeds",
            "asks for 1,000,000,000 runs of 1 cells",
        ),
        (small_scenario("", STAR, &sweeps), "y", "make 1,000,000 cells; a study has at most 100,000"),
    ] {
        let found = error_message(&text);
        let line = 1 + text.lines().position(|line| line.starts_with(&format!("{key} = "))).expect(key);
        assert!(found.starts_with(&format!("test.toml:{line}: ")), "{found}");
        assert!(found.contains(message) && found.contains(key), "{found}");
    }
    let study = Study::read("test.toml", &small_scenario("", STAR, FLOWS), false)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(study.check_run_count(Some(1_000_000)).is_ok());
    let message = study.check_run_count(Some(1_000_001)).expect_err("there are too many runs").to_string();
    assert!(message.contains("--seeds asks for 1,000,001 runs"), "{message}");
}

#[test]
fn invalid_values_are_rejected() {
    let poisson =
        |load: &str| format!("kind = \"poisson-flows\"\nsizes = \"websearch-powertcp\"\nload = \"{load}\"");
    for (text, line, message) in [
        (
            small_scenario("seeds = 0", STAR, FLOWS),
            4,
            "seeds is 0, so there would be no runs; set it to 1 or more",
        ),
        (
            small_scenario("", "kind = \"fat-tree\"\nports = 5", FLOWS),
            7,
            "topology.ports is 5; a fat tree needs",
        ),
        (
            small_scenario("", "kind = \"fat-tree\"\nports = 0", FLOWS),
            7,
            "an even number of ports, such as 2",
        ),
        (small_scenario("", TREE, &poisson("1.01")), 13, "load is 1.01"),
    ] {
        let found = error_message(&text);
        assert!(
            found.starts_with(&format!("test.toml:{line}: ")) && found.contains(message),
            "{text}{found}"
        );
    }
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    for valid in [small_scenario("", TREE, &poisson("1")), small_scenario("seeds = 1", TREE, FLOWS)] {
        let study = Study::read("test.toml", &valid, false).unwrap_or_else(|error| panic!("{error}"));
        study.check(&simulator).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_description_of_a_run_shows_the_offered_load() {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    // Three hosts each send 50 MB to a 100 Gbps link within 10 ms. The load is 1.2, of which each host contributes 0.4.
    let incast = "kind = \"incast\"\nfrom = \"host[0-2]\"\nto = \"host3\"\nsize = \"50 MB\"";
    for (traffic, expected) in [
        (
            incast,
            Some(
                "at most 0.400 of a host's link sent (host 2), 1.200 received (host 3, more than the link carries)",
            ),
        ),
        (FLOWS, None),
    ] {
        let study = Study::read("test.toml", &small_scenario("", STAR, traffic), false)
            .unwrap_or_else(|error| panic!("{error}"));
        let resolved =
            study.resolve(&study.cells[0], 1, &simulator).unwrap_or_else(|error| panic!("{error}"));
        let text = poseidon_lab::explain::describe_run(&resolved);
        let line = text.lines().find_map(|line| line.strip_prefix("offered load")).map(str::trim);
        assert_eq!(line, expected);
    }
}
