//! Numbers from samples: percentiles that the samples can carry, means over seeds with their interval, fairness.
//!
//! Nothing is interpolated and nothing is thinned: a percentile is one of the samples. What cannot be said is `None`, never a zero.

use serde::{Deserialize, Serialize};

/// The samples that must lie beyond a percentile before it says more than which of them came first.
const BEYOND: usize = 10;

/// The percentile `p` of sorted samples, by nearest rank: the smallest sample that at least the share `p` of all do not exceed.
/// `p` is a share, so 0.999 is p99.9; 0 gives the smallest sample and 1 the largest. `None` without samples.
///
/// # Panics
/// If `p` is not within 0 and 1. In debug builds also if the samples are not sorted.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&p), "the percentile {p} is not within 0 and 1");
    debug_assert!(sorted.is_sorted(), "percentiles are taken of sorted samples");
    let rank = rank_of(sorted.len(), p);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Sorts samples and takes some percentiles of them, each as [`percentile`] does.
///
/// # Panics
/// If one of `ps` is not within 0 and 1.
pub fn percentiles(samples: &mut [f64], ps: &[f64]) -> Option<Vec<f64>> {
    samples.sort_unstable_by(f64::total_cmp);
    ps.iter().map(|p| percentile(samples, *p)).collect()
}

/// Whether `n` samples can carry the percentile `p`: whether ten of them lie beyond it, `n (1 - p) >= 10`. So p50 needs 20 samples, p99
/// a thousand and p99.9 ten thousand.
pub fn can_carry(p: f64, n: usize) -> bool {
    // Divided and not multiplied: 1 - 0.9999 is below 0.0001 in binary, and 100,000 samples would not do.
    n > BEYOND && (n - BEYOND) as f64 / n as f64 >= p
}

/// The smallest of the ranks 1 to `n` that is at least the share `p` of `n`; zero if `n` is.
pub(crate) fn rank_of(n: usize, p: f64) -> usize {
    // Searched and not multiplied: 0.07 * 100 is above 7 in binary, but 7 / 100 is the same number as 0.07.
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

/// The mean; `None` without samples.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The standard deviation of what the samples are drawn from: the sum of squares is divided by one less than their number.
/// `None` below two samples.
pub fn standard_deviation(samples: &[f64]) -> Option<f64> {
    let mean = mean(samples)?;
    // Deviations first, squares then: the difference of two large sums would leave nothing.
    let squares: f64 = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum();
    (samples.len() > 1).then(|| (squares / (samples.len() - 1) as f64).sqrt())
}

/// A mean over seeds and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the 95 % interval by Student's distribution; `None` of a single value, which says nothing about its spread.
    pub half: Option<f64>,
    /// How many values.
    pub n: usize,
    /// The 95 % interval of a percentile over the messages of all seeds, by drawing seeds again; `half` is half its width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The same percentile in the seed where it is least and where it is largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
}

impl Estimate {
    /// Of one value per seed; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let half = standard_deviation(values)
            .map(|deviation| student_quantile(n - 1) * deviation / (n as f64).sqrt());
        Some(Self { mean: mean(values)?, half, n, interval: None, spread: None })
    }
}

/// Jain's index of rates: 1 if all are equal, 1/n if one has everything. Rates that are all zero are equal. `None` without rates.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    match rates.len() {
        0 => None,
        _ if squares == 0.0 => Some(1.0),
        n => Some(sum * sum / (n as f64 * squares)),
    }
}

/// Spearman's rank correlation: 1 where one list rises with the other, -1 where it falls. Equal values share their mean rank. `None` below two
/// pairs, or where all values of a list are equal.
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

/// The rank of each value, from one; equal ones share their mean.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let alike = order[first..].iter().take_while(|i| values[**i] == values[order[first]]).count();
        // Ranks first + 1 to first + alike.
        let shared = first as f64 + (alike as f64 + 1.0) / 2.0;
        order[first..first + alike].iter().for_each(|i| ranks[*i] = shared);
        first += alike;
    }
    ranks
}

/// The geometric mean: how ratios are averaged. `None` without samples, or if one is not above zero.
pub fn geometric_mean(samples: &[f64]) -> Option<f64> {
    if samples.iter().any(|sample| sample.is_nan() || *sample <= 0.0) {
        return None;
    }
    let logarithms: Vec<f64> = samples.iter().map(|sample| libm::log(*sample)).collect();
    mean(&logarithms).map(libm::exp)
}

/// The quantile 0.975 of Student's distribution: what half a 95 % interval is in standard errors.
fn student_quantile(degrees_of_freedom: usize) -> f64 {
    if let Some(quantile) = degrees_of_freedom.checked_sub(1).and_then(|row| STUDENT.get(row)) {
        return *quantile;
    }
    // Abramowitz and Stegun 26.7.5: the normal quantile z and four terms in 1 / degrees of freedom. Error below 1e-7 from 31 on.
    let z = NORMAL;
    let by = 1.0 / degrees_of_freedom as f64;
    let powers = |coefficients: [f64; 5]| coefficients.iter().rfold(0.0, |sum, c| sum * z * z + c) * z;
    let terms = [
        powers([1.0, 1.0, 0.0, 0.0, 0.0]) / 4.0,
        powers([3.0, 16.0, 5.0, 0.0, 0.0]) / 96.0,
        powers([-15.0, 17.0, 19.0, 3.0, 0.0]) / 384.0,
        powers([-945.0, -1_920.0, 1_482.0, 776.0, 79.0]) / 92_160.0,
    ];
    z + terms.iter().rfold(0.0, |sum, term| (sum + term) * by)
}

/// The quantile 0.975 of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The quantile 0.975 for 1 to 30 degrees of freedom, to ten digits. A test integrates the density up to each.
const STUDENT: [f64; 30] = [
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

    #[test]
    fn ranks_agree_or_not() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[10.0, 100.0, 1e6]), Some(1.0));
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(rank_correlation(&[1.0, 1.0, 1.0], &[3.0, 2.0, 1.0]), None, "all alike");
        // Ranks 1.5, 1.5, 3.5, 3.5 against 1, 2, 3, 4: 4 / sqrt(4 * 5).
        let tied = rank_correlation(&[0.0, 0.0, 1.0, 1.0], &[1.0, 2.0, 3.0, 4.0]).expect("four pairs");
        assert!((tied - 4.0 / 20.0_f64.sqrt()).abs() < 1e-12, "{tied}");
    }
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
    }

    #[test]
    fn percentiles_of_one_to_a_hundred_are_themselves() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        for share in 1..=100 {
            // 0.07, 0.14, 0.28 and some more are above a whole number when they are multiplied by 100 in binary.
            assert_eq!(percentile(&sorted, f64::from(share) / 100.0), Some(f64::from(share)));
        }
        assert_eq!(percentile(&sorted, 0.0), Some(1.0));
        assert_eq!(percentile(&sorted, 0.999), Some(100.0));
        assert_eq!(percentile(&sorted[..3], 0.5), Some(2.0));
        assert_eq!(percentile(&sorted[..4], 0.5), Some(2.0), "the lower of two middles");
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn percentiles_do_not_need_an_order() {
        let mut samples = [3.0, 1.0, 2.0, 5.0, 4.0];
        assert_eq!(percentiles(&mut samples, &[0.5, 1.0, 0.2]), Some(vec![3.0, 5.0, 1.0]));
        assert_eq!(percentiles(&mut [], &[0.5]), None);
    }

    #[test]
    fn ten_samples_must_lie_beyond_a_percentile() {
        for (p, needed) in [(0.5, 20), (0.9, 100), (0.99, 1_000), (0.999, 10_000), (0.9999, 100_000)] {
            assert!(can_carry(p, needed), "{p}");
            assert!(!can_carry(p, needed - 1), "{p}");
        }
        assert!(!can_carry(0.0, 10) && can_carry(0.0, 11));
        assert!(!can_carry(0.5, 0) && !can_carry(1.0, usize::MAX >> 12));
    }

    #[test]
    fn the_estimate_of_a_textbook() {
        // Mean 5, squares 32 over 7.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let deviation = (32.0f64 / 7.0).sqrt();
        assert!(close(standard_deviation(&values).unwrap(), deviation));
        let estimate = Estimate::of(&values).unwrap();
        assert_eq!((estimate.mean, estimate.n), (5.0, 8));
        assert!(close(estimate.half.unwrap(), 2.364_624_252 * deviation / 8.0f64.sqrt()));
        let single = Estimate { mean: 3.0, half: None, n: 1, interval: None, spread: None };
        assert_eq!(Estimate::of(&[3.0]), Some(single));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn deviations_survive_a_large_mean() {
        let samples = [1e12 + 1.0, 1e12 + 2.0, 1e12 + 3.0];
        assert_eq!(standard_deviation(&samples), Some(1.0));
    }

    /// The share of Student's distribution up to `t`, by Simpson's rule on its density.
    fn student_share(degrees_of_freedom: usize, t: f64) -> f64 {
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
    fn quantiles_of_students_distribution_leave_a_fortieth_above() {
        let (tangent, root) =
            ((0.475 * core::f64::consts::PI).tan(), 0.95 * (2.0f64 / (1.0 - 0.95 * 0.95)).sqrt());
        assert!(close(student_quantile(1), tangent) && close(student_quantile(2), root));
        for degrees in (1..=60).chain([100, 1_000, 100_000]) {
            let share = student_share(degrees, student_quantile(degrees));
            assert!((share - 0.975).abs() < 1e-8, "{degrees}: {share}");
        }
        // Tables print 2.0395 for 31, 2.0211 for 40, 2.0003 for 60.
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
        for refused in [&[][..], &[0.0], &[1.0, -1.0], &[f64::NAN]] {
            assert_eq!(geometric_mean(refused), None);
        }
    }

    proptest! {
        #[test]
        fn at_least_the_share_does_not_exceed_a_percentile_and_less_is_below(
            mut samples in prop::collection::vec(-1e9..1e9f64, 1..200), p in 0.0..=1.0f64,
        ) {
            let found = percentiles(&mut samples, &[p]).unwrap()[0];
            let n = samples.len() as f64;
            let up_to = samples.iter().filter(|sample| **sample <= found).count() as f64;
            let below = samples.iter().filter(|sample| **sample < found).count() as f64;
            prop_assert!(samples.contains(&found));
            prop_assert!(up_to / n >= p);
            prop_assert!(below == 0.0 || below / n < p);
        }

        #[test]
        fn what_more_samples_carry_they_carry_with_more(p in 0.0..1.0f64, n in 0usize..100_000) {
            prop_assert!(!can_carry(p, n) || can_carry(p, n + 1));
        }

        #[test]
        fn an_estimate_moves_and_scales_with_its_values(
            values in prop::collection::vec(1.0..1e3f64, 2..40), by in 1.0..100.0f64, shift in 0.0..1e3f64,
        ) {
            let before = Estimate::of(&values).unwrap();
            let moved: Vec<f64> = values.iter().map(|value| value * by + shift).collect();
            let after = Estimate::of(&moved).unwrap();
            prop_assert!((after.mean - (before.mean * by + shift)).abs() < 1e-9 * after.mean);
            prop_assert!((after.half.unwrap() - before.half.unwrap() * by).abs() < 1e-9 * after.mean);
        }

        #[test]
        fn jains_index_knows_no_unit_and_stays_in_its_range(
            rates in prop::collection::vec(0.0..1e11f64, 1..50), by in 1e-9..1e3f64,
        ) {
            let index = jain(&rates).unwrap();
            let scaled: Vec<f64> = rates.iter().map(|rate| rate * by).collect();
            prop_assert!(close(index, jain(&scaled).unwrap()));
            prop_assert!(index >= 1.0 / rates.len() as f64 - 1e-12 && index <= 1.0 + 1e-12);
        }

        #[test]
        fn means_are_in_order(samples in prop::collection::vec(1e-3..1e6f64, 1..50)) {
            let (geometric, mean) = (geometric_mean(&samples).unwrap(), mean(&samples).unwrap());
            let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(least <= geometric * (1.0 + 1e-12) && geometric <= mean * (1.0 + 1e-12));
        }
    }
}
