//! Tests the command's output, files and exit codes.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

/// A test's temporary folder.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("poseidon-command-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    fn with_file(self, file: &str, text: &str) -> Self {
        self.write(file, text);
        self
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).expect("the temporary folder is writable");
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(POSEIDON).args(args).current_dir(&self.0).output().expect("the command starts")
    }

    /// Returns all files and folders, sorted.
    fn list(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("the folder exists").flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
                paths.push(entry.path());
            }
        }
        paths.sort();
        paths
    }

    /// Returns all files with this name.
    fn files_named(&self, name: &str) -> Vec<PathBuf> {
        self.list().into_iter().filter(|path| path.file_name().is_some_and(|file| file == name)).collect()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn exit_code(output: &Output) -> i32 {
    output.status.code().expect("no signal ended the command")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is valid UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the output is valid UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

/// Two flows share one port, under two laws with two seeds each: four runs of 0.4 ms.
const TINY: &str = r#"title = "two flows"
source = "none"
stop = "0.4 ms"
seeds = 2

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
spread = "10 us"

[observe]
decisions = ["flows"]

[observe.queues]
queue = "last hop of flows"

[sweep]
law = ["poseidon", "swift"]

[[claim]]
says = "they fill the link"
metric = "flows.total_gbps"
above = 90.0
gating = true
paper = "none"

[[figure]]
title = "Rates"
kind = "bars"
metric = "flows.rate_gbps"
by = "law"
y = "Gbps"
"#;

#[test]
fn run_prints_and_stores_results() {
    let folder = TempFolder::new("run").with_file("tiny.toml", TINY);
    let output = folder.run(&["run", "tiny.toml", "-o", "out"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for expected in ["two flows", "Rates (Gbps)", "Counters", "poseidon x2", "they fill the link", "holds *"]
    {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    for (name, count) in [
        ("scenario.toml", 1),
        ("manifest.json", 4),
        ("summary.json", 4),
        ("plan.txt", 4),
        ("receivers.parquet", 4),
        ("figure-1.svg", 1),
        ("figure-1.csv", 1),
        ("verdicts.json", 1),
    ] {
        assert_eq!(folder.files_named(name).len(), count, "{name} in {:?}", folder.list());
    }
}

#[test]
fn files_are_written_only_to_the_output_folder() {
    let folder = TempFolder::new("elsewhere").with_file("tiny.toml", TINY);
    let before = folder.list();
    assert_eq!(exit_code(&folder.run(&["run", "tiny.toml", "-o", "deep/out", "--quiet"])), 0);
    assert_eq!(exit_code(&folder.run(&["report", "deep/out"])), 0);
    let out = folder.0.join("deep");
    let after: Vec<PathBuf> = folder.list().into_iter().filter(|path| !path.starts_with(&out)).collect();
    assert_eq!(before, after);
    assert!(!folder.list().iter().any(|path| path.to_string_lossy().ends_with(".part")));
}

#[test]
fn an_invalid_scenario_is_rejected_with_one_line() {
    let replace = |part: &str, replacement: &str| {
        assert!(TINY.contains(part), "{part}");
        TINY.replacen(part, replacement, 1)
    };
    let cases = [
        (replace("stop =", "sotp ="), 3, "there is no key \"sotp\" here; did you mean \"stop\"?"),
        (replace("\"0.4 ms\"", "\"0.4\""), 3, "time without a unit"),
        (replace("\"0.4 ms\"", "\"0.4 kB\""), 3, "\"0.4 kB\""),
        (replace("seeds = 2", "seeds = \"two\""), 4, "expected u32"),
        (replace("\"swift\"]", "\"swfit\"]"), 28, "there is no law \"swfit\"; did you mean \"swift\"?"),
        (
            replace("\"auto\"", "\"off\""),
            12,
            "needs max-hop-delay, which the switches do not write; set switch.stamp to \"auto\"",
        ),
        (replace("[\"flows\"]", "[\"flow\"]"), 22, "there is no traffic \"flow\"; did you mean \"flows\"?"),
        (
            replace("hop of flows", "hop of folws"),
            25,
            "there is no traffic \"folws\"; did you mean \"flows\"?",
        ),
        (
            replace("spread =", "size = \"1 kB\"\nspread ="),
            19,
            "size has no effect on this kind of traffic; its keys are from, to",
        ),
        (replace("host[0-1]", "host[0-9]"), 17, "there are only 3 hosts"),
        (replace("to = \"host2\"", ""), 15, "to is missing"),
        (replace("100 Gbps", "100"), 9, "rate without a unit"),
        (replace("flows.total_gbps", "flows.totl_gbps"), 32, "did you mean \"total_gbps\"?"),
        (replace("flows.rate_gbps", "flws.rate_gbps"), 40, "did you mean \"flows\"?"),
        (replace("above = 90.0", ""), 31, "has no condition that can fail"),
        (replace("above = 90.0", "above = 90.0\nbelow = 1.0"), 31, "has two conditions; make it two claims"),
        (replace("[\"poseidon\", \"swift\"]", "[\"dctcp\"]"), 15, "needs marks, but switch.mark is off"),
        (replace("[sweep]", "[sweep"), 27, "]"),
    ];
    let folder = TempFolder::new("wrong");
    for (text, line, expected) in cases {
        folder.write("wrong.toml", &text);
        let output = folder.run(&["run", "wrong.toml", "-o", "out"]);
        let message = stderr(&output);
        assert_eq!(exit_code(&output), 3, "{expected}: {message}");
        let location = format!("poseidon: wrong.toml:{line}: ");
        assert!(message.starts_with(&location), "line {line}, {expected}: {message}");
        assert!(message.contains(expected) && message.lines().count() == 1, "{expected}: {message}");
        assert!(stdout(&output).is_empty());
        assert!(!folder.0.join("out").exists(), "{expected}: a run started");
    }
    let missing = replace("stop = \"0.4 ms\"\n", "");
    folder.write("wrong.toml", &missing);
    let message = stderr(&folder.run(&["explain", "wrong.toml"]));
    assert_eq!(message, "poseidon: wrong.toml: the run has no end; set stop, such as stop = \"10 ms\"\n");
}

#[test]
fn unknown_names_are_usage_errors() {
    let folder = TempFolder::new("usage");
    for args in [
        &["run", "nothing.toml"][..],
        &["run"],
        &["frobnicate"],
        &["run", "quickstart", "--seeds", "0"],
        &["repro"],
        &["repro", "nobody"],
        &["repro", "poseidon", "--only", "fig99", "--list"],
        &["repro", "poseidon", "--shard", "3/2"],
        &["laws", "nolaw"],
        &["scenarios", "nothing"],
    ] {
        let output = folder.run(args);
        assert_eq!(exit_code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).is_empty() && stdout(&output).is_empty(), "{args:?}");
    }
    assert!(folder.list().is_empty());
}

#[test]
fn a_failed_gate_sets_the_exit_code() {
    let folder = TempFolder::new("gate");
    for (limit, gating, expected) in [("90.0", "true", 0), ("900.0", "false", 0), ("900.0", "true", 4)] {
        let text = TINY.replace("above = 90.0", &format!("above = {limit}"));
        folder.write("tiny.toml", &text.replace("gating = true", &format!("gating = {gating}")));
        let output = folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none"]);
        assert_eq!(exit_code(&output), expected, "above {limit}, gating {gating}: {}", stderr(&output));
        assert_eq!(exit_code(&folder.run(&["report", "out"])), expected, "the report has the same exit code");
    }
    let output = folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--quiet"]);
    assert_eq!(stderr(&output), "poseidon: a gating claim fails\n");
}

#[test]
fn results_do_not_depend_on_the_number_of_jobs() {
    let folder = TempFolder::new("jobs").with_file("tiny.toml", TINY);
    let run = |jobs: &str, out: &str| {
        json(&folder.run(&["run", "tiny.toml", "-o", out, "--records", "none", "--json", "--jobs", jobs]))
    };
    let (single, parallel) = (run("1", "one"), run("2", "two"));
    assert_eq!(single["result_hash"], parallel["result_hash"]);
    let summaries = |all: &Value| -> Vec<Value> {
        all["runs"]
            .as_array()
            .expect("there is a list of runs")
            .iter()
            .map(|run| run["phases"].clone())
            .collect()
    };
    assert_eq!(summaries(&single), summaries(&parallel));
    let report = json(&folder.run(&["report", "one", "--json"]));
    assert_eq!(report["result_hash"], single["result_hash"]);
}

#[test]
fn stored_runs_are_reused() {
    let folder = TempFolder::new("again").with_file("tiny.toml", TINY);
    let run =
        |records: &str| json(&folder.run(&["run", "tiny.toml", "-o", "out", "--json", "--records", records]));
    let modification_times = || -> Vec<SystemTime> {
        let modification_time =
            |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).expect("the file exists");
        folder.files_named("manifest.json").iter().map(modification_time).collect()
    };
    let first = run("none");
    let before = modification_times();
    assert_eq!(before.len(), 4);
    let second = run("none");
    assert_eq!(modification_times(), before, "no manifest is rewritten");
    assert_eq!(first, second);
    // No rows are stored, so a request for rows repeats the runs, once per format.
    for (format, others) in [("csv", 0), ("parquet", 4)] {
        assert_eq!(run(format)["result_hash"], first["result_hash"]);
        assert_eq!(folder.files_named(&format!("receivers.{format}")).len(), 4);
        assert_eq!(folder.files_named("receivers.csv").len().min(others), others);
    }
    // With more seeds, only the missing runs are executed.
    let more = folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--json", "--seeds", "3"]);
    assert_eq!(json(&more)["runs"].as_array().map(Vec::len), Some(6));
    assert_eq!(folder.files_named("manifest.json").len(), 6);
}

#[test]
fn json_output_is_complete() {
    let folder = TempFolder::new("json").with_file("tiny.toml", TINY);
    let all = json(&folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--json"]));
    assert_eq!(all["result_hash"].as_str().map(str::len), Some(16));
    let study = &all["studies"][0];
    assert_eq!(
        (&study["name"], &study["runs"], &study["interrupted"]),
        (&"tiny".into(), &4.into(), &0.into())
    );
    assert_eq!(study["verdicts"][0]["outcome"], "holds");
    assert_eq!(study["verdicts"][0]["cells"].as_array().map(Vec::len), Some(2));
    for run in all["runs"].as_array().expect("there is a list of runs") {
        let manifest = &run["manifest"];
        assert_eq!(
            (&manifest["interrupted"], &manifest["bound"][0]["connections"]),
            (&false.into(), &2.into())
        );
        assert!(manifest["account"]["decisions"].as_u64() > Some(0));
        assert!(run["phases"][0]["values"]["queue.utilisation"].as_f64() > Some(0.9));
    }
    let names = json(&folder.run(&["list", "--json"]));
    for kind in ["laws", "workloads", "policies", "traffic", "topologies", "metrics", "series"] {
        let list = names[kind].as_array().unwrap_or_else(|| panic!("{kind} is missing in {names}"));
        assert!(
            list.iter().all(|entry| entry["name"].is_string() && entry["description"].is_string()),
            "{kind}"
        );
    }
    assert_eq!(json(&folder.run(&["list", "laws", "--json"]))["laws"], names["laws"]);
    for args in [&["laws", "--json"][..], &["laws", "swift", "--json"], &["scenarios", "--json"]] {
        assert!(json(&folder.run(args)).as_array().is_some_and(|list| !list.is_empty()), "{args:?}");
    }
    let plans = json(&folder.run(&["repro", "poseidon", "--list", "--json"]));
    assert!(plans.as_array().is_some_and(|list| list.len() >= 30));
}

/// Waits up to one minute until a condition holds, and returns whether it does.
fn wait_until(condition: &mut dyn FnMut() -> bool) -> bool {
    for _ in 0..6_000 {
        if condition() {
            return true;
        }
        #[expect(clippy::disallowed_methods, reason = "the test waits for another process")]
        std::thread::sleep(core::time::Duration::from_millis(10));
    }
    false
}

#[cfg(unix)]
#[test]
fn signals_leave_readable_results() {
    ["INT", "TERM", "HUP"].into_iter().for_each(assert_signal_leaves_readable_results);
}

#[cfg(unix)]
fn assert_signal_leaves_readable_results(signal: &str) {
    // The second cell would take hours.
    let text = TINY.replace("\"0.4 ms\"", "\"$time\"").replace("seeds = 2", "seeds = 1");
    let text = text.replace("law = [\"poseidon\", \"swift\"]", "time = [\"0.4 ms\", \"100000 ms\"]");
    let text = text.replace("by = \"law\"", "by = \"time\"");
    let folder = TempFolder::new(&format!("interrupt-{signal}")).with_file("long.toml", &text);
    let mut child = Command::new(POSEIDON)
        .args(["run", "long.toml", "-o", "out", "--jobs", "1", "--quiet"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // The rows of an active run have a temporary name.
    let has_rows = |path: &PathBuf| path.to_string_lossy().contains("receivers.parquet");
    let is_running = wait_until(&mut || folder.list().iter().filter(|path| has_rows(path)).count() == 2);
    let interrupt = format!("kill -{signal} {}", child.id());
    let was_sent =
        is_running && Command::new("sh").args(["-c", &interrupt]).status().is_ok_and(|s| s.success());
    // Kill the command if it does not exit by itself.
    if !was_sent || !wait_until(&mut || child.try_wait().is_ok_and(|status| status.is_some())) {
        child.kill().expect("the process is a child");
    }
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(exit_code(&output), 130);
    assert_eq!(
        stderr(&output),
        "poseidon: interrupted; finished runs are stored, and `poseidon report` can read them\n"
    );
    assert!(stdout(&output).contains("1 of 2 runs were interrupted"), "{}", stdout(&output));

    let report = folder.run(&["report", "out", "--json"]);
    assert_eq!(exit_code(&report), 0, "{}", stderr(&report));
    let report = json(&report);
    let study = &report["studies"][0];
    assert_eq!((&study["runs"], &study["interrupted"]), (&2.into(), &1.into()));
    // The interrupted run is not judged.
    let cells = study["verdicts"][0]["cells"].as_array().expect("there is a list of cells");
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0]["cell"], "time 0.4 ms");
    assert!(folder.0.join("out/report.html").is_file());
    // The rows of the interrupted run are also stored.
    assert_eq!(folder.files_named("receivers.parquet").len(), 2);
    assert!(!folder.list().iter().any(|path| path.to_string_lossy().ends_with(".part")));
}

#[test]
fn processes_can_share_an_output_folder() {
    let folder = TempFolder::new("two-processes").with_file("tiny.toml", TINY);
    for round in 0..4 {
        let out = format!("out-{round}");
        let start = |_| {
            Command::new(POSEIDON)
                .args(["run", "tiny.toml", "-o", &out, "--json"])
                .current_dir(&folder.0)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the command starts")
        };
        let children: Vec<_> = (0..3).map(start).collect();
        let outputs: Vec<Output> =
            children.into_iter().map(|child| child.wait_with_output().expect("the command ends")).collect();
        for output in &outputs {
            assert_eq!(exit_code(output), 0, "{}", stderr(output));
            assert_eq!(json(output)["result_hash"], json(&outputs[0])["result_hash"]);
        }
        assert_eq!(exit_code(&folder.run(&["report", &out])), 0);
    }
    assert!(!folder.list().iter().any(|path| path.to_string_lossy().ends_with(".part")));
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_error_on_stdout_is_a_failure() {
    let folder = TempFolder::new("full").with_file("tiny.toml", TINY);
    for args in [
        &["run", "tiny.toml", "-o", "out", "--records", "none", "--json", "--quiet"][..],
        &["run", "tiny.toml", "-o", "out", "--records", "none", "--quiet"],
        &["laws", "--json"],
        &["schema"],
        &["man"],
        &["--help"],
        &["--version"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
        let output = Command::new(POSEIDON).args(args).current_dir(&folder.0).stdout(full).output();
        let output = output.expect("the command starts");
        assert_eq!(exit_code(&output), 1, "{args:?}: {}", stderr(&output));
        let message = stderr(&output);
        let expected = "poseidon: cannot write to stdout: No space left on device";
        assert!(message.starts_with(expected) && message.lines().count() == 1, "{args:?}: {message}");
    }
}

#[test]
fn a_scenario_that_needs_too_much_memory_is_invalid() {
    let endless = "[[traffic]]\nname = \"loop\"\nkind = \"closed-loop\"\nfrom = \"host0\"\nto = \"host2\"\nsize = \"1 kB\"\n";
    let huge = "[[traffic]]\nname = \"all\"\nkind = \"poisson-flows\"\nsizes = \"websearch-powertcp\"\n\
                load = \"1\"\nrate = \"900 Tbps\"\ndestinations = \"other-hosts\"\n";
    let folder = TempFolder::new("memory");
    for (text, expected) in [
        (format!("{TINY}{endless}messages = 100_000_000\n"), "messages leads to about 100,000,00"),
        (TINY.replace("seeds = 2", "seeds = 1_000_000_000"), "seeds asks for 2,000,000,000 runs of 2 cells"),
        (TINY.replace("seeds = 2", "seeds = 0"), "seeds is 0"),
        (TINY.replace("\"0.4 ms\"", "\"4000 ms\"") + huge, "load leads to about"),
    ] {
        folder.write("large.toml", &text);
        for args in [&["explain", "large.toml"][..], &["run", "large.toml", "-o", "out"]] {
            let output = folder.run(args);
            assert_eq!(exit_code(&output), 3, "{args:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(expected), "{expected}: {}", stderr(&output));
        }
    }
    folder.write("tiny.toml", TINY);
    let output = folder.run(&["run", "tiny.toml", "-o", "out", "--seeds", "4000000000"]);
    assert_eq!(exit_code(&output), 3);
    assert!(stderr(&output).contains("--seeds asks for 8,000,000,000 runs"), "{}", stderr(&output));
}

#[test]
fn explain_rejects_the_scenarios_that_run_rejects() {
    // Only the second cell is invalid.
    let folder = TempFolder::new("second-cell")
        .with_file("law.toml", &TINY.replace("\"swift\"]", "\"swfit\"]"))
        .with_file("claim.toml", &TINY.replace("flows.total_gbps", "flows.totl_gbps"));
    for file in ["law.toml", "claim.toml"] {
        let output = folder.run(&["explain", file]);
        assert_eq!(exit_code(&output), 3, "{}", stderr(&output));
        assert!(
            stderr(&output).contains("did you mean") && stdout(&output).is_empty(),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_binary_file_is_an_invalid_scenario() {
    let folder = TempFolder::new("binary");
    fs::write(folder.0.join("binary.toml"), b"title = \"t\"\nsource = \"\xff\xfe\"\n")
        .expect("the temporary folder is writable");
    for command in ["run", "explain", "scenarios"] {
        let output = folder.run(&[command, "binary.toml"]);
        assert_eq!(exit_code(&output), 3, "{}", stderr(&output));
        let expected = "poseidon: binary.toml:2: byte 22 is not valid UTF-8; a scenario is a TOML file\n";
        assert_eq!(stderr(&output), expected);
    }
}

#[test]
fn an_error_names_the_corrupt_manifest() {
    let folder = TempFolder::new("corrupt").with_file("tiny.toml", TINY);
    let run = || folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--quiet"]);
    assert_eq!(exit_code(&run()), 0);
    let manifest = folder.files_named("manifest.json").swap_remove(0);
    fs::write(&manifest, "{ \"tool\": ").expect("the manifest is writable");
    let name = manifest.strip_prefix(&folder.0).expect("the manifest is in the folder").display().to_string();
    let report = folder.run(&["report", "out"]);
    assert_eq!(exit_code(&report), 1);
    assert!(stderr(&report).contains(&format!("{name} is corrupt")), "{}", stderr(&report));
    let rerun = run();
    assert_eq!(exit_code(&rerun), 0);
    assert!(stderr(&rerun).contains(&format!("{name} is corrupt")), "{}", stderr(&rerun));
    assert_eq!((exit_code(&folder.run(&["report", "out"])), stderr(&run()).as_str()), (0, ""));
}

#[test]
fn the_columns_of_the_verdict_table_are_aligned() {
    let folder = TempFolder::new("columns");
    let output = folder.run(&["repro", "poseidon", "--only", "fig7", "-o", "out"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    let rows: Vec<Vec<char>> =
        text.lines().take_while(|line| !line.is_empty()).map(|line| line.chars().collect()).collect();
    assert!(rows.len() > 4, "{text}");
    // In each row, a column starts at the position of its header, after two spaces.
    let header: String = rows[0].iter().collect();
    for column in ["claim", "paper", "condition", "measured", "verdict"] {
        let start = header.find(column).expect("the header has this column");
        for row in rows.iter().filter(|row| row.len() > start) {
            assert_eq!(&row[start - 2..start], [' ', ' '], "{column} of\n{text}");
        }
    }
    assert!(rows[1].iter().collect::<String>().starts_with("poseidon/fig7a  "), "{text}");
}

#[test]
fn a_comparison_names_absent_metrics() {
    let folder = TempFolder::new("compare")
        .with_file("tiny.toml", TINY)
        .with_file("other.toml", &TINY.replace("0.4 ms", "0.3 ms"));
    for (file, out) in [("tiny.toml", "one"), ("tiny.toml", "two"), ("other.toml", "three")] {
        assert_eq!(exit_code(&folder.run(&["run", file, "-o", out, "--records", "none"])), 0);
    }
    let absent = folder.run(&["compare", "one", "two", "--metric", "goodput"]);
    assert_eq!(exit_code(&absent), 1);
    let message = stderr(&absent);
    let expected = "poseidon: no scenario has the metric goodput in both one and two; ";
    assert!(message.starts_with(expected), "{message}");
    assert!(message.contains("jain, ") && message.contains("total_gbps"), "{message}");
    let partial = folder.run(&["compare", "one", "two", "--metric", "goodput", "--metric", "jain"]);
    assert_eq!(exit_code(&partial), 0);
    assert!(
        stdout(&partial).contains("jain") && stderr(&partial).contains("the metric goodput"),
        "{}",
        stderr(&partial)
    );
    let default_metrics = folder.run(&["compare", "one", "two"]);
    assert_eq!((exit_code(&default_metrics), stderr(&default_metrics).as_str()), (0, ""));
    assert!(stdout(&default_metrics).starts_with("tiny: the same result ("), "{}", stdout(&default_metrics));
    let other = folder.run(&["compare", "one", "three"]);
    assert!(stderr(&other).contains("no scenario with results in common"), "{}", stderr(&other));
}

#[test]
fn the_manual_page_refers_to_no_other_page() {
    let page = stdout(&TempFolder::new("man").run(&["man"]));
    assert!(!page.contains("poseidon\\-run") && !page.contains("(1)"), "{page}");
    for part in
        [".SH COMMANDS", "\\fBposeidon run\\fR\nRun a scenario", "\\fBposeidon repro\\fR", "Exit codes"]
    {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}

#[test]
fn a_report_needs_results() {
    let folder = TempFolder::new("empty");
    for (args, expected) in [
        (&["report", "."][..], "there are no results; `poseidon run` and `poseidon repro` create them"),
        (&["report", "missing"], "missing: "),
        (&["report"], "results: "),
    ] {
        let output = folder.run(args);
        let message = stderr(&output);
        assert_eq!(exit_code(&output), 1, "{args:?}: {message}");
        assert!(message.contains(expected) && message.lines().count() == 1, "{args:?}: {message}");
    }
    assert!(folder.list().is_empty(), "nothing is written");
}

#[test]
fn a_report_judges_again_without_running() {
    let folder = TempFolder::new("report").with_file("tiny.toml", TINY);
    assert_eq!(exit_code(&folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none"])), 0);
    let output = folder.run(&["report", "out"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("they fill the link"));
    let page = fs::read_to_string(folder.0.join("out/report.html")).expect("the page exists");
    assert!(
        page.contains("<p class=\"answer\">The claim holds: “they fill the link” (")
            && page.contains("<svg")
            && page.contains("two flows")
    );
    let study_page = fs::read_to_string(folder.0.join("out/tiny/report.html")).expect("the study has a page");
    for page in [page, study_page] {
        assert!(
            page.contains("default-src 'none'") && !page.contains(" src=\""),
            "the page needs no network"
        );
    }
}

#[test]
fn cells_can_have_different_numbers_of_seeds() {
    let text = TINY.replace("law = [\"poseidon\", \"swift\"]", "")
        + "[[sweep.how]]\nname = \"once\"\nset = { seeds = 1 }\n[[sweep.how]]\nname = \"thrice\"\nset = { seeds = 3 }\n";
    let text = text.replace("by = \"law\"", "by = \"how\"");
    let folder = TempFolder::new("seeds").with_file("seeds.toml", &text);
    let all = json(&folder.run(&["run", "seeds.toml", "-o", "out", "--records", "none", "--json"]));
    let cells: Vec<&str> = all["runs"]
        .as_array()
        .expect("there is a list of runs")
        .iter()
        .filter_map(|run| run["manifest"]["cell"][0]["value"].as_str())
        .collect();
    assert_eq!(cells, ["once", "thrice", "thrice", "thrice"]);
}

#[test]
fn one_run_satisfies_all_requests_for_its_plan() {
    // Different claims and more seeds do not change a plan. Neither does --quick if it only reduces the number of
    // seeds.
    let folder = TempFolder::new("many-requests");
    let texts =
        [format!("{TINY}[quick]\nseeds = 1\n"), format!("{TINY}[quick]\nseeds = 1\n# another text\n")];
    for (text, quick, runs) in
        [(0, "--quick", 2), (0, "--quiet", 4), (0, "--quick", 2), (1, "--quiet", 4), (0, "--quiet", 4)]
    {
        folder.write("tiny.toml", &texts[text]);
        let result =
            json(&folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--json", quick]));
        assert_eq!(result["runs"].as_array().map(Vec::len), Some(runs), "text {text}, {quick}");
        let report = json(&folder.run(&["report", "out", "--json"]));
        // The report uses the scenario's full form if that form has runs.
        let known = folder.files_named("manifest.json").len();
        assert_eq!(report["runs"].as_array().map(Vec::len), Some(known), "text {text}, {quick}");
    }
    assert_eq!(folder.files_named("manifest.json").len(), 4);
}

#[test]
fn a_study_reuses_the_plans_of_another_study() {
    let folder = TempFolder::new("another-study");
    for paper in ["one", "two"] {
        fs::create_dir_all(folder.0.join("scenarios").join(paper)).expect("the temporary folder is writable");
        let file = format!("scenarios/{paper}/tiny.toml");
        folder.write(&file, &format!("{TINY}# of {paper}\n"));
        let result = json(&folder.run(&["run", &file, "-o", "out", "--records", "none", "--json"]));
        let made_in = |run: &Value| run["made_in"].as_str().map(str::to_owned);
        let manifests = folder.files_named("manifest.json");
        assert_eq!(result["runs"].as_array().map(Vec::len), Some(4));
        let is_of_paper = |path: &&PathBuf| path.to_string_lossy().contains(&format!("out/{paper}/tiny/"));
        for manifest in manifests.iter().filter(is_of_paper) {
            let text = fs::read_to_string(manifest).expect("the manifest is readable");
            let expected = (paper == "two").then(|| "one/tiny".to_owned());
            assert_eq!(
                made_in(&serde_json::from_str(&text).expect("the manifest is JSON")),
                expected,
                "{text}"
            );
        }
        assert_eq!(manifests.iter().filter(is_of_paper).count(), 4, "each study has its own manifests");
    }
}

#[test]
fn shards_partition_the_runs() {
    let folder = TempFolder::new("shards");
    let repro = |shard: &str| {
        let args = ["repro", "poseidon", "--only", "fig7", "--shard", shard, "-o", "out", "--json"];
        json(&folder.run(&args))["runs"].as_array().map(Vec::len)
    };
    assert_eq!((repro("1/2"), repro("2/2"), repro("1/1")), (Some(1), Some(1), Some(2)));
}

#[test]
fn informational_commands_print_but_write_no_files() {
    let folder = TempFolder::new("informational").with_file("tiny.toml", TINY);
    for (args, parts) in [
        (&["laws"][..], &["poseidon", "swift", "hpcc", "bytes per flow"][..]),
        (&["laws", "swift"], &["swift:", "parameter", "bytes per flow"]),
        (&["scenarios"], &["quickstart", "poseidon/fig14b", "poseidon/fig23b"]),
        (&["scenarios", "fig14b"], &["title", "[[traffic]]", "[[claim]]"]),
        (&["schema"], &["\"$schema\"", "\"topology\"", "TrafficSpec"]),
        (&["completions", "bash"], &["complete", "poseidon", "repro"]),
        (&["man"], &[".TH", "poseidon", "explain"]),
        (
            &["explain", "tiny.toml"],
            &["hosts, switches        3, 1", "law", "traffic flows", "queue queue", "phase all"],
        ),
        (&["explain", "tiny.toml", "--all"], &["law poseidon", "law swift"]),
        (&["explain", "fig14b"], &["law                    poseidon, ", "phase (9,9)"]),
        (&["explain", "poseidon/fig7a"], &["closed form"]),
        (&["repro", "poseidon", "--list"], &["entry", "fig1c", "fig23b"]),
        (
            &["list"],
            &["laws: ", "workloads: ", "policies: ", "traffic: ", "topologies: ", "metrics: ", "series: "],
        ),
        (&["list", "workloads"], &["websearch-hpcc", "Hadoop at Facebook"]),
        (&["list", "policies"], &["shared", "red", "buffer", "mark"]),
        (&["list", "traffic"], &["poisson-flows", "long-flows"]),
        (&["list", "topologies"], &["fat-tree", "dumbbell"]),
        (&["list", "metrics"], &["latency_p99_us", "finish_last_us"]),
        (&["list", "series"], &[".waiting_bytes", "[*].rate_gbps"]),
        (&["--help"], &["Exit codes:", "poseidon run scenarios/quickstart.toml"]),
        (&["--version"], &["poseidon "]),
    ] {
        let output = folder.run(args);
        assert_eq!(exit_code(&output), 0, "{args:?}: {}", stderr(&output));
        let text = stdout(&output);
        for part in parts {
            assert!(text.contains(part), "{args:?}: {part:?} is missing in\n{text}");
        }
    }
    assert_eq!(folder.list().len(), 1, "nothing is written");
    let builtin = stdout(&folder.run(&["scenarios", "quickstart"]));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/quickstart.toml");
    assert_eq!(
        builtin.trim_end(),
        fs::read_to_string(file).expect("the scenario is in the repository").trim_end()
    );
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_not_a_failure() {
    let folder = TempFolder::new("pipe").with_file("tiny.toml", TINY);
    for args in [
        "run tiny.toml -o out --records none",
        "schema",
        "completions bash",
        "man",
        "scenarios",
        "explain fig14b --all",
    ] {
        for reader in ["head -1", "true"] {
            let command = format!("{{ \"$0\" {args}; echo code $? >&2; }} | {reader}");
            let output = Command::new("sh").args(["-c", &command, POSEIDON]).current_dir(&folder.0).output();
            let message = stderr(&output.expect("the shell starts"));
            assert!(!message.contains("panicked"), "{args} | {reader}: {message}");
            assert!(message.ends_with("code 0\n"), "{args} | {reader}: {message}");
        }
    }
}

/// Messages from seven hosts to one: some finish, and one is too large.
const MESSAGES: &str = r#"title = "messages"
source = "none"
stop = "0.4 ms"

[topology]
kind = "star"
hosts = 9
link = { rate = "100 Gbps", delay = "1 us" }

[[traffic]]
name = "small"
kind = "incast"
from = "host[0-6]"
to = "host8"
size = "100 kB"

[[traffic]]
name = "large"
kind = "incast"
from = "host7"
to = "host8"
size = "100 MB"

[observe.queues]
queue = "last hop of small"

[sweep]
law = ["poseidon", "swift"]
"#;

#[test]
fn run_states_what_it_costs_and_what_was_there() {
    let folder = TempFolder::new("cost").with_file("tiny.toml", TINY);
    let run = |more: &[&str]| {
        let output = folder.run(&[&["run", "tiny.toml", "-o", "out", "--jobs", "2"], more].concat());
        assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
        stderr(&output)
    };
    let first = run(&[]);
    assert!(first.starts_with("4 runs, 8 messages, "), "{first}");
    for part in [" k packet-hops, about ", " s on 2 cores (at the speed of a 0.1 s measurement), ", " MB\n"] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let note = "note: Poseidon's max-rate is 200 Gbps, but the hosts send at 100 Gbps; ";
    assert!(first.lines().count() == 2 && first.lines().nth(1).is_some_and(|line| line.starts_with(note)));
    assert_eq!(run(&[]), "nothing computed, all 4 runs were there\n");
    let more = run(&["--seeds", "3"]);
    assert!(more.starts_with("2 of 6 runs to compute, 4 messages, "), "{more}");
    assert!(more.ends_with("\ncomputed 2 runs, 4 were there\n"), "{more}");
    assert_eq!(run(&["--seeds", "4", "--quiet"]), "");
    // An edited claim leaves the plans unchanged.
    folder.write("tiny.toml", &TINY.replace("above = 90.0", "above = 91.0"));
    assert_eq!(run(&[]), "nothing computed, all 4 runs were there\n");
}

#[test]
fn explain_states_what_the_runs_cost() {
    let folder = TempFolder::new("explain-cost").with_file("tiny.toml", TINY);
    let output = folder.run(&["explain", "tiny.toml"]);
    let (text, message) = (stdout(&output), stderr(&output));
    let cost = text.lines().find(|line| line.starts_with("cost ")).unwrap_or_else(|| panic!("{text}"));
    for part in ["2 messages, ", " packets, ", " packet-hops, ", " MB of memory"] {
        assert!(cost.contains(part), "{cost}");
    }
    assert!(message.contains("\n4 runs, 8 messages, "), "{message}");
    let again = folder.run(&["explain", "tiny.toml"]);
    assert_eq!(stdout(&again), text, "the measured speed is not on stdout");
}

#[test]
fn limits_reject_runs_before_they_start() {
    let folder = TempFolder::new("limits").with_file("tiny.toml", TINY);
    for (option, value, expected) in [
        ("--max-memory", "1 MB", "this is more than --max-memory 1.0 MB; use fewer --jobs"),
        ("--max-time", "0.0001 s", "this is more than --max-time 0.1 s; use --quick"),
    ] {
        let output = folder.run(&["run", "tiny.toml", "-o", "out", option, value]);
        assert_eq!(exit_code(&output), 6, "{}", stderr(&output));
        let message = stderr(&output);
        assert!(
            message.starts_with("poseidon: 4 runs, 8 messages, ") && message.contains(expected),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(stdout(&output).is_empty() && !folder.0.join("out").exists());
    }
    let generous = ["run", "tiny.toml", "-o", "out", "--max-memory", "100 GB", "--max-time", "1 h"];
    assert_eq!(exit_code(&folder.run(&generous)), 0);
    for (option, value) in [("--max-memory", "4"), ("--max-memory", "4 Gbps"), ("--max-time", "10")] {
        let output = folder.run(&["run", "tiny.toml", "-o", "out", option, value]);
        assert_eq!(exit_code(&output), 2, "{option} {value}: {}", stderr(&output));
    }
}

#[test]
fn a_time_limit_stops_runs_and_keeps_their_results() {
    // The second cell has a message that takes hours, but the estimate does not include the drain.
    let text =
        MESSAGES.replace("\"100 MB\"", "\"$size\"").replace("stop = ", "drain = \"100000 ms\"\nstop = ");
    let text = text.replace("law = [\"poseidon\", \"swift\"]", "size = [\"1 kB\", \"900 GB\"]");
    let folder = TempFolder::new("max-time").with_file("long.toml", &text);
    let output = folder.run(&["run", "long.toml", "-o", "out", "--jobs", "1", "--max-time", "2 s"]);
    let message = stderr(&output);
    assert_eq!(exit_code(&output), 6, "{message}");
    let expected = "poseidon: stopped after --max-time 2 s; finished runs are stored, and `poseidon report` can read them\n";
    assert!(message.ends_with(expected), "{message}");
    assert!(stdout(&output).contains("1 of 2 runs were interrupted"), "{}", stdout(&output));
    let report = json(&folder.run(&["report", "out", "--json"]));
    let study = &report["studies"][0];
    assert_eq!((&study["runs"], &study["interrupted"]), (&2.into(), &1.into()));
    assert_eq!(folder.files_named("messages.parquet").len(), 2, "the rows of both runs are stored");
}

/// Runs the command with text on its standard input.
fn run_with_input(folder: &TempFolder, args: &[&str], input: &str) -> Output {
    use std::io::Write as _;
    let mut child = Command::new(POSEIDON)
        .args(args)
        .current_dir(&folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    child
        .stdin
        .take()
        .expect("stdin is a pipe")
        .write_all(input.as_bytes())
        .expect("the command reads its input");
    child.wait_with_output().expect("the command ends")
}

#[test]
fn a_scenario_can_come_from_standard_input() {
    let folder = TempFolder::new("stdin");
    let output = run_with_input(&folder, &["run", "-", "-o", "out", "--records", "none", "--json"], TINY);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["studies"][0]["name"], "stdin");
    assert!(folder.0.join("out/stdin/scenario.toml").is_file());
    assert_eq!(exit_code(&folder.run(&["report", "out"])), 0);
    let output = run_with_input(&folder, &["explain", "-"], TINY);
    assert!(stdout(&output).contains("traffic flows"), "{}", stderr(&output));
    let output = run_with_input(&folder, &["explain", "-"], &TINY.replace("stop =", "sotp ="));
    assert_eq!(exit_code(&output), 3);
    assert!(
        stderr(&output).starts_with("poseidon: stdin:3: there is no key \"sotp\""),
        "{}",
        stderr(&output)
    );
}

#[test]
fn every_scenario_prints_its_messages_and_their_finish() {
    let folder = TempFolder::new("metrics").with_file("messages.toml", MESSAGES);
    let text = stdout(&folder.run(&["run", "messages.toml", "-o", "out"]));
    for part in ["messages", "unfinished", "latency_mean_us", "finish_last_us", "law swift", "delay_mean_us"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    // Seven small messages finish, and the large one does not.
    let row = |owner: &str| {
        let is_row = |line: &&str| line.starts_with("law poseidon") && line.contains(owner);
        let line = text.lines().find(is_row).unwrap_or_else(|| panic!("{owner} is missing in\n{text}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("small")[2..5], ["small", "7", "0"], "{text}");
    assert_eq!(row("large")[2..5], ["large", "0", "1"], "{text}");
    let note = "latency_p99_us (law poseidon): p99 needs 1,000 messages, there are 1; ";
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains(note), "{text}");
    // A closed form has no messages, rates or queues, but its own metrics.
    let text = stdout(&folder.run(&["run", "poseidon/fig7a", "-o", "out"]));
    assert!(text.contains("Metrics (means over seeds"), "{text}");
}

#[test]
fn tables_fit_80_columns() {
    let folder = TempFolder::new("width").with_file("messages.toml", MESSAGES).with_file("tiny.toml", TINY);
    for args in [
        &["run", "messages.toml", "-o", "out"][..],
        &["run", "tiny.toml", "-o", "out"],
        &["repro", "poseidon", "--only", "fig7", "-o", "suite"],
        &["repro", "poseidon", "--list"],
        &["compare", "out", "out"],
        &["laws"],
        &["laws", "poseidon"],
        &["scenarios"],
        &["list"],
    ] {
        let output = folder.run(args);
        assert_eq!(exit_code(&output), 0, "{args:?}: {}", stderr(&output));
        for line in stdout(&output).lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
            assert!(!line.contains('\x1b'), "a pipe has no colours: {args:?}: {line}");
        }
    }
}

#[test]
fn csv_rows_name_their_cell_and_their_queue() {
    let folder = TempFolder::new("rows").with_file("messages.toml", MESSAGES);
    let output = folder.run(&["run", "messages.toml", "-o", "out", "--records", "csv", "--quiet"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    let read = |name: &str| -> String {
        let files = folder.files_named(name);
        assert_eq!(files.len(), 2, "{files:?}");
        files.iter().map(|file| fs::read_to_string(file).expect("the file is readable")).collect()
    };
    let (messages, queues) = (read("messages.csv"), read("queues.csv"));
    assert!(messages.starts_with("cell,seed,traffic,law,message,"), "{messages}");
    for law in ["poseidon", "swift"] {
        let rows = messages.lines().filter(|row| row.starts_with(&format!("law {law},1,small,{law},")));
        assert_eq!(rows.count(), 7, "{messages}");
        let prefix = format!("law {law},1,queue,");
        assert!(queues.lines().any(|row| row.starts_with(&prefix)), "{queues}");
    }
}

#[test]
fn figures_have_the_requested_formats() {
    let folder = TempFolder::new("figures").with_file("tiny.toml", TINY);
    let output = folder.run(&["run", "tiny.toml", "-o", "out", "--figures", "svg,png,pdf"]);
    let message = stderr(&output);
    if cfg!(not(feature = "figures-export")) {
        assert_eq!(exit_code(&output), 5, "{message}");
        assert!(message.contains("--features figures-export"), "{message}");
        assert!(!folder.0.join("out").exists(), "nothing runs");
    } else if exit_code(&output) == 1 {
        assert!(message.contains("there are no fonts on this machine"), "{message}");
    } else {
        assert_eq!(exit_code(&output), 0, "{message}");
        for (name, start) in
            [("figure-1.svg", &b"<svg"[..]), ("figure-1.png", b"\x89PNG"), ("figure-1.pdf", b"%PDF")]
        {
            let files = folder.files_named(name);
            assert_eq!(files.len(), 1, "{name}");
            assert!(fs::read(&files[0]).is_ok_and(|bytes| bytes.starts_with(start)), "{name}");
            assert!(stdout(&output).contains(name), "{}", stdout(&output));
        }
    }
    assert_eq!(exit_code(&folder.run(&["run", "tiny.toml", "--figures", "gif"])), 2);
}
