//! HPCC's stack of hop records, in the layout of its paper: it grows by eight bytes per hop.
//!
//! ```text
//!  bytes 0-1                 bytes 2-9   bytes 10-17
//! +--------+-----------+    +-----------+-----------+ ...   first hop first, at most five
//! | nHop:4 | pathID:12 |    | hop word  | hop word  |       words: see `hop_word`
//! +--------+-----------+    +-----------+-----------+ ...
//! ```
//!
//! `pathID` changes where the path changes: each switch folds its id in by exclusive or.
//!
//! Source: HPCC (SIGCOMM'19) figure 7 and section 3.1.

use crate::bytes::{load, store};
use crate::checksum::Delta;
use crate::error::{Error, Result, demand};
use crate::hop_word::{Base, Codec, HOP_BYTES, word_at};
use poseidon_types::{HopRecord, HopStack};
use zerocopy::big_endian::U16;

/// The most hops the paper's header holds.
pub const MAX_HOPS: usize = 5;

/// Bytes on the wire behind `hops` switches.
pub const fn header_bytes(hops: usize) -> usize {
    Base::BYTES + HOP_BYTES * if hops > MAX_HOPS { MAX_HOPS } else { hops }
}

/// A view over bytes that begin with a stack. What lies behind the stack in the buffer is room for more hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
    max_hops: usize,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds every hop the header claims.
    pub fn new_checked(buffer: T) -> Result<Self> {
        Self::with_limit(buffer, MAX_HOPS)
    }

    /// The same for a carrier with another limit.
    pub(crate) fn with_limit(buffer: T, max_hops: usize) -> Result<Self> {
        demand(buffer.as_ref(), Base::BYTES)?;
        let packet = Self { buffer, max_hops };
        let found = packet.hops();
        if found > max_hops {
            return Err(Error::TooManyHops { max: max_hops, found });
        }
        demand(packet.buffer.as_ref(), Base::BYTES + HOP_BYTES * found)?;
        Ok(packet)
    }

    fn base(&self) -> Base {
        Base::parse(load::<U16>(self.buffer.as_ref(), 0).get())
    }

    /// Hops that pushed.
    pub fn hops(&self) -> usize {
        usize::from(self.base().hops)
    }

    /// The id of the path so far.
    pub fn path_id(&self) -> u16 {
        self.base().path_id
    }

    /// The raw words, first hop first.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.hops()).map(|hop| word_at(self.buffer.as_ref(), Base::BYTES, hop))
    }

    /// The records, first hop first.
    pub fn hop_stack(&self, codec: &Codec) -> Result<HopStack> {
        decode(self.words(), codec)
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a switch does: appends its record into the room behind the stack. Whoever moved the payload away to make
    /// room also repairs the lengths around it. A full stack, no room or an unknown rate: nothing is touched.
    pub fn push(&mut self, record: &HopRecord, switch_id: u16, codec: &Codec) -> Result<Delta> {
        let word = codec.encode(record)?;
        let (base, _) = self.put(word, switch_id)?;
        // The word is new to the packet: its bytes count whole, whatever the room held.
        Ok(base.and(Delta::replace(&[], &word.to_be_bytes())))
    }

    /// Writes the record into room that the checksum already covers.
    pub(crate) fn fill(&mut self, record: &HopRecord, switch_id: u16, codec: &Codec) -> Result<Delta> {
        let (base, word) = self.put(codec.encode(record)?, switch_id)?;
        Ok(base.and(word))
    }

    fn put(&mut self, word: u64, switch_id: u16) -> Result<(Delta, Delta)> {
        let (base, hops) = (self.base(), self.hops());
        if hops >= self.max_hops {
            return Err(Error::TooManyHops { max: self.max_hops, found: hops + 1 });
        }
        let at = Base::BYTES + HOP_BYTES * hops;
        demand(self.buffer.as_ref(), at + HOP_BYTES)?;
        let buffer = self.buffer.as_mut();
        Ok((
            store(buffer, 0, &U16::new(base.after(switch_id).word())),
            store(buffer, at, &word.to_be_bytes()),
        ))
    }
}

/// Words to records.
pub(crate) fn decode(words: impl Iterator<Item = u64>, codec: &Codec) -> Result<HopStack> {
    let mut stack = HopStack::EMPTY;
    for word in words {
        stack.push(codec.decode(word)?);
    }
    Ok(stack)
}

/// Records to words, and how many there are.
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

/// What a stack says, with its words as they are: rates mean something only with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repr {
    /// The id of the path.
    pub path_id: u16,
    /// The words, first hop first.
    pub words: [u64; MAX_HOPS],
    /// How many of them count; more than five count as five.
    pub hops: usize,
}

impl Repr {
    /// Reads a stack.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self::read(&Packet::new_checked(bytes)?))
    }

    /// What a checked view says.
    pub(crate) fn read<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        let mut words = [0; MAX_HOPS];
        words.iter_mut().zip(packet.words()).for_each(|(slot, word)| *slot = word);
        Self { path_id: packet.path_id(), words, hops: packet.hops() }
    }

    /// The stack that says `records`, first hop first.
    pub fn from_records(records: &[HopRecord], path_id: u16, codec: &Codec) -> Result<Self> {
        let (words, hops) = encode(records, codec)?;
        Ok(Self { path_id, words, hops })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        header_bytes(self.hops)
    }

    /// Writes the stack at the start of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, self.buffer_len())?;
        let hops = self.hops.min(MAX_HOPS);
        let base = Base { hops: u8::try_from(hops).unwrap_or(0), path_id: self.path_id };
        // Written by an end host before any checksum.
        let _ = store(buffer, 0, &U16::new(base.word()));
        for (hop, word) in self.words.iter().take(hops).enumerate() {
            let _ = store(buffer, Base::BYTES + hop * HOP_BYTES, &word.to_be_bytes());
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
    /// Two hops, path id 0xabc, the golden word twice.
    const TWO: [u8; 18] = [
        0x2a, 0xbc, 0x21, 0x23, 0x45, 0x6a, 0xbc, 0xde, 0xf0, 0xf0, 0x21, 0x23, 0x45, 0x6a, 0xbc, 0xde, 0xf0,
        0xf0,
    ];

    fn record() -> HopRecord {
        HopRecord {
            at: Nanos::new(0x12_3456),
            sent: Bytes::new(0xa_bcde * 128),
            queue: Bytes::new(0xf0f0 * 80),
            rate: BitRate::from_gbps(100),
        }
    }

    #[test]
    fn two_pushes_make_the_vector() {
        let mut packet = Packet::new_checked([0; 18]).expect("an empty stack");
        let _ = packet.push(&record(), 0xfff, &CODEC).expect("room");
        let _ = packet.push(&record(), 0x543, &CODEC).expect("room");
        let stack = packet.hop_stack(&CODEC).expect("known rates");
        assert_eq!(stack.as_slice(), [record(), record()]);
        assert_eq!(packet.into_inner(), TWO);
        let repr = Repr::parse(&TWO).expect("parses");
        let mut out = [0; 18];
        repr.emit(&mut out).expect("fits");
        assert_eq!((out, repr.path_id, repr.hops), (TWO, 0xabc, 2));
        assert_eq!(Repr::from_records(stack.as_slice(), 0xabc, &CODEC), Ok(repr));
        assert!(Repr::from_records(&[record(); 6], 0, &CODEC).is_err());
    }

    #[test]
    fn no_room_leaves_everything_alone() {
        let mut packet = Packet::new_checked(TWO).expect("parses");
        assert_eq!(packet.push(&record(), 1, &CODEC), Err(Error::Truncated { need: 26, have: 18 }));
        assert_eq!(packet.into_inner(), TWO);
        let mut full = Packet::new_checked([0; 64]).expect("an empty stack");
        for _ in 0..MAX_HOPS {
            let _ = full.push(&record(), 1, &CODEC).expect("room");
        }
        let before = full.buffer;
        assert_eq!(full.push(&record(), 1, &CODEC), Err(Error::TooManyHops { max: 5, found: 6 }));
        assert_eq!(full.into_inner(), before);
    }

    #[test]
    fn the_delta_of_a_push_counts_the_new_bytes_whole() {
        let mut bytes = [0xaa; 18];
        bytes[..2].copy_from_slice(&[0, 0]);
        let before = crate::checksum::internet(&[0, 0, 0x12, 0x34]);
        let mut packet = Packet::new_checked(&mut bytes[..]).expect("an empty stack");
        let delta = packet.push(&record(), 5, &CODEC).expect("room");
        let mut after = [0; 12];
        after[..10].copy_from_slice(&bytes[..10]);
        after[10..].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(delta.apply(before), crate::checksum::internet(&after));
    }

    #[test]
    fn impossible_and_short_stacks_are_refused() {
        for have in 0..TWO.len() {
            let need = if have < 2 { 2 } else { 18 };
            assert_eq!(Repr::parse(&TWO[..have]), Err(Error::Truncated { need, have }));
        }
        assert_eq!(Repr::parse(&[0x60, 0]), Err(Error::TooManyHops { max: 5, found: 6 }));
        assert!(Repr::parse(&TWO).expect("parses").emit(&mut [0; 17]).is_err());
    }
}
