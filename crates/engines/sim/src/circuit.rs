//! The circuit of a rack in a rotor: which rack it leads to now, and which of the rack's queues it serves.

use poseidon_plan::topology::Rotor;
use poseidon_types::Picos;

/// The circuit of one rack. The rack has one queue per other rack, which its packet link serves in turn, except the one that the
/// circuit serves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Circuit {
    /// Where it leads, while it stands.
    pub(crate) peer: Option<u32>,
    /// When it ends, ps.
    pub(crate) dusk: u64,
    /// The queues that hold packets.
    pub(crate) occupied: u64,
    /// Bytes that went by the circuit.
    pub(crate) sent: u64,
    /// The queue whose turn it is at the packet link.
    turn: u32,
}

impl Circuit {
    /// The circuits have changed; when they next do, ps.
    pub(crate) fn turn_to(&mut self, rotor: &Rotor, rack: u32, now: u64) -> u64 {
        let now = Picos::new(now);
        self.peer = rotor.peer(rack, now);
        let next = rotor.next_change(now).get();
        self.dusk = next;
        next
    }

    /// The queue that the packet link serves next: the first in turn that holds packets and is not the circuit's.
    pub(crate) fn next_for_packets(&self) -> Option<u32> {
        let mine = self.occupied & !self.peer.map_or(0, |peer| 1 << peer);
        if mine == 0 {
            return None;
        }
        let from_turn = mine & (u64::MAX << self.turn);
        Some(if from_turn == 0 { mine.trailing_zeros() } else { from_turn.trailing_zeros() })
    }

    /// The packet link has served a queue.
    pub(crate) fn served(&mut self, queue: u32) {
        self.turn = (queue + 1) % 64;
    }

    /// The queue that the circuit serves, if it holds packets.
    pub(crate) fn next_for_circuit(&self) -> Option<u32> {
        self.peer.filter(|peer| self.occupied & (1 << peer) != 0)
    }
}
