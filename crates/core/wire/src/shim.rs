//! The MHD shim, version 1: the largest hop delay and how many hops measured, in four bytes after UDP.
//!
//! ```text
//!  byte 0                     byte 1        bytes 2-3
//! +-------+---+---+---+---+  +-----------+  +---------------------------+
//! | ver:4 | X | D | P | 0 |  | int_hops  |  | max_hop_delay, big-endian |
//! +-------+---+---+---+---+  +-----------+  +---------------------------+
//! X  an aware hop could not measure        D  do not update (trimmed or copied packet)
//! P  the sender asks for path coverage
//! ```
//!
//! Fixed length, no option walk, and the payload stays aligned. One step of the delay is 256 ns: the paper's
//! and TCP-INT's grain, fine against targets of microseconds, and its range of 16.777 ms is more than 64 MB at
//! 200 Gbps. `0xffff` means "that much or more". Zero with no hops means nobody stamped; zero with hops means
//! empty queues.
//!
//! Source: this project's profile of Poseidon (NSDI'23) section 4.1 and listing 1.

use crate::bare16;
use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, demand};
use crate::quantiser::{DelayQuantiser, HopCount, Scale, Steps};
use poseidon_types::{MaxHopDelay, Nanos};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes on the wire.
pub const HEADER_BYTES: usize = 4;
/// The version spoken here.
pub const VERSION: u8 = 1;
/// The delay code: 256 ns, 16 bits, saturating.
pub const SCALE: Steps = bare16::SCALE;
/// What the shim does to a delay.
pub const QUANTISER: DelayQuantiser<Steps> =
    DelayQuantiser { scale: SCALE, hops: HopCount::Counted { max: u8::MAX } };
/// Suggested UDP destination port. It must be used for nothing else, since switches write behind it: so it lies
/// outside what IANA assigns (below 49152) and outside Linux's default ephemeral ports (32768 to 60999).
pub const DEFAULT_UDP_PORT: u16 = 65_053;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    flags: u8,
    int_hops: u8,
    max_hop_delay: U16,
}

/// The flags of byte 0, shared with the reflection block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags {
    /// X: some aware hop could not measure.
    pub incomplete: bool,
    /// D: hops must not update.
    pub frozen: bool,
    /// P: the sender asks for path coverage.
    pub wants_coverage: bool,
}

const X: u8 = 0b1000;
const D: u8 = 0b0100;
const P: u8 = 0b0010;

impl Flags {
    /// From byte 0; the reserved bit is ignored.
    pub(crate) const fn parse(byte: u8) -> Result<Self> {
        let found = byte >> 4;
        if found != VERSION {
            return Err(Error::BadVersion { expected: VERSION, found });
        }
        Ok(Self { incomplete: byte & X != 0, frozen: byte & D != 0, wants_coverage: byte & P != 0 })
    }

    /// Byte 0 with the version; the reserved bit is sent as zero.
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

/// A view over the bytes that begin with a shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds a whole shim. The version is not checked: see [`Self::is_ours`].
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

    /// Whether this is a version 1 shim. A switch must ask before it writes: the bytes may be somebody's payload.
    pub fn is_ours(&self) -> bool {
        self.version() == VERSION
    }

    /// D: hops must not update.
    pub fn is_frozen(&self) -> bool {
        self.layout().flags & D != 0
    }

    /// Hops that measured; stops at 255.
    pub fn int_hops(&self) -> u8 {
        self.layout().int_hops
    }

    /// The delay code.
    pub fn max_hop_delay(&self) -> u16 {
        self.layout().max_hop_delay.get()
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a switch does: one more hop has measured `delay`. Other versions and frozen shims stay untouched.
    pub fn update(&mut self, delay: Nanos, scale: &Steps) -> Delta {
        let mut layout = self.layout();
        if !self.is_ours() || self.is_frozen() {
            return Delta::NONE;
        }
        let code = scale.code16(delay);
        layout.max_hop_delay = U16::new(layout.max_hop_delay.get().max(code));
        layout.int_hops = layout.int_hops.saturating_add(1);
        store(self.buffer.as_mut(), 0, &layout)
    }

    /// What an aware switch does that could not measure.
    pub fn mark_incomplete(&mut self) -> Delta {
        let mut layout = self.layout();
        if !self.is_ours() || self.is_frozen() {
            return Delta::NONE;
        }
        layout.flags |= X;
        store(self.buffer.as_mut(), 0, &layout)
    }

    /// What a node does that trims or copies the packet: later hops leave the value alone.
    pub fn freeze(&mut self) -> Delta {
        let mut layout = self.layout();
        if !self.is_ours() {
            return Delta::NONE;
        }
        layout.flags |= D;
        store(self.buffer.as_mut(), 0, &layout)
    }
}

/// What a shim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The flags.
    pub flags: Flags,
    /// Hops that measured.
    pub int_hops: u8,
    /// The delay code.
    pub max_hop_delay: u16,
}

impl Repr {
    /// Reads a shim of version 1.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let layout = Packet::new_checked(bytes)?.layout();
        Ok(Self {
            flags: Flags::parse(layout.flags)?,
            int_hops: layout.int_hops,
            max_hop_delay: layout.max_hop_delay.get(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the shim at the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, self.buffer_len())?;
        // A sender computes its checksum over the finished packet.
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

    /// The meaning of the shim.
    pub fn telemetry(&self, scale: &Steps) -> MaxHopDelay {
        let (scale, code) = (scale.in_16_bits(), u32::from(self.max_hop_delay));
        MaxHopDelay {
            worst: scale.delay(code),
            hops: self.int_hops,
            incomplete: self.flags.incomplete,
            saturated: code >= scale.max_code(),
        }
    }

    /// The shim that says `signal`.
    pub fn from_telemetry(signal: MaxHopDelay, scale: &Steps) -> Self {
        let code = signal.delay().map_or(0, |delay| scale.code16(delay));
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

    /// Fresh; after three hops, the worst 25.6 us; saturated.
    const FRESH: [u8; 4] = [0x10, 0x00, 0x00, 0x00];
    const THREE_HOPS: [u8; 4] = [0x10, 0x03, 0x00, 0x64];
    const SATURATED: [u8; 4] = [0x10, 0x05, 0xff, 0xff];

    #[test]
    fn golden_vectors_both_ways() {
        for bytes in [FRESH, THREE_HOPS, SATURATED] {
            let repr = Repr::parse(&bytes).expect("parses");
            let mut out = [0xaa; 4];
            repr.emit(&mut out).expect("fits");
            assert_eq!(out, bytes);
            assert_eq!(Repr::from_telemetry(repr.telemetry(&SCALE), &SCALE), repr);
        }
        let read = Repr::parse(&THREE_HOPS).expect("parses").telemetry(&SCALE);
        assert_eq!((read.delay(), read.hops), (Some(Nanos::new(25_600)), 3));
        assert_eq!(Repr::parse(&FRESH).expect("parses").telemetry(&SCALE).delay(), None);
        assert!(Repr::parse(&SATURATED).expect("parses").telemetry(&SCALE).saturated);
    }

    #[test]
    fn three_hops_make_the_vector() {
        let mut packet = Packet::new_checked(FRESH).expect("fits");
        for delay in [300, 25_700, 9_000] {
            let _ = packet.update(Nanos::new(delay), &SCALE);
        }
        assert_eq!(packet.into_inner(), THREE_HOPS);
    }

    #[test]
    fn an_untouchable_shim_stays_untouched() {
        for first in [0x00, 0x20, 0xf0, 0x14] {
            let bytes = [first, 1, 2, 3];
            let mut packet = Packet::new_checked(bytes).expect("fits");
            assert!(packet.update(Nanos::MAX, &SCALE).is_none());
            assert!(packet.mark_incomplete().is_none());
            assert_eq!(packet.into_inner(), bytes);
        }
    }

    #[test]
    fn counters_and_delay_saturate_and_reserved_bits_survive_a_hop() {
        let mut packet = Packet::new_checked([0x13, 0xff, 0xff, 0xfe]).expect("fits");
        let _ = packet.update(Nanos::MAX, &SCALE);
        assert_eq!(packet.into_inner(), [0x13, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn flags_are_set_by_hops() {
        let mut packet = Packet::new_checked(FRESH).expect("fits");
        let _ = packet.mark_incomplete();
        let _ = packet.freeze();
        assert_eq!(packet.into_inner(), [0x1c, 0, 0, 0]);
        let repr = Repr::parse(&[0x1e, 0, 0, 0]).expect("parses");
        assert!(repr.flags.incomplete && repr.flags.frozen && repr.flags.wants_coverage);
    }

    #[test]
    fn every_shorter_buffer_is_refused() {
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 4, have };
            assert_eq!(Repr::parse(&THREE_HOPS[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 4][..have]), Err(short));
        }
        assert_eq!(Repr::parse(&[0x20, 0, 0, 0]), Err(Error::BadVersion { expected: 1, found: 2 }));
    }

    #[test]
    fn a_scale_wider_than_the_field_saturates_at_the_field() {
        let wide = Steps::new(8, 20);
        let mut packet = Packet::new_checked(FRESH).expect("fits");
        let _ = packet.update(Nanos::new(1 << 27), &wide);
        assert!(Repr::parse(&packet.into_inner()).expect("parses").telemetry(&wide).saturated);
    }
}
