//! Quantisers apply a wire format's rounding, saturation and wrap-around to a value without encoding it as bytes.
//!
//! A simulator stores decoded values and applies the simulated format's quantiser, so a law sees the same values as on
//! a real network. Every format provides a quantiser. Tests check each quantiser against the encoded bytes.
//!
//! * [`Scale`]: converts between values and codes. [`LinearScale`] uses equal steps, [`TickScale`] counts ticks of a
//!   device clock, and [`TableScale`] uses a table of ranges.
//! * [`DelayQuantiser`]: quantises a [`MaxHopDelay`].
//! * [`HopScale`]: quantises a [`HopRecord`].
//!
//! Values are rounded down, except that a value below the first range is rounded up to the start of that range. Scales
//! are monotone, so the largest value has the largest code. A switch can therefore compare codes without decoding them.

use crate::bytes::low32;
use crate::error::{Error, Result};
use poseidon_types::{Bytes, CounterWrap, HopRecord, MaxHopDelay, Nanos};

/// A monotone mapping from values, in the signal's unit, to small integer codes.
pub trait Scale {
    /// Returns the largest code, which means "this value or more".
    fn max_code(&self) -> u32;
    /// Returns the code for the range that contains `value`. Saturates at both ends.
    fn encode(&self, value: u64) -> u32;
    /// Returns the lower end of the range for `code`. Saturates on overflow.
    fn decode(&self, code: u32) -> u64;

    /// Decodes a delay.
    fn decode_delay(&self, code: u32) -> Nanos {
        Nanos::new(self.decode(code))
    }

    /// Decodes a delay and returns whether the code is saturated.
    fn decode_with_saturation(&self, code: u32) -> (Nanos, bool) {
        (self.decode_delay(code), code >= self.max_code())
    }

    /// Encodes a delay.
    fn encode_delay(&self, delay: Nanos) -> u32 {
        self.encode(delay.get())
    }

    /// Encodes a delay for a 16-bit field. Codes that do not fit in 16 bits saturate.
    fn encode_delay_u16(&self, delay: Nanos) -> u16 {
        u16::try_from(self.encode_delay(delay)).unwrap_or(u16::MAX)
    }

    /// Decodes a delay from a format without a hop count, for a path with `assumed_hops` telemetry-capable hops. A
    /// nonzero code implies at least one hop.
    fn decode_uncounted(&self, code: u32, assumed_hops: u8) -> MaxHopDelay {
        MaxHopDelay {
            worst: self.decode_delay(code),
            hops: assumed_hops.max(u8::from(code > 0)),
            incomplete: false,
            saturated: code >= self.max_code(),
        }
    }
}

/// A scale with equal steps: `base + code * 2^step_log2`, where the base is zero or a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearScale {
    base: u64,
    step_log2: u8,
    max_code: u32,
}

impl LinearScale {
    /// Creates a scale with `bits`-bit codes (1 to 32) and steps of `2^step_log2` (at most 2^32). Both arguments are
    /// clamped to their valid ranges.
    pub const fn new(step_log2: u8, bits: u8) -> Self {
        let bits = if bits < 1 { 1 } else { bits };
        Self {
            base: 0,
            step_log2: if step_log2 > 32 { 32 } else { step_log2 },
            max_code: if bits >= 32 { u32::MAX } else { (1 << bits) - 1 },
        }
    }

    /// Returns this scale with code zero mapped to `2^base_log2` (at most 2^63).
    #[must_use]
    pub const fn with_base_log2(self, base_log2: u8) -> Self {
        let base = 1 << if base_log2 > 63 { 63 } else { base_log2 };
        Self { base, ..self }
    }

    /// Returns this scale without the all-ones code, which some formats reserve for "not available".
    #[must_use]
    pub const fn without_all_ones(self) -> Self {
        Self { max_code: self.max_code.saturating_sub(1), ..self }
    }

    /// Returns this scale limited to 16-bit codes.
    #[must_use]
    pub(crate) const fn in_16_bits(self) -> Self {
        let max_code = if self.max_code > 0xffff { 0xffff } else { self.max_code };
        Self { max_code, ..self }
    }

    /// Returns this scale with a different maximum code.
    #[must_use]
    pub const fn with_max_code(self, max_code: u32) -> Self {
        Self { max_code, ..self }
    }
}

impl Scale for LinearScale {
    fn max_code(&self) -> u32 {
        self.max_code
    }

    fn encode(&self, value: u64) -> u32 {
        let steps = value.saturating_sub(self.base) >> self.step_log2;
        low32(steps.min(u64::from(self.max_code)))
    }

    fn decode(&self, code: u32) -> u64 {
        // The shift cannot overflow, because it shifts a 32-bit value left by at most 32 bits.
        self.base.saturating_add(u64::from(code.min(self.max_code)) << self.step_log2)
    }
}

/// A scale with 32 operator-defined ranges, as used in CSIG's compact tag. Each code decodes to the lower end of its
/// range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableScale([u64; Self::COUNT]);

impl TableScale {
    /// The number of ranges that a five-bit code can address.
    pub const COUNT: usize = 32;

    /// Creates a scale whose ranges start at `lower_ends`, which must be strictly increasing. Values below the first
    /// range are treated as part of it.
    pub const fn new(lower_ends: [u64; Self::COUNT]) -> Result<Self> {
        let mut index = 1;
        while index < Self::COUNT {
            if lower_ends[index] <= lower_ends[index - 1] {
                return Err(Error::NotMonotone { index });
            }
            index += 1;
        }
        Ok(Self(lower_ends))
    }
}

impl Scale for TableScale {
    fn max_code(&self) -> u32 {
        31
    }

    fn encode(&self, value: u64) -> u32 {
        let started = self.0.iter().filter(|lower| **lower <= value).count();
        u32::try_from(started.saturating_sub(1)).unwrap_or(31)
    }

    fn decode(&self, code: u32) -> u64 {
        let index = usize::try_from(code).unwrap_or(usize::MAX).min(Self::COUNT - 1);
        self.0.get(index).copied().unwrap_or(u64::MAX)
    }
}

/// How a format reports the hop count to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HopCount {
    /// The format has a hop counter and a flag that is set if a hop could not measure its delay.
    Counted {
        /// The value at which the counter saturates.
        max: u8,
    },
    /// The format has one entry per hop and a flag that is set if no free entry was left for a hop.
    Stacked {
        /// The number of entries.
        capacity: u8,
    },
    /// The format has no hop count. The caller supplies the number of telemetry-capable hops.
    Assumed(u8),
}

/// The quantiser for formats that carry a single delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayQuantiser<S> {
    /// The delay scale.
    pub scale: S,
    /// How the format reports the hop count.
    pub hops: HopCount,
}

impl<S: Scale> DelayQuantiser<S> {
    /// Returns the telemetry that the receiver decodes if the hops measured `exact`.
    ///
    /// If the path has more hops than the stack has entries, the result is marked incomplete, but its delay still
    /// covers all hops. Use [`Self::quantise_hops`] for the exact result.
    pub fn quantise(&self, exact: MaxHopDelay) -> MaxHopDelay {
        let code = exact.delay().map_or(0, |delay| self.scale.encode_delay(delay));
        let (max_hops, overflows) = match self.hops {
            HopCount::Counted { max } => (max, false),
            HopCount::Stacked { capacity } => (capacity, exact.hops > capacity),
            HopCount::Assumed(hops) => return self.scale.decode_uncounted(code, hops),
        };
        MaxHopDelay {
            worst: self.scale.decode_delay(code),
            hops: exact.hops.min(max_hops),
            incomplete: exact.incomplete || overflows,
            saturated: code >= self.scale.max_code(),
        }
    }

    /// Returns the telemetry that the receiver decodes if the hops measured these delays, first hop first.
    pub fn quantise_hops(&self, delays: impl Iterator<Item = Nanos>) -> MaxHopDelay {
        let capacity = match self.hops {
            HopCount::Stacked { capacity } => usize::from(capacity),
            HopCount::Counted { .. } | HopCount::Assumed(_) => usize::MAX,
        };
        let mut exact = MaxHopDelay::default();
        for (hop, delay) in delays.enumerate() {
            if hop < capacity {
                exact.update(delay);
            } else {
                exact.incomplete = true;
            }
        }
        self.quantise(exact)
    }
}

/// Returns the maximum delay over a stack. Each item is a hop's delay and saturation flag, or `None` if the hop could
/// not measure its delay.
pub(crate) fn max_over_hops(
    hops: impl Iterator<Item = Option<(Nanos, bool)>>,
    incomplete: bool,
) -> MaxHopDelay {
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

/// The tick duration of a device's clock or delay field. The duration depends on the device (ns for Tofino, us for
/// bmv2). Headers do not carry it; P4-INT v2.1 leaves it to the device's YANG model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeUnit {
    /// A number of nanoseconds. Zero is treated as one.
    Nanos(u32),
    /// 2^-32 seconds, as in NTP.
    SecondOver2Pow32,
}

impl TimeUnit {
    /// One nanosecond.
    pub const NANO: Self = Self::Nanos(1);
    /// One microsecond.
    pub const MICRO: Self = Self::Nanos(1_000);

    /// Converts ticks to nanoseconds, rounding down. Saturates on overflow.
    pub fn nanos_floor(self, ticks: u64) -> Nanos {
        Nanos::new(u64::try_from(self.nanos_wide(u128::from(ticks))).unwrap_or(u64::MAX))
    }

    /// Converts nanoseconds to ticks, rounding down. Saturates on overflow.
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
            // The product is below 2^64 * 10^9 < 2^94.
            Self::SecondOver2Pow32 => (ticks * NANOS_PER_SECOND) >> 32,
        }
    }
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A scale that counts whole ticks of a device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickScale {
    /// The duration of one tick.
    pub unit: TimeUnit,
    /// The largest code.
    pub max_code: u32,
}

impl Scale for TickScale {
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

/// The integer encoding of a [`HopRecord`]. The timestamp and the byte counter wrap, and the queue length saturates.
///
/// Difference: the published artifacts truncate the queue length, so a queue that exceeds the field's range appears
/// short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopScale {
    /// The tick duration of the timestamp.
    pub timestamp_unit: TimeUnit,
    /// The timestamp width in bits, at most 64.
    pub timestamp_bits: u8,
    /// The byte counter's unit, in bytes. Zero is treated as one.
    pub sent_unit: u32,
    /// The byte counter's width in bits, at most 64.
    pub sent_bits: u8,
    /// The queue length unit, in bytes. Zero is treated as one.
    pub queue_unit: u32,
    /// The width of the queue length field in bits, at most 64.
    pub queue_bits: u8,
    /// Whether all ones means "not available". If so, the largest value that a hop writes is one less.
    pub all_ones_is_absent: bool,
}

/// The encoded fields of one hop record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HopCode {
    /// The timestamp in ticks.
    pub timestamp: u64,
    /// The byte counter, in multiples of [`HopScale::sent_unit`].
    pub sent: u64,
    /// The queue length, in multiples of [`HopScale::queue_unit`].
    pub queue: u64,
}

impl HopScale {
    /// Encodes a record.
    pub fn encode(&self, record: &HopRecord) -> HopCode {
        let timestamp = self.timestamp_unit.ticks_floor(record.timestamp) & ones(self.timestamp_bits);
        let sent = (record.sent.get() / unit(self.sent_unit)) & ones(self.sent_bits);
        let queue = (record.queue.get() / unit(self.queue_unit)).min(ones(self.queue_bits));
        HopCode {
            timestamp: self.avoid_all_ones(timestamp, self.timestamp_bits),
            sent: self.avoid_all_ones(sent, self.sent_bits),
            queue: self.avoid_all_ones(queue, self.queue_bits),
        }
    }

    /// Decodes a record. The caller must set the rate.
    pub fn decode(&self, code: HopCode) -> HopRecord {
        HopRecord {
            timestamp: self.timestamp_unit.nanos_floor(code.timestamp),
            sent: Bytes::new(code.sent.saturating_mul(unit(self.sent_unit))),
            queue: Bytes::new(code.queue.saturating_mul(unit(self.queue_unit))),
            ..HopRecord::default()
        }
    }

    /// Returns the record that the receiver decodes if the hop measured `exact`. The rate is left unchanged.
    pub fn quantise(&self, exact: &HopRecord) -> HopRecord {
        HopRecord { rate: exact.rate, ..self.decode(self.encode(exact)) }
    }

    /// Returns the values at which the counters wrap. Zero means 2^64 or more.
    pub fn wrap(&self) -> CounterWrap {
        let timestamp = self.timestamp_unit.nanos_wide(u128::from(ones(self.timestamp_bits)) + 1);
        let sent = (u128::from(ones(self.sent_bits)) + 1) * u128::from(unit(self.sent_unit));
        CounterWrap {
            timestamp: Nanos::new(u64::try_from(timestamp).unwrap_or(0)),
            sent: Bytes::new(u64::try_from(sent).unwrap_or(0)),
        }
    }

    /// Decrements an all-ones code if all ones means "not available".
    fn avoid_all_ones(&self, code: u64, bits: u8) -> u64 {
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
    fn linear_scale_matches_listing_1() {
        // Listing 1 encodes 25.6 us as 100. Here, 16.777216 ms saturates instead of wrapping to zero.
        let scale = LinearScale::new(8, 16);
        assert_eq!(scale.encode(25_600), 100);
        assert_eq!(scale.encode(25_599), 99);
        assert_eq!(scale.decode(100), 25_600);
        assert_eq!(scale.encode(1 << 24), 0xffff);
        assert_eq!(scale.encode(u64::MAX), 0xffff);
        assert_eq!(scale.without_all_ones().encode(u64::MAX), 0xfffe);
    }

    #[test]
    fn linear_scale_starts_at_its_base() {
        let scale = LinearScale::new(7, 20).with_base_log2(10);
        assert_eq!((scale.encode(0), scale.encode(1_024), scale.encode(1_151)), (0, 0, 0));
        assert_eq!(scale.encode(1_152), 1);
        assert_eq!(scale.decode(1), 1_152);
        assert_eq!(LinearScale::new(255, 255).decode(u32::MAX), u64::from(u32::MAX) << 32);
        assert_eq!(LinearScale::new(0, 0).max_code(), 1);
    }

    #[test]
    fn table_must_be_increasing() {
        let mut ends = core::array::from_fn(|i| 100 * i as u64);
        assert_eq!(TableScale::new(ends).map(|scale| scale.encode(250)), Ok(2));
        ends[7] = ends[6];
        assert_eq!(TableScale::new(ends), Err(Error::NotMonotone { index: 7 }));
    }

    #[test]
    fn hpcc_counters_wrap_as_in_the_paper() {
        let scale = HopScale {
            timestamp_unit: TimeUnit::NANO,
            timestamp_bits: 24,
            sent_unit: 128,
            sent_bits: 20,
            queue_unit: 80,
            queue_bits: 16,
            all_ones_is_absent: false,
        };
        assert_eq!(scale.wrap().timestamp, Nanos::new(1 << 24));
        assert_eq!(scale.wrap().sent, Bytes::new(1 << 27));
        let read = scale.quantise(&HopRecord {
            timestamp: Nanos::new((1 << 24) + 5),
            sent: Bytes::new((1 << 27) + 300),
            queue: Bytes::new(10_000_000),
            ..HopRecord::default()
        });
        assert_eq!((read.timestamp, read.sent), (Nanos::new(5), Bytes::new(256)));
        assert_eq!(read.queue, Bytes::new(65_535 * 80));
    }

    #[test]
    fn counters_of_64_bits_never_wrap() {
        let scale = HopScale {
            timestamp_unit: TimeUnit::NANO,
            timestamp_bits: 64,
            sent_unit: 1,
            sent_bits: 64,
            queue_unit: 1,
            queue_bits: 64,
            all_ones_is_absent: true,
        };
        assert_eq!(scale.wrap(), CounterWrap::NEVER);
        assert_eq!(
            scale.quantise(&HopRecord { timestamp: Nanos::MAX, ..HopRecord::default() }).timestamp.get(),
            u64::MAX - 1
        );
        let ntp = HopScale { timestamp_unit: TimeUnit::SecondOver2Pow32, timestamp_bits: 32, ..scale };
        assert_eq!(ntp.wrap().timestamp, Nanos::new(1_000_000_000));
    }
}
