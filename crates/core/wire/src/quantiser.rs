//! What a value becomes by passing through a format, without the bytes: grain, saturation, wrap.
//!
//! A simulator carries decoded values and passes each through the quantiser of the format it imitates, so a law
//! sees what the wire can carry. Every format names its quantiser; the tests hold each one against real bytes.
//!
//! * [`Scale`]: value to code and back, by equal [`Steps`], by [`Ticks`] of a device, or by a table of [`Ranges`].
//! * [`DelayQuantiser`]: a whole [`MaxHopDelay`].
//! * [`HopScale`]: the counters of a [`HopRecord`].
//!
//! Rounding is always down, but a value below the first range reads as its lower end; codes keep the order of values. Hence the maximum of codes is the code of the
//! maximum: a switch may compare codes and never see the value.

use crate::bytes::low32;
use crate::error::{Error, Result};
use poseidon_types::{Bytes, HopRecord, MaxHopDelay, Nanos, Wrap};

/// A monotone map from values (in the signal's own unit) to small codes and back.
pub trait Scale {
    /// The largest code. As a reading it means "this or more".
    fn max_code(&self) -> u32;
    /// The code of the range that `value` lies in; saturates at both ends.
    fn encode(&self, value: u64) -> u32;
    /// The lower end of the range of `code`; saturates.
    fn decode(&self, code: u32) -> u64;

    /// The delay of `code`.
    fn delay(&self, code: u32) -> Nanos {
        Nanos::new(self.decode(code))
    }

    /// The delay of `code`, and whether it may be more.
    fn reading(&self, code: u32) -> (Nanos, bool) {
        (self.delay(code), code >= self.max_code())
    }

    /// The code of `delay`.
    fn delay_code(&self, delay: Nanos) -> u32 {
        self.encode(delay.get())
    }

    /// The same for a field of sixteen bits, which a wider scale saturates.
    fn code16(&self, delay: Nanos) -> u16 {
        u16::try_from(self.delay_code(delay)).unwrap_or(u16::MAX)
    }

    /// What `code` says in a format that does not count hops, on a path where `assumed_hops` are known to measure.
    /// A code above zero proves that at least one hop did.
    fn uncounted(&self, code: u32, assumed_hops: u8) -> MaxHopDelay {
        MaxHopDelay {
            worst: self.delay(code),
            hops: assumed_hops.max(u8::from(code > 0)),
            incomplete: false,
            saturated: code >= self.max_code(),
        }
    }
}

/// Equal steps of a power of two above a base that is zero or a power of two: `base + code * 2^step_log2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    base: u64,
    step_log2: u8,
    max_code: u32,
}

impl Steps {
    /// Codes of `bits` bits (1 to 32), one step being `2^step_log2` (at most 2^32). Outside values are clamped.
    pub const fn new(step_log2: u8, bits: u8) -> Self {
        let bits = if bits < 1 { 1 } else { bits };
        Self {
            base: 0,
            step_log2: if step_log2 > 32 { 32 } else { step_log2 },
            max_code: if bits >= 32 { u32::MAX } else { (1 << bits) - 1 },
        }
    }

    /// Code zero begins at `2^base_log2` (at most 2^63).
    #[must_use]
    pub const fn above_base(self, base_log2: u8) -> Self {
        let base = 1 << if base_log2 > 63 { 63 } else { base_log2 };
        Self { base, ..self }
    }

    /// The code of all ones means something else (none, not available) and is never produced.
    #[must_use]
    pub const fn without_all_ones(self) -> Self {
        Self { max_code: self.max_code.saturating_sub(1), ..self }
    }

    /// In a field of sixteen bits, which a wider scale saturates.
    #[must_use]
    pub(crate) const fn in_16_bits(self) -> Self {
        let max_code = if self.max_code > 0xffff { 0xffff } else { self.max_code };
        Self { max_code, ..self }
    }

    /// With another largest code.
    #[must_use]
    pub const fn up_to(self, max_code: u32) -> Self {
        Self { max_code, ..self }
    }
}

impl Scale for Steps {
    fn max_code(&self) -> u32 {
        self.max_code
    }

    fn encode(&self, value: u64) -> u32 {
        let steps = value.saturating_sub(self.base) >> self.step_log2;
        low32(steps.min(u64::from(self.max_code)))
    }

    fn decode(&self, code: u32) -> u64 {
        // Cannot overflow the shift: 32 bits moved up by at most 32.
        self.base.saturating_add(u64::from(code.min(self.max_code)) << self.step_log2)
    }
}

/// 32 ranges chosen by the operator (CSIG's compact form): each is named by its lower end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges([u64; Self::COUNT]);

impl Ranges {
    /// Ranges in a table: five bits of code.
    pub const COUNT: usize = 32;

    /// The table whose ranges begin at `lower_ends`, which must rise. Values below the first lie in the first.
    pub const fn new(lower_ends: [u64; Self::COUNT]) -> Result<Self> {
        let mut at = 1;
        while at < Self::COUNT {
            if lower_ends[at] <= lower_ends[at - 1] {
                return Err(Error::NotMonotone { at });
            }
            at += 1;
        }
        Ok(Self(lower_ends))
    }
}

impl Scale for Ranges {
    fn max_code(&self) -> u32 {
        31
    }

    fn encode(&self, value: u64) -> u32 {
        let begun = self.0.iter().filter(|lower| **lower <= value).count();
        u32::try_from(begun.saturating_sub(1)).unwrap_or(31)
    }

    fn decode(&self, code: u32) -> u64 {
        let at = usize::try_from(code).unwrap_or(usize::MAX).min(Self::COUNT - 1);
        self.0.get(at).copied().unwrap_or(u64::MAX)
    }
}

/// How a receiver learns the number of hops that measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopCount {
    /// The format counts them, up to this number, and tells whether a hop could not measure.
    Counted {
        /// The counter stops here.
        max: u8,
    },
    /// The format keeps one entry per hop and has room for this many; a hop that finds none is left out and flagged.
    Stacked {
        /// Entries.
        room: u8,
    },
    /// The format does not count: this many are known to measure on the path.
    Assumed(u8),
}

/// What a format that carries one delay does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayQuantiser<S> {
    /// Delay to code.
    pub scale: S,
    /// Hops to what the receiver knows of them.
    pub hops: HopCount,
}

impl<S: Scale> DelayQuantiser<S> {
    /// What a receiver reads where the hops measured `exact`. A stack that had no room for some of them has lost which: it is
    /// flagged incomplete, and [`Self::carry_hops`] says exactly what it holds.
    pub fn carry(&self, exact: MaxHopDelay) -> MaxHopDelay {
        let code = exact.delay().map_or(0, |delay| self.scale.delay_code(delay));
        let (most, overflows) = match self.hops {
            HopCount::Counted { max } => (max, false),
            HopCount::Stacked { room } => (room, exact.hops > room),
            HopCount::Assumed(hops) => return self.scale.uncounted(code, hops),
        };
        MaxHopDelay {
            worst: self.scale.delay(code),
            hops: exact.hops.min(most),
            incomplete: exact.incomplete || overflows,
            saturated: code >= self.scale.max_code(),
        }
    }

    /// What a receiver reads where hops measured these delays, first hop first.
    pub fn carry_hops(&self, delays: impl Iterator<Item = Nanos>) -> MaxHopDelay {
        let room = match self.hops {
            HopCount::Stacked { room } => usize::from(room),
            HopCount::Counted { .. } | HopCount::Assumed(_) => usize::MAX,
        };
        let (mut exact, mut left_out) = (MaxHopDelay::default(), false);
        for (hop, delay) in delays.enumerate() {
            if hop < room {
                exact.update(delay);
            } else {
                left_out = true;
            }
        }
        exact.incomplete = left_out;
        self.carry(exact)
    }
}

/// The largest of the delays that the hops of a stack told, and whether any could not tell. Each comes with whether
/// its field was saturated.
pub(crate) fn worst_of(hops: impl Iterator<Item = Option<(Nanos, bool)>>, incomplete: bool) -> MaxHopDelay {
    let mut signal = MaxHopDelay { incomplete, ..MaxHopDelay::default() };
    for hop in hops {
        match hop {
            Some((delay, saturated)) => {
                signal.update(delay);
                signal.saturated |= saturated;
            }
            None => signal.incomplete = true,
        }
    }
    signal
}

/// What one tick of a device's clock or delay field is worth. Devices differ (Tofino ns, bmv2 us), and no header
/// says which (P4-INT v2.1 leaves it to the device's YANG description).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// So many nanoseconds; zero counts as one.
    Nanos(u32),
    /// 2^-32 seconds, as in NTP.
    SecondOver2Pow32,
}

impl TimeUnit {
    /// Nanoseconds.
    pub const NANO: Self = Self::Nanos(1);
    /// Microseconds.
    pub const MICRO: Self = Self::Nanos(1_000);

    /// Ticks in nanoseconds, rounded down; saturates.
    pub fn nanos_floor(self, ticks: u64) -> Nanos {
        Nanos::new(u64::try_from(self.nanos_wide(u128::from(ticks))).unwrap_or(u64::MAX))
    }

    /// Whole ticks in `time`, rounded down; saturates.
    pub fn ticks_floor(self, time: Nanos) -> u64 {
        match self {
            Self::Nanos(unit) => time.get() / u64::from(unit.max(1)),
            Self::SecondOver2Pow32 => {
                let ticks = (u128::from(time.get()) << 32) / NANOS_PER_SECOND;
                u64::try_from(ticks).unwrap_or(u64::MAX)
            }
        }
    }

    fn nanos_wide(self, ticks: u128) -> u128 {
        match self {
            Self::Nanos(unit) => ticks * u128::from(unit.max(1)),
            // At most 2^64 * 10^9 < 2^94.
            Self::SecondOver2Pow32 => (ticks * NANOS_PER_SECOND) >> 32,
        }
    }
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A delay in whole ticks of a device's clock, up to a largest code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// One tick.
    pub unit: TimeUnit,
    /// The largest code.
    pub max_code: u32,
}

impl Scale for Ticks {
    fn max_code(&self) -> u32 {
        self.max_code
    }

    fn encode(&self, value: u64) -> u32 {
        low32(self.unit.ticks_floor(Nanos::new(value)).min(u64::from(self.max_code)))
    }

    fn decode(&self, code: u32) -> u64 {
        self.unit.nanos_floor(u64::from(code.min(self.max_code))).get()
    }
}

/// A [`HopRecord`] as integers of limited width: `at` and `sent` wrap, `queue` saturates.
///
/// Differs: the artifacts truncate the queue too, so that a queue beyond the field's range looks short. A hop
/// here says "as much as I can say".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopScale {
    /// One tick of `at`.
    pub at_unit: TimeUnit,
    /// Bits of `at`, at most 64.
    pub at_bits: u8,
    /// Bytes per unit of `sent`; zero counts as one.
    pub sent_unit: u32,
    /// Bits of `sent`, at most 64.
    pub sent_bits: u8,
    /// Bytes per unit of `queue`; zero counts as one.
    pub queue_unit: u32,
    /// Bits of `queue`, at most 64.
    pub queue_bits: u8,
    /// All ones means "not available" in this format: a hop that measured writes one less.
    pub all_ones_is_absent: bool,
}

/// The integers of one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HopCode {
    /// Ticks of the hop's clock.
    pub at: u64,
    /// Units sent.
    pub sent: u64,
    /// Units waiting.
    pub queue: u64,
}

impl HopScale {
    /// The integers a hop writes.
    pub fn encode(&self, record: &HopRecord) -> HopCode {
        let at = self.at_unit.ticks_floor(record.at) & ones(self.at_bits);
        let sent = (record.sent.get() / unit(self.sent_unit)) & ones(self.sent_bits);
        let queue = (record.queue.get() / unit(self.queue_unit)).min(ones(self.queue_bits));
        HopCode {
            at: self.present(at, self.at_bits),
            sent: self.present(sent, self.sent_bits),
            queue: self.present(queue, self.queue_bits),
        }
    }

    /// The counters in units of the project. The rate is for the caller to fill in.
    pub fn decode(&self, code: HopCode) -> HopRecord {
        HopRecord {
            at: self.at_unit.nanos_floor(code.at),
            sent: Bytes::new(code.sent.saturating_mul(unit(self.sent_unit))),
            queue: Bytes::new(code.queue.saturating_mul(unit(self.queue_unit))),
            ..HopRecord::default()
        }
    }

    /// What a receiver reads where the hop measured `exact`. The rate passes unchanged.
    pub fn carry(&self, exact: &HopRecord) -> HopRecord {
        HopRecord { rate: exact.rate, ..self.decode(self.encode(exact)) }
    }

    /// Where the counters wrap; zero where 64 bits of the unit or more pass first.
    pub fn wrap(&self) -> Wrap {
        let at = self.at_unit.nanos_wide(u128::from(ones(self.at_bits)) + 1);
        let sent = (u128::from(ones(self.sent_bits)) + 1) * u128::from(unit(self.sent_unit));
        Wrap {
            at: Nanos::new(u64::try_from(at).unwrap_or(0)),
            sent: Bytes::new(u64::try_from(sent).unwrap_or(0)),
        }
    }

    /// Keeps a measured value apart from "not available".
    fn present(&self, code: u64, bits: u8) -> u64 {
        code.saturating_sub(u64::from(self.all_ones_is_absent && code == ones(bits)))
    }
}

fn unit(bytes: u32) -> u64 {
    u64::from(bytes.max(1))
}

fn ones(bits: u8) -> u64 {
    u64::MAX.checked_shr(64_u32.saturating_sub(u32::from(bits))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_code() {
        // Listing 1: 25.6 us is 100. 16.777216 ms saturates instead of wrapping to zero.
        let scale = Steps::new(8, 16);
        assert_eq!(scale.encode(25_600), 100);
        assert_eq!(scale.encode(25_599), 99);
        assert_eq!(scale.decode(100), 25_600);
        assert_eq!(scale.encode(1 << 24), 0xffff);
        assert_eq!(scale.encode(u64::MAX), 0xffff);
        assert_eq!(scale.without_all_ones().encode(u64::MAX), 0xfffe);
    }

    #[test]
    fn steps_above_a_base() {
        let scale = Steps::new(7, 20).above_base(10);
        assert_eq!((scale.encode(0), scale.encode(1_024), scale.encode(1_151)), (0, 0, 0));
        assert_eq!(scale.encode(1_152), 1);
        assert_eq!(scale.decode(1), 1_152);
        assert_eq!(Steps::new(255, 255).decode(u32::MAX), u64::from(u32::MAX) << 32);
        assert_eq!(Steps::new(0, 0).max_code(), 1);
    }

    #[test]
    fn a_table_must_rise() {
        let mut ends = core::array::from_fn(|i| 100 * i as u64);
        assert_eq!(Ranges::new(ends).map(|r| r.encode(250)), Ok(2));
        ends[7] = ends[6];
        assert_eq!(Ranges::new(ends), Err(Error::NotMonotone { at: 7 }));
    }

    #[test]
    fn hpccs_counters_wrap_where_its_paper_says() {
        let scale = HopScale {
            at_unit: TimeUnit::NANO,
            at_bits: 24,
            sent_unit: 128,
            sent_bits: 20,
            queue_unit: 80,
            queue_bits: 16,
            all_ones_is_absent: false,
        };
        assert_eq!(scale.wrap().at, Nanos::new(1 << 24));
        assert_eq!(scale.wrap().sent, Bytes::new(1 << 27));
        let read = scale.carry(&HopRecord {
            at: Nanos::new((1 << 24) + 5),
            sent: Bytes::new((1 << 27) + 300),
            queue: Bytes::new(10_000_000),
            ..HopRecord::default()
        });
        assert_eq!((read.at, read.sent), (Nanos::new(5), Bytes::new(256)));
        assert_eq!(read.queue, Bytes::new(65_535 * 80));
    }

    #[test]
    fn full_counters_never_wrap() {
        let scale = HopScale {
            at_unit: TimeUnit::NANO,
            at_bits: 64,
            sent_unit: 1,
            sent_bits: 64,
            queue_unit: 1,
            queue_bits: 64,
            all_ones_is_absent: true,
        };
        assert_eq!(scale.wrap(), Wrap::NEVER);
        assert_eq!(scale.carry(&HopRecord { at: Nanos::MAX, ..HopRecord::default() }).at.get(), u64::MAX - 1);
        let ntp = HopScale { at_unit: TimeUnit::SecondOver2Pow32, at_bits: 32, ..scale };
        assert_eq!(ntp.wrap().at, Nanos::new(1_000_000_000));
    }
}
