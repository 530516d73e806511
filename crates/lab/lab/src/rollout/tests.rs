//! Tests the search with objectives that have a closed form.

use super::RolloutError;
use super::evaluation::{Evaluations, Evaluator, SeedSet, Upgrades};
use super::objective::Direction;
use super::plan::{Order, OrderOutcome, Search, StopReason, Unit};
use super::search::{RunCount, SearchOptions, Searcher};
use poseidon_plan::random::RandomKey;
use proptest::prelude::*;

const SEEDS: u64 = 5;

/// A network whose objective has a closed form: 1000, minus the gain of the upgrades, plus an offset per seed that all
/// configurations share, plus noise.
struct Model<'a> {
    gain: &'a dyn Fn(&Upgrades) -> f64,
    /// The noise of a configuration and a seed.
    noise: &'a dyn Fn(&Upgrades, u64) -> f64,
    /// The evaluated configurations, in order.
    evaluated: Vec<(SeedSet, Upgrades)>,
}

impl<'a> Model<'a> {
    fn new(gain: &'a dyn Fn(&Upgrades) -> f64) -> Self {
        Self { gain, noise: &|_, _| 0.0, evaluated: Vec::new() }
    }

    fn value(&self, upgrades: &Upgrades, seed: u64) -> f64 {
        1_000.0 - (self.gain)(upgrades) + 50.0 * seed as f64 + (self.noise)(upgrades, seed)
    }
}

fn seeds_of(set: SeedSet) -> core::ops::RangeInclusive<u64> {
    match set {
        SeedSet::Choose => 1..=SEEDS,
        SeedSet::Judge => SEEDS + 1..=2 * SEEDS,
    }
}

impl Evaluator for Model<'_> {
    fn evaluate(
        &mut self,
        configurations: &[Upgrades],
        seeds: SeedSet,
    ) -> Result<Vec<Vec<f64>>, RolloutError> {
        self.evaluated.extend(configurations.iter().map(|upgrades| (seeds, upgrades.clone())));
        let values =
            |upgrades: &Upgrades| seeds_of(seeds).map(|seed| self.value(upgrades, seed)).collect::<Vec<_>>();
        Ok(configurations.iter().map(values).collect())
    }
}

fn units(count: usize) -> Vec<Unit> {
    let name = |number| format!("rack{number}");
    (0..count).map(|number| Unit { name: name(number), switches: vec![name(number)] }).collect()
}

fn options(budget: usize) -> SearchOptions {
    SearchOptions {
        budget,
        all_steps: false,
        random_orders: 3,
        baseline_steps: Vec::new(),
        direction: Direction::Minimise,
        batch: 1,
    }
}

fn search(model: &mut Model<'_>, options: &SearchOptions, congestion: &[f64]) -> Search {
    let units = units(congestion.len());
    let evaluations = Evaluations::new(model);
    let searcher = Searcher { options, units: &units, congestion, evaluations, on_note: &|_| {} };
    searcher.search().unwrap_or_else(|error| panic!("{error}"))
}

fn names(search: &Search) -> Vec<&str> {
    search.steps.iter().map(|step| step.unit.name.as_str()).collect()
}

/// Returns noise that depends only on the configuration and the seed, between -`amplitude` and `amplitude`.
fn noise(amplitude: f64) -> impl Fn(&Upgrades, u64) -> f64 {
    move |upgrades, seed| {
        let key = upgrades.iter().fold(RandomKey::new(seed, "noise"), |key, unit| key.nth(*unit as u64));
        amplitude * (2.0 * key.uniform() - 1.0)
    }
}

#[test]
fn upgrades_are_ordered_by_their_gain() {
    // Each upgrade gains the same after any other upgrades.
    const GAINS: [f64; 4] = [10.0, 40.0, 5.0, 20.0];
    let gain = |upgrades: &Upgrades| upgrades.iter().map(|unit| GAINS[*unit]).sum();
    let mut model = Model::new(&gain);
    let result = search(&mut model, &options(3), &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(names(&result), ["rack1", "rack3", "rack0"]);
    assert_eq!(result.stop, StopReason::Budget);
    let gains: Vec<f64> = result.steps.iter().map(|step| step.step_gain.mean).collect();
    let sums: Vec<f64> = result.steps.iter().map(|step| step.point.gain.mean).collect();
    assert_eq!((gains, sums), (vec![40.0, 20.0, 10.0], vec![40.0, 60.0, 70.0]));
    assert_eq!(result.all_upgraded.gain.mean, 75.0);
    // The offsets of the seeds cancel in pairs, so the interval has no width.
    assert!(result.steps.iter().all(|step| step.step_gain.half == Some(0.0)));
    // Lazy evaluation: the start, four candidates, and in each later step only the top.
    let chosen = model.evaluated.iter().filter(|(seeds, _)| *seeds == SeedSet::Choose).count();
    assert_eq!(chosen, 1 + 4 + 2);
}

#[test]
fn maximising_chooses_the_opposite_order() {
    let gain = |upgrades: &Upgrades| upgrades.iter().map(|unit| *unit as f64 - 5.0).sum();
    let maximise = SearchOptions { direction: Direction::Maximise, ..options(2) };
    let result = search(&mut Model::new(&gain), &maximise, &[0.0; 4]);
    assert_eq!(names(&result), ["rack0", "rack1"]);
    assert_eq!(result.steps[0].step_gain.mean, 5.0);
}

#[test]
fn the_search_stops_within_the_noise() {
    // Racks 1 and 2 gain, the others do not.
    let gain =
        |upgrades: &Upgrades| upgrades.iter().filter(|unit| [1, 2].contains(*unit)).count() as f64 * 30.0;
    let noise = noise(2.0);
    let mut model = Model { noise: &noise, ..Model::new(&gain) };
    let result = search(&mut model, &options(6), &[0.0; 12]);
    assert_eq!((result.steps.len(), result.stop), (2, StopReason::WithinNoise));
    let rejected = result.rejected.expect("the third upgrade is rejected");
    assert!(rejected.step_gain.mean.abs() < 4.0 && rejected.point.upgrades == 3, "{rejected:?}");
    // Baselines end where the search ends.
    assert!(result.baselines.iter().all(|baseline| baseline.points.last().unwrap().upgrades == 2));

    let all_steps = SearchOptions { all_steps: true, ..options(6) };
    let result = search(&mut model, &all_steps, &[0.0; 12]);
    assert_eq!((result.steps.len(), result.stop, result.rejected), (6, StopReason::Budget, None));
    let result = search(&mut model, &SearchOptions { budget: 99, ..all_steps }, &[0.0; 12]);
    assert_eq!((result.steps.len(), result.stop), (12, StopReason::NoCandidates));
}

#[test]
fn an_upgrade_that_was_only_lucky_is_rejected() {
    // Rack 0 looks good on the seeds that choose, and does nothing on other seeds.
    let lucky = |upgrades: &Upgrades, seed: u64| {
        if upgrades.contains(&0) && seed <= SEEDS { -100.0 } else { 0.0 }
    };
    let noise = noise(1.0);
    let both = |upgrades: &Upgrades, seed: u64| lucky(upgrades, seed) + noise(upgrades, seed);
    let gain = |_: &Upgrades| 0.0;
    let result = search(&mut Model { noise: &both, ..Model::new(&gain) }, &options(3), &[0.0; 6]);
    assert_eq!((result.steps.len(), result.stop), (0, StopReason::WithinNoise));
    assert_eq!(result.rejected.map(|step| step.unit.name), Some("rack0".to_owned()));
    assert!(
        result.baselines.iter().all(|baseline| baseline.points.is_empty()) && result.comparisons.is_empty()
    );
}

#[test]
fn upgrades_that_gain_only_together_are_not_found() {
    // This is the limit of greedy search. The objective with all candidates shows that a gain exists.
    let gain = |upgrades: &Upgrades| if upgrades.contains(&0) && upgrades.contains(&1) { 100.0 } else { 0.0 };
    let result = search(&mut Model::new(&gain), &options(4), &[0.0; 4]);
    assert_eq!((result.steps.len(), result.stop), (0, StopReason::WithinNoise));
    assert_eq!(result.all_upgraded.gain.mean, 100.0);
}

#[test]
fn baselines_use_the_seeds_and_numbers_of_upgrades_of_the_search() {
    const GAINS: [f64; 6] = [32.0, 16.0, 8.0, 4.0, 2.0, 1.0];
    let gain = |upgrades: &Upgrades| upgrades.iter().map(|unit| GAINS[*unit]).sum();
    let mut model = Model::new(&gain);
    // The congestion suggests the worst order.
    let result = search(&mut model, &options(3), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let [bottleneck, random] = result.baselines.as_slice() else { panic!("{:?}", result.baselines) };
    assert_eq!((bottleneck.order, random.order), (Order::BottleneckFirst, Order::Random));
    assert_eq!(bottleneck.orders[0], ["rack5", "rack4", "rack3", "rack2", "rack1", "rack0"]);
    let counts: Vec<usize> = bottleneck.points.iter().map(|point| point.upgrades).collect();
    assert_eq!(counts, [1, 2, 3]);
    // The mean of seeds 6 to 10 is 1000 + 50 * 8, minus the gain.
    let means: Vec<f64> = bottleneck.points.iter().map(|point| point.mean()).collect();
    assert_eq!(means, [1_400.0 - 1.0, 1_400.0 - 3.0, 1_400.0 - 7.0]);
    for (number, order) in random.orders.iter().enumerate() {
        let gain_of = |name: &String| GAINS[name.trim_start_matches("rack").parse::<usize>().unwrap()];
        let expected: f64 = order[..2].iter().map(gain_of).sum();
        assert_eq!(random.points[1].orders[number].gain.mean, expected, "{order:?}");
    }
    let distinct: std::collections::BTreeSet<_> = random.orders.iter().collect();
    assert_eq!((random.orders.len(), distinct.len()), (3, 3));
    let [first, second] = result.comparisons.as_slice() else { panic!("{:?}", result.comparisons) };
    assert_eq!(
        (first.order, first.upgrades, first.outcome),
        (Order::BottleneckFirst, 3, OrderOutcome::Better)
    );
    assert_eq!(first.advantage.mean, 56.0 - 7.0);
    assert_eq!((second.order, second.advantage.n), (Order::Random, 5));
    // No configuration is evaluated twice on the same seeds.
    let distinct: std::collections::BTreeSet<_> = model.evaluated.iter().collect();
    assert_eq!((distinct.len(), result.evaluations), (model.evaluated.len(), model.evaluated.len()));
}

#[test]
fn orders_with_equal_results_are_not_distinguishable() {
    let gain = |upgrades: &Upgrades| 10.0 * upgrades.len() as f64;
    let noise = noise(1.0);
    let mut model = Model { noise: &noise, ..Model::new(&gain) };
    let result = search(&mut model, &options(4), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(result.steps.len(), 4);
    let outcomes: Vec<OrderOutcome> =
        result.comparisons.iter().map(|comparison| comparison.outcome).collect();
    assert_eq!(outcomes, [OrderOutcome::NotDistinguishable; 2]);
}

#[test]
fn baselines_can_be_evaluated_at_chosen_steps() {
    let gain = |upgrades: &Upgrades| 10.0 * upgrades.len() as f64;
    for (requested, budget, expected) in [
        (vec![], 1, vec![1]),
        (vec![], 12, vec![1, 2, 4, 8, 12]),
        (vec![], 8, vec![1, 2, 4, 8]),
        (vec![3, 0, 99, 3], 5, vec![3, 5]),
    ] {
        let options = SearchOptions { baseline_steps: requested, ..options(budget) };
        let result = search(&mut Model::new(&gain), &options, &[0.0; 16]);
        let counts: Vec<usize> = result.baselines[0].points.iter().map(|point| point.upgrades).collect();
        assert_eq!(counts, expected);
    }
}

#[test]
fn the_number_of_runs_is_known_before_the_search() {
    // Four candidates and two upgrades. The fixed part is the start (on both sets of seeds, and its congestion), two
    // steps, all candidates, and two orders at two steps: ten configurations.
    let options = SearchOptions { random_orders: 1, ..options(2) };
    assert_eq!(RunCount::new(&options, 4, 5), RunCount { lazy: 5 * (10 + 5), at_most: 5 * (10 + 7) });
    // A budget above the number of candidates has no effect.
    let large = SearchOptions { budget: 100, baseline_steps: vec![1], random_orders: 0, ..options };
    assert_eq!(RunCount::new(&large, 2, 2), RunCount { lazy: 2 * (8 + 3), at_most: 2 * (8 + 3) });
}

/// Returns the order of plain greedy search, which evaluates every candidate in every step.
fn plain_greedy(gain: &dyn Fn(&Upgrades) -> f64, units: usize, budget: usize) -> Vec<String> {
    let mut upgrades = Upgrades::new();
    let mut order = Vec::new();
    for _ in 0..budget.min(units) {
        let with = |unit: usize| gain(&upgrades.iter().copied().chain([unit]).collect());
        let mut best: Option<usize> = None;
        for unit in (0..units).filter(|unit| !upgrades.contains(unit)) {
            if best.is_none_or(|best| with(unit) > with(best)) {
                best = Some(unit);
            }
        }
        let best = best.expect("a candidate is left");
        upgrades.insert(best);
        order.push(format!("rack{best}"));
    }
    order
}

proptest! {
    /// The number of covered items is submodular.
    #[test]
    fn lazy_search_equals_plain_search_on_a_submodular_objective(
        covers in prop::collection::vec(prop::collection::btree_set(0_u32..20, 0..8), 1..10),
        budget in 1_usize..10,
        batch in 1_usize..4,
    ) {
        let gain = |upgrades: &Upgrades| {
            let covered: std::collections::BTreeSet<u32> =
                upgrades.iter().flat_map(|unit| covers[*unit].iter().copied()).collect();
            covered.len() as f64
        };
        let mut model = Model::new(&gain);
        let options = SearchOptions { all_steps: true, batch, random_orders: 0, ..options(budget) };
        let result = search(&mut model, &options, &vec![0.0; covers.len()]);
        prop_assert_eq!(names(&result), plain_greedy(&gain, covers.len(), budget));
        // The search stays within the announced number of runs. The start is run twice more, to measure time and
        // congestion.
        let runs = (result.evaluations as u64 + 1) * SEEDS;
        let count = RunCount::new(&options, covers.len(), u32::try_from(SEEDS).unwrap());
        prop_assert!(runs <= count.at_most, "{} {:?}", runs, count);
    }
}
