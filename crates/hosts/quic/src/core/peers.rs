//! Records the encapsulation that each peer address used last.
//!
//! The record is needed until both ends have learned each other's tags, because a server replies with the
//! encapsulation that the client used. Source addresses can be spoofed, so the table has a fixed size and
//! overwrites old entries. The next datagram from an overwritten peer restores its entry.

use super::address::Fingerprint;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a datagram carries QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encapsulation {
    /// QUIC with a prefix.
    Shim,
    /// QUIC without a prefix.
    Plain,
}

/// The number of addresses in the table. The table takes 32 KiB.
const SLOTS: usize = 4_096;

/// A peer that used the prefix counts as plain after this many consecutive plain datagrams. The threshold
/// tolerates a client that tries plain QUIC on one unanswered connection while its other connections keep the
/// prefix. It also tolerates a single datagram from a spoofed address.
const PLAIN_THRESHOLD: u64 = 4;

/// The bits of a slot that count consecutive plain datagrams, up to [`PLAIN_THRESHOLD`].
const COUNT_MASK: u64 = 7;

#[derive(Debug)]
pub(crate) struct PeerTable {
    /// Each slot stores a fingerprint. Its lowest bits count the plain datagrams since the last datagram with
    /// a prefix.
    slots: Box<[AtomicU64]>,
}

impl PeerTable {
    pub(crate) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the encapsulation that a peer uses, or `None` if the table has no entry for the peer.
    pub(crate) fn encapsulation(&self, peer: Fingerprint) -> Option<Encapsulation> {
        let word = self.slot(peer).load(Relaxed);
        match (belongs_to(word, peer), word & COUNT_MASK) {
            (false, _) => None,
            (true, PLAIN_THRESHOLD..) => Some(Encapsulation::Plain),
            (true, _) => Some(Encapsulation::Shim),
        }
    }

    /// Records a datagram from a peer.
    pub(crate) fn record(&self, peer: Fingerprint, encapsulation: Encapsulation) {
        let slot = self.slot(peer);
        let old = slot.load(Relaxed);
        let count = match encapsulation {
            Encapsulation::Shim => 0,
            Encapsulation::Plain if belongs_to(old, peer) => ((old & COUNT_MASK) + 1).min(PLAIN_THRESHOLD),
            Encapsulation::Plain => PLAIN_THRESHOLD,
        };
        let word = (peer.0 & !COUNT_MASK) | count;
        // The word rarely changes. Skipping the store keeps the cache line valid on other cores.
        if old != word {
            slot.store(word, Relaxed);
        }
    }

    fn slot(&self, peer: Fingerprint) -> &AtomicU64 {
        let [.., high, low] = (peer.0 >> 3).to_be_bytes();
        &self.slots[usize::from(u16::from_be_bytes([high, low])) % SLOTS]
    }
}

fn belongs_to(word: u64, peer: Fingerprint) -> bool {
    word & !COUNT_MASK == peer.0 & !COUNT_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_last_encapsulation_until_another_peer_overwrites_the_slot() {
        let peers = PeerTable::new();
        let peer = Fingerprint(0x1234_5678);
        assert_eq!(peers.encapsulation(peer), None);
        peers.record(peer, Encapsulation::Plain);
        assert_eq!(peers.encapsulation(peer), Some(Encapsulation::Plain));
        peers.record(peer, Encapsulation::Shim);
        assert_eq!(peers.encapsulation(peer), Some(Encapsulation::Shim));
        let peer_in_same_slot = Fingerprint(0x9234_5678);
        peers.record(peer_in_same_slot, Encapsulation::Plain);
        assert_eq!(peers.encapsulation(peer), None);
    }

    #[test]
    fn single_plain_datagram_does_not_change_a_shim_peer() {
        let peers = PeerTable::new();
        let peer = Fingerprint(0x1234_5678);
        peers.record(peer, Encapsulation::Shim);
        for _ in 1..PLAIN_THRESHOLD {
            peers.record(peer, Encapsulation::Plain);
            assert_eq!(peers.encapsulation(peer), Some(Encapsulation::Shim));
        }
        peers.record(peer, Encapsulation::Plain);
        assert_eq!(peers.encapsulation(peer), Some(Encapsulation::Plain));
    }
}
