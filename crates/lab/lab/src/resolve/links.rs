//! Resolves link impairments, slow links, and changes of links during a run.

use super::policies::resolve_impair;
use crate::scenario::{
    KeyPath, LinkChangeSpec, LinkEventSpec, LinkImpairmentSpec, OneOrMore, Scenario, SlowLinkSpec, SpecError,
    SpecErrorKind, Subject, select_hosts, select_switches,
};
use poseidon_plan::Topology;
use poseidon_plan::impairments::LinkImpairment;
use poseidon_plan::link_changes::{LinkChange, LinkEvent};
use poseidon_plan::patterns::Racks;
use poseidon_plan::switch::SlowPort;
use poseidon_plan::topology::Node;
use poseidon_types::{PortId, SwitchId};

/// Resolves the link impairments of a run, sorted by port.
pub(super) fn resolve_link_impairments(
    scenario: &Scenario,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<LinkImpairment>, SpecError> {
    let mut impairments: Vec<LinkImpairment> = Vec::new();
    for (index, spec) in scenario.impairment.iter().enumerate() {
        let path = KeyPath::new(["impairment"]).join(index);
        let impairment = resolve_link_impairment(spec, topology, racks, &path)?;
        let key = (impairment.switch, impairment.port);
        match impairments.binary_search_by_key(&key, |other| (other.switch, other.port)) {
            Ok(_) => {
                let reason = "two impairments apply to the same direction of a link";
                return Err(SpecErrorKind::InvalidInPlan(reason)
                    .at_path(path.clone())
                    .about(Subject::Key(path)));
            }
            Err(place) => impairments.insert(place, impairment),
        }
    }
    Ok(impairments)
}

fn resolve_link_impairment(
    spec: &LinkImpairmentSpec,
    topology: &Topology,
    racks: &Racks,
    path: &KeyPath,
) -> Result<LinkImpairment, SpecError> {
    let LinkImpairmentSpec { switch, to, port, impair } = spec;
    let link = LinkName { switch, to: to.as_deref(), port: *port };
    let (switch, port) = select_link(&link, topology, racks)
        .map_err(|error| error.prepend_path(path.clone()).about(Subject::Key(path.clone())))?;
    let policy = resolve_impair(impair, path)?;
    Ok(LinkImpairment { switch, port, policy })
}

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
        changes.extend(change.map_err(|error| error.prepend_path(path.clone()).about(Subject::Key(path)))?);
    }
    changes.sort_by_key(|change| change.time);
    Ok(changes)
}

/// Resolves the changes of one table. Key paths in errors are relative to the table.
fn resolve_link_change(
    spec: &LinkChangeSpec,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<LinkChange>, SpecError> {
    let event = match (spec.event, spec.rate, spec.delay) {
        (Some(LinkEventSpec::Down), None, None) => LinkEvent::Down,
        (Some(LinkEventSpec::Up), None, None) => LinkEvent::Up,
        (None, Some(rate), None) if rate.0.is_zero() => {
            return Err(
                SpecErrorKind::InvalidInPlan("rate is zero; set event = \"down\" instead").at(["rate"])
            );
        }
        (None, Some(rate), None) => LinkEvent::Rate(rate.0),
        (None, None, Some(delay)) => LinkEvent::Delay(delay.0),
        _ => return Err(SpecErrorKind::LinkEventOrRate.at_root()),
    };
    let link = LinkName { switch: &spec.switch, to: spec.to.as_deref(), port: spec.port };
    let mut changes = Vec::new();
    for (switch, port) in select_links(&link, spec.all, topology, racks)? {
        if matches!((event, &topology.ports(switch)[port.index()].0), (LinkEvent::Delay(_), Node::Host(_))) {
            let reason = "the delay of a link to a host cannot change; use a link between switches";
            return Err(SpecErrorKind::InvalidInPlan(reason).at(["delay"]));
        }
        changes.push(LinkChange { time: spec.at.0, switch, port, event });
    }
    Ok(changes)
}

/// Resolves the slow ports of a run, sorted by port.
pub(super) fn resolve_slow_links(
    scenario: &Scenario,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<SlowPort>, SpecError> {
    let mut slow_ports: Vec<SlowPort> = Vec::new();
    for (index, spec) in scenario.slow_link.iter().enumerate() {
        let path = KeyPath::new(["slow-link"]).join(index);
        let error = |error: SpecError| error.prepend_path(path.clone()).about(Subject::Key(path.clone()));
        for (switch, port) in select_slow_ports(spec, topology, racks).map_err(error)? {
            let slow_port = SlowPort { switch, port, divisor: spec.divisor };
            match slow_ports.binary_search_by_key(&(switch, port), |other| (other.switch, other.port)) {
                Ok(_) => {
                    let reason = "two slow links apply to the same direction of a link";
                    return Err(error(SpecErrorKind::InvalidInPlan(reason).at_root()));
                }
                Err(place) => slow_ports.insert(place, slow_port),
            }
        }
    }
    Ok(slow_ports)
}

/// Selects the ports of one slow link. Key paths in errors are relative to its table.
fn select_slow_ports(
    spec: &SlowLinkSpec,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<(SwitchId, PortId)>, SpecError> {
    if spec.divisor < 2 {
        return Err(SpecErrorKind::InvalidInPlan(
            "the divisor is below 2; set it to 4 for a quarter of the rate",
        )
        .at(["divisor"]));
    }
    let link = LinkName { switch: &spec.switch, to: spec.to.as_deref(), port: spec.port };
    let mut ports = select_links(&link, spec.all, topology, racks)?;
    if !spec.one_way {
        let backward: Vec<_> = ports.iter().filter_map(|port| reverse_port(*port, topology)).collect();
        ports.extend(backward);
    }
    Ok(ports)
}

/// Returns the port at the other end of a link, if that end is a switch.
fn reverse_port((switch, port): (SwitchId, PortId), topology: &Topology) -> Option<(SwitchId, PortId)> {
    let Node::Switch(neighbor) = topology.ports(switch)[port.index()].0 else { return None };
    // Parallel links between two switches have the same order at both ends.
    let ports_to = |from: SwitchId, to: SwitchId| -> Vec<PortId> {
        let ports = (0..).map(PortId::new).zip(topology.ports(from));
        ports.filter(|(_, (node, _))| *node == Node::Switch(to)).map(|(port, _)| port).collect()
    };
    let rank = ports_to(switch, neighbor).iter().position(|other| *other == port)?;
    ports_to(neighbor, switch).get(rank).map(|back| (neighbor, *back))
}

/// A scenario's name for a link: the switch at one end, and the node at the other end or the port.
struct LinkName<'a> {
    switch: &'a str,
    to: Option<&'a str>,
    port: Option<u32>,
}

/// Selects one link, or all links of a switch. Key paths in errors are relative to the table that names the link.
fn select_links(
    link: &LinkName<'_>,
    all: bool,
    topology: &Topology,
    racks: &Racks,
) -> Result<Vec<(SwitchId, PortId)>, SpecError> {
    match (all, link.to, link.port) {
        (false, ..) => Ok(vec![select_link(link, topology, racks)?]),
        (true, None, None) => {
            let switch = select_switch(link.switch, topology).map_err(|kind| kind.at(["switch"]))?;
            let ports = (0..).map(PortId::new).zip(topology.ports(switch));
            Ok(ports.map(|(port, _)| (switch, port)).collect())
        }
        (true, ..) => Err(SpecErrorKind::LinkToOrPort.at(["all"])),
    }
}

/// Selects exactly one link. Key paths in errors are relative to the table that names the link.
fn select_link(
    link: &LinkName<'_>,
    topology: &Topology,
    racks: &Racks,
) -> Result<(SwitchId, PortId), SpecError> {
    let switch = select_switch(link.switch, topology).map_err(|kind| kind.at(["switch"]))?;
    let neighbors: Vec<Node> = topology.ports(switch).into_iter().map(|(neighbor, _)| neighbor).collect();
    let port = match (link.to, link.port) {
        (Some(to), None) => {
            let neighbor = select_node(to, topology, racks).map_err(|kind| kind.at(["to"]))?;
            find_port(&neighbors, neighbor, link.switch, to).map_err(|kind| kind.at(["to"]))?
        }
        (None, Some(port)) if (port as usize) < neighbors.len() => PortId::new(port),
        (None, Some(port)) => {
            let (switch, ports) = (link.switch.to_owned(), neighbors.len());
            return Err(SpecErrorKind::UnknownPort { switch, port, ports }.at(["port"]));
        }
        (Some(_), Some(_)) | (None, None) => return Err(SpecErrorKind::LinkToOrPort.at_root()),
    };
    Ok((switch, port))
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
