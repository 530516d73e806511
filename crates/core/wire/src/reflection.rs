//! The reflection block: what a receiver tells the sender about the shims it got, in four bytes of the
//! acknowledgement.
//!
//! ```text
//!  byte 0                     byte 1                       bytes 2-3
//! +-------+---+---+---+---+  +-------------+------------+  +---------------------------+
//! | ver:4 | X | D | P | 0 |  | hops_seen:4 | int_hops:4 |  | max_hop_delay, big-endian |
//! +-------+---+---+---+---+  +-------------+------------+  +---------------------------+
//! ```
//!
//! Byte 0 and the delay are as received. `hops_seen` is the initial TTL less the received one; both counts stop
//! at 15. The block belongs inside authenticated bytes (QUIC, TLS, PSP): no switch touches it, so it has no
//! in-network update.
//!
//! Source: this project's profile of Poseidon (NSDI'23) section 4.1, "brownfield".

use crate::bytes::{load, store};
use crate::error::{Result, demand};
use crate::quantiser::{DelayQuantiser, HopCount, Steps};
use crate::shim::{self, Flags};
use poseidon_types::MaxHopDelay;
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes on the wire.
pub const HEADER_BYTES: usize = 4;
/// The largest hop count the block can say.
pub const MAX_HOPS: u8 = 15;
/// The TTL or hop limit senders begin with, by convention.
pub const INITIAL_TTL: u8 = 64;
/// What shim and reflection together do to a delay.
pub const QUANTISER: DelayQuantiser<Steps> =
    DelayQuantiser { scale: shim::SCALE, hops: HopCount::Counted { max: MAX_HOPS } };

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    flags: u8,
    hops: u8,
    max_hop_delay: U16,
}

/// A view over the bytes that begin with a reflection block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds a whole block. The version is checked by [`Repr::parse`].
    pub fn new_checked(buffer: T) -> Result<Self> {
        demand(buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    /// Version nibble.
    pub fn version(&self) -> u8 {
        self.layout().flags >> 4
    }

    /// Hops on the path, by TTL; 15 or more reads as 15.
    pub fn hops_seen(&self) -> u8 {
        self.layout().hops >> 4
    }

    /// Hops that measured; 15 or more reads as 15.
    pub fn int_hops(&self) -> u8 {
        self.layout().hops & 0x0f
    }

    /// The delay code.
    pub fn max_hop_delay(&self) -> u16 {
        self.layout().max_hop_delay.get()
    }
}

/// How much of the path measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every hop: the largest hop delay can be used alone.
    Full,
    /// Some hops: combine with the end-to-end delay (paper, section 4.1).
    Partial,
    /// No hop: use the end-to-end delay alone.
    Nothing,
    /// The counts cannot tell: they stopped at 15, or more hops measured than were seen (tunnels and switches
    /// that leave the TTL alone).
    Unknown,
}

/// What a reflection block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The flags of the shim.
    pub flags: Flags,
    /// Hops on the path, at most 15.
    pub hops_seen: u8,
    /// Hops that measured, at most 15.
    pub int_hops: u8,
    /// The delay code of the shim.
    pub max_hop_delay: u16,
}

impl Repr {
    /// What a receiver answers to `shim`, from a packet that arrived with `received_ttl`.
    pub fn reflect(shim: &shim::Repr, received_ttl: u8, initial_ttl: u8) -> Self {
        Self {
            flags: shim.flags,
            hops_seen: initial_ttl.saturating_sub(received_ttl).min(MAX_HOPS),
            int_hops: shim.int_hops.min(MAX_HOPS),
            max_hop_delay: shim.max_hop_delay,
        }
    }

    /// Reads a block of version 1.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self {
            flags: Flags::parse(packet.layout().flags)?,
            hops_seen: packet.hops_seen(),
            int_hops: packet.int_hops(),
            max_hop_delay: packet.max_hop_delay(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the block at the start of `buffer`; counts above 15 are written as 15.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, self.buffer_len())?;
        let layout = Layout {
            flags: self.flags.emit(),
            hops: (self.hops_seen.min(MAX_HOPS) << 4) | self.int_hops.min(MAX_HOPS),
            max_hop_delay: U16::new(self.max_hop_delay),
        };
        // Written by an end host before any checksum.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }

    /// How much of the path measured.
    pub const fn coverage(&self) -> Coverage {
        if self.int_hops == 0 {
            Coverage::Nothing
        } else if self.int_hops >= MAX_HOPS || self.int_hops > self.hops_seen {
            Coverage::Unknown
        } else if self.int_hops == self.hops_seen && !self.flags.incomplete {
            Coverage::Full
        } else {
            Coverage::Partial
        }
    }

    /// The meaning of the block.
    pub fn telemetry(&self, scale: &Steps) -> MaxHopDelay {
        shim::Repr { flags: self.flags, int_hops: self.int_hops, max_hop_delay: self.max_hop_delay }
            .telemetry(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    /// The answer to the shim `10030064` that arrived with TTL 59.
    const PARTIAL: [u8; 4] = [0x10, 0x53, 0x00, 0x64];

    #[test]
    fn a_shim_is_reflected() {
        let shim = shim::Repr::parse(&[0x10, 0x03, 0x00, 0x64]).expect("parses");
        let repr = Repr::reflect(&shim, 59, INITIAL_TTL);
        let mut out = [0; 4];
        repr.emit(&mut out).expect("fits");
        assert_eq!(out, PARTIAL);
        assert_eq!(Repr::parse(&out), Ok(repr));
        assert_eq!(repr.coverage(), Coverage::Partial);
        assert_eq!(repr.telemetry(&shim::SCALE), shim.telemetry(&shim::SCALE));
    }

    #[test]
    fn coverage_never_claims_what_the_counts_cannot_show() {
        let with = |hops_seen, int_hops| Repr { hops_seen, int_hops, ..Repr::default() };
        assert_eq!(with(5, 5).coverage(), Coverage::Full);
        assert_eq!(with(5, 0).coverage(), Coverage::Nothing);
        assert_eq!(with(2, 3).coverage(), Coverage::Unknown);
        assert_eq!(with(15, 15).coverage(), Coverage::Unknown);
        let mut unmeasured = with(3, 3);
        unmeasured.flags.incomplete = true;
        assert_eq!(unmeasured.coverage(), Coverage::Partial);
    }

    #[test]
    fn counts_stop_at_fifteen() {
        let shim = shim::Repr { int_hops: 200, ..shim::Repr::default() };
        let repr = Repr::reflect(&shim, 1, u8::MAX);
        assert_eq!((repr.hops_seen, repr.int_hops), (15, 15));
        // A TTL above the convention is no negative path.
        assert_eq!(Repr::reflect(&shim, 128, INITIAL_TTL).hops_seen, 0);
    }

    #[test]
    fn every_shorter_buffer_is_refused() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 4, have };
            assert_eq!(Repr::parse(&PARTIAL[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 4][..have]), Err(short));
        }
        assert!(matches!(Repr::parse(&[0, 0, 0, 0]), Err(Error::BadVersion { .. })));
    }
}
