//! The border between the integers a host speaks and the `f64` the peers' laws compute in.
//!
//! Basic IEEE operations are exact to the last bit on every platform; anything else goes through `libm`.

use poseidon_types::{BitRate, Bytes, Nanos, Packets};

/// `x` held between `low` and `high`; a NaN becomes `low`, so that nonsense shrinks a window instead of opening it.
#[inline]
pub fn bounded(x: f64, low: f64, high: f64) -> f64 {
    if x > low { if x < high { x } else { high } } else { low }
}

/// An integer as a number; saturates at 2^63. Signed integers convert in one instruction, unsigned ones do not.
#[inline]
fn real(x: u64) -> f64 {
    x.min(i64::MAX.cast_unsigned()).cast_signed() as f64
}

/// Nanoseconds as a number.
#[inline]
pub fn ns(time: Nanos) -> f64 {
    real(time.get())
}

/// Bytes as a number.
#[inline]
pub fn bytes(size: Bytes) -> f64 {
    real(size.get())
}

/// A rate in bytes per nanosecond.
#[inline]
pub fn bytes_per_ns(rate: BitRate) -> f64 {
    real(rate.get()) / 8e9
}

/// Packets as a number.
#[inline]
pub fn packets(window: Packets) -> f64 {
    real(window.q24()) / real(Packets::ONE.q24())
}

/// A window in packets, rounded down, never zero and never above [`Packets::MAX_WINDOW`].
#[inline]
pub fn to_window(packets: f64) -> Packets {
    let scaled = bounded(packets * Packets::ONE.q24() as f64, 1.0, Packets::MAX_WINDOW.q24() as f64);
    Packets::from_q24(whole(scaled))
}

/// A rate from bytes per nanosecond, rounded down, never zero.
#[inline]
pub fn to_rate(bytes_per_ns: f64) -> BitRate {
    BitRate::from_bps(whole(bounded(bytes_per_ns * 8e9, 1.0, 1e18)))
}

/// A time from nanoseconds, rounded down.
#[inline]
pub fn to_nanos(ns: f64) -> Nanos {
    Nanos::new(whole(bounded(ns, 0.0, 1e18)))
}

/// A non-negative number that has been bounded below 2^64, rounded down.
#[expect(clippy::cast_possible_truncation, reason = "rounding down is meant; the caller has bounded it")]
#[expect(clippy::cast_sign_loss, reason = "the caller has bounded it below by zero")]
#[inline]
fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_shrinks_a_window_and_never_closes_or_opens_it() {
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
