//! The reflection block: four bytes in an acknowledgement that echo the received shim to the sender.
//!
//! ```text
//!  byte 0                     byte 1                       bytes 2-3
//! +-------+---+---+---+---+  +-------------+------------+  +---------------------------+
//! | ver:4 | X | D | P | 0 |  | hops_seen:4 | int_hops:4 |  | max_hop_delay, big-endian |
//! +-------+---+---+---+---+  +-------------+------------+  +---------------------------+
//! ```
//!
//! Byte 0 and the delay are copied from the received shim. `hops_seen` is the initial TTL minus the received TTL. Both
//! counts saturate at 15. The block belongs in the authenticated part of the packet (QUIC, TLS, PSP), so switches do
//! not update it.
//!
//! Source: this project's profile of Poseidon (NSDI'23) section 4.1, "brownfield".

use crate::bytes::{load, store};
use crate::error::{Result, check_len};
use crate::quantiser::{DelayQuantiser, HopCount, LinearScale};
use crate::shim::{self, Flags};
use poseidon_types::MaxHopDelay;
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The header size in bytes.
pub const HEADER_BYTES: usize = 4;
/// The largest hop count that the block can store.
pub const MAX_HOPS: u8 = 15;
/// The conventional initial TTL or hop limit.
pub const INITIAL_TTL: u8 = 64;
/// The quantiser for a delay that is carried in the shim and then echoed in the reflection block.
pub const QUANTISER: DelayQuantiser<LinearScale> =
    DelayQuantiser { scale: shim::SCALE, hops: HopCount::Counted { max: MAX_HOPS } };

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    flags: u8,
    hops: u8,
    max_hop_delay: U16,
}

/// A view of a buffer that starts with a reflection block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails if the buffer is shorter than the block. Only [`Repr::parse`] checks the version.
    pub fn new_checked(buffer: T) -> Result<Self> {
        check_len(buffer.as_ref(), HEADER_BYTES)?;
        Ok(Self { buffer })
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    /// Returns the version.
    pub fn version(&self) -> u8 {
        self.layout().flags >> 4
    }

    /// Returns the number of hops on the path, as derived from the TTL. Saturates at 15.
    pub fn hops_seen(&self) -> u8 {
        self.layout().hops >> 4
    }

    /// Returns the number of hops that measured a delay. Saturates at 15.
    pub fn int_hops(&self) -> u8 {
        self.layout().hops & 0x0f
    }

    /// Returns the delay code.
    pub fn max_hop_delay(&self) -> u16 {
        self.layout().max_hop_delay.get()
    }
}

/// How many of the hops on the path measured their delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All hops measured their delay. The sender can rely on the maximum hop delay alone.
    Full,
    /// Only some hops measured their delay. The sender combines the maximum hop delay with the end-to-end delay (paper,
    /// section 4.1).
    Partial,
    /// No hop measured its delay. The sender relies on the end-to-end delay alone.
    None,
    /// The coverage is unknown, because the counts are saturated or more hops measured a delay than the TTL indicates.
    /// The latter happens with tunnels and with switches that do not decrement the TTL.
    Unknown,
}

/// The parsed reflection block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The shim's flags.
    pub flags: Flags,
    /// The number of hops on the path, at most 15.
    pub hops_seen: u8,
    /// The number of hops that measured a delay, at most 15.
    pub int_hops: u8,
    /// The shim's delay code.
    pub max_hop_delay: u16,
}

impl Repr {
    /// Creates the block that the receiver sends in response to a packet that arrived with `shim` and `received_ttl`.
    pub fn reflect(shim: &shim::Repr, received_ttl: u8, initial_ttl: u8) -> Self {
        Self {
            flags: shim.flags,
            hops_seen: initial_ttl.saturating_sub(received_ttl).min(MAX_HOPS),
            int_hops: shim.int_hops.min(MAX_HOPS),
            max_hop_delay: shim.max_hop_delay,
        }
    }

    /// Parses a version 1 block.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self {
            flags: Flags::parse(packet.layout().flags)?,
            hops_seen: packet.hops_seen(),
            int_hops: packet.int_hops(),
            max_hop_delay: packet.max_hop_delay(),
        })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the block to the start of `buffer`. Counts saturate at 15.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, self.buffer_len())?;
        let layout = Layout {
            flags: self.flags.emit(),
            hops: (self.hops_seen.min(MAX_HOPS) << 4) | self.int_hops.min(MAX_HOPS),
            max_hop_delay: U16::new(self.max_hop_delay),
        };
        // The end host computes the checksum later, so the delta is not needed.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }

    /// Returns how many of the hops on the path measured their delay.
    pub const fn coverage(&self) -> Coverage {
        if self.int_hops == 0 {
            Coverage::None
        } else if self.int_hops >= MAX_HOPS || self.int_hops > self.hops_seen {
            Coverage::Unknown
        } else if self.int_hops == self.hops_seen && !self.flags.incomplete {
            Coverage::Full
        } else {
            Coverage::Partial
        }
    }

    /// Returns the telemetry carried in the block.
    pub fn telemetry(&self, scale: &LinearScale) -> MaxHopDelay {
        shim::Repr { flags: self.flags, int_hops: self.int_hops, max_hop_delay: self.max_hop_delay }
            .telemetry(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    /// The block for a shim with bytes `10030064` that arrived with TTL 59.
    const PARTIAL: [u8; 4] = [0x10, 0x53, 0x00, 0x64];

    #[test]
    fn reflected_shim_has_the_same_telemetry() {
        let shim = shim::Repr::parse(&[0x10, 0x03, 0x00, 0x64]).expect("the header is valid");
        let repr = Repr::reflect(&shim, 59, INITIAL_TTL);
        let mut out = [0; 4];
        repr.emit(&mut out).expect("the buffer is large enough");
        assert_eq!(out, PARTIAL);
        assert_eq!(Repr::parse(&out), Ok(repr));
        assert_eq!(repr.coverage(), Coverage::Partial);
        assert_eq!(repr.telemetry(&shim::SCALE), shim.telemetry(&shim::SCALE));
    }

    #[test]
    fn coverage_is_unknown_for_ambiguous_counts() {
        let block = |hops_seen, int_hops| Repr { hops_seen, int_hops, ..Repr::default() };
        assert_eq!(block(5, 5).coverage(), Coverage::Full);
        assert_eq!(block(5, 0).coverage(), Coverage::None);
        assert_eq!(block(2, 3).coverage(), Coverage::Unknown);
        assert_eq!(block(15, 15).coverage(), Coverage::Unknown);
        let mut incomplete = block(3, 3);
        incomplete.flags.incomplete = true;
        assert_eq!(incomplete.coverage(), Coverage::Partial);
    }

    #[test]
    fn counts_saturate_at_fifteen() {
        let shim = shim::Repr { int_hops: 200, ..shim::Repr::default() };
        let repr = Repr::reflect(&shim, 1, u8::MAX);
        assert_eq!((repr.hops_seen, repr.int_hops), (15, 15));
        // A received TTL above the initial TTL yields zero hops.
        assert_eq!(Repr::reflect(&shim, 128, INITIAL_TTL).hops_seen, 0);
    }

    #[test]
    fn short_buffers_are_rejected() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 4, have };
            assert_eq!(Repr::parse(&PARTIAL[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 4][..have]), Err(short));
        }
        assert!(matches!(Repr::parse(&[0, 0, 0, 0]), Err(Error::BadVersion { .. })));
    }
}
