//! Exponential moving averages with a fixed weight, or weighted by the time that a sample covers.

/// Returns `(1 - weight)·old + weight·new`.
#[inline]
pub(crate) fn blend(old: f64, new: f64, weight: f64) -> f64 {
    (1.0 - weight) * old + weight * new
}

/// Returns the average over about `horizon` after a sample that covers `elapsed`.
///
/// A sample that covers the whole horizon replaces the average (HPCC Alg. 1 line 9, PowerTCP Alg. 1 line 24).
#[inline]
pub(crate) fn time_weighted_average(average: f64, sample: f64, elapsed: f64, horizon: f64) -> f64 {
    // With the comparison in this order, a zero horizon or a NaN selects the sample.
    if elapsed < horizon { blend(average, sample, elapsed / horizon) } else { sample }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_weighted_by_the_time_it_covers() {
        assert_eq!(time_weighted_average(1.0, 3.0, 0.0, 10.0), 1.0);
        assert_eq!(time_weighted_average(1.0, 3.0, 5.0, 10.0), 2.0);
        assert_eq!(time_weighted_average(1.0, 3.0, 10.0, 10.0), 3.0);
        assert_eq!(time_weighted_average(1.0, 3.0, 50.0, 10.0), 3.0);
        assert_eq!(time_weighted_average(1.0, 3.0, 0.0, 0.0), 3.0);
        assert_eq!(blend(0.0, 16.0, 1.0 / 16.0), 1.0);
    }
}
