//! The switches of a rollout, by the names that selectors use.

use super::plan::Unit;
use super::{RolloutError, RolloutOptions};
use crate::scenario::{GroupedDigits, OneOrMore, Scenario, select_switches, switch_name};
use crate::study::MAX_RUNS;
use poseidon_plan::{Plan, Topology};
use poseidon_types::SwitchId;
use std::collections::BTreeSet;

/// The switches that write telemetry at the start, and the candidates.
pub(super) struct Switches {
    pub(super) start: Vec<String>,
    pub(super) units: Vec<Unit>,
}

/// Finds the starting switches and the candidates. If the scenario says which switches write telemetry, these switches
/// are the start and no candidates. Otherwise no switch writes telemetry at the start. `plan` is the plan of the
/// scenario, and `topology` is its network with the names of its switches.
pub(super) fn find_switches(
    scenario: &Scenario,
    plan: &Plan,
    topology: &Topology,
    options: &RolloutOptions,
) -> Result<Switches, RolloutError> {
    let select = |option: &'static str, text: &str| {
        select_switches(&OneOrMore(vec![text.to_owned()]), topology)
            .map_err(|error| RolloutError::Selection { option, error })
    };
    let is_given = scenario.switch.stamping.is_some() || scenario.generation.values().any(|one| !one.stamp);
    let without: BTreeSet<SwitchId> = plan.telemetry_off.iter().map(|period| period.switch).collect();
    let start: BTreeSet<SwitchId> =
        topology.switch_ids().filter(|switch| is_given && !without.contains(switch)).collect();
    let mut single = BTreeSet::new();
    for text in &options.candidates {
        single.extend(select("--candidates", text)?);
    }
    if options.candidates.is_empty() && options.units.is_empty() {
        single.extend(topology.switch_ids());
    }
    let name = |switch: &SwitchId| switch_name(topology, *switch);
    let single: Vec<SwitchId> = single.difference(&start).copied().collect();
    // Checked before names are allocated, because a topology can have millions of switches.
    if single.len().saturating_mul(options.seeds as usize) > MAX_RUNS {
        let runs = GroupedDigits((single.len() as u64).saturating_mul(u64::from(options.seeds)));
        return Err(RolloutError::TooManyRuns { runs, limit: MAX_RUNS.into() });
    }
    let mut units: Vec<Unit> =
        single.iter().map(|switch| Unit { name: name(switch), switches: vec![name(switch)] }).collect();
    for text in &options.units {
        let selected: BTreeSet<SwitchId> = select("--unit", text)?.into_iter().collect();
        let switches: Vec<String> = selected.difference(&start).map(name).collect();
        if !switches.is_empty() {
            units.push(Unit { name: text.clone(), switches });
        }
    }
    if units.is_empty() {
        return Err(RolloutError::NoCandidates);
    }
    Ok(Switches { start: start.iter().map(name).collect(), units })
}
