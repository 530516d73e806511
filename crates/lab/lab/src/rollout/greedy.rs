//! Chooses the next upgrade with lazy greedy search.
//!
//! Each step adds the candidate with the largest gain. Plain greedy search evaluates every candidate in every step.
//! Lazy search (Minoux 1978) orders candidates by their last known gain and evaluates only the top, until the top is
//! up to date. Both give the same result if the objective is submodular: a candidate gains no more after other
//! upgrades than before. The latency of a network need not be submodular. Lazy search then misses candidates whose
//! gain grows with other upgrades, and it can choose another order than plain greedy search.

use super::RolloutError;
use super::evaluation::{Evaluations, SeedSet, Upgrades};
use super::objective::Direction;

/// A candidate and its last known gain.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    unit: usize,
    /// The mean gain over the upgrades at the time of the evaluation. Infinite before the first evaluation.
    gain: f64,
    /// The number of upgrades at the time of the evaluation.
    evaluated_at: Option<usize>,
}

/// The state of a lazy greedy search.
pub(super) struct LazyGreedy {
    /// The candidates that are not upgraded, by falling gain.
    queue: Vec<Candidate>,
    upgrades: Upgrades,
    /// The number of stale candidates that are evaluated together, so that all processors are busy.
    batch: usize,
}

impl LazyGreedy {
    pub(super) fn new(units: usize, batch: usize) -> Self {
        let candidate = |unit| Candidate { unit, gain: f64::INFINITY, evaluated_at: None };
        Self { queue: (0..units).map(candidate).collect(), upgrades: Upgrades::new(), batch: batch.max(1) }
    }

    /// Returns the candidate with the largest gain; `None` if all candidates are upgraded.
    pub(super) fn find_best(
        &mut self,
        evaluations: &mut Evaluations<'_>,
        direction: Direction,
    ) -> Result<Option<usize>, RolloutError> {
        let step = Some(self.upgrades.len());
        loop {
            let stale = self
                .queue
                .iter()
                .enumerate()
                .take_while(|(_, candidate)| candidate.evaluated_at != step)
                .take_while(|(position, candidate)| {
                    *position < self.batch || candidate.evaluated_at.is_none()
                })
                .count();
            if stale == 0 {
                return Ok(self.queue.first().map(|best| best.unit));
            }
            let mut configurations = vec![self.upgrades.clone()];
            configurations.extend(self.queue[..stale].iter().map(|candidate| self.upgraded(candidate.unit)));
            let values = evaluations.evaluate(&configurations, SeedSet::Choose)?;
            for (candidate, after) in self.queue.iter_mut().zip(&values[1..]) {
                candidate.gain = direction.gain(&values[0], after).mean;
                candidate.evaluated_at = step;
            }
            // Equal gains are ordered by number, so the result does not depend on the order of evaluation.
            self.queue.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.unit.cmp(&b.unit)));
        }
    }

    /// Returns the upgrades so far and one more unit.
    pub(super) fn upgraded(&self, unit: usize) -> Upgrades {
        let mut upgrades = self.upgrades.clone();
        upgrades.insert(unit);
        upgrades
    }

    /// Upgrades a unit.
    pub(super) fn upgrade(&mut self, unit: usize) {
        self.upgrades.insert(unit);
        self.queue.retain(|candidate| candidate.unit != unit);
    }
}
