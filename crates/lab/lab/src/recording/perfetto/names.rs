//! The names of processes and tracks.

use crate::resolve::ResolvedRun;
use poseidon_plan::SwitchPort;
use poseidon_plan::topology::{Node, Tier, Topology};
use poseidon_types::ConnectionId;

/// Names the nodes, ports and connections of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a>(pub(super) &'a ResolvedRun);

impl Names<'_> {
    /// Returns the number of a node's process. Hosts come first.
    pub(super) fn pid(self, node: Node) -> u64 {
        match node {
            Node::Host(host) => u64::from(host.get()) + 1,
            Node::Switch(switch) => u64::from(self.0.plan.topology.hosts()) + u64::from(switch.get()) + 1,
        }
    }

    /// Returns a node's name, with its number in the topology file or its tier.
    pub(super) fn node(self, node: Node) -> String {
        match node {
            Node::Host(host) => {
                let numbers = self.0.node_numbers.as_ref();
                match numbers.and_then(|numbers| numbers.get(host.index())) {
                    Some(number) => format!("{} (node {number})", short_name(node)),
                    None => short_name(node),
                }
            }
            Node::Switch(switch) => match &self.0.plan.topology {
                Topology::Tiers(tiers) => {
                    let tier = match tiers.tier(switch) {
                        Tier::Rack { .. } => "rack",
                        Tier::Aggregation { .. } => "aggregation",
                        Tier::Core { .. } => "core",
                    };
                    format!("{} ({tier})", short_name(node))
                }
                Topology::Chain(_) | Topology::Rotor(_) | Topology::Rails(_) | Topology::Edges(_) => {
                    short_name(node)
                }
            },
        }
    }

    /// Returns a port's name: its number, its peer, and its name in the scenario.
    pub(super) fn port(self, port: SwitchPort) -> String {
        let ports = self.0.plan.topology.ports(port.switch);
        let peer = ports.get(port.port.index()).map(|(peer, _)| format!(" to {}", short_name(*peer)));
        let watched = self.0.queues.iter().find(|queue| queue.port == port);
        let watched = watched.map(|queue| format!(" ({})", queue.name));
        format!("port {}{}{}", port.port.get(), peer.unwrap_or_default(), watched.unwrap_or_default())
    }

    /// Returns a connection's name: its number, its receiver and its traffic pattern.
    pub(super) fn connection(self, connection: ConnectionId) -> String {
        let groups = self.0.groups.iter();
        let group =
            groups.filter(|group| group.connections.contains(&connection.get())).map(|group| &group.name);
        let to = self.0.plan.connections[connection.index()].to;
        let group = group.map(|name| format!(" ({name})")).next();
        format!("flow {} to {}{}", connection.get(), short_name(Node::Host(to)), group.unwrap_or_default())
    }

    /// Returns the name of a traffic group.
    pub(super) fn group(self, group: usize) -> String {
        self.0.groups.get(group).map_or_else(|| "messages".to_owned(), |group| group.name.clone())
    }
}

fn short_name(node: Node) -> String {
    match node {
        Node::Host(host) => format!("host{}", host.get()),
        Node::Switch(switch) => format!("switch{}", switch.get()),
    }
}
