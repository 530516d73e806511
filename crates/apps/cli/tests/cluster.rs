//! Tests of processes that share a results folder: claims, signals, full disks, torn files, emitted jobs and merging.

mod common;

use common::{POSEIDON, TempFolder, exit_code, json, stderr, stdout};
use core::time::Duration;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Ten cells with four seeds each: forty runs.
const SMALL: &str = r#"title = "flows"
source = "none"
stop = "0.2 ms"
seeds = 4

[topology]
kind = "star"
hosts = 5
link = { rate = "100 Gbps", delay = "1 us" }

[switch]
stamp = "auto"

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-3]"
to = "host4"
spread = "$spread"

[sweep]
law = ["poseidon", "swift"]
spread = ["10 us", "15 us", "20 us", "25 us", "30 us"]
"#;

/// Returns the scenario with a longer run.
fn small(stop: &str) -> String {
    SMALL.replace("0.2 ms", stop)
}

/// Starts a task of the scenario `s.toml` that writes into `out`.
fn start_task(folder: &TempFolder, task: &str, more: &[&str]) -> Child {
    Command::new(POSEIDON)
        .args(["run", "s.toml", "--task", task, "-o", "out", "--records", "none", "--json", "--jobs", "1"])
        .args(more)
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

fn finish(child: Child) -> Output {
    child.wait_with_output().expect("the command ends")
}

/// Runs the whole study and returns the hash of its results.
fn result_hash(folder: &TempFolder, output: &str) -> String {
    let run = folder.run_ok(&["run", "s.toml", "-o", output, "--records", "none", "--json", "--quiet"]);
    json(&run)["result_hash"].as_str().expect("the hash is text").to_owned()
}

fn status(folder: &TempFolder) -> Value {
    json(&folder.run_ok(&["status", "out", "--json"]))[0].clone()
}

/// Returns the names of the files in a folder of the study.
fn names(folder: &TempFolder, subfolder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.0.join("out/s").join(subfolder)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns the paths of all files with this name in the results.
fn run_files(folder: &TempFolder, name: &str) -> Vec<PathBuf> {
    let runs = names(folder, "runs").into_iter();
    let paths = runs.map(|run| folder.0.join("out/s/runs").join(run).join(name));
    paths.filter(|path| path.is_file()).collect()
}

/// Waits until the results have a claim.
fn wait_for_claim(folder: &TempFolder) {
    for _ in 0..1_000 {
        if !names(folder, "claims").is_empty() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "the other process needs time")]
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the task claims no run");
}

#[cfg(unix)]
fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success(), "the process gets the signal");
}

#[test]
fn tasks_compute_every_run_once_also_if_one_is_started_twice() {
    let folder = TempFolder::new("tasks").with_file("s.toml", SMALL);
    // Two tasks are started twice.
    let tasks = ["0/4", "1/4", "2/4", "3/4", "0/4", "2/4"];
    let children: Vec<Child> = tasks.iter().map(|task| start_task(&folder, task, &[])).collect();
    let mut computed = 0;
    let mut lines = Vec::new();
    for child in children {
        let output = finish(child);
        assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
        let report = json(&output);
        assert_eq!(
            (report["share"].as_u64(), report["failed"].as_array().map(Vec::len)),
            (Some(10), Some(0))
        );
        computed += report["computed"].as_u64().expect("this is a number");
        lines.extend(stderr(&output).lines().filter_map(|line| {
            Some(line.strip_prefix("poseidon: computed ")?.rsplit_once(" in ")?.0.to_owned())
        }));
    }
    assert_eq!(computed, 40);
    lines.sort();
    let count = lines.len();
    lines.dedup();
    assert_eq!((lines.len(), count), (40, 40), "each run was computed once");
    let status = status(&folder);
    assert_eq!((&status["runs"], &status["done"], &status["left"]), (&40.into(), &40.into(), &0.into()));
    assert!(names(&folder, "claims").is_empty());
    assert_eq!(result_hash(&folder, "out"), result_hash(&folder, "alone"));
}

#[cfg(unix)]
#[test]
fn a_signal_keeps_finished_runs_and_releases_the_claim() {
    for signal in ["-TERM", "-USR1"] {
        let folder = TempFolder::new(&format!("signal{signal}")).with_file("s.toml", &small("40 ms"));
        let task = start_task(&folder, "0/1", &[]);
        wait_for_claim(&folder);
        send(&task, signal);
        let output = finish(task);
        assert_eq!(exit_code(&output), 130, "{}", stderr(&output));
        assert!(stderr(&output).contains("finished runs are stored"), "{}", stderr(&output));
        assert!(names(&folder, "claims").is_empty(), "{signal}");
        let complete = json(&output)["computed"].as_u64().expect("this is a number");
        let status = status(&folder);
        assert_eq!(status["done"].as_u64(), Some(complete), "{signal}");
        assert!(complete < 40, "{signal}");
        // A stopped run is not stored.
        let manifests = run_files(&folder, "manifest.json").len() as u64;
        assert_eq!(manifests, complete);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_run_of_a_killed_task_is_repeated() {
    let folder = TempFolder::new("killed").with_file("s.toml", &small("2 ms"));
    let task = start_task(&folder, "0/2", &[]);
    wait_for_claim(&folder);
    send(&task, "-KILL");
    let _ = finish(task);
    let state = status(&folder);
    let done = state["done"].as_u64().expect("this is a number");
    assert_eq!((&state["running"], &state["abandoned"]), (&0.into(), &1.into()), "{state}");
    assert_eq!(state["left"].as_u64(), Some(39 - done));
    let output = finish(start_task(&folder, "1/2", &[]));
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["computed"].as_u64(), Some(40 - done), "the other task helps");
    let state = status(&folder);
    assert_eq!((&state["done"], &state["abandoned"]), (&40.into(), &0.into()), "{state}");
    assert_eq!(result_hash(&folder, "out"), result_hash(&folder, "alone"));
}

#[cfg(unix)]
#[test]
fn a_run_waits_for_a_run_of_another_process() {
    let folder = TempFolder::new("waits").with_file("s.toml", &small("4 ms"));
    let task = start_task(&folder, "0/1", &[]);
    wait_for_claim(&folder);
    let hash = result_hash(&folder, "out");
    let output = finish(task);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    let found = json(&output);
    let computed = found["computed"].as_u64().expect("this is a number");
    assert!((1..40).contains(&computed), "both processes compute runs: {found}");
    assert_eq!(hash, result_hash(&folder, "alone"));
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_a_task_and_leaves_no_torn_run() {
    let folder = TempFolder::new("full").with_file("s.toml", SMALL);
    // Files of more than one block cannot be written. Without a handler, the signal would end the process.
    let script = format!(
        "trap '' XFSZ; ulimit -f 1; exec {POSEIDON} run s.toml --task 0/1 -o out --records none --jobs 1"
    );
    let output = Command::new("sh").args(["-c", &script]).current_dir(&folder.0).output().expect("sh starts");
    assert_eq!(exit_code(&output), 1, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("too large") || stderr(&output).contains("out/s"),
        "{}",
        stderr(&output)
    );
    assert!(names(&folder, "claims").is_empty());
    assert!(run_files(&folder, "manifest.json").is_empty());
    for run in names(&folder, "runs") {
        let files = names(&folder, &format!("runs/{run}"));
        assert!(files.iter().all(|name| !name.ends_with(".part")), "{files:?}");
    }
    let output = finish(start_task(&folder, "0/1", &[]));
    assert_eq!(json(&output)["computed"].as_u64(), Some(40), "{}", stderr(&output));
}

#[test]
fn torn_files_are_computed_again() {
    let folder = TempFolder::new("torn").with_file("s.toml", SMALL);
    assert_eq!(exit_code(&finish(start_task(&folder, "0/1", &[]))), 0);
    let hash = result_hash(&folder, "out");
    let manifests = run_files(&folder, "manifest.json");
    let text = folder.read(&manifests[0].to_string_lossy());
    fs::write(&manifests[0], &text[..text.len() / 2]).expect("the manifest is ours");
    fs::write(&manifests[1], "").expect("the manifest is ours");
    fs::write(&run_files(&folder, "summary.json")[2], "").expect("the summary is ours");
    let output = finish(start_task(&folder, "0/1", &[]));
    assert_eq!(json(&output)["computed"].as_u64(), Some(2), "a task reads manifests: {}", stderr(&output));
    let run = folder.run_ok(&["run", "s.toml", "-o", "out", "--records", "none", "--json"]);
    assert!(
        stderr(&run).contains("is corrupt") && stderr(&run).contains("the run is repeated"),
        "{}",
        stderr(&run)
    );
    assert_eq!(json(&run)["result_hash"].as_str(), Some(hash.as_str()));
}

#[test]
fn folders_of_several_machines_merge_into_the_result_of_one() {
    let folder = TempFolder::new("merge").with_file("s.toml", SMALL);
    // Task 0 of 40 helps 16 others, so the folders have 17 and 40 runs.
    let run = |task: &str, output: &str| {
        folder.run_ok(&["run", "s.toml", "--task", task, "-o", output, "--records", "none", "--quiet"])
    };
    run("0/40", "a");
    run("0/1", "b");
    let merged = json(&folder.run_ok(&["merge", "out", "a", "b", "--json"]));
    assert_eq!((&merged["copied"], &merged["present"]), (&40.into(), &17.into()), "{merged}");
    let output = folder.run_ok(&["merge", "out", "b"]);
    assert!(
        stdout(&output).starts_with("copied 0 runs of 1 studies into out; 40 were there"),
        "{}",
        stdout(&output)
    );
    assert_eq!(result_hash(&folder, "out"), result_hash(&folder, "alone"));
    let manifest = &run_files(&folder, "manifest.json")[0];
    let text = fs::read_to_string(manifest).expect("the manifest is readable");
    let hash = json(&folder.run_ok(&["run", "s.toml", "-o", "out", "--records", "none", "--json"]))["runs"]
        [0]["manifest"]["result_hash"]
        .clone();
    let hash = hash.as_str().expect("the hash is text");
    let position = text.find("\"result_hash\": \"").expect("a manifest has the hash") + 16;
    let wrong = format!("{}0000000000000000{}", &text[..position], &text[position + hash.len()..]);
    fs::write(manifest, wrong).expect("the manifest is ours");
    let output = folder.run(&["merge", "out", "b"]);
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains("different results (0000000000000000 and"), "{}", stderr(&output));
    let output = folder.run(&["merge", "out", "nothing"]);
    assert_eq!(exit_code(&output), 1, "{}", stderr(&output));
}

#[test]
fn machines_without_a_common_folder_compute_only_their_shares() {
    let folder = TempFolder::new("own-share").with_file("s.toml", SMALL);
    for (task, output) in [("0/4", "a"), ("1/4", "b"), ("2/4", "c"), ("3/4", "d")] {
        let run = ["run", "s.toml", "--task", task, "--own-share-only", "-o", output, "--records", "none"];
        let report = json(&folder.run_ok(&[&run[..], &["--json"]].concat()));
        assert_eq!((&report["computed"], &report["helped"]), (&10.into(), &0.into()), "{report}");
    }
    let merged = json(&folder.run_ok(&["merge", "out", "a", "b", "c", "d", "--json"]));
    assert_eq!((&merged["copied"], &merged["present"]), (&40.into(), &0.into()), "{merged}");
    assert_eq!(result_hash(&folder, "out"), result_hash(&folder, "alone"));
    let comparison = stdout(&folder.run_ok(&["compare", "out", "alone"]));
    assert_eq!(comparison, format!("s: the same result ({})\n", result_hash(&folder, "alone")));
    let output = folder.run(&["run", "s.toml", "--own-share-only"]);
    assert_eq!(exit_code(&output), 2, "the option needs a task");
}

#[test]
fn a_run_with_a_torn_summary_is_not_merged() {
    let folder = TempFolder::new("torn-merge").with_file("s.toml", SMALL);
    folder.run_ok(&["run", "s.toml", "-o", "out", "--records", "none"]);
    let summary = &run_files(&folder, "summary.json")[0];
    let text = fs::read(summary).expect("the summary is readable");
    fs::write(summary, &text[..text.len() / 2]).expect("the summary is ours");
    let merged = json(&folder.run_ok(&["merge", "target", "out", "--json"]));
    assert_eq!((&merged["copied"], &merged["incomplete"]), (&39.into(), &1.into()), "{merged}");
}

#[test]
fn runs_that_are_repeated_for_their_rows_are_announced() {
    let folder = TempFolder::new("rows").with_file("s.toml", SMALL);
    folder.run_ok(&["run", "s.toml", "-o", "out", "--records", "none"]);
    let again = folder.run_ok(&["run", "s.toml", "-o", "out", "--records", "none"]);
    assert!(!stderr(&again).contains("no rows"), "{}", stderr(&again));
    let with_rows = folder.run_ok(&["run", "s.toml", "-o", "out"]);
    let note = "note: 40 stored runs have no rows and are computed again; --records none keeps them";
    assert!(stderr(&with_rows).contains(note), "{}", stderr(&with_rows));
}

#[test]
fn the_slurm_script_is_valid_and_names_the_tasks() {
    let folder = TempFolder::new("slurm").with_file("my study.toml", SMALL);
    let output =
        folder.run_ok(&["emit", "slurm", "my study.toml", "--tasks", "8", "-o", "/shared/r", "--seeds", "3"]);
    let script = stdout(&output);
    fs::write(folder.0.join("job.sh"), &script).expect("the folder is writable");
    let check = Command::new("sh").args(["-n", "job.sh"]).current_dir(&folder.0).output().expect("sh starts");
    assert!(check.status.success(), "{}", stderr(&check));
    for expected in [
        "30 runs in 8 tasks",
        "#SBATCH --array=0-7\n",
        "#SBATCH --mem=",
        "#SBATCH --time=",
        "#SBATCH --signal=TERM@60\n",
        "my study.toml' --records none --seeds 3 --task \"$SLURM_ARRAY_TASK_ID/8\" --jobs 1 -o /shared/r\n",
        "--dependency=\"afterany:$job\"",
        "#SBATCH --job-name=poseidon-my-study-collect\n",
    ] {
        assert!(script.contains(expected), "{expected} is missing in\n{script}");
    }
    // The jobs can be submitted from any folder.
    let scenario = folder.0.join("my study.toml");
    assert!(script.contains(&format!("run '{}' ", scenario.display())), "{script}");
    let output = folder.run_ok(&["emit", "slurm", "my study.toml", "--tasks", "999", "--records", "csv"]);
    let script = stdout(&output);
    assert!(script.contains(" --records csv ") && !script.contains("--records none"), "{script}");
    let results = folder.0.join("results");
    assert!(script.contains(&format!("-o {}\n", results.display())), "{script}");
    assert!(stdout(&output).contains("--array=0-39\n"), "there are 40 runs: {}", stdout(&output));
}

#[test]
fn the_kubernetes_job_is_indexed_and_contains_the_scenario() {
    let folder = TempFolder::new("k8s").with_file("s.toml", SMALL);
    let output = folder.run(&["emit", "k8s", "s.toml"]);
    assert_eq!(exit_code(&output), 2, "the results folder is a mount point");
    let output =
        folder.run_ok(&["emit", "k8s", "s.toml", "--tasks", "8", "-o", "/results", "--image", "a/b:1"]);
    let manifest = stdout(&output);
    for expected in [
        "completions: 8\n",
        "completionMode: Indexed\n",
        "image: \"a/b:1\"\n",
        "\"--task\", \"$(JOB_COMPLETION_INDEX)/8\"",
        "    law = [\"poseidon\", \"swift\"]",
        "mountPath: \"/scenarios/s.toml\"",
    ] {
        assert!(manifest.contains(expected), "{expected} is missing in\n{manifest}");
    }
}

#[test]
fn the_status_of_a_folder_without_results_is_an_error() {
    let folder = TempFolder::new("status");
    let output = folder.run(&["status", "."]);
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains("has no results"), "{}", stderr(&output));
    fs::create_dir_all(folder.0.join("empty/logs")).expect("the folder is writable");
    let output = folder.run(&["status", "empty"]);
    assert!(stderr(&output).contains("empty/logs has what the tasks say"), "{}", stderr(&output));
    let output = folder.run(&["status", "missing"]);
    assert_eq!(exit_code(&output), 1);
}

#[test]
fn jobs_for_an_object_store_need_no_shared_folder() {
    let folder = TempFolder::new("emit-s3").with_file("s.toml", SMALL);
    let script =
        stdout(&folder.run_ok(&["emit", "slurm", "s.toml", "--tasks", "8", "-o", "s3://bucket/study"]));
    for expected in
        ["-o s3://bucket/study\n", "mkdir -p poseidon-s-logs\n", "--output=poseidon-s-logs/%A_%a.log\n"]
    {
        assert!(script.contains(expected), "{expected} is missing in\n{script}");
    }
    let manifest =
        stdout(&folder.run_ok(&["emit", "k8s", "s.toml", "-o", "s3://bucket/study", "--secret", "my-keys"]));
    for expected in ["\"-o\", \"s3://bucket/study\"]", "secretRef: {name: \"my-keys\"}", "emptyDir: {}"] {
        assert!(manifest.contains(expected), "{expected} is missing in\n{manifest}");
    }
    assert!(!manifest.contains("persistentVolumeClaim"), "{manifest}");
}

#[test]
fn commands_that_need_a_folder_say_how_to_copy_an_object_store() {
    let folder = TempFolder::new("folder").with_file("s.toml", SMALL);
    for command in [&["report", "s3://b/p"][..], &["merge", "s3://b/p", "out"]] {
        let output = folder.run(command);
        assert_eq!(exit_code(&output), 2, "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("poseidon merge results s3://b/p"), "{}", stderr(&output));
    }
    let output = folder.run(&["run", "s.toml", "-o", "out", "--local", "here"]);
    assert_eq!(exit_code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("--local needs an object store"), "{}", stderr(&output));
}

#[cfg(not(feature = "cloud"))]
#[test]
fn a_build_without_the_feature_explains_object_stores() {
    let folder = TempFolder::new("not-built").with_file("s.toml", SMALL);
    for command in
        [&["run", "s.toml", "-o", "s3://b/p"][..], &["status", "s3://b/p"], &["merge", "out", "s3://b/p"]]
    {
        let output = folder.run(command);
        assert_eq!(exit_code(&output), 5, "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("--features cloud"), "{}", stderr(&output));
    }
}

#[cfg(feature = "cloud")]
#[test]
fn an_object_store_needs_credentials_and_encryption() {
    let folder = TempFolder::new("credentials").with_file("s.toml", SMALL);
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(POSEIDON);
        let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"];
        keys.iter().for_each(|key| {
            command.env_remove(key);
        });
        command.args(["status", "s3://b/p"]).envs(variables.iter().copied()).current_dir(&folder.0);
        let output = command.output().expect("the command starts");
        assert_eq!(exit_code(&output), 2, "{}", stderr(&output));
        stderr(&output)
    };
    assert!(run(&[]).contains("AWS_ACCESS_KEY_ID is not set"));
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let text = run(&[keys[0], keys[1], ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]);
    assert!(text.contains("AWS_ALLOW_HTTP=true"), "{text}");
}
