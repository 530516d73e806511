//! Time in windows: which node has something to do in which window, and the packets that arrive there.
//!
//! A window is a power of two of picoseconds, at most the smallest delay into a switch, so that a packet sent in one
//! window reaches a switch only in a later one. Racks of hosts are visited after the switches, because a switch may
//! reach a host within its own window; what a host sends arrives at its switch only later.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Windows that are held in the ring; later ones wait in a heap.
const SLOTS: usize = 32;
/// A window has at most this many bits of picoseconds, so that an arrival is its own sort key in 64 bits.
const MOST_BITS: u32 = 19;
/// How many arrivals of a batch are brought into the cache together, when the first of them is due.
pub(crate) const AT_ONCE: usize = 32;
/// Ports that a node may have.
pub(crate) const MOST_PORTS: u32 = 1 << 12;

/// An arrival: time within the window, port, whether it is flow control, packet. Sorting these sorts by all of them in turn, which
/// is a total order before it comes to the packet: a link delivers at most one packet at a time, but flow control does not pass the
/// pipeline and may arrive together with one that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival(u64);

impl Arrival {
    const fn new(offset: u64, port: u32, is_control: bool, packet: u32) -> Self {
        Self((offset << 45) | ((port as u64) << 33) | ((!is_control as u64) << 32) | packet as u64)
    }

    pub(crate) const fn offset(self) -> u64 {
        self.0 >> 45
    }

    pub(crate) const fn port(self) -> u32 {
        (self.0 >> 33 & (MOST_PORTS as u64 - 1)) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "the packet is the low half")]
    pub(crate) const fn packet(self) -> u32 {
        self.0 as u32
    }
}

/// Wakes a node without an arrival.
const NOTHING: Arrival = Arrival(u64::MAX);

/// The slot of a window.
#[inline]
fn slot(window: u64) -> usize {
    usize::try_from(window % SLOTS as u64).unwrap_or(0)
}

/// Who has something to do when.
#[derive(Debug)]
pub(crate) struct Calendar {
    bits: u32,
    window: u64,
    stop: u64,
    nodes: usize,
    /// Nodes below this are switches.
    switches: u32,
    /// Arrivals by slot and node.
    batches: Vec<Vec<Arrival>>,
    /// Batches that have been handled, the warmest on top.
    spare: Vec<Vec<Arrival>>,
    /// Per node, the slots in which it is listed.
    listed: Vec<u32>,
    lists: [[Vec<u32>; 2]; SLOTS],
    later: BinaryHeap<Reverse<(u64, u32, Arrival)>>,
    /// Per node, the earliest window of its calls in the heap.
    called: Vec<u64>,
}

impl Calendar {
    /// For `nodes` nodes, of which the first `switches` are switches, and windows of at most `shortest` picoseconds.
    /// Nothing happens from `stop` on.
    pub(crate) fn new(nodes: u32, switches: u32, shortest: u64, stop: u64) -> Self {
        let nodes = nodes as usize;
        Self {
            bits: Self::window_length(shortest).ilog2(),
            window: 0,
            stop,
            nodes,
            switches,
            batches: vec![Vec::new(); SLOTS * nodes],
            listed: vec![0; nodes],
            lists: core::array::from_fn(|_| [Vec::new(), Vec::new()]),
            later: BinaryHeap::new(),
            spare: Vec::new(),
            called: vec![u64::MAX; nodes],
        }
    }

    /// How long windows are where nothing reaches a switch sooner than `shortest`.
    pub(crate) fn window_length(shortest: u64) -> u64 {
        1 << shortest.max(1).ilog2().min(MOST_BITS)
    }

    /// When the present window begins.
    pub(crate) const fn begins(&self) -> u64 {
        self.window << self.bits
    }

    /// When it ends: the first instant that is not in it, or in which nothing happens any more.
    pub(crate) const fn ends(&self) -> u64 {
        let end = (self.window + 1) << self.bits;
        if end < self.stop { end } else { self.stop }
    }

    /// A packet reaches a port of a node at `time`.
    #[inline]
    pub(crate) fn arrive(&mut self, node: u32, port: u32, time: u64, packet: u32, is_control: bool) {
        let window = time >> self.bits;
        // The rule that the whole engine rests on: nobody reaches a switch within the window.
        assert!(
            window > self.window || (window == self.window && node >= self.switches),
            "a packet out of order"
        );
        let offset = time & ((1 << self.bits) - 1);
        self.put(window, node, Arrival::new(offset, port, is_control, packet));
    }

    /// A node wants to be visited in the window of `time`.
    #[inline]
    pub(crate) fn wake(&mut self, node: u32, time: u64) {
        let window = time >> self.bits;
        if window >= self.window + SLOTS as u64 {
            // One call is enough: the node calls again when it is visited.
            if self.called[node as usize] <= window {
                return;
            }
            self.called[node as usize] = window;
        }
        self.put(window, node, NOTHING);
    }

    #[inline]
    fn put(&mut self, window: u64, node: u32, arrival: Arrival) {
        if window >= self.window + SLOTS as u64 {
            self.later.push(Reverse((window, node, arrival)));
            return;
        }
        let slot = slot(window);
        let listed = &mut self.listed[node as usize];
        if *listed & (1 << slot) == 0 {
            *listed |= 1 << slot;
            self.lists[slot][usize::from(node >= self.switches)].push(node);
        }
        if arrival != NOTHING {
            let batch = &mut self.batches[slot * self.nodes + node as usize];
            if batch.capacity() == 0 {
                *batch = self.spare.pop().unwrap_or_default();
            }
            batch.push(arrival);
        }
    }

    /// Takes the switches (or the racks) that have something to do in this window.
    pub(crate) fn take_list(&mut self, racks: bool) -> Vec<u32> {
        core::mem::take(&mut self.lists[slot(self.window)][usize::from(racks)])
    }

    /// Gives a list back empty, so that its memory is used again.
    pub(crate) fn give_back_list(&mut self, racks: bool, mut list: Vec<u32>) {
        list.clear();
        let slot = slot(self.window);
        if self.lists[slot][usize::from(racks)].is_empty() {
            self.lists[slot][usize::from(racks)] = list;
        }
    }

    /// Takes a node's arrivals of this window, in order of time and port.
    pub(crate) fn take_batch(&mut self, node: u32) -> Vec<Arrival> {
        let slot = slot(self.window);
        self.listed[node as usize] &= !(1 << slot);
        let mut batch = core::mem::take(&mut self.batches[slot * self.nodes + node as usize]);
        batch.sort_unstable();
        batch
    }

    /// Gives a batch back empty, for the next node that needs one.
    pub(crate) fn give_back_batch(&mut self, mut batch: Vec<Arrival>) {
        if batch.capacity() > 0 {
            batch.clear();
            self.spare.push(batch);
        }
    }

    /// The window of an instant.
    pub(crate) const fn window_of(&self, time: u64) -> u64 {
        time >> self.bits
    }

    /// The next window in which anybody here has something to do.
    pub(crate) fn next(&self) -> Option<u64> {
        let in_ring = (1..SLOTS as u64).map(|ahead| self.window + ahead).find(|window| {
            let lists = &self.lists[slot(*window)];
            !lists[0].is_empty() || !lists[1].is_empty()
        });
        let in_heap = self.later.peek().map(|Reverse((window, ..))| *window);
        in_ring.into_iter().chain(in_heap).min()
    }

    /// Moves on to a later window; nothing may be left to do before it.
    pub(crate) fn advance_to(&mut self, window: u64) {
        debug_assert!(window > self.window && self.next().is_none_or(|next| next >= window));
        self.window = window;
        while let Some(Reverse((window, node, arrival))) = self.later.peek().copied() {
            if window >= self.window + SLOTS as u64 {
                break;
            }
            self.later.pop();
            if arrival == NOTHING {
                self.called[node as usize] = u64::MAX;
            }
            self.put(window, node, arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_in_order_of_time_and_port_and_in_their_window() {
        let mut calendar = Calendar::new(2, 1, 1_000, u64::MAX);
        assert_eq!(calendar.ends(), 512);
        calendar.arrive(0, 3, 700, 1, false);
        calendar.arrive(0, 1, 700, 2, false);
        calendar.arrive(0, 1, 700, 5, true);
        calendar.arrive(0, 1, 600, 3, false);
        calendar.arrive(1, 0, 1_000_000, 4, false);
        assert_eq!(calendar.next(), Some(1));
        calendar.advance_to(1);
        assert_eq!((calendar.begins(), calendar.take_list(false)), (512, vec![0]));
        let batch = calendar.take_batch(0);
        let seen: Vec<_> = batch.iter().map(|a| (a.offset(), a.port(), a.packet())).collect();
        assert_eq!(seen, [(88, 1, 3), (188, 1, 5), (188, 1, 2), (188, 3, 1)]);
        let far = calendar.next().expect("the far arrival");
        calendar.advance_to(far);
        assert_eq!((calendar.begins(), calendar.take_list(true)), (1_000_000 / 512 * 512, vec![1]));
        assert_eq!(calendar.take_batch(1).len(), 1);
        assert_eq!(calendar.next(), None);
    }

    #[test]
    fn a_node_is_listed_once_per_window() {
        let mut calendar = Calendar::new(1, 1, 1_024, u64::MAX);
        calendar.wake(0, 2_000);
        calendar.wake(0, 2_001);
        calendar.arrive(0, 0, 2_002, 7, false);
        calendar.advance_to(1);
        assert_eq!(calendar.take_list(false), [0]);
        assert_eq!(calendar.take_batch(0).len(), 1);
    }
}
