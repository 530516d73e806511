//! A rack's circuit in a rotor topology: its current peer and the queue that it serves.

use poseidon_plan::topology::Rotor;
use poseidon_types::{Picos, QueueId};

/// A rack's circuit. The rack has one queue per destination rack. The circuit serves the queue for its peer,
/// and the packet link serves the other queues in round-robin order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Circuit {
    /// The rack at the far end while the circuit is up.
    pub(crate) peer: Option<u32>,
    /// The time of the next circuit change.
    pub(crate) next_change: Picos,
    /// A bit mask of the non-empty queues.
    pub(crate) occupied: u64,
    /// Bytes sent over the circuit.
    pub(crate) sent_bytes: u64,
    /// The queue at which the packet link starts its round-robin scan.
    scan_start: u32,
}

impl Circuit {
    /// Switches to the matching in effect at `now`. Returns the time of the next change.
    pub(crate) fn reconfigure(&mut self, rotor: &Rotor, rack: u32, now: Picos) -> Picos {
        self.peer = rotor.peer(rack, now);
        self.next_change = rotor.next_change(now);
        self.next_change
    }

    /// Returns the queue that the packet link serves next.
    pub(crate) fn next_packet_link_queue(&self) -> Option<QueueId> {
        let eligible = self.occupied & !self.peer.map_or(0, |peer| 1 << peer);
        if eligible == 0 {
            return None;
        }
        let from_start = eligible & (u64::MAX << self.scan_start);
        let first = if from_start == 0 { eligible } else { from_start };
        Some(QueueId::new(first.trailing_zeros()))
    }

    /// Advances the round-robin scan after the packet link has served a queue.
    pub(crate) const fn advance_round_robin(&mut self, queue: QueueId) {
        self.scan_start = (queue.get() + 1) % 64;
    }

    /// Returns the queue for the circuit's peer if that queue is not empty.
    pub(crate) fn next_circuit_queue(&self) -> Option<QueueId> {
        self.peer.filter(|peer| self.occupied & (1 << peer) != 0).map(QueueId::new)
    }
}
