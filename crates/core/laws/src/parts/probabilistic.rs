//! Probabilistic feedback: a slow flow ignores some decreases, so that fast flows decrease more often.
//!
//! The baseline of the VAI + SF evaluation (figures 1-3): a decrease that would move the reference window is ignored
//! when the window is below a uniformly random number under the largest window.

/// Whether a decrease is ignored: with probability `1 - window/largest`. `chance` is uniform over 32 bits.
#[inline]
pub fn ignores(window: f64, largest: f64, chance: u32) -> bool {
    window < largest * (f64::from(chance) / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_at_a_quarter_of_the_largest_window_ignores_three_in_four() {
        let step = u32::MAX / 1_000;
        let ignored = (0..1_000).filter(|i| ignores(25.0, 100.0, i * step)).count();
        assert!((749..=750).contains(&ignored), "{ignored}");
        assert!(!ignores(100.0, 100.0, u32::MAX), "the fastest flow never ignores");
        assert!(ignores(0.0, 100.0, 1));
    }
}
