//! The sign-flip test of paired differences (Fisher and Pitman).
//!
//! If a change has no effect, both signs of each difference are equally likely. The p-value is the share of all `2^k`
//! sign patterns whose mean is at least the observed mean. All patterns are counted, none are sampled.

/// The largest number of pairs that can be tested. Counting takes `2^(k/2)` steps.
pub const MAX_PAIRS: usize = 40;

/// The largest difference, as an integer. Sums of 40 such integers fit in 64 bits.
const SCALE: f64 = (1_u64 << 40) as f64;

/// Returns the one-sided p-value of "the mean difference is above zero". Returns `None` if there are no differences,
/// more than [`MAX_PAIRS`], or if one is not finite.
///
/// Differences are rounded to 2^-40 of the largest one, so that sums are exact. Two sums count as equal if they differ
/// by no more than this rounding can explain, which can only increase the p-value.
pub fn sign_flip_p(differences: &[f64]) -> Option<f64> {
    let pairs = differences.len();
    if pairs == 0 || pairs > MAX_PAIRS || differences.iter().any(|difference| !difference.is_finite()) {
        return None;
    }
    let largest = differences.iter().fold(0.0_f64, |largest, difference| largest.max(difference.abs()));
    if largest == 0.0 {
        return Some(1.0);
    }
    let magnitudes: Vec<u64> =
        differences.iter().map(|difference| to_integer(difference.abs() / largest)).collect();
    let negative = magnitudes.iter().zip(differences).filter(|(_, difference)| **difference < 0.0);
    // A pattern's sum is at least the observed one if the sum of its negative magnitudes is at most the observed one.
    let limit = negative.map(|(magnitude, _)| magnitude).sum::<u64>() + pairs as u64;
    let (left, right) = magnitudes.split_at(pairs / 2);
    let count = count_sums_up_to(&subset_sums(left), &subset_sums(right), limit);
    Some(count as f64 / (1_u64 << pairs) as f64)
}

/// Returns the smallest p-value that a sign-flip test of this many pairs can have.
pub fn smallest_sign_flip_p(pairs: usize) -> f64 {
    libm::exp2(-(pairs as f64))
}

/// Rounds a share of the largest difference to an integer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the share is between 0 and 1")]
fn to_integer(share: f64) -> u64 {
    (share * SCALE).round() as u64
}

/// Returns the sums of all subsets, sorted.
fn subset_sums(values: &[u64]) -> Vec<u64> {
    let mut sums = vec![0];
    for value in values {
        let with_value: Vec<u64> = sums.iter().map(|sum| sum + value).collect();
        sums = merge(&sums, &with_value);
    }
    sums
}

/// Merges two sorted lists of equal length.
fn merge(left: &[u64], right: &[u64]) -> Vec<u64> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        if j == right.len() || i < left.len() && left[i] <= right[j] {
            merged.push(left[i]);
            i += 1;
        } else {
            merged.push(right[j]);
            j += 1;
        }
    }
    merged
}

/// Counts the pairs of sums, one from each sorted list, whose total is at most `limit`.
fn count_sums_up_to(left: &[u64], right: &[u64], limit: u64) -> u64 {
    let mut count = 0;
    let mut end = right.len();
    for sum in left {
        while end > 0 && sum + right[end - 1] > limit {
            end -= 1;
        }
        count += end as u64;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the p-value by listing all sign patterns.
    fn enumerate(differences: &[f64]) -> f64 {
        let observed: f64 = differences.iter().sum();
        let patterns = 1_u32 << differences.len();
        let is_extreme = |pattern: &u32| {
            let signed = differences.iter().enumerate().map(|(i, difference)| {
                if pattern >> i & 1 == 1 { -difference.abs() } else { difference.abs() }
            });
            signed.sum::<f64>() >= observed - 1e-9
        };
        (0..patterns).filter(is_extreme).count() as f64 / f64::from(patterns)
    }

    #[test]
    fn reference_values_are_exact() {
        assert_eq!(sign_flip_p(&[1.0, 2.0, 3.0, 4.0, 5.0]), Some(1.0 / 32.0));
        assert_eq!(sign_flip_p(&[-1.0, -2.0, -3.0]), Some(1.0));
        // Of the 8 patterns of 1, 2 and 4, those with the sums 7 and 5 are at least 5.
        assert_eq!(sign_flip_p(&[-1.0, 2.0, 4.0]), Some(2.0 / 8.0));
        assert_eq!(sign_flip_p(&[0.0, 0.0]), Some(1.0));
        for (pairs, smallest) in [(4, 0.0625), (5, 0.03125), (8, 0.003_906_25), (10, 0.000_976_562_5)] {
            assert_eq!(sign_flip_p(&vec![1.0; pairs]), Some(smallest));
            assert_eq!(smallest_sign_flip_p(pairs), smallest);
        }
        assert_eq!(sign_flip_p(&[0.25; 20]), Some(1.0 / 1_048_576.0));
        assert_eq!(sign_flip_p(&[1.0; MAX_PAIRS]), Some(smallest_sign_flip_p(MAX_PAIRS)));
    }

    #[test]
    fn equal_sums_count_despite_rounding() {
        // 0.1 + 0.2 and 0.3 differ in binary. Patterns with a sum of at least 0: all but those below it.
        assert_eq!(sign_flip_p(&[0.1, 0.2, -0.3]), Some(enumerate(&[1.0, 2.0, -3.0])));
        assert_eq!(sign_flip_p(&[0.1, 0.2, -0.3]), Some(5.0 / 8.0));
    }

    #[test]
    fn unusable_differences_have_no_p_value() {
        for differences in [&[][..], &[f64::NAN], &[1.0, f64::INFINITY], &[1.0; MAX_PAIRS + 1]] {
            assert_eq!(sign_flip_p(differences), None);
        }
    }

    proptest! {
        #[test]
        fn counting_equals_enumeration(differences in prop::collection::vec(-1_000..1_000_i32, 1..13)) {
            let differences: Vec<f64> = differences.into_iter().map(|d| f64::from(d) / 8.0).collect();
            prop_assert_eq!(sign_flip_p(&differences), Some(enumerate(&differences)));
        }

        #[test]
        fn the_unit_does_not_matter(differences in prop::collection::vec(-1_000..1_000_i32, 1..16), power in -30..30_i32) {
            let differences: Vec<f64> = differences.into_iter().map(f64::from).collect();
            let scaled: Vec<f64> = differences.iter().map(|d| d * f64::from(power).exp2()).collect();
            prop_assert_eq!(sign_flip_p(&differences), sign_flip_p(&scaled));
        }

        #[test]
        fn a_larger_difference_never_raises_p(differences in prop::collection::vec(-100.0..100.0_f64, 1..12), more in 0.0..50.0_f64) {
            let mut larger = differences.clone();
            larger.iter_mut().for_each(|d| *d += more);
            prop_assert!(sign_flip_p(&larger).unwrap() <= sign_flip_p(&differences).unwrap());
        }
    }
}
