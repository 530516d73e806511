//! Exact tests for few samples. They count integers and draw no random numbers, so the same values always give the same
//! result.

mod hodges_lehmann;
mod holm;
mod mann_whitney;
mod sign_flip;

pub use hodges_lehmann::{hodges_lehmann, lower_bound, signed_rank_critical_count, upper_bound};
pub use holm::holm_adjusted;
pub use mann_whitney::{MannWhitney, mann_whitney, rank_sum_critical_count, shift, shift_bounds};
pub use sign_flip::{MAX_PAIRS, sign_flip_p, smallest_sign_flip_p};

/// Returns the median of sorted values, or `None` if there are no values. With an even number of values, it is the mean
/// of the two middle values.
pub fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    debug_assert!(sorted.is_sorted(), "the values must be sorted");
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(lower.midpoint(upper))
}

/// Returns the median, or `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
