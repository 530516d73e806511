//! The tables of numbers that are published with a study.
//!
//! `summary.csv` has every number: its mean over seeds, half the 95 % interval and the number of seeds. `seeds.csv` has the numbers that
//! claims are about seed by seed, so that a claim that changes is judged again without a run. A cell and a phase that are those of the
//! row above are left empty.

use super::figures::round_to_digits;
use crate::expression::Expression;
use crate::judge::{Ran, named};
use crate::pooled::readings;
use crate::samples::PercentileName;
use crate::scenario::Scenario;
use crate::stats::Estimate;
use std::collections::{BTreeMap, BTreeSet};

/// Digits of a mean: more than any seed repeats.
const DIGITS: usize = 6;

/// Digits of the value of one seed: those that a claim is judged by.
const DIGITS_BY_SEED: usize = 9;

/// Which number: cell, phase and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The cell in words.
    pub cell: String,
    /// The phase.
    pub phase: String,
    /// The metric.
    pub name: String,
}

/// A number over seeds, as it is published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// The mean.
    pub mean: f64,
    /// Half the 95 % interval, where there are several seeds.
    pub half: Option<f64>,
    /// How many seeds.
    pub seeds: usize,
}

/// A number seed by seed.
pub(super) type BySeed = (Key, BTreeMap<u64, f64>);

/// Every number of a study over seeds, in the order of cells and phases; percentiles of messages are over those of all seeds. One that is
/// not known in every seed is not there.
pub fn numbers_of(runs: &[Ran]) -> Vec<(Key, Number)> {
    let by_seed = by_seed(runs, &|name| PercentileName::parse(name).is_none());
    let means = by_seed.into_iter().filter_map(|(key, by_seed)| {
        Some((key, Estimate::of(&by_seed.into_values().collect::<Vec<f64>>())?))
    });
    let number = |(key, estimate): (Key, Estimate)| {
        let round = |value| round_to_digits(value, DIGITS);
        let number = Number { mean: round(estimate.mean), half: estimate.half.map(round), seeds: estimate.n };
        (key, number)
    };
    let mut numbers: Vec<(Key, Number)> = means.chain(percentiles(runs)).map(number).collect();
    let cells = cells_in_order(runs);
    let place = |key: &Key| cells.iter().position(|(cell, phase)| *cell == key.cell && *phase == key.phase);
    numbers.sort_by_cached_key(|(key, _)| (place(key), key.name.clone()));
    numbers
}

/// Percentiles over the messages of all seeds.
fn percentiles(runs: &[Ran]) -> Vec<(Key, Estimate)> {
    let phases = runs.iter().flat_map(|run| &run.summary.phases);
    let names: BTreeSet<&String> =
        phases.flat_map(|phase| phase.values.keys().chain(phase.missing.keys())).collect();
    let mut all = Vec::new();
    for name in names.into_iter().filter(|name| PercentileName::parse(name).is_some()) {
        for (mut labels, reading) in readings(&Expression::Metric(name.clone()), runs) {
            // The phase stands last.
            let Some(phase) = labels.pop() else { continue };
            if let Some(estimate) = reading.estimate() {
                all.push((Key { cell: named(&labels), phase: phase.value, name: name.clone() }, estimate));
            }
        }
    }
    all
}

/// Cells and phases as they come.
fn cells_in_order(runs: &[Ran]) -> Vec<(String, String)> {
    let mut order: Vec<(String, String)> = Vec::new();
    for run in runs {
        let cell = named(&run.labels);
        for phase in &run.summary.phases {
            let key = (cell.clone(), phase.name.clone());
            if !order.contains(&key) {
                order.push(key);
            }
        }
    }
    order
}

/// The numbers that a scenario's claims are about, seed by seed.
pub(super) fn claimed_numbers_of(scenario: &Scenario, runs: &[Ran]) -> Vec<BySeed> {
    let expressions: Vec<Expression> =
        scenario.claim.iter().filter_map(|claim| Expression::parse(&claim.metric).ok()).collect();
    let claimed: BTreeSet<&str> = expressions.iter().flat_map(Expression::metrics).collect();
    // A percentile of messages has no value of each seed that a claim is judged by.
    by_seed(runs, &|name| claimed.contains(name) && PercentileName::parse(name).is_none())
}

/// Numbers seed by seed, in the order of cells and phases.
fn by_seed(runs: &[Ran], is_wanted: &dyn Fn(&str) -> bool) -> Vec<BySeed> {
    let order = cells_in_order(runs);
    let mut all: BTreeMap<(usize, &str), BTreeMap<u64, f64>> = BTreeMap::new();
    for run in runs {
        let cell = named(&run.labels);
        for phase in &run.summary.phases {
            let is_here = |(of, name): &(String, String)| *of == cell && *name == phase.name;
            let Some(place) = order.iter().position(is_here) else { continue };
            for (name, value) in phase.values.iter().filter(|(name, _)| is_wanted(name)) {
                all.entry((place, name)).or_default().insert(run.seed, *value);
            }
        }
    }
    let key = |place: usize, name: &str| {
        let (cell, phase) = order[place].clone();
        Key { cell, phase, name: name.to_owned() }
    };
    all.into_iter().map(|((place, name), values)| (key(place, name), values)).collect()
}

/// Writes `summary.csv`.
pub(super) fn write_numbers(numbers: &[(Key, Number)]) -> Result<String, String> {
    let values = |number: &Number| {
        let half = number.half.map_or_else(String::new, |half| half.to_string());
        vec![number.mean.to_string(), half, number.seeds.to_string()]
    };
    let rows = numbers.iter().map(|(key, number)| (key, values(number)));
    write_table(&["cell", "phase", "name", "mean", "half", "seeds"], rows)
}

/// Writes `seeds.csv`.
pub(super) fn write_by_seed(numbers: &[BySeed]) -> Result<String, String> {
    let one = |(seed, value): (&u64, &f64)| format!("{seed}:{}", round_to_digits(*value, DIGITS_BY_SEED));
    let values = |by_seed: &BTreeMap<u64, f64>| vec![by_seed.iter().map(one).collect::<Vec<_>>().join(" ")];
    let rows = numbers.iter().map(|(key, by_seed)| (key, values(by_seed)));
    write_table(&["cell", "phase", "name", "values"], rows)
}

/// Reads `summary.csv`.
pub(super) fn read_numbers(text: &str) -> Result<Vec<(Key, Number)>, String> {
    let number = |fields: &[&str]| {
        let [mean, half, seeds] = fields else { return None };
        let half = if half.is_empty() { None } else { Some(half.parse().ok()?) };
        Some(Number { mean: mean.parse().ok()?, half, seeds: seeds.parse().ok()? })
    };
    read_table(text, &number)
}

/// Reads `seeds.csv`.
pub(super) fn read_by_seed(text: &str) -> Result<Vec<BySeed>, String> {
    let one = |pair: &str| {
        let (seed, value) = pair.split_once(':')?;
        Some((seed.parse().ok()?, value.parse().ok()?))
    };
    read_table(text, &|fields: &[&str]| fields.first()?.split_whitespace().map(one).collect())
}

fn write_table<'a>(
    head: &[&str],
    rows: impl Iterator<Item = (&'a Key, Vec<String>)>,
) -> Result<String, String> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let said = |error: csv::Error| error.to_string();
    csv.write_record(head).map_err(said)?;
    let mut above: Option<&Key> = None;
    for (key, values) in rows {
        let is_same = above.is_some_and(|above| (&above.cell, &above.phase) == (&key.cell, &key.phase));
        let (cell, phase) = if is_same { ("", "") } else { (key.cell.as_str(), key.phase.as_str()) };
        let first = [cell, phase, key.name.as_str()];
        csv.write_record(first.into_iter().chain(values.iter().map(String::as_str))).map_err(said)?;
        above = Some(key);
    }
    let bytes = csv.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Reads what stands behind the key of a row.
type ReadValue<'a, T> = &'a dyn Fn(&[&str]) -> Option<T>;

fn read_table<T>(text: &str, read: ReadValue<'_, T>) -> Result<Vec<(Key, T)>, String> {
    let mut rows: Vec<(Key, T)> = Vec::new();
    for (index, record) in csv::Reader::from_reader(text.as_bytes()).records().enumerate() {
        let record = record.map_err(|error| error.to_string())?;
        let fields: Vec<&str> = record.iter().collect();
        let wrong = || format!("row {} cannot be read: {fields:?}", index + 2);
        let [cell, phase, name, values @ ..] = fields.as_slice() else { return Err(wrong()) };
        let (cell, phase) = match rows.last() {
            // Every number has a phase, so a row without one is of the cell and the phase above.
            Some((above, _)) if phase.is_empty() => (above.cell.clone(), above.phase.clone()),
            _ => ((*cell).to_owned(), (*phase).to_owned()),
        };
        let key = Key { cell, phase, name: (*name).to_owned() };
        rows.push((key, read(values).ok_or_else(wrong)?));
    }
    Ok(rows)
}

/// How numbers of a rerun compare with published ones.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// How many numbers were compared.
    pub compared: usize,
    /// Those that differ.
    pub differences: Vec<Difference>,
}

/// A number that differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Which.
    pub key: Key,
    /// What is published; `None` where only the rerun has it.
    pub published: Option<Number>,
    /// What the rerun gave; `None` where only the table has it.
    pub rerun: Option<Number>,
}

/// Compares every number of two tables, to the digits that are published.
pub fn compare_numbers(published: &[(Key, Number)], rerun: &[(Key, Number)]) -> Comparison {
    let published: BTreeMap<&Key, Number> = published.iter().map(|(key, number)| (key, *number)).collect();
    let rerun: BTreeMap<&Key, Number> = rerun.iter().map(|(key, number)| (key, *number)).collect();
    let keys: BTreeSet<&Key> = published.keys().chain(rerun.keys()).copied().collect();
    let mut comparison = Comparison { compared: keys.len(), differences: Vec::new() };
    for key in keys {
        let (before, now) = (published.get(key).copied(), rerun.get(key).copied());
        let is_same = matches!((before, now), (Some(before), Some(now)) if is_same(before, now));
        if !is_same {
            comparison.differences.push(Difference { key: key.clone(), published: before, rerun: now });
        }
    }
    comparison
}

fn is_same(a: Number, b: Number) -> bool {
    let halves = match (a.half, b.half) {
        (Some(a), Some(b)) => is_same_rounded(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    a.seeds == b.seeds && halves && is_same_rounded(a.mean, b.mean)
}

/// Whether two rounded numbers may be the same number: equal, or one unit of the last digit apart.
fn is_same_rounded(a: f64, b: f64) -> bool {
    let size = a.abs().max(b.abs());
    let first_digit = if size > 0.0 { libm::floor(libm::log10(size)) } else { 0.0 };
    let unit = libm::pow(10.0, first_digit + 1.0 - DIGITS as f64);
    a.to_bits() == b.to_bits() || (a - b).abs() <= 1.000_001 * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Messages;
    use crate::scenario::Label;
    use crate::summary::{PhaseSummary, Summary};

    fn ran(n: &str, seed: u64, values: &[(&str, f64)]) -> Ran {
        let phase = |name: &str| PhaseSummary {
            name: name.into(),
            begins_us: 0.0,
            ends_us: 1.0,
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..PhaseSummary::default()
        };
        let summary = Summary { phases: vec![phase("one"), phase("two")], ..Summary::default() };
        Ran {
            labels: vec![Label { sweep: "n".into(), value: n.into() }],
            seed,
            summary,
            messages: Messages::None,
        }
    }

    fn numbers(second: f64) -> Vec<(Key, Number)> {
        let runs = [
            ran("2, or so", 1, &[("a.x", 1.0), ("a.y", 5.0)]),
            ran("2, or so", 2, &[("a.x", second), ("a.y", 5.0)]),
            ran("4", 1, &[("a.x", 123_456.789)]),
        ];
        numbers_of(&runs)
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let before = numbers(2.0);
        let text = write_numbers(&before).expect("can be written");
        assert!(text.contains("\"n 2, or so\",one,a.x,1.5,"), "{text}");
        assert!(text.contains("\n,,a.y,5,0,2\n"), "a cell stands once: {text}");
        assert_eq!(read_numbers(&text).expect("can be read"), before);
        let runs = [ran("2", 1, &[("a.x", 1.0 / 3.0)]), ran("2", 3, &[("a.x", 0.5)])];
        let all = by_seed(&runs, &|_| true);
        let read = read_by_seed(&write_by_seed(&all).expect("can be written")).expect("can be read");
        assert_eq!(read[0].1, BTreeMap::from([(1, 0.333_333_333), (3, 0.5)]));
        assert_eq!(read[1].0.phase, "two");
    }

    #[test]
    fn a_number_that_differs_is_found_and_the_last_digit_is_no_difference() {
        let published = numbers(2.0);
        let compare = |rerun: &[(Key, Number)]| {
            let Comparison { compared, differences } = compare_numbers(&published, rerun);
            (compared, differences.len())
        };
        assert_eq!(compare(&published), (6, 0));
        assert_eq!(compare(&numbers(2.0 + 1e-7)), (6, 0));
        // In both phases.
        assert_eq!(compare(&numbers(2.001)), (6, 2));
        assert_eq!(compare(&published[1..]), (6, 1), "a number that is missing differs");
    }

    #[test]
    fn what_claims_are_about_is_kept_seed_by_seed() {
        let text = "title = \"t\"\nsource = \"s\"\n[[claim]]\nsays = \"it\"\npaper = \"p\"\nabove = 1.0\nmetric = \"a.x / 2\"\n";
        let scenario: Scenario = toml::from_str(text).expect("a scenario");
        let run = ran("2", 1, &[("a.x", 1.0), ("a.y", 5.0)]);
        let kept = claimed_numbers_of(&scenario, &[run]);
        assert_eq!(kept.iter().map(|(key, _)| key.name.as_str()).collect::<Vec<_>>(), ["a.x", "a.x"]);
    }
}
