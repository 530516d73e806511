//! How often the gate passes, fails and is inconclusive, on synthetic values with a known effect.
//!
//! The book publishes the table. The test computes it again and compares it with the page.

use poseidon_gate::decision::Verdict;
use poseidon_gate::error::GateError;
use poseidon_gate::gate::{GateOptions, RunOrder, run_gate};
use poseidon_gate::looks::{DEFAULT_ALPHA, DEFAULT_LOOKS, Looks};
use poseidon_gate::measurements::{CellMeasurements, ScenarioMeasurements};
use poseidon_gate::report::GateReport;
use poseidon_gate::rule::Rule;
use poseidon_gate::side::{Request, Side};
use poseidon_plan::random::RandomKey;
use std::collections::BTreeMap;

const MARGIN: f64 = 0.05;
const EXPERIMENTS: u32 = 1_000;

/// A side with synthetic values: 100 for the base, and `100 (1 + effect + noise)` for the head.
struct Synthetic {
    experiment: RandomKey,
    metrics: u32,
    effect: f64,
    noise: f64,
    is_head: bool,
}

/// Returns a normally distributed number, by the method of Box and Muller.
fn normal(key: RandomKey) -> f64 {
    let (radius, angle) = (key.named("radius").exponential(), key.named("angle").uniform());
    (2.0 * radius).sqrt() * libm::cos(core::f64::consts::TAU * angle)
}

impl Side for Synthetic {
    fn name(&self) -> String {
        "synthetic".to_owned()
    }

    fn measure(&mut self, request: &Request<'_>) -> Result<Vec<ScenarioMeasurements>, GateError> {
        let seeds: Vec<u64> = request.new_seeds.clone().collect();
        let value = |metric: u32, seed: u64| {
            let noise = self.noise * normal(self.experiment.nth(u64::from(metric)).nth(seed));
            Some(if self.is_head { 100.0 * (1.0 + self.effect + noise) } else { 100.0 })
        };
        let list = |metric: u32| seeds.iter().map(|seed| value(metric, *seed)).collect();
        let values: BTreeMap<String, Vec<Option<f64>>> =
            (0..self.metrics).map(|metric| (format!("m{metric}.latency_p99_us"), list(metric))).collect();
        let result_hashes = seeds.iter().map(|seed| format!("{seed}-{}", self.is_head)).collect();
        let cell = CellMeasurements { seeds, result_hashes, values, ..CellMeasurements::default() };
        let scenario = ScenarioMeasurements {
            scenario: "s".into(),
            cells: vec![cell],
            ..ScenarioMeasurements::default()
        };
        Ok(vec![scenario])
    }

    fn seed_limit(&self) -> Option<usize> {
        None
    }
}

/// Runs one experiment.
fn experiment(number: u32, metrics: u32, effect: f64, noise: f64, rule: &str) -> GateReport {
    let key = RandomKey::new(u64::from(number), "coverage");
    let mut sides =
        [false, true].map(|is_head| Synthetic { experiment: key, metrics, effect, noise, is_head });
    let looks = Looks::new(DEFAULT_LOOKS.to_vec(), DEFAULT_ALPHA, 1).expect("the looks are valid");
    let options = GateOptions {
        rules: vec![Rule::parse(rule).expect("the rule is valid")],
        has_explicit_rules: true,
        looks,
        order: RunOrder::Blocks,
    };
    let [base, head] = &mut sides;
    run_gate(base, head, &options, &|_| ()).expect("synthetic values are complete")
}

/// The rates of one row of the table.
#[derive(Clone, Copy, Debug)]
struct Rates {
    pass: f64,
    fail: f64,
    inconclusive: f64,
    seeds: f64,
}

fn rates(effect: f64, noise: f64) -> Rates {
    let mut counts = [0; 3];
    let mut seeds = 0;
    for number in 0..EXPERIMENTS {
        let report = experiment(number, 1, effect, noise, "latency_p99_us > +5%");
        counts[report.verdict as usize] += 1;
        seeds += report.looks.last().map_or(0, |look| look.seeds);
    }
    let share = |verdict: Verdict| f64::from(counts[verdict as usize]) / f64::from(EXPERIMENTS);
    Rates {
        pass: share(Verdict::Pass),
        fail: share(Verdict::Fail),
        inconclusive: share(Verdict::Inconclusive),
        seeds: f64::from(seeds) / f64::from(EXPERIMENTS),
    }
}

#[test]
fn verdicts_have_the_published_rates() {
    let mut table = Vec::new();
    for noise in [0.5, 1.0, 2.0] {
        for effect in [0.0, 1.0, 2.0] {
            let found = rates(effect * MARGIN, noise * MARGIN);
            let Rates { pass, fail, inconclusive, seeds } = found;
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            let row = [percent(pass), percent(fail), percent(inconclusive), format!("{seeds:.1}")];
            table.push(format!("| {noise} | {effect} | {} |", row.join(" | ")));
            if effect == 0.0 {
                assert!(fail <= DEFAULT_ALPHA, "a change without effect fails: {found:?}");
                assert!(noise > 1.0 || pass >= 0.95, "a change without effect passes: {found:?}");
            }
            if effect >= 1.0 {
                // The margin itself is the limit: at most 5 % pass, and up to half of the estimates are above it.
                assert!(pass <= 0.065, "a change by the margin passes: {found:?}");
            }
            if effect >= 2.0 && noise <= 1.0 {
                assert!(fail >= 0.95, "twice the margin fails: {found:?}");
            }
        }
    }
    println!("{}", table.join("\n"));
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/howto/gate.md"))
        .expect("the page exists");
    for row in &table {
        assert!(page.contains(row), "the page lacks the row {row}\nall rows:\n{}", table.join("\n"));
    }
}

#[test]
fn many_metrics_without_an_effect_rarely_fail() {
    // With a margin of zero, only the tests and Holm's correction prevent failures.
    let failures = (0..300)
        .filter(|number| experiment(*number, 10, 0.0, 0.02, "latency_p99_us > +0%").verdict == Verdict::Fail);
    let failures = failures.count();
    println!("{failures} of 300 experiments with 10 metrics fail");
    // The expected number is at most 3, and 12 would have a probability below 1e-4.
    assert!(failures < 12, "{failures} of 300 experiments fail");
}

#[test]
fn many_tests_add_seeds_before_they_can_fail() {
    let report = experiment(1, 12, 0.2, 0.01, "latency_p99_us > +5%");
    assert_eq!(report.verdict, Verdict::Fail);
    assert_eq!(
        report.looks.iter().map(|look| (look.seeds, look.can_fail)).collect::<Vec<_>>(),
        [(8, false), (16, true)]
    );
    let expected = "with 8 seeds and 12 tests, no test can fail: the smallest adjusted p is 0.0469, and failing needs 0.0040";
    assert!(
        report.notes[0].starts_with(expected) && report.notes[0].ends_with("seeds are added first"),
        "{:?}",
        report.notes
    );
}
