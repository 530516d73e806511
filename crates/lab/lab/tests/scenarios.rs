//! Every scenario of the repository: it can be read, worked out and judged, and nothing that it names is missing.

use core::num::NonZeroU32;
use poseidon_lab::judge::{Outcome, judge};
use poseidon_lab::scenario::{self, Scenario};
use poseidon_lab::study::Study;
use poseidon_sim::Simulator;
use serde_json::Value;
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios")
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
    check_and_judge(studies(false));
}

#[test]
fn every_cell_of_a_quick_study_can_be_worked_out_and_every_claim_judged() {
    check_and_judge(studies(true));
}

fn check_and_judge(studies: Vec<Study>) {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    for study in studies {
        study.check(&simulator).unwrap_or_else(|error| panic!("{error}"));
        for claim in &study.scenario().claim {
            let verdict = judge(claim, &[]).unwrap_or_else(|why| panic!("{}: {why}", study.name));
            assert!(matches!(verdict.outcome, Outcome::NotRun | Outcome::NotComparable));
        }
    }
}

#[test]
fn a_quick_study_is_smaller() {
    for (whole, quick) in studies(false).into_iter().zip(studies(true)) {
        let work = |study: &Study| -> f64 {
            let run = |cell: &scenario::Cell| {
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
fn schema_keys(schema: &Value, definition: Option<&str>) -> BTreeSet<String> {
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

/// Why a value is not what a schema says; knows the keywords that our schema uses, and panics at others.
fn violation(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let keywords = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Bool(false) => return Err("nothing may stand here".into()),
        schema => schema.as_object().expect("a schema is a table"),
    };
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    };
    let ensure = |holds: bool, why: &str| if holds { Ok(()) } else { Err(format!("{value}: {why}")) };
    let list = |of: &Value| of.as_array().cloned().expect("a list");
    for (keyword, of) in keywords {
        match keyword.as_str() {
            "type" => {
                let kinds = if of.is_array() { list(of) } else { vec![of.clone()] };
                ensure(kinds.iter().any(|kind| is(kind.as_str().expect("a type"))), &format!("is no {of}"))?;
            }
            "const" => ensure(value == of, &format!("is not {of}"))?,
            "enum" => ensure(list(of).contains(value), &format!("is not in {of}"))?,
            "minimum" => ensure(value.as_f64().is_none_or(|v| Some(v) >= of.as_f64()), "is too small")?,
            "maximum" => ensure(value.as_f64().is_none_or(|v| Some(v) <= of.as_f64()), "is too large")?,
            "minItems" => {
                ensure(value.as_array().is_none_or(|v| Some(v.len() as u64) >= of.as_u64()), "short")?
            }
            "maxItems" => {
                ensure(value.as_array().is_none_or(|v| Some(v.len() as u64) <= of.as_u64()), "long")?
            }
            "pattern" => {
                assert_eq!(of, "^\\$[A-Za-z0-9_]+$", "the only pattern that this test knows");
                let name = value.as_str().map(|text| text.strip_prefix('$').unwrap_or_default());
                let is_name = |name: &str| {
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                };
                ensure(name.is_none_or(is_name), "is no variable")?;
            }
            "$ref" => {
                let name = of.as_str().and_then(|path| path.strip_prefix("#/$defs/")).expect("a definition");
                violation(root, &root["$defs"][name], value)?;
            }
            "anyOf" | "oneOf" => {
                let tried: Vec<_> = list(of).iter().map(|form| violation(root, form, value)).collect();
                let fits = tried.iter().filter(|tried| tried.is_ok()).count();
                let whys: Vec<String> = tried.into_iter().filter_map(Result::err).collect();
                ensure(fits == 1 || fits > 1 && keyword == "anyOf", &format!("fits {fits}: {whys:?}"))?;
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    violation(root, of, item)?;
                }
            }
            "required" => {
                for key in list(of) {
                    let key = key.as_str().expect("a key").to_owned();
                    ensure(value.as_object().is_none_or(|v| v.contains_key(&key)), &format!("lacks {key}"))?;
                }
            }
            "properties" => {
                for (key, inside) in of.as_object().expect("keys") {
                    if let Some(value) = value.get(key) {
                        violation(root, inside, value).map_err(|why| format!("{key}: {why}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let known = keywords.get("properties").and_then(Value::as_object);
                let is_other = |key: &&String| known.is_none_or(|known| !known.contains_key(*key));
                for key in value.as_object().into_iter().flat_map(|table| table.keys()).filter(is_other) {
                    violation(root, of, &value[key]).map_err(|why| format!("{key}: {why}"))?;
                }
            }
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => {}
            other => panic!("the keyword {other} is new: let this test know it"),
        }
    }
    Ok(())
}

#[test]
fn the_schema_for_editors_accepts_every_scenario_and_refuses_what_is_wrong() {
    let schema = scenario::schema().to_value();
    let check = |text: &str| {
        let table: toml::Table = text.parse().expect("TOML");
        violation(&schema, &schema, &serde_json::to_value(table).expect("JSON"))
    };
    let files = files(&root());
    assert!(files.len() > 80);
    for path in files {
        let text = fs::read_to_string(&path).expect("a text");
        check(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
    let text = fs::read_to_string(root().join("quickstart.toml")).expect("a text");
    for (more, is_right) in [
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
        let own = |line: &&str| !more.starts_with("seeds") || !line.starts_with("seeds");
        let own = |line: &&str| own(line) && (!more.starts_with("quick") || !line.starts_with("[quick"));
        let rest: Vec<&str> = text.lines().filter(own).collect();
        assert_eq!(check(&format!("{more}{}", rest.join("\n"))).is_ok(), is_right, "{more}");
    }
}

/// A scenario with some head, network and traffic.
fn small(head: &str, topology: &str, traffic: &str) -> String {
    format!(
        "title = \"t\"\nsource = \"s\"\nstop = \"10 ms\"\n{head}\n[topology]\n{topology}\n\
         link = {{ rate = \"100 Gbps\", delay = \"1 us\" }}\n[[traffic]]\nname = \"them\"\n{traffic}\n"
    )
}

const STAR: &str = "kind = \"star\"\nhosts = 4";
const TREE: &str = "kind = \"fat-tree\"\nports = 4";
const FLOWS: &str = "kind = \"long-flows\"\nfrom = \"host0\"\nto = \"host1\"";

/// Why a scenario is refused, before anything of it is made that would not fit into memory.
fn refusal(text: &str) -> String {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    let checked = Study::read("test.toml", text, false).and_then(|study| study.check(&simulator));
    checked.expect_err(text).to_string()
}

#[test]
fn a_plan_that_does_not_fit_into_memory_is_refused_before_it_is_made() {
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
    for (text, key, says) in [
        (small("", STAR, closed), "messages", "about 100,000,000 messages; 10,000,000 are the most"),
        (small("", STAR, random), "rate", "about 125,000,000 messages; 10,000,000 are the most"),
        (small("", STAR, rotating), "every", "about 10,000,000,000 messages; 10,000,000 are the most"),
        (small("", TREE, requests), "every", "about 80,000,000,000 messages; 10,000,000 are the most"),
        (small("", TREE, poisson), "load", "messages; 10,000,000 are the most"),
        (small("seeds = 1_000_000_000", STAR, FLOWS), "seeds", "asks for 1,000,000,000 runs of 1 cells"),
        (small("", STAR, &sweeps), "y", "make 1,000,000 cells; a study has at most 100,000"),
    ] {
        let said = refusal(&text);
        let line = 1 + text.lines().position(|line| line.starts_with(&format!("{key} = "))).expect(key);
        assert!(said.starts_with(&format!("test.toml:{line}: ")), "{said}");
        assert!(said.contains(says) && said.contains(key), "{said}");
    }
    let study =
        Study::read("test.toml", &small("", STAR, FLOWS), false).unwrap_or_else(|error| panic!("{error}"));
    assert!(study.check_runs(Some(1_000_000)).is_ok());
    let said = study.check_runs(Some(1_000_001)).expect_err("too many").to_string();
    assert!(said.contains("--seeds asks for 1,000,001 runs"), "{said}");
}

#[test]
fn values_that_mean_nothing_are_refused() {
    let poisson =
        |load: &str| format!("kind = \"poisson-flows\"\nsizes = \"websearch-powertcp\"\nload = \"{load}\"");
    for (text, line, says) in [
        (small("seeds = 0", STAR, FLOWS), 4, "seeds is 0, so nothing would run; write 1 or more"),
        (small("", "kind = \"fat-tree\"\nports = 5", FLOWS), 7, "topology.ports is 5; a fat tree needs"),
        (small("", "kind = \"fat-tree\"\nports = 0", FLOWS), 7, "an even number of ports, such as 2"),
        (small("", TREE, &poisson("1.01")), 13, "load is 1.01"),
    ] {
        let said = refusal(&text);
        assert!(said.starts_with(&format!("test.toml:{line}: ")) && said.contains(says), "{text}{said}");
    }
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    for right in [small("", TREE, &poisson("1")), small("seeds = 1", TREE, FLOWS)] {
        let study = Study::read("test.toml", &right, false).unwrap_or_else(|error| panic!("{error}"));
        study.check(&simulator).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn explain_says_how_much_is_offered_to_the_links() {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    // 3 x 50 MB in 10 ms into a link of 100 Gbps: 1.2 of it, 0.4 from each.
    let incast = "kind = \"incast\"\nfrom = \"host[0-2]\"\nto = \"host3\"\nsize = \"50 MB\"";
    for (traffic, says) in [
        (
            incast,
            Some(
                "at most 0.400 of a host's link sent (host 2), 1.200 received (host 3, more than the link carries)",
            ),
        ),
        (FLOWS, None),
    ] {
        let study = Study::read("test.toml", &small("", STAR, traffic), false)
            .unwrap_or_else(|error| panic!("{error}"));
        let resolved =
            study.resolve(&study.cells[0], 1, &simulator).unwrap_or_else(|error| panic!("{error}"));
        let text = poseidon_lab::explain::plan(&resolved);
        let line = text.lines().find_map(|line| line.strip_prefix("offered load")).map(str::trim);
        assert_eq!(line, says);
    }
}
