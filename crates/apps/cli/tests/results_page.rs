//! Runs the examples of the page on results and the query of the tutorial, with DuckDB and pandas.
//!
//! The tests need Python with `duckdb`, `pandas` and `pyarrow`, which `.ci/install` installs. Without them, they print
//! that they are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const POSEIDON: &str = env!("CARGO_BIN_EXE_poseidon");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A test's temporary folder.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("poseidon-results-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    /// Runs a program in the folder. It must succeed, and its stdout is returned.
    fn run(&self, program: &Path, args: &[&str]) -> String {
        let output =
            Command::new(program).args(args).current_dir(&self.0).output().expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{args:?}: {}\n{}", text(&output.stderr), text(&output.stdout));
        text(&output.stdout)
    }

    /// Runs a query and returns its rows as CSV, without the header.
    fn query(&self, python: &Path, sql: &str) -> Vec<String> {
        let script =
            "import sys, duckdb\nfor row in duckdb.sql(sys.argv[1]).fetchall():\n    print(*row, sep=',')";
        self.run(python, &["-c", script, sql]).lines().map(str::to_owned).collect()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a Python interpreter with the libraries, or prints that the test is skipped.
fn find_python(test: &str) -> Option<PathBuf> {
    let candidates = [repository().join("target/python/bin/python3"), PathBuf::from("python3")];
    let has_libraries = |python: &PathBuf| {
        let output = Command::new(python).args(["-c", "import duckdb, pandas, pyarrow"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let python = candidates.into_iter().find(has_libraries);
    if python.is_none() {
        eprintln!(
            "SKIPPED {test}: no Python with duckdb, pandas and pyarrow; .ci/install installs them in target/python"
        );
    }
    python
}

/// Returns the code blocks of a page in this language.
fn code_blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join("docs").join(page)).expect("the page exists");
    let mut blocks = Vec::new();
    let mut rest = text.as_str();
    let start = format!("```{language}\n");
    while let Some(at) = rest.find(&start) {
        rest = &rest[at + start.len()..];
        let end = rest.find("```").expect("every code block ends");
        blocks.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    blocks
}

/// Returns the values in one column of CSV rows.
fn column(rows: &[String], index: usize) -> Vec<&str> {
    rows.iter().map(|row| row.split(',').nth(index).unwrap_or_default()).collect()
}

#[test]
fn the_examples_of_the_page_on_results_run() {
    let Some(python) = find_python("the_examples_of_the_page_on_results_run") else { return };
    let page = "howto/results.md";
    let (scenarios, queries, scripts) =
        (code_blocks(page, "toml"), code_blocks(page, "sql"), code_blocks(page, "python"));
    assert_eq!((scenarios.len(), queries.len(), scripts.len()), (1, 3, 3));
    let folder = TempFolder::new("page");
    fs::write(folder.0.join("mix.toml"), &scenarios[0]).expect("the temporary folder is writable");
    let printed = folder.run(POSEIDON.as_ref(), &["run", "mix.toml"]);

    let latency = folder.query(&python, &queries[0]);
    assert_eq!(column(&latency, 0), ["poseidon", "poseidon", "poseidon", "swift", "swift", "swift"]);
    assert!(
        column(&latency, 3).iter().all(|value| value.parse::<f64>().is_ok_and(|p99| p99 > 1.0)),
        "{latency:?}"
    );
    // The command counts the same messages.
    let count: u64 = column(&latency, 2)[..3].iter().filter_map(|count| count.parse::<u64>().ok()).sum();
    assert!(count > 3_000, "{latency:?}");

    let queue = folder.query(&python, &queries[1]);
    assert_eq!(queue.len(), 2 * 20, "{queue:?}");
    assert!(queue[0].starts_with("law poseidon,") && queue[20].starts_with("law swift,"), "{queue:?}");

    let finish = folder.query(&python, &queries[2]);
    assert_eq!(column(&finish, 0), ["poseidon", "poseidon", "poseidon", "swift", "swift", "swift"]);
    assert_eq!(column(&finish, 1), ["1", "2", "3", "1", "2", "3"]);
    assert!(column(&finish, 2).iter().all(|messages| *messages == "15"), "{finish:?}");

    // pandas gives the same numbers.
    for (number, (script, rows)) in scripts.iter().zip([&latency, &queue, &finish]).enumerate() {
        let text = folder.run(&python, &["-c", script]);
        assert!(text.contains("poseidon") && text.contains("swift"), "{text}");
        let last = if number == 1 { 2 } else { 3 };
        for value in column(rows, last) {
            assert!(
                text.split_whitespace().any(|word| word == value),
                "{value} is not in\n{text}\n{printed}"
            );
        }
    }

    // CSV files have the same columns and rows.
    folder.run(POSEIDON.as_ref(), &["run", "mix.toml", "--records", "csv"]);
    for (query, rows) in queries.iter().zip([&latency, &queue, &finish]) {
        assert_eq!(folder.query(&python, &query.replace(".parquet", ".csv")), *rows);
    }
}

#[test]
fn the_query_of_the_tutorial_gives_a_number_per_law() {
    let Some(python) = find_python("the_query_of_the_tutorial_gives_a_number_per_law") else { return };
    let queries = code_blocks("tutorial.md", "sql");
    assert_eq!(queries.len(), 1);
    let folder = TempFolder::new("tutorial");
    folder.run(POSEIDON.as_ref(), &["run", "quickstart", "--seeds", "1", "--quiet"]);
    let rows = folder.query(&python, &queries[0]);
    let cells = ["law hpcc", "law hpcc", "law poseidon", "law poseidon", "law swift", "law swift"];
    assert_eq!(column(&rows, 0), cells);
    assert_eq!(column(&rows, 1)[..2], ["first-queue", "last-queue"]);
    assert!(column(&rows, 2).iter().all(|delay| delay.parse::<f64>().is_ok()), "{rows:?}");
}
