//! Tests `poseidon card`, and the option `--law` of other commands.

mod common;

use common::{TempFolder, exit_code, json, stderr, stdout};

/// Two flows share one port. The second claim holds for no law, and the network does not mark packets.
const TINY: &str = r#"title = "two flows"
source = "none"
about = "the number is the utilisation"
stop = "0.4 ms"
seeds = 2

[topology]
kind = "star"
hosts = 3
link = { rate = "100 Gbps", delay = "1 us" }

[laws.small]
base = "fixed"
window = "1 packets"

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-1]"
to = "host2"

[observe]
queues = { queue = "last hop of flows" }

[sweep]
law = ["swift"]
size = [1, 2]

[[claim]]
says = "the link is busy"
metric = "queue.utilisation"
above = 0.5
paper = "ours"

[[claim]]
says = "no packet is queued"
metric = "queue.utilisation"
below = 0.0
paper = "ours"
"#;

#[test]
fn a_card_grades_each_law_and_names_the_reason_for_a_missing_grade() {
    let folder = TempFolder::new("card").with_file("tiny.toml", TINY);
    let card = ["card", "tiny.toml", "--law", "swift", "--law", "small", "--law", "dctcp", "-o", "out"];
    let output = folder.run_ok(&card);
    let text = stdout(&output);
    assert!(text.contains("◐ 1.00  ✗ 0.11") && text.contains("dctcp"), "{text}");
    assert!(text.contains("results without a grade: 1"), "{text}");
    let page = folder.read("out/card.html");
    assert!(page.contains("id=\"tiny\"") && page.contains("Without a grade: dctcp. "), "{page}");
    assert!(page.contains("size 1: ") && !page.contains("law swift"), "cells are named without the law");
    let tables = folder.read("out/card.md");
    assert!(tables.starts_with("| scenario | swift | small | dctcp |\n|---|---|---|---|\n"), "{tables}");
    // The second command reuses the runs.
    let card = json(&folder.run_ok(&[&card[..], &["--json"]].concat()));
    let entries = &card["scenarios"][0]["entries"];
    let grades = [0, 1, 2].map(|index| entries[index]["grade"].as_str().expect("a law has a grade"));
    assert_eq!(grades, ["partial", "poor", "none"]);
    assert!(entries[2]["refused"].as_str().is_some_and(|reason| reason.contains("mark")), "{entries}");
}

#[test]
fn a_law_on_the_command_line_replaces_those_of_the_sweep() {
    let without_sweep = TINY.replace("law = [\"swift\"]\n", "");
    let folder =
        TempFolder::new("card-law").with_file("tiny.toml", TINY).with_file("none.toml", &without_sweep);
    let run = |file: &str, law: &str| {
        folder.run(&["run", file, "--law", law, "--json", "-q", "-o", "out", "--records", "none"])
    };
    let output = run("tiny.toml", "small");
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    let cell = &json(&output)["runs"][0]["manifest"]["cell"];
    assert!(cell.to_string().contains("small") && !cell.to_string().contains("swift"), "{cell}");
    let output = run("tiny.toml", "cubci");
    assert_eq!(exit_code(&output), 3);
    assert!(stderr(&output).contains("did you mean \"cubic\"?"), "{}", stderr(&output));
    let output = run("none.toml", "small");
    assert_eq!(exit_code(&output), 2);
    assert!(stderr(&output).contains("[sweep] law = [\"poseidon\"]"), "{}", stderr(&output));
}

#[test]
fn a_gate_takes_a_folder_of_scenarios_and_a_law() {
    let folder = TempFolder::new("card-gate");
    let gate = ["gate", "suite/datacenter", "--law", "cubic", "--quick", "--baseline", "base.json", "-q"];
    folder.run_ok(&[&gate[..], &["--bless"]].concat());
    let output = folder.run_ok(&gate);
    assert!(stdout(&output).contains("gate: pass"), "{}", stdout(&output));
    let gate = ["gate", "suite/datacenter", "--law", "swift", "--quick", "--baseline", "base.json", "-q"];
    let output = folder.run(&gate);
    assert_eq!(exit_code(&output), 3, "a baseline of another law is refused: {}", stdout(&output));
}
