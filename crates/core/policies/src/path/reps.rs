//! REPS: paths whose packets arrived unmarked are used again.

use super::{Feedback, NextPacket, Outcome, PathPolicy, is_path_count, to_byte};
use poseidon_types::params::params;
use poseidon_types::{Nanos, Picos};

params! {
    /// Reuses the path of each unmarked ACK once, and otherwise takes a random path. After a timeout, the policy
    /// freezes: it reuses only paths that worked before.
    #[derive(Copy, Eq)]
    pub struct Reps {
        /// Number of paths, a power of two up to 256 (uet-htsim's `-paths`).
        paths: u32 = 64,
        /// Time for which the policy stays frozen after a timeout (uet-htsim's `exit_freeze_after`).
        freeze: Nanos = Nanos::from_millis(10),
    }
    presets {}
    check {
        paths: "a power of two, at most 256", |p| is_path_count(p.paths);
    }
}

/// The number of paths that a connection remembers (REPS section 3, uet-htsim's `repsBufferSize`).
const SLOTS: u8 = 8;
/// The number of random paths after the end of a freeze.
const EXPLORED: u8 = 16;

/// The ring of remembered paths.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Ring {
    /// The end of the freeze, or `None` if the policy is not frozen.
    frozen_until: Option<Picos>,
    paths: [u8; SLOTS as usize],
    /// A bit for each slot whose path has not been reused.
    fresh: u8,
    /// The next slot to write.
    head: u8,
    /// The number of slots that contain a path.
    len: u8,
    /// The next slot to read during a freeze.
    frozen_head: u8,
    /// The number of random paths still to take.
    explore: u8,
}

/// Returns the slot after `slot` in a ring of `len` slots.
const fn next_slot(slot: u8, len: u8) -> u8 {
    if slot + 1 >= len { 0 } else { slot + 1 }
}

impl Ring {
    fn push(&mut self, path: u8) {
        if let Some(slot) = self.paths.get_mut(usize::from(self.head)) {
            *slot = path;
        }
        self.fresh |= 1 << self.head;
        self.head = next_slot(self.head, SLOTS);
        self.len = (self.len + 1).min(SLOTS);
    }

    fn take(&mut self, slot: u8) -> u8 {
        self.fresh &= !(1 << slot);
        self.paths.get(usize::from(slot)).copied().unwrap_or(0)
    }

    /// Removes and returns the oldest path that has not been reused.
    fn take_oldest_fresh(&mut self) -> u8 {
        let fresh = to_byte(self.fresh.count_ones());
        self.take((self.head + SLOTS - fresh) % SLOTS)
    }

    /// Returns the next remembered path during a freeze.
    fn take_frozen(&mut self) -> u8 {
        let path = self.take(self.frozen_head);
        self.frozen_head = next_slot(self.frozen_head, self.len);
        path
    }
}

impl PathPolicy for Reps {
    const NAME: &'static str = "reps";
    const SOURCE: &'static str = "Bonato et al., REPS (arXiv 2407.21625v6); uet-htsim, `UecMpReps`";
    type State = Ring;

    fn choose(&self, ring: &mut Ring, packet: &NextPacket) -> u32 {
        let path = if ring.explore > 0 {
            ring.explore -= 1;
            packet.random_path(self.paths)
        } else if ring.frozen_until.is_some() && ring.len > 0 {
            u32::from(ring.take_frozen())
        } else if ring.frozen_until.is_none() && ring.fresh != 0 {
            u32::from(ring.take_oldest_fresh())
        } else {
            packet.random_path(self.paths)
        };
        packet.ev(path, self.paths)
    }

    fn on_feedback(&self, ring: &mut Ring, feedback: &Feedback) {
        if feedback.outcome == Outcome::TimedOut && ring.frozen_until.is_none() && ring.explore == 0 {
            ring.frozen_until = Some(feedback.now + Picos::from_nanos(self.freeze));
        }
        if ring.frozen_until.is_some_and(|until| feedback.now > until) {
            *ring = Ring { explore: EXPLORED, ..Ring::default() };
        }
        if let (Outcome::Good, Some(ev)) = (feedback.outcome, feedback.ev) {
            ring.push(to_byte(ev & (self.paths - 1)));
        }
    }
}
