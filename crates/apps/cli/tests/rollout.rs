//! Tests `poseidon rollout`: its table, its files, its cache and its errors.

mod common;

use common::{TempFolder, exit_code, json, stderr, stdout};
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

/// A parking lot of three switches. The victim crosses two congested links. Without telemetry, it reacts to the sum of
/// both queues and gets less than its share.
const LOT: &str = r#"title = "parking lot"
source = "none"
stop = "3 ms"
law = "brownfield"

[laws.brownfield]
base = "poseidon"
signal = "brownfield"
max-rate = "100 Gbps"

[topology]
kind = "chain"
switches = 3
hosts = 5
host-link = { rate = "100 Gbps", delay = "1 us" }
middle-link = { rate = "100 Gbps", delay = "1 us" }

[[traffic]]
name = "victim"
kind = "long-flows"
from = "rack0.host0"
to = "rack2.host0"
spread = "50 us"

[[traffic]]
name = "left"
kind = "long-flows"
from = "rack0.host[1-3]"
to = "rack1.host[0-2]"
spread = "50 us"

[[traffic]]
name = "right"
kind = "long-flows"
from = "rack1.host[0-2]"
to = "rack2.host[1-3]"
spread = "50 us"

[[figure]]
title = "Rates"
kind = "bars"
metric = ["victim.rate_gbps", "left.rate_gbps", "right.rate_gbps"]
y = "Gbps"
"#;

const ROLLOUT: [&str; 13] = [
    "rollout",
    "lot.toml",
    "--budget",
    "2",
    "--objective",
    "victim.share",
    "--seeds",
    "3",
    "--random",
    "2",
    "--all-steps",
    "-o",
    "out",
];

/// Returns when each stored run was written.
fn modification_times(folder: &TempFolder) -> Vec<SystemTime> {
    let runs = folder.0.join("out/lot/runs");
    let mut manifests: Vec<PathBuf> = fs::read_dir(runs)
        .expect("the runs are stored")
        .flatten()
        .map(|entry| entry.path().join("manifest.json"))
        .collect();
    manifests.sort();
    manifests
        .iter()
        .map(|path| fs::metadata(path).and_then(|data| data.modified()).expect("the manifest exists"))
        .collect()
}

#[test]
fn a_rollout_is_planned_printed_and_cached() {
    let folder = TempFolder::new("rollout").with_file("lot.toml", LOT);
    let output = folder.run_ok(&ROLLOUT);
    let (text, progress) = (stdout(&output), stderr(&output));
    for expected in [
        "victim.share (larger is better)",
        "step  upgrade",
        "bottleneck first",
        "all 3 candidates",
        "left.rate_gbps",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
    }
    let widest =
        text.lines().filter(|line| !line.starts_with("figure: ")).map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}\n{text}");
    for expected in ["3 candidates, at most ", "these runs take at most", "step 1: rack"] {
        assert!(progress.contains(expected), "{expected:?} is missing in\n{progress}");
    }
    for extension in ["json", "csv", "svg"] {
        let file = format!("rollout-victim.share.{extension}");
        assert!(folder.0.join("out/lot").join(&file).is_file(), "{file}");
    }
    let before = modification_times(&folder);
    let args = [&ROLLOUT[..], &["--json"]].concat();
    let plan = json(&folder.run_ok(&args));
    assert_eq!(modification_times(&folder), before, "a repeated plan runs nothing");
    let stored = folder.read("out/lot/rollout-victim.share.json");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&stored).expect("the file is JSON"), plan);

    // Telemetry at one of the two congested switches gives the victim its share.
    let steps = plan["steps"].as_array().expect("there is a list of steps");
    assert_eq!(steps.len(), 2);
    assert!(["rack0", "rack1"].contains(&steps[0]["name"].as_str().expect("a step has a name")), "{plan}");
    let gain = &steps[0]["step_gain"];
    let (mean, half) = (gain["mean"].as_f64(), gain["half"].as_f64());
    assert!(mean > Some(0.05) && half < mean, "{gain}");
    assert_eq!(plan["start"]["values"].as_array().map(Vec::len), Some(3));
    // The victim takes its share from the others.
    let effects = plan["side_effects"].as_array().expect("there is a list of side effects");
    let metrics: Vec<&str> = effects.iter().filter_map(|effect| effect["metric"].as_str()).collect();
    assert_eq!(metrics, ["left.rate_gbps", "right.rate_gbps"]);
    let cost = |effect: &serde_json::Value| effect["gain"]["mean"].as_f64();
    assert!(effects.iter().all(|effect| cost(effect) < Some(0.0)), "{effects:?}");
    // The last switch has no queue, so it is the last in the order by congestion.
    let bottleneck = &plan["baselines"][0];
    assert_eq!(
        (&bottleneck["order"], &bottleneck["orders"][0][2]),
        (&"bottleneck-first".into(), &"rack2".into())
    );

    // A report on the folder does not mistake these runs for runs of the scenario.
    let report = json(&folder.run_ok(&["report", "out", "--json"]));
    assert_eq!(report["runs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn stamping_switches_are_the_start_and_units_are_upgraded_together() {
    let text = format!("{LOT}\n[switch]\nstamping = \"rack0\"\n");
    let folder = TempFolder::new("rollout-units").with_file("lot.toml", &text);
    let args = [&ROLLOUT[..], &["--json", "--unit", "rack[0-2]"]].concat();
    let plan = json(&folder.run_ok(&args));
    assert_eq!(plan["start_switches"], serde_json::json!(["rack0"]));
    assert_eq!(plan["candidates"][0]["switches"], serde_json::json!(["rack1", "rack2"]));
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(1), "the only candidate is upgraded");
}

#[test]
fn invalid_requests_are_usage_errors() {
    let sweep = LOT.replace("law = \"brownfield\"", "") + "\n[sweep]\nlaw = [\"brownfield\", \"swift\"]\n";
    let folder = TempFolder::new("rollout-errors")
        .with_file("lot.toml", LOT)
        .with_file("sweep.toml", &sweep)
        .with_file("needs.toml", &LOT.replace("law = \"brownfield\"", "law = \"poseidon\""))
        .with_file("off.toml", &LOT.replace("law = \"brownfield\"", "law = \"swift\""))
        .with_file("done.toml", &format!("{LOT}\n[switch]\nstamping = \"rack[0-2]\"\n"));
    let share = ["--objective", "victim.share"];
    for (args, expected) in [
        (&["lot.toml"][..], "choose the metric to improve with --objective, such as victim.share"),
        (&["lot.toml", "--objective", "victim.shar"], "did you mean \"share\"?"),
        (&["lot.toml", "--objective", "victim.rate"], "did you mean \"rate_gbps\"?"),
        (&["lot.toml", "--objective", "run.marks"], "--maximise or --minimise"),
        (&["lot.toml", "--candidates", "rack9", share[0], share[1]], "--candidates: \"rack9\""),
        (&["sweep.toml", share[0], share[1]], "--cell: law brownfield; law swift"),
        (&["sweep.toml", "--cell", "law timely", share[0], share[1]], "there is no cell \"law timely\""),
        (&["sweep.toml", "--cell", "law swift", share[0], share[1]], "upgrades have no effect"),
        (&["needs.toml", share[0], share[1]], "needs telemetry from every switch"),
        (&["off.toml", share[0], share[1]], "upgrades have no effect"),
        (&["done.toml", share[0], share[1]], "every candidate already writes telemetry"),
        (&["lot.toml", "--seeds", "1", share[0], share[1]], "--seeds"),
    ] {
        let output = folder.run(&[&["rollout"], args, &["--budget", "2", "-o", "out"]].concat());
        assert_eq!(exit_code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(expected) && stdout(&output).is_empty(),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    assert!(!folder.0.join("out").exists(), "nothing runs");
    let output = folder.run(&["rollout", "nothing.toml", "--budget", "1"]);
    assert_eq!(exit_code(&output), 2);
}
