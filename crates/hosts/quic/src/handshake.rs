//! The one moment in which QUIC shows whose packet it is: the connection ids of a handshake.
//!
//! Two ends must learn each other's tags. A client cannot put a tag into QUIC, and a short header's connection id says
//! nothing after the first time it changes. But a long header is readable: it names its sender's id, and the answer is addressed to
//! it. So whoever sends a long header notes its own id, and the first answer with that id brings the peer's tag. From then on both
//! tags stand in every datagram and no id is looked at again.
//!
//! What is noted are ids of our own connections only, so a stranger cannot make the list grow, and can answer only
//! to an id that it has seen.

/// A connection id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cid {
    length: u8,
    bytes: [u8; Self::LONGEST],
}

impl Cid {
    /// RFC 9000 section 17.2, version 1.
    const LONGEST: usize = 20;

    fn new(slice: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Self { length: u8::try_from(slice.len()).ok()?, bytes })
    }
}

/// The ids of a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongHeader {
    pub(crate) destination: Cid,
    pub(crate) source: Cid,
}

impl LongHeader {
    /// Reads a QUIC packet; nothing where it has a short header, or is none. RFC 8999 section 5.1 fixes these fields for all versions.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let (first, rest) = packet.split_first()?;
        if first & 0x80 == 0 {
            return None;
        }
        let (_version, rest) = rest.split_first_chunk::<4>()?;
        let (destination, rest) = take_cid(rest)?;
        let (source, _) = take_cid(rest)?;
        Some(Self { destination, source })
    }
}

fn take_cid(bytes: &[u8]) -> Option<(Cid, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (cid, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((Cid::new(cid)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_a_long_header_are_found() {
        // An Initial of RFC 9001, appendix A.2, whose source id is empty, with one of two bytes instead.
        let packet =
            [0xc0, 0, 0, 0, 1, 8, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08, 2, 0xaa, 0xbb, 0, 0x44];
        let ids = LongHeader::parse(&packet).expect("a long header");
        assert_eq!(Some(ids.destination), Cid::new(&packet[6..14]));
        assert_eq!(Some(ids.source), Cid::new(&[0xaa, 0xbb]));
        for cut in 0..16 {
            assert_eq!(LongHeader::parse(&packet[..cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn what_is_no_long_header_has_none() {
        assert_eq!(LongHeader::parse(&[0x40; 64]), None);
        // A length beyond what a version may have.
        assert_eq!(LongHeader::parse(&[0xff; 1_200]), None);
    }
}
