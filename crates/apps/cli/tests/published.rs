//! Tests published results: provenance, stale studies and reproducible numbers.

#[path = "../src/code_hash.rs"]
mod code_hash;

use code_hash::{CODE, LINUX_CODE, LOCK};
use poseidon_lab::report::MAX_PAGE_BYTES;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A test's temporary folder.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("poseidon-published-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    /// Creates a repository with this program's code and one scenario.
    fn with_code(test: &str) -> Self {
        let folder = Self::new(test);
        for path in CODE.iter().chain([&LOCK]) {
            copy(&repository().join(path), &folder.0.join(path));
        }
        folder.write("scenarios/paper/fig1.toml", TINY);
        folder.git(&["init", "--quiet"]);
        folder.commit();
        folder
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("the file is in a folder"))
            .expect("the temporary folder is writable");
        fs::write(path, text).expect("the temporary folder is writable");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn git(&self, args: &[&str]) -> String {
        let config =
            ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
        let output =
            Command::new("git").args(config).args(args).current_dir(&self.0).output().expect("git starts");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self) {
        self.git(&["add", "--all", "--force", "crates", "scenarios", LOCK]);
        self.git(&["commit", "--quiet", "--message", "test"]);
    }

    fn poseidon(&self, args: &[&str]) -> Output {
        Command::new(POSEIDON).args(args).current_dir(&self.0).output().expect("the command starts")
    }

    /// Runs and publishes the scenario.
    fn publish(&self) {
        self.succeed(&["run", "scenarios/paper/fig1.toml", "-o", "out", "--records", "none"]);
        self.succeed(&["report", "out", "--publish", "public"]);
    }

    /// Runs a command that must succeed, and returns its stdout.
    fn succeed(&self, args: &[&str]) -> String {
        let output = self.poseidon(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Runs a command that must fail with this exit code, and returns its output.
    fn fail(&self, args: &[&str], code: i32) -> String {
        let output = self.poseidon(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {} {}", stdout(&output), stderr(&output));
        format!("{}{}", stdout(&output), stderr(&output))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Copies a file or a folder.
fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().expect("the file is in a folder"))
            .expect("the temporary folder is writable");
        fs::copy(from, to).expect("the file can be copied");
    }
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Returns the content of every file below a folder, by relative path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).expect("the folder exists").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("the file is in the folder").to_owned();
                files.insert(name, fs::read(&path).expect("the file is readable"));
            }
        }
    }
    files
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
above = 50.0
paper = "none"

[[figure]]
title = "Rates"
kind = "bars"
metric = "flows.rate_gbps"
along = "law"
y = "Gbps"

[[figure]]
title = "Rates over time"
kind = "series"
metric = "flows[*].rate_gbps"
by = "law"
x = "us"
y = "Gbps"
"#;

/// Returns the committed folder of published results.
fn results_folder() -> PathBuf {
    repository().join("docs/results")
}

/// Regenerates the table in a copy. The committed table must mark exactly those studies whose scenario or plans have
/// changed. For studies with real packets, only the text is compared.
#[test]
fn the_committed_table_marks_exactly_the_stale_studies() {
    let folder = TempFolder::new("table");
    copy(&results_folder(), &folder.0.join("results"));
    let output = folder.poseidon(&["report", "results"]);
    // A published gating claim may fail. That is a result, not an error.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    let generated = files(&folder.0.join("results"));
    let committed = committed_files();
    for (name, bytes) in &committed {
        let is_same = generated.get(name).is_some_and(|generated| generated == bytes);
        assert!(is_same, "docs/results/{} is outdated; run `poseidon report docs/results`", name.display());
    }
    // The only additional files are the pages.
    let pages: Vec<&PathBuf> = generated.keys().filter(|name| !committed.contains_key(*name)).collect();
    assert!(pages.contains(&&PathBuf::from("report.html")), "{pages:?}");
    for page in &pages {
        assert!(is_page(page), "{}", page.display());
        let bytes = generated[*page].len();
        assert!(bytes <= MAX_PAGE_BYTES, "{} has {bytes} bytes", page.display());
    }
    // The whole report is too large for one page.
    assert!(pages.contains(&&PathBuf::from("report-poseidon.html")), "{pages:?}");
}

/// Returns whether a file is a page of the report.
fn is_page(file: &Path) -> bool {
    let name = file.to_string_lossy();
    name.starts_with("report") && name.ends_with(".html")
}

/// Returns the committed files of the folder. The pages are not committed.
fn committed_files() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = files(&results_folder());
    files.retain(|file, _| !is_page(file));
    files
}

#[test]
fn published_results_are_small() {
    let bytes: usize = committed_files().values().map(Vec::len).sum();
    assert!(bytes <= 5_000_000, "docs/results has {bytes} bytes; a clone should not carry more than 5 MB");
}

/// Papers that the book cites but that are not published yet.
const UNPUBLISHED: [&str; 1] = ["rpm-choices"];

#[test]
fn numbers_in_the_book_come_from_published_studies() {
    let published: Vec<String> = committed_files()
        .keys()
        .filter(|file| file.ends_with("verdicts.json"))
        .filter_map(|file| Some(file.parent()?.to_string_lossy().into_owned()))
        .collect();
    let is_published = |paper: &str| published.iter().any(|study| study.starts_with(&format!("{paper}/")));
    let scenarios = repository().join("scenarios");
    let known: Vec<String> = files(&scenarios)
        .keys()
        .filter(|file| file.extension().is_some_and(|extension| extension == "toml"))
        .map(|file| file.with_extension("").to_string_lossy().into_owned())
        .collect();
    let pages = ["docs", "docs/papers"]
        .map(|folder| fs::read_dir(repository().join(folder)).expect("the book has the folder"));
    for page in pages.into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(page.path()) else { continue };
        let page = page.file_name().to_string_lossy().into_owned();
        for citation in text.split("poseidon repro ").skip(1) {
            let paper =
                citation.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default();
            if scenarios.join(paper).is_dir() && !paper.is_empty() {
                let is_missing = !is_published(paper) && !UNPUBLISHED.contains(&paper);
                assert!(!is_missing, "{page} cites {paper}, which is not published");
            }
        }
        // The record of the long checks also lists parts that have not run. Such a row cites no number.
        let words = text
            .lines()
            .filter(|line| !line.contains("| not run yet |"))
            .flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && !"-/".contains(c)));
        for study in words.filter(|word| known.iter().any(|name| name == word && name.contains('/'))) {
            let paper = study.split('/').next().unwrap_or_default();
            let is_known = published.iter().any(|name| name == study) || UNPUBLISHED.contains(&paper);
            assert!(is_known, "{page} cites {study}, which is not published");
        }
    }
    for paper in UNPUBLISHED {
        assert!(!is_published(paper), "{paper} is published; remove it from the list");
    }
}

#[test]
fn the_code_hash_depends_on_the_code_but_not_on_its_location() {
    let folder = TempFolder::new("code");
    for path in CODE.iter().chain(LINUX_CODE).chain([&LOCK]) {
        copy(&repository().join(path), &folder.0.join(path));
    }
    for paths in [CODE, LINUX_CODE] {
        let hash = || code_hash::code_hash(&folder.0, paths).expect("the code is readable");
        let before = hash();
        let original = code_hash::code_hash(&repository(), paths).expect("the code is readable");
        assert_eq!(before, original);
        let file = folder.0.join(paths[0]).join("lib.rs");
        let code = fs::read_to_string(&file).expect("the code is readable");
        fs::write(&file, code + "// more\n").expect("the temporary folder is writable");
        assert_ne!(hash(), before);
    }
}

#[test]
fn a_published_study_records_its_hashes_and_its_commit() {
    let folder = TempFolder::with_code("records");
    folder.publish();
    let study: Value =
        serde_json::from_str(&folder.read("public/paper/fig1/verdicts.json")).expect("the output is JSON");
    let provenance = &study["provenance"];
    assert_eq!(provenance["commit"], folder.git(&["rev-parse", "HEAD"]));
    assert_eq!(provenance["plans"]["count"], 4);
    assert_eq!(
        provenance["code_hash"],
        code_hash::code_hash(&repository(), CODE).expect("the code is readable")
    );
    for hash in ["scenario_hash", "code_hash"] {
        assert_eq!(provenance[hash].as_str().map(str::len), Some(16), "{provenance}");
    }
    assert!(provenance["tool"].as_str().is_some_and(|tool| tool.contains("rustc ")), "{provenance}");
    // The page is generated from published files, without runs.
    let table = folder.read("public/README.md");
    assert!(table.contains("| [fig1](paper/fig1/) | 2 seeds |"), "{table}");
    assert!(!folder.0.join("public/paper/fig1/runs").exists());
    let page = folder.read("public/report.html");
    assert_eq!(page.matches("<svg").count(), 2, "the page has both figures");
    fs::remove_dir_all(folder.0.join("out")).expect("the folder exists");
    folder.succeed(&["report", "public"]);
    assert_eq!((folder.read("public/README.md"), folder.read("public/report.html")), (table, page));
    assert!(folder.read("public/paper/fig1/summary.csv").starts_with("cell,phase,name,mean,half,seeds\n"));
    assert!(folder.read("public/paper/fig1/seeds.csv").contains("flows.total_gbps,1:"));
}

#[test]
fn results_without_a_commit_are_rejected() {
    let folder = TempFolder::with_code("rejected");
    folder.succeed(&["run", "scenarios/paper/fig1.toml", "-o", "out", "--records", "none"]);
    let publish = ["report", "out", "--publish", "public"];
    let scenario = "scenarios/paper/fig1.toml";
    folder.write(scenario, &format!("{TINY}# more\n"));
    assert!(folder.fail(&publish, 1).contains("not the scenario that was run"));
    folder.write(scenario, TINY);
    let law = "crates/core/laws/src/lib.rs";
    let code = folder.read(law);
    folder.write(law, &format!("{code}// more\n"));
    assert!(folder.fail(&publish, 1).contains("this program was built from"));
    folder.write(law, &code);
    folder.git(&["rm", "--quiet", "--cached", law]);
    assert!(folder.fail(&publish, 1).contains("not committed"));
    folder.git(&["reset", "--quiet"]);
    let manifests = files(&folder.0.join("out"));
    let manifest = manifests.keys().find(|file| file.ends_with("manifest.json")).expect("there is a run");
    let hash = code_hash::code_hash(&repository(), CODE).expect("the code is readable");
    let path = format!("out/{}", manifest.display());
    let text = folder.read(&path);
    folder.write(&path, &text.replace(&format!("\"code_hash\": \"{hash}\""), "\"code_hash\": \"0\""));
    assert!(folder.fail(&publish, 1).contains("not by this program"));
    folder.write(&path, &text);
    folder.succeed(&publish);
}

#[test]
fn a_changed_scenario_or_plan_makes_a_study_stale() {
    let folder = TempFolder::with_code("stale");
    folder.publish();
    let is_marked = || {
        folder.succeed(&["report", "public"]);
        folder.read("public/README.md").contains("[fig1](paper/fig1/) (older than its scenario)")
    };
    assert!(!is_marked());
    folder.write("scenarios/paper/fig1.toml", &format!("{TINY}# more\n"));
    assert!(is_marked(), "the text has changed");
    folder.write("scenarios/paper/fig1.toml", TINY);
    assert!(!is_marked());
    // The text is the same, but the plans differ, as if a default had changed.
    let verdicts = folder.read("public/paper/fig1/verdicts.json");
    let study: Value = serde_json::from_str(&verdicts).expect("the output is JSON");
    let plans = study["provenance"]["plans"]["hash"].as_str().expect("the study has a hash");
    folder.write("public/paper/fig1/verdicts.json", &verdicts.replace(plans, "0123456789abcdef"));
    assert!(is_marked(), "a plan has changed");
    let output = folder.fail(&["verify", "scenarios/paper/fig1.toml", "--results", "public"], 1);
    assert!(
        output.contains("older than its scenario: the hash of its plans was 0123456789abcdef"),
        "{output}"
    );
}

#[test]
fn verify_compares_every_number() {
    let folder = TempFolder::with_code("verify");
    let verify = ["verify", "scenarios/paper/fig1.toml", "--results", "public", "-o", "again", "--jobs", "2"];
    assert!(folder.fail(&verify, 1).contains("is not published"));
    folder.publish();
    let output = folder.succeed(&verify);
    let rows = folder.read("public/paper/fig1/summary.csv").lines().count() - 1;
    assert!(output.contains(&format!("{rows} numbers compared, 0 differ")), "{output}");
    let table = folder.read("public/paper/fig1/summary.csv");
    let row = table.lines().find(|line| line.contains("flows.total_gbps")).expect("the metric is published");
    let mut fields: Vec<&str> = row.rsplitn(4, ',').collect();
    fields[2] = "12.5";
    fields.reverse();
    folder.write("public/paper/fig1/summary.csv", &table.replacen(row, &fields.join(","), 1));
    let output = folder.fail(&verify, 1);
    assert!(
        output.contains("compared, 1 differ") && output.contains("flows.total_gbps: published 12.5"),
        "{output}"
    );
    let json = folder.poseidon(&[&verify[..], &["--json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).expect("the output is JSON");
    assert_eq!((&json["compared"], &json["differ"]), (&Value::from(rows), &Value::from(1)));
    assert_eq!(json["first"][0]["name"], "flows.total_gbps");
}

#[test]
fn a_changed_claim_is_judged_by_published_numbers() {
    let folder = TempFolder::with_code("judge");
    folder.publish();
    assert!(folder.read("public/README.md").contains("| above 50 | "));
    folder.write("scenarios/paper/fig1.toml", &TINY.replace("above = 50.0", "above = 500.0"));
    assert!(folder.fail(&["report", "public", "--judge-again"], 1).contains("not committed"));
    folder.commit();
    fs::remove_dir_all(folder.0.join("out")).expect("the folder exists");
    let output = folder.succeed(&["report", "public", "--judge-again"]);
    assert!(output.contains("paper/fig1: they fill the link: holds, now fails"), "{output}");
    assert!(output.contains("1 claims judged by the values of each seed"), "{output}");
    let table = folder.read("public/README.md");
    assert!(table.contains("| above 500 | ") && !table.contains("fig1/) (older"), "{table}");
    assert!(table.contains("judged again at commit"), "{table}");
    // A claim about a metric without published values per seed is judged by means, and the study stays stale.
    let claim = "metric = \"queue.utilisation\"\nbelow = 0.5";
    let text = TINY.replace("metric = \"flows.total_gbps\"\nabove = 50.0", claim);
    folder.write("scenarios/paper/fig1.toml", &text);
    folder.commit();
    let output = folder.succeed(&["report", "public", "--judge-again"]);
    assert!(output.contains("1 by means over seeds"), "{output}");
    assert!(folder.read("public/README.md").contains("fig1/) (older than its scenario)"));
}

#[test]
fn studies_with_the_same_runs_share_one_table() {
    let folder = TempFolder::with_code("shared");
    folder.write("scenarios/paper/fig2.toml", &TINY.replace("two flows", "the same flows"));
    folder.commit();
    folder.succeed(&["run", "scenarios/paper/fig2.toml", "-o", "out", "--records", "none"]);
    folder.publish();
    let numbers_in = |entry: &str| {
        let text = folder.read(&format!("public/paper/{entry}/verdicts.json"));
        let study: Value = serde_json::from_str(&text).expect("the output is JSON");
        study["numbers_in"].as_str().map(str::to_owned)
    };
    let has_table = |entry: &str| folder.0.join(format!("public/paper/{entry}/summary.csv")).is_file();
    assert_eq!((numbers_in("fig1"), numbers_in("fig2")), (None, Some("paper/fig1".to_owned())));
    assert_eq!((has_table("fig1"), has_table("fig2")), (true, false));
    folder.succeed(&["verify", "scenarios/paper/fig2.toml", "--results", "public", "-o", "out"]);
    // If the first study changes, the second keeps its numbers.
    folder.write("scenarios/paper/fig1.toml", &TINY.replace("0.4 ms", "0.3 ms"));
    folder.commit();
    folder.succeed(&["run", "scenarios/paper/fig1.toml", "-o", "new", "--records", "none"]);
    folder.succeed(&["report", "new", "--publish", "public"]);
    assert_eq!((numbers_in("fig1"), numbers_in("fig2")), (None, None));
    assert_eq!((has_table("fig1"), has_table("fig2")), (true, true));
}
