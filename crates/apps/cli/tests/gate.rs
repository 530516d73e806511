//! Tests `poseidon gate` and `poseidon compare --fail-if`: verdicts, exit codes, files and errors.

mod common;

use common::{POSEIDON, TempFolder, exit_code, json, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Three flows of two laws through one queue.
const TINY: &str = r#"title = "three flows"
source = "none"
stop = "0.4 ms"

[topology]
kind = "star"
hosts = 4
link = { rate = "100 Gbps", delay = "1 us" }

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-2]"
to = "host3"
spread = "20 us"

[observe.queues]
queue = "last hop of flows"

[sweep]
law = ["swift", "poseidon"]
"#;

const GATE: [&str; 6] = ["gate", "tiny.toml", "-o", "out", "--baseline", "base.json"];

fn folder_with_baseline(test: &str) -> TempFolder {
    let folder = TempFolder::new(test).with_file("tiny.toml", TINY);
    let output = folder.run_ok(&[&GATE[..], &["--bless", "--quiet"]].concat());
    assert_eq!(stdout(&output), "base.json: 1 scenarios with 20 seeds, 0 kept\n");
    folder
}

/// Multiplies the values of a metric in the baseline, and forgets the result hashes.
fn scale_baseline(folder: &TempFolder, metric: &str, factor: f64) {
    let mut baseline: Value = serde_json::from_str(&folder.read("base.json")).expect("the baseline is JSON");
    for cell in baseline["scenarios"][0]["cells"].as_array_mut().expect("there are cells") {
        for hash in cell["result_hashes"].as_array_mut().expect("there are hashes") {
            *hash = "other".into();
        }
        for value in cell["values"][metric].as_array_mut().expect("the metric has values") {
            *value = (value.as_f64().expect("a number") * factor).into();
        }
    }
    fs::write(folder.0.join("base.json"), baseline.to_string()).expect("the folder is writable");
}

#[test]
fn an_unchanged_program_passes_and_a_worse_one_fails() {
    let folder = folder_with_baseline("gate");
    let output = folder.run_ok(&GATE);
    let text = stdout(&output);
    assert!(text.contains("metrics with identical results") && text.contains("gate: pass"), "{text}");

    // The base had shorter queues, so the head is worse.
    scale_baseline(&folder, "queue.delay_mean_us", 0.7);
    let output = folder.run(&[&GATE[..], &["--quiet"]].concat());
    let text = stdout(&output);
    assert_eq!(exit_code(&output), 4, "{text}");
    assert!(stderr(&output).starts_with("poseidon: the gate fails: "), "{}", stderr(&output));
    for expected in
        ["FAIL          queue.delay_mean_us [law swift]", "beyond the margin of +10 %", "gate: fail"]
    {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&expected), "{expected:?} is missing in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.starts_with("head ")), "{text}");

    // Warnings and failures can be ignored, and an improvement passes.
    let never = [&GATE[..], &["--quiet", "--fail-on", "never"]].concat();
    assert_eq!(exit_code(&folder.run(&never)), 0);
    scale_baseline(&folder, "queue.delay_mean_us", 2.0);
    assert_eq!(exit_code(&folder.run(&GATE)), 0);
}

#[test]
fn a_baseline_is_refused_for_real_packets() {
    let folder = TempFolder::new("gate-on-linux").with_file("tiny.toml", TINY);
    for bless in [&["--bless"] as &[&str], &[]] {
        let output = folder.run(&[&GATE[..], &["--on", "linux"], bless].concat());
        assert_eq!(exit_code(&output), 2);
        let error = stderr(&output);
        assert!(error.contains("alternately") && error.contains("--base or --base-program"), "{error}");
    }
}

#[test]
fn reports_are_written_in_every_format() {
    let folder = folder_with_baseline("gate-formats");
    scale_baseline(&folder, "queue.delay_mean_us", 0.7);
    let files = [
        "text",
        "json",
        "junit",
        "markdown",
        "github",
        "ktap",
        "benchmark-smaller",
        "benchmark-bigger",
        "bencher",
    ];
    let mut args: Vec<String> = GATE.iter().map(|arg| (*arg).to_owned()).collect();
    args.extend(["--quiet".to_owned(), "--format".to_owned(), "github".to_owned()]);
    args.extend(files.iter().flat_map(|format| ["--write".to_owned(), format!("{format}={format}.out")]));
    let output = Command::new(POSEIDON)
        .args(&args)
        .current_dir(&folder.0)
        .env("GITHUB_STEP_SUMMARY", folder.0.join("summary.md"))
        .env("GITHUB_OUTPUT", folder.0.join("output.txt"))
        .output()
        .expect("the command starts");
    assert_eq!(exit_code(&output), 4, "{}", stderr(&output));
    let annotations = stdout(&output);
    assert!(
        annotations.starts_with("::error file=tiny.toml,title=gate%3A queue.delay_mean_us"),
        "{annotations}"
    );
    assert_eq!(folder.read("output.txt"), "verdict=fail\n");
    assert_eq!(folder.read("summary.md"), folder.read("markdown.out"));
    for (file, expected) in [
        ("text", "gate: fail"),
        ("junit", "<failure type=\"regression\""),
        ("markdown", "| :x: | tiny | queue.delay\\_mean\\_us \\[law"),
        ("github", "::error file=tiny.toml"),
        ("ktap", "\nnot ok "),
        ("benchmark-smaller", "\"name\": \"tiny queue.delay_mean_us [law swift]\""),
        ("benchmark-bigger", "\"unit\": \"Gbps\""),
        ("bencher", "\"tiny/law swift/queue\""),
    ] {
        let text = folder.read(&format!("{file}.out"));
        assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
    }
    let report: Value = serde_json::from_str(&folder.read("json.out")).expect("the report is JSON");
    assert_eq!(report["verdict"], "fail");
    let first = &report["comparisons"][0];
    assert_eq!((&first["scenario"], &first["cell"]), (&"tiny".into(), &"law swift".into()));
}

#[test]
fn blessing_shows_the_difference_and_keeps_other_scenarios() {
    let folder =
        folder_with_baseline("gate-bless").with_file("second.toml", &TINY.replace("three flows", "again"));
    let add = ["gate", "second.toml", "-o", "out", "--baseline", "base.json", "--bless", "--quiet"];
    let text = stdout(&folder.run_ok(&add));
    assert_eq!(text, "second: new in this baseline\nbase.json: 1 scenarios with 20 seeds, 1 kept\n");
    let both = ["gate", "tiny.toml", "second.toml", "-o", "out", "--baseline", "base.json", "--quiet"];
    folder.run_ok(&both);

    scale_baseline(&folder, "queue.delay_mean_us", 0.7);
    // The first scenario of the file is `second`, in natural order.
    let text = stdout(&folder.run_ok(&add));
    assert!(text.contains("FAIL          queue.delay_mean_us") && text.contains("old baseline"), "{text}");
    folder.run_ok(&both);

    let changed = TINY.replace("0.4 ms", "0.3 ms");
    fs::write(folder.0.join("tiny.toml"), changed).expect("the folder is writable");
    let refused = folder.run(&both);
    assert_eq!(exit_code(&refused), 3, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("the scenario text differs between base"), "{}", stderr(&refused));
    let blessed = stdout(&folder.run_ok(&[&GATE[..], &["--bless", "--quiet"]].concat()));
    assert!(
        blessed.starts_with("tiny: the scenario has changed, so its old values are dropped\n"),
        "{blessed}"
    );
    folder.run_ok(&both);
}

#[test]
fn another_program_can_be_the_base() {
    let folder = TempFolder::new("gate-program").with_file("tiny.toml", TINY);
    let args = ["gate", "tiny.toml", "-o", "out", "--base-program", POSEIDON, "--format", "json", "--quiet"];
    let report = json(&folder.run_ok(&args));
    assert_eq!(report["verdict"], "pass");
    let methods: Vec<&Value> =
        report["comparisons"].as_array().expect("a list").iter().map(|row| &row["method"]).collect();
    assert!(!methods.is_empty() && methods.iter().all(|method| **method == "identical"), "{report}");

    let missing = folder.run(&["gate", "tiny.toml", "-o", "out", "--base-program", "/no/such/program"]);
    assert_eq!(exit_code(&missing), 5, "{}", stderr(&missing));
    let wrong = folder.run(&["gate", "tiny.toml", "-o", "out", "--base-program", "/bin/true"]);
    assert_eq!(exit_code(&wrong), 1);
    assert!(stderr(&wrong).contains("results that cannot be read"), "{}", stderr(&wrong));
}

/// Runs git in a folder.
fn git(folder: &TempFolder, args: &[&str]) {
    let identity =
        ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").args(identity).args(args).current_dir(&folder.0).output();
    let output = output.expect("git starts");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_commit_is_built_once_and_run_as_the_base() {
    // The program of this repository passes its arguments on to the program under test.
    let main = format!(
        "fn main() {{\n    let args = std::env::args_os().skip(1);\n    let status = std::process::Command::new({POSEIDON:?}).args(args).status();\n    \
         std::process::exit(status.ok().and_then(|status| status.code()).unwrap_or(1));\n}}\n"
    );
    let folder = TempFolder::new("gate-commit")
        .with_file("tiny.toml", TINY)
        .with_file("Cargo.toml", "[package]\nname = \"poseidon-cli\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[[bin]]\nname = \"poseidon\"\npath = \"main.rs\"\n\n[workspace]\n")
        .with_file("Cargo.lock", "version = 4\n\n[[package]]\nname = \"poseidon-cli\"\nversion = \"0.1.0\"\n")
        .with_file("main.rs", &main)
        .with_file(".gitignore", "out\n");
    git(&folder, &["init", "--quiet"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "works"]);
    let gate =
        |base: &str| folder.run(&["gate", "tiny.toml", "-o", "out", "--base", base, "--profile", "dev"]);
    let first = gate("HEAD");
    assert_eq!(exit_code(&first), 0, "{}", stderr(&first));
    assert!(stderr(&first).contains("building HEAD ("), "{}", stderr(&first));
    assert!(
        stdout(&first).contains("base  HEAD (") && stdout(&first).contains("gate: pass"),
        "{}",
        stdout(&first)
    );
    let second = gate("HEAD");
    assert!(exit_code(&second) == 0 && !stderr(&second).contains("building"), "{}", stderr(&second));
    let worktrees = Command::new("git").args(["worktree", "list"]).current_dir(&folder.0).output();
    let worktrees = String::from_utf8(worktrees.expect("git starts").stdout).expect("git prints text");
    assert_eq!(worktrees.lines().count(), 1, "no worktree is left: {worktrees}");

    fs::write(folder.0.join("main.rs"), "fn main() { this does not compile }")
        .expect("the folder is writable");
    git(&folder, &["commit", "--quiet", "-am", "broken"]);
    let broken = gate("HEAD");
    assert_eq!(exit_code(&broken), 1, "{}", stderr(&broken));
    assert!(
        stderr(&broken).contains("build --locked") && stderr(&broken).contains("error"),
        "{}",
        stderr(&broken)
    );
    let both = ["gate", "tiny.toml", "-o", "out", "--base", "HEAD~1", "--head", "HEAD~1", "--profile", "dev"];
    folder.run_ok(&both);
    let unknown = gate("no-such-branch");
    assert_eq!(exit_code(&unknown), 1);
    assert!(stderr(&unknown).contains("is not a commit of this repository"), "{}", stderr(&unknown));
}

#[test]
fn folders_are_compared_with_rules() {
    let folder = TempFolder::new("gate-compare").with_file("tiny.toml", TINY);
    for out in ["one", "two"] {
        folder.run_ok(&["run", "tiny.toml", "-o", out, "--records", "none", "--quiet", "--seeds", "10"]);
    }
    let compare = |rule: &str| folder.run(&["compare", "one", "two", "--fail-if", rule]);
    assert_eq!(exit_code(&compare("delay_mean_us > +5%")), 0);

    // The second folder gets longer queues.
    for run in fs::read_dir(folder.0.join("two/tiny/runs")).expect("there are runs").flatten() {
        let (summary, manifest) = (run.path().join("summary.json"), run.path().join("manifest.json"));
        let mut value: Value = serde_json::from_str(&fs::read_to_string(&summary).unwrap()).unwrap();
        let delay = &mut value["phases"][0]["values"]["queue.delay_mean_us"];
        *delay = (delay.as_f64().expect("the queue has a delay") * 1.2).into();
        fs::write(&summary, value.to_string()).unwrap();
        let mut value: Value = serde_json::from_str(&fs::read_to_string(&manifest).unwrap()).unwrap();
        value["result_hash"] = "other".into();
        fs::write(&manifest, value.to_string()).unwrap();
    }
    let worse = compare("delay_mean_us > +5%");
    assert_eq!(exit_code(&worse), 4, "{}", stdout(&worse));
    assert!(stdout(&worse).contains("changed by +20.0 % (+20.0 to +20.0 %)"), "{}", stdout(&worse));
    assert_eq!(exit_code(&compare("delay_mean_us > +30%")), 0);
    let reversed = folder.run(&["compare", "two", "one", "--fail-if", "delay_mean_us > +5%", "--json"]);
    assert_eq!((exit_code(&reversed), &json(&reversed)["verdict"]), (0, &"pass".into()));

    let unmeasured = compare("latency_p99_us > +5%");
    assert_eq!(exit_code(&unmeasured), 2);
    assert!(
        stderr(&unmeasured).contains("no scenario measures \"latency_p99_us\""),
        "{}",
        stderr(&unmeasured)
    );
    let improvement = compare("total_gbps > +1%");
    assert_eq!(exit_code(&improvement), 2);
    assert!(stderr(&improvement).contains("write \"total_gbps < -1%\""), "{}", stderr(&improvement));
}

#[test]
fn invalid_requests_are_refused_before_a_run() {
    let folder = TempFolder::new("gate-errors").with_file("tiny.toml", TINY);
    let old = "{\"schema\": 7}";
    let folder = folder.with_file("newer.json", old).with_file("broken.json", "{");
    for (args, code, expected) in [
        (&["tiny.toml"][..], 2, "--baseline"),
        (&["tiny.toml", "--baseline", "missing.json"], 3, "--bless"),
        (&["tiny.toml", "--baseline", "newer.json"], 3, "schema version 7, and this program reads version 1"),
        (&["tiny.toml", "--baseline", "broken.json"], 3, "is not a baseline"),
        (&["tiny.toml", "tiny.toml", "--baseline", "newer.json"], 2, "two scenarios are called \"tiny\""),
        (&["tiny.toml", "--baseline", "b.json", "--seeds", "4"], 2, "from 5 to 20"),
        (&["tiny.toml", "--baseline", "b.json", "--alpha", "2"], 2, "--alpha 2"),
        (&["tiny.toml", "--baseline", "b.json", "--margin", "five"], 2, "positive percentage"),
        (
            &["tiny.toml", "--baseline", "b.json", "--fail-if", "speed > 1%"],
            2,
            "there is no metric \"speed\"",
        ),
        (&["tiny.toml", "--baseline", "b.json", "--base", "main"], 2, "cannot be used with"),
        (&["tiny.toml", "--baseline", "b.json", "--write", "xml=a"], 2, "there is no format \"xml\""),
        (&["tiny.toml", "--base", "main", "--bless"], 2, "cannot be used with"),
        (&["nothing.toml", "--baseline", "b.json"], 2, "there is no file or scenario"),
    ] {
        let output = folder.run(&[&["gate"], args, &["-o", "out"]].concat());
        assert_eq!(exit_code(&output), code, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    }
    assert!(!folder.0.join("out").exists(), "nothing runs");
}
