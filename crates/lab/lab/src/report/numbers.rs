//! Published tables of numbers.
//!
//! `summary.csv` contains every metric: the mean over seeds, the half-width of the 95 % confidence interval and the
//! number of seeds. `seeds.csv` contains per-seed values of the metrics used in claims, so that a changed claim can be
//! judged without a new run. If a row has the same cell and phase as the row above, both fields are empty.

use super::TableError;
use super::figures::round_to_digits;
use crate::expression::Expression;
use crate::judge::cell_name;
use crate::pooled::readings;
use crate::samples::PercentileName;
use crate::scenario::Scenario;
use crate::stats::Estimate;
use crate::summary::RunSummary;
use std::collections::{BTreeMap, BTreeSet};

/// The number of significant digits in a mean. The spread over seeds is much larger than the rounding error.
const DIGITS: usize = 6;

/// The number of significant digits in a per-seed value. Claims are judged by these values.
const DIGITS_BY_SEED: usize = 9;

/// The key of a published number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberKey {
    /// The cell name.
    pub cell: String,
    /// The phase.
    pub phase: String,
    /// The metric.
    pub name: String,
}

/// A published metric, averaged over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedNumber {
    /// The mean.
    pub mean: f64,
    /// The half-width of the 95 % confidence interval, if there are several seeds.
    pub half: Option<f64>,
    /// The number of seeds.
    pub seeds: usize,
}

/// A metric's per-seed values.
pub(super) type ValuesBySeed = (NumberKey, BTreeMap<u64, f64>);

/// Returns every metric, averaged over seeds, ordered by cell and phase. Percentiles cover the messages of all seeds.
/// Metrics whose value is unknown for a seed are omitted.
pub fn numbers_of(runs: &[RunSummary]) -> Vec<(NumberKey, PublishedNumber)> {
    let by_seed = values_by_seed(runs, &|name| PercentileName::parse(name).is_none());
    let means = by_seed.into_iter().filter_map(|(key, by_seed)| {
        Some((key, Estimate::from_values(&by_seed.into_values().collect::<Vec<f64>>())?))
    });
    let number = |(key, estimate): (NumberKey, Estimate)| {
        let round = |value| round_to_digits(value, DIGITS);
        let number =
            PublishedNumber { mean: round(estimate.mean), half: estimate.half.map(round), seeds: estimate.n };
        (key, number)
    };
    let mut numbers: Vec<(NumberKey, PublishedNumber)> = means.chain(percentiles(runs)).map(number).collect();
    let cells = cells_in_order(runs);
    let position =
        |key: &NumberKey| cells.iter().position(|(cell, phase)| *cell == key.cell && *phase == key.phase);
    numbers.sort_by_cached_key(|(key, _)| (position(key), key.name.clone()));
    numbers
}

/// Returns the percentiles over the messages of all seeds.
fn percentiles(runs: &[RunSummary]) -> Vec<(NumberKey, Estimate)> {
    let phases = runs.iter().flat_map(|run| &run.summary.phases);
    let names: BTreeSet<&String> =
        phases.flat_map(|phase| phase.values.keys().chain(phase.missing.keys())).collect();
    let mut estimates = Vec::new();
    for name in names.into_iter().filter(|name| PercentileName::parse(name).is_some()) {
        for (mut labels, reading) in readings(&Expression::Metric(name.clone()), runs) {
            // The phase is the last label.
            let Some(phase) = labels.pop() else { continue };
            if let Some(estimate) = reading.estimate() {
                let key = NumberKey { cell: cell_name(&labels), phase: phase.value, name: name.clone() };
                estimates.push((key, estimate));
            }
        }
    }
    estimates
}

/// Returns the cells and phases in run order.
fn cells_in_order(runs: &[RunSummary]) -> Vec<(String, String)> {
    let mut order: Vec<(String, String)> = Vec::new();
    for run in runs {
        let cell = cell_name(&run.labels);
        for phase in &run.summary.phases {
            let key = (cell.clone(), phase.name.clone());
            if !order.contains(&key) {
                order.push(key);
            }
        }
    }
    order
}

/// Returns the per-seed values of all metrics in a scenario's claims.
pub(super) fn claim_values_by_seed(scenario: &Scenario, runs: &[RunSummary]) -> Vec<ValuesBySeed> {
    let expressions: Vec<Expression> =
        scenario.claim.iter().filter_map(|claim| Expression::parse(&claim.metric).ok()).collect();
    let claimed: BTreeSet<&str> = expressions.iter().flat_map(Expression::metrics).collect();
    // Message percentiles are not judged seed by seed.
    values_by_seed(runs, &|name| claimed.contains(name) && PercentileName::parse(name).is_none())
}

/// Returns per-seed metric values, ordered by cell and phase.
fn values_by_seed(runs: &[RunSummary], is_wanted: &dyn Fn(&str) -> bool) -> Vec<ValuesBySeed> {
    let order = cells_in_order(runs);
    let mut values: BTreeMap<(usize, &str), BTreeMap<u64, f64>> = BTreeMap::new();
    for run in runs {
        let cell = cell_name(&run.labels);
        for phase in &run.summary.phases {
            let is_same_phase = |(other, name): &(String, String)| *other == cell && *name == phase.name;
            let Some(position) = order.iter().position(is_same_phase) else { continue };
            for (name, value) in phase.values.iter().filter(|(name, _)| is_wanted(name)) {
                values.entry((position, name)).or_default().insert(run.seed, *value);
            }
        }
    }
    let key = |position: usize, name: &str| {
        let (cell, phase) = order[position].clone();
        NumberKey { cell, phase, name: name.to_owned() }
    };
    values.into_iter().map(|((position, name), values)| (key(position, name), values)).collect()
}

/// Writes `summary.csv`.
pub(super) fn write_numbers(numbers: &[(NumberKey, PublishedNumber)]) -> Result<String, csv::Error> {
    let values = |number: &PublishedNumber| {
        let half = number.half.map_or_else(String::new, |half| half.to_string());
        vec![number.mean.to_string(), half, number.seeds.to_string()]
    };
    let rows = numbers.iter().map(|(key, number)| (key, values(number)));
    write_table(&["cell", "phase", "name", "mean", "half", "seeds"], rows)
}

/// Writes `seeds.csv`.
pub(super) fn write_by_seed(numbers: &[ValuesBySeed]) -> Result<String, csv::Error> {
    let pair = |(seed, value): (&u64, &f64)| format!("{seed}:{}", round_to_digits(*value, DIGITS_BY_SEED));
    let values = |by_seed: &BTreeMap<u64, f64>| vec![by_seed.iter().map(pair).collect::<Vec<_>>().join(" ")];
    let rows = numbers.iter().map(|(key, by_seed)| (key, values(by_seed)));
    write_table(&["cell", "phase", "name", "values"], rows)
}

/// Parses `summary.csv`.
pub(super) fn parse_numbers(text: &str) -> Result<Vec<(NumberKey, PublishedNumber)>, TableError> {
    let number = |fields: &[&str]| {
        let [mean, half, seeds] = fields else { return None };
        let half = if half.is_empty() { None } else { Some(half.parse().ok()?) };
        Some(PublishedNumber { mean: mean.parse().ok()?, half, seeds: seeds.parse().ok()? })
    };
    parse_table(text, &number)
}

/// Parses `seeds.csv`.
pub(super) fn parse_by_seed(text: &str) -> Result<Vec<ValuesBySeed>, TableError> {
    let parse_pair = |pair: &str| {
        let (seed, value) = pair.split_once(':')?;
        Some((seed.parse().ok()?, value.parse().ok()?))
    };
    parse_table(text, &|fields: &[&str]| fields.first()?.split_whitespace().map(parse_pair).collect())
}

fn write_table<'a>(
    header: &[&str],
    rows: impl Iterator<Item = (&'a NumberKey, Vec<String>)>,
) -> Result<String, csv::Error> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(header)?;
    let mut above: Option<&NumberKey> = None;
    for (key, values) in rows {
        let is_same = above.is_some_and(|above| (&above.cell, &above.phase) == (&key.cell, &key.phase));
        let (cell, phase) = if is_same { ("", "") } else { (key.cell.as_str(), key.phase.as_str()) };
        let key_fields = [cell, phase, key.name.as_str()];
        csv.write_record(key_fields.into_iter().chain(values.iter().map(String::as_str)))?;
        above = Some(key);
    }
    let bytes = csv.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8(bytes).expect("all fields are valid UTF-8"))
}

/// A function that parses the fields that follow a row's key.
type ParseValue<'a, T> = &'a dyn Fn(&[&str]) -> Option<T>;

fn parse_table<T>(text: &str, parse: ParseValue<'_, T>) -> Result<Vec<(NumberKey, T)>, TableError> {
    let mut rows: Vec<(NumberKey, T)> = Vec::new();
    for (index, record) in csv::Reader::from_reader(text.as_bytes()).records().enumerate() {
        let record = record?;
        let fields: Vec<&str> = record.iter().collect();
        let invalid = || TableError::Row {
            // The header is row 1.
            row: index + 2,
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        };
        let [cell, phase, name, values @ ..] = fields.as_slice() else { return Err(invalid()) };
        let (cell, phase) = match rows.last() {
            // Every number has a phase, so an empty phase field refers to the cell and phase of the row above.
            Some((above, _)) if phase.is_empty() => (above.cell.clone(), above.phase.clone()),
            _ => ((*cell).to_owned(), (*phase).to_owned()),
        };
        let key = NumberKey { cell, phase, name: (*name).to_owned() };
        rows.push((key, parse(values).ok_or_else(invalid)?));
    }
    Ok(rows)
}

/// A comparison of new numbers with published numbers.
#[derive(Clone, Debug, Default)]
pub struct NumberComparison {
    /// How many numbers were compared.
    pub compared: usize,
    /// How many numbers of the new runs were not compared, because the whole published table lacks their metric: it
    /// was added after the study was published.
    pub newer: usize,
    /// The numbers that differ.
    pub differences: Vec<NumberDifference>,
}

/// A number that differs from its published value.
#[derive(Clone, Debug)]
pub struct NumberDifference {
    /// The key of the number.
    pub key: NumberKey,
    /// The published number; `None` if only the new runs have it.
    pub published: Option<PublishedNumber>,
    /// The new number; `None` if only the published table has it.
    pub rerun: Option<PublishedNumber>,
}

/// Compares all numbers in two tables at the published precision.
pub fn compare_numbers(
    published: &[(NumberKey, PublishedNumber)],
    rerun: &[(NumberKey, PublishedNumber)],
) -> NumberComparison {
    let published: BTreeMap<&NumberKey, PublishedNumber> =
        published.iter().map(|(key, number)| (key, *number)).collect();
    let rerun: BTreeMap<&NumberKey, PublishedNumber> =
        rerun.iter().map(|(key, number)| (key, *number)).collect();
    let published_metrics: BTreeSet<&str> = published.keys().map(|key| key.name.as_str()).collect();
    let keys: BTreeSet<&NumberKey> = published.keys().chain(rerun.keys()).copied().collect();
    let (keys, newer): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|key| published_metrics.contains(key.name.as_str()));
    let mut comparison =
        NumberComparison { compared: keys.len(), newer: newer.len(), differences: Vec::new() };
    for key in keys {
        let (published, rerun) = (published.get(key).copied(), rerun.get(key).copied());
        let is_same =
            matches!((published, rerun), (Some(published), Some(rerun)) if is_same(published, rerun));
        if !is_same {
            comparison.differences.push(NumberDifference { key: key.clone(), published, rerun });
        }
    }
    comparison
}

fn is_same(a: PublishedNumber, b: PublishedNumber) -> bool {
    let has_same_half = match (a.half, b.half) {
        (Some(a), Some(b)) => is_same_rounded(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    a.seeds == b.seeds && has_same_half && is_same_rounded(a.mean, b.mean)
}

/// Returns whether two rounded numbers differ by at most one unit in the last digit.
fn is_same_rounded(a: f64, b: f64) -> bool {
    let magnitude = a.abs().max(b.abs());
    let first_digit = if magnitude > 0.0 { libm::floor(libm::log10(magnitude)) } else { 0.0 };
    let unit = libm::pow(10.0, first_digit + 1.0 - DIGITS as f64);
    a.to_bits() == b.to_bits() || (a - b).abs() <= 1.000_001 * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::MessageStorage;
    use crate::scenario::Label;
    use crate::summary::{PhaseSummary, Summary};

    fn run(n: &str, seed: u64, values: &[(&str, f64)]) -> RunSummary {
        let phase = |name: &str| PhaseSummary {
            name: name.into(),
            begins_us: 0.0,
            ends_us: 1.0,
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..PhaseSummary::default()
        };
        let summary = Summary { phases: vec![phase("one"), phase("two")], ..Summary::default() };
        RunSummary {
            labels: [Label { sweep: "n".into(), value: n.into() }].into(),
            seed,
            summary: summary.into(),
            messages: MessageStorage::None,
        }
    }

    fn numbers(second: f64) -> Vec<(NumberKey, PublishedNumber)> {
        let runs = [
            run("2, or so", 1, &[("a.x", 1.0), ("a.y", 5.0)]),
            run("2, or so", 2, &[("a.x", second), ("a.y", 5.0)]),
            run("4", 1, &[("a.x", 123_456.789)]),
        ];
        numbers_of(&runs)
    }

    #[test]
    fn tables_round_trip() {
        let before = numbers(2.0);
        let text = write_numbers(&before).expect("the table can be written");
        assert!(text.contains("\"n 2, or so\",one,a.x,1.5,"), "{text}");
        assert!(text.contains("\n,,a.y,5,0,2\n"), "a repeated cell is empty: {text}");
        assert_eq!(parse_numbers(&text).expect("the table can be read"), before);
        let runs = [run("2", 1, &[("a.x", 1.0 / 3.0)]), run("2", 3, &[("a.x", 0.5)])];
        let values = values_by_seed(&runs, &|_| true);
        let read = parse_by_seed(&write_by_seed(&values).expect("the table can be written"))
            .expect("the table can be read");
        assert_eq!(read[0].1, BTreeMap::from([(1, 0.333_333_333), (3, 0.5)]));
        assert_eq!(read[1].0.phase, "two");
    }

    #[test]
    fn a_difference_in_the_last_digit_is_ignored() {
        let published = numbers(2.0);
        let compare = |rerun: &[(NumberKey, PublishedNumber)]| {
            let NumberComparison { compared, newer, differences } = compare_numbers(&published, rerun);
            assert_eq!(newer, 0);
            (compared, differences.len())
        };
        assert_eq!(compare(&published), (6, 0));
        assert_eq!(compare(&numbers(2.0 + 1e-7)), (6, 0));
        // The number differs in both phases.
        assert_eq!(compare(&numbers(2.001)), (6, 2));
        assert_eq!(compare(&published[1..]), (6, 1), "a missing number is a difference");
    }

    #[test]
    fn a_metric_newer_than_the_publication_is_not_a_difference() {
        let published =
            numbers_of(&[run("2", 1, &[("a.x", 1.0)]), run("4", 1, &[("a.x", 1.0), ("a.y", 2.0)])]);
        let rerun = numbers_of(&[
            run("2", 1, &[("a.x", 1.0), ("a.y", 2.0), ("a.new", 3.0)]),
            run("4", 1, &[("a.x", 1.0), ("a.y", 2.0), ("a.new", 3.0)]),
        ]);
        let comparison = compare_numbers(&published, &rerun);
        // Both cells have `a.new` in two phases. `a.y` is published for one cell, so it is missing for the other.
        assert_eq!((comparison.compared, comparison.newer), (8, 4));
        let names: Vec<&str> = comparison.differences.iter().map(|row| row.key.name.as_str()).collect();
        assert_eq!(names, ["a.y", "a.y"]);
    }

    #[test]
    fn only_metrics_of_claims_are_stored_by_seed() {
        let text = "title = \"t\"\nsource = \"s\"\n[[claim]]\nsays = \"it\"\npaper = \"p\"\nabove = 1.0\nmetric = \"a.x / 2\"\n";
        let scenario: Scenario = toml::from_str(text).expect("the scenario is valid");
        let run = run("2", 1, &[("a.x", 1.0), ("a.y", 5.0)]);
        let numbers = claim_values_by_seed(&scenario, &[run]);
        assert_eq!(numbers.iter().map(|(key, _)| key.name.as_str()).collect::<Vec<_>>(), ["a.x", "a.x"]);
    }
}
