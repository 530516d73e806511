//! How much: bytes, and packets with a fractional part.

use crate::quantity::quantity;
use crate::text::{self, UnitError, Units};
use core::fmt;

const SIZE: Units = Units {
    what: "size",
    accepted: "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
    table: &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)],
    aliases: &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)],
    traps: &[
        ("KB", "KB means two things: write kB (1000 bytes) or KiB (1024 bytes)"),
        ("K", "K means two things: write kB (1000 bytes) or KiB (1024 bytes)"),
        ("Mb", "Mb is megabits: a size is in bytes, write MB or MiB"),
        ("Gb", "Gb is gigabits: a size is in bytes, write GB or GiB"),
    ],
};

quantity! {
    /// A number of bytes. Decimal prefixes (`kB`, `MB`) and binary ones (`KiB`, `MiB`) are kept apart.
    Bytes, &SIZE
}

impl Bytes {
    /// So many bytes.
    #[inline]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
}

/// Packets of one MTU with a fractional part: a congestion window.
///
/// Fixed point with 24 fractional bits. A window of 0.01 packets is then held to 6 parts per million, and the
/// product of the largest window a law may take (2^15 packets) with a factor below one of the same precision
/// still fits 64 bits, which is all that BPF and most NICs offer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Packets(u64);

impl Packets {
    /// Bits behind the point.
    pub const FRACTION_BITS: u32 = 24;
    /// No packet.
    pub const ZERO: Self = Self(0);
    /// One packet.
    pub const ONE: Self = Self(1 << Self::FRACTION_BITS);
    /// The largest window a law may ask for: 2^15 packets.
    pub const MAX_WINDOW: Self = Self(1 << (15 + Self::FRACTION_BITS));

    /// Whole packets; saturates at 2^40.
    #[inline]
    pub const fn whole(packets: u64) -> Self {
        Self(packets.saturating_mul(1 << Self::FRACTION_BITS))
    }

    /// From the raw fixed-point number (24 fractional bits).
    #[inline]
    pub const fn from_q24(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw fixed-point number (24 fractional bits).
    #[inline]
    pub const fn q24(self) -> u64 {
        self.0
    }

    /// Whole packets, rounded down: how many fit entirely.
    #[inline]
    pub const fn floor(self) -> u64 {
        self.0 >> Self::FRACTION_BITS
    }

    /// Whole packets, rounded up: how many are begun.
    #[inline]
    pub const fn ceil(self) -> u64 {
        self.0.div_ceil(1 << Self::FRACTION_BITS)
    }

    /// The same amount in bytes, rounded down; saturates.
    #[inline]
    pub fn to_bytes_floor(self, mtu: Bytes) -> Bytes {
        let product = u128::from(self.0) * u128::from(mtu.get());
        Bytes::new(u64::try_from(product >> Self::FRACTION_BITS).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::fraction::print_shortest(f, self.0, Self::FRACTION_BITS)?;
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

    /// Reads `"32 packets"` or `"0.01 packets"`, rounded to the nearest 2^-24.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WHAT: &str = "window";
        const ACCEPTED: &str = "packets";
        let Some((number, unit)) = text::split_decimal(text.trim()) else {
            return Err(UnitError::NotANumber { what: WHAT, accepted: ACCEPTED });
        };
        match unit.trim_start() {
            "packets" | "packet" => {}
            "" => {
                return Err(UnitError::MissingUnit { what: WHAT, accepted: ACCEPTED });
            }
            _ => {
                return Err(UnitError::UnknownUnit { what: WHAT, accepted: ACCEPTED });
            }
        }
        crate::fraction::scale_nearest(&number, Self::FRACTION_BITS)
            .map(Self)
            .ok_or(UnitError::OutOfRange { what: WHAT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn windows_below_one_packet_exist() {
        let tiny: Packets = "0.01 packets".parse().expect("reads");
        assert_eq!((tiny.floor(), tiny.ceil()), (0, 1));
        assert_eq!(tiny.q24(), 167_772);
        assert_eq!(tiny.to_string(), "0.01 packets");
        assert_eq!(tiny.to_bytes_floor(Bytes::new(4096)), Bytes::new(40));
        assert_eq!("32 packets".parse(), Ok(Packets::whole(32)));
        assert_eq!(Packets::whole(32).to_string(), "32 packets");
        assert!("32".parse::<Packets>().is_err());
    }

    #[test]
    fn decimal_and_binary_prefixes_are_apart() {
        let decimal: Bytes = "1 MB".parse().expect("reads");
        let binary: Bytes = "1 MiB".parse().expect("reads");
        assert_eq!((decimal.get(), binary.get()), (1_000_000, 1_048_576));
        assert_eq!(binary.to_string(), "1.048576 MB");
    }
}
