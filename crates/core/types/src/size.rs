//! Amounts of data: bytes, and packets with a fractional part.

use crate::quantity::quantity;
use crate::text::{self, UnitError, Units};
use core::fmt;

const SIZE: Units = Units {
    quantity: "size",
    accepted: "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
    table: &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)],
    aliases: &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)],
    ambiguous: &[
        ("KB", "KB is ambiguous: write kB (1000 bytes) or KiB (1024 bytes)"),
        ("K", "K is ambiguous: write kB (1000 bytes) or KiB (1024 bytes)"),
        ("Mb", "Mb is megabits: a size is in bytes, write MB or MiB"),
        ("Gb", "Gb is gigabits: a size is in bytes, write GB or GiB"),
    ],
};

quantity! {
    /// A number of bytes. Text distinguishes decimal prefixes (`kB`, `MB`) from binary prefixes (`KiB`, `MiB`).
    Bytes, &SIZE
}

impl Bytes {
    /// Creates a size from bytes.
    #[inline]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
}

/// A congestion window: a number of MTU-sized packets with a fractional part.
///
/// The window is stored in fixed point with 24 fractional bits, so a window of 0.01 packets has a relative error below
/// 6e-6. The largest window (2^15 packets) times a factor below one still fits in 64 bits, the word size of BPF and
/// most NICs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Packets(u64);

impl Packets {
    /// The number of fractional bits.
    pub const FRACTION_BITS: u32 = 24;
    /// A window of zero packets.
    pub const ZERO: Self = Self(0);
    /// One packet.
    pub const ONE: Self = Self(1 << Self::FRACTION_BITS);
    /// The largest window that a law may request: 2^15 packets.
    pub const MAX_WINDOW: Self = Self(1 << (15 + Self::FRACTION_BITS));

    /// Creates a window of whole packets, saturating at 2^40 packets.
    #[inline]
    pub const fn whole(packets: u64) -> Self {
        Self(packets.saturating_mul(1 << Self::FRACTION_BITS))
    }

    /// Creates a window from a raw fixed-point number (24 fractional bits).
    #[inline]
    pub const fn from_q24(raw: u64) -> Self {
        Self(raw)
    }

    /// Returns the raw fixed-point number (24 fractional bits).
    #[inline]
    pub const fn q24(self) -> u64 {
        self.0
    }

    /// Returns the number of packets, rounded down.
    #[inline]
    pub const fn floor(self) -> u64 {
        self.0 >> Self::FRACTION_BITS
    }

    /// Returns the number of packets, rounded up.
    #[inline]
    pub const fn ceil(self) -> u64 {
        self.0.div_ceil(1 << Self::FRACTION_BITS)
    }

    /// Converts the window to bytes, rounding down and saturating on overflow.
    #[inline]
    pub fn to_bytes_floor(self, mtu: Bytes) -> Bytes {
        let product = u128::from(self.0) * u128::from(mtu.get());
        Bytes::new(u64::try_from(product >> Self::FRACTION_BITS).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::fraction::fmt_shortest(f, self.0, Self::FRACTION_BITS)?;
        f.write_str(" packets")
    }
}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for Packets {
    type Err = UnitError;

    /// Parses `"32 packets"` or `"0.01 packets"` and rounds to the nearest 2^-24.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const QUANTITY: &str = "window";
        const ACCEPTED: &str = "packets";
        let Some((number, unit)) = text::split_decimal(text.trim()) else {
            return Err(UnitError::NotANumber { quantity: QUANTITY, accepted: ACCEPTED });
        };
        match unit.trim_start() {
            "packets" | "packet" => {}
            "" => {
                return Err(UnitError::MissingUnit { quantity: QUANTITY, accepted: ACCEPTED });
            }
            _ => {
                return Err(UnitError::UnknownUnit { quantity: QUANTITY, accepted: ACCEPTED });
            }
        }
        crate::fraction::scale_nearest(&number, Self::FRACTION_BITS)
            .map(Self)
            .ok_or(UnitError::OutOfRange { quantity: QUANTITY })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn window_can_be_below_one_packet() {
        let tiny: Packets = "0.01 packets".parse().expect("the text is valid");
        assert_eq!((tiny.floor(), tiny.ceil()), (0, 1));
        assert_eq!(tiny.q24(), 167_772);
        assert_eq!(tiny.to_string(), "0.01 packets");
        assert_eq!(tiny.to_bytes_floor(Bytes::new(4096)), Bytes::new(40));
        assert_eq!("32 packets".parse(), Ok(Packets::whole(32)));
        assert_eq!(Packets::whole(32).to_string(), "32 packets");
        assert!("32".parse::<Packets>().is_err());
    }

    #[test]
    fn decimal_and_binary_prefixes_differ() {
        let decimal: Bytes = "1 MB".parse().expect("the text is valid");
        let binary: Bytes = "1 MiB".parse().expect("the text is valid");
        assert_eq!((decimal.get(), binary.get()), (1_000_000, 1_048_576));
        assert_eq!(binary.to_string(), "1.048576 MB");
    }
}
