//! The switches of a rollout, by the names that selectors use.

use super::plan::Unit;
use super::{RolloutError, RolloutOptions};
use crate::scenario::{GroupedDigits, OneOrMore, Scenario, select_switches};
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

/// Returns a switch's name, as selectors write it: by tier if the network has tiers, otherwise by number.
fn switch_name(topology: &Topology, switch: SwitchId) -> String {
    let number = switch.get();
    // The words of consecutive switches, and the number of switches with each word.
    let words = match topology {
        Topology::Tiers(t) => {
            vec![("rack", t.pods * t.racks), ("agg", t.pods * t.aggregation), ("core", u32::MAX)]
        }
        Topology::Rails(r) => {
            vec![("server", r.servers), ("leaf", r.spine(0) - r.servers), ("spine", u32::MAX)]
        }
        Topology::Chain(c) => vec![("rack", c.switches)],
        Topology::Rotor(r) => vec![("rack", r.racks)],
        Topology::Edges(_) => Vec::new(),
    };
    let mut first = 0;
    for (word, count) in words {
        if number - first < count {
            return format!("{word}{}", number - first);
        }
        first += count;
    }
    format!("s{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::topology::{Chain, Edges, Link, Rails};
    use poseidon_types::{BitRate, Picos};

    const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

    #[test]
    fn every_name_selects_its_switch() {
        let links = "h0 s0 1 Gbps 1 us\nh1 s2 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\ns1 s2 1 Gbps 1 us";
        let rails = Rails {
            servers: 4,
            gpus: 2,
            servers_per_leaf: 2,
            spines: 3,
            local_link: LINK,
            rail_link: LINK,
            spine_link: LINK,
        };
        for (topology, some) in [
            (Topology::powertcp_fat_tree(), ["rack7", "agg0", "core3"]),
            (Topology::poseidon_clos(4), ["rack3", "agg31", "core7"]),
            (Topology::star(3, LINK), ["rack0"; 3]),
            (
                Topology::Chain(Chain { switches: 3, hosts: 1, host_link: LINK, middle_link: LINK }),
                ["rack0", "rack1", "rack2"],
            ),
            (Topology::powertcp_rotor(Picos::ZERO), ["rack0", "rack24", "s25"]),
            (Topology::Rails(rails), ["server0", "leaf0", "spine2"]),
            (Topology::Edges(Edges::parse(links).expect("the list is valid")), ["s0", "s1", "s2"]),
        ] {
            let names: Vec<String> =
                topology.switch_ids().map(|switch| switch_name(&topology, switch)).collect();
            for (switch, name) in topology.switch_ids().zip(&names) {
                assert_eq!(
                    select_switches(&OneOrMore(vec![name.clone()]), &topology),
                    Ok(vec![switch]),
                    "{name}"
                );
            }
            assert!(some.iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
        }
    }
}
