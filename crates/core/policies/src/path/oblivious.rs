//! All paths in turn, in an order that changes after each round.

use super::{NextPacket, PathPolicy, RANDOM_ORDER, is_path_count, low32};
use poseidon_types::params::params;

params! {
    /// Uses every path once per round. The order of a round is a random permutation.
    #[derive(Copy, Eq)]
    pub struct Oblivious {
        /// Number of paths, a power of two up to 256 (uet-htsim's `-paths`).
        paths: u32 = 64,
    }
    presets {}
    check {
        paths: "a power of two, at most 256", |p| is_path_count(p.paths);
    }
}

/// The position in the current round of paths.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Round {
    /// The position of the next packet, or `None` before the first packet.
    position: Option<u32>,
    /// The permutation of this round: the path at a position is the position XOR this number.
    order: u32,
}

impl Round {
    /// Starts the first round.
    pub(super) fn start(&mut self, packet: &NextPacket, paths: u32) {
        if self.position.is_none() {
            *self = Self { position: Some(0), order: draw_order(packet, 0, paths) };
        }
    }

    /// Returns the path at the current position.
    pub(super) fn path(&self, paths: u32) -> u32 {
        (self.position.unwrap_or(0) ^ self.order) & (paths - 1)
    }

    /// Moves to the next position. Several moves for the same packet have different values of `step`.
    pub(super) fn advance(&mut self, packet: &NextPacket, step: u32, paths: u32) {
        let next = self.position.unwrap_or(0) + 1;
        self.position = Some(next % paths);
        if next == paths {
            self.order = draw_order(packet, step, paths);
        }
    }
}

/// Draws the permutation of a round.
fn draw_order(packet: &NextPacket, step: u32, paths: u32) -> u32 {
    low32(packet.random(RANDOM_ORDER + (u64::from(step) << 8))) & (paths - 1)
}

impl PathPolicy for Oblivious {
    const NAME: &'static str = "oblivious";
    const SOURCE: &'static str = "uet-htsim, `UecMpOblivious`";
    type State = Round;

    fn choose(&self, round: &mut Round, packet: &NextPacket) -> u32 {
        round.start(packet, self.paths);
        let path = round.path(self.paths);
        round.advance(packet, 0, self.paths);
        packet.ev(path, self.paths)
    }
}
