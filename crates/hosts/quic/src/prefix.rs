//! The sixteen bytes before a QUIC packet.
//!
//! ```text
//!   0         4              8        12       16
//!  +---------+--------------+--------+--------+------------------
//!  | shim v1 | reflection   | mine   | yours  | QUIC packet …
//!  +---------+--------------+--------+--------+------------------
//!   switches   end to end     tags, big-endian
//!   write
//! ```
//!
//! `mine` names the path of the connection that sent this datagram. `yours` is the tag that the other end's datagrams came with,
//! and the reflection tells of those. So a reflection says itself whose it is, whichever address or connection id it comes with, and
//! a controller takes only what was measured under its own tag. Zero is nobody's tag: `mine` of a datagram that belongs to no
//! connection (a reset, a retry), `yours` before anything was heard.
//!
//! A reflection belongs inside authenticated bytes, but quinn has no frame to put it in. Tags protect it instead: each end draws its
//! tags at random, 32 bits, and draws another when a path changes. A datagram counts only if it comes from the peer's address and
//! `yours` is our tag. An attacker who sees no packet of the connection guesses that tag with probability 2^-32 per datagram. One who
//! sees packets can copy it, as a switch can write any shim; what such a lie can do is bounded by the host (`signal.rs`).
//!
//! Endpoints that used 16-bit tags (twelve bytes) do not understand this form. Neither end hears the other, and both fall back to
//! plain QUIC, as with any peer that has no prefix (`shared.rs`).
//!
//! A shim's first byte is `0x1_`: bit `0x40`, which QUIC sets in every packet unless both ends agreed to grease it, is clear. So
//! one byte tells a datagram with a prefix from plain QUIC.

use poseidon_wire::{Error, reflection, shim};

/// Bytes before each QUIC packet.
pub const PREFIX_BYTES: usize = shim::HEADER_BYTES + reflection::HEADER_BYTES + 2 * TAG_BYTES;
/// The same, as sizes of packets are counted.
pub(crate) const PREFIX: u16 = 16;
const _: () = assert!(PREFIX as usize == PREFIX_BYTES);

const REFLECTION_AT: usize = shim::HEADER_BYTES;
const MINE_AT: usize = REFLECTION_AT + reflection::HEADER_BYTES;
const TAG_BYTES: usize = size_of::<Tag>();

/// Whose datagrams: a random number that one end gives to one path of one connection, and the other end gives back.
pub type Tag = u32;

/// Nobody's.
pub const NOBODY: Tag = 0;

/// What a prefix says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prefix {
    /// What switches wrote; nothing where they wrote something that is no shim.
    pub shim: Option<shim::Repr>,
    /// What the other end heard of `yours`; nothing where it cannot be read.
    pub reflection: Option<reflection::Repr>,
    /// The sender's tag.
    pub mine: Tag,
    /// The receiver's.
    pub yours: Tag,
}

impl Prefix {
    /// Reads the first bytes of a datagram.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, Error> {
        let Some(bytes) = datagram.first_chunk::<PREFIX_BYTES>() else {
            return Err(Error::Truncated { need: PREFIX_BYTES, have: datagram.len() });
        };
        let [.., m0, m1, m2, m3, y0, y1, y2, y3] = *bytes;
        Ok(Self {
            shim: shim::Repr::parse(bytes).ok(),
            reflection: reflection::Repr::parse(&bytes[REFLECTION_AT..]).ok(),
            mine: Tag::from_be_bytes([m0, m1, m2, m3]),
            yours: Tag::from_be_bytes([y0, y1, y2, y3]),
        })
    }

    /// What goes before a packet: a fresh shim where this has none.
    pub fn emit(&self) -> [u8; PREFIX_BYTES] {
        let mut bytes = [0; PREFIX_BYTES];
        let (shim, rest) = bytes.split_at_mut(REFLECTION_AT);
        let (reflection, tags) = rest.split_at_mut(MINE_AT - REFLECTION_AT);
        // All three are as long as what is written.
        let _ = self.shim.unwrap_or_default().emit(shim);
        let _ = self.reflection.unwrap_or_default().emit(reflection);
        let (mine, yours) = tags.split_at_mut(TAG_BYTES);
        mine.copy_from_slice(&self.mine.to_be_bytes());
        yours.copy_from_slice(&self.yours.to_be_bytes());
        bytes
    }
}

/// Whether a datagram begins with a shim and not with a QUIC packet.
#[inline]
pub fn has_prefix(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|byte| byte >> 4 == shim::VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hops, 25.6 us; the other end heard three hops and 10.24 us of tag 0x01020304; it is tag 0x0a0b0c0d.
    const BYTES: [u8; PREFIX_BYTES] = [0x10, 2, 0, 100, 0x10, 3, 0, 40, 0x0a, 0x0b, 0x0c, 0x0d, 1, 2, 3, 4];

    #[test]
    fn golden_vector_both_ways() {
        let prefix = Prefix::parse(&BYTES).expect("long enough");
        let shim = prefix.shim.expect("a shim");
        assert_eq!((shim.int_hops, shim.max_hop_delay), (2, 100));
        let reflection = prefix.reflection.expect("a reflection");
        assert_eq!((reflection.int_hops, reflection.max_hop_delay), (3, 40));
        assert_eq!((prefix.mine, prefix.yours), (0x0a0b_0c0d, 0x0102_0304));
        assert_eq!(prefix.emit(), BYTES);
        assert!(has_prefix(&BYTES));
    }

    #[test]
    fn a_fresh_one_says_nothing() {
        let fresh = Prefix::default().emit();
        assert_eq!(fresh, [0x10, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let read = Prefix::parse(&fresh).expect("long enough");
        assert_eq!(read.shim.map(|shim| shim.int_hops), Some(0));
    }

    #[test]
    fn quic_is_no_prefix() {
        // Long header, short header, and version negotiation with all unused bits clear.
        for first in [0xc0, 0xff, 0x40, 0x7f, 0x80] {
            assert!(!has_prefix(&[first, 0, 0, 0]));
        }
        assert!(!has_prefix(&[]));
    }

    #[test]
    fn what_a_switch_ruined_leaves_the_rest_readable() {
        let mut bytes = BYTES;
        bytes[..4].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        let prefix = Prefix::parse(&bytes).expect("long enough");
        assert_eq!(prefix.shim, None);
        assert_eq!((prefix.mine, prefix.yours), (0x0a0b_0c0d, 0x0102_0304));
        for have in 0..PREFIX_BYTES {
            let short = Error::Truncated { need: PREFIX_BYTES, have };
            assert_eq!(Prefix::parse(&BYTES[..have]), Err(short));
        }
    }
}
