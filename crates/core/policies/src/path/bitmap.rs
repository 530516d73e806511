//! All paths in turn, without those that were congested.

use super::oblivious::Round;
use super::{Feedback, MAX_PATHS, NextPacket, Outcome, PathPolicy, is_path_count};
use poseidon_types::params::params;

params! {
    /// Uses the paths in turn, but skips a path once for each penalty point. A mark adds one point, a trimmed packet
    /// four and a timeout fifteen.
    #[derive(Copy, Eq)]
    pub struct Bitmap {
        /// Number of paths, a power of two up to 256 (uet-htsim's `-paths`).
        paths: u32 = 64,
    }
    presets {}
    check {
        paths: "a power of two, at most 256", |p| is_path_count(p.paths);
    }
}

/// The largest penalty of a path.
const MAX_PENALTY: u8 = 15;
/// The number of bytes that hold the penalties, with four bits for each path.
const BYTES: usize = MAX_PATHS as usize / 2;

/// The penalties of the paths and the position in the round.
#[derive(Clone, Debug, PartialEq)]
pub struct Penalties {
    round: Round,
    /// Four bits for each path.
    penalties: [u8; BYTES],
}

impl Default for Penalties {
    fn default() -> Self {
        Self { round: Round::default(), penalties: [0; BYTES] }
    }
}

impl Penalties {
    /// Returns a path's penalty.
    fn penalty(&self, path: u32) -> u8 {
        let byte = self.penalties.get(path as usize / 2).copied().unwrap_or(0);
        byte >> (path % 2 * 4) & MAX_PENALTY
    }

    fn set_penalty(&mut self, path: u32, penalty: u8) {
        let shift = path % 2 * 4;
        if let Some(byte) = self.penalties.get_mut(path as usize / 2) {
            *byte = *byte & !(MAX_PENALTY << shift) | penalty << shift;
        }
    }
}

impl PathPolicy for Bitmap {
    const NAME: &'static str = "bitmap";
    const SOURCE: &'static str = "uet-htsim, `UecMpBitmap`";
    type State = Penalties;

    fn choose(&self, state: &mut Penalties, packet: &NextPacket) -> u32 {
        state.round.start(packet, self.paths);
        let mut path = state.round.path(self.paths);
        // A packet pays only for the first path that it skips.
        let penalty = state.penalty(path);
        state.set_penalty(path, penalty.saturating_sub(1));
        let mut is_skipped = penalty > 0;
        let mut skips = 0;
        while is_skipped && skips < self.paths {
            skips += 1;
            state.round.advance(packet, skips, self.paths);
            path = state.round.path(self.paths);
            is_skipped = state.penalty(path) > 0;
        }
        state.round.advance(packet, 0, self.paths);
        packet.ev(path, self.paths)
    }

    fn on_feedback(&self, state: &mut Penalties, feedback: &Feedback) {
        let points = match feedback.outcome {
            Outcome::Good => return,
            Outcome::Marked => 1,
            Outcome::Trimmed => 4,
            Outcome::TimedOut => MAX_PENALTY,
        };
        // The path of a timeout is unknown.
        let Some(ev) = feedback.ev else { return };
        let path = ev & (self.paths - 1);
        state.set_penalty(path, (state.penalty(path) + points).min(MAX_PENALTY));
    }
}
