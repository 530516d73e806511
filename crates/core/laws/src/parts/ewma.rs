//! Moving averages: by a fixed weight, and by how much of a round trip a sample covers.

/// `(1 - weight)·old + weight·new`.
#[inline]
pub fn blend(old: f64, new: f64, weight: f64) -> f64 {
    (1.0 - weight) * old + weight * new
}

/// An average over about `horizon`, of samples that each cover `elapsed` (HPCC Alg. 1 line 9, PowerTCP Alg. 1 line
/// 24): a sample that covers the whole horizon replaces the average.
#[inline]
pub fn over_time(average: f64, sample: f64, elapsed: f64, horizon: f64) -> f64 {
    // Written with the comparison first, so that a horizon of zero or a NaN takes the sample.
    if elapsed < horizon { blend(average, sample, elapsed / horizon) } else { sample }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_for_the_time_it_covers() {
        assert_eq!(over_time(1.0, 3.0, 0.0, 10.0), 1.0);
        assert_eq!(over_time(1.0, 3.0, 5.0, 10.0), 2.0);
        assert_eq!(over_time(1.0, 3.0, 10.0, 10.0), 3.0);
        assert_eq!(over_time(1.0, 3.0, 50.0, 10.0), 3.0);
        assert_eq!(over_time(1.0, 3.0, 0.0, 0.0), 3.0);
        assert_eq!(blend(0.0, 16.0, 1.0 / 16.0), 1.0);
    }
}
