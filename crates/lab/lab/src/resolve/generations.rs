//! Resolves generations: switches whose telemetry, policies or port rates differ from those of the other switches.

use super::policies::{resolve_buffer, resolve_mark};
use crate::scenario::{
    GenerationSpec, GroupedDigits, KeyPath, Scenario, SpecError, SpecErrorKind, Subject, select_switches,
};
use poseidon_plan::Topology;
use poseidon_plan::switch::SwitchOverride;
use poseidon_plan::topology::{Edge, Edges, Node};
use poseidon_types::{BitRate, SwitchId};
use std::collections::BTreeMap;

/// The maximum number of switches in a network whose generations have different rates. The route table of such a
/// network has an entry for each pair of switches and takes up to 300 MB.
const MAX_SWITCHES: u32 = 2_048;
/// The maximum number of hosts in such a network.
const MAX_HOSTS: u32 = 65_536;

/// The generation of each switch that belongs to one.
pub(super) struct Generations<'a>(BTreeMap<SwitchId, (&'a str, &'a GenerationSpec)>);

impl<'a> Generations<'a> {
    /// Selects the switches of each generation.
    pub(super) fn new(scenario: &'a Scenario, topology: &Topology) -> Result<Self, SpecError> {
        let mut generations = BTreeMap::new();
        for (name, spec) in &scenario.generation {
            let error = |kind| generation_error(kind, name, "switches");
            let switches = select_switches(&spec.switches, topology);
            for switch in switches.map_err(|cause| error(SpecErrorKind::Selection(cause)))? {
                if let Some((other, _)) = generations.insert(switch, (name.as_str(), spec)) {
                    let (switch, other) = (switch.get(), other.to_owned());
                    return Err(error(SpecErrorKind::TwoGenerations { switch, other }));
                }
            }
        }
        Ok(Self(generations))
    }

    /// Returns whether a switch writes telemetry, as far as its generation determines it.
    pub(super) fn writes_telemetry(&self, switch: SwitchId) -> bool {
        self.0.get(&switch).is_none_or(|(_, spec)| spec.stamp)
    }

    /// Resolves the policies of the switches that have their own.
    pub(super) fn overrides(&self, scenario: &Scenario) -> Result<Vec<SwitchOverride>, SpecError> {
        let mut policies = BTreeMap::new();
        for (name, spec) in &scenario.generation {
            if spec.buffer.is_some() && scenario.switch.pfc.is_some() {
                return Err(generation_error(SpecErrorKind::BufferWithPfc, name, "buffer"));
            }
            let path = KeyPath::new(["generation", name]);
            let buffer = spec.buffer.as_ref().map(|buffer| resolve_buffer(buffer, &path)).transpose()?;
            let mark = spec.mark.as_ref().map(|mark| resolve_mark(mark, &path)).transpose()?;
            if buffer.is_some() || mark.is_some() {
                policies.insert(name.as_str(), (buffer, mark));
            }
        }
        let mut overrides = Vec::new();
        for (switch, (name, _)) in &self.0 {
            if let Some((buffer, mark)) = policies.get(*name).cloned() {
                overrides.push(SwitchOverride { switch: *switch, buffer, mark });
            }
        }
        Ok(overrides)
    }

    /// Returns the network with the port rates of the generations. If no generation has a rate, the network stays the
    /// same. Otherwise, it becomes a list of links, with the same numbers of hosts, switches and ports.
    pub(super) fn apply_rates(&self, topology: &Topology) -> Result<Topology, SpecError> {
        let with_rate = self.0.values().find(|(_, spec)| spec.rate.is_some());
        let Some((name, _)) = with_rate else { return Ok(topology.clone()) };
        let error = |kind| generation_error(kind, name, "rate");
        if topology.switches() > MAX_SWITCHES || topology.hosts() > MAX_HOSTS {
            let (switches, hosts) = (GroupedDigits(MAX_SWITCHES.into()), GroupedDigits(MAX_HOSTS.into()));
            return Err(error(SpecErrorKind::TooLargeForRates { switches, hosts }));
        }
        let edges = match topology {
            Topology::Tiers(_) | Topology::Chain(_) | Topology::Edges(_) => topology.to_edges(),
            // A list of links has neither circuits nor rails.
            Topology::Rotor(_) | Topology::Rails(_) => None,
        };
        let edges = edges.ok_or_else(|| error(SpecErrorKind::FixedRates))?;
        let edges = edges.edges().iter().map(|edge| self.apply_rate(*edge)).collect();
        Edges::new(edges).map(Topology::Edges).map_err(|cause| error(SpecErrorKind::Links(cause)))
    }

    /// Returns a link with the rate of its slower end.
    fn apply_rate(&self, mut edge: Edge) -> Edge {
        if let (Node::Switch(a), Node::Switch(b)) = (edge.a, edge.b) {
            let port_rate = |switch| -> BitRate {
                let own = self.0.get(&switch).and_then(|(_, spec)| spec.rate);
                own.map_or(edge.link.rate, |rate| rate.0)
            };
            edge.link.rate = port_rate(a).min(port_rate(b));
        }
        edge
    }
}

fn generation_error(kind: SpecErrorKind, name: &str, key: &str) -> SpecError {
    let path = KeyPath::new(["generation", name]);
    kind.at_path(path.clone().join(key)).about(Subject::Key(path))
}
