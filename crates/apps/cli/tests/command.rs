//! The command itself, run as people run it: what it prints, what it writes and how it ends.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

/// A folder of a test's own, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("poseidon-command-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn with(self, file: &str, text: &str) -> Self {
        fs::write(self.0.join(file), text).expect("a file of the test");
        self
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(POSEIDON).args(args).current_dir(&self.0).output().expect("the command")
    }

    /// What lies in it, with its folders.
    fn list(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
                all.push(entry.path());
            }
        }
        all.sort();
        all
    }

    fn named(&self, name: &str) -> Vec<PathBuf> {
        self.list().into_iter().filter(|path| path.file_name().is_some_and(|file| file == name)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

/// Two flows into one port, under two laws with two seeds each: four runs of less than half a millisecond.
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
fn a_run_says_what_came_out_and_keeps_it() {
    let folder = Folder::new("run").with("tiny.toml", TINY);
    let output = folder.run(&["run", "tiny.toml", "-o", "out"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for part in
        ["two flows", "Rates (Gbps)", "What really happened", "poseidon x2", "they fill the link", "holds *"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
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
        assert_eq!(folder.named(name).len(), count, "{name} in {:?}", folder.list());
    }
}

#[test]
fn nothing_is_written_elsewhere() {
    let folder = Folder::new("elsewhere").with("tiny.toml", TINY);
    let before = folder.list();
    assert_eq!(code(&folder.run(&["run", "tiny.toml", "-o", "deep/out", "--quiet"])), 0);
    assert_eq!(code(&folder.run(&["report", "deep/out"])), 0);
    let out = folder.0.join("deep");
    let after: Vec<PathBuf> = folder.list().into_iter().filter(|path| !path.starts_with(&out)).collect();
    assert_eq!(before, after);
    assert!(!folder.list().iter().any(|path| path.to_string_lossy().ends_with(".part")));
}

#[test]
fn a_scenario_that_is_wrong_is_refused_in_one_line() {
    let swap = |part: &str, instead: &str| {
        assert!(TINY.contains(part), "{part}");
        TINY.replacen(part, instead, 1)
    };
    let cases = [
        (swap("stop =", "sotp ="), 3, "there is no key \"sotp\" here; did you mean \"stop\"?"),
        (swap("\"0.4 ms\"", "\"0.4\""), 3, "time without a unit"),
        (swap("\"0.4 ms\"", "\"0.4 kB\""), 3, "\"0.4 kB\""),
        (swap("seeds = 2", "seeds = \"two\""), 4, "expected u32"),
        (swap("\"swift\"]", "\"swfit\"]"), 28, "there is no law \"swfit\"; did you mean \"swift\"?"),
        (
            swap("\"auto\"", "\"off\""),
            12,
            "needs max-hop-delay, which nobody tells it; set switch.stamp to \"auto\"",
        ),
        (swap("[\"flows\"]", "[\"flow\"]"), 22, "there is no traffic \"flow\"; did you mean \"flows\"?"),
        (swap("hop of flows", "hop of folws"), 25, "there is no traffic \"folws\"; did you mean \"flows\"?"),
        (
            swap("spread =", "size = \"1 kB\"\nspread ="),
            19,
            "size means nothing to this kind, which reads from, to",
        ),
        (swap("host[0-1]", "host[0-9]"), 17, "there are only 3 hosts"),
        (swap("to = \"host2\"", ""), 15, "to is missing"),
        (swap("100 Gbps", "100"), 9, "rate without a unit"),
        (swap("flows.total_gbps", "flows.totl_gbps"), 32, "did you mean \"total_gbps\"?"),
        (swap("flows.rate_gbps", "flws.rate_gbps"), 40, "did you mean \"flows\"?"),
        (swap("above = 90.0", ""), 31, "says nothing that can fail"),
        (swap("above = 90.0", "above = 90.0\nbelow = 1.0"), 31, "has two conditions; make it two claims"),
        (swap("[\"poseidon\", \"swift\"]", "[\"dctcp\"]"), 15, "needs marks and switch.mark is off"),
        (swap("[sweep]", "[sweep"), 27, "]"),
    ];
    let folder = Folder::new("wrong");
    for (text, line, says) in cases {
        fs::write(folder.0.join("wrong.toml"), &text).expect("a file of the test");
        let output = folder.run(&["run", "wrong.toml", "-o", "out"]);
        let said = stderr(&output);
        assert_eq!(code(&output), 3, "{says}: {said}");
        assert!(said.starts_with(&format!("poseidon: wrong.toml:{line}: ")), "line {line}, {says}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{says}: {said}");
        assert!(stdout(&output).is_empty());
        assert!(!folder.0.join("out").exists(), "{says}: something was run");
    }
    let missing = swap("stop = \"0.4 ms\"\n", "");
    fs::write(folder.0.join("wrong.toml"), missing).expect("a file of the test");
    let said = stderr(&folder.run(&["explain", "wrong.toml"]));
    assert_eq!(said, "poseidon: wrong.toml: a run has no end; write stop = \"10 ms\" or another time\n");
}

#[test]
fn what_is_asked_for_and_not_there_is_a_matter_of_usage() {
    let folder = Folder::new("usage");
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
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).is_empty() && stdout(&output).is_empty(), "{args:?}");
    }
    assert!(folder.list().is_empty());
}

#[test]
fn a_gate_that_fails_is_the_exit_code() {
    let folder = Folder::new("gate");
    for (limit, gating, expected) in [("90.0", "true", 0), ("900.0", "false", 0), ("900.0", "true", 4)] {
        let text = TINY.replace("above = 90.0", &format!("above = {limit}"));
        fs::write(folder.0.join("tiny.toml"), text.replace("gating = true", &format!("gating = {gating}")))
            .expect("a file of the test");
        let output = folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none"]);
        assert_eq!(code(&output), expected, "above {limit}, gating {gating}: {}", stderr(&output));
        assert_eq!(code(&folder.run(&["report", "out"])), expected, "the report of it");
    }
    let output = folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none"]);
    assert_eq!(stderr(&output), "poseidon: a gating claim fails\n");
}

#[test]
fn results_do_not_depend_on_the_number_of_jobs() {
    let folder = Folder::new("jobs").with("tiny.toml", TINY);
    let of = |jobs: &str, out: &str| {
        json(&folder.run(&["run", "tiny.toml", "-o", out, "--records", "none", "--json", "--jobs", jobs]))
    };
    let (one, two) = (of("1", "one"), of("2", "two"));
    assert_eq!(one["result_hash"], two["result_hash"]);
    let summaries = |all: &Value| -> Vec<Value> {
        all["runs"].as_array().expect("runs").iter().map(|run| run["phases"].clone()).collect()
    };
    assert_eq!(summaries(&one), summaries(&two));
    let report = json(&folder.run(&["report", "one", "--json"]));
    assert_eq!(report["result_hash"], one["result_hash"]);
}

#[test]
fn what_is_there_is_not_run_again() {
    let folder = Folder::new("again").with("tiny.toml", TINY);
    let run =
        |records: &str| json(&folder.run(&["run", "tiny.toml", "-o", "out", "--json", "--records", records]));
    let times = || -> Vec<SystemTime> {
        let time = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).expect("a file");
        folder.named("manifest.json").iter().map(time).collect()
    };
    let first = run("none");
    let before = times();
    assert_eq!(before.len(), 4);
    let second = run("none");
    assert_eq!(times(), before, "no manifest is written again");
    assert_eq!(first, second);
    // Rows were not kept; whoever wants them has to run again, and in the format that is wanted.
    for (format, others) in [("csv", 0), ("parquet", 4)] {
        assert_eq!(run(format)["result_hash"], first["result_hash"]);
        assert_eq!(folder.named(&format!("receivers.{format}")).len(), 4);
        assert_eq!(folder.named("receivers.csv").len().min(others), others);
    }
    // More seeds: only those that are missing.
    let more = folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--json", "--seeds", "3"]);
    assert_eq!(json(&more)["runs"].as_array().map(Vec::len), Some(6));
    assert_eq!(folder.named("manifest.json").len(), 6);
}

#[test]
fn json_says_everything() {
    let folder = Folder::new("json").with("tiny.toml", TINY);
    let all = json(&folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--json"]));
    assert_eq!(all["result_hash"].as_str().map(str::len), Some(16));
    let study = &all["studies"][0];
    assert_eq!(
        (&study["name"], &study["runs"], &study["interrupted"]),
        (&"tiny".into(), &4.into(), &0.into())
    );
    assert_eq!(study["verdicts"][0]["outcome"], "holds");
    assert_eq!(study["verdicts"][0]["cells"].as_array().map(Vec::len), Some(2));
    for run in all["runs"].as_array().expect("runs") {
        let manifest = &run["manifest"];
        assert_eq!(
            (&manifest["interrupted"], &manifest["bound"][0]["connections"]),
            (&false.into(), &2.into())
        );
        assert!(manifest["account"]["decisions"].as_u64() > Some(0));
        assert!(run["phases"][0]["values"]["queue.utilisation"].as_f64() > Some(0.9));
    }
    for args in [&["laws", "--json"][..], &["laws", "swift", "--json"], &["scenarios", "--json"]] {
        assert!(json(&folder.run(args)).as_array().is_some_and(|list| !list.is_empty()), "{args:?}");
    }
    let plans = json(&folder.run(&["repro", "poseidon", "--list", "--json"]));
    assert!(plans.as_array().is_some_and(|list| list.len() >= 30));
}

/// Whether something comes to be there within a minute, which is more than any machine needs.
fn comes(is_there: &mut dyn FnMut() -> bool) -> bool {
    for _ in 0..6_000 {
        if is_there() {
            return true;
        }
        #[expect(clippy::disallowed_methods, reason = "another process is waited for")]
        std::thread::sleep(core::time::Duration::from_millis(10));
    }
    false
}

#[cfg(unix)]
#[test]
fn ctrl_c_sigterm_and_sighup_leave_what_can_be_read() {
    ["INT", "TERM", "HUP"].into_iter().for_each(assert_signal_leaves_what_can_be_read);
}

#[cfg(unix)]
fn assert_signal_leaves_what_can_be_read(signal: &str) {
    // The second of two cells would take hours.
    let text = TINY.replace("\"0.4 ms\"", "\"$time\"").replace("seeds = 2", "seeds = 1");
    let text = text.replace("law = [\"poseidon\", \"swift\"]", "time = [\"0.4 ms\", \"100000 ms\"]");
    let text = text.replace("by = \"law\"", "by = \"time\"");
    let folder = Folder::new(&format!("interrupt-{signal}")).with("long.toml", &text);
    let mut child = Command::new(POSEIDON)
        .args(["run", "long.toml", "-o", "out", "--jobs", "1"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command");
    // The rows of the second run have another name until it ends.
    let has_rows = |path: &PathBuf| path.to_string_lossy().contains("receivers.parquet");
    let is_running = comes(&mut || folder.list().iter().filter(|path| has_rows(path)).count() == 2);
    let interrupt = format!("kill -{signal} {}", child.id());
    let was_told =
        is_running && Command::new("sh").args(["-c", &interrupt]).status().is_ok_and(|s| s.success());
    // Nobody would end it otherwise.
    if !was_told || !comes(&mut || child.try_wait().is_ok_and(|status| status.is_some())) {
        child.kill().expect("it is the test's own");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 130);
    assert_eq!(
        stderr(&output),
        "poseidon: interrupted; what was finished is kept, and `poseidon report` reads it\n"
    );
    assert!(stdout(&output).contains("1 of 2 runs were broken off"), "{}", stdout(&output));

    let report = folder.run(&["report", "out", "--json"]);
    assert_eq!(code(&report), 0, "{}", stderr(&report));
    let report = json(&report);
    let study = &report["studies"][0];
    assert_eq!((&study["runs"], &study["interrupted"]), (&2.into(), &1.into()));
    // What was broken off has no numbers to judge by.
    let cells = study["verdicts"][0]["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0]["cell"], "time 0.4 ms");
    assert!(folder.0.join("out/report.html").is_file());
    // The rows of the run that was broken off are there as well.
    assert_eq!(folder.named("receivers.parquet").len(), 2);
    assert!(!folder.list().iter().any(|path| path.to_string_lossy().ends_with(".part")));
}

#[test]
fn two_processes_share_an_output_folder() {
    let folder = Folder::new("two-processes").with("tiny.toml", TINY);
    for round in 0..4 {
        let out = format!("out-{round}");
        let start = |_| {
            Command::new(POSEIDON)
                .args(["run", "tiny.toml", "-o", &out, "--json"])
                .current_dir(&folder.0)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the command")
        };
        let children: Vec<_> = (0..3).map(start).collect();
        let outputs: Vec<Output> =
            children.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect();
        for output in &outputs {
            assert_eq!(code(output), 0, "{}", stderr(output));
            assert_eq!(json(output)["result_hash"], json(&outputs[0])["result_hash"]);
        }
        assert_eq!(code(&folder.run(&["report", &out])), 0);
    }
    assert!(!folder.list().iter().any(|path| path.to_string_lossy().ends_with(".part")));
}

#[cfg(target_os = "linux")]
#[test]
fn data_that_cannot_be_written_is_a_failure() {
    let folder = Folder::new("full").with("tiny.toml", TINY);
    for args in [
        &["run", "tiny.toml", "-o", "out", "--records", "none", "--json"][..],
        &["run", "tiny.toml", "-o", "out", "--records", "none"],
        &["laws", "--json"],
        &["schema"],
        &["man"],
        &["--help"],
        &["--version"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = Command::new(POSEIDON).args(args).current_dir(&folder.0).stdout(full).output();
        let output = output.expect("the command");
        assert_eq!(code(&output), 1, "{args:?}: {}", stderr(&output));
        let said = stderr(&output);
        let says = "poseidon: cannot write to stdout: No space left on device";
        assert!(said.starts_with(says) && said.lines().count() == 1, "{args:?}: {said}");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_a_scenario_that_is_invalid() {
    let endless = "[[traffic]]\nname = \"loop\"\nkind = \"closed-loop\"\nfrom = \"host0\"\nto = \"host2\"\nsize = \"1 kB\"\n";
    let huge = "[[traffic]]\nname = \"all\"\nkind = \"poisson-flows\"\nsizes = \"websearch-powertcp\"\n\
                load = \"1\"\nrate = \"900 Tbps\"\ndestinations = \"other-hosts\"\n";
    let folder = Folder::new("memory");
    for (text, says) in [
        (format!("{TINY}{endless}messages = 100_000_000\n"), "messages makes a plan of about 100,000,00"),
        (TINY.replace("seeds = 2", "seeds = 1_000_000_000"), "seeds asks for 2,000,000,000 runs of 2 cells"),
        (TINY.replace("seeds = 2", "seeds = 0"), "seeds is 0"),
        (TINY.replace("\"0.4 ms\"", "\"4000 ms\"") + huge, "load makes a plan of about"),
    ] {
        fs::write(folder.0.join("large.toml"), text).expect("a file of the test");
        for args in [&["explain", "large.toml"][..], &["run", "large.toml", "-o", "out"]] {
            let output = folder.run(args);
            assert_eq!(code(&output), 3, "{args:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
        }
    }
    fs::write(folder.0.join("tiny.toml"), TINY).expect("a file of the test");
    let output = folder.run(&["run", "tiny.toml", "-o", "out", "--seeds", "4000000000"]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("--seeds asks for 8,000,000,000 runs"), "{}", stderr(&output));
}

#[test]
fn explain_refuses_what_run_refuses() {
    // Only the second cell is wrong.
    let folder = Folder::new("second-cell")
        .with("law.toml", &TINY.replace("\"swift\"]", "\"swfit\"]"))
        .with("claim.toml", &TINY.replace("flows.total_gbps", "flows.totl_gbps"));
    for file in ["law.toml", "claim.toml"] {
        let output = folder.run(&["explain", file]);
        assert_eq!(code(&output), 3, "{}", stderr(&output));
        assert!(
            stderr(&output).contains("did you mean") && stdout(&output).is_empty(),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_file_that_is_not_text_is_a_scenario_that_is_invalid() {
    let folder = Folder::new("binary");
    fs::write(folder.0.join("binary.toml"), b"title = \"t\"\nsource = \"\xff\xfe\"\n")
        .expect("a file of the test");
    for command in ["run", "explain", "scenarios"] {
        let output = folder.run(&[command, "binary.toml"]);
        assert_eq!(code(&output), 3, "{}", stderr(&output));
        let expected = "poseidon: binary.toml:2: byte 22 is not UTF-8; a scenario is a text file in TOML\n";
        assert_eq!(stderr(&output), expected);
    }
}

#[test]
fn a_corrupt_manifest_is_named() {
    let folder = Folder::new("corrupt").with("tiny.toml", TINY);
    let run = || folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none"]);
    assert_eq!(code(&run()), 0);
    let manifest = folder.named("manifest.json").swap_remove(0);
    fs::write(&manifest, "{ \"tool\": ").expect("a file of the test");
    let name = manifest.strip_prefix(&folder.0).expect("it is inside").display().to_string();
    let report = folder.run(&["report", "out"]);
    assert_eq!(code(&report), 1);
    assert!(stderr(&report).contains(&format!("{name} is corrupt")), "{}", stderr(&report));
    let again = run();
    assert_eq!(code(&again), 0);
    assert!(stderr(&again).contains(&format!("{name} is corrupt")), "{}", stderr(&again));
    assert_eq!((code(&folder.run(&["report", "out"])), stderr(&run()).as_str()), (0, ""));
}

#[test]
fn the_columns_of_verdicts_line_up() {
    let folder = Folder::new("columns");
    let output = folder.run(&["repro", "poseidon", "--only", "fig7", "-o", "out"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    let rows: Vec<Vec<char>> =
        text.lines().take_while(|line| !line.is_empty()).map(|line| line.chars().collect()).collect();
    assert!(rows.len() > 4, "{text}");
    // Each column begins in each row where its head begins, two spaces after the one before.
    let head: String = rows[0].iter().collect();
    for column in ["claim", "paper", "must be", "ours", "verdict"] {
        let at = head.find(column).expect("a column");
        for row in rows.iter().filter(|row| row.len() > at) {
            assert_eq!(&row[at - 2..at], [' ', ' '], "{column} of\n{text}");
        }
    }
    assert!(rows[1].iter().collect::<String>().starts_with("poseidon/fig7a  "), "{text}");
}

#[test]
fn a_comparison_names_the_metric_that_is_absent() {
    let folder =
        Folder::new("compare").with("tiny.toml", TINY).with("other.toml", &TINY.replace("0.4 ms", "0.3 ms"));
    for (file, out) in [("tiny.toml", "one"), ("tiny.toml", "two"), ("other.toml", "three")] {
        assert_eq!(code(&folder.run(&["run", file, "-o", out, "--records", "none"])), 0);
    }
    let absent = folder.run(&["compare", "one", "two", "--metric", "goodput"]);
    assert_eq!(code(&absent), 1);
    let said = stderr(&absent);
    assert!(said.starts_with("poseidon: no scenario has the metric goodput in both one and two; "), "{said}");
    assert!(said.contains("jain, ") && said.contains("total_gbps"), "{said}");
    let some = folder.run(&["compare", "one", "two", "--metric", "goodput", "--metric", "jain"]);
    assert_eq!(code(&some), 0);
    assert!(
        stdout(&some).contains("jain") && stderr(&some).contains("the metric goodput"),
        "{}",
        stderr(&some)
    );
    let known = folder.run(&["compare", "one", "two"]);
    assert_eq!((code(&known), stderr(&known).as_str()), (0, ""));
    let other = folder.run(&["compare", "one", "three"]);
    assert!(stderr(&other).contains("no scenario with results in common"), "{}", stderr(&other));
}

#[test]
fn the_manual_page_refers_to_no_page_that_is_not_there() {
    let page = stdout(&Folder::new("man").run(&["man"]));
    assert!(!page.contains("poseidon\\-run") && !page.contains("(1)"), "{page}");
    for part in
        [".SH COMMANDS", "\\fBposeidon run\\fR\nRun a scenario", "\\fBposeidon repro\\fR", "Exit codes"]
    {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}

#[test]
fn a_report_needs_results() {
    let folder = Folder::new("empty");
    for (args, says) in [
        (&["report", "."][..], "there are no results; `poseidon run` and `repro` make some"),
        (&["report", "missing"], "missing: "),
        (&["report"], "results: "),
    ] {
        let output = folder.run(args);
        let said = stderr(&output);
        assert_eq!(code(&output), 1, "{args:?}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{args:?}: {said}");
    }
    assert!(folder.list().is_empty(), "and makes none");
}

#[test]
fn a_report_judges_again_without_running() {
    let folder = Folder::new("report").with("tiny.toml", TINY);
    assert_eq!(code(&folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none"])), 0);
    let output = folder.run(&["report", "out"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("they fill the link"));
    let page = fs::read_to_string(folder.0.join("out/report.html")).expect("a page");
    assert!(page.contains("1 claims hold, 0 fail") && page.contains("<svg") && page.contains("two flows"));
    assert!(!page.contains("http-equiv") && !page.contains("<script"), "it needs no network");
}

#[test]
fn a_study_with_seeds_of_its_own_per_cell_runs_as_many() {
    let text = TINY.replace("law = [\"poseidon\", \"swift\"]", "")
        + "[[sweep.how]]\nname = \"once\"\nset = { seeds = 1 }\n[[sweep.how]]\nname = \"thrice\"\nset = { seeds = 3 }\n";
    let text = text.replace("by = \"law\"", "by = \"how\"");
    let folder = Folder::new("seeds").with("seeds.toml", &text);
    let all = json(&folder.run(&["run", "seeds.toml", "-o", "out", "--records", "none", "--json"]));
    let cells: Vec<&str> = all["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .filter_map(|run| run["manifest"]["cell"][0]["value"].as_str())
        .collect();
    assert_eq!(cells, ["once", "thrice", "thrice", "thrice"]);
}

#[test]
fn a_result_is_the_answer_to_everybody_who_asks_for_its_plan() {
    // Other claims and more seeds do not change a plan, and neither does --quick where it cuts seeds only.
    let folder = Folder::new("asked-again");
    let texts =
        [format!("{TINY}[quick]\nseeds = 1\n"), format!("{TINY}[quick]\nseeds = 1\n# another text\n")];
    for (text, quick, runs) in
        [(0, "--quick", 2), (0, "--quiet", 4), (0, "--quick", 2), (1, "--quiet", 4), (0, "--quiet", 4)]
    {
        fs::write(folder.0.join("tiny.toml"), &texts[text]).expect("a file of the test");
        let ran = json(&folder.run(&["run", "tiny.toml", "-o", "out", "--records", "none", "--json", quick]));
        assert_eq!(ran["runs"].as_array().map(Vec::len), Some(runs), "text {text}, {quick}");
        let report = json(&folder.run(&["report", "out", "--json"]));
        // What was run in full counts where it is there.
        let known = folder.named("manifest.json").len();
        assert_eq!(report["runs"].as_array().map(Vec::len), Some(known), "text {text}, {quick}");
    }
    assert_eq!(folder.named("manifest.json").len(), 4);
}

#[test]
fn a_plan_of_another_study_is_not_run_again() {
    let folder = Folder::new("another-study");
    for paper in ["one", "two"] {
        fs::create_dir_all(folder.0.join("scenarios").join(paper)).expect("a folder of the test");
        let file = format!("scenarios/{paper}/tiny.toml");
        fs::write(folder.0.join(&file), format!("{TINY}# of {paper}\n")).expect("a file of the test");
        let ran = json(&folder.run(&["run", &file, "-o", "out", "--records", "none", "--json"]));
        let made_in = |run: &Value| run["made_in"].as_str().map(str::to_owned);
        let manifests = folder.named("manifest.json");
        assert_eq!(ran["runs"].as_array().map(Vec::len), Some(4));
        let of_paper = |path: &&PathBuf| path.to_string_lossy().contains(&format!("out/{paper}/tiny/"));
        for manifest in manifests.iter().filter(of_paper) {
            let text = fs::read_to_string(manifest).expect("a manifest");
            let expected = (paper == "two").then(|| "one/tiny".to_owned());
            assert_eq!(made_in(&serde_json::from_str(&text).expect("JSON")), expected, "{text}");
        }
        assert_eq!(manifests.iter().filter(of_paper).count(), 4, "each study has its own folder");
    }
}

#[test]
fn shards_are_parts_of_the_whole() {
    let folder = Folder::new("shards");
    let repro = |shard: &str| {
        let args = ["repro", "poseidon", "--only", "fig7", "--shard", shard, "-o", "out", "--json"];
        json(&folder.run(&args))["runs"].as_array().map(Vec::len)
    };
    assert_eq!((repro("1/2"), repro("2/2"), repro("1/1")), (Some(1), Some(1), Some(2)));
}

#[test]
fn what_there_is_can_be_asked() {
    let folder = Folder::new("asked").with("tiny.toml", TINY);
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
        (&["--help"], &["Exit codes:", "poseidon run scenarios/quickstart.toml"]),
        (&["--version"], &["poseidon "]),
    ] {
        let output = folder.run(args);
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        let text = stdout(&output);
        for part in parts {
            assert!(text.contains(part), "{args:?}: {part:?} is not in\n{text}");
        }
    }
    assert_eq!(folder.list().len(), 1, "nothing is written");
    let builtin = stdout(&folder.run(&["scenarios", "quickstart"]));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/quickstart.toml");
    assert_eq!(builtin.trim_end(), fs::read_to_string(file).expect("it is built in").trim_end());
}

#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = Folder::new("pipe").with("tiny.toml", TINY);
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
            let said = stderr(&output.expect("a shell"));
            assert!(!said.contains("panicked"), "{args} | {reader}: {said}");
            assert!(said.ends_with("code 0\n"), "{args} | {reader}: {said}");
        }
    }
}
