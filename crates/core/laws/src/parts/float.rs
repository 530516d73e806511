//! Conversions between a host's integer units and the `f64` arithmetic of most laws.
//!
//! Basic IEEE operations produce the same bits on every platform. All other functions come from `libm`.

use poseidon_types::{BitRate, Bytes, Nanos, Packets};

/// Clamps `x` to the range from `low` to `high`. A NaN becomes `low`, so it shrinks a window instead of opening it.
#[inline]
pub(crate) fn clamp(x: f64, low: f64, high: f64) -> f64 {
    if x > low { if x < high { x } else { high } } else { low }
}

/// Converts to `f64`, saturating at 2^63. Signed integers convert in one instruction; unsigned integers do not.
#[inline]
fn to_f64(x: u64) -> f64 {
    x.min(i64::MAX.cast_unsigned()).cast_signed() as f64
}

/// Converts a time to nanoseconds.
#[inline]
pub(crate) fn ns(time: Nanos) -> f64 {
    to_f64(time.get())
}

/// Converts a size to bytes.
#[inline]
pub(crate) fn bytes(size: Bytes) -> f64 {
    to_f64(size.get())
}

/// Converts a rate to bytes per nanosecond.
#[inline]
pub(crate) fn bytes_per_ns(rate: BitRate) -> f64 {
    to_f64(rate.get()) / 8e9
}

/// Converts a window to packets.
#[inline]
pub(crate) fn packets(window: Packets) -> f64 {
    to_f64(window.q24()) / to_f64(Packets::ONE.q24())
}

/// Converts packets to a window: rounded down, never zero and never above [`Packets::MAX_WINDOW`].
#[inline]
pub(crate) fn to_window(packets: f64) -> Packets {
    let scaled = clamp(packets * Packets::ONE.q24() as f64, 1.0, Packets::MAX_WINDOW.q24() as f64);
    Packets::from_q24(floor_to_u64(scaled))
}

/// Converts bytes per nanosecond to a rate: rounded down, never zero.
#[inline]
pub(crate) fn to_rate(bytes_per_ns: f64) -> BitRate {
    BitRate::from_bps(floor_to_u64(clamp(bytes_per_ns * 8e9, 1.0, 1e18)))
}

/// Converts nanoseconds to a time, rounded down.
#[inline]
pub(crate) fn to_nanos(ns: f64) -> Nanos {
    Nanos::new(floor_to_u64(clamp(ns, 0.0, 1e18)))
}

/// Rounds down. The caller has clamped `x` to [0, 2^64).
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding down is intended, and the caller has clamped the value"
)]
#[expect(clippy::cast_sign_loss, reason = "the caller has clamped the value to at least zero")]
#[inline]
fn floor_to_u64(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_shrink_a_window_but_never_close_it() {
        assert_eq!(to_window(f64::NAN), Packets::from_q24(1));
        assert_eq!(to_window(-3.0), Packets::from_q24(1));
        assert_eq!(to_window(f64::INFINITY), Packets::MAX_WINDOW);
        assert_eq!(to_window(2.5), Packets::from_q24(5 << 23));
        assert_eq!(to_rate(f64::NAN), BitRate::from_bps(1));
        assert_eq!(to_rate(25.0), BitRate::from_gbps(200));
        assert_eq!(to_nanos(-1.0), Nanos::ZERO);
        assert_eq!(packets(Packets::whole(3)), 3.0);
    }
}
