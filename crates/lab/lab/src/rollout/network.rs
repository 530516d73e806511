//! A simulated network whose switches are upgraded.

use super::RolloutError;
use super::evaluation::{Evaluator, SeedSet, Upgrades};
use super::plan::Unit;
use crate::runner::{RunEnvironment, run_seeds};
use crate::scenario::{Cell, Label, OneOrMore};
use crate::stats::mean;
use crate::store::FinishedRun;
use crate::study::Study;
use crate::summary::MissingValue;
use core::ops::RangeInclusive;

/// A cell of a study, run with telemetry on a chosen set of switches.
pub(super) struct Network<'a> {
    /// The study of the cell.
    pub(super) study: &'a Study,
    pub(super) cell: &'a Cell,
    /// The switches that write telemetry before the first upgrade.
    pub(super) start: &'a [String],
    pub(super) units: &'a [Unit],
    pub(super) metric: &'a str,
    /// The number of seeds that choose, and of seeds that judge.
    pub(super) seeds: u32,
    pub(super) environment: &'a RunEnvironment<'a>,
}

impl Network<'_> {
    /// Returns the study with telemetry on the starting switches and the upgraded units.
    fn configure(&self, upgrades: &Upgrades) -> Study {
        let upgraded = upgrades.iter().flat_map(|unit| &self.units[*unit].switches);
        let mut switches: Vec<String> = self.start.iter().chain(upgraded).cloned().collect();
        switches.sort_unstable();
        switches.dedup();
        let mut cell = self.cell.clone();
        // The label differs from those of the study's own cells, so a report does not mistake these runs for them.
        cell.labels.push(Label { sweep: "telemetry on".into(), value: describe_switches(&switches) });
        cell.scenario.switch.stamping = Some(OneOrMore(switches));
        cell.scenario.generation.values_mut().for_each(|generation| generation.stamp = true);
        self.study_of(cell)
    }

    fn study_of(&self, cell: Cell) -> Study {
        Study { cells: vec![cell], ..self.study.clone() }
    }

    fn seed_range(&self, seeds: SeedSet) -> RangeInclusive<u64> {
        let count = u64::from(self.seeds);
        match seeds {
            SeedSet::Choose => 1..=count,
            SeedSet::Judge => count + 1..=2 * count,
        }
    }

    fn run(&self, studies: &[Study], seeds: SeedSet) -> Result<Vec<FinishedRun>, RolloutError> {
        let runs = run_seeds(studies, self.seed_range(seeds), self.environment)?;
        let is_complete = runs.len() == studies.len() * self.seeds as usize;
        if !is_complete || runs.iter().any(|run| run.manifest.interrupted) {
            return Err(RolloutError::Interrupted);
        }
        Ok(runs)
    }

    /// Returns a metric of a run's last phase.
    fn value(&self, run: &FinishedRun, study: &Study, metric: &str) -> Result<f64, RolloutError> {
        if let Some(value) = find_value(run, metric) {
            return Ok(value);
        }
        let phase = run.run.summary.phases.last();
        let missing = phase.and_then(|phase| phase.missing.get(metric));
        let label = study.cells[0].labels.last();
        Err(RolloutError::MissingValue {
            metric: metric.to_owned(),
            switches: label.map_or_else(String::new, |label| label.value.clone()),
            seed: run.run.seed,
            reason: missing.map_or_else(|| "the run did not measure it".into(), |value| value.reason.clone()),
            remedy: remedy(missing),
        })
    }

    /// Returns metrics of each configuration, with one value per seed. The value of a metric that a run does not have is
    /// `None`.
    pub(super) fn metrics(
        &self,
        configurations: &[Upgrades],
        seeds: SeedSet,
        metrics: &[String],
    ) -> Result<Vec<Vec<Option<Vec<f64>>>>, RolloutError> {
        let studies: Vec<Study> = configurations.iter().map(|upgrades| self.configure(upgrades)).collect();
        let runs = self.run(&studies, seeds)?;
        let values = |study: usize, metric: &String| {
            runs.iter().filter(|run| run.study == study).map(|run| find_value(run, metric)).collect()
        };
        let of_study = |study| metrics.iter().map(|metric| values(study, metric)).collect();
        Ok((0..studies.len()).map(of_study).collect())
    }

    /// Returns the mean wall-clock duration of a run in seconds, from runs of the start.
    pub(super) fn measure_run_time(&self) -> Result<f64, RolloutError> {
        let runs = self.run(&[self.configure(&Upgrades::new())], SeedSet::Choose)?;
        let durations: Vec<f64> = runs.iter().map(|run| run.manifest.wall_s).collect();
        Ok(mean(&durations).unwrap_or(0.0))
    }

    /// Returns the mean number of bytes that wait in the switches of each unit, before the first upgrade. The sampling
    /// interval is `observe.sample`.
    pub(super) fn measure_congestion(&self) -> Result<Vec<f64>, RolloutError> {
        let study = self.configure(&Upgrades::new());
        let mut cell = study.cells[0].clone();
        let name = |unit: usize| format!("candidate {unit}");
        let observe = &mut cell.scenario.observe;
        observe.bin = observe.sample;
        let buffers = self.units.iter().enumerate();
        observe.buffers = buffers.map(|(i, unit)| (name(i), OneOrMore(unit.switches.clone()))).collect();
        cell.labels.push(Label { sweep: "measure".into(), value: "congestion".into() });
        let studies = [self.study_of(cell)];
        let runs = self.run(&studies, SeedSet::Choose)?;
        let congestion = |unit: usize| {
            let metric = format!("{}.buffer_mean_bytes", name(unit));
            let values: Result<Vec<f64>, _> =
                runs.iter().map(|run| self.value(run, &studies[0], &metric)).collect();
            Ok(mean(&values?).unwrap_or(0.0))
        };
        (0..self.units.len()).map(congestion).collect()
    }
}

impl Evaluator for Network<'_> {
    fn evaluate(
        &mut self,
        configurations: &[Upgrades],
        seeds: SeedSet,
    ) -> Result<Vec<Vec<f64>>, RolloutError> {
        let studies: Vec<Study> = configurations.iter().map(|upgrades| self.configure(upgrades)).collect();
        let mut values = vec![Vec::new(); studies.len()];
        // Runs are ordered by study, then by seed.
        for run in self.run(&studies, seeds)? {
            values[run.study].push(self.value(&run, &studies[run.study], self.metric)?);
        }
        Ok(values)
    }
}

/// Returns a metric of a run's last phase, if the run has it.
fn find_value(run: &FinishedRun, metric: &str) -> Option<f64> {
    run.run.summary.phases.last()?.values.get(metric).copied()
}

/// Returns how to get a value that is missing. A lower bound is known if messages did not finish. Each seed has its own
/// value, so more seeds do not help.
const fn remedy(missing: Option<&MissingValue>) -> &'static str {
    match missing {
        Some(MissingValue { at_least: Some(_), .. }) => "raise drain, so that the messages can finish",
        Some(MissingValue { at_least: None, .. }) => "raise stop, so that each seed has more messages",
        None => "observe it",
    }
}

fn describe_switches(switches: &[String]) -> String {
    if switches.is_empty() { "no switch".into() } else { switches.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_fits_the_cause() {
        let missing = |at_least| MissingValue { reason: String::new(), at_least };
        assert!(remedy(Some(&missing(None))).starts_with("raise stop"));
        assert!(remedy(Some(&missing(Some(7.0)))).starts_with("raise drain"));
    }
}
