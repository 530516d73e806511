//! What each hop did between two ACKs: the differences that HPCC and PowerTCP compute with.

use super::float::{bytes, bytes_per_ns, ns};
use poseidon_types::{HopPath, HopStack};

/// One hop between two ACKs, in bytes and ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopDelta {
    /// Time between the two records; above zero.
    pub elapsed: f64,
    /// Bytes the port sent in it.
    pub sent: f64,
    /// The queue in the newer record.
    pub queue: f64,
    /// The queue in the older record.
    pub old_queue: f64,
    /// The port's line rate, bytes per ns; above zero.
    pub rate: f64,
}

/// The records of the last ACK.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LastHops(HopStack);

impl LastHops {
    /// The hops whose clock has advanced since the last ACK. None where the number of hops has changed: another path is
    /// not compared with the old one. A hop whose line rate changed is left out as well.
    pub fn deltas<'a>(&'a self, path: HopPath<'a>) -> impl Iterator<Item = HopDelta> + 'a {
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

    /// Keeps the records of this ACK for the next.
    #[inline]
    pub fn keep(&mut self, path: HopPath<'_>) {
        self.0.replace(path.records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{BitRate, Bytes, HopRecord, Nanos, Wrap};
    use std::vec::Vec;

    fn record(at: u64, sent: u64) -> HopRecord {
        HopRecord {
            at: Nanos::new(at),
            sent: Bytes::new(sent),
            queue: Bytes::ZERO,
            rate: BitRate::from_gbps(8),
        }
    }

    #[test]
    fn only_hops_that_advanced_on_the_same_path_are_compared() {
        let mut last = LastHops::default();
        let path = |records| HopPath { records, wrap: Wrap::NEVER };
        let first = [record(100, 1_000), record(100, 1_000)];
        assert_eq!(last.deltas(path(&first)).count(), 0, "nothing to compare with");
        last.keep(path(&first));
        let second = [record(150, 1_040), record(100, 1_000)];
        let deltas: Vec<_> = last.deltas(path(&second)).collect();
        assert_eq!(deltas.len(), 1, "the second hop's clock stood still");
        assert_eq!((deltas[0].elapsed, deltas[0].sent, deltas[0].rate), (50.0, 40.0, 1.0));
        assert_eq!(last.deltas(path(&second[..1])).count(), 0, "another path");
        let faster = [HopRecord { rate: BitRate::from_gbps(25), ..second[0] }, second[1]];
        assert_eq!(last.deltas(path(&faster)).count(), 0, "another port");
    }
}
