//! A windowed maximum over recent rounds.

/// The bandwidth estimate is the maximum over this many rounds (bbr_bw_rtts).
const ROUNDS: u32 = 10;

/// The largest rate in the last [`ROUNDS`] rounds that have a sample.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct MaxFilter {
    pub(super) max: f64,
    /// Each round's maximum, indexed by the round number modulo [`ROUNDS`].
    round_max: [f64; ROUNDS as usize],
    /// The last round with a sample.
    newest_round: u32,
}

impl MaxFilter {
    pub(super) fn update(&mut self, rate: f64, round: u32) {
        let elapsed = round.wrapping_sub(self.newest_round).min(ROUNDS);
        for rounds_ago in 0..elapsed {
            self.round_max[(round.wrapping_sub(rounds_ago) % ROUNDS) as usize] = 0.0;
        }
        self.newest_round = round;
        let best = &mut self.round_max[(round % ROUNDS) as usize];
        *best = best.max(rate);
        if elapsed > 0 || rate > self.max {
            self.max = self.round_max.iter().fold(0.0, |max: f64, rate| max.max(*rate));
        }
    }
}
