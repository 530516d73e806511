//! The TCP option: this packet's own largest hop delay, and the one the other side last received.
//!
//! ```text
//!  byte 0     byte 1    bytes 2-3           bytes 4-5              bytes 6-7
//! +----------+---------+-------------------+----------------------+---------------------------+
//! | kind 253 | len = 8 | ExID, big-endian  | max_hop_delay, BE    | echo, BE; 0xffff = none   |
//! +----------+---------+-------------------+----------------------+---------------------------+
//! ```
//!
//! Switches write `max_hop_delay` only. `echo` is opaque to them, so the reverse path cannot disturb the forward
//! signal, and the ACK's own `max_hop_delay` tells the delay of the reverse path. Since `0xffff` in `echo` means
//! "none", an echoed delay stops at `0xfffe`. Nothing counts hops: what zero means is for the caller to know.
//!
//! Kinds 253 and 254 are for experiments and begin with an experiment identifier (RFC 6994). Like every experiment,
//! this one must not be on by default. The same bytes are written by the BPF programs for Linux TCP.
//!
//! Source: this project's profile of Poseidon (NSDI'23); RFC 6994, RFC 9293 section 3.1 (option list).

use crate::bare16;
use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, demand};
use crate::quantiser::{DelayQuantiser, HopCount, Scale, Steps};
use poseidon_types::{MaxHopDelay, Nanos};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes on the wire.
pub const HEADER_BYTES: usize = 8;
/// The delay code of a packet's own delay: 256 ns, 16 bits, saturating. Slow links want a larger step.
pub const SCALE: Steps = bare16::SCALE;
/// What `echo` holds where nothing was received yet.
pub const NO_ECHO: u16 = 0xffff;

/// What the receiver of a packet reads on a path where `hops` are known to measure.
pub const fn quantiser(hops: u8) -> DelayQuantiser<Steps> {
    DelayQuantiser { scale: SCALE, hops: HopCount::Assumed(hops) }
}

/// What a sender reads back: as [`quantiser`], less the code that means "none".
pub const fn echo_quantiser(hops: u8) -> DelayQuantiser<Steps> {
    DelayQuantiser { scale: SCALE.without_all_ones(), hops: HopCount::Assumed(hops) }
}

/// How the option is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The option kind: 253 or 254 unless IANA assigns one.
    pub kind: u8,
    /// The experiment identifier.
    pub exid: u16,
}

impl Default for Ids {
    /// Kind 253, identifier "PS".
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

/// Where `max_hop_delay` is.
const DELAY_AT: usize = 4;

/// A view over the bytes that begin with the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer begins with this option.
    pub fn new_checked(buffer: T, ids: Ids) -> Result<Self> {
        demand(buffer.as_ref(), HEADER_BYTES)?;
        let layout: Layout = load(buffer.as_ref(), 0);
        if layout.kind != ids.kind {
            return Err(Error::BadKind { expected: ids.kind, found: layout.kind });
        }
        if usize::from(layout.len) != HEADER_BYTES {
            return Err(Error::BadLength {
                what: "option length",
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

    /// The delay code of this packet's own path.
    pub fn max_hop_delay(&self) -> u16 {
        self.layout().max_hop_delay.get()
    }

    /// The delay code the other side last received.
    pub fn echo(&self) -> Option<u16> {
        Some(self.layout().echo.get()).filter(|code| *code != NO_ECHO)
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a switch does: one more hop has measured `delay`. An option may begin at an odd byte of the TCP header, as
    /// [`find`] tells: then the checksum wants [`Delta::at`].
    pub fn update(&mut self, delay: Nanos, scale: &Steps) -> Delta {
        let new = self.max_hop_delay().max(scale.code16(delay));
        store(self.buffer.as_mut(), DELAY_AT, &U16::new(new))
    }
}

/// Where the option begins in the option area of a TCP header, if it is there and whole.
///
/// Total on any bytes: a malformed list ends the walk.
pub fn find(options: &[u8], ids: Ids) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = options.get(at..)?;
        // RFC 9293 section 3.1: kind 0 ends the list, kind 1 has no length.
        let step = match *rest.first()? {
            0 => return None,
            1 => 1,
            _ if Packet::new_checked(rest, ids).is_ok() => return Some(at),
            _ => usize::from(*rest.get(1)?),
        };
        // A length below 2 would not even cover itself.
        if step == 0 || (step == 1 && *rest.first()? != 1) {
            return None;
        }
        at += step;
    }
}

/// What the option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// Kind and experiment identifier.
    pub ids: Ids,
    /// The delay code of this packet's own path.
    pub max_hop_delay: u16,
    /// The delay code the other side last received.
    pub echo: Option<u16>,
}

impl Repr {
    /// Reads the option at the start of `bytes`.
    pub fn parse(bytes: &[u8], ids: Ids) -> Result<Self> {
        let packet = Packet::new_checked(bytes, ids)?;
        Ok(Self { ids, max_hop_delay: packet.max_hop_delay(), echo: packet.echo() })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_BYTES
    }

    /// Writes the option at the start of `buffer`. An echo of `0xffff` is written as `0xfffe`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, self.buffer_len())?;
        let layout = Layout {
            kind: self.ids.kind,
            len: 8,
            exid: U16::new(self.ids.exid),
            max_hop_delay: U16::new(self.max_hop_delay),
            echo: U16::new(self.echo.map_or(NO_ECHO, |code| code.min(NO_ECHO - 1))),
        };
        // The sender computes its checksum over the finished segment.
        let _ = store(buffer, 0, &layout);
        Ok(())
    }

    /// The answer to a packet that carried `received`: its delay becomes our echo.
    #[must_use]
    pub fn echoing(self, received: &Self) -> Self {
        Self { echo: Some(received.max_hop_delay.min(NO_ECHO - 1)), ..self }
    }

    /// This packet's own delay, on a path where `assumed_hops` are known to measure.
    pub fn telemetry(&self, scale: &Steps, assumed_hops: u8) -> MaxHopDelay {
        scale.in_16_bits().uncounted(u32::from(self.max_hop_delay), assumed_hops)
    }

    /// The delay of the forward path, as the receiver saw it.
    pub fn echo_telemetry(&self, scale: &Steps, assumed_hops: u8) -> Option<MaxHopDelay> {
        let scale = scale.up_to(scale.max_code().min(u32::from(NO_ECHO) - 1));
        self.echo.map(|code| scale.uncounted(u32::from(code), assumed_hops))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::internet;

    const FRESH: [u8; 8] = [0xfd, 8, 0x50, 0x53, 0, 0, 0xff, 0xff];
    const ANSWER: [u8; 8] = [0xfd, 8, 0x50, 0x53, 0, 7, 0, 100];

    #[test]
    fn golden_vectors_both_ways() {
        let table = [(FRESH, 0, None), (ANSWER, 7, Some(100))];
        for (bytes, max_hop_delay, echo) in table {
            let repr = Repr::parse(&bytes, Ids::default()).expect("parses");
            assert_eq!((repr.max_hop_delay, repr.echo), (max_hop_delay, echo));
            let mut out = [0; 8];
            repr.emit(&mut out).expect("fits");
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_hop_writes_its_delay_and_leaves_the_echo() {
        let mut packet = Packet::new_checked(ANSWER, Ids::default()).expect("ours");
        let delta = packet.update(Nanos::new(25_600), &SCALE);
        assert_eq!(delta, Delta::word(7, 100));
        assert!(packet.update(Nanos::new(2_560), &SCALE).is_none());
        assert_eq!(packet.into_inner(), [0xfd, 8, 0x50, 0x53, 0, 100, 0, 100]);
    }

    #[test]
    fn a_saturated_delay_is_echoed_as_a_delay() {
        let received = Repr { max_hop_delay: 0xffff, ..Repr::default() };
        let answer = Repr::default().echoing(&received);
        let mut out = [0; 8];
        answer.emit(&mut out).expect("fits");
        let read = Repr::parse(&out, Ids::default()).expect("parses");
        let signal = read.echo_telemetry(&SCALE, 3).expect("echoed");
        assert!(signal.saturated && signal.hops == 3);
        assert_eq!(Repr::default().echo_telemetry(&SCALE, 3), None);
        // Neither does a caller's own 0xffff become "none".
        let own = Repr { echo: Some(0xffff), ..Repr::default() };
        own.emit(&mut out).expect("fits");
        assert_eq!(out[6..], [0xff, 0xfe]);
    }

    #[test]
    fn found_behind_the_options_of_linux() {
        let mut options = [1; 20];
        options[2..4].copy_from_slice(&[8, 10]);
        options[12..].copy_from_slice(&ANSWER);
        assert_eq!(find(&options, Ids::default()), Some(12));
        assert_eq!(find(&options[..19], Ids::default()), None);
        let other = Ids { exid: 0x1234, ..Ids::default() };
        assert_eq!(find(&options, other), None);
        // Lists that lie about their lengths end the walk.
        for list in [&[8, 0][..], &[8, 1], &[8], &[0, 253, 8], &[1, 1, 1], &[5, 255, 1]] {
            assert_eq!(find(list, Ids::default()), None);
        }
    }

    #[test]
    fn other_options_and_short_buffers_are_refused() {
        let parse = |bytes: &[u8]| Repr::parse(bytes, Ids::default());
        for have in 0..HEADER_BYTES {
            let short = Error::Truncated { need: 8, have };
            assert_eq!(parse(&FRESH[..have]), Err(short));
            assert_eq!(Repr::default().emit(&mut [0; 8][..have]), Err(short));
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = FRESH;
            bytes[at] = to;
            parse(&bytes)
        };
        assert!(matches!(changed(0, 254), Err(Error::BadKind { found: 254, .. })));
        assert!(matches!(changed(1, 7), Err(Error::BadLength { found: 7, .. })));
        assert!(matches!(changed(2, 0), Err(Error::BadIdentifier { found: 0x53, .. })));
    }

    #[test]
    fn a_checksum_is_repaired_wherever_the_option_begins() {
        for before in 0..5 {
            let mut options = [1; 16];
            options[before..before + HEADER_BYTES].copy_from_slice(&FRESH);
            let old = internet(&options);
            let at = find(&options, Ids::default()).expect("it is there");
            assert_eq!(at, before);
            let mut packet = Packet::new_checked(&mut options[at..], Ids::default()).expect("ours");
            let delta = packet.update(Nanos::new(25_600), &SCALE);
            assert_eq!(delta.at(at).apply(old), internet(&options), "at byte {at}");
        }
    }
}
