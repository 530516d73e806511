//! What packets carry beside themselves, one or two cache lines each: a word or two for each hop that measured, or the bytes of a
//! telemetry header.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::packet::NONE;

/// Words in a cache line.
const WORDS: usize = 8;

/// A cache line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct Line([u64; WORDS]);

const _: () = assert!(size_of::<Line>() == 64, "a line is a cache line");

/// All sides there are, each of the same number of lines.
#[derive(Debug)]
pub(crate) struct Sides {
    lines: Vec<Line>,
    lines_each: usize,
    free: Vec<u32>,
}

impl Sides {
    pub(crate) const fn new(lines_each: usize) -> Self {
        Self { lines: Vec::new(), lines_each, free: Vec::new() }
    }

    /// A side with whatever was in it before.
    pub(crate) fn add(&mut self) -> u32 {
        if let Some(id) = self.free.pop() {
            return id;
        }
        let id = self.lines.len() / self.lines_each;
        self.lines.resize(self.lines.len() + self.lines_each, Line([0; WORDS]));
        u32::try_from(id).ok().filter(|id| *id != NONE).expect("fewer than 2^32 packets at once")
    }

    pub(crate) fn remove(&mut self, id: u32) {
        if id != NONE {
            self.free.push(id);
        }
    }

    /// Takes in a side of another shard from the front of `lines`.
    pub(crate) fn take_in(&mut self, lines: &mut &[Line]) -> u32 {
        let (first, rest) = lines.split_at(self.lines_each);
        *lines = rest;
        let id = self.add();
        let at = self.at(id);
        self.lines[at..at + self.lines_each].copy_from_slice(first);
        id
    }

    /// The lines of a side, none where there is no side.
    pub(crate) fn lines(&self, id: u32) -> &[Line] {
        let at = self.at(id);
        self.lines.get(at..at + self.lines_each).unwrap_or(&[])
    }

    /// The bytes of a side, if there is one.
    pub(crate) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let bytes = self.lines(id).as_bytes();
        (!bytes.is_empty()).then_some(bytes)
    }

    pub(crate) fn bytes_mut(&mut self, id: u32) -> Option<&mut [u8]> {
        let at = self.at(id);
        self.lines.get_mut(at..at + self.lines_each).map(IntoBytes::as_mut_bytes)
    }

    /// The words of one hop, if there is a side and it has room for so many hops.
    #[inline]
    pub(crate) fn hop_mut<const W: usize>(&mut self, id: u32, hop: usize) -> Option<&mut [u64; W]> {
        let (line, word) = self.place::<W>(id, hop)?;
        self.lines.get_mut(line)?.0.get_mut(word..word + W)?.try_into().ok()
    }

    #[inline]
    pub(crate) fn hop<const W: usize>(&self, id: u32, hop: usize) -> Option<[u64; W]> {
        let (line, word) = self.place::<W>(id, hop)?;
        self.lines.get(line)?.0.get(word..word + W)?.try_into().ok()
    }

    #[inline]
    fn place<const W: usize>(&self, id: u32, hop: usize) -> Option<(usize, usize)> {
        let word = hop * W;
        (word < WORDS * self.lines_each).then(|| (self.at(id) + word / WORDS, word % WORDS))
    }

    /// Brings the first line of each of these into the cache before it is needed, as [`Arena::touch`](crate::packet::Arena::touch).
    #[inline]
    pub(crate) fn touch(&self, ids: impl Iterator<Item = u32>) {
        let word = |id| self.lines.get(self.at(id)).map_or(0, |line| line.0[0]);
        core::hint::black_box(ids.fold(0, |all, id| all ^ word(id)));
    }

    #[inline]
    const fn at(&self, id: u32) -> usize {
        id as usize * self.lines_each
    }
}
