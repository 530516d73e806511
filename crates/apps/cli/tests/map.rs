//! Tests `poseidon run --map`: its files, the choice of the cell, and the link in the report.

mod common;

use common::{TempFolder, exit_code, json, stderr, stdout};

/// Two senders share a link to one receiver.
const INCAST: &str = r#"title = "two to one"
source = "none"
stop = "200 us"
seeds = 2

[topology]
kind = "dumbbell"
hosts = 2
host-link = { rate = "100 Gbps", delay = "1 us" }
middle-link = { rate = "100 Gbps", delay = "1 us" }

[[traffic]]
name = "pair"
kind = "long-flows"
from = "rack0.host[0-1]"
to = "rack1.host0"

[sweep]
law = ["poseidon", "swift"]
"#;

fn maps(folder: &TempFolder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.0.join("results/incast")).expect("the study has a folder");
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut maps: Vec<String> = names.filter(|name| name.starts_with("map-")).collect();
    maps.sort();
    maps
}

#[test]
fn each_cell_has_a_map_that_the_report_links_to() {
    let folder = TempFolder::new("map").with_file("incast.toml", INCAST);
    let output = folder.run_ok(&["run", "incast.toml", "--map", "--quiet"]);
    assert_eq!(maps(&folder), ["map-law-poseidon.html", "map-law-swift.html"]);
    let text = stdout(&output);
    assert!(text.contains("map results/incast/map-law-swift.html"), "{text}");
    let page = folder.read("results/incast/map-law-swift.html");
    assert!(page.contains("<title>Map of incast, law swift</title>"), "{}", &page[..600]);
    let report = folder.read("results/incast/report.html");
    assert!(report.contains("href=\"map-law-swift.html\""));
    // The same command writes the same page.
    folder.run_ok(&["run", "incast.toml", "--map", "--quiet"]);
    assert!(folder.read("results/incast/map-law-swift.html") == page, "the page differs");
}

#[test]
fn a_cell_and_a_seed_can_be_chosen() {
    let folder = TempFolder::new("map-cell").with_file("incast.toml", INCAST);
    let chosen = ["run", "incast.toml", "--map", "--cell", "law swift", "--seed", "2", "--json"];
    let output = folder.run_ok(&chosen);
    assert_eq!(maps(&folder), ["map-law-swift-seed2.html"]);
    assert!(json(&output).is_object() || json(&output).is_array(), "the file is named on standard error");
    assert!(stderr(&output).contains("map-law-swift-seed2.html"));

    let output = folder.run(&["run", "incast.toml", "--map", "--cell", "law cubic"]);
    assert_eq!(exit_code(&output), 2);
    assert!(stderr(&output).contains("law poseidon; law swift"), "{}", stderr(&output));
}

#[test]
fn a_network_that_is_too_large_is_refused_with_the_reason() {
    let text = r#"title = "a long chain"
source = "none"
stop = "10 us"
law = "poseidon"
[topology]
kind = "chain"
switches = 9000
hosts = 1
host-link = { rate = "100 Gbps", delay = "1 us" }
middle-link = { rate = "100 Gbps", delay = "1 us" }
[[traffic]]
name = "pair"
kind = "long-flows"
from = "host0"
to = "host1"
"#;
    let folder = TempFolder::new("map-large").with_file("chain.toml", text);
    let output = folder.run(&["run", "chain.toml", "--map", "--quiet"]);
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains("8,999 links, and a map shows at most 4,000"), "{}", stderr(&output));
}
