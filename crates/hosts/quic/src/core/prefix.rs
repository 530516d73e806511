//! The 16-byte prefix of each QUIC packet.
//!
//! ```text
//!   0         4            8            12             16
//!  +---------+------------+------------+--------------+------------------
//!  | shim v1 | reflection | sender tag | receiver tag | QUIC packet …
//!  +---------+------------+------------+--------------+------------------
//!   switches   end to end   big-endian
//!   write
//! ```
//!
//! The sender tag identifies the path of the connection that sent the datagram. The receiver tag is the sender
//! tag of the datagrams that the reflection describes. A reflection therefore identifies its flow without any
//! address or connection ID, and a controller uses only measurements with its own tag. No flow has tag zero.
//! The sender tag is zero in datagrams that belong to no connection, such as a reset or a retry. The receiver
//! tag is zero until a datagram from the peer has arrived.
//!
//! A reflection should be authenticated, but the stacks have no frame for it. Tags protect it instead. Each end
//! chooses a random 32-bit tag, and replaces it if its path changes. An end accepts telemetry only if it comes
//! from the peer's address and carries the end's own tag. An attacker that cannot observe the connection
//! guesses that tag with probability 2^-32 per datagram. An attacker on the path can copy the tag, just as a
//! switch can write any shim. The host limits the effect of such forged telemetry (`core/mode.rs`).
//!
//! Older endpoints with 16-bit tags use a 12-byte prefix. The two formats are incompatible, so both ends fall
//! back to plain QUIC, as with any peer without a prefix (`core/shared.rs`).
//!
//! The first byte of a shim is `0x1_`, so bit `0x40` is clear. QUIC sets that bit in every packet unless both
//! ends agree to grease it. One byte is therefore enough to distinguish a prefix from plain QUIC.

use poseidon_wire::{Error, reflection, shim};

/// The size of the prefix in bytes.
pub const PREFIX_BYTES: usize = shim::HEADER_BYTES + reflection::HEADER_BYTES + 2 * TAG_BYTES;
/// The same size as a `u16`, the type used for packet sizes.
pub(crate) const PREFIX_BYTES_U16: u16 = 16;
const _: () = assert!(PREFIX_BYTES_U16 as usize == PREFIX_BYTES);

const REFLECTION_OFFSET: usize = shim::HEADER_BYTES;
const TAGS_OFFSET: usize = REFLECTION_OFFSET + reflection::HEADER_BYTES;
const TAG_BYTES: usize = size_of::<Tag>();

/// A random number that one end assigns to one path of one connection, and that the other end echoes.
pub type Tag = u32;

/// The reserved tag that identifies no flow.
pub const NO_TAG: Tag = 0;

/// A decoded prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prefix {
    /// The telemetry that switches wrote, or `None` if the bytes are not a valid shim.
    pub shim: Option<shim::Repr>,
    /// The telemetry that the sender echoes for `receiver_tag`, or `None` if the bytes are not valid.
    pub reflection: Option<reflection::Repr>,
    /// The tag of the sender's flow.
    pub sender_tag: Tag,
    /// The tag of the receiver's flow.
    pub receiver_tag: Tag,
}

impl Prefix {
    /// Parses the prefix of a datagram.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, Error> {
        let Some(bytes) = datagram.first_chunk::<PREFIX_BYTES>() else {
            return Err(Error::Truncated { need: PREFIX_BYTES, have: datagram.len() });
        };
        let [.., s0, s1, s2, s3, r0, r1, r2, r3] = *bytes;
        Ok(Self {
            shim: shim::Repr::parse(bytes).ok(),
            reflection: reflection::Repr::parse(&bytes[REFLECTION_OFFSET..]).ok(),
            sender_tag: Tag::from_be_bytes([s0, s1, s2, s3]),
            receiver_tag: Tag::from_be_bytes([r0, r1, r2, r3]),
        })
    }

    /// Encodes the prefix. If the shim or the reflection is missing, the prefix carries an empty field instead.
    pub fn emit(&self) -> [u8; PREFIX_BYTES] {
        let mut bytes = [0; PREFIX_BYTES];
        let (shim, rest) = bytes.split_at_mut(REFLECTION_OFFSET);
        let (reflection, tags) = rest.split_at_mut(TAGS_OFFSET - REFLECTION_OFFSET);
        // The slices are exactly as long as the headers.
        let _ = self.shim.unwrap_or_default().emit(shim);
        let _ = self.reflection.unwrap_or_default().emit(reflection);
        let (sender_tag, receiver_tag) = tags.split_at_mut(TAG_BYTES);
        sender_tag.copy_from_slice(&self.sender_tag.to_be_bytes());
        receiver_tag.copy_from_slice(&self.receiver_tag.to_be_bytes());
        bytes
    }
}

/// Returns whether a datagram begins with a shim instead of a QUIC packet.
#[inline]
pub fn has_prefix(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|byte| byte >> 4 == shim::VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shim with two hops and 25.6 us, a reflection with three hops and 10.24 us, and the tags 0x0a0b0c0d and
    /// 0x01020304.
    const BYTES: [u8; PREFIX_BYTES] = [0x10, 2, 0, 100, 0x10, 3, 0, 40, 0x0a, 0x0b, 0x0c, 0x0d, 1, 2, 3, 4];

    #[test]
    fn golden_vector_parses_and_emits() {
        let prefix = Prefix::parse(&BYTES).expect("the datagram is long enough");
        let shim = prefix.shim.expect("the shim is valid");
        assert_eq!((shim.int_hops, shim.max_hop_delay), (2, 100));
        let reflection = prefix.reflection.expect("the reflection is valid");
        assert_eq!((reflection.int_hops, reflection.max_hop_delay), (3, 40));
        assert_eq!((prefix.sender_tag, prefix.receiver_tag), (0x0a0b_0c0d, 0x0102_0304));
        assert_eq!(prefix.emit(), BYTES);
        assert!(has_prefix(&BYTES));
    }

    #[test]
    fn default_prefix_is_empty() {
        let bytes = Prefix::default().emit();
        assert_eq!(bytes, [0x10, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let parsed = Prefix::parse(&bytes).expect("the datagram is long enough");
        assert_eq!(parsed.shim.map(|shim| shim.int_hops), Some(0));
    }

    #[test]
    fn quic_packet_is_not_a_prefix() {
        // A long header, a short header, and a version negotiation packet with all unused bits clear.
        for first in [0xc0, 0xff, 0x40, 0x7f, 0x80] {
            assert!(!has_prefix(&[first, 0, 0, 0]));
        }
        assert!(!has_prefix(&[]));
    }

    #[test]
    fn corrupted_shim_leaves_the_tags_readable() {
        let mut bytes = BYTES;
        bytes[..4].copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        let prefix = Prefix::parse(&bytes).expect("the datagram is long enough");
        assert_eq!(prefix.shim, None);
        assert_eq!((prefix.sender_tag, prefix.receiver_tag), (0x0a0b_0c0d, 0x0102_0304));
        for have in 0..PREFIX_BYTES {
            let truncated = Error::Truncated { need: PREFIX_BYTES, have };
            assert_eq!(Prefix::parse(&BYTES[..have]), Err(truncated));
        }
    }
}
