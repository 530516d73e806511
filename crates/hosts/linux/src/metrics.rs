//! Histograms of queueing delays, and their metrics. The crate `poseidon-metrics` formats the text.

use core::ops::RangeInclusive;
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

/// The ends of the first and the last bucket with an upper bound in the metrics: 1 us and 4.3 s.
const METRIC_BOUNDS: RangeInclusive<u64> = 1 << 10..=1 << 32;

/// Adds a histogram of delays, with four buckets per power of two. The bounds do not depend on the delays, because
/// Prometheus compares the buckets of one scrape with those of the next.
pub(crate) fn write_delays(text: &mut MetricsText, device: &str, delays: &DelayHistogram) {
    let mut cumulative = 0;
    let mut buckets = Vec::new();
    for (bucket, packets) in delays.buckets.iter().enumerate() {
        cumulative += packets;
        let end = DelayHistogram::bucket_start(bucket + 1).get();
        if METRIC_BOUNDS.contains(&end) {
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
    use poseidon_metrics::{Format, Kind};

    /// The cumulative buckets that Prometheus reads: upper bounds in seconds, and numbers of packets.
    fn metric_buckets(delays: &DelayHistogram) -> Vec<(f64, u64)> {
        let mut text = MetricsText::new(Format::OpenMetrics);
        text.family("d_seconds", Kind::Histogram, "Delays.");
        write_delays(&mut text, "e0", delays);
        let parse_bucket = |line: &str| {
            let (bound, count) =
                line.strip_prefix("d_seconds_bucket{device=\"e0\",le=\"")?.split_once("\"} ")?;
            Some((bound.parse().ok()?, count.parse().ok()?))
        };
        text.finish().lines().filter_map(parse_bucket).collect()
    }

    /// Interpolates linearly in the bucket of the quantile, like `histogram_quantile` of Prometheus.
    fn histogram_quantile(quantile: f64, buckets: &[(f64, u64)]) -> f64 {
        let rank = quantile * buckets.last().expect("the last bucket has all packets").1 as f64;
        let index = buckets.iter().position(|(_, count)| *count as f64 >= rank).expect("the rank is a count");
        let (start, below) = if index == 0 { (0.0, 0) } else { buckets[index - 1] };
        let (end, count) = buckets[index];
        start + (end - start) * (rank - below as f64) / (count - below) as f64
    }

    #[test]
    fn metric_buckets_have_fixed_bounds_and_count_every_packet() {
        let mut delays = DelayHistogram { buckets: [1; DelayHistogram::BUCKETS], sum: Nanos::ZERO };
        let all = metric_buckets(&delays);
        // 22 doublings of four buckets, the first bucket and the last one.
        assert_eq!(all.len(), 22 * 4 + 2);
        assert_eq!((all[0].0, all[88].0, all[89].0), (0.000_001_023, 4.294_967_295, f64::INFINITY));
        // 1023 ns is the end of bucket 35, and 4.29 s the end of bucket 123.
        assert_eq!((all[0].1, all[88].1, all[89].1), (36, 124, 128));
        assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{all:?}");
        delays.buckets = [0; DelayHistogram::BUCKETS];
        let empty = metric_buckets(&delays);
        assert!(all.iter().zip(&empty).all(|(full, empty)| full.0 == empty.0 && empty.1 == 0), "{empty:?}");
    }

    #[test]
    fn prometheus_computes_percentiles_within_a_quarter() {
        // From 1 us to 4 s, in steps of an eighth of a power of two. A queue of 79 ms was once reported as 133 ms.
        let eighths = (10..32).flat_map(|log| (8..16_u64).map(move |eighths| eighths << (log - 3)));
        for delay in eighths.chain([79_000_000]) {
            let is_in_bucket = |bucket: &usize| {
                let range = DelayHistogram::bucket_start(*bucket)..DelayHistogram::bucket_start(bucket + 1);
                range.contains(&Nanos::new(delay))
            };
            let bucket = (0..DelayHistogram::BUCKETS).find(is_in_bucket).expect("every delay has a bucket");
            let mut histogram = DelayHistogram::default();
            histogram.buckets[bucket] = 1_000;
            for quantile in [0.01, 0.5, 0.99] {
                let reported = 1e9 * histogram_quantile(quantile, &metric_buckets(&histogram));
                let ratio = reported / delay as f64;
                assert!((0.75..=1.25).contains(&ratio), "{delay} ns is reported as {reported} ns");
            }
        }
    }

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
