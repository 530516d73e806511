//! Histograms of queueing delays, and their metrics. The crate `poseidon-metrics` formats the text.

use core::time::Duration;
use poseidon_metrics::{MetricsText, seconds};
use poseidon_types::Nanos;

/// A histogram of queueing delays with four buckets per power of two, like `port_bucket` in `bpf/port.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayHistogram {
    /// The number of packets in each bucket.
    pub buckets: [u64; Self::BUCKETS],
    /// The sum of all delays.
    pub sum: Nanos,
}

impl DelayHistogram {
    /// The number of buckets. The last bucket has no upper bound.
    pub const BUCKETS: usize = 128;

    /// Returns the number of packets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the smallest delay in a bucket.
    pub const fn bucket_start(bucket: usize) -> Nanos {
        let bucket = bucket as u64;
        Nanos::new(if bucket < 4 { bucket } else { (4 + (bucket & 3)) << (bucket / 4 - 1) })
    }

    /// Returns a percentile of the delays, rounded up to the end of its bucket. The result is too large by at most a
    /// quarter.
    ///
    /// Returns `None` if no packet was counted.
    pub fn percentile(&self, percent: u64) -> Option<Nanos> {
        let count = self.count();
        let rank = (count * percent.min(100)).div_ceil(100).max(1);
        let mut cumulative = 0;
        let bucket = self.buckets.iter().position(|packets| {
            cumulative += packets;
            cumulative >= rank
        })?;
        Some(Self::bucket_start(bucket + 1) - Nanos::new(1))
    }

    /// Returns the mean, rounded down, or `None` if no packet was counted.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum.get().checked_div(self.count()).map(Nanos::new)
    }
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self { buckets: [0; Self::BUCKETS], sum: Nanos::ZERO }
    }
}

/// Adds a histogram of delays with one bucket per power of two, starting at 256 ns.
pub(crate) fn write_delays(text: &mut MetricsText, device: &str, delays: &DelayHistogram) {
    let mut cumulative = 0;
    let mut buckets = Vec::new();
    for (bucket, packets) in delays.buckets.iter().enumerate() {
        cumulative += packets;
        let end = DelayHistogram::bucket_start(bucket + 1).get();
        if end.is_power_of_two() && end >= 256 && bucket + 1 < DelayHistogram::BUCKETS {
            // Delays are whole nanoseconds, so the largest delay in the bucket is `end - 1`.
            buckets.push((in_seconds(Nanos::new(end - 1)), cumulative));
        }
    }
    text.histogram(&[("device", device)], buckets, cumulative, in_seconds(delays.sum));
}

pub(crate) fn in_seconds(time: Nanos) -> String {
    seconds(Duration::from_nanos(time.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_grow_by_at_most_a_quarter() {
        for bucket in 0..DelayHistogram::BUCKETS {
            let start = DelayHistogram::bucket_start(bucket).get();
            let end = DelayHistogram::bucket_start(bucket + 1).get();
            assert!(start < end && (end - start) * 4 <= end.max(4), "{bucket}: {start} {end}");
        }
        assert_eq!(DelayHistogram::bucket_start(127).get(), 7 << 30);
    }

    #[test]
    fn percentiles_are_upper_bounds_of_buckets() {
        let mut delays = DelayHistogram::default();
        assert_eq!((delays.percentile(50), delays.mean()), (None, None));
        delays.buckets[0] = 1;
        delays.buckets[40] = 98;
        delays.buckets[80] = 1;
        delays.sum = Nanos::new(1_000);
        assert_eq!(delays.percentile(0), Some(Nanos::ZERO));
        assert_eq!(delays.percentile(50), Some(DelayHistogram::bucket_start(41) - Nanos::new(1)));
        assert_eq!(delays.percentile(99), Some(DelayHistogram::bucket_start(41) - Nanos::new(1)));
        assert_eq!(delays.percentile(100), Some(DelayHistogram::bucket_start(81) - Nanos::new(1)));
        assert_eq!(delays.mean(), Some(Nanos::new(10)));
    }
}
