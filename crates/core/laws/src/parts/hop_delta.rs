//! The change in each hop's counters between two ACKs, for HPCC and PowerTCP.

use super::float::{bytes, bytes_per_ns, ns};
use poseidon_types::{HopPath, HopStack};

/// The change at one hop between two ACKs, in bytes and ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HopDelta {
    /// The time between the two records. Always positive.
    pub(crate) elapsed: f64,
    /// The number of bytes that the port sent in this time.
    pub(crate) sent: f64,
    /// The queue length in the newer record.
    pub(crate) queue: f64,
    /// The queue length in the older record.
    pub(crate) old_queue: f64,
    /// The port's line rate in bytes per ns. Always positive.
    pub(crate) rate: f64,
}

/// The hop records of the last ACK.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct LastHops(HopStack);

impl LastHops {
    /// Returns the hops whose timestamp has advanced since the last ACK.
    ///
    /// If the number of hops has changed, the path is new and the iterator is empty. A hop whose line rate has changed
    /// is skipped as well.
    pub(crate) fn deltas<'a>(&'a self, path: HopPath<'a>) -> impl Iterator<Item = HopDelta> + 'a {
        let old = self.0.as_slice();
        let comparable = if old.len() == path.records.len() { old } else { &[] };
        path.records.iter().zip(comparable).filter_map(move |(new, old)| {
            let elapsed = path.wrap.elapsed(*new, *old);
            let usable = !elapsed.is_zero() && !new.rate.is_zero() && new.rate == old.rate;
            usable.then(|| HopDelta {
                elapsed: ns(elapsed),
                sent: bytes(path.wrap.sent_between(*new, *old)),
                queue: bytes(new.queue),
                old_queue: bytes(old.queue),
                rate: bytes_per_ns(new.rate),
            })
        })
    }

    /// Stores this ACK's records for comparison with the next ACK.
    #[inline]
    pub(crate) fn store(&mut self, path: HopPath<'_>) {
        self.0.replace(path.records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{BitRate, Bytes, CounterWrap, HopRecord, Nanos};
    use std::vec::Vec;

    fn record(time: u64, sent: u64) -> HopRecord {
        HopRecord {
            timestamp: Nanos::new(time),
            sent: Bytes::new(sent),
            queue: Bytes::ZERO,
            rate: BitRate::from_gbps(8),
        }
    }

    #[test]
    fn only_hops_with_newer_timestamps_on_the_same_path_are_compared() {
        let mut last = LastHops::default();
        let path = |records| HopPath { records, wrap: CounterWrap::NEVER };
        let first = [record(100, 1_000), record(100, 1_000)];
        assert_eq!(last.deltas(path(&first)).count(), 0, "there is no earlier record");
        last.store(path(&first));
        let second = [record(150, 1_040), record(100, 1_000)];
        let deltas: Vec<_> = last.deltas(path(&second)).collect();
        assert_eq!(deltas.len(), 1, "the timestamp of the second hop has not changed");
        assert_eq!((deltas[0].elapsed, deltas[0].sent, deltas[0].rate), (50.0, 40.0, 1.0));
        assert_eq!(last.deltas(path(&second[..1])).count(), 0, "the number of hops has changed");
        let faster = [HopRecord { rate: BitRate::from_gbps(25), ..second[0] }, second[1]];
        assert_eq!(last.deltas(path(&faster)).count(), 0, "the line rate has changed");
    }
}
