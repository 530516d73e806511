//! Reads the formats with the programs that they are for: an XML schema, a JUnit reader and a Markdown renderer.
//!
//! The tests need Python with `xmlschema`, `junitparser` and `markdown-it-py`, which `.ci/install` installs. Without
//! them, they print that they are skipped.

use super::test_report::report;
use super::{render_junit, render_markdown};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a script with a text as its standard input, and returns what it prints. Returns `None` if Python or one of the
/// libraries is not installed.
fn run_python(test: &str, libraries: &str, script: &str, input: &str) -> Option<serde_json::Value> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let candidates = [repository.join("target/python/bin/python3"), "python3".into()];
    let has_libraries = |python: &&std::path::PathBuf| {
        let output = Command::new(python).args(["-c", &format!("import {libraries}")]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(python) = candidates.iter().find(has_libraries) else {
        eprintln!("SKIPPED {test}: no Python with {libraries}; .ci/install installs them in target/python");
        return None;
    };
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/junit.xsd");
    let mut child = Command::new(python)
        .args(["-c", script])
        .arg(schema)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(input.as_bytes()).expect("Python reads its input");
    drop(stdin);
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "the script fails");
    Some(serde_json::from_slice(&output.stdout).expect("the script prints JSON"))
}

#[test]
fn junit_is_valid_and_its_reader_finds_the_verdicts() {
    const SCRIPT: &str = r#"
import json, sys, xmlschema, junitparser
text = sys.stdin.buffer.read()
xmlschema.XMLSchema(sys.argv[1]).validate(text.decode())
suites = junitparser.JUnitXml.fromstring(text)
json.dump([[s.name, s.tests, s.failures, s.skipped, [[c.name, [type(r).__name__ for r in c.result]] for c in s]] for s in suites], sys.stdout)
"#;
    let test = "junit_is_valid_and_its_reader_finds_the_verdicts";
    let xml = render_junit(&report());
    let Some(suites) = run_python(test, "xmlschema, junitparser", SCRIPT, &xml) else { return };
    assert_eq!(suites[0][0], "tiny");
    assert_eq!((&suites[0][1], &suites[0][2], &suites[0][3]), (&3.into(), &1.into(), &0.into()), "{suites}");
    assert_eq!(suites[0][4][1], serde_json::json!(["flows.total_gbps [law swift]", ["Failure"]]));
    assert_eq!(suites[1][4][0][1], serde_json::json!(["Skipped"]));
    // Characters that XML forbids are replaced, and everything else survives.
    let name = suites[1][0].as_str().expect("a suite has a name");
    assert_eq!(name, super::test_report::HOSTILE.replace(['\0', '\u{1b}', '\u{ffff}'], "\u{fffd}"));
}

#[test]
fn the_summary_renders_as_one_table_without_foreign_markup() {
    const SCRIPT: &str = r#"
import json, sys
from markdown_it import MarkdownIt
tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(sys.stdin.read())
rows, cells, kinds = [], None, set()
for token in tokens:
    if token.type == "tr_open": cells = []
    if token.type == "tr_close": rows.append(cells); cells = None
    if token.type == "inline":
        kinds.update(child.type for child in token.children)
        if cells is not None: cells.append("".join(child.content for child in token.children))
json.dump({"rows": rows, "kinds": sorted(kinds), "tables": sum(t.type == "table_open" for t in tokens)}, sys.stdout)
"#;
    let test = "the_summary_renders_as_one_table_without_foreign_markup";
    let text = render_markdown(&report());
    let Some(page) = run_python(test, "markdown_it", SCRIPT, &text) else { return };
    assert_eq!(page["tables"], 1);
    let rows = page["rows"].as_array().expect("there are rows");
    assert_eq!(rows.len(), 5, "{page}");
    assert!(rows.iter().all(|row| row.as_array().is_some_and(|cells| cells.len() == 9)), "{page}");
    assert_eq!(rows[1][2], "flows.total_gbps [law swift]");
    let hostile = super::single_line(super::test_report::HOSTILE);
    assert_eq!(rows[2][1], hostile, "a name appears as it is");
    for kind in page["kinds"].as_array().expect("there are kinds") {
        assert!(["text", "text_special", "softbreak"].contains(&kind.as_str().unwrap_or_default()), "{page}");
    }
}
