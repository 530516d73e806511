//! Numbers as `OpenMetrics` text, which Prometheus and whatever followed it read.
//!
//! ```text
//! # TYPE poseidon_switch_packets counter
//! # HELP poseidon_switch_packets Packets by what became of them.
//! poseidon_switch_packets_total{device="e0",fate="tcp_stamped"} 812
//! # EOF
//! ```
//!
//! A family is written once, with the numbers of all ports under it: the format asks for that.

use core::fmt::Write as _;
use poseidon_types::Nanos;

/// How long packets will have waited: counts in four buckets per power of two, as `port_bucket` of `bpf/port.h` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Packets by bucket.
    pub buckets: [u64; Self::BUCKETS],
    /// The sum of all delays.
    pub sum: Nanos,
}

impl Delays {
    /// So many buckets; the last has no end.
    pub const BUCKETS: usize = 128;

    /// Packets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The smallest delay of a bucket.
    pub const fn bucket_begins(bucket: usize) -> Nanos {
        let bucket = bucket as u64;
        Nanos::new(if bucket < 4 { bucket } else { (4 + (bucket & 3)) << (bucket / 4 - 1) })
    }

    /// The delay that `percent` of a hundred packets do not exceed, rounded up to the end of its bucket, which is at most a fourth
    /// more. Nothing where there was no packet.
    pub fn quantile(&self, percent: u64) -> Option<Nanos> {
        let count = self.count();
        let rank = (count * percent.min(100)).div_ceil(100).max(1);
        let mut below = 0;
        let at = self.buckets.iter().position(|packets| {
            below += packets;
            below >= rank
        })?;
        Some(Self::bucket_begins(at + 1) - Nanos::new(1))
    }

    /// The mean, rounded down. Nothing where there was no packet.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum.get().checked_div(self.count()).map(Nanos::new)
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self { buckets: [0; Self::BUCKETS], sum: Nanos::ZERO }
    }
}

/// A text that grows family by family.
#[derive(Debug, Default)]
pub(crate) struct Text(String);

impl Text {
    /// Begins a family. A unit is the last word of its name.
    pub(crate) fn family(&mut self, name: &str, kind: &str, unit: Option<&str>, help: &str) {
        self.line(format_args!("# TYPE {name} {kind}"));
        if let Some(unit) = unit {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    /// One number of the family.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl core::fmt::Display) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// A histogram of delays, in one bucket per power of two from 256 ns on.
    pub(crate) fn delays(&mut self, name: &str, device: &str, delays: &Delays) {
        let mut below = 0;
        for (bucket, packets) in delays.buckets.iter().enumerate() {
            below += packets;
            let end = Delays::bucket_begins(bucket + 1).get();
            if end.is_power_of_two() && end >= 256 && bucket + 1 < Delays::BUCKETS {
                // Delays are whole nanoseconds: less than the end is at most one less.
                let end = seconds(Nanos::new(end - 1));
                self.sample(&format!("{name}_bucket"), &[("device", device), ("le", &end)], below);
            }
        }
        self.sample(&format!("{name}_bucket"), &[("device", device), ("le", "+Inf")], below);
        self.sample(&format!("{name}_count"), &[("device", device)], below);
        self.sample(&format!("{name}_sum"), &[("device", device)], seconds(delays.sum));
    }

    /// The whole text.
    pub(crate) fn end(mut self) -> String {
        self.line(format_args!("# EOF"));
        self.0
    }

    fn line(&mut self, line: core::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a text takes everything");
    }
}

fn seconds(time: Nanos) -> String {
    format!("{}.{:09}", time.get() / 1_000_000_000, time.get() % 1_000_000_000)
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_and_grow_by_a_fourth_at_most() {
        for bucket in 0..Delays::BUCKETS {
            let begins = Delays::bucket_begins(bucket).get();
            let ends = Delays::bucket_begins(bucket + 1).get();
            assert!(begins < ends && (ends - begins) * 4 <= ends.max(4), "{bucket}: {begins} {ends}");
        }
        assert_eq!(Delays::bucket_begins(127).get(), 7 << 30);
    }

    #[test]
    fn quantiles_are_ends_of_buckets() {
        let mut delays = Delays::default();
        assert_eq!((delays.quantile(50), delays.mean()), (None, None));
        delays.buckets[0] = 1;
        delays.buckets[40] = 98;
        delays.buckets[80] = 1;
        delays.sum = Nanos::new(1_000);
        assert_eq!(delays.quantile(0), Some(Nanos::ZERO));
        assert_eq!(delays.quantile(50), Some(Delays::bucket_begins(41) - Nanos::new(1)));
        assert_eq!(delays.quantile(99), Some(Delays::bucket_begins(41) - Nanos::new(1)));
        assert_eq!(delays.quantile(100), Some(Delays::bucket_begins(81) - Nanos::new(1)));
        assert_eq!(delays.mean(), Some(Nanos::new(10)));
    }

    #[test]
    fn labels_are_escaped_and_times_are_exact() {
        let mut text = Text::default();
        text.sample("a", &[("device", "e\"0\\")], seconds(Nanos::new(1_000_000_001)));
        assert_eq!(text.end(), "a{device=\"e\\\"0\\\\\"} 1.000000001\n# EOF\n");
    }
}
