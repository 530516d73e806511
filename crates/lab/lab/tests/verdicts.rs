//! Tests verdicts on handmade summaries, covering every condition and invalid claims.

use poseidon_lab::judge::{Outcome, Verdict, judge};
use poseidon_lab::samples::MessageStorage;
use poseidon_lab::scenario::{ClaimSpec, Label, Scenario};
use poseidon_lab::summary::{PhaseSummary, RunSummary, Summary};
use std::collections::BTreeMap;

fn claim(keys: &str) -> ClaimSpec {
    let text = format!("title = \"t\"\nsource = \"s\"\n[[claim]]\nsays = \"it\"\npaper = \"p\"\n{keys}\n");
    let scenario: Scenario = toml::from_str(&text).unwrap_or_else(|error| panic!("{keys}: {error}"));
    scenario.claim.into_iter().next().expect("the scenario has one claim")
}

/// Returns a run of a cell such as `law=swift n=2`, with a value of `a.x` for each phase.
fn run(cell: &str, seed: u64, phases: &[(&str, f64)]) -> RunSummary {
    let label = |pair: &str| {
        let (sweep, value) = pair.split_once('=').expect("labels have the form sweep=value");
        Label { sweep: sweep.into(), value: value.into() }
    };
    let phase = |(name, value): &(&str, f64)| PhaseSummary {
        name: (*name).into(),
        ends_us: 1.0,
        values: BTreeMap::from([("a.x".to_owned(), *value), ("a.y".to_owned(), 2.0)]),
        ..PhaseSummary::default()
    };
    let summary = Summary { phases: phases.iter().map(phase).collect(), ..Summary::default() };
    RunSummary {
        labels: cell.split_whitespace().map(label).collect(),
        seed,
        summary: summary.into(),
        messages: MessageStorage::None,
    }
}

/// Returns runs of a cell without phases, one seed per value.
fn seeds(cell: &str, values: &[f64]) -> Vec<RunSummary> {
    (1..).zip(values).map(|(seed, value)| run(cell, seed, &[("all", *value)])).collect()
}

fn verdict(keys: &str, runs: &[RunSummary]) -> Verdict {
    judge(&claim(keys), runs).unwrap_or_else(|error| panic!("{keys}: {error}"))
}

/// Returns the error message for an invalid claim.
fn rejection(keys: &str, runs: &[RunSummary]) -> String {
    judge(&claim(keys), runs).map(|verdict| verdict.outcome).expect_err(keys).to_string()
}

use Outcome::{Fails, Holds, NotComparable, NotRun};

#[test]
fn a_condition_holds_or_fails() {
    for (value, condition, outcome) in [
        (3.0, "above = 2.9", Holds),
        (3.0, "above = 3.0", Fails),
        (3.0, "below = 3.1", Holds),
        (3.0, "below = 3.0", Fails),
        (3.0, "within = [3.0, 4.0]", Holds),
        (3.0, "within = [2.0, 3.0]", Holds),
        (3.0, "within = [3.1, 4.0]", Fails),
        // The value must be between half and twice the paper's value.
        (3.0, "near = 6.0", Holds),
        (3.0, "near = 6.1", Fails),
        (3.0, "near = 1.5", Holds),
        (3.0, "near = 1.4", Fails),
        (-3.0, "near = -6.0", Holds),
        (3.0, "near = -3.0", Fails),
    ] {
        let keys = format!("metric = \"a.x\"\n{condition}");
        assert_eq!(verdict(&keys, &seeds("", &[value])).outcome, outcome, "{value} {condition}");
    }
}

/// The logarithm of the measured ratio must be between half and twice the logarithm of the paper's ratio.
#[test]
fn a_ratio_is_judged_by_its_distance_from_one() {
    for (measured, form, paper, outcome) in [
        // For a ratio of two, the range is from the square root of two to four.
        (1.06, "ratio", "2.0", Fails),
        (1.41, "ratio", "2.0", Fails),
        (1.42, "ratio", "2.0", Holds),
        (4.0, "ratio", "2.0", Holds),
        (4.1, "ratio", "2.0", Fails),
        // A ratio on the other side of 1 fails, no matter how close to 1 it is.
        (0.98, "ratio", "1.05", Fails),
        (0.5, "ratio", "0.25", Holds),
        (0.51, "ratio", "0.25", Fails),
        (0.06, "ratio", "0.25", Fails),
        // A factor is the other value divided by this value.
        (0.5, "factor", "2.0", Holds),
        (1.0, "factor", "2.0", Fails),
        // 61 % lower is a ratio of 0.39, so the range is 37.6 % to 84.8 % lower.
        (0.63, "reduction", "0.61", Fails),
        (0.62, "reduction", "0.61", Holds),
        (0.16, "reduction", "0.61", Holds),
        (0.15, "reduction", "0.61", Fails),
    ] {
        let runs = [seeds("law=a", &[measured]), seeds("law=b", &[1.0])].concat();
        let keys = format!(
            "metric = \"a.x\"\nwhere = {{ law = \"a\" }}\nagainst = {{ law = \"b\" }}\nas = \"{form}\"\nnear = {paper}"
        );
        assert_eq!(verdict(&keys, &runs).outcome, outcome, "{measured} as {form}, near {paper}");
    }
    let runs = [seeds("law=a", &[1.0]), seeds("law=b", &[1.0])].concat();
    let ratio = "metric = \"a.x\"\nwhere = { law = \"a\" }\nagainst = { law = \"b\" }\nnear = 1.0";
    assert!(rejection(ratio, &runs).contains("distance from one"));
    let reduction = "metric = \"a.x\"\nwhere = { law = \"a\" }\nagainst = { law = \"b\" }\nas = \"reduction\"\nnear = 1.0";
    assert!(rejection(reduction, &runs).contains("below one"));
}

#[test]
fn metrics_are_expressions() {
    for (metric, value) in [("a.x / a.y", 3.0), ("a.x - a.y - 1", 3.0), ("2 * (a.x + a.y)", 16.0)] {
        let verdict = verdict(&format!("metric = \"{metric}\"\nabove = 0"), &seeds("", &[6.0]));
        assert_eq!(verdict.cells[0].measured.expect("the value is known").mean, value, "{metric}");
    }
}

#[test]
fn a_claim_needs_eight_of_ten_seeds() {
    for (passed, judged, outcome) in [
        (10, 10, Holds),
        (8, 10, Holds),
        (7, 10, Fails),
        (4, 5, Holds),
        (2, 3, Fails),
        (1, 2, Fails),
        (1, 1, Holds),
    ] {
        let values: Vec<f64> = (0..judged).map(|seed| if seed < passed { 1.0 } else { -1.0 }).collect();
        let verdict = verdict("metric = \"a.x\"\nabove = 0", &seeds("", &values));
        assert_eq!(verdict.outcome, outcome, "{passed} of {judged}");
        assert_eq!((verdict.cells[0].passed, verdict.cells[0].judged), (passed, judged));
    }
}

#[test]
fn a_claim_must_hold_in_every_cell() {
    let runs = [seeds("law=a", &[1.0]), seeds("law=b", &[2.0]), seeds("law=c", &[-1.0])].concat();
    for (cells, outcome, count) in [
        ("", Fails, 3),
        ("where = { law = \"a\" }", Holds, 1),
        ("where = { law = \"c\" }", Fails, 1),
        ("where = { law = [\"a\", \"b\"] }", Holds, 2),
        ("where = { law = [\"b\", \"c\"] }", Fails, 2),
        ("where = { law = \"d\" }", NotRun, 0),
    ] {
        let verdict = verdict(&format!("metric = \"a.x\"\nabove = 0\n{cells}"), &runs);
        assert_eq!((verdict.outcome, verdict.cells.len()), (outcome, count), "{cells}");
    }
}

#[test]
fn phases_are_judged_like_cells() {
    let runs = [run("law=a", 1, &[("one", 1.0), ("two", -1.0)])];
    for (cells, outcome) in [
        ("", Fails),
        ("where = { phase = \"one\" }", Holds),
        ("where = { phase = \"two\" }", Fails),
        ("where = { phase = [\"one\", \"two\"] }", Fails),
    ] {
        let verdict = verdict(&format!("metric = \"a.x\"\nabove = 0\n{cells}"), &runs);
        assert_eq!(verdict.outcome, outcome, "{cells}");
    }
    let keys = "metric = \"a.x\"\nwhere = { phase = \"one\" }\nagainst = { phase = \"two\" }\nbelow = 0";
    assert_eq!(verdict(keys, &runs).cells[0].measured.expect("the value is known").mean, -1.0);
}

#[test]
fn two_cells_are_compared_seed_by_seed() {
    let runs =
        [seeds("law=a n=1", &[2.0, 4.0]), seeds("law=b n=1", &[8.0, 8.0]), seeds("law=c n=1", &[10.0, 12.0])]
            .concat();
    for (form, expected) in [
        ("", [0.25, 0.5]),
        ("as = \"ratio\"", [0.25, 0.5]),
        ("as = \"factor\"", [4.0, 2.0]),
        ("as = \"reduction\"", [0.75, 0.5]),
        ("as = \"difference\"", [-6.0, -4.0]),
        // Seed 1: the value falls from 10 to 2 in this cell and to 8 in the other cell. Seed 2: the value falls from 12
        // to 4 in this cell and to 8 in the other cell.
        ("as = \"share-of-gain\"\nbaseline = { law = \"c\" }", [4.0, 2.0]),
    ] {
        let keys = format!(
            "metric = \"a.x\"\nwhere = {{ law = \"a\" }}\nagainst = {{ law = \"b\" }}\nabove = -9\n{form}"
        );
        let verdict = verdict(&keys, &runs);
        assert_eq!(verdict.cells.len(), 1);
        let measured = verdict.cells[0].measured.expect("the value is known");
        assert_eq!((measured.mean, measured.n), ((expected[0] + expected[1]) / 2.0, 2), "{form}");
    }
}

#[test]
fn only_seeds_that_both_cells_have_count() {
    let runs = [
        run("law=a", 1, &[("all", 1.0)]),
        run("law=a", 3, &[("all", 3.0)]),
        run("law=b", 2, &[("all", 5.0)]),
        run("law=b", 3, &[("all", 6.0)]),
    ];
    let against = "metric = \"a.x\"\nwhere = { law = \"a\" }\nagainst = { law = \"b\" }\nnear = 0.5";
    let ratio = verdict(against, &runs);
    assert_eq!((ratio.cells[0].measured.expect("the value is known").mean, ratio.cells[0].judged), (0.5, 1));
    let average = verdict("metric = \"a.x\"\naverage-over = \"law\"\nabove = 0", &runs);
    assert_eq!(
        (average.cells[0].measured.expect("the value is known").mean, average.cells[0].judged),
        (4.5, 1)
    );
    let rising = verdict("metric = \"a.x\"\nrising = \"law\"", &runs);
    assert_eq!((rising.outcome, rising.cells[0].judged), (Holds, 1));
}

#[test]
fn averaging_merges_cells() {
    let runs = [seeds("law=a n=1", &[1.0, 2.0]), seeds("law=a n=2", &[3.0, 6.0])].concat();
    let verdict = verdict("metric = \"a.x\"\naverage-over = \"n\"\nwithin = [2.0, 4.0]", &runs);
    assert_eq!(verdict.cells.len(), 1);
    assert_eq!(
        (verdict.cells[0].measured.expect("the value is known").mean, verdict.cells[0].passed),
        (3.0, 2)
    );
    assert_eq!(verdict.cells[0].cell, "law a");
}

#[test]
fn trends_follow_the_order_of_the_file() {
    // 10 comes after 9 in the file, but before 9 in alphabetical order.
    let runs = |values: [f64; 3]| -> Vec<RunSummary> {
        ["n=9", "n=10", "n=11"].iter().zip(values).flat_map(|(cell, value)| seeds(cell, &[value])).collect()
    };
    for (values, rising, falling) in [
        ([1.0, 2.0, 3.0], Holds, Fails),
        ([3.0, 2.0, 1.0], Fails, Holds),
        ([1.0, 3.0, 2.0], Fails, Fails),
        ([1.0, 1.0, 2.0], Fails, Fails),
    ] {
        assert_eq!(verdict("metric = \"a.x\"\nrising = \"n\"", &runs(values)).outcome, rising, "{values:?}");
        assert_eq!(
            verdict("metric = \"a.x\"\nfalling = \"n\"", &runs(values)).outcome,
            falling,
            "{values:?}"
        );
    }
    let single = seeds("n=9", &[1.0]);
    let outcome = verdict("metric = \"a.x\"\nrising = \"n\"", &single).outcome;
    assert_eq!(outcome, Fails, "a single value has no trend");
}

#[test]
fn trends_are_judged_for_each_value_of_other_sweeps() {
    let runs = [
        seeds("law=a n=1", &[1.0]),
        seeds("law=a n=2", &[2.0]),
        seeds("law=b n=1", &[10.0]),
        seeds("law=b n=2", &[9.0]),
    ]
    .concat();
    assert_eq!(verdict("metric = \"a.x\"\nrising = \"n\"", &runs).outcome, Fails);
    assert_eq!(verdict("metric = \"a.x\"\nrising = \"n\"\nwhere = { law = \"a\" }", &runs).outcome, Holds);
}

#[test]
fn claims_that_are_not_comparable_are_measured_but_not_judged() {
    let keys = "not-comparable = \"their testbed\"";
    let without_metric = verdict(keys, &[]);
    assert_eq!(
        (without_metric.outcome, without_metric.note.as_str(), without_metric.cells.len()),
        (NotComparable, "their testbed", 0)
    );
    let measured = verdict(&format!("{keys}\nmetric = \"a.x\"\nnear = 9.0"), &seeds("", &[1.0]));
    assert_eq!(
        (measured.outcome, measured.cells[0].measured.expect("the value is known").mean),
        (NotComparable, 1.0)
    );
}

#[test]
fn claims_without_runs_are_not_run() {
    assert_eq!(verdict("metric = \"a.x\"\nabove = 1", &[]).outcome, NotRun);
    let runs = seeds("law=a", &[1.0]);
    let keys = "metric = \"a.x\"\nabove = 1\nwhere = { law = \"a\" }\nagainst = { law = \"b\" }";
    assert_eq!(verdict(keys, &runs).outcome, NotRun, "the other cell was not run");
    assert_eq!(verdict("metric = \"a.x\"\nabove = 1", &seeds("", &[f64::NAN])).outcome, NotRun);
}

#[test]
fn invalid_claims_are_rejected() {
    let runs = seeds("law=a", &[1.0]);
    for (keys, expected) in [
        ("metric = \"a.x\"", "has no condition that can fail"),
        ("metric = \"a.x\"\nabove = 1\nbelow = 2", "has two conditions"),
        ("metric = \"a.x\"\nnear = 1\nrising = \"law\"", "has two conditions"),
        ("above = 1", "a number or a metric is missing"),
        ("metric = \"a.x +\"\nabove = 1", "a number or a metric is missing"),
        ("metric = \"a.x\"\nabove = 1\nwhere = { lwa = \"a\" }", "there is no sweep \"lwa\""),
        ("metric = \"a.x\"\nabove = 1\nagainst = { lwa = \"a\" }", "there is no sweep \"lwa\""),
        (
            "metric = \"a.x\"\nabove = 1\nas = \"share-of-gain\"\nagainst = { law = \"a\" }\nbaseline = { lwa = \"a\" }",
            "there is no sweep \"lwa\"",
        ),
        ("metric = \"a.x\"\nabove = 1\naverage-over = \"lwa\"", "there is no sweep \"lwa\""),
        ("metric = \"a.x\"\nrising = \"lwa\"", "there is no sweep \"lwa\""),
        ("metric = \"a.x\"\nabove = 1\nas = \"factor\"", "is not compared with another cell"),
        ("metric = \"a.x\"\nabove = 1\nbaseline = { law = \"a\" }", "is not compared with another cell"),
        ("metric = \"a.x\"\nabove = 1\nas = \"share-of-gain\"\nagainst = { law = \"a\" }", "and a baseline"),
        (
            "metric = \"a.x\"\nabove = 1\nbaseline = { law = \"a\" }\nagainst = { law = \"a\" }",
            "and a baseline",
        ),
        ("metric = \"a.x\"\nwithin = [2.0, 1.0]", "has an empty range"),
        ("metric = \"a.x\"\nnear = 0.0", "half to twice of zero"),
        ("metric = \"a.x\"\nabove = 1\ngating = true\nnot-comparable = \"no\"", "cannot fail"),
    ] {
        let message = rejection(keys, &runs);
        assert!(message.starts_with("claim \"it\"") && message.contains(expected), "{keys}: {message}");
    }
}
