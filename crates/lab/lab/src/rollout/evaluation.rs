//! Evaluates configurations, each at most once.

use super::RolloutError;
use std::collections::{BTreeMap, BTreeSet};

/// The upgraded units, as indices into the list of candidates.
pub(super) type Upgrades = BTreeSet<usize>;

/// A set of seeds. All configurations use the same seeds, so their values can be compared in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SeedSet {
    /// The seeds that choose the next upgrade.
    Choose,
    /// The seeds that judge an upgrade. The best of many candidates looks better than it is on the seeds that chose
    /// it, so different seeds judge it.
    Judge,
}

/// A network that can be evaluated with any set of upgrades.
pub(super) trait Evaluator {
    /// Returns the objective of each configuration, with one value per seed.
    fn evaluate(
        &mut self,
        configurations: &[Upgrades],
        seeds: SeedSet,
    ) -> Result<Vec<Vec<f64>>, RolloutError>;
}

/// The values of all configurations that were evaluated.
pub(super) struct Evaluations<'a> {
    evaluator: &'a mut dyn Evaluator,
    known: BTreeMap<(SeedSet, Upgrades), Vec<f64>>,
}

impl<'a> Evaluations<'a> {
    pub(super) fn new(evaluator: &'a mut dyn Evaluator) -> Self {
        Self { evaluator, known: BTreeMap::new() }
    }

    /// Returns the values of each configuration. Only new configurations are evaluated, all in one batch.
    pub(super) fn evaluate(
        &mut self,
        configurations: &[Upgrades],
        seeds: SeedSet,
    ) -> Result<Vec<Vec<f64>>, RolloutError> {
        let is_new = |upgrades: &&Upgrades| !self.known.contains_key(&(seeds, (*upgrades).clone()));
        let new: BTreeSet<Upgrades> = configurations.iter().filter(is_new).cloned().collect();
        let new: Vec<Upgrades> = new.into_iter().collect();
        if !new.is_empty() {
            let values = self.evaluator.evaluate(&new, seeds)?;
            self.known.extend(new.into_iter().map(|upgrades| (seeds, upgrades)).zip(values));
        }
        Ok(configurations.iter().map(|upgrades| self.known[&(seeds, upgrades.clone())].clone()).collect())
    }

    /// Returns the values of one configuration.
    pub(super) fn evaluate_one(
        &mut self,
        upgrades: &Upgrades,
        seeds: SeedSet,
    ) -> Result<Vec<f64>, RolloutError> {
        Ok(self.evaluate(core::slice::from_ref(upgrades), seeds)?.remove(0))
    }

    /// Returns the number of configurations that were evaluated. A configuration counts once per set of seeds.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }
}
