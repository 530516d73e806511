//! Paths whose packets arrived unmarked first, then all paths in turn.

use super::bitmap::{Bitmap, Penalties};
use super::ev_fifo::PathFifo;
use super::{Feedback, NextPacket, Outcome, PathPolicy, is_path_count, to_byte};
use poseidon_types::params::params;

params! {
    /// Reuses the path of each unmarked ACK once, in order. If none is left, uses the paths in turn, without those that
    /// have penalty points (`bitmap`).
    #[derive(Copy, Eq)]
    pub struct Mixed {
        /// Number of paths, a power of two up to 256 (uet-htsim's `-paths`).
        paths: u32 = 64,
    }
    presets {}
    check {
        paths: "a power of two, at most 256", |p| is_path_count(p.paths);
    }
}

/// The remembered paths and the penalties of all paths.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RecycledAndPenalties {
    good: PathFifo,
    penalties: Penalties,
}

impl PathPolicy for Mixed {
    const NAME: &'static str = "mixed";
    const SOURCE: &'static str = "uet-htsim, `UecMpMixed`, its default, with at most 256 remembered paths";
    type State = RecycledAndPenalties;

    fn choose(&self, state: &mut RecycledAndPenalties, packet: &NextPacket) -> u32 {
        match state.good.pop() {
            Some(path) => packet.ev(u32::from(path), self.paths),
            None => Bitmap { paths: self.paths }.choose(&mut state.penalties, packet),
        }
    }

    fn on_feedback(&self, state: &mut RecycledAndPenalties, feedback: &Feedback) {
        Bitmap { paths: self.paths }.on_feedback(&mut state.penalties, feedback);
        if let (Outcome::Good, Some(ev)) = (feedback.outcome, feedback.ev) {
            state.good.push(to_byte(ev & (self.paths - 1)));
        }
    }
}
