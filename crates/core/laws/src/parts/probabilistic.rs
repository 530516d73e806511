//! Probabilistic feedback: slow flows ignore some decreases, so that fast flows decrease more often.
//!
//! This mechanism is the baseline in the VAI + SF evaluation (figures 1-3). A flow ignores a decrease in the reference
//! window if the window is below a uniformly distributed random number between zero and the largest window.

/// Returns true with probability `1 - window/largest`. `random` is uniform over 32 bits.
#[inline]
pub(crate) fn ignores_decrease(window: f64, largest: f64, random: u32) -> bool {
    window < largest * (f64::from(random) / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_at_a_quarter_of_the_largest_window_ignores_three_of_four_decreases() {
        let step = u32::MAX / 1_000;
        let ignored = (0..1_000).filter(|i| ignores_decrease(25.0, 100.0, i * step)).count();
        assert!((749..=750).contains(&ignored), "{ignored}");
        assert!(!ignores_decrease(100.0, 100.0, u32::MAX), "the fastest flow ignores no decrease");
        assert!(ignores_decrease(0.0, 100.0, 1));
    }
}
