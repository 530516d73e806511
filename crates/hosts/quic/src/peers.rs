//! Which form of datagram an address was last heard to speak.
//!
//! Needed before two ends know each other's tags: a server answers in the form in which it was asked. Anyone can send from any address, so
//! the list has a fixed size and forgets; who was forgotten is asked anew by the next datagram.

use crate::address::Fingerprint;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a datagram looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// QUIC behind our prefix.
    Shim,
    /// QUIC as everybody speaks it.
    Plain,
}

/// Addresses that are remembered: 32 KiB.
const PLACES: usize = 4_096;

/// Plain datagrams in a row after which an address that spoke the shim is believed to have stopped. A client that is not answered tries
/// plain QUIC for one connection while others go on, and a stranger can send one datagram in anybody's name.
const CHANGE: u64 = 4;

/// The bits of a place that count plain datagrams in a row, up to [`CHANGE`].
const COUNT: u64 = 7;

#[derive(Debug)]
pub(crate) struct Peers {
    /// A fingerprint, and in its lowest bits how many plain datagrams came since the last with a shim.
    places: Box<[AtomicU64]>,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn form(&self, peer: Fingerprint) -> Option<Form> {
        let word = self.place(peer).load(Relaxed);
        match (is_of(word, peer), word & COUNT) {
            (false, _) => None,
            (true, CHANGE..) => Some(Form::Plain),
            (true, _) => Some(Form::Shim),
        }
    }

    pub(crate) fn heard(&self, peer: Fingerprint, form: Form) {
        let place = self.place(peer);
        let old = place.load(Relaxed);
        let count = match form {
            Form::Shim => 0,
            Form::Plain if is_of(old, peer) => ((old & COUNT) + 1).min(CHANGE),
            Form::Plain => CHANGE,
        };
        let word = (peer.0 & !COUNT) | count;
        // Usually it is known: then other threads' copies of the line stay valid.
        if old != word {
            place.store(word, Relaxed);
        }
    }

    fn place(&self, peer: Fingerprint) -> &AtomicU64 {
        let [.., high, low] = (peer.0 >> 3).to_be_bytes();
        &self.places[usize::from(u16::from_be_bytes([high, low])) % PLACES]
    }
}

fn is_of(word: u64, peer: Fingerprint) -> bool {
    word & !COUNT == peer.0 & !COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_form_is_known_and_strangers_only_make_it_forget() {
        let peers = Peers::new();
        let peer = Fingerprint(0x1234_5678);
        assert_eq!(peers.form(peer), None);
        peers.heard(peer, Form::Plain);
        assert_eq!(peers.form(peer), Some(Form::Plain));
        peers.heard(peer, Form::Shim);
        assert_eq!(peers.form(peer), Some(Form::Shim));
        // The same place, another address.
        peers.heard(Fingerprint(0x9234_5678), Form::Plain);
        assert_eq!(peers.form(peer), None);
    }

    #[test]
    fn one_plain_datagram_does_not_change_who_speaks_the_shim() {
        let peers = Peers::new();
        let peer = Fingerprint(0x1234_5678);
        peers.heard(peer, Form::Shim);
        for _ in 1..CHANGE {
            peers.heard(peer, Form::Plain);
            assert_eq!(peers.form(peer), Some(Form::Shim));
        }
        peers.heard(peer, Form::Plain);
        assert_eq!(peers.form(peer), Some(Form::Plain));
    }
}
