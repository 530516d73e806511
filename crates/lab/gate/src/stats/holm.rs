//! Holm's correction for several tests (Holm, 1979).

/// Returns the adjusted p-values, in the order of `p_values`. A test rejects if its adjusted p-value is at most alpha.
///
/// `family` is the number of all tests, which can exceed the number of p-values. The other tests then count as tests
/// that do not reject.
pub fn holm_adjusted(p_values: &[f64], family: usize) -> Vec<f64> {
    let family = family.max(p_values.len());
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|i, j| p_values[*i].total_cmp(&p_values[*j]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((family - rank) as f64 * p_values[index]).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example_is_exact() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        assert_eq!(holm_adjusted(&[0.01, 0.04, 0.03, 0.005], 4), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(holm_adjusted(&[0.01], 1), [0.01]);
        assert_eq!(holm_adjusted(&[0.01, 0.5], 10), [0.1, 1.0]);
        assert!(holm_adjusted(&[], 3).is_empty());
    }

    proptest! {
        #[test]
        fn adjusting_keeps_the_order_and_never_lowers_p(p_values in prop::collection::vec(0.0..=1.0_f64, 1..30)) {
            let adjusted = holm_adjusted(&p_values, p_values.len());
            for (p, a) in p_values.iter().zip(&adjusted) {
                prop_assert!(a >= p && *a <= 1.0);
                for (q, b) in p_values.iter().zip(&adjusted) {
                    prop_assert!(p > q || a <= b || p == q);
                }
            }
        }
    }
}
