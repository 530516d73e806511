//! Sample statistics: percentiles, means over seeds with confidence intervals, and fairness.
//!
//! Percentiles are not interpolated: every percentile is one of the samples. If there are too few samples, the result
//! is `None`, never zero.

use serde::{Deserialize, Serialize};

/// The number of samples that must lie beyond a percentile. With fewer samples, the percentile would depend on a few
/// outliers.
const MIN_SAMPLES_BEYOND: usize = 10;

/// Returns the percentile `p` of sorted samples by nearest rank: the smallest sample that is at least as large as
/// the fraction `p` of all samples. For example, 0.999 is p99.9, 0 is the minimum and 1 is the maximum. Returns
/// `None` if there are no samples.
///
/// # Panics
/// Panics if `p` is not between 0 and 1. Debug builds also panic if the samples are not sorted.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&p), "the percentile {p} is not between 0 and 1");
    debug_assert!(sorted.is_sorted(), "the samples must be sorted");
    let rank = rank_of(sorted.len(), p);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Sorts samples and returns several of their percentiles. See [`percentile`].
///
/// # Panics
/// Panics if any of `ps` is not between 0 and 1.
pub fn percentiles(samples: &mut [f64], ps: &[f64]) -> Option<Vec<f64>> {
    samples.sort_unstable_by(f64::total_cmp);
    ps.iter().map(|p| percentile(samples, *p)).collect()
}

/// Returns whether `n` samples support the percentile `p`: at least ten samples must lie beyond it, `n (1 - p) >=
/// 10`. So p50 needs 20 samples, p99 needs a thousand and p99.9 needs ten thousand.
pub fn supports_percentile(p: f64, n: usize) -> bool {
    // Multiplying would be wrong: in binary, 1 - 0.9999 is slightly below 0.0001, so 100,000 samples would not suffice.
    n > MIN_SAMPLES_BEYOND && (n - MIN_SAMPLES_BEYOND) as f64 / n as f64 >= p
}

/// Returns the smallest rank from 1 to `n` that is at least `p` times `n`, or zero if `n` is zero.
pub(crate) fn rank_of(n: usize, p: f64) -> usize {
    // Multiplying would be wrong: in binary, 0.07 * 100 is slightly above 7, but 7 / 100 equals 0.07.
    let (mut low, mut high) = (n.min(1), n);
    while low < high {
        let middle = low.midpoint(high);
        if middle as f64 / n as f64 >= p {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Returns the mean, or `None` if there are no samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// Returns the sample standard deviation, with `n - 1` in the denominator. Returns `None` for fewer than two samples.
pub fn standard_deviation(samples: &[f64]) -> Option<f64> {
    let mean = mean(samples)?;
    // The two-pass formula avoids cancellation between two large sums.
    let squares: f64 = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum();
    (samples.len() > 1).then(|| (squares / (samples.len() - 1) as f64).sqrt())
}

/// A mean over seeds and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval, from Student's t-distribution; `None` for a single value.
    pub half: Option<f64>,
    /// The number of values.
    pub n: usize,
    /// The 95 % bootstrap interval of a percentile over the messages of all seeds; `half` is half its width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The smallest and largest values of this percentile among single seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
}

impl Estimate {
    /// Estimates the mean from one value per seed; `None` if there are no values.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let half = standard_deviation(values)
            .map(|deviation| student_quantile(n - 1) * deviation / (n as f64).sqrt());
        Some(Self { mean: mean(values)?, half, n, interval: None, spread: None })
    }
}

/// Returns Jain's fairness index: 1 if all rates are equal, 1/n if one flow has all the bandwidth. If all rates are
/// zero, the index is 1. Returns `None` if there are no rates.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    match rates.len() {
        0 => None,
        _ if squares == 0.0 => Some(1.0),
        n => Some(sum * sum / (n as f64 * squares)),
    }
}

/// Returns Spearman's rank correlation: 1 if both lists rise together, -1 if one rises as the other falls. Equal values
/// share their mean rank. Returns `None` for fewer than two pairs, or if all values in a list are equal.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 + 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum() };
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    (scale > 0.0).then(|| product(&a, &b) / scale)
}

/// Returns the rank of each value, counted from one. Equal values share their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let equal = order[first..].iter().take_while(|i| values[**i] == values[order[first]]).count();
        // Equal values occupy the ranks first + 1 to first + equal.
        let shared = first as f64 + (equal as f64 + 1.0) / 2.0;
        order[first..first + equal].iter().for_each(|i| ranks[*i] = shared);
        first += equal;
    }
    ranks
}

/// Returns the geometric mean, which is the right average for ratios. Returns `None` if there are no samples or if any
/// sample is not positive.
pub fn geometric_mean(samples: &[f64]) -> Option<f64> {
    if samples.iter().any(|sample| sample.is_nan() || *sample <= 0.0) {
        return None;
    }
    let logarithms: Vec<f64> = samples.iter().map(|sample| libm::log(*sample)).collect();
    mean(&logarithms).map(libm::exp)
}

/// Returns the 0.975 quantile of Student's t-distribution, which is half the width of a 95 % confidence interval in
/// standard errors.
fn student_quantile(degrees_of_freedom: usize) -> f64 {
    if let Some(quantile) = degrees_of_freedom.checked_sub(1).and_then(|row| STUDENT_QUANTILES.get(row)) {
        return *quantile;
    }
    // Abramowitz and Stegun 26.7.5: the normal quantile z and four terms in 1 / degrees of freedom. The error is
    // below 1e-7 for 31 or more degrees of freedom.
    let z = NORMAL_QUANTILE;
    let inverse = 1.0 / degrees_of_freedom as f64;
    let powers = |coefficients: [f64; 5]| coefficients.iter().rfold(0.0, |sum, c| sum * z * z + c) * z;
    let terms = [
        powers([1.0, 1.0, 0.0, 0.0, 0.0]) / 4.0,
        powers([3.0, 16.0, 5.0, 0.0, 0.0]) / 96.0,
        powers([-15.0, 17.0, 19.0, 3.0, 0.0]) / 384.0,
        powers([-945.0, -1_920.0, 1_482.0, 776.0, 79.0]) / 92_160.0,
    ];
    z + terms.iter().rfold(0.0, |sum, term| (sum + term) * inverse)
}

/// The 0.975 quantile of the normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_963_984_540_054;

/// The 0.975 quantiles of Student's t-distribution for 1 to 30 degrees of freedom, to ten digits. A test verifies these
/// values by integrating the density.
const STUDENT_QUANTILES: [f64; 30] = [
    12.706_204_74,
    4.302_652_73,
    3.182_446_305,
    2.776_445_105,
    2.570_581_836,
    2.446_911_851,
    2.364_624_252,
    2.306_004_135,
    2.262_157_163,
    2.228_138_852,
    2.200_985_16,
    2.178_812_83,
    2.160_368_656,
    2.144_786_688,
    2.131_449_546,
    2.119_905_299,
    2.109_815_578,
    2.100_922_04,
    2.093_024_054,
    2.085_963_447,
    2.079_613_845,
    2.073_873_068,
    2.068_657_61,
    2.063_898_562,
    2.059_538_553,
    2.055_529_439,
    2.051_830_516,
    2.048_407_142,
    2.045_229_642,
    2.042_272_456,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rank_correlation_follows_the_order() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[10.0, 100.0, 1e6]), Some(1.0));
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(rank_correlation(&[1.0, 1.0, 1.0], &[3.0, 2.0, 1.0]), None, "all values are equal");
        // Ranks 1.5, 1.5, 3.5, 3.5 against 1, 2, 3, 4: 4 / sqrt(4 * 5).
        let tied =
            rank_correlation(&[0.0, 0.0, 1.0, 1.0], &[1.0, 2.0, 3.0, 4.0]).expect("there are four pairs");
        assert!((tied - 4.0 / 20.0_f64.sqrt()).abs() < 1e-12, "{tied}");
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
    }

    #[test]
    fn percentiles_of_one_to_a_hundred_are_themselves() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        for share in 1..=100 {
            // In binary, 100 times 0.07, 0.14, 0.28 and some other values is slightly above an integer.
            assert_eq!(percentile(&sorted, f64::from(share) / 100.0), Some(f64::from(share)));
        }
        assert_eq!(percentile(&sorted, 0.0), Some(1.0));
        assert_eq!(percentile(&sorted, 0.999), Some(100.0));
        assert_eq!(percentile(&sorted[..3], 0.5), Some(2.0));
        assert_eq!(percentile(&sorted[..4], 0.5), Some(2.0), "the lower of the two middle samples");
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn percentiles_sort_their_samples() {
        let mut samples = [3.0, 1.0, 2.0, 5.0, 4.0];
        assert_eq!(percentiles(&mut samples, &[0.5, 1.0, 0.2]), Some(vec![3.0, 5.0, 1.0]));
        assert_eq!(percentiles(&mut [], &[0.5]), None);
    }

    #[test]
    fn ten_samples_must_lie_beyond_a_percentile() {
        for (p, needed) in [(0.5, 20), (0.9, 100), (0.99, 1_000), (0.999, 10_000), (0.9999, 100_000)] {
            assert!(supports_percentile(p, needed), "{p}");
            assert!(!supports_percentile(p, needed - 1), "{p}");
        }
        assert!(!supports_percentile(0.0, 10) && supports_percentile(0.0, 11));
        assert!(!supports_percentile(0.5, 0) && !supports_percentile(1.0, usize::MAX >> 12));
    }

    #[test]
    fn an_estimate_matches_a_textbook_example() {
        // The mean is 5 and the variance is 32/7.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let deviation = (32.0f64 / 7.0).sqrt();
        assert!(close(standard_deviation(&values).unwrap(), deviation));
        let estimate = Estimate::from_values(&values).unwrap();
        assert_eq!((estimate.mean, estimate.n), (5.0, 8));
        assert!(close(estimate.half.unwrap(), 2.364_624_252 * deviation / 8.0f64.sqrt()));
        let single = Estimate { mean: 3.0, half: None, n: 1, interval: None, spread: None };
        assert_eq!(Estimate::from_values(&[3.0]), Some(single));
        assert_eq!(Estimate::from_values(&[]), None);
    }

    #[test]
    fn the_standard_deviation_is_accurate_for_a_large_mean() {
        let samples = [1e12 + 1.0, 1e12 + 2.0, 1e12 + 3.0];
        assert_eq!(standard_deviation(&samples), Some(1.0));
    }

    /// Returns Student's cumulative distribution function at `t`, by applying Simpson's rule to the density.
    fn student_cdf(degrees_of_freedom: usize, t: f64) -> f64 {
        let v = degrees_of_freedom as f64;
        let scale = (libm::lgamma((v + 1.0) / 2.0) - libm::lgamma(v / 2.0)).exp();
        let density = |x: f64| (1.0 + x * x / v).powf(-(v + 1.0) / 2.0);
        let steps = 20_000;
        let step = t / f64::from(steps);
        let weighted = |i: i32| {
            let weight = if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
            weight * density(f64::from(i) * step)
        };
        0.5 + scale / (v * core::f64::consts::PI).sqrt() * (0..=steps).map(weighted).sum::<f64>() * step / 3.0
    }

    #[test]
    fn students_distribution_has_2_5_percent_above_the_quantile() {
        let (tangent, root) =
            ((0.475 * core::f64::consts::PI).tan(), 0.95 * (2.0f64 / (1.0 - 0.95 * 0.95)).sqrt());
        assert!(close(student_quantile(1), tangent) && close(student_quantile(2), root));
        for degrees in (1..=60).chain([100, 1_000, 100_000]) {
            let share = student_cdf(degrees, student_quantile(degrees));
            assert!((share - 0.975).abs() < 1e-8, "{degrees}: {share}");
        }
        // Published tables list 2.0395 for 31, 2.0211 for 40 and 2.0003 for 60 degrees of freedom.
        for (degrees, table) in [(31, 2.039_513_446), (40, 2.021_075_390), (60, 2.000_297_822)] {
            assert!((student_quantile(degrees) - table).abs() < 1e-7, "{degrees}");
        }
        assert!((1..2_000).is_sorted_by(|a, b| student_quantile(*a) > student_quantile(*b)));
    }

    #[test]
    fn jains_index_of_k_equal_rates_among_n_is_k_over_n() {
        for (k, n) in [(1, 1), (1, 8), (3, 4), (8, 8)] {
            let rates: Vec<f64> = (0..n).map(|i| if i < k { 12.5e9 } else { 0.0 }).collect();
            assert!(close(jain(&rates).unwrap(), f64::from(k) / f64::from(n)));
        }
        assert_eq!((jain(&[]), jain(&[0.0, 0.0])), (None, Some(1.0)));
    }

    #[test]
    fn a_ratio_and_its_inverse_average_to_one() {
        assert!(close(geometric_mean(&[4.0, 0.25]).unwrap(), 1.0));
        assert!(close(geometric_mean(&[2.0, 4.0, 8.0]).unwrap(), 4.0));
        for samples in [&[][..], &[0.0], &[1.0, -1.0], &[f64::NAN]] {
            assert_eq!(geometric_mean(samples), None);
        }
    }

    proptest! {
        #[test]
        fn a_percentile_has_its_share_of_samples_at_or_below_it(
            mut samples in prop::collection::vec(-1e9..1e9f64, 1..200), p in 0.0..=1.0f64,
        ) {
            let found = percentiles(&mut samples, &[p]).unwrap()[0];
            let n = samples.len() as f64;
            let at_or_below = samples.iter().filter(|sample| **sample <= found).count() as f64;
            let below = samples.iter().filter(|sample| **sample < found).count() as f64;
            prop_assert!(samples.contains(&found));
            prop_assert!(at_or_below / n >= p);
            prop_assert!(below == 0.0 || below / n < p);
        }

        #[test]
        fn more_samples_support_every_percentile_that_fewer_samples_support(p in 0.0..1.0f64, n in 0usize..100_000) {
            prop_assert!(!supports_percentile(p, n) || supports_percentile(p, n + 1));
        }

        #[test]
        fn an_estimate_shifts_and_scales_with_its_values(
            values in prop::collection::vec(1.0..1e3f64, 2..40), factor in 1.0..100.0f64, shift in 0.0..1e3f64,
        ) {
            let before = Estimate::from_values(&values).unwrap();
            let transformed: Vec<f64> = values.iter().map(|value| value * factor + shift).collect();
            let after = Estimate::from_values(&transformed).unwrap();
            prop_assert!((after.mean - (before.mean * factor + shift)).abs() < 1e-9 * after.mean);
            prop_assert!((after.half.unwrap() - before.half.unwrap() * factor).abs() < 1e-9 * after.mean);
        }

        #[test]
        fn jains_index_is_independent_of_the_unit_and_in_range(
            rates in prop::collection::vec(0.0..1e11f64, 1..50), factor in 1e-9..1e3f64,
        ) {
            let index = jain(&rates).unwrap();
            let scaled: Vec<f64> = rates.iter().map(|rate| rate * factor).collect();
            prop_assert!(close(index, jain(&scaled).unwrap()));
            prop_assert!(index >= 1.0 / rates.len() as f64 - 1e-12 && index <= 1.0 + 1e-12);
        }

        #[test]
        fn the_geometric_mean_is_between_the_minimum_and_the_mean(samples in prop::collection::vec(1e-3..1e6f64, 1..50)) {
            let (geometric, mean) = (geometric_mean(&samples).unwrap(), mean(&samples).unwrap());
            let minimum = samples.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(minimum <= geometric * (1.0 + 1e-12) && geometric <= mean * (1.0 + 1e-12));
        }
    }
}
