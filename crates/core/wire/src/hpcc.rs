//! HPCC's hop-record stack in the paper's layout. The stack grows by eight bytes per hop.
//!
//! ```text
//!  bytes 0-1                 bytes 2-9   bytes 10-17
//! +--------+-----------+    +-----------+-----------+ ...   first hop first, at most five
//! | nHop:4 | pathID:12 |    | hop word  | hop word  |       words: see `hop_word`
//! +--------+-----------+    +-----------+-----------+ ...
//! ```
//!
//! `pathID` identifies the path. Each switch XORs its own ID into this field.
//!
//! Source: HPCC (SIGCOMM'19) figure 7 and section 3.1.

use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, check_len};
use crate::hop_word::{Codec, HOP_BYTES, StackHeader, load_word};
use poseidon_types::{HopRecord, HopStack};
use zerocopy::big_endian::U16;

/// The maximum number of hops in the stack.
pub const MAX_HOPS: usize = 5;

/// Returns the header size in bytes after `hops` switches.
pub const fn header_bytes(hops: usize) -> usize {
    StackHeader::BYTES + HOP_BYTES * if hops > MAX_HOPS { MAX_HOPS } else { hops }
}

/// A view of a buffer that starts with a stack. The rest of the buffer is free space for more hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
    max_hops: usize,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails if the buffer is too short for the hop count in the header.
    pub fn new_checked(buffer: T) -> Result<Self> {
        Self::with_limit(buffer, MAX_HOPS)
    }

    /// Creates a view with a custom limit on the number of hops.
    pub(crate) fn with_limit(buffer: T, max_hops: usize) -> Result<Self> {
        check_len(buffer.as_ref(), StackHeader::BYTES)?;
        let packet = Self { buffer, max_hops };
        let found = packet.hops();
        if found > max_hops {
            return Err(Error::TooManyHops { max: max_hops, found });
        }
        check_len(packet.buffer.as_ref(), StackHeader::BYTES + HOP_BYTES * found)?;
        Ok(packet)
    }

    fn header(&self) -> StackHeader {
        StackHeader::parse(load::<U16>(self.buffer.as_ref(), 0).get())
    }

    /// Returns the number of hops in the stack.
    pub fn hops(&self) -> usize {
        usize::from(self.header().hops)
    }

    /// Returns the ID of the path up to this hop.
    pub fn path_id(&self) -> u16 {
        self.header().path_id
    }

    /// Returns the encoded records, first hop first.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.hops()).map(|hop| load_word(self.buffer.as_ref(), StackHeader::BYTES, hop))
    }

    /// Decodes the records, first hop first.
    pub fn hop_stack(&self, codec: &Codec) -> Result<HopStack> {
        decode(self.words(), codec)
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Appends a switch's record to the stack. The caller must move the payload to make room and update the length
    /// fields of the outer headers. On error, the buffer is left unchanged.
    pub fn push(&mut self, record: &HopRecord, switch_id: u16, codec: &Codec) -> Result<Delta> {
        let word = codec.encode(record)?;
        let (header, _) = self.write_record(word, switch_id)?;
        // The word is added to the packet, so the checksum did not cover the previous bytes of the free space.
        Ok(header.combine(Delta::for_bytes(&[], &word.to_be_bytes())))
    }

    /// Writes a switch's record into free space that the checksum already covers.
    pub(crate) fn fill_slot(&mut self, record: &HopRecord, switch_id: u16, codec: &Codec) -> Result<Delta> {
        let (header, word) = self.write_record(codec.encode(record)?, switch_id)?;
        Ok(header.combine(word))
    }

    fn write_record(&mut self, word: u64, switch_id: u16) -> Result<(Delta, Delta)> {
        let (header, hops) = (self.header(), self.hops());
        if hops >= self.max_hops {
            return Err(Error::TooManyHops { max: self.max_hops, found: hops + 1 });
        }
        let offset = StackHeader::BYTES + HOP_BYTES * hops;
        check_len(self.buffer.as_ref(), offset + HOP_BYTES)?;
        let buffer = self.buffer.as_mut();
        Ok((
            store(buffer, 0, &U16::new(header.after_switch(switch_id).word())),
            store(buffer, offset, &word.to_be_bytes()),
        ))
    }
}

/// Decodes words into records.
pub(crate) fn decode(words: impl Iterator<Item = u64>, codec: &Codec) -> Result<HopStack> {
    let mut stack = HopStack::EMPTY;
    for word in words {
        stack.push(codec.decode(word)?);
    }
    Ok(stack)
}

/// Encodes records. Returns the words and the number of words used.
pub(crate) fn encode(records: &[HopRecord], codec: &Codec) -> Result<([u64; MAX_HOPS], usize)> {
    let found = records.len();
    if found > MAX_HOPS {
        return Err(Error::TooManyHops { max: MAX_HOPS, found });
    }
    let mut words = [0; MAX_HOPS];
    for (slot, record) in words.iter_mut().zip(records) {
        *slot = codec.encode(record)?;
    }
    Ok((words, found))
}

/// The parsed stack. The words stay encoded, because decoding them requires a rate table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The path ID.
    pub path_id: u16,
    /// The encoded records, first hop first.
    pub words: [u64; MAX_HOPS],
    /// The number of records. Values above five are clamped to five.
    pub hops: usize,
}

impl Repr {
    /// Parses a stack.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self::from_packet(&Packet::new_checked(bytes)?))
    }

    /// Copies the stack from a view.
    pub(crate) fn from_packet<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        let mut words = [0; MAX_HOPS];
        words.iter_mut().zip(packet.words()).for_each(|(slot, word)| *slot = word);
        Self { path_id: packet.path_id(), words, hops: packet.hops() }
    }

    /// Creates a stack from `records`, first hop first.
    pub fn from_records(records: &[HopRecord], path_id: u16, codec: &Codec) -> Result<Self> {
        let (words, hops) = encode(records, codec)?;
        Ok(Self { path_id, words, hops })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        header_bytes(self.hops)
    }

    /// Writes the stack to the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, self.buffer_len())?;
        let hops = self.hops.min(MAX_HOPS);
        let header = StackHeader { hops: u8::try_from(hops).unwrap_or(0), path_id: self.path_id };
        // The end host computes the checksum later, so the delta is not needed.
        let _ = store(buffer, 0, &U16::new(header.word()));
        for (hop, word) in self.words.iter().take(hops).enumerate() {
            let _ = store(buffer, StackHeader::BYTES + hop * HOP_BYTES, &word.to_be_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop_word::Layout;
    use poseidon_types::{BitRate, Bytes, Nanos};

    const CODEC: Codec = Codec::new(Layout::Paper);
    /// A stack with two hops, path ID 0xabc, and the same golden word for both hops.
    const TWO_HOPS: [u8; 18] = [
        0x2a, 0xbc, 0x21, 0x23, 0x45, 0x6a, 0xbc, 0xde, 0xf0, 0xf0, 0x21, 0x23, 0x45, 0x6a, 0xbc, 0xde, 0xf0,
        0xf0,
    ];

    fn record() -> HopRecord {
        HopRecord {
            timestamp: Nanos::new(0x12_3456),
            sent: Bytes::new(0xa_bcde * 128),
            queue: Bytes::new(0xf0f0 * 80),
            rate: BitRate::from_gbps(100),
        }
    }

    #[test]
    fn two_pushes_produce_the_golden_vector() {
        let mut packet = Packet::new_checked([0; 18]).expect("an empty stack is valid");
        let _ = packet.push(&record(), 0xfff, &CODEC).expect("the buffer has room");
        let _ = packet.push(&record(), 0x543, &CODEC).expect("the buffer has room");
        let stack = packet.hop_stack(&CODEC).expect("the rates are in the table");
        assert_eq!(stack.as_slice(), [record(), record()]);
        assert_eq!(packet.into_inner(), TWO_HOPS);
        let repr = Repr::parse(&TWO_HOPS).expect("the header is valid");
        let mut out = [0; 18];
        repr.emit(&mut out).expect("the buffer is large enough");
        assert_eq!((out, repr.path_id, repr.hops), (TWO_HOPS, 0xabc, 2));
        assert_eq!(Repr::from_records(stack.as_slice(), 0xabc, &CODEC), Ok(repr));
        assert!(Repr::from_records(&[record(); 6], 0, &CODEC).is_err());
    }

    #[test]
    fn failed_push_does_not_change_the_buffer() {
        let mut packet = Packet::new_checked(TWO_HOPS).expect("the header is valid");
        assert_eq!(packet.push(&record(), 1, &CODEC), Err(Error::Truncated { need: 26, have: 18 }));
        assert_eq!(packet.into_inner(), TWO_HOPS);
        let mut full = Packet::new_checked([0; 64]).expect("an empty stack is valid");
        for _ in 0..MAX_HOPS {
            let _ = full.push(&record(), 1, &CODEC).expect("the buffer has room");
        }
        let before = full.buffer;
        assert_eq!(full.push(&record(), 1, &CODEC), Err(Error::TooManyHops { max: 5, found: 6 }));
        assert_eq!(full.into_inner(), before);
    }

    #[test]
    fn delta_of_a_push_ignores_the_old_content_of_the_free_space() {
        let mut bytes = [0xaa; 18];
        bytes[..2].copy_from_slice(&[0, 0]);
        let before = crate::checksum::internet(&[0, 0, 0x12, 0x34]);
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("an empty stack is valid");
        let delta = packet.push(&record(), 5, &CODEC).expect("the buffer has room");
        let mut after = [0; 12];
        after[..10].copy_from_slice(&bytes[..10]);
        after[10..].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(delta.apply(before), crate::checksum::internet(&after));
    }

    #[test]
    fn invalid_and_short_stacks_are_rejected() {
        for have in 0..TWO_HOPS.len() {
            let need = if have < 2 { 2 } else { 18 };
            assert_eq!(Repr::parse(&TWO_HOPS[..have]), Err(Error::Truncated { need, have }));
        }
        assert_eq!(Repr::parse(&[0x60, 0]), Err(Error::TooManyHops { max: 5, found: 6 }));
        assert!(Repr::parse(&TWO_HOPS).expect("the header is valid").emit(&mut [0; 17]).is_err());
    }
}
