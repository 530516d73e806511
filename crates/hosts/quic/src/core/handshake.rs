//! Connection IDs of handshake packets, which let the two ends learn each other's tags.
//!
//! Each end must learn the other end's tag. QUIC has no field for a tag, and the connection ID in a short
//! header is useless once it has changed. A long header is readable: it carries the sender's connection ID, and
//! the answer is addressed to that ID. The sender of a long header therefore records its own ID. The first
//! answer to that ID carries the peer's tag. After that, every datagram carries both tags, and connection IDs
//! are no longer needed.
//!
//! Only IDs of local connections are recorded. Other hosts cannot make the list grow, and they can only answer
//! an ID that they have observed.

/// A QUIC connection ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cid {
    length: u8,
    bytes: [u8; Self::MAX_LENGTH],
}

impl Cid {
    /// The maximum length in QUIC version 1 (RFC 9000, section 17.2).
    const MAX_LENGTH: usize = 20;

    fn new(slice: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_LENGTH];
        bytes.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Self { length: u8::try_from(slice.len()).ok()?, bytes })
    }
}

/// The connection IDs of a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongHeader {
    pub(crate) destination: Cid,
    pub(crate) source: Cid,
}

impl LongHeader {
    /// Parses a QUIC packet. Returns `None` if the packet has no valid long header. RFC 8999, section 5.1,
    /// defines these fields for all QUIC versions.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let (first, rest) = packet.split_first()?;
        if first & 0x80 == 0 {
            return None;
        }
        let (_version, rest) = rest.split_first_chunk::<4>()?;
        let (destination, rest) = parse_cid(rest)?;
        let (source, _) = parse_cid(rest)?;
        Some(Self { destination, source })
    }
}

fn parse_cid(bytes: &[u8]) -> Option<(Cid, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (cid, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((Cid::new(cid)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_connection_ids_of_a_long_header() {
        // The Initial packet from RFC 9001, appendix A.2, with a two-byte source ID added.
        let packet =
            [0xc0, 0, 0, 0, 1, 8, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08, 2, 0xaa, 0xbb, 0, 0x44];
        let header = LongHeader::parse(&packet).expect("the packet has a long header");
        assert_eq!(Some(header.destination), Cid::new(&packet[6..14]));
        assert_eq!(Some(header.source), Cid::new(&[0xaa, 0xbb]));
        for length in 0..16 {
            assert_eq!(LongHeader::parse(&packet[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn rejects_short_headers_and_oversized_ids() {
        assert_eq!(LongHeader::parse(&[0x40; 64]), None);
        assert_eq!(LongHeader::parse(&[0xff; 1_200]), None);
    }
}
