//! One metric of one cell on both sides: its pairs, or its values if there are no pairs.

use crate::measurements::{CellMeasurements, Reading};
use crate::rule::{Margin, Rule};
use crate::stats::{MAX_PAIRS, median};

/// With fewer pairs than this, the values of both sides are compared without pairing.
pub const MIN_PAIRS: usize = 5;

/// The most values per side that are compared without pairs. Baseline files are untrusted.
const MAX_VALUES: usize = 1_000;

/// Two values with a smaller relative difference count as equal.
const ROUNDING: f64 = 1e-9;

/// One metric of one cell on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The worsening of the metric.
    pub sample: Sample,
    /// The median of the base values.
    pub base: Option<f64>,
    /// The median of the head values.
    pub head: Option<f64>,
    /// The head values, for trend services.
    pub head_values: Vec<f64>,
    /// Whether the head lacks values that the base has, or has only lower bounds of them. Such a metric can fail, but
    /// it cannot pass.
    pub is_incomplete: bool,
    /// The number of seeds for which exactly one side has a value.
    pub one_sided: usize,
    /// Whether the values differ although all packets are the same, because the sides compute the metric differently.
    pub is_recomputed: bool,
}

/// The worsening of a metric: positive if the head is worse.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// All runs of both sides have the same result hashes.
    Identical(usize),
    /// One difference per seed.
    Paired(Vec<f64>),
    /// The values of both sides, oriented and scaled so that a larger value is worse.
    Unpaired {
        /// The base values.
        base: Vec<f64>,
        /// The head values.
        head: Vec<f64>,
    },
}

impl Comparison {
    /// Compares a metric of one cell. `base` and `head` are the same cell and phase.
    pub fn new(base: &CellMeasurements, head: &CellMeasurements, metric: &str, rule: &Rule) -> Self {
        let common = common_seeds(base, head);
        let [base_values, head_values] = [base, head].map(|side| all_values(side, metric));
        let mut comparison = Self {
            sample: Sample::Identical(common.len()),
            base: median(&base_values),
            head: median(&head_values),
            head_values: head_values.clone(),
            is_incomplete: false,
            one_sided: 0,
            is_recomputed: false,
        };
        if is_identical(base, head, &common) {
            let readings = |side: &CellMeasurements, indices: Vec<usize>| -> Vec<Reading> {
                indices.into_iter().map(|index| side.reading(metric, index)).collect()
            };
            let (base_indices, head_indices) = common.into_iter().unzip();
            let [base, head] = [readings(base, base_indices), readings(head, head_indices)];
            comparison.is_recomputed = base != head;
            (comparison.base, comparison.head) = (median_of_values(&base), median_of_values(&head));
            return comparison;
        }
        if common.len() < MIN_PAIRS {
            let scale = scale_of(rule.margin, &base_values, &head_values);
            let orient = |values: &[f64]| values.iter().map(|value| rule.worsening(*value) / scale).collect();
            let has_all = |side: &CellMeasurements, values: &[f64]| values.len() == side.seeds.len();
            comparison.is_incomplete = has_all(base, &base_values) && !has_all(head, &head_values);
            let [base, head] =
                [&base_values, &head_values].map(|values| &values[..values.len().min(MAX_VALUES)]);
            comparison.sample = Sample::Unpaired { base: orient(base), head: orient(head) };
            return comparison;
        }
        let readings = common.into_iter().take(MAX_PAIRS).map(|(base_index, head_index)| {
            (base.reading(metric, base_index), head.reading(metric, head_index))
        });
        comparison.pair(readings, rule);
        comparison
    }

    /// Computes the worsening of each seed. A value that only one side has counts as [`lost_value`].
    fn pair(&mut self, readings: impl Iterator<Item = (Reading, Reading)>, rule: &Rule) {
        let (mut base, mut head, mut one_sided) = (Vec::new(), Vec::new(), Vec::new());
        for pair in readings {
            match pair {
                (Reading::Value(base_value), Reading::Value(head_value)) => {
                    base.push(base_value);
                    head.push(head_value);
                }
                // The worsening is at least that of the bound.
                (Reading::Value(value), Reading::AtLeast(bound)) if rule.worsening(1.0) > 0.0 => {
                    base.push(value);
                    head.push(bound);
                    self.is_incomplete = true;
                }
                (Reading::Value(_), Reading::Missing | Reading::AtLeast(_)) => {
                    one_sided.push(lost_value(rule.margin));
                    self.is_incomplete = true;
                }
                (Reading::Missing | Reading::AtLeast(_), Reading::Value(_)) => {
                    one_sided.push(-lost_value(rule.margin));
                }
                (Reading::Missing | Reading::AtLeast(_), Reading::Missing | Reading::AtLeast(_)) => {}
            }
        }
        self.one_sided = one_sided.len();
        (self.base, self.head) = (median(&base), median(&head));
        let differences = relative_worsening(rule, &base, &head);
        self.sample = Sample::Paired(differences.into_iter().chain(one_sided).collect());
    }

    /// Returns the number of pairs, or of values of the smaller side.
    pub fn size(&self) -> usize {
        match &self.sample {
            Sample::Identical(seeds) => *seeds,
            Sample::Paired(differences) => differences.len(),
            Sample::Unpaired { base, head } => base.len().min(head.len()),
        }
    }

    /// Returns whether the test can never fail, because all values are equal.
    pub fn is_constant(&self) -> bool {
        match &self.sample {
            Sample::Identical(_) => true,
            Sample::Paired(differences) => {
                !differences.is_empty() && differences.iter().all(|difference| *difference == 0.0)
            }
            Sample::Unpaired { base, head } => {
                let first = base.first();
                !head.is_empty()
                    && first.is_some()
                    && base.iter().chain(head).all(|value| Some(value) == first)
            }
        }
    }
}

/// Returns the indices of the seeds that both sides have.
fn common_seeds(base: &CellMeasurements, head: &CellMeasurements) -> Vec<(usize, usize)> {
    let index = |(base_index, seed): (usize, &u64)| Some((base_index, head.seeds.binary_search(seed).ok()?));
    base.seeds.iter().enumerate().filter_map(index).collect()
}

/// Returns whether the runs of all common seeds delivered the same packets at the same times.
fn is_identical(base: &CellMeasurements, head: &CellMeasurements, common: &[(usize, usize)]) -> bool {
    let is_equal = |(base_index, head_index): &(usize, usize)| {
        let (base, head) = (&base.result_hashes[*base_index], &head.result_hashes[*head_index]);
        !base.is_empty() && base == head
    };
    !common.is_empty() && common.iter().all(is_equal)
}

fn all_values(side: &CellMeasurements, metric: &str) -> Vec<f64> {
    side.values.get(metric).into_iter().flatten().flatten().copied().collect()
}

fn median_of_values(readings: &[Reading]) -> Option<f64> {
    let value = |reading: &Reading| if let Reading::Value(value) = reading { Some(*value) } else { None };
    median(&readings.iter().filter_map(value).collect::<Vec<f64>>())
}

/// Returns the differences between head and base, divided by the base for a relative margin.
fn relative_worsening(rule: &Rule, base: &[f64], head: &[f64]) -> Vec<f64> {
    let common_scale = scale_of(rule.margin, base, head);
    // A seed whose base value is zero has no ratio, so all seeds then share the mean.
    let has_ratios = matches!(rule.margin, Margin::Relative(_)) && base.iter().all(|value| *value != 0.0);
    let difference = |(base, head): (&f64, &f64)| {
        let scale = if has_ratios { base.abs() } else { common_scale };
        // Sums in another order differ in their last digits, which is not a difference between the results.
        let is_rounding = (head - base).abs() <= ROUNDING * base.abs().max(head.abs());
        if is_rounding { 0.0 } else { rule.worsening(head - base) / scale }
    };
    base.iter().zip(head).map(difference).collect()
}

/// Returns the worsening of a seed whose value only the base has: 100 %, or one unit of an absolute margin, but at least
/// twice the margin. A metric loses its
/// value if messages do not finish, or if too few finish for a percentile.
fn lost_value(margin: Margin) -> f64 {
    (2.0 * margin.value()).max(1.0)
}

/// Returns what differences are divided by: the mean base value for a relative margin, else 1. If all base values are
/// zero, it is the mean head value, so that a rise from zero counts as 100 %.
fn scale_of(margin: Margin, base: &[f64], head: &[f64]) -> f64 {
    let mean =
        |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>() / values.len().max(1) as f64;
    match margin {
        Margin::Absolute(_) => 1.0,
        Margin::Relative(_) => {
            let scales = [mean(base), mean(head), 1.0];
            scales.into_iter().find(|scale| *scale > 0.0 && scale.is_finite()).unwrap_or(1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const METRIC: &str = "a.latency_p99_us";

    fn side(seeds: core::ops::Range<u64>, values: &[f64]) -> CellMeasurements {
        let result_hashes =
            values.iter().zip(seeds.clone()).map(|(value, seed)| format!("{seed}-{value}")).collect();
        let values = BTreeMap::from([(METRIC.to_owned(), values.iter().copied().map(Some).collect())]);
        CellMeasurements { seeds: seeds.collect(), result_hashes, values, ..CellMeasurements::default() }
    }

    fn rule(text: &str) -> Rule {
        Rule::parse(text).expect("the rule is valid")
    }

    fn compare(base: &CellMeasurements, head: &CellMeasurements) -> Comparison {
        Comparison::new(base, head, METRIC, &rule("latency_p99_us > +5%"))
    }

    #[test]
    fn differences_are_relative_to_the_base_of_the_same_seed() {
        let base = side(1..7, &[10.0, 20.0, 10.0, 20.0, 10.0, 20.0]);
        let head = side(1..7, &[11.0, 21.0, 10.0, 20.0, 9.0, 22.0]);
        let comparison = compare(&base, &head);
        let Sample::Paired(differences) = comparison.sample else { panic!("{comparison:?}") };
        for (difference, expected) in differences.iter().zip([0.1, 0.05, 0.0, 0.0, -0.1, 0.1]) {
            assert!((difference - expected).abs() < 1e-12);
        }
        assert_eq!((comparison.base, comparison.head), (Some(15.0), Some(15.5)));
    }

    #[test]
    fn rounding_is_not_a_difference() {
        let base = side(1..9, &[0.3; 8]);
        let head = side(1..9, &[0.1 + 0.2; 8]);
        assert!(
            matches!(compare(&base, &head).sample, Sample::Paired(_)) && compare(&base, &head).is_constant()
        );
        let head = side(1..9, &[0.300_001; 8]);
        assert!(!compare(&base, &head).is_constant());
    }

    #[test]
    fn a_larger_rate_is_an_improvement() {
        let rule = rule("total_gbps < -1%");
        let base = CellMeasurements {
            values: BTreeMap::from([("a.total_gbps".to_owned(), vec![Some(100.0); 5])]),
            ..side(1..6, &[1.0; 5])
        };
        let head = CellMeasurements {
            values: BTreeMap::from([("a.total_gbps".to_owned(), vec![Some(110.0); 5])]),
            ..side(1..6, &[2.0; 5])
        };
        let comparison = Comparison::new(&base, &head, "a.total_gbps", &rule);
        assert_eq!(comparison.sample, Sample::Paired(vec![-0.1; 5]));
    }

    #[test]
    fn equal_result_hashes_are_identical() {
        let base = side(1..9, &[1.0; 8]);
        assert_eq!(compare(&base, &base).sample, Sample::Identical(8));
        assert!(!compare(&base, &base).is_recomputed);
        let mut other_code = base.clone();
        other_code.values.insert(METRIC.into(), vec![Some(1.5); 8]);
        let recomputed = compare(&base, &other_code);
        assert!(recomputed.is_recomputed && recomputed.sample == Sample::Identical(8));
        // The medians are those of the common seeds.
        let longer = side(1..13, &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0]);
        assert_eq!((compare(&longer, &base).base, compare(&longer, &base).head), (Some(1.0), Some(1.0)));
        let no_hash = CellMeasurements { result_hashes: vec![String::new(); 8], ..base.clone() };
        assert!(
            matches!(compare(&no_hash, &no_hash).sample, Sample::Paired(_)),
            "an empty hash proves nothing"
        );
        assert!(compare(&no_hash, &no_hash).is_constant());
        let mut one = base.clone();
        one.result_hashes[3] = "other".into();
        assert!(matches!(compare(&base, &one).sample, Sample::Paired(_)));
    }

    #[test]
    fn disjoint_seeds_are_compared_without_pairs() {
        let (base, head) = (side(1..9, &[10.0; 8]), side(101..109, &[12.0; 8]));
        let comparison = compare(&base, &head);
        assert_eq!(comparison.sample, Sample::Unpaired { base: vec![1.0; 8], head: vec![1.2; 8] });
        assert_eq!(comparison.size(), 8);
    }

    #[test]
    fn a_rise_from_zero_is_a_hundred_percent() {
        let zero = side(1..6, &[0.0; 5]);
        let head = side(1..6, &[4.0; 5]);
        assert_eq!(compare(&zero, &head).sample, Sample::Paired(vec![1.0; 5]));
        let mixed = side(1..6, &[0.0, 10.0, 0.0, 10.0, 5.0]);
        let head = side(1..6, &[1.0, 11.0, 1.0, 11.0, 6.0]);
        assert_eq!(compare(&mixed, &head).sample, Sample::Paired(vec![0.2; 5]));
    }

    #[test]
    fn a_head_that_does_not_finish_or_loses_its_value_is_worse() {
        let base = side(1..7, &[10.0; 6]);
        let mut head = side(1..7, &[11.0; 6]);
        let values = head.values.get_mut(METRIC).expect("the metric has values");
        (values[0], values[1]) = (None, None);
        head.at_least.insert(METRIC.into(), vec![Some(30.0), None, None, None, None, None]);
        let comparison = compare(&base, &head);
        assert!(comparison.is_incomplete);
        assert_eq!((comparison.one_sided, comparison.size()), (1, 6));
        let Sample::Paired(differences) = comparison.sample else { panic!("{comparison:?}") };
        // First the lower bound, then the other seeds, and last the lost value.
        assert_eq!((differences[0], differences[5]), (2.0, 1.0));
        let gained = compare(&head, &base);
        assert!(!gained.is_incomplete && gained.one_sided == 2, "{gained:?}");
    }
}
