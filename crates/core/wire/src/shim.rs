//! The MHD shim, version 1: four bytes after the UDP header that carry the maximum hop delay and the hop count.
//!
//! ```text
//!  byte 0                     byte 1        bytes 2-3
//! +-------+---+---+---+---+  +-----------+  +---------------------------+
//! | ver:4 | X | D | P | 0 |  | int_hops  |  | max_hop_delay, big-endian |
//! +-------+---+---+---+---+  +-----------+  +---------------------------+
//! X  a hop could not measure its delay    D  do not update (trimmed or copied packet)
//! P  the sender requests path coverage
//! ```
//!
//! The shim has a fixed length, so switches need no option parser and the payload stays aligned. The delay is encoded
//! in steps of 256 ns, as in the paper and in TCP-INT. This step is small compared to delay targets of several
//! microseconds. The range of 16.777 ms exceeds the drain time of 64 MB at 200 Gbps. A code of `0xffff` means "this
//! delay or more". A delay of zero means that all queues are empty if `int_hops` is positive, and that no hop measured
//! its delay otherwise.
//!
//! Source: this project's profile of Poseidon (NSDI'23) section 4.1 and listing 1.

use crate::bare16;
use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, check_len};
use crate::quantiser::{DelayQuantiser, HopCount, LinearScale, Scale};
use poseidon_types::{MaxHopDelay, Nanos};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The header size in bytes.
pub const HEADER_BYTES: usize = 4;
/// The supported version.
pub const VERSION: u8 = 1;
/// The delay scale: 16-bit codes in steps of 256 ns, saturating.
pub const SCALE: LinearScale = bare16::SCALE;
/// The quantiser for a delay that is carried in the shim.
pub const QUANTISER: DelayQuantiser<LinearScale> =
    DelayQuantiser { scale: SCALE, hops: HopCount::Counted { max: u8::MAX } };
/// The suggested UDP destination port. Switches modify packets sent to this port, so no other protocol may use the
/// port. It lies outside both the IANA-assigned range (below 49152) and Linux's default ephemeral range (32768 to
/// 60999).
pub const DEFAULT_UDP_PORT: u16 = 65_053;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    flags: u8,
    int_hops: u8,
    max_hop_delay: U16,
}

/// The flags in byte 0 of the shim and the reflection block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags {
    /// X: a hop that supports telemetry could not measure its delay.
    pub incomplete: bool,
    /// D: hops must not update the shim.
    pub frozen: bool,
    /// P: the sender requests path coverage.
    pub wants_coverage: bool,
}

const X: u8 = 0b1000;
const D: u8 = 0b0100;
const P: u8 = 0b0010;

impl Flags {
    /// Parses the flags in byte 0. Ignores the reserved bit.
    pub(crate) const fn parse(byte: u8) -> Result<Self> {
        let found = byte >> 4;
        if found != VERSION {
            return Err(Error::BadVersion { expected: VERSION, found });
        }
        Ok(Self { incomplete: byte & X != 0, frozen: byte & D != 0, wants_coverage: byte & P != 0 })
    }

    /// Returns byte 0, including the version. The reserved bit is zero.
    pub(crate) const fn emit(self) -> u8 {
        let mut byte = VERSION << 4;
        if self.incomplete {
            byte |= X;
        }
        if self.frozen {
            byte |= D;
        }
        if self.wants_coverage {
            byte |= P;
        }
        byte
    }
}

/// A view of a buffer that starts with a shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails if the buffer is shorter than the shim. To check the version, call
    /// [`Self::is_supported_version`].
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

    /// Returns whether this is a version 1 shim. Any other value may be payload, which a switch must not modify.
    pub fn is_supported_version(&self) -> bool {
        self.version() == VERSION
    }

    /// Returns the D bit, which is set if hops must not update the shim.
    pub fn is_frozen(&self) -> bool {
        self.layout().flags & D != 0
    }

    /// Returns the number of hops that measured a delay. Saturates at 255.
    pub fn int_hops(&self) -> u8 {
        self.layout().int_hops
    }

    /// Returns the delay code.
    pub fn max_hop_delay(&self) -> u16 {
        self.layout().max_hop_delay.get()
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Updates the shim at a switch that measured `delay`. Frozen shims and shims of other versions stay unchanged.
    pub fn update(&mut self, delay: Nanos, scale: &LinearScale) -> Delta {
        let mut layout = self.layout();
        if !self.is_supported_version() || self.is_frozen() {
            return Delta::NONE;
        }
        let code = scale.encode_delay_u16(delay);
        layout.max_hop_delay = U16::new(layout.max_hop_delay.get().max(code));
        layout.int_hops = layout.int_hops.saturating_add(1);
        store(self.buffer.as_mut(), 0, &layout)
    }

    /// Sets the X bit at a switch that could not measure its delay.
    pub fn mark_incomplete(&mut self) -> Delta {
        let mut layout = self.layout();
        if !self.is_supported_version() || self.is_frozen() {
            return Delta::NONE;
        }
        layout.flags |= X;
        store(self.buffer.as_mut(), 0, &layout)
    }

    /// Sets the D bit at a switch that trims or copies the packet, so that later hops do not update the shim.
    pub fn freeze(&mut self) -> Delta {
        let mut layout = self.layout();
        if !self.is_supported_version() {
            return Delta::NONE;
        }
        layout.flags |= D;
        store(self.buffer.as_mut(), 0, &layout)
    }
}

/// The parsed shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The flags.
    pub flags: Flags,
    /// The number of hops that measured a delay.
    pub int_hops: u8,
    /// The delay code.
    pub max_hop_delay: u16,
}

impl Repr {
    /// Parses a version 1 shim.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let layout = Packet::new_checked(bytes)?.layout();
        Ok(Self {
            flags: Flags::parse(layout.flags)?,
            int_hops: layout.int_hops,
            max_hop_delay: layout.max_hop_delay.get(),
        })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the shim to the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, self.buffer_len())?;
        // The sender computes the checksum later, so the delta is not needed.
        let _ = store(
            buffer,
            0,
            &Layout {
                flags: self.flags.emit(),
                int_hops: self.int_hops,
                max_hop_delay: U16::new(self.max_hop_delay),
            },
        );
        Ok(())
    }

    /// Returns the telemetry carried in the shim.
    pub fn telemetry(&self, scale: &LinearScale) -> MaxHopDelay {
        let (scale, code) = (scale.in_16_bits(), u32::from(self.max_hop_delay));
        MaxHopDelay {
            worst: scale.decode_delay(code),
            hops: self.int_hops,
            incomplete: self.flags.incomplete,
            saturated: code >= scale.max_code(),
        }
    }

    /// Creates the shim for `signal`.
    pub fn from_telemetry(signal: MaxHopDelay, scale: &LinearScale) -> Self {
        let code = signal.delay().map_or(0, |delay| scale.encode_delay_u16(delay));
        Self {
            flags: Flags { incomplete: signal.incomplete, ..Flags::default() },
            int_hops: signal.hops,
            max_hop_delay: code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A new shim, a shim after three hops with a maximum delay of 25.6 us, and a saturated shim.
    const NEW: [u8; 4] = [0x10, 0x00, 0x00, 0x00];
    const THREE_HOPS: [u8; 4] = [0x10, 0x03, 0x00, 0x64];
    const SATURATED: [u8; 4] = [0x10, 0x05, 0xff, 0xff];

    #[test]
    fn golden_vectors_parse_and_emit() {
        for bytes in [NEW, THREE_HOPS, SATURATED] {
            let repr = Repr::parse(&bytes).expect("the header is valid");
            let mut out = [0xaa; 4];
            repr.emit(&mut out).expect("the buffer is large enough");
            assert_eq!(out, bytes);
            assert_eq!(Repr::from_telemetry(repr.telemetry(&SCALE), &SCALE), repr);
        }
        let read = Repr::parse(&THREE_HOPS).expect("the header is valid").telemetry(&SCALE);
        assert_eq!((read.delay(), read.hops), (Some(Nanos::new(25_600)), 3));
        assert_eq!(Repr::parse(&NEW).expect("the header is valid").telemetry(&SCALE).delay(), None);
        assert!(Repr::parse(&SATURATED).expect("the header is valid").telemetry(&SCALE).saturated);
    }

    #[test]
    fn three_updates_produce_the_golden_vector() {
        let mut packet = Packet::new_checked(NEW).expect("the buffer is large enough");
        for delay in [300, 25_700, 9_000] {
            let _ = packet.update(Nanos::new(delay), &SCALE);
        }
        assert_eq!(packet.into_inner(), THREE_HOPS);
    }

    #[test]
    fn update_ignores_other_versions_and_frozen_shims() {
        for first in [0x00, 0x20, 0xf0, 0x14] {
            let bytes = [first, 1, 2, 3];
            let mut packet = Packet::new_checked(bytes).expect("the buffer is large enough");
            assert!(packet.update(Nanos::MAX, &SCALE).is_none());
            assert!(packet.mark_incomplete().is_none());
            assert_eq!(packet.into_inner(), bytes);
        }
    }

    #[test]
    fn update_saturates_and_keeps_reserved_bits() {
        let mut packet = Packet::new_checked([0x13, 0xff, 0xff, 0xfe]).expect("the buffer is large enough");
        let _ = packet.update(Nanos::MAX, &SCALE);
        assert_eq!(packet.into_inner(), [0x13, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn hops_can_set_the_flags() {
        let mut packet = Packet::new_checked(NEW).expect("the buffer is large enough");
        let _ = packet.mark_incomplete();
        let _ = packet.freeze();
        assert_eq!(packet.into_inner(), [0x1c, 0, 0, 0]);
        let repr = Repr::parse(&[0x1e, 0, 0, 0]).expect("the header is valid");
        assert!(repr.flags.incomplete && repr.flags.frozen && repr.flags.wants_coverage);
    }

    #[test]
    fn short_buffers_are_rejected() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 4, have };
            assert_eq!(Repr::parse(&THREE_HOPS[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 4][..have]), Err(short));
        }
        assert_eq!(Repr::parse(&[0x20, 0, 0, 0]), Err(Error::BadVersion { expected: 1, found: 2 }));
    }

    #[test]
    fn scale_wider_than_the_field_saturates_at_the_field() {
        let wide = LinearScale::new(8, 20);
        let mut packet = Packet::new_checked(NEW).expect("the buffer is large enough");
        let _ = packet.update(Nanos::new(1 << 27), &wide);
        assert!(Repr::parse(&packet.into_inner()).expect("the header is valid").telemetry(&wide).saturated);
    }
}
