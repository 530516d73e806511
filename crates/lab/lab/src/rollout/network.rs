//! A simulated network whose switches are upgraded.

use super::RolloutError;
use super::evaluation::{Evaluator, SeedSet, Upgrades};
use super::plan::Unit;
use crate::runner::{RunEnvironment, run_seeds};
use crate::scenario::{Cell, Label, OneOrMore};
use crate::stats::mean;
use crate::store::FinishedRun;
use crate::study::Study;
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
        let phase = run.run.summary.phases.last();
        if let Some(value) = phase.and_then(|phase| phase.values.get(metric)) {
            return Ok(*value);
        }
        let missing = phase.and_then(|phase| phase.missing.get(metric));
        let label = study.cells[0].labels.last();
        Err(RolloutError::MissingValue {
            metric: metric.to_owned(),
            switches: label.map_or_else(String::new, |label| label.value.clone()),
            seed: run.run.seed,
            reason: missing.map_or_else(|| "the run did not measure it".into(), |value| value.reason.clone()),
        })
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

fn describe_switches(switches: &[String]) -> String {
    if switches.is_empty() { "no switch".into() } else { switches.join(", ") }
}
