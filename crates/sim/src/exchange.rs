//! Between shards: what one shard's nodes send to another's, once per window.
//!
//! Nobody reaches a switch within the window, and a rack is always in the shard of its switch, so shards need to meet only
//! between windows: each hands over its mail and says when it next has something to do, and all go on to the earliest. The
//! order of mail does not matter, because every node sorts its arrivals.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

use poseidon_types::HopStack;

use crate::packet::Packet;

/// A packet on its way to a node of another shard.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    pub(crate) node: u32,
    pub(crate) port: u32,
    pub(crate) time: u64,
    pub(crate) packet: Packet,
    pub(crate) records: Option<Box<HopStack>>,
}

/// When a shard has nothing more to do.
pub(crate) const NEVER: u64 = u64::MAX;

/// Rounds of spinning before a waiting thread lets others run.
const SPINS: u32 = 2_000;

/// Where shards meet.
#[derive(Debug)]
pub(crate) struct Exchange {
    shards: usize,
    /// By parity of the round, sender and receiver.
    mail: Vec<Mutex<Vec<Mail>>>,
    /// By parity of the round and shard.
    next: Vec<AtomicU64>,
    arrived: AtomicUsize,
    round: AtomicUsize,
    failed: AtomicBool,
}

impl Exchange {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            shards,
            mail: (0..2 * shards * shards).map(|_| Mutex::new(Vec::new())).collect(),
            next: (0..2 * shards).map(|_| AtomicU64::new(NEVER)).collect(),
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Hands over `outbox` (by receiver) and the window in which this shard next has something to do; gives the mail for this
    /// shard and the earliest window of all. `round` counts the meetings: what is used in one is free again in the one
    /// after the next, so one barrier is enough.
    pub(crate) fn meet(
        &self,
        shard: usize,
        round: usize,
        outbox: &mut [Vec<Mail>],
        next: u64,
    ) -> (Vec<Mail>, u64) {
        if self.shards == 1 {
            return (Vec::new(), next);
        }
        let parity = round % 2;
        let slot = |from: usize, to: usize| &self.mail[(parity * self.shards + from) * self.shards + to];
        for (to, letters) in outbox.iter_mut().enumerate().filter(|(_, letters)| !letters.is_empty()) {
            slot(shard, to).lock().expect("no thread fails with it").append(letters);
        }
        self.next[parity * self.shards + shard].store(next, Ordering::Release);
        self.wait();
        let mut inbox = Vec::new();
        for from in 0..self.shards {
            inbox.append(&mut slot(from, shard).lock().expect("no thread fails with it"));
        }
        let all = &self.next[parity * self.shards..(parity + 1) * self.shards];
        let earliest = all.iter().map(|next| next.load(Ordering::Acquire)).min().unwrap_or(NEVER);
        (inbox, earliest)
    }

    /// A thread that fails says so, or the others would wait for it for ever.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Waits until all shards have come.
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.shards {
            self.arrived.store(0, Ordering::Release);
            self.round.store(round + 1, Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.failed.load(Ordering::Acquire), "another thread of the run has failed");
            spins += 1;
            if spins < SPINS {
                core::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}
