//! The exchange between shards at the end of each window: shards transfer packets and result rows, and choose
//! the next window.
//!
//! A packet never reaches a switch in the window in which it was sent, and a rack is always in the same shard
//! as its switch. Shards therefore need to synchronize only between windows. They exchange packets and agree
//! on the earliest window in which any shard is active. The packet order does not matter because every node
//! sorts its arrivals.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use poseidon_plan::records::MemorySink;
use std::sync::Mutex;

use crate::hop_records::CacheLine;
use crate::packet::Packet;
use crate::rows;

/// Packets to transfer from one shard to another.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) packets: Vec<Packet>,
    /// The hop records of all packets that have records, in packet order.
    pub(crate) records: Vec<CacheLine>,
    /// The bytes of all datagrams, in packet order.
    pub(crate) datagrams: Vec<u8>,
}

impl Outbox {
    /// Moves the contents of `other` into `self`. If `self` is empty, swaps the two instead of copying.
    pub(crate) fn append(&mut self, other: &mut Self) {
        if self.packets.is_empty() && self.records.is_empty() {
            core::mem::swap(self, other);
            return;
        }
        self.packets.append(&mut other.packets);
        self.records.append(&mut other.records);
        self.datagrams.append(&mut other.datagrams);
    }

    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.records.clear();
        self.datagrams.clear();
    }
}

/// The window number of a shard that has no further events.
pub(crate) const NEVER: u64 = u64::MAX;

/// The next step of a run: either one shard's proposal or the step that all shards agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextStep {
    /// The next active window, or [`NEVER`].
    pub(crate) window: u64,
    /// Whether to interrupt the run. Only the first shard may request this.
    pub(crate) interrupt: bool,
}

/// Synchronizes shards between windows.
pub(crate) trait Exchange {
    /// Returns this shard's index.
    fn shard(&self) -> u32;

    /// Called before each exchange, with the number of packet-hops of this shard since the start.
    fn on_window_done(&mut self, _packet_hops: u64) {}

    /// Sends `outboxes`, which are indexed by receiving shard, and appends packets from other shards to
    /// `inbox`. Moves all rows to the first shard. Returns the step that all shards agree on.
    fn exchange(
        &mut self,
        outboxes: &mut [Outbox],
        inbox: &mut Outbox,
        rows: &mut MemorySink,
        proposal: NextStep,
    ) -> NextStep;
}

/// The exchange for a single-shard run, which needs no synchronization.
#[derive(Debug)]
pub(crate) struct SingleShard;

impl Exchange for SingleShard {
    fn shard(&self) -> u32 {
        0
    }

    fn exchange(
        &mut self,
        _: &mut [Outbox],
        _: &mut Outbox,
        _: &mut MemorySink,
        proposal: NextStep,
    ) -> NextStep {
        proposal
    }
}

/// The number of spin iterations before a waiting thread yields. If there are more threads than cores, a
/// waiting thread yields immediately, because the thread it waits for may not be running.
const SPINS: u32 = 2_000;

/// The barrier between windows, including the buffers through which threads exchange data.
#[derive(Debug)]
pub(crate) struct WindowBarrier {
    shards: usize,
    spins: u32,
    /// Outboxes, indexed by round parity, sender and receiver.
    outboxes: Vec<Mutex<Outbox>>,
    /// Rows, indexed by round parity and shard.
    rows: Vec<Mutex<MemorySink>>,
    /// Proposed windows, indexed by round parity and shard.
    windows: Vec<AtomicU64>,
    /// Whether the first shard interrupts the run, indexed by round parity.
    interrupt: [AtomicBool; 2],
    waiting: AtomicUsize,
    round: AtomicUsize,
    has_panicked: AtomicBool,
}

/// One thread's handle for exchanging data with the other threads.
#[derive(Debug)]
pub(crate) struct ThreadExchange<'a> {
    barrier: &'a WindowBarrier,
    shard: usize,
    /// The number of exchanges so far. Rounds alternate between two sets of buffers, so one barrier per round
    /// is sufficient.
    round: usize,
}

impl WindowBarrier {
    pub(crate) fn new(shards: u32) -> Self {
        let shards = shards as usize;
        let cores = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self {
            shards,
            spins: if shards > cores { 0 } else { SPINS },
            outboxes: (0..2 * shards * shards).map(|_| Mutex::default()).collect(),
            rows: (0..2 * shards).map(|_| Mutex::default()).collect(),
            windows: (0..2 * shards).map(|_| AtomicU64::new(NEVER)).collect(),
            interrupt: [AtomicBool::new(false), AtomicBool::new(false)],
            waiting: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            has_panicked: AtomicBool::new(false),
        }
    }

    /// Returns a shard's exchange handle. Each shard needs exactly one handle.
    pub(crate) const fn join(&self, shard: u32) -> ThreadExchange<'_> {
        ThreadExchange { barrier: self, shard: shard as usize, round: 0 }
    }

    /// Waits until all shards have reached the barrier.
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.shards {
            self.waiting.store(0, Ordering::Release);
            self.round.store(round + 1, Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.has_panicked.load(Ordering::Acquire), "another thread of the run has panicked");
            spins += 1;
            if spins < self.spins {
                core::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Exchange for ThreadExchange<'_> {
    fn shard(&self) -> u32 {
        u32::try_from(self.shard).unwrap_or(0)
    }

    fn exchange(
        &mut self,
        outboxes: &mut [Outbox],
        inbox: &mut Outbox,
        rows: &mut MemorySink,
        proposal: NextStep,
    ) -> NextStep {
        const NOT_POISONED: &str = "no thread panics while it holds the lock";
        let (barrier, shard, parity) = (self.barrier, self.shard, self.round % 2);
        self.round += 1;
        let shared_outbox = |from: usize, to: usize| {
            &barrier.outboxes[(parity * barrier.shards + from) * barrier.shards + to]
        };
        for (to, outbox) in outboxes.iter_mut().enumerate().filter(|(_, outbox)| !outbox.packets.is_empty()) {
            shared_outbox(shard, to).lock().expect(NOT_POISONED).append(outbox);
        }
        if shard == 0 {
            barrier.interrupt[parity].store(proposal.interrupt, Ordering::Release);
        } else if !rows::is_empty(rows) {
            let mut shared_rows = barrier.rows[parity * barrier.shards + shard].lock().expect(NOT_POISONED);
            rows::append(&mut shared_rows, rows);
        }
        barrier.windows[parity * barrier.shards + shard].store(proposal.window, Ordering::Release);
        barrier.wait();
        for from in (0..barrier.shards).filter(|from| *from != shard) {
            inbox.append(&mut shared_outbox(from, shard).lock().expect(NOT_POISONED));
            if shard == 0 {
                let mut shared_rows =
                    barrier.rows[parity * barrier.shards + from].lock().expect(NOT_POISONED);
                rows::append(rows, &mut shared_rows);
            }
        }
        let windows = &barrier.windows[parity * barrier.shards..(parity + 1) * barrier.shards];
        NextStep {
            window: windows.iter().map(|window| window.load(Ordering::Acquire)).min().unwrap_or(NEVER),
            interrupt: barrier.interrupt[parity].load(Ordering::Acquire),
        }
    }
}

impl Drop for ThreadExchange<'_> {
    /// Reports a panic in this thread so that the other threads do not wait forever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.barrier.has_panicked.store(true, Ordering::Release);
        }
    }
}
