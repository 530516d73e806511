//! The arena of per-packet hop records.
//!
//! A packet's records occupy one or two cache lines. They contain either one or two words per hop, or the
//! bytes of a telemetry header.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::hash::low32;

/// The number of words in a cache line.
const WORDS: usize = 8;

/// One cache line of hop records.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct CacheLine([u64; WORDS]);

const _: () = assert!(size_of::<CacheLine>() == 64, "a cache line has 64 bytes");

/// The index of a packet's records in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub(crate) struct RecordsId(u32);

impl RecordsId {
    /// The id used for packets without hop records.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// What an ACK reports in addition to its cumulative acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelectiveAck {
    /// The payload bytes that the receiver has received. Each byte counts once.
    pub(crate) received_bytes: u64,
    /// A bit for each packet from `base` on that has arrived.
    pub(crate) bitmap: u64,
    pub(crate) base: u32,
}

/// The hop records of all packets. Every packet uses the same number of cache lines.
#[derive(Debug)]
pub(crate) struct RecordArena {
    lines: Vec<CacheLine>,
    /// The number of cache lines that contain hop records or a telemetry header.
    hop_lines: usize,
    /// The number of cache lines per packet. If an ACK carries a [`SelectiveAck`], it is in the last line.
    lines_per_packet: usize,
    free: Vec<RecordsId>,
}

impl RecordArena {
    /// Creates an arena. `hop_lines` is the number of cache lines for hop records or a telemetry header.
    pub(crate) const fn new(hop_lines: usize, has_selective_acks: bool) -> Self {
        let lines_per_packet = hop_lines + has_selective_acks as usize;
        Self { lines: Vec::new(), hop_lines, lines_per_packet, free: Vec::new() }
    }

    /// Allocates records without clearing them.
    pub(crate) fn allocate(&mut self) -> RecordsId {
        if let Some(id) = self.free.pop() {
            return id;
        }
        let number = self.lines.len() / self.lines_per_packet;
        self.lines.resize(self.lines.len() + self.lines_per_packet, CacheLine([0; WORDS]));
        let id = u32::try_from(number).ok().map(RecordsId).filter(|id| *id != RecordsId::NONE);
        id.expect("fewer than 2^32 packets exist at once")
    }

    pub(crate) fn free(&mut self, id: RecordsId) {
        if id != RecordsId::NONE {
            self.free.push(id);
        }
    }

    /// Copies one packet's records from the front of `lines` and removes them from `lines`.
    pub(crate) fn import(&mut self, lines: &mut &[CacheLine]) -> RecordsId {
        let (packet_lines, remaining) = lines.split_at(self.lines_per_packet);
        *lines = remaining;
        let id = self.allocate();
        let start = self.first_line(id);
        self.lines[start..start + self.lines_per_packet].copy_from_slice(packet_lines);
        id
    }

    /// Returns a packet's cache lines, or an empty slice if the packet has no records.
    pub(crate) fn lines(&self, id: RecordsId) -> &[CacheLine] {
        let start = self.first_line(id);
        self.lines.get(start..start + self.lines_per_packet).unwrap_or(&[])
    }

    /// Returns a packet's records as bytes.
    pub(crate) fn bytes(&self, id: RecordsId) -> Option<&[u8]> {
        let bytes = self.lines(id).get(..self.hop_lines).unwrap_or(&[]).as_bytes();
        (!bytes.is_empty()).then_some(bytes)
    }

    pub(crate) fn bytes_mut(&mut self, id: RecordsId) -> Option<&mut [u8]> {
        let start = self.first_line(id);
        let lines = self.lines.get_mut(start..start + self.hop_lines).filter(|lines| !lines.is_empty());
        lines.map(IntoBytes::as_mut_bytes)
    }

    /// Returns whether ACKs carry selective acknowledgements.
    #[inline]
    pub(crate) const fn has_selective_acks(&self) -> bool {
        self.lines_per_packet > self.hop_lines
    }

    /// Writes a selective acknowledgement.
    pub(crate) fn write_selective_ack(&mut self, id: RecordsId, ack: &SelectiveAck) {
        let line = self.first_line(id) + self.hop_lines;
        if let Some(line) = self.lines.get_mut(line) {
            line.0[..3].copy_from_slice(&[ack.received_bytes, ack.bitmap, u64::from(ack.base)]);
        }
    }

    /// Reads a selective acknowledgement.
    pub(crate) fn selective_ack(&self, id: RecordsId) -> SelectiveAck {
        let [received_bytes, bitmap, base, ..] =
            self.lines.get(self.first_line(id) + self.hop_lines).map_or([0; WORDS], |line| line.0);
        SelectiveAck { received_bytes, bitmap, base: low32(base) }
    }

    /// Returns a hop's `W` words, or `None` if the packet has no records or no space for this hop.
    #[inline]
    pub(crate) fn hop_mut<const W: usize>(&mut self, id: RecordsId, hop: usize) -> Option<&mut [u64; W]> {
        let (line, word) = self.position::<W>(id, hop)?;
        self.lines.get_mut(line)?.0.get_mut(word..word + W)?.try_into().ok()
    }

    #[inline]
    pub(crate) fn hop<const W: usize>(&self, id: RecordsId, hop: usize) -> Option<[u64; W]> {
        let (line, word) = self.position::<W>(id, hop)?;
        self.lines.get(line)?.0.get(word..word + W)?.try_into().ok()
    }

    /// Returns a hop's cache line and first word.
    #[inline]
    fn position<const W: usize>(&self, id: RecordsId, hop: usize) -> Option<(usize, usize)> {
        let word = hop * W;
        (word < WORDS * self.hop_lines).then(|| (self.first_line(id) + word / WORDS, word % WORDS))
    }

    /// Prefetches the first cache line of each packet's records.
    #[inline]
    pub(crate) fn prefetch(&self, ids: impl Iterator<Item = RecordsId>) {
        let first_word = |id| self.lines.get(self.first_line(id)).map_or(0, |line| line.0[0]);
        core::hint::black_box(ids.fold(0, |words, id| words ^ first_word(id)));
    }

    #[inline]
    const fn first_line(&self, id: RecordsId) -> usize {
        id.0 as usize * self.lines_per_packet
    }
}
