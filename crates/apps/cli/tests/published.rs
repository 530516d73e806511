//! Published results: they say where they come from, the table says which of them are older than their scenario, and a rerun gives the
//! same numbers.

#[path = "../src/code_hash.rs"]
mod code_hash;

use code_hash::{CODE, LINUX_CODE, LOCK};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A folder of a test's own, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("poseidon-published-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    /// A repository with the code of this program and one scenario.
    fn with_code(test: &str) -> Self {
        let folder = Self::new(test);
        for place in CODE.iter().chain([&LOCK]) {
            copy(&repository().join(place), &folder.0.join(place));
        }
        folder.write("scenarios/paper/fig1.toml", TINY);
        folder.git(&["init", "--quiet"]);
        folder.commit();
        folder
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder of the test");
        fs::write(path, text).expect("a file of the test");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn git(&self, args: &[&str]) -> String {
        let me = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(me).args(args).current_dir(&self.0).output().expect("git");
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self) {
        self.git(&["add", "--all", "--force", "crates", "scenarios", LOCK]);
        self.git(&["commit", "--quiet", "--message", "test"]);
    }

    fn poseidon(&self, args: &[&str]) -> Output {
        Command::new(POSEIDON).args(args).current_dir(&self.0).output().expect("the command")
    }

    /// Runs and publishes the scenario.
    fn publish(&self) {
        self.succeed(&["run", "scenarios/paper/fig1.toml", "-o", "out", "--records", "none"]);
        self.succeed(&["report", "out", "--publish", "public"]);
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.poseidon(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// What is said where a command fails with this code.
    fn fail(&self, args: &[&str], code: i32) -> String {
        let output = self.poseidon(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {} {}", stdout(&output), stderr(&output));
        format!("{}{}", stdout(&output), stderr(&output))
    }
}

impl Drop for Folder {
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

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().expect("a file is in a folder")).expect("a folder of the test");
        fs::copy(from, to).expect("a file can be copied");
    }
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Every file of a folder by its path in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).expect("a folder").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it was found there").to_owned();
                all.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    all
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

/// The folder that is published with the source.
fn results() -> PathBuf {
    repository().join("docs/results")
}

/// Makes the table anew, in a copy: a study whose scenario or plans have changed must be marked in the table that is committed, and no other.
/// Plans of studies on real packets are not compared, only their text.
#[test]
fn the_committed_table_marks_exactly_the_studies_that_are_older_than_their_scenario() {
    let folder = Folder::new("table");
    copy(&results(), &folder.0.join("results"));
    let output = folder.poseidon(&["report", "results"]);
    // A published gate may fail: that is a result.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    let made = files(&folder.0.join("results"));
    let committed = committed();
    for (name, bytes) in &committed {
        let is_same = made.get(name).is_some_and(|made| made == bytes);
        assert!(is_same, "docs/results/{} is old; run `poseidon report docs/results`", name.display());
    }
    // The page is the only other file.
    assert_eq!(made.len(), committed.len() + 1);
}

/// The files of the folder that are committed: the page is not.
fn committed() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = files(&results());
    all.remove(Path::new("report.html"));
    all
}

#[test]
fn published_results_are_small() {
    let bytes: usize = committed().values().map(Vec::len).sum();
    assert!(bytes <= 4_000_000, "docs/results has {bytes} bytes; a clone should not carry more than 4 MB");
}

/// Studies that the book quotes and that are not published yet.
const NOT_YET: [&str; 1] = ["rpm-choices"];

#[test]
fn numbers_in_the_book_come_from_published_studies() {
    let published: Vec<String> = committed()
        .keys()
        .filter(|file| file.ends_with("verdicts.json"))
        .filter_map(|file| Some(file.parent()?.to_string_lossy().into_owned()))
        .collect();
    let is_published = |paper: &str| published.iter().any(|study| study.starts_with(&format!("{paper}/")));
    let scenarios = repository().join("scenarios");
    let known: Vec<String> = files(&scenarios)
        .keys()
        .filter(|file| file.extension().is_some_and(|ending| ending == "toml"))
        .map(|file| file.with_extension("").to_string_lossy().into_owned())
        .collect();
    for page in fs::read_dir(repository().join("docs")).expect("the book").flatten() {
        let Ok(text) = fs::read_to_string(page.path()) else { continue };
        let page = page.file_name().to_string_lossy().into_owned();
        for quoted in text.split("poseidon repro ").skip(1) {
            let paper =
                quoted.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default();
            if scenarios.join(paper).is_dir() && !paper.is_empty() {
                let is_missing = !is_published(paper) && !NOT_YET.contains(&paper);
                assert!(!is_missing, "{page} quotes {paper}, which is not published");
            }
        }
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-/".contains(c));
        for study in words.filter(|word| known.iter().any(|name| name == word && name.contains('/'))) {
            let paper = study.split('/').next().unwrap_or_default();
            let is_there = published.iter().any(|name| name == study) || NOT_YET.contains(&paper);
            assert!(is_there, "{page} quotes {study}, which is not published");
        }
    }
    for paper in NOT_YET {
        assert!(!is_published(paper), "{paper} is published: take it off the list");
    }
}

#[test]
fn the_same_code_has_the_same_hash_wherever_it_is() {
    let folder = Folder::new("code");
    for place in CODE.iter().chain(LINUX_CODE).chain([&LOCK]) {
        copy(&repository().join(place), &folder.0.join(place));
    }
    for places in [CODE, LINUX_CODE] {
        let hash = || code_hash::code_hash(&folder.0, places).expect("the code is there");
        let before = hash();
        assert_eq!(Ok(&before), code_hash::code_hash(&repository(), places).as_ref());
        let file = folder.0.join(places[0]).join("lib.rs");
        fs::write(&file, fs::read_to_string(&file).expect("code") + "// more\n").expect("code");
        assert_ne!(hash(), before);
    }
}

#[test]
fn a_published_study_records_its_hashes_and_the_commit() {
    let folder = Folder::with_code("records");
    folder.publish();
    let study: Value = serde_json::from_str(&folder.read("public/paper/fig1/verdicts.json")).expect("JSON");
    let from = &study["provenance"];
    assert_eq!(from["commit"], folder.git(&["rev-parse", "HEAD"]));
    assert_eq!(from["plans"]["count"], 4);
    assert_eq!(from["code_hash"], code_hash::code_hash(&repository(), CODE).expect("code"));
    for hash in ["scenario_hash", "code_hash"] {
        assert_eq!(from[hash].as_str().map(str::len), Some(16), "{from}");
    }
    assert!(from["tool"].as_str().is_some_and(|tool| tool.contains("rustc ")), "{from}");
    // The page comes back from what is published, without runs.
    let table = folder.read("public/README.md");
    assert!(table.contains("| [fig1](paper/fig1/) | 2 seeds |"), "{table}");
    assert!(!folder.0.join("public/paper/fig1/runs").exists());
    let page = folder.read("public/report.html");
    assert_eq!(page.matches("<svg").count(), 2, "figures are drawn from stored charts");
    fs::remove_dir_all(folder.0.join("out")).expect("it was made");
    folder.succeed(&["report", "public"]);
    assert_eq!((folder.read("public/README.md"), folder.read("public/report.html")), (table, page));
    assert!(folder.read("public/paper/fig1/summary.csv").starts_with("cell,phase,name,mean,half,seeds\n"));
    assert!(folder.read("public/paper/fig1/seeds.csv").contains("flows.total_gbps,1:"));
}

#[test]
fn results_without_a_commit_are_not_published() {
    let folder = Folder::with_code("refused");
    folder.succeed(&["run", "scenarios/paper/fig1.toml", "-o", "out", "--records", "none"]);
    let publish = ["report", "out", "--publish", "public"];
    let scenario = "scenarios/paper/fig1.toml";
    folder.write(scenario, &format!("{TINY}# more\n"));
    assert!(folder.fail(&publish, 1).contains("not what was run"));
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
    let manifest = manifests.keys().find(|file| file.ends_with("manifest.json")).expect("runs");
    let own = code_hash::code_hash(&repository(), CODE).expect("code");
    let path = format!("out/{}", manifest.display());
    let text = folder.read(&path);
    folder.write(&path, &text.replace(&format!("\"code_hash\": \"{own}\""), "\"code_hash\": \"0\""));
    assert!(folder.fail(&publish, 1).contains("not by this program"));
    folder.write(&path, &text);
    folder.succeed(&publish);
}

#[test]
fn a_changed_scenario_or_plan_makes_a_study_stale() {
    let folder = Folder::with_code("stale");
    folder.publish();
    let marks = || {
        folder.succeed(&["report", "public"]);
        folder.read("public/README.md").contains("[fig1](paper/fig1/) (older than its scenario)")
    };
    assert!(!marks());
    folder.write("scenarios/paper/fig1.toml", &format!("{TINY}# more\n"));
    assert!(marks(), "its text has changed");
    folder.write("scenarios/paper/fig1.toml", TINY);
    assert!(!marks());
    // The same text and other plans, as after a change of what a default means.
    let verdicts = folder.read("public/paper/fig1/verdicts.json");
    let study: Value = serde_json::from_str(&verdicts).expect("JSON");
    let plans = study["provenance"]["plans"]["hash"].as_str().expect("a hash");
    folder.write("public/paper/fig1/verdicts.json", &verdicts.replace(plans, "0123456789abcdef"));
    assert!(marks(), "a plan has changed");
    let said = folder.fail(&["verify", "scenarios/paper/fig1.toml", "--results", "public"], 1);
    assert!(said.contains("older than its scenario: the hash of its plans was 0123456789abcdef"), "{said}");
}

#[test]
fn a_rerun_is_compared_number_by_number() {
    let folder = Folder::with_code("verify");
    let verify = ["verify", "scenarios/paper/fig1.toml", "--results", "public", "-o", "again", "--jobs", "2"];
    assert!(folder.fail(&verify, 1).contains("is not published"));
    folder.publish();
    let said = folder.succeed(&verify);
    let rows = folder.read("public/paper/fig1/summary.csv").lines().count() - 1;
    assert!(said.contains(&format!("{rows} numbers compared, 0 differ")), "{said}");
    let table = folder.read("public/paper/fig1/summary.csv");
    let row = table.lines().find(|line| line.contains("flows.total_gbps")).expect("it is measured");
    let mut fields: Vec<&str> = row.rsplitn(4, ',').collect();
    fields[2] = "12.5";
    fields.reverse();
    folder.write("public/paper/fig1/summary.csv", &table.replacen(row, &fields.join(","), 1));
    let said = folder.fail(&verify, 1);
    assert!(
        said.contains("compared, 1 differ") && said.contains("flows.total_gbps: published 12.5"),
        "{said}"
    );
    let json = folder.poseidon(&[&verify[..], &["--json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&json["compared"], &json["differ"]), (&Value::from(rows), &Value::from(1)));
    assert_eq!(json["first"][0]["name"], "flows.total_gbps");
}

#[test]
fn a_changed_claim_is_judged_by_published_numbers() {
    let folder = Folder::with_code("judge");
    folder.publish();
    assert!(folder.read("public/README.md").contains("| above 50 | "));
    folder.write("scenarios/paper/fig1.toml", &TINY.replace("above = 50.0", "above = 500.0"));
    assert!(folder.fail(&["report", "public", "--judge-again"], 1).contains("not committed"));
    folder.commit();
    fs::remove_dir_all(folder.0.join("out")).expect("it was made");
    let said = folder.succeed(&["report", "public", "--judge-again"]);
    assert!(said.contains("paper/fig1: they fill the link: holds, now fails"), "{said}");
    assert!(said.contains("1 claims judged by the values of each seed"), "{said}");
    let table = folder.read("public/README.md");
    assert!(table.contains("| above 500 | ") && !table.contains("fig1/) (older"), "{table}");
    assert!(table.contains("judged again at commit"), "{table}");
    // A claim about a number that is not kept seed by seed is judged by means, and the study stays older than its scenario.
    let claim = "metric = \"queue.utilisation\"\nbelow = 0.5";
    let text = TINY.replace("metric = \"flows.total_gbps\"\nabove = 50.0", claim);
    folder.write("scenarios/paper/fig1.toml", &text);
    folder.commit();
    let said = folder.succeed(&["report", "public", "--judge-again"]);
    assert!(said.contains("1 by means over seeds"), "{said}");
    assert!(folder.read("public/README.md").contains("fig1/) (older than its scenario)"));
}

#[test]
fn studies_that_share_their_runs_share_their_table() {
    let folder = Folder::with_code("shared");
    folder.write("scenarios/paper/fig2.toml", &TINY.replace("two flows", "the same flows"));
    folder.commit();
    folder.succeed(&["run", "scenarios/paper/fig2.toml", "-o", "out", "--records", "none"]);
    folder.publish();
    let numbers_in = |entry: &str| {
        let text = folder.read(&format!("public/paper/{entry}/verdicts.json"));
        let study: Value = serde_json::from_str(&text).expect("JSON");
        study["numbers_in"].as_str().map(str::to_owned)
    };
    let has_table = |entry: &str| folder.0.join(format!("public/paper/{entry}/summary.csv")).is_file();
    assert_eq!((numbers_in("fig1"), numbers_in("fig2")), (None, Some("paper/fig1".to_owned())));
    assert_eq!((has_table("fig1"), has_table("fig2")), (true, false));
    folder.succeed(&["verify", "scenarios/paper/fig2.toml", "--results", "public", "-o", "out"]);
    // Where the first changes, the second keeps its numbers.
    folder.write("scenarios/paper/fig1.toml", &TINY.replace("0.4 ms", "0.3 ms"));
    folder.commit();
    folder.succeed(&["run", "scenarios/paper/fig1.toml", "-o", "new", "--records", "none"]);
    folder.succeed(&["report", "new", "--publish", "public"]);
    assert_eq!((numbers_in("fig1"), numbers_in("fig2")), (None, None));
    assert_eq!((has_table("fig1"), has_table("fig2")), (true, true));
}
