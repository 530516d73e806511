//! `OpenMetrics` text for Prometheus and compatible tools.
//!
//! ```text
//! # TYPE poseidon_switch_packets counter
//! # HELP poseidon_switch_packets Packets by outcome.
//! poseidon_switch_packets_total{device="e0",fate="tcp_stamped"} 812
//! # EOF
//! ```
//!
//! The format requires one block per metric family, containing the samples from all ports.

use core::fmt::Write as _;
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

/// A builder for `OpenMetrics` text.
#[derive(Debug, Default)]
pub(crate) struct MetricsText(String);

impl MetricsText {
    /// Starts a metric family. The name must end with the unit.
    pub(crate) fn family(&mut self, name: &str, kind: &str, unit: Option<&str>, help: &str) {
        self.line(format_args!("# TYPE {name} {kind}"));
        if let Some(unit) = unit {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    /// Adds a sample to the current family.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl core::fmt::Display) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// Adds a delay histogram with one bucket per power of two, starting at 256 ns.
    pub(crate) fn histogram(&mut self, name: &str, device: &str, delays: &DelayHistogram) {
        let mut cumulative = 0;
        for (bucket, packets) in delays.buckets.iter().enumerate() {
            cumulative += packets;
            let end = DelayHistogram::bucket_start(bucket + 1).get();
            if end.is_power_of_two() && end >= 256 && bucket + 1 < DelayHistogram::BUCKETS {
                // Delays are whole nanoseconds, so the largest delay in the bucket is `end - 1`.
                let end = seconds(Nanos::new(end - 1));
                self.sample(&format!("{name}_bucket"), &[("device", device), ("le", &end)], cumulative);
            }
        }
        self.sample(&format!("{name}_bucket"), &[("device", device), ("le", "+Inf")], cumulative);
        self.sample(&format!("{name}_count"), &[("device", device)], cumulative);
        self.sample(&format!("{name}_sum"), &[("device", device)], seconds(delays.sum));
    }

    /// Appends the end marker and returns the text.
    pub(crate) fn finish(mut self) -> String {
        self.line(format_args!("# EOF"));
        self.0
    }

    fn line(&mut self, line: core::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string cannot fail");
    }
}

fn seconds(time: Nanos) -> String {
    format!("{}.{:09}", time.get() / 1_000_000_000, time.get() % 1_000_000_000)
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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

    #[test]
    fn labels_are_escaped_and_times_are_exact() {
        let mut text = MetricsText::default();
        text.sample("a", &[("device", "e\"0\\")], seconds(Nanos::new(1_000_000_001)));
        assert_eq!(text.finish(), "a{device=\"e\\\"0\\\\\"} 1.000000001\n# EOF\n");
    }
}
