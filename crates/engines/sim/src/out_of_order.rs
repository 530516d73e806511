//! The packets that a receiver has received out of order.

use std::collections::VecDeque;

/// The number of packets per word.
const BITS: u32 = u64::BITS;

/// A set of sequence numbers: a bit for each packet between the first and the last number.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutOfOrder {
    /// The sequence number of the first bit of the first word, divided by the number of bits.
    first_word: u32,
    words: VecDeque<u64>,
    len: u32,
}

/// Returns the position of a packet's bit within its word.
const fn mask(seq: u32) -> u64 {
    1 << (seq % BITS)
}

impl OutOfOrder {
    pub(crate) const fn new() -> Self {
        Self { first_word: 0, words: VecDeque::new(), len: 0 }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn contains(&self, seq: u32) -> bool {
        self.word(seq / BITS) & mask(seq) != 0
    }

    /// Adds a packet. Returns `false` if the set contains the packet already.
    #[inline(never)]
    pub(crate) fn insert(&mut self, seq: u32) -> bool {
        let word = seq / BITS;
        if self.words.is_empty() {
            self.first_word = word;
        }
        while word < self.first_word {
            self.words.push_front(0);
            self.first_word -= 1;
        }
        let index = (word - self.first_word) as usize;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let is_new = self.words[index] & mask(seq) == 0;
        self.words[index] |= mask(seq);
        self.len += u32::from(is_new);
        is_new
    }

    /// Removes the packets from `seq` on that follow each other without a gap. Returns the number of the first packet
    /// that is not in the set. The set must not contain packets below `seq`.
    #[inline(never)]
    pub(crate) fn remove_run(&mut self, mut seq: u32) -> u32 {
        while self.contains(seq) {
            let index = (seq / BITS - self.first_word) as usize;
            self.words[index] &= !mask(seq);
            self.len -= 1;
            seq += 1;
        }
        if self.len == 0 {
            self.words.clear();
        }
        while self.words.front() == Some(&0) {
            self.words.pop_front();
            self.first_word += 1;
        }
        seq
    }

    /// Returns a bit for each of the 64 packets from `base` on.
    pub(crate) fn bitmap(&self, base: u32) -> u64 {
        let (word, shift) = (base / BITS, base % BITS);
        let next = if shift == 0 { 0 } else { self.word(word + 1) << (BITS - shift) };
        self.word(word) >> shift | next
    }

    fn word(&self, word: u32) -> u64 {
        let index = word.checked_sub(self.first_word).map(|index| index as usize);
        index.and_then(|index| self.words.get(index)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{low32, splitmix64};
    use std::collections::BTreeSet;

    #[test]
    fn set_agrees_with_a_tree_of_numbers() {
        let (mut set, mut tree, mut next) = (OutOfOrder::new(), BTreeSet::new(), 60);
        for step in 0..20_000 {
            let seq = next + low32(splitmix64(step)) % 150;
            if seq == next {
                next += 1;
                while tree.remove(&next) {
                    next += 1;
                }
                assert_eq!(set.remove_run(seq + 1), next);
            } else {
                assert_eq!(set.insert(seq), tree.insert(seq), "{seq}");
            }
            assert_eq!(set.is_empty(), tree.is_empty());
            let base = seq.saturating_sub(30);
            let expected = (0..64).fold(0, |bits, bit| bits | u64::from(tree.contains(&(base + bit))) << bit);
            assert_eq!(set.bitmap(base), expected, "{base}");
        }
        assert!(next > 3_000, "few runs are removed: {next}");
    }
}
