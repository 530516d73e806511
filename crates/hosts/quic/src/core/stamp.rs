//! A path measurement, and the atomic slots that pass it from one thread to another.
//!
//! The receive task writes to a slot, and the connection task takes its contents. If several datagrams arrive
//! between two reads, the slot keeps the largest delay. A slot is a single atomic word, so no lock is needed
//! and a reader never sees a mix of two values.

use super::prefix::Tag;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use poseidon_types::MaxHopDelay;
use poseidon_wire::{reflection, shim};

/// The largest hop delay of one or more datagrams, packed into a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u32);

/// The bit that marks a valid stamp. It distinguishes an empty queue from missing telemetry.
const PRESENT: u32 = 1;
const INCOMPLETE: u32 = 2;

impl Stamp {
    fn new(delay_code: u16, hops: u8, incomplete: bool) -> Self {
        let flags = if incomplete { INCOMPLETE | PRESENT } else { PRESENT };
        // The delay is in the upper bits, so the largest word has the largest delay.
        Self((u32::from(delay_code) << 16) | (u32::from(hops) << 8) | flags)
    }

    /// Returns the stamp of a shim, or `None` if no hop reported a delay.
    #[inline]
    pub(crate) fn from_shim(repr: &shim::Repr) -> Option<Self> {
        (repr.int_hops > 0).then(|| Self::new(repr.max_hop_delay, repr.int_hops, repr.flags.incomplete))
    }

    /// Returns the stamp of a reflection, or `None` if no hop reported a delay.
    #[inline]
    pub(crate) fn from_reflection(repr: &reflection::Repr) -> Option<Self> {
        (repr.int_hops > 0).then(|| Self::new(repr.max_hop_delay, repr.int_hops, repr.flags.incomplete))
    }

    fn shim(self) -> shim::Repr {
        let [code_high, code_low, hops, flags] = self.0.to_be_bytes();
        shim::Repr {
            flags: shim::Flags { incomplete: u32::from(flags) & INCOMPLETE != 0, ..shim::Flags::default() },
            int_hops: hops,
            max_hop_delay: u16::from_be_bytes([code_high, code_low]),
        }
    }

    /// Returns the reflection that the receiver sends back. The stacks do not report the TTL, so the receiver
    /// does not know the number of hops. The reflection therefore does not claim full coverage.
    pub(crate) fn reflection(self) -> reflection::Repr {
        reflection::Repr::reflect(&self.shim(), reflection::INITIAL_TTL, reflection::INITIAL_TTL)
    }

    /// Decodes the stamp.
    pub(crate) fn telemetry(self) -> MaxHopDelay {
        self.shim().telemetry(&shim::SCALE)
    }
}

/// A slot for the largest stamp since the last read.
#[derive(Debug, Default)]
pub(crate) struct StampSlot(AtomicU64);

impl StampSlot {
    /// Adds a stamp.
    #[inline]
    pub(crate) fn add(&self, stamp: Stamp) {
        self.0.fetch_max(u64::from(stamp.0), Relaxed);
    }

    /// Takes the largest stamp since the last call, if there is one.
    #[inline]
    pub(crate) fn take(&self) -> Option<Stamp> {
        // Most ACKs of a burst find an empty slot, and a load is cheaper than a swap.
        if self.0.load(Relaxed) == 0 {
            return None;
        }
        unpack_stamp(self.0.swap(0, Relaxed))
    }
}

/// A slot for the stamp to echo and its tag. A new tag clears the stamp, because a measurement of one path must
/// not be echoed for another.
#[derive(Debug, Default)]
pub(crate) struct EchoSlot(AtomicU64);

/// The contents of an [`EchoSlot`], to be sent or put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) tag: Tag,
    pub(crate) stamp: Option<Stamp>,
}

impl EchoSlot {
    /// Adds the stamp of datagrams that arrived with `tag`.
    #[inline]
    pub(crate) fn add(&self, tag: Tag, stamp: Option<Stamp>) {
        let new = u64::from(stamp.map_or(0, |stamp| stamp.0));
        let merge = |old: u64| {
            let merged = if unpack_tag(old) == tag {
                (old & !STAMP_MASK) | (old & STAMP_MASK).max(new)
            } else {
                (u64::from(tag) << 32) | new
            };
            (merged != old).then_some(merged)
        };
        // `try_update` returns an error if the word does not change.
        let _ = self.0.try_update(Relaxed, Relaxed, merge);
    }

    /// Returns the tag of the last datagram, or zero before the first datagram.
    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        unpack_tag(self.0.load(Relaxed))
    }

    /// Takes the stamp to echo. The tag stays in the slot.
    #[inline]
    pub(crate) fn take(&self) -> Echo {
        let old = self.0.fetch_and(!STAMP_MASK, Relaxed);
        Echo { tag: unpack_tag(old), stamp: unpack_stamp(old) }
    }

    /// Puts back an echo that could not be sent, unless the tag has changed in the meantime.
    pub(crate) fn put_back(&self, echo: Echo) {
        if self.tag() == echo.tag {
            self.add(echo.tag, echo.stamp);
        }
    }
}

const STAMP_MASK: u64 = 0xffff_ffff;

fn unpack_tag(word: u64) -> Tag {
    let [a, b, c, d, ..] = word.to_be_bytes();
    Tag::from_be_bytes([a, b, c, d])
}

fn unpack_stamp(word: u64) -> Option<Stamp> {
    let [_, _, _, _, a, b, c, d] = word.to_be_bytes();
    let low = u32::from_be_bytes([a, b, c, d]);
    (low & PRESENT != 0).then_some(Stamp(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Nanos;

    fn stamp(code: u16, hops: u8) -> Stamp {
        let repr = shim::Repr { int_hops: hops, max_hop_delay: code, ..shim::Repr::default() };
        Stamp::from_shim(&repr).expect("at least one hop reported a delay")
    }

    #[test]
    fn largest_stamp_of_a_batch_is_taken_once() {
        let slot = StampSlot::default();
        assert_eq!(slot.take(), None);
        for code in [3, 700, 20] {
            slot.add(stamp(code, 2));
        }
        let telemetry = slot.take().expect("three stamps were added").telemetry();
        assert_eq!((telemetry.delay(), telemetry.hops), (Some(Nanos::new(700 << 8)), 2));
        assert_eq!(slot.take(), None);
    }

    #[test]
    fn empty_queue_differs_from_missing_telemetry() {
        let slot = StampSlot::default();
        slot.add(stamp(0, 1));
        assert_eq!(slot.take().and_then(|stamp| stamp.telemetry().delay()), Some(Nanos::ZERO));
        assert_eq!(Stamp::from_shim(&shim::Repr::default()), None);
    }

    #[test]
    fn new_tag_discards_the_stamp_of_the_old_tag() {
        let slot = EchoSlot::default();
        assert_eq!(slot.take(), Echo { tag: 0, stamp: None });
        slot.add(7, Some(stamp(900, 1)));
        slot.add(8, Some(stamp(10, 1)));
        slot.add(8, None);
        assert_eq!(slot.take(), Echo { tag: 8, stamp: Some(stamp(10, 1)) });
        assert_eq!(slot.take(), Echo { tag: 8, stamp: None });
    }

    #[test]
    fn unsent_echo_is_kept_unless_the_tag_changes() {
        let slot = EchoSlot::default();
        slot.add(8, Some(stamp(10, 1)));
        let echo = slot.take();
        slot.add(8, Some(stamp(4, 1)));
        slot.put_back(echo);
        assert_eq!(slot.take(), echo);
        slot.add(9, None);
        slot.put_back(echo);
        assert_eq!(slot.take(), Echo { tag: 9, stamp: None });
    }

    #[test]
    fn reflection_carries_the_stamp_of_the_shim() {
        let sent = stamp(0xffff, 3);
        assert_eq!(Stamp::from_reflection(&sent.reflection()), Some(sent));
        assert!(sent.telemetry().saturated);
        assert_eq!(sent.reflection().coverage(), reflection::Coverage::Unknown);
    }
}
