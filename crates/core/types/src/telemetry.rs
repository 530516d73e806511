//! The meaning of in-band telemetry, independent of its wire format.
//!
//! Two kinds of signal exist. [`MaxHopDelay`] is one number per packet for a path of any length (Poseidon).
//! [`HopRecord`] is one record per hop (HPCC, PowerTCP).
//!
//! Telemetry is untrusted input. Missing telemetry does not mean an empty queue: a value that no hop has updated is
//! unknown, not zero.

use crate::{BitRate, Bytes, Nanos};

/// The largest queueing delay reported by any hop on the path, and the number of hops that reported a delay.
///
/// A hop's queueing delay is the time from enqueue to the start of transmission at the egress queue, excluding
/// serialisation and pipeline latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MaxHopDelay {
    /// The largest reported delay, which is meaningless if `hops` is zero; see [`Self::delay`].
    pub worst: Nanos,
    /// The number of hops that measured a delay, saturating at 255.
    pub hops: u8,
    /// Whether a hop that supports telemetry could not measure its delay.
    pub incomplete: bool,
    /// Whether the delay exceeded the range of the wire format. The true delay is `worst` or more.
    pub saturated: bool,
}

impl MaxHopDelay {
    /// Returns the largest delay, or `None` if no hop measured a delay.
    #[inline]
    pub const fn delay(self) -> Option<Nanos> {
        if self.hops == 0 { None } else { Some(self.worst) }
    }

    /// Adds the delay measured by one more hop.
    #[inline]
    pub fn update(&mut self, delay: Nanos) {
        self.worst = self.worst.max(delay);
        self.hops = self.hops.saturating_add(1);
    }

    /// Returns whether all `path_hops` hops measured a delay. Returns `false` if more hops reported a delay than the
    /// path has, which happens with tunnels and with switches that do not decrement the TTL.
    #[inline]
    pub const fn covers(self, path_hops: u8) -> bool {
        self.hops == path_hops && !self.incomplete
    }
}

/// The state of a hop's egress port when a packet leaves it.
///
/// The snapshot follows HPCC's public artifact: `queue` excludes this packet, `sent` does not include it yet, and
/// `timestamp` is the dequeue time. The layout is that of C, so that the C interface need not copy records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct HopRecord {
    /// The dequeue time on the hop's local clock. Compare only timestamps from the same hop.
    pub timestamp: Nanos,
    /// The number of bytes that the port has sent.
    pub sent: Bytes,
    /// The port's queue length.
    pub queue: Bytes,
    /// The port's line rate.
    pub rate: BitRate,
}

/// The values at which a wire format's counters wrap. Differences are computed modulo these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterWrap {
    /// The modulus of [`HopRecord::timestamp`]. Zero means 2^64.
    pub timestamp: Nanos,
    /// The modulus of [`HopRecord::sent`]. Zero means 2^64.
    pub sent: Bytes,
}

impl CounterWrap {
    /// Full 64-bit counters, as in a simulator that passes exact values.
    pub const NEVER: Self = Self { timestamp: Nanos::ZERO, sent: Bytes::ZERO };

    /// Returns the time between two records from the same hop.
    #[inline]
    pub const fn elapsed(self, new: HopRecord, old: HopRecord) -> Nanos {
        Nanos::new(modular_difference(new.timestamp.get(), old.timestamp.get(), self.timestamp.get()))
    }

    /// Returns the number of bytes sent between two records from the same hop.
    #[inline]
    pub const fn sent_between(self, new: HopRecord, old: HopRecord) -> Bytes {
        Bytes::new(modular_difference(new.sent.get(), old.sent.get(), self.sent.get()))
    }
}

/// Returns `new - old` for a counter that wraps at `modulus`, where zero means 2^64. Larger inputs are reduced first.
const fn modular_difference(new: u64, old: u64, modulus: u64) -> u64 {
    if modulus == 0 {
        return new.wrapping_sub(old);
    }
    let (new, old) = (new % modulus, old % modulus);
    if new >= old { new - old } else { modulus - (old - new) }
}

/// The maximum number of records in a [`HopStack`]. The longest path in a three-tier fabric has five switches. The
/// remaining slots hold one hop inside each host and one spare.
pub const MAX_HOPS: usize = 8;

/// A bounded list of hop records, first hop first. Records beyond [`MAX_HOPS`] are dropped and set the overflow flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopStack {
    records: [HopRecord; MAX_HOPS],
    len: u8,
    overflow: bool,
}

impl HopStack {
    /// An empty stack.
    pub const EMPTY: Self = Self {
        records: [HopRecord {
            timestamp: Nanos::ZERO,
            sent: Bytes::ZERO,
            queue: Bytes::ZERO,
            rate: BitRate::ZERO,
        }; MAX_HOPS],
        len: 0,
        overflow: false,
    };

    /// Appends the next hop's record. Returns `false` if the stack is full.
    pub fn push(&mut self, record: HopRecord) -> bool {
        let Some(slot) = self.records.get_mut(usize::from(self.len)) else {
            self.overflow = true;
            return false;
        };
        *slot = record;
        self.len += 1;
        true
    }

    /// Replaces the contents with `records`. Records beyond [`MAX_HOPS`] are dropped and set the overflow flag.
    #[inline]
    pub fn replace(&mut self, records: &[HopRecord]) {
        let len = records.len().min(MAX_HOPS);
        for (slot, record) in self.records.iter_mut().zip(records) {
            *slot = *record;
        }
        self.len = u8::try_from(len).unwrap_or(0);
        self.overflow = records.len() > MAX_HOPS;
    }

    /// Returns the records, first hop first.
    #[inline]
    pub fn as_slice(&self) -> &[HopRecord] {
        self.records.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Returns whether a record was dropped because the stack was full.
    pub const fn overflowed(&self) -> bool {
        self.overflow
    }
}

impl Default for HopStack {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The hop records carried by one ACK, and the values at which their counters wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopPath<'a> {
    /// The records, first hop first. Empty if the ACK carries no per-hop telemetry.
    pub records: &'a [HopRecord],
    /// The values at which the wire format's counters wrap.
    pub wrap: CounterWrap,
}

impl HopPath<'_> {
    /// No per-hop telemetry.
    pub const NONE: Self = Self { records: &[], wrap: CounterWrap::NEVER };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_without_measurement_is_unknown() {
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
    fn counter_differences_are_modular() {
        // HPCC has a 24-bit nanosecond clock and a 20-bit counter of 128-byte units.
        let wrap = CounterWrap { timestamp: Nanos::new(1 << 24), sent: Bytes::new(1 << 27) };
        let old = HopRecord {
            timestamp: Nanos::new((1 << 24) - 100),
            sent: Bytes::new(128),
            ..HopRecord::default()
        };
        let new = HopRecord { timestamp: Nanos::new(50), sent: Bytes::new(1_280), ..HopRecord::default() };
        assert_eq!(wrap.elapsed(new, old), Nanos::new(150));
        assert_eq!(wrap.sent_between(new, old), Bytes::new(1_152));
        assert_eq!(CounterWrap::NEVER.elapsed(old, new), Nanos::new((1 << 24) - 150));
    }

    #[test]
    fn push_onto_a_full_stack_sets_the_overflow_flag() {
        let mut stack = HopStack::EMPTY;
        for hop in 0..MAX_HOPS as u64 {
            assert!(stack.push(HopRecord { timestamp: Nanos::new(hop), ..HopRecord::default() }));
        }
        assert!(!stack.overflowed());
        assert!(!stack.push(HopRecord::default()));
        assert!(stack.overflowed());
        assert_eq!(stack.as_slice().len(), MAX_HOPS);
        assert_eq!(stack.as_slice()[3].timestamp, Nanos::new(3));
    }
}
