//! Plans a rollout of telemetry: which switches to upgrade first, and what each upgrade gains.
//!
//! ```text
//! Question   A network has switches that write telemetry and switches that do not. A budget allows some upgrades. Which
//!            switches come first?
//! Search     Greedy: each step upgrades the candidate with the largest mean gain (`greedy.rs`). Lazy evaluation skips
//!            candidates whose last known gain is small. Neither finds the best set in general: two upgrades can
//!            gain together what none of them gains alone.
//! Noise      All configurations run with the same seeds, and a gain is a mean of differences per seed, with a 95 %
//!            t interval. Seeds 1 to N choose the upgrade. Seeds N+1 to 2N judge it, because the best of many
//!            candidates looks better than it is on the seeds that chose it. The search ends if the interval contains
//!            zero.
//! Baselines  Bottleneck first (Poseidon, NSDI'23, section 4.1): candidates by the mean number of bytes that wait in
//!            their queues before the first upgrade. Random: several random orders.
//! ```
//!
//! Every configuration is an ordinary plan with its own hash, so the store keeps its runs, and a repeated search only
//! reads them.

mod chart;
mod error;
mod evaluation;
mod greedy;
mod network;
mod objective;
mod plan;
mod search;
mod side_effects;
mod switches;
#[cfg(test)]
mod tests;

pub use error::RolloutError;
pub use objective::{Direction, Objective};
pub use plan::{
    Baseline, BaselinePoint, CongestedUnit, Order, OrderComparison, OrderOutcome, Point, RolloutPlan, Search,
    SideEffect, Step, StopReason, Unit, interval,
};
pub use search::RunCount;

use crate::judge::cell_name;
use crate::resolve::{ResolvedRun, TrafficGroup};
use crate::runner::RunEnvironment;
use crate::scenario::{Cell, GroupedDigits};
use crate::study::{MAX_RUNS, Study};
use evaluation::Evaluations;
use network::Network;
use poseidon_plan::switch::Stamp;
use poseidon_plan::{Backend, Topology};
use poseidon_types::Signals;
use search::{SearchOptions, Searcher};
use switches::{Switches, find_switches};

/// What to plan.
#[derive(Clone, Debug)]
pub struct RolloutOptions {
    /// The cell's name; may be omitted if the study has one cell.
    pub cell: Option<String>,
    /// Selectors of switches that can be upgraded one by one. If there are neither candidates nor units, all switches
    /// can be upgraded.
    pub candidates: Vec<String>,
    /// Selectors of switches that are upgraded together.
    pub units: Vec<String>,
    /// The maximum number of upgrades.
    pub budget: u32,
    /// The metric to improve; by default, the 99th percentile of the latency of the only traffic with messages.
    pub objective: Option<String>,
    /// Whether a smaller or a larger value is better; by default, the metric determines it.
    pub direction: Option<Direction>,
    /// The number of seeds that choose an upgrade, and of seeds that judge it; at least 2.
    pub seeds: u32,
    /// Whether to use the whole budget, even if upgrades are within the noise.
    pub all_steps: bool,
    /// The number of random orders.
    pub random_orders: u32,
    /// The numbers of upgrades at which other orders are evaluated; empty for powers of two.
    pub baseline_steps: Vec<usize>,
    /// The number of parallel runs.
    pub jobs: usize,
}

/// A rollout that can be planned: all names are known and checked.
pub struct Rollout<'a> {
    study: &'a Study,
    cell: &'a Cell,
    phase: String,
    switches: Switches,
    objective: Objective,
    seeds: u32,
    search: SearchOptions,
}

impl<'a> Rollout<'a> {
    /// Checks the study and the options before the first run.
    pub fn new(
        study: &'a Study,
        options: &RolloutOptions,
        backend: &dyn Backend,
    ) -> Result<Self, RolloutError> {
        let cell = find_cell(study, options.cell.as_deref())?;
        if cell.scenario.analytic.is_some() || cell.scenario.withdrawn.is_some() {
            return Err(RolloutError::NotSimulated);
        }
        if let Some(reason) = study.skip_reason() {
            return Err(RolloutError::Skipped { reason: reason.to_owned() });
        }
        let resolved = study.resolve(cell, 1, backend)?;
        check_telemetry(cell, &resolved)?;
        let objective = Objective::new(&cell.scenario, options.objective.as_deref(), options.direction)?;
        let topology = named_topology(study, cell, &resolved, backend)?;
        let switches = find_switches(&cell.scenario, &resolved.plan, &topology, options)?;
        let units = switches.units.len();
        let search = SearchOptions {
            budget: (options.budget as usize).min(units),
            all_steps: options.all_steps,
            random_orders: options.random_orders,
            baseline_steps: options.baseline_steps.clone(),
            direction: objective.direction,
            batch: options.jobs.div_ceil(options.seeds.max(1) as usize),
        };
        let phase = resolved.phases.last().map(|phase| phase.name.clone()).unwrap_or_default();
        let rollout = Self { study, cell, phase, switches, objective, seeds: options.seeds, search };
        let RunCount { at_most, .. } = rollout.run_count();
        if at_most > MAX_RUNS as u64 {
            let (runs, limit) = (GroupedDigits(at_most), MAX_RUNS.into());
            return Err(RolloutError::TooManyRuns { runs, limit });
        }
        Ok(rollout)
    }

    /// Returns the number of runs that the search needs.
    pub fn run_count(&self) -> RunCount {
        RunCount::new(&self.search, self.switches.units.len(), self.seeds)
    }

    /// Searches the order of upgrades. `on_note` receives lines about the progress.
    pub fn plan(
        &self,
        environment: &RunEnvironment<'_>,
        on_note: &dyn Fn(&str),
    ) -> Result<RolloutPlan, RolloutError> {
        let Switches { start, units } = &self.switches;
        let mut network = Network {
            study: self.study,
            cell: self.cell,
            start,
            units,
            metric: &self.objective.metric,
            seeds: self.seeds,
            environment,
        };
        let RunCount { lazy, at_most } = self.run_count();
        on_note(&format!(
            "{} candidates, at most {} runs ({} if no candidate is evaluated twice)",
            units.len(),
            GroupedDigits(at_most),
            GroupedDigits(lazy)
        ));
        let seconds = network.measure_run_time()? / environment.options.jobs.max(1) as f64;
        let [lazy, at_most] = [lazy, at_most].map(|runs| format_duration(seconds * runs as f64));
        on_note(&format!("these runs take at most {at_most} ({lazy} if no candidate is evaluated twice)"));
        let congestion = network.measure_congestion()?;
        let searcher = Searcher {
            options: &self.search,
            units,
            congestion: &congestion,
            evaluations: Evaluations::new(&mut network),
            on_note,
        };
        let search = searcher.search()?;
        let candidates = units.iter().cloned().zip(congestion);
        let mut plan = RolloutPlan {
            study: self.study.name.clone(),
            cell: cell_name(&self.cell.labels),
            phase: self.phase.clone(),
            objective: self.objective.clone(),
            choosing_seeds: self.seeds,
            judging_seeds: self.seeds,
            start_switches: start.clone(),
            candidates: candidates.map(|(unit, queued_bytes)| CongestedUnit { unit, queued_bytes }).collect(),
            search,
            side_effects: Vec::new(),
        };
        plan.measure_side_effects(&network, &self.cell.scenario, units)?;
        Ok(plan)
    }
}

/// Finds a cell by name. The name may be omitted if there is only one cell.
fn find_cell<'a>(study: &'a Study, name: Option<&str>) -> Result<&'a Cell, RolloutError> {
    let cells = || study.cells.iter().map(|cell| cell_name(&cell.labels)).collect();
    match (name, study.cells.as_slice()) {
        (None, [cell]) => Ok(cell),
        (None, _) => Err(RolloutError::SeveralCells { cells: cells() }),
        (Some(name), all) => all
            .iter()
            .find(|cell| cell_name(&cell.labels) == name)
            .ok_or_else(|| RolloutError::UnknownCell { cell: name.to_owned(), cells: cells() }),
    }
}

/// Returns the network as the scenario describes it. A plan whose generations have their own rates contains a list of
/// links, in which switches have no names.
fn named_topology(
    study: &Study,
    cell: &Cell,
    resolved: &ResolvedRun,
    backend: &dyn Backend,
) -> Result<Topology, RolloutError> {
    if cell.scenario.generation.values().all(|generation| generation.rate.is_none()) {
        return Ok(resolved.plan.topology.clone());
    }
    let mut cell = cell.clone();
    cell.scenario.generation.values_mut().for_each(|generation| generation.rate = None);
    Ok(study.resolve(&cell, 1, backend)?.plan.topology)
}

/// Checks that upgrades have an effect, and that all laws work without telemetry.
fn check_telemetry(cell: &Cell, resolved: &ResolvedRun) -> Result<(), RolloutError> {
    if cell.scenario.switch.telemetry_off.is_some() {
        return Err(RolloutError::TelemetryPeriod);
    }
    let telemetry = Signals::MAX_HOP_DELAY | Signals::HOP_RECORDS;
    let plan = &resolved.plan;
    let needs_telemetry = |group: &&TrafficGroup| {
        let first = group.connections.clone().next().map(|first| &plan.connections[first as usize]);
        let needs = first.map_or(Signals::NONE, |first| plan.laws[first.law as usize].needs());
        needs.without(telemetry) != needs
    };
    if let Some(group) = resolved.groups.iter().find(needs_telemetry) {
        return Err(RolloutError::NeedsTelemetry { law: group.law.clone() });
    }
    if plan.switch.stamp == Stamp::Off {
        return Err(RolloutError::NoTelemetry);
    }
    Ok(())
}

/// Formats a duration: `40 s`, `12 min`, `3.5 h`.
fn format_duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 100.0 => format!("{seconds:.0} s"),
        _ if seconds < 6_000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}
