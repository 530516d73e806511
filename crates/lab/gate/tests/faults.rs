//! The gate on real simulations: nothing fails without a change, and seeded faults fail where they act.

mod common;

use common::{TestLab, gate, mutant, study};
use poseidon_gate::baseline::Baseline;
use poseidon_gate::decision::{Method, Verdict};
use poseidon_gate::formats::render_text;
use poseidon_gate::gate::{GateOptions, RunOrder};
use poseidon_gate::looks::{DEFAULT_ALPHA, DEFAULT_LOOKS, Looks};
use poseidon_gate::report::GateReport;
use poseidon_gate::rule::Rule;
use poseidon_gate::side::{Request, Side, StoredSide};
use poseidon_lab::study::Study;

/// Four Swift flows that share a link.
const SWIFT: &str = r#"title = "four Swift flows"
source = "none"
stop = "2 ms"
law = "swift"

[laws.swift]
base = "swift"
base-target = "25 us"

[topology]
kind = "star"
hosts = 5
link = { rate = "100 Gbps", delay = "1 us" }

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-3]"
to = "host4"
spread = "50 us"

[observe.queues]
queue = "last hop of flows"
"#;

/// Two CUBIC flows that fill the buffer of a slow link.
const CUBIC: &str = r#"title = "two CUBIC flows"
source = "none"
stop = "6 s"
law = "cubic"

[laws.cubic]
base = "cubic"
beta = 0.7

[topology]
kind = "star"
hosts = 3
link = { rate = "50 Mbps", delay = "2.5 ms" }

[switch]
buffer = { policy = "per-queue", size = "60 kB" }

[transport]
mtu = "1448 B"
header = "52 B"
min-rto = "200 ms"
first-rto = "1 s"

[[traffic]]
name = "flows"
kind = "long-flows"
from = "host[0-1]"
to = "host2"
spread = "20 ms"

[observe]
sample = "1 ms"
bin = "50 ms"

[observe.queues]
queue = "last hop of flows"
"#;

fn looks(first_seed: u64) -> Looks {
    Looks::new(DEFAULT_LOOKS.to_vec(), DEFAULT_ALPHA, first_seed).expect("the looks are valid")
}

fn options(rules: &[&str]) -> GateOptions {
    let parse = |text: &&str| Rule::parse(text).expect("the rule is valid");
    let (looks, order) = (looks(1), RunOrder::Blocks);
    match rules {
        [] => GateOptions { rules: Rule::defaults(None), has_explicit_rules: false, looks, order },
        rules => {
            let rules = rules.iter().map(parse).collect();
            GateOptions { rules, has_explicit_rules: true, looks, order }
        }
    }
}

/// Compares two studies with paired seeds.
fn compare(name: &str, base: &[Study], head: &[Study], options: &GateOptions) -> GateReport {
    let lab = TestLab::new(name);
    let mut sides =
        [("base", base), ("head", head)].map(|(name, studies)| lab.side(name, studies, &options.rules));
    let [base, head] = &mut sides;
    gate(base, head, options)
}

/// Returns the failing comparisons as scenario and metric.
fn failures(report: &GateReport) -> Vec<(&str, &str)> {
    let failing = report.comparisons.iter().filter(|comparison| comparison.verdict == Verdict::Fail);
    failing.map(|comparison| (comparison.scenario.as_str(), comparison.metric.as_str())).collect()
}

/// Prints the failing comparisons, for the book.
fn print_failures(report: &GateReport) {
    for comparison in report.comparisons.iter().filter(|comparison| comparison.verdict == Verdict::Fail) {
        println!("{} {}: {}", comparison.scenario, comparison.title(), comparison.explain());
    }
}

#[test]
fn the_same_program_passes_at_once_with_equal_hashes() {
    let studies = [study("swift", SWIFT), study("cubic", CUBIC)];
    let report = compare("same", &studies, &studies, &options(&[]));
    assert_eq!(report.verdict, Verdict::Pass);
    assert_eq!(report.looks.len(), 1, "no seed is added");
    assert!(
        report.comparisons.iter().all(|comparison| comparison.method == Method::Identical),
        "{report:#?}"
    );
    assert!(report.comparisons.len() >= 4, "{report:#?}");
}

#[test]
fn swift_with_a_longer_target_fails_in_its_scenario() {
    let base = [study("swift", SWIFT), study("cubic", CUBIC)];
    let head = [mutant(&base[0], "\"25 us\"", "\"27.5 us\""), base[1].clone()];
    let report = compare("swift", &base, &head, &options(&["delay_mean_us > +3%", "total_gbps < -1%"]));
    assert_eq!(failures(&report), [("swift", "queue.delay_mean_us")], "{report:#?}");
    print_failures(&report);
    let of_cubic = report.comparisons.iter().filter(|comparison| comparison.scenario == "cubic");
    assert!(of_cubic.into_iter().all(|comparison| comparison.method == Method::Identical), "{report:#?}");
}

#[test]
fn cubic_with_a_smaller_decrease_fails_in_its_scenario() {
    let base = [study("swift", SWIFT), study("cubic", CUBIC)];
    let head = [base[0].clone(), mutant(&base[1], "beta = 0.7", "beta = 0.8")];
    let report = compare("cubic", &base, &head, &options(&["delay_mean_us > +3%", "total_gbps < -1%"]));
    assert_eq!(failures(&report), [("cubic", "queue.delay_mean_us")], "{report:#?}");
    print_failures(&report);
}

#[test]
fn the_example_of_the_book_is_what_the_gate_prints() {
    let base = [study("swift", SWIFT), study("cubic", CUBIC)];
    let head = [mutant(&base[0], "\"25 us\"", "\"27.5 us\""), mutant(&base[1], "beta = 0.7", "beta = 0.8")];
    let options = options(&["delay_mean_us > +3%", "total_gbps < -1%"]);
    let mut report = compare("book", &base, &head, &options);
    (report.base, report.head) = ("HEAD~1 (d33bd932964b)".into(), "HEAD (f1e875492510)".into());
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/howto/gate.md"))
        .expect("the page exists");
    let text = render_text(&report);
    assert!(page.contains(&text), "the page lacks this example:\n{text}");
}

#[test]
fn an_improvement_passes() {
    let base = [study("swift", SWIFT)];
    let head = [mutant(&base[0], "\"25 us\"", "\"22.5 us\"")];
    let report = compare("better", &base, &head, &options(&["delay_mean_us > +5%"]));
    assert_eq!(report.verdict, Verdict::Pass, "{report:#?}");
    assert!(report.comparisons[0].change < Some(-0.02), "{report:#?}");
}

#[test]
fn different_seed_sets_of_one_program_do_not_fail() {
    let lab = TestLab::new("a-a");
    let studies = [study("swift", SWIFT)];
    let options = options(&[]);
    let mut verdicts = Vec::new();
    for experiment in 0..20 {
        let first = 1 + 1_000 * experiment;
        let seeds = first..=first + 19;
        let request = Request { all_seeds: seeds.clone(), new_seeds: seeds, undecided: None };
        let stored = lab.side("base", &studies, &options.rules).measure(&request).expect("the runs end");
        let mut base = StoredSide::from_baseline("base".into(), Baseline::new("test", stored));
        let options = GateOptions { looks: looks(first + 500), ..options.clone() };
        let report = gate(&mut base, &mut lab.side("head", &studies, &options.rules), &options);
        assert!(
            report.comparisons.iter().all(|comparison| comparison.method == Method::MannWhitney),
            "{report:#?}"
        );
        verdicts.push(report.verdict);
    }
    let count = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
    let (fail, inconclusive) = (count(Verdict::Fail), count(Verdict::Inconclusive));
    println!("A/A: {fail} fail, {inconclusive} inconclusive, {} pass", count(Verdict::Pass));
    assert_eq!(fail, 0);
    assert!(inconclusive <= 2, "{inconclusive} of 20 are inconclusive");
}

#[test]
fn a_changed_scenario_is_refused() {
    let base = [study("swift", SWIFT)];
    let head = [study("swift", &SWIFT.replace("2 ms", "1 ms"))];
    let lab = TestLab::new("refused");
    let options = options(&[]);
    let mut sides = [&base, &head].map(|studies| lab.side("side", studies, &options.rules));
    let [base, head] = &mut sides;
    let error =
        poseidon_gate::gate::run_gate(base, head, &options, &|_| ()).expect_err("the scenario differs");
    assert!(error.to_string().contains("the scenario text differs between base"), "{error}");
}
