//! The Mann-Whitney test of two independent samples, and the shift between them.
//!
//! With at most 400 pairs of values, the distribution is exact, with ties too: all assignments of the observed ranks to
//! the samples are counted. Above that, it is the normal approximation with tie and continuity correction.

use super::median_of_sorted;

/// The largest product of sample sizes for which the distribution is exact.
const MAX_EXACT: usize = 400;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// The one-sided p-value of "the second sample is larger".
    pub p: f64,
    /// The number of pairs in which the second value is larger. A tie counts one half.
    pub u: f64,
    /// Cliff's delta: `u` scaled to the range from -1 to 1.
    pub cliffs_delta: f64,
}

/// Tests whether `second` is larger than `first`. Returns `None` if a sample is empty or has a value that is not finite.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<MannWhitney> {
    if first.is_empty() || second.is_empty() || first.iter().chain(second).any(|value| !value.is_finite()) {
        return None;
    }
    let ranks = doubled_ranks(first, second);
    let (n, m) = (first.len(), second.len());
    let doubled_sum: usize = ranks[n..].iter().sum();
    let doubled_u = doubled_sum - m * (m + 1);
    let pairs = (n * m) as f64;
    let u = doubled_u as f64 / 2.0;
    let p = if n * m <= MAX_EXACT {
        exact_p(&ranks, n, doubled_sum)
    } else {
        let (mean, deviation) = normal_moments(&ranks, n, m);
        normal_tail((u - mean - 0.5) / deviation)
    };
    Some(MannWhitney { p, u, cliffs_delta: 2.0 * u / pairs - 1.0 })
}

/// Returns the Hodges-Lehmann shift: the median of all differences between a value of `second` and a value of `first`.
pub fn shift(first: &[f64], second: &[f64]) -> Option<f64> {
    median_of_sorted(&pairwise_differences(first, second))
}

/// Returns the lower and the upper bound of the shift. The true shift lies beyond each of them with a probability of at
/// most `alpha`. Returns `None` if there are too few values for this `alpha`.
pub fn shift_bounds(first: &[f64], second: &[f64], alpha: f64) -> Option<[f64; 2]> {
    let differences = pairwise_differences(first, second);
    let count = rank_sum_critical_count(first.len(), second.len(), alpha)?;
    let upper = differences.len().checked_sub(1 + count)?;
    Some([*differences.get(count)?, differences[upper]])
}

/// Returns the largest `c` for which U is at most `c` with a probability of at most `alpha`, for samples of these sizes
/// without ties. Returns `None` if zero is already more likely than that.
pub fn rank_sum_critical_count(n: usize, m: usize, alpha: f64) -> Option<usize> {
    if n == 0 || m == 0 {
        return None;
    }
    if n * m > MAX_EXACT {
        let ranks: Vec<usize> = (1..=n + m).map(|rank| 2 * rank).collect();
        let (mean, deviation) = normal_moments(&ranks, n, m);
        // P(U <= c) = P(U >= nm - c) by symmetry.
        let is_rare = |count: &usize| normal_tail((mean - *count as f64 - 0.5) / deviation) <= alpha;
        return (0..n * m).take_while(is_rare).count().checked_sub(1);
    }
    let ranks: Vec<usize> = (1..=n + m).collect();
    let size = n.min(m);
    let counts = rank_sums(&ranks, size);
    let all = counts.iter().sum::<u64>() as f64;
    let mut below = 0;
    let is_rare = |count: &&u64| {
        below += **count;
        below as f64 / all <= alpha
    };
    counts[size * (size + 1) / 2..].iter().take_while(is_rare).count().checked_sub(1)
}

/// Returns twice the rank of each value among all values, first the ranks of `first`. Equal values share their mean
/// rank, so the doubled rank is an integer.
fn doubled_ranks(first: &[f64], second: &[f64]) -> Vec<usize> {
    let values: Vec<f64> = first.iter().chain(second).copied().collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let tied = order[start..].iter().take_while(|i| values[**i] == values[order[start]]).count();
        // The tied values occupy the ranks start + 1 to start + tied.
        order[start..start + tied].iter().for_each(|i| ranks[*i] = 2 * start + tied + 1);
        start += tied;
    }
    ranks
}

/// Returns the share of assignments of the ranks for which the second sample has at least this doubled rank sum.
fn exact_p(doubled_ranks: &[usize], first_size: usize, doubled_sum: usize) -> f64 {
    let second_size = doubled_ranks.len() - first_size;
    let size = first_size.min(second_size);
    let counts = rank_sums(doubled_ranks, size);
    let total: usize = doubled_ranks.iter().sum();
    let all = counts.iter().sum::<u64>() as f64;
    let extreme: u64 = if second_size == size {
        counts[doubled_sum..].iter().sum()
    } else {
        // The second sample has at least this sum if the first has at most the rest.
        counts[..=total - doubled_sum].iter().sum()
    };
    extreme as f64 / all
}

/// Returns the number of subsets with `size` ranks for each sum of ranks.
fn rank_sums(ranks: &[usize], size: usize) -> Vec<u64> {
    let width = ranks.iter().sum::<usize>() + 1;
    let mut counts = vec![vec![0_u64; width]; size + 1];
    counts[0][0] = 1;
    for (number, rank) in ranks.iter().enumerate() {
        for taken in (1..=size.min(number + 1)).rev() {
            let (smaller, larger) = counts.split_at_mut(taken);
            for (sum, count) in smaller[taken - 1].iter().enumerate().filter(|(_, count)| **count > 0) {
                larger[0][sum + rank] += count;
            }
        }
    }
    counts.swap_remove(size)
}

/// Returns the mean and the standard deviation of U, with the correction for ties.
fn normal_moments(doubled_ranks: &[usize], n: usize, m: usize) -> (f64, f64) {
    let mut sorted = doubled_ranks.to_vec();
    sorted.sort_unstable();
    let ties: f64 = sorted.chunk_by(PartialEq::eq).map(|tied| tied.len() as f64).map(|t| t * t * t - t).sum();
    let [n, m] = [n, m].map(|size| size as f64);
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    (n * m / 2.0, variance.max(f64::MIN_POSITIVE).sqrt())
}

/// Returns the probability that a standard normal variable exceeds `z`.
fn normal_tail(z: f64) -> f64 {
    libm::erfc(z / core::f64::consts::SQRT_2) / 2.0
}

/// Returns all differences between a value of `second` and a value of `first`, sorted.
fn pairwise_differences(first: &[f64], second: &[f64]) -> Vec<f64> {
    let mut differences: Vec<f64> =
        second.iter().flat_map(|second| first.iter().map(move |first| second - first)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the p-value by listing all assignments of the values to the samples.
    fn enumerate(first: &[f64], second: &[f64]) -> f64 {
        let values: Vec<f64> = first.iter().chain(second).copied().collect();
        let u = |second: &[f64], first: &[f64]| -> f64 {
            let score = |a: f64, b: f64| {
                if a > b {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                }
            };
            second.iter().flat_map(|a| first.iter().map(move |b| score(*a, *b))).sum()
        };
        let observed = u(second, first);
        let (mut extreme, mut all) = (0, 0);
        for pattern in 0..1_u32 << values.len() {
            if pattern.count_ones() as usize != second.len() {
                continue;
            }
            let pick = |wanted: u32| -> Vec<f64> {
                let chosen = values.iter().enumerate().filter(|(i, _)| pattern >> i & 1 == wanted);
                chosen.map(|(_, value)| *value).collect()
            };
            all += 1;
            extreme += i32::from(u(&pick(1), &pick(0)) >= observed - 1e-9);
        }
        f64::from(extreme) / f64::from(all)
    }

    #[test]
    fn reference_values_are_exact() {
        let test = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).expect("both samples have values");
        assert_eq!((test.p, test.u, test.cliffs_delta), (0.05, 9.0, 1.0));
        let sample = |from: u32, count: u32| -> Vec<f64> { (from..from + count).map(f64::from).collect() };
        for (n, smallest) in [(3, 1.0 / 20.0), (4, 1.0 / 70.0), (5, 1.0 / 252.0), (8, 1.0 / 12_870.0)] {
            let p = mann_whitney(&sample(0, n), &sample(n, n)).expect("both samples have values").p;
            assert_eq!(p, smallest, "{n} + {n}");
        }
        let uneven = mann_whitney(&sample(0, 2), &sample(2, 6)).expect("both samples have values");
        assert_eq!(uneven.p, 1.0 / 28.0);
        assert_eq!(mann_whitney(&[1.0; 4], &[1.0; 4]).map(|test| test.p), Some(1.0));
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn critical_counts_match_published_tables() {
        // One-sided 5 % points of the Mann-Whitney U.
        for (n, m, count) in
            [(3, 3, 0), (4, 4, 1), (5, 5, 4), (8, 8, 15), (10, 10, 27), (20, 20, 138), (5, 10, 11)]
        {
            assert_eq!(rank_sum_critical_count(n, m, 0.05), Some(count), "{n} and {m}");
            assert_eq!(rank_sum_critical_count(m, n, 0.05), Some(count), "{m} and {n}");
        }
        assert_eq!(rank_sum_critical_count(2, 2, 0.05), None);
        // The normal approximation, next to the largest exact sizes.
        let [exact, normal] = [(20, 20), (20, 21)].map(|(n, m)| rank_sum_critical_count(n, m, 0.05).unwrap());
        assert!((138..=148).contains(&normal), "{exact} and {normal}");
    }

    #[test]
    fn bounds_of_a_shift_enclose_it() {
        let first = [1.0, 2.0, 3.0, 4.0, 5.0];
        let second = first.map(|value| value + 10.0);
        assert_eq!(shift(&first, &second), Some(10.0));
        // The 5 % points of 5 and 5 values are the fifth smallest and fifth largest of the 25 differences.
        assert_eq!(shift_bounds(&first, &second, 0.05), Some([8.0, 12.0]));
        assert_eq!(shift_bounds(&first[..2], &second[..2], 0.05), None);
    }

    #[test]
    fn the_normal_approximation_is_close_to_the_exact_test() {
        let sample =
            |offset: f64, n: u32| -> Vec<f64> { (0..n).map(|i| offset + f64::from(i * 7 % 23)).collect() };
        let (first, second) = (sample(0.0, 20), sample(3.0, 20));
        let exact = mann_whitney(&first, &second).expect("both samples have values");
        let ranks = doubled_ranks(&first, &second);
        let (mean, deviation) = normal_moments(&ranks, 20, 20);
        let normal = normal_tail((exact.u - mean - 0.5) / deviation);
        assert!((exact.p - normal).abs() < 0.005, "{} and {normal}", exact.p);
        let large = mann_whitney(&sample(0.0, 40), &sample(0.0, 40)).expect("both samples have values");
        assert!((large.p - 0.5).abs() < 0.01, "{}", large.p);
    }

    proptest! {
        #[test]
        fn counting_equals_enumeration(
            first in prop::collection::vec(0..6_i32, 1..6), second in prop::collection::vec(0..6_i32, 1..6),
        ) {
            let [first, second] = [first, second].map(|sample| sample.into_iter().map(f64::from).collect::<Vec<_>>());
            let test = mann_whitney(&first, &second).unwrap();
            prop_assert!((test.p - enumerate(&first, &second)).abs() < 1e-12);
            prop_assert!((-1.0..=1.0).contains(&test.cliffs_delta));
        }

        #[test]
        fn exchanged_samples_have_the_opposite_delta(
            first in prop::collection::vec(-9..9_i32, 1..15), second in prop::collection::vec(-9..9_i32, 1..15),
        ) {
            let [first, second] = [first, second].map(|sample| sample.into_iter().map(f64::from).collect::<Vec<_>>());
            let (forward, backward) = (mann_whitney(&first, &second).unwrap(), mann_whitney(&second, &first).unwrap());
            prop_assert!((forward.cliffs_delta + backward.cliffs_delta).abs() < 1e-12);
            prop_assert!(forward.p + backward.p >= 1.0 - 1e-9, "at least one direction is not rare");
        }
    }
}
