//! The first version of REPS, which remembers all paths whose packets arrived unmarked.

use super::ev_fifo::PathFifo;
use super::{Feedback, NextPacket, Outcome, PathPolicy, is_path_count, to_byte};
use poseidon_types::params::params;

params! {
    /// Uses all paths once during the first window. Afterwards, reuses the path of each unmarked ACK once, in order, and
    /// takes a random path if none is left.
    #[derive(Copy, Eq)]
    pub struct RepsLegacy {
        /// Number of paths, a power of two up to 256 (uet-htsim's `-paths`).
        paths: u32 = 64,
    }
    presets {}
    check {
        paths: "a power of two, at most 256", |p| is_path_count(p.paths);
    }
}

/// The remembered paths.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Recycled {
    /// The path of the latest packet.
    latest: u32,
    good: PathFifo,
}

impl PathPolicy for RepsLegacy {
    const NAME: &'static str = "reps-legacy";
    const SOURCE: &'static str = "uet-htsim, `UecMpRepsLegacy`, with at most 256 remembered paths";
    type State = Recycled;

    fn choose(&self, state: &mut Recycled, packet: &NextPacket) -> u32 {
        state.latest = if packet.sent < packet.window.min(self.paths) {
            (state.latest + 1) & (self.paths - 1)
        } else {
            state.good.pop().map_or_else(|| packet.random_path(self.paths), u32::from)
        };
        packet.ev(state.latest, self.paths)
    }

    fn on_feedback(&self, state: &mut Recycled, feedback: &Feedback) {
        if let (Outcome::Good, Some(ev)) = (feedback.outcome, feedback.ev) {
            state.good.push(to_byte(ev & (self.paths - 1)));
        }
    }
}
