//! Between shards: what one shard's nodes send to another's, once per window.
//!
//! Nobody reaches a switch within the window, and a rack is always in the shard of its switch, so shards need to meet only
//! between windows: each hands over its mail and its rows and says when it next has something to do, and all go on to the
//! earliest. The order of mail does not matter, because every node sorts its arrivals.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use poseidon_plan::records::Kept;
use std::sync::Mutex;

use crate::packet::Packet;
use crate::rows;
use crate::side::Line;

/// Packets on their way to nodes of another shard, and the sides of those that have one, in the same order.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub(crate) packets: Vec<Packet>,
    pub(crate) sides: Vec<Line>,
}

impl Mail {
    /// Takes everything out of `other`. Where nothing is here yet, the two change places and no packet is copied.
    pub(crate) fn append(&mut self, other: &mut Self) {
        if self.packets.is_empty() && self.sides.is_empty() {
            core::mem::swap(self, other);
            return;
        }
        self.packets.append(&mut other.packets);
        self.sides.append(&mut other.sides);
    }

    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.sides.clear();
    }
}

/// When a shard has nothing more to do.
pub(crate) const NEVER: u64 = u64::MAX;

/// What shards agree on when they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The earliest window in which any of them has something to do.
    pub(crate) next: u64,
    /// The first of them wants to break off.
    pub(crate) break_off: bool,
}

/// How the shards of a run meet.
pub(crate) trait Exchange {
    /// Which shard this is.
    fn shard(&self) -> u32;

    /// Hands over `outbox` (by receiver) and what this shard wants; fills `inbox` with the mail for it. The rows of all shards end up
    /// with the first.
    fn meet(&mut self, outbox: &mut [Mail], inbox: &mut Mail, rows: &mut Kept, wants: Agreed) -> Agreed;
}

/// A run in one piece.
#[derive(Debug)]
pub(crate) struct Alone;

impl Exchange for Alone {
    fn shard(&self) -> u32 {
        0
    }

    fn meet(&mut self, _: &mut [Mail], _: &mut Mail, _: &mut Kept, wants: Agreed) -> Agreed {
        wants
    }
}

/// Rounds of spinning before a waiting thread lets others run; none where there are more threads than cores, because then the one
/// that is waited for may not be running.
const SPINS: u32 = 2_000;

/// Where threads meet.
#[derive(Debug)]
pub(crate) struct MeetingPoint {
    shards: usize,
    spins: u32,
    /// By parity of the round, sender and receiver.
    mail: Vec<Mutex<Mail>>,
    /// By parity of the round and shard.
    rows: Vec<Mutex<Kept>>,
    next: Vec<AtomicU64>,
    /// By parity of the round: what the first shard wants.
    break_off: [AtomicBool; 2],
    arrived: AtomicUsize,
    round: AtomicUsize,
    failed: AtomicBool,
}

/// One thread's way to the others.
#[derive(Debug)]
pub(crate) struct Threads<'a> {
    point: &'a MeetingPoint,
    shard: usize,
    /// How often they have met: what is used in one round is free again in the one after the next, so one barrier is enough.
    round: usize,
}

impl MeetingPoint {
    pub(crate) fn new(shards: u32) -> Self {
        let shards = shards as usize;
        let cores = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self {
            shards,
            spins: if shards > cores { 0 } else { SPINS },
            mail: (0..2 * shards * shards).map(|_| Mutex::default()).collect(),
            rows: (0..2 * shards).map(|_| Mutex::default()).collect(),
            next: (0..2 * shards).map(|_| AtomicU64::new(NEVER)).collect(),
            break_off: [AtomicBool::new(false), AtomicBool::new(false)],
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    pub(crate) const fn join(&self, shard: u32) -> Threads<'_> {
        Threads { point: self, shard: shard as usize, round: 0 }
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
            if spins < self.spins {
                core::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Exchange for Threads<'_> {
    fn shard(&self) -> u32 {
        u32::try_from(self.shard).unwrap_or(0)
    }

    fn meet(&mut self, outbox: &mut [Mail], inbox: &mut Mail, rows: &mut Kept, wants: Agreed) -> Agreed {
        const HELD: &str = "no thread fails with it";
        let (point, shard, parity) = (self.point, self.shard, self.round % 2);
        self.round += 1;
        let slot = |from: usize, to: usize| &point.mail[(parity * point.shards + from) * point.shards + to];
        for (to, mail) in outbox.iter_mut().enumerate().filter(|(_, mail)| !mail.packets.is_empty()) {
            slot(shard, to).lock().expect(HELD).append(mail);
        }
        if shard == 0 {
            point.break_off[parity].store(wants.break_off, Ordering::Release);
        } else if !rows::is_empty(rows) {
            rows::append(&mut point.rows[parity * point.shards + shard].lock().expect(HELD), rows);
        }
        point.next[parity * point.shards + shard].store(wants.next, Ordering::Release);
        point.wait();
        for from in (0..point.shards).filter(|from| *from != shard) {
            inbox.append(&mut slot(from, shard).lock().expect(HELD));
            if shard == 0 {
                rows::append(rows, &mut point.rows[parity * point.shards + from].lock().expect(HELD));
            }
        }
        let all = &point.next[parity * point.shards..(parity + 1) * point.shards];
        Agreed {
            next: all.iter().map(|next| next.load(Ordering::Acquire)).min().unwrap_or(NEVER),
            break_off: point.break_off[parity].load(Ordering::Acquire),
        }
    }
}

impl Drop for Threads<'_> {
    /// A thread that fails says so, or the others would wait for it for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.point.failed.store(true, Ordering::Release);
        }
    }
}
