//! What in-band telemetry means, apart from how it looks in bytes.
//!
//! Two kinds of signal exist. [`MaxHopDelay`] is one number per packet, whatever the length of the path:
//! Poseidon's. [`HopRecord`] is one record per hop: HPCC's and PowerTCP's.
//!
//! Telemetry is untrusted input, and its absence is not an empty queue: a value that no hop has touched is
//! *unknown*, never zero.

use crate::{BitRate, Bytes, Nanos};

/// The largest queueing delay that any one hop of a path reported, and how many hops reported.
///
/// A hop's queueing delay runs from enqueue to the start of transmission at the egress queue: no serialisation,
/// no pipeline latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MaxHopDelay {
    /// The largest delay reported. Meaningless while `hops` is zero: ask [`Self::delay`].
    pub worst: Nanos,
    /// Hops that measured and updated the value (saturates at 255).
    pub hops: u8,
    /// Some hop that speaks telemetry could not measure.
    pub incomplete: bool,
    /// The carrier could not hold the delay: it is `worst` or more.
    pub saturated: bool,
}

impl MaxHopDelay {
    /// The delay, or `None` where nobody measured.
    #[inline]
    pub const fn delay(self) -> Option<Nanos> {
        if self.hops == 0 { None } else { Some(self.worst) }
    }

    /// One more hop has measured `delay`.
    #[inline]
    pub fn update(&mut self, delay: Nanos) {
        self.worst = self.worst.max(delay);
        self.hops = self.hops.saturating_add(1);
    }

    /// Whether every one of `path_hops` hops measured. More reports than hops (tunnels, switches that do not
    /// count as hops) do not prove it.
    #[inline]
    pub const fn covers(self, path_hops: u8) -> bool {
        self.hops == path_hops && !self.incomplete
    }
}

/// What one hop says about its egress port as a packet leaves it.
///
/// Order of the snapshot, as in HPCC's public artifact: `queue` is read after the packet left the queue,
/// `sent` is the counter before this packet is added, `at` is the time of dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HopRecord {
    /// Time of dequeue on the hop's own clock. Only differences between records of the same hop mean anything.
    pub at: Nanos,
    /// Bytes the port has sent so far.
    pub sent: Bytes,
    /// Bytes waiting in the port's queue.
    pub queue: Bytes,
    /// The port's line rate.
    pub rate: BitRate,
}

/// Where a carrier's counters wrap. Differences must be taken modulo these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrap {
    /// `at` counts modulo this; zero for the full 64 bits.
    pub at: Nanos,
    /// `sent` counts modulo this; zero for the full 64 bits.
    pub sent: Bytes,
}

impl Wrap {
    /// Counters of 64 bits, as in a simulator that passes exact values.
    pub const NEVER: Self = Self { at: Nanos::ZERO, sent: Bytes::ZERO };

    /// Time between two records of one hop.
    #[inline]
    pub const fn elapsed(self, new: HopRecord, old: HopRecord) -> Nanos {
        Nanos::new(modular_difference(new.at.get(), old.at.get(), self.at.get()))
    }

    /// Bytes sent between two records of one hop.
    #[inline]
    pub const fn sent_between(self, new: HopRecord, old: HopRecord) -> Bytes {
        Bytes::new(modular_difference(new.sent.get(), old.sent.get(), self.sent.get()))
    }
}

/// `new - old` on a counter that wraps at `modulus` (zero: at 2^64). Inputs beyond the modulus are reduced first.
const fn modular_difference(new: u64, old: u64, modulus: u64) -> u64 {
    if modulus == 0 {
        return new.wrapping_sub(old);
    }
    let (new, old) = (new % modulus, old % modulus);
    if new >= old { new - old } else { modulus - (old - new) }
}

/// Most hops a stack holds. Three-tier fabrics have five switches on the longest path; eight leaves room for a
/// host's own hop at each end and one more.
pub const MAX_HOPS: usize = 8;

/// A bounded list of hop records, first hop first. Pushing beyond [`MAX_HOPS`] is noted, not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopStack {
    records: [HopRecord; MAX_HOPS],
    len: u8,
    overflow: bool,
}

impl HopStack {
    /// No records.
    pub const EMPTY: Self = Self {
        records: [HopRecord { at: Nanos::ZERO, sent: Bytes::ZERO, queue: Bytes::ZERO, rate: BitRate::ZERO };
            MAX_HOPS],
        len: 0,
        overflow: false,
    };

    /// Appends the next hop's record; `false` where the stack is full.
    pub fn push(&mut self, record: HopRecord) -> bool {
        let Some(slot) = self.records.get_mut(usize::from(self.len)) else {
            self.overflow = true;
            return false;
        };
        *slot = record;
        self.len += 1;
        true
    }

    /// Holds these records instead; those beyond [`MAX_HOPS`] are dropped and noted.
    #[inline]
    pub fn replace(&mut self, records: &[HopRecord]) {
        let kept = records.len().min(MAX_HOPS);
        for (slot, record) in self.records.iter_mut().zip(records) {
            *slot = *record;
        }
        self.len = u8::try_from(kept).unwrap_or(0);
        self.overflow = records.len() > MAX_HOPS;
    }

    /// The records, first hop first.
    #[inline]
    pub fn as_slice(&self) -> &[HopRecord] {
        self.records.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Whether a hop found the stack full.
    pub const fn overflowed(&self) -> bool {
        self.overflow
    }
}

impl Default for HopStack {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The per-hop records that arrived with one ACK, and where their counters wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopPath<'a> {
    /// First hop first. Empty: no per-hop telemetry arrived.
    pub records: &'a [HopRecord],
    /// The carrier's counter widths.
    pub wrap: Wrap,
}

impl HopPath<'_> {
    /// No per-hop telemetry arrived.
    pub const NONE: Self = Self { records: &[], wrap: Wrap::NEVER };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_is_unknown_and_not_an_empty_queue() {
        let mut signal = MaxHopDelay::default();
        assert_eq!(signal.delay(), None);
        signal.update(Nanos::ZERO);
        assert_eq!(signal.delay(), Some(Nanos::ZERO));
        signal.update(Nanos::new(700));
        signal.update(Nanos::new(300));
        assert_eq!(signal.delay(), Some(Nanos::new(700)));
        assert!(signal.covers(3) && !signal.covers(5) && !signal.covers(2));
    }

    #[test]
    fn counters_wrap_where_their_carrier_says() {
        // HPCC's 24-bit nanosecond clock and its 20 bits of 128-byte units.
        let wrap = Wrap { at: Nanos::new(1 << 24), sent: Bytes::new(1 << 27) };
        let old =
            HopRecord { at: Nanos::new((1 << 24) - 100), sent: Bytes::new(128), ..HopRecord::default() };
        let new = HopRecord { at: Nanos::new(50), sent: Bytes::new(1_280), ..HopRecord::default() };
        assert_eq!(wrap.elapsed(new, old), Nanos::new(150));
        assert_eq!(wrap.sent_between(new, old), Bytes::new(1_152));
        assert_eq!(Wrap::NEVER.elapsed(old, new), Nanos::new((1 << 24) - 150));
    }

    #[test]
    fn a_full_stack_says_so() {
        let mut stack = HopStack::EMPTY;
        for hop in 0..MAX_HOPS as u64 {
            assert!(stack.push(HopRecord { at: Nanos::new(hop), ..HopRecord::default() }));
        }
        assert!(!stack.overflowed());
        assert!(!stack.push(HopRecord::default()));
        assert!(stack.overflowed());
        assert_eq!(stack.as_slice().len(), MAX_HOPS);
        assert_eq!(stack.as_slice()[3].at, Nanos::new(3));
    }
}
