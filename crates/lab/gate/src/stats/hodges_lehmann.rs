//! The Hodges-Lehmann estimate of paired differences, and its exact one-sided bounds.
//!
//! The estimate is the median of the `k (k + 1) / 2` Walsh averages, the means of all pairs of differences. The bounds
//! are Walsh averages whose ranks follow from the exact distribution of Wilcoxon's signed-rank statistic.

use super::median_of_sorted;

/// Returns the Hodges-Lehmann estimate, or `None` if there are no differences.
pub fn hodges_lehmann(differences: &[f64]) -> Option<f64> {
    median_of_sorted(&walsh_averages(differences))
}

/// Returns the upper bound of the median difference. The true value exceeds it with a probability of at most `alpha`.
/// Returns `None` if there are too few differences for this `alpha`.
pub fn upper_bound(differences: &[f64], alpha: f64) -> Option<f64> {
    let averages = walsh_averages(differences);
    let count = signed_rank_critical_count(differences.len(), alpha)?;
    averages.get(averages.len().checked_sub(1 + count)?).copied()
}

/// Returns the lower bound of the median difference, see [`upper_bound`].
pub fn lower_bound(differences: &[f64], alpha: f64) -> Option<f64> {
    let count = signed_rank_critical_count(differences.len(), alpha)?;
    walsh_averages(differences).get(count).copied()
}

/// Returns the largest `c` for which the signed-rank statistic of `pairs` differences is at most `c` with a probability
/// of at most `alpha`. Returns `None` if zero is already more likely than that.
pub fn signed_rank_critical_count(pairs: usize, alpha: f64) -> Option<usize> {
    if pairs == 0 || pairs > super::MAX_PAIRS {
        return None;
    }
    // The number of subsets of the ranks 1 to `pairs` with each sum.
    let mut subsets = vec![0_u64; pairs * (pairs + 1) / 2 + 1];
    subsets[0] = 1;
    for rank in 1..=pairs {
        for sum in (rank..subsets.len()).rev() {
            subsets[sum] += subsets[sum - rank];
        }
    }
    let all = libm::exp2(pairs as f64);
    let mut below = 0;
    let is_rare = |count: &&u64| {
        below += **count;
        below as f64 / all <= alpha
    };
    subsets.iter().take_while(is_rare).count().checked_sub(1)
}

/// Returns the sorted means of all pairs of differences, including each difference with itself.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let pairs = |(i, first): (usize, &f64)| -> Vec<f64> {
        differences[i..].iter().map(|second| first.midpoint(*second)).collect()
    };
    let mut averages: Vec<f64> = differences.iter().enumerate().flat_map(pairs).collect();
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn critical_counts_match_published_tables() {
        // One-sided 5 % points of Wilcoxon's signed-rank statistic.
        for (pairs, count) in [(5, 0), (6, 2), (7, 3), (8, 5), (9, 8), (10, 10), (12, 17), (15, 30), (20, 60)]
        {
            assert_eq!(signed_rank_critical_count(pairs, 0.05), Some(count), "{pairs} pairs");
        }
        assert_eq!(signed_rank_critical_count(4, 0.05), None);
        assert_eq!(signed_rank_critical_count(5, 1.0 / 32.0), Some(0));
        assert_eq!(signed_rank_critical_count(0, 0.5), None);
    }

    #[test]
    fn estimate_and_bounds_are_walsh_averages() {
        let differences = [1.0, 2.0, 4.0];
        assert_eq!(walsh_averages(&differences), [1.0, 1.5, 2.0, 2.5, 3.0, 4.0]);
        assert_eq!(hodges_lehmann(&differences), Some(2.25));
        let differences = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(hodges_lehmann(&differences), Some(3.0));
        // With five differences, the 5 % bounds are the largest and the smallest Walsh average.
        assert_eq!(
            (lower_bound(&differences, 0.05), upper_bound(&differences, 0.05)),
            (Some(1.0), Some(5.0))
        );
        assert_eq!(upper_bound(&differences[..4], 0.05), None);
        assert_eq!(hodges_lehmann(&[]), None);
    }

    /// Returns the share of all sign patterns of `1..=pairs` whose signed-rank sum is at most `limit`.
    fn enumerated_share(pairs: u32, limit: u32) -> f64 {
        let sum = |pattern: u32| (1..=pairs).filter(|rank| pattern >> (rank - 1) & 1 == 1).sum::<u32>();
        (0..1_u32 << pairs).filter(|pattern| sum(*pattern) <= limit).count() as f64
            / f64::from(1_u32 << pairs)
    }

    proptest! {
        #[test]
        fn the_critical_count_is_the_largest_that_alpha_allows(pairs in 1..13_u32, alpha in 0.0..0.5_f64) {
            match signed_rank_critical_count(pairs as usize, alpha) {
                Some(count) => {
                    let count = u32::try_from(count).unwrap();
                    prop_assert!(enumerated_share(pairs, count) <= alpha);
                    prop_assert!(enumerated_share(pairs, count + 1) > alpha);
                }
                None => prop_assert!(enumerated_share(pairs, 0) > alpha),
            }
        }

        #[test]
        fn estimate_and_bounds_move_with_the_differences(
            differences in prop::collection::vec(-100..100_i32, 6..20), shift in -50..50_i32,
        ) {
            let [differences, moved] =
                [0, shift].map(|by| differences.iter().map(|d| f64::from(d + by)).collect::<Vec<f64>>());
            let shift = f64::from(shift);
            prop_assert_eq!(hodges_lehmann(&moved), hodges_lehmann(&differences).map(|value| value + shift));
            prop_assert_eq!(upper_bound(&moved, 0.05), upper_bound(&differences, 0.05).map(|value| value + shift));
            let (low, high) = (lower_bound(&moved, 0.05).unwrap(), upper_bound(&moved, 0.05).unwrap());
            prop_assert!((low..=high).contains(&hodges_lehmann(&moved).unwrap()));
        }
    }
}
