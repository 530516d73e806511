//! A TCP option that carries this packet's maximum hop delay and an echo of the last delay received by the peer.
//!
//! ```text
//!  byte 0     byte 1    bytes 2-3           bytes 4-5              bytes 6-7
//! +----------+---------+-------------------+----------------------+---------------------------+
//! | kind 253 | len = 8 | ExID, big-endian  | max_hop_delay, BE    | echo, BE; 0xffff = none   |
//! +----------+---------+-------------------+----------------------+---------------------------+
//! ```
//!
//! Switches write only `max_hop_delay`, never `echo`, so the reverse path cannot alter the forward path's signal. In an
//! ACK, `max_hop_delay` is the reverse path's delay. An `echo` of `0xffff` means "none", so an echoed delay saturates
//! at `0xfffe`. The option has no hop count, so the caller must know whether zero means "no queueing" or "no
//! telemetry".
//!
//! Kinds 253 and 254 are reserved for experiments, and their data starts with an experiment identifier (RFC 6994).
//! Experimental options must not be enabled by default. The BPF programs for Linux TCP use the same layout.
//!
//! Source: this project's profile of Poseidon (NSDI'23); RFC 6994, RFC 9293 section 3.1 (option list).

use crate::bare16;
use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, check_len};
use crate::quantiser::{DelayQuantiser, HopCount, LinearScale, Scale};
use poseidon_types::{MaxHopDelay, Nanos};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The option size in bytes.
pub const HEADER_BYTES: usize = 8;
/// The delay scale: 16-bit codes in steps of 256 ns, saturating. Slow links need a larger step.
pub const SCALE: LinearScale = bare16::SCALE;
/// The `echo` value of a host that has not yet received a delay.
pub const NO_ECHO: u16 = 0xffff;

/// Returns the `max_hop_delay` quantiser for a path with `hops` telemetry-capable hops.
pub const fn quantiser(hops: u8) -> DelayQuantiser<LinearScale> {
    DelayQuantiser { scale: SCALE, hops: HopCount::Assumed(hops) }
}

/// Returns the `echo` quantiser, which is the same as [`quantiser`] but excludes the code that means "none".
pub const fn echo_quantiser(hops: u8) -> DelayQuantiser<LinearScale> {
    DelayQuantiser { scale: SCALE.without_all_ones(), hops: HopCount::Assumed(hops) }
}

/// The option's identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The option kind, which must be 253 or 254 until IANA assigns a kind.
    pub kind: u8,
    /// The experiment identifier.
    pub exid: u16,
}

impl Default for Ids {
    /// Returns kind 253 and experiment identifier "PS".
    fn default() -> Self {
        Self { kind: 253, exid: 0x5053 }
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    kind: u8,
    len: u8,
    exid: U16,
    max_hop_delay: U16,
    echo: U16,
}

/// The byte offset of `max_hop_delay`.
const DELAY_OFFSET: usize = 4;

/// A view of a buffer that starts with the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails unless the buffer starts with this option.
    pub fn new_checked(buffer: T, ids: Ids) -> Result<Self> {
        check_len(buffer.as_ref(), HEADER_BYTES)?;
        let layout: Layout = load(buffer.as_ref(), 0);
        if layout.kind != ids.kind {
            return Err(Error::BadKind { expected: ids.kind, found: layout.kind });
        }
        if usize::from(layout.len) != HEADER_BYTES {
            return Err(Error::BadLength {
                field: "option length",
                expected: HEADER_BYTES,
                found: usize::from(layout.len),
            });
        }
        if layout.exid.get() != ids.exid {
            return Err(Error::BadIdentifier { expected: ids.exid, found: layout.exid.get() });
        }
        Ok(Self { buffer })
    }

    fn layout(&self) -> Layout {
        load(self.buffer.as_ref(), 0)
    }

    /// Returns the delay code for this packet's path.
    pub fn max_hop_delay(&self) -> u16 {
        self.layout().max_hop_delay.get()
    }

    /// Returns the last delay code received by the peer.
    pub fn echo(&self) -> Option<u16> {
        Some(self.layout().echo.get()).filter(|code| *code != NO_ECHO)
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Updates the option at a switch that measured `delay`. If the option starts at an odd offset in the TCP header
    /// (see [`find`]), use [`Delta::at_offset`].
    pub fn update(&mut self, delay: Nanos, scale: &LinearScale) -> Delta {
        let new = self.max_hop_delay().max(scale.encode_delay_u16(delay));
        store(self.buffer.as_mut(), DELAY_OFFSET, &U16::new(new))
    }
}

/// Returns the offset of this option in a TCP option list, or `None` if the option is missing or truncated.
///
/// The search stops at a malformed option.
pub fn find(options: &[u8], ids: Ids) -> Option<usize> {
    let mut offset = 0;
    loop {
        let rest = options.get(offset..)?;
        // RFC 9293 section 3.1: kind 0 ends the option list, and kind 1 has no length field.
        let len = match *rest.first()? {
            0 => return None,
            1 => 1,
            _ if Packet::new_checked(rest, ids).is_ok() => return Some(offset),
            _ => usize::from(*rest.get(1)?),
        };
        // The length includes the kind and length bytes, so it must be at least 2.
        if len == 0 || (len == 1 && *rest.first()? != 1) {
            return None;
        }
        offset += len;
    }
}

/// The parsed option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The kind and the experiment identifier.
    pub ids: Ids,
    /// The delay code for this packet's path.
    pub max_hop_delay: u16,
    /// The last delay code received by the peer.
    pub echo: Option<u16>,
}

impl Repr {
    /// Parses the option at the start of `bytes`.
    pub fn parse(bytes: &[u8], ids: Ids) -> Result<Self> {
        let packet = Packet::new_checked(bytes, ids)?;
        Ok(Self { ids, max_hop_delay: packet.max_hop_delay(), echo: packet.echo() })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the option to the start of `buffer`. An echoed code of `0xffff` is written as `0xfffe`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, self.buffer_len())?;
        let layout = Layout {
            kind: self.ids.kind,
            len: 8,
            exid: U16::new(self.ids.exid),
            max_hop_delay: U16::new(self.max_hop_delay),
            echo: U16::new(self.echo.map_or(NO_ECHO, |code| code.min(NO_ECHO - 1))),
        };
        // The sender computes the checksum later, so the delta is not needed.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }

    /// Returns this option with `echo` set to the delay in `received`.
    #[must_use]
    pub fn with_echo_of(self, received: &Self) -> Self {
        Self { echo: Some(received.max_hop_delay.min(NO_ECHO - 1)), ..self }
    }

    /// Returns this packet's telemetry for a path with `assumed_hops` telemetry-capable hops.
    pub fn telemetry(&self, scale: &LinearScale, assumed_hops: u8) -> MaxHopDelay {
        scale.in_16_bits().decode_uncounted(u32::from(self.max_hop_delay), assumed_hops)
    }

    /// Returns the forward path's echoed telemetry, if the option contains an echo.
    pub fn echo_telemetry(&self, scale: &LinearScale, assumed_hops: u8) -> Option<MaxHopDelay> {
        let scale = scale.with_max_code(scale.max_code().min(u32::from(NO_ECHO) - 1));
        self.echo.map(|code| scale.decode_uncounted(u32::from(code), assumed_hops))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::internet;

    const NEW: [u8; 8] = [0xfd, 8, 0x50, 0x53, 0, 0, 0xff, 0xff];
    const REPLY: [u8; 8] = [0xfd, 8, 0x50, 0x53, 0, 7, 0, 100];

    #[test]
    fn golden_vectors_parse_and_emit() {
        let table = [(NEW, 0, None), (REPLY, 7, Some(100))];
        for (bytes, max_hop_delay, echo) in table {
            let repr = Repr::parse(&bytes, Ids::default()).expect("the header is valid");
            assert_eq!((repr.max_hop_delay, repr.echo), (max_hop_delay, echo));
            let mut out = [0; 8];
            repr.emit(&mut out).expect("the buffer is large enough");
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn update_does_not_change_the_echo() {
        let mut packet = Packet::new_checked(REPLY, Ids::default()).expect("the header is valid");
        let delta = packet.update(Nanos::new(25_600), &SCALE);
        assert_eq!(delta, Delta::for_word(7, 100));
        assert!(packet.update(Nanos::new(2_560), &SCALE).is_none());
        assert_eq!(packet.into_inner(), [0xfd, 8, 0x50, 0x53, 0, 100, 0, 100]);
    }

    #[test]
    fn echo_of_a_saturated_delay_is_not_none() {
        let received = Repr { max_hop_delay: 0xffff, ..Repr::default() };
        let reply = Repr::default().with_echo_of(&received);
        let mut out = [0; 8];
        reply.emit(&mut out).expect("the buffer is large enough");
        let read = Repr::parse(&out, Ids::default()).expect("the header is valid");
        let signal = read.echo_telemetry(&SCALE, 3).expect("the option contains an echo");
        assert!(signal.saturated && signal.hops == 3);
        assert_eq!(Repr::default().echo_telemetry(&SCALE, 3), None);
        // If the caller passes an echo of 0xffff, the written value must not mean "none" either.
        let saturated = Repr { echo: Some(0xffff), ..Repr::default() };
        saturated.emit(&mut out).expect("the buffer is large enough");
        assert_eq!(out[6..], [0xff, 0xfe]);
    }

    #[test]
    fn find_skips_the_timestamp_option_of_linux() {
        let mut options = [1; 20];
        options[2..4].copy_from_slice(&[8, 10]);
        options[12..].copy_from_slice(&REPLY);
        assert_eq!(find(&options, Ids::default()), Some(12));
        assert_eq!(find(&options[..19], Ids::default()), None);
        let other = Ids { exid: 0x1234, ..Ids::default() };
        assert_eq!(find(&options, other), None);
        // Invalid lengths stop the search.
        for list in [&[8, 0][..], &[8, 1], &[8], &[0, 253, 8], &[1, 1, 1], &[5, 255, 1]] {
            assert_eq!(find(list, Ids::default()), None);
        }
    }

    #[test]
    fn other_options_and_short_buffers_are_rejected() {
        let parse = |bytes: &[u8]| Repr::parse(bytes, Ids::default());
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 8, have };
            assert_eq!(parse(&NEW[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 8][..have]), Err(short));
        }
        let parse_with_byte = |index: usize, value: u8| {
            let mut bytes = NEW;
            bytes[index] = value;
            parse(&bytes)
        };
        assert!(matches!(parse_with_byte(0, 254), Err(Error::BadKind { found: 254, .. })));
        assert!(matches!(parse_with_byte(1, 7), Err(Error::BadLength { found: 7, .. })));
        assert!(matches!(parse_with_byte(2, 0), Err(Error::BadIdentifier { found: 0x53, .. })));
    }

    #[test]
    fn delta_updates_the_checksum_at_any_offset() {
        for start in 0..5 {
            let mut options = [1; 16];
            options[start..start + HEADER_BYTES].copy_from_slice(&NEW);
            let old = internet(&options);
            let offset = find(&options, Ids::default()).expect("the list contains the option");
            assert_eq!(offset, start);
            let mut packet =
                Packet::new_checked(&mut options[offset..], Ids::default()).expect("the header is valid");
            let delta = packet.update(Nanos::new(25_600), &SCALE);
            assert_eq!(delta.at_offset(offset).apply(old), internet(&options), "at byte {offset}");
        }
    }
}
