//! The calendar: the active nodes and packet arrivals in each time window.
//!
//! The window length is a power of two in picoseconds and does not exceed the smallest delay into a switch. A
//! packet sent in one window therefore reaches a switch only in a later window. Switches are visited before
//! racks because a packet from a switch can reach a host within the same window.

use core::cmp::Reverse;
use poseidon_types::{Picos, PortId};
use std::collections::BinaryHeap;

use crate::node::{NodeId, NodeKind};
use crate::packet::PacketId;

/// The number of windows in the ring. Events in later windows wait in a heap.
const SLOTS: usize = 32;
/// The base-2 logarithm of the maximum window length in ps. This limit ensures that an arrival fits in 64
/// bits.
const MAX_WINDOW_BITS: u32 = 19;
/// The number of arrivals that a node prefetches at once.
pub(crate) const PREFETCH_BATCH: usize = 32;
/// The maximum number of ports per node.
pub(crate) const MAX_PORTS: u32 = 1 << 12;

/// An arrival packed into a sortable integer: time within the window, port, control flag and packet.
///
/// The sort order never depends on the packet id. A link delivers at most one packet at a time, but PFC
/// frames skip the pipeline and can arrive at the same time as another packet. The control flag breaks such
/// ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival(u64);

impl Arrival {
    const fn new(offset: u64, port: PortId, is_control: bool, packet: PacketId) -> Self {
        let port = port.get() as u64;
        Self((offset << 45) | (port << 33) | ((!is_control as u64) << 32) | packet.get() as u64)
    }

    /// Returns the arrival time relative to the start of the window, in ps.
    const fn offset(self) -> u64 {
        self.0 >> 45
    }

    /// Returns the arrival time in a window that starts at `window_start`.
    #[inline]
    pub(crate) const fn time(self, window_start: Picos) -> Picos {
        Picos::new(window_start.get() + self.offset())
    }

    pub(crate) const fn port(self) -> PortId {
        PortId::new((self.0 >> 33 & (MAX_PORTS as u64 - 1)) as u32)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the packet id is the low half")]
    pub(crate) const fn packet(self) -> PacketId {
        PacketId::new(self.0 as u32)
    }
}

/// Marks a visit that has no arrival.
const WAKE_ONLY: Arrival = Arrival(u64::MAX);

/// Returns a window's slot in the ring.
#[inline]
fn slot(window: u64) -> usize {
    usize::try_from(window % SLOTS as u64).unwrap_or(0)
}

/// The active nodes and arrivals of the current and later windows.
#[derive(Debug)]
pub(crate) struct Calendar {
    window_bits: u32,
    /// The number of the current window.
    window: u64,
    stop: Picos,
    nodes: usize,
    /// Nodes with numbers below this value are switches.
    switches: u32,
    /// Arrivals, indexed by slot and node.
    batches: Vec<Vec<Arrival>>,
    /// Empty batches for reuse. The most recently used batch is last.
    spare_batches: Vec<Vec<Arrival>>,
    /// For each node, a bit mask of the slots in which the node is active.
    active_slots: Vec<u32>,
    /// The active nodes, indexed by slot and [`NodeKind`].
    active_nodes: [[Vec<NodeId>; 2]; SLOTS],
    /// Events beyond the end of the ring, stored as window, node and arrival.
    far_events: BinaryHeap<Reverse<(u64, NodeId, Arrival)>>,
    /// For each node, the earliest window of its wake-ups in `far_events`.
    earliest_far_wake: Vec<u64>,
}

impl Calendar {
    /// Creates a calendar for `nodes` nodes, the first `switches` of which are switches. Windows are at most
    /// `min_delay` long. No event occurs at or after `stop`.
    pub(crate) fn new(nodes: u32, switches: u32, min_delay: Picos, stop: Picos) -> Self {
        let nodes = nodes as usize;
        Self {
            window_bits: Self::window_length(min_delay).get().ilog2(),
            window: 0,
            stop,
            nodes,
            switches,
            batches: vec![Vec::new(); SLOTS * nodes],
            active_slots: vec![0; nodes],
            active_nodes: core::array::from_fn(|_| [Vec::new(), Vec::new()]),
            far_events: BinaryHeap::new(),
            spare_batches: Vec::new(),
            earliest_far_wake: vec![u64::MAX; nodes],
        }
    }

    /// Returns the window length for a network whose smallest delay into any switch is `min_delay`.
    pub(crate) fn window_length(min_delay: Picos) -> Picos {
        Picos::new(1 << min_delay.get().max(1).ilog2().min(MAX_WINDOW_BITS))
    }

    /// Returns the start of the current window.
    pub(crate) const fn window_start(&self) -> Picos {
        Picos::new(self.window << self.window_bits)
    }

    /// Returns the exclusive end of the current window, or the end of the run if that is earlier.
    pub(crate) const fn window_end(&self) -> Picos {
        let end = (self.window + 1) << self.window_bits;
        if end < self.stop.get() { Picos::new(end) } else { self.stop }
    }

    /// Schedules a packet's arrival at a node's port.
    #[inline]
    pub(crate) fn schedule_arrival(
        &mut self,
        node: NodeId,
        port: PortId,
        time: Picos,
        packet: PacketId,
        is_control: bool,
    ) {
        let window = self.window_of(time);
        // This is the engine's key invariant: no packet reaches a switch in the window in which it was sent.
        assert!(
            window > self.window || (window == self.window && self.kind(node) == NodeKind::Rack),
            "a packet reaches a switch within the current window"
        );
        let offset = time.get() & ((1 << self.window_bits) - 1);
        self.insert(window, node, Arrival::new(offset, port, is_control, packet));
    }

    /// Schedules a visit to a node in the window that contains `time`.
    #[inline]
    pub(crate) fn schedule_visit(&mut self, node: NodeId, time: Picos) {
        let window = self.window_of(time);
        if window >= self.window + SLOTS as u64 {
            // One far wake-up is enough because the node schedules its next wake-up at each visit.
            if self.earliest_far_wake[node.index()] <= window {
                return;
            }
            self.earliest_far_wake[node.index()] = window;
        }
        self.insert(window, node, WAKE_ONLY);
    }

    #[inline]
    fn insert(&mut self, window: u64, node: NodeId, arrival: Arrival) {
        if window >= self.window + SLOTS as u64 {
            self.far_events.push(Reverse((window, node, arrival)));
            return;
        }
        let slot = slot(window);
        let kind = self.kind(node);
        let active_slots = &mut self.active_slots[node.index()];
        if *active_slots & (1 << slot) == 0 {
            *active_slots |= 1 << slot;
            self.active_nodes[slot][kind as usize].push(node);
        }
        if arrival != WAKE_ONLY {
            let batch = &mut self.batches[slot * self.nodes + node.index()];
            if batch.capacity() == 0 {
                *batch = self.spare_batches.pop().unwrap_or_default();
            }
            batch.push(arrival);
        }
    }

    #[inline]
    const fn kind(&self, node: NodeId) -> NodeKind {
        if node.get() < self.switches { NodeKind::Switch } else { NodeKind::Rack }
    }

    /// Takes the current window's list of active switches or racks.
    pub(crate) fn take_active(&mut self, kind: NodeKind) -> Vec<NodeId> {
        core::mem::take(&mut self.active_nodes[slot(self.window)][kind as usize])
    }

    /// Takes back a list of active nodes so that its memory can be reused.
    pub(crate) fn recycle_active(&mut self, kind: NodeKind, mut nodes: Vec<NodeId>) {
        nodes.clear();
        let slot = slot(self.window);
        if self.active_nodes[slot][kind as usize].is_empty() {
            self.active_nodes[slot][kind as usize] = nodes;
        }
    }

    /// Takes a node's arrivals in the current window, sorted by time and port.
    pub(crate) fn take_batch(&mut self, node: NodeId) -> Vec<Arrival> {
        let slot = slot(self.window);
        self.active_slots[node.index()] &= !(1 << slot);
        let mut batch = core::mem::take(&mut self.batches[slot * self.nodes + node.index()]);
        batch.sort_unstable();
        batch
    }

    /// Takes back a batch so that its memory can be reused.
    pub(crate) fn recycle_batch(&mut self, mut batch: Vec<Arrival>) {
        if batch.capacity() > 0 {
            batch.clear();
            self.spare_batches.push(batch);
        }
    }

    /// Returns the number of the window that contains `time`.
    #[inline]
    pub(crate) const fn window_of(&self, time: Picos) -> u64 {
        time.get() >> self.window_bits
    }

    /// Returns the next window in which any node in this shard is active.
    pub(crate) fn next_active_window(&self) -> Option<u64> {
        let in_ring = (1..SLOTS as u64).map(|ahead| self.window + ahead).find(|window| {
            let [switches, racks] = &self.active_nodes[slot(*window)];
            !switches.is_empty() || !racks.is_empty()
        });
        let in_heap = self.far_events.peek().map(|Reverse((window, ..))| *window);
        in_ring.into_iter().chain(in_heap).min()
    }

    /// Advances to a later window. There must be no active window in between.
    pub(crate) fn advance_to(&mut self, window: u64) {
        debug_assert!(window > self.window && self.next_active_window().is_none_or(|next| next >= window));
        self.window = window;
        while let Some(Reverse((window, node, arrival))) = self.far_events.peek().copied() {
            if window >= self.window + SLOTS as u64 {
                break;
            }
            self.far_events.pop();
            if arrival == WAKE_ONLY {
                self.earliest_far_wake[node.index()] = u64::MAX;
            }
            self.insert(window, node, arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: NodeId = NodeId::new(0);

    fn schedule(calendar: &mut Calendar, node: NodeId, port: u32, ps: u64, packet: u32, is_control: bool) {
        let (port, packet) = (PortId::new(port), PacketId::new(packet));
        calendar.schedule_arrival(node, port, Picos::new(ps), packet, is_control);
    }

    #[test]
    fn arrivals_are_sorted_by_time_and_port_within_their_window() {
        let rack = NodeId::new(1);
        let mut calendar = Calendar::new(2, 1, Picos::new(1_000), Picos::MAX);
        assert_eq!(calendar.window_end(), Picos::new(512));
        schedule(&mut calendar, SWITCH, 3, 700, 1, false);
        schedule(&mut calendar, SWITCH, 1, 700, 2, false);
        schedule(&mut calendar, SWITCH, 1, 700, 5, true);
        schedule(&mut calendar, SWITCH, 1, 600, 3, false);
        schedule(&mut calendar, rack, 0, 1_000_000, 4, false);
        assert_eq!(calendar.next_active_window(), Some(1));
        calendar.advance_to(1);
        assert_eq!(calendar.window_start(), Picos::new(512));
        assert_eq!(calendar.take_active(NodeKind::Switch), [SWITCH]);
        let batch = calendar.take_batch(SWITCH);
        let seen: Vec<_> = batch.iter().map(|a| (a.offset(), a.port().get(), a.packet().get())).collect();
        assert_eq!(seen, [(88, 1, 3), (188, 1, 5), (188, 1, 2), (188, 3, 1)]);
        let far = calendar.next_active_window().expect("the rack has an arrival");
        calendar.advance_to(far);
        assert_eq!(calendar.window_start(), Picos::new(1_000_000 / 512 * 512));
        assert_eq!(calendar.take_active(NodeKind::Rack), [rack]);
        assert_eq!(calendar.take_batch(rack).len(), 1);
        assert_eq!(calendar.next_active_window(), None);
    }

    #[test]
    fn node_is_active_once_per_window() {
        let mut calendar = Calendar::new(1, 1, Picos::new(1_024), Picos::MAX);
        calendar.schedule_visit(SWITCH, Picos::new(2_000));
        calendar.schedule_visit(SWITCH, Picos::new(2_001));
        schedule(&mut calendar, SWITCH, 0, 2_002, 7, false);
        calendar.advance_to(1);
        assert_eq!(calendar.take_active(NodeKind::Switch), [SWITCH]);
        assert_eq!(calendar.take_batch(SWITCH).len(), 1);
    }
}
