//! Resolves link failures, recoveries and rate changes.

use crate::scenario::{
    KeyPath, LinkChangeSpec, LinkEventSpec, OneOrMore, Scenario, SpecError, SpecErrorKind, Subject,
    select_hosts, select_switches,
};
use poseidon_plan::Topology;
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::patterns::Racks;
use poseidon_plan::topology::Node;
use poseidon_types::{PortId, SwitchId};

/// Resolves the link changes of a run, sorted by time. Changes at the same time stay in the order of the scenario.
pub(super) fn resolve_link_changes(
    scenario: &Scenario,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<LinkChange>, SpecError> {
    let mut changes = Vec::new();
    for (index, spec) in scenario.link_change.iter().enumerate() {
        let path = KeyPath::new(["link-change"]).join(index);
        let change = resolve_link_change(spec, topology, racks);
        changes.push(change.map_err(|error| error.prepend_path(path.clone()).about(Subject::Key(path)))?);
    }
    changes.sort_by_key(|change| change.time);
    Ok(changes)
}

/// Resolves one link change. Key paths in errors are relative to its table.
fn resolve_link_change(
    spec: &LinkChangeSpec,
    topology: &Topology,
    racks: &Racks,
) -> Result<LinkChange, SpecError> {
    let event = match (spec.event, spec.rate) {
        (Some(LinkEventSpec::Down), None) => LinkEvent::Down,
        (Some(LinkEventSpec::Up), None) => LinkEvent::Up,
        (None, Some(rate)) if rate.0.is_zero() => {
            return Err(
                SpecErrorKind::InvalidInPlan("rate is zero; set event = \"down\" instead").at(["rate"])
            );
        }
        (None, Some(rate)) => LinkEvent::Rate(rate.0),
        (Some(_), Some(_)) | (None, None) => return Err(SpecErrorKind::LinkEventOrRate.at_root()),
    };
    let switch = select_switch(&spec.switch, topology).map_err(|kind| kind.at(["switch"]))?;
    let neighbors: Vec<Node> = topology.ports(switch).into_iter().map(|(neighbor, _)| neighbor).collect();
    let port = match (&spec.to, spec.port) {
        (Some(to), None) => {
            let neighbor = select_node(to, topology, racks).map_err(|kind| kind.at(["to"]))?;
            find_port(&neighbors, neighbor, &spec.switch, to).map_err(|kind| kind.at(["to"]))?
        }
        (None, Some(port)) if (port as usize) < neighbors.len() => PortId::new(port),
        (None, Some(port)) => {
            let (switch, ports) = (spec.switch.clone(), neighbors.len());
            return Err(SpecErrorKind::UnknownPort { switch, port, ports }.at(["port"]));
        }
        (Some(_), Some(_)) | (None, None) => return Err(SpecErrorKind::LinkToOrPort.at_root()),
    };
    Ok(LinkChange { time: spec.at.0, switch, port, event })
}

/// Finds the only port that leads to a neighbor.
fn find_port(neighbors: &[Node], neighbor: Node, switch: &str, to: &str) -> Result<PortId, SpecErrorKind> {
    let mut ports = (0..).zip(neighbors).filter(|(_, other)| **other == neighbor).map(|(port, _)| port);
    match (ports.next(), ports.count()) {
        (Some(port), 0) => Ok(PortId::new(port)),
        (first, others) => {
            let links = usize::from(first.is_some()) + others;
            let remedy = if links == 0 { "name a neighbor" } else { "set port instead of to" };
            Err(SpecErrorKind::NotOneLink { switch: switch.to_owned(), to: to.to_owned(), links, remedy })
        }
    }
}

/// Selects exactly one switch.
fn select_switch(text: &str, topology: &Topology) -> Result<SwitchId, SpecErrorKind> {
    let switches = select_switches(&OneOrMore(vec![text.to_owned()]), topology);
    take_only(&switches.map_err(SpecErrorKind::Selection)?, text, "switches")
}

/// Selects exactly one host or switch.
fn select_node(text: &str, topology: &Topology, racks: &Racks) -> Result<Node, SpecErrorKind> {
    if !text.contains("host") && !text.contains("gpu") {
        return select_switch(text, topology).map(Node::Switch);
    }
    let hosts = select_hosts(&OneOrMore(vec![text.to_owned()]), racks).map_err(SpecErrorKind::Selection)?;
    take_only(&hosts, text, "hosts").map(Node::Host)
}

fn take_only<T: Copy>(selected: &[T], text: &str, nodes: &'static str) -> Result<T, SpecErrorKind> {
    match selected {
        [only] => Ok(*only),
        _ => Err(SpecErrorKind::NotOneNode { text: text.to_owned(), nodes, count: selected.len() }),
    }
}
