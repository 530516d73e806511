//! A measurement of a way, and the atomic word in which two threads hand it over.
//!
//! The task that receives datagrams writes, the task of a connection takes. A batch of datagrams may come between two takes: the
//! largest delay stays. All of it fits in one word, so no lock is needed and a value is never half of one and half of another.

use crate::prefix::Tag;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use poseidon_types::MaxHopDelay;
use poseidon_wire::{reflection, shim};

/// What one or several datagrams say of their way: the largest hop delay among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u32);

/// The lowest bit says that there is a stamp at all: an empty queue is not silence.
const THERE: u32 = 1;
const INCOMPLETE: u32 = 2;

impl Stamp {
    fn new(code: u16, hops: u8, incomplete: bool) -> Self {
        let flags = if incomplete { INCOMPLETE | THERE } else { THERE };
        // The delay first: the largest word is the largest delay.
        Self((u32::from(code) << 16) | (u32::from(hops) << 8) | flags)
    }

    /// Of a shim; nothing where no hop measured.
    #[inline]
    pub(crate) fn of_shim(repr: &shim::Repr) -> Option<Self> {
        (repr.int_hops > 0).then(|| Self::new(repr.max_hop_delay, repr.int_hops, repr.flags.incomplete))
    }

    /// Of a reflection; nothing where no hop measured.
    #[inline]
    pub(crate) fn of_reflection(repr: &reflection::Repr) -> Option<Self> {
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

    /// What a receiver answers. It does not know how many hops there are: quinn does not tell the TTL. So the counts prove
    /// no full coverage, and the other end must not assume it.
    pub(crate) fn reflection(self) -> reflection::Repr {
        reflection::Repr::reflect(&self.shim(), reflection::INITIAL_TTL, reflection::INITIAL_TTL)
    }

    /// Its meaning.
    pub(crate) fn telemetry(self) -> MaxHopDelay {
        self.shim().telemetry(&shim::SCALE)
    }
}

/// A place for a stamp.
#[derive(Debug, Default)]
pub(crate) struct Stamps(AtomicU64);

impl Stamps {
    /// One more.
    #[inline]
    pub(crate) fn add(&self, stamp: Stamp) {
        self.0.fetch_max(u64::from(stamp.0), Relaxed);
    }

    /// The largest since the last time, if any.
    #[inline]
    pub(crate) fn take(&self) -> Option<Stamp> {
        // Most ACKs of a burst find nothing; looking is cheaper than taking.
        if self.0.load(Relaxed) == 0 {
            return None;
        }
        unpack(self.0.swap(0, Relaxed))
    }
}

/// A place for what is to be reflected, and for the tag under which it came. Another tag begins anew: what was heard of one path
/// must not be told of another.
#[derive(Debug, Default)]
pub(crate) struct Heard(AtomicU64);

/// What was taken from there, to be sent or put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    pub(crate) tag: Tag,
    pub(crate) stamp: Option<Stamp>,
}

impl Heard {
    /// Datagrams came under `tag`; `stamp` is what they say.
    #[inline]
    pub(crate) fn add(&self, tag: Tag, stamp: Option<Stamp>) {
        let new = u64::from(stamp.map_or(0, |stamp| stamp.0));
        let merge = |old: u64| {
            let merged = if tag_of(old) == tag {
                (old & !STAMP) | (old & STAMP).max(new)
            } else {
                (u64::from(tag) << 32) | new
            };
            (merged != old).then_some(merged)
        };
        // Nothing to change is no failure.
        let _ = self.0.try_update(Relaxed, Relaxed, merge);
    }

    /// The tag that datagrams came under last; zero before the first.
    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        tag_of(self.0.load(Relaxed))
    }

    /// What to reflect; the tag stays.
    #[inline]
    pub(crate) fn take(&self) -> Echo {
        let old = self.0.fetch_and(!STAMP, Relaxed);
        Echo { tag: tag_of(old), stamp: unpack(old) }
    }

    /// It could not be sent: unless another path has come since, it is to be reflected again.
    pub(crate) fn put_back(&self, echo: Echo) {
        if self.tag() == echo.tag {
            self.add(echo.tag, echo.stamp);
        }
    }
}

const STAMP: u64 = 0xffff_ffff;

fn tag_of(word: u64) -> Tag {
    let [a, b, c, d, ..] = word.to_be_bytes();
    Tag::from_be_bytes([a, b, c, d])
}

fn unpack(word: u64) -> Option<Stamp> {
    let [_, _, _, _, a, b, c, d] = word.to_be_bytes();
    let low = u32::from_be_bytes([a, b, c, d]);
    (low & THERE != 0).then_some(Stamp(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Nanos;

    fn stamp(code: u16, hops: u8) -> Stamp {
        let repr = shim::Repr { int_hops: hops, max_hop_delay: code, ..shim::Repr::default() };
        Stamp::of_shim(&repr).expect("some hop measured")
    }

    #[test]
    fn the_largest_of_a_batch_stays_and_is_taken_once() {
        let stamps = Stamps::default();
        assert_eq!(stamps.take(), None);
        for code in [3, 700, 20] {
            stamps.add(stamp(code, 2));
        }
        let read = stamps.take().expect("three came").telemetry();
        assert_eq!((read.delay(), read.hops), (Some(Nanos::new(700 << 8)), 2));
        assert_eq!(stamps.take(), None);
    }

    #[test]
    fn an_empty_queue_is_not_silence() {
        let stamps = Stamps::default();
        stamps.add(stamp(0, 1));
        assert_eq!(stamps.take().and_then(|stamp| stamp.telemetry().delay()), Some(Nanos::ZERO));
        assert_eq!(Stamp::of_shim(&shim::Repr::default()), None);
    }

    #[test]
    fn what_came_under_another_tag_is_not_told() {
        let heard = Heard::default();
        assert_eq!(heard.take(), Echo { tag: 0, stamp: None });
        heard.add(7, Some(stamp(900, 1)));
        heard.add(8, Some(stamp(10, 1)));
        heard.add(8, None);
        assert_eq!(heard.take(), Echo { tag: 8, stamp: Some(stamp(10, 1)) });
        assert_eq!(heard.take(), Echo { tag: 8, stamp: None });
    }

    #[test]
    fn what_could_not_be_sent_is_told_later_but_not_of_another_path() {
        let heard = Heard::default();
        heard.add(8, Some(stamp(10, 1)));
        let echo = heard.take();
        heard.add(8, Some(stamp(4, 1)));
        heard.put_back(echo);
        assert_eq!(heard.take(), echo);
        heard.add(9, None);
        heard.put_back(echo);
        assert_eq!(heard.take(), Echo { tag: 9, stamp: None });
    }

    #[test]
    fn a_reflection_says_what_the_shim_said() {
        let sent = stamp(0xffff, 3);
        let back = Stamp::of_reflection(&sent.reflection());
        assert_eq!(back, Some(sent));
        assert!(sent.telemetry().saturated);
        assert_eq!(sent.reflection().coverage(), reflection::Coverage::Unknown);
    }
}
