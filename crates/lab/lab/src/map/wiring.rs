//! Every egress port of a network, with its neighbor, its rate and the port of the opposite direction.

use super::MapError;
use core::ops::Range;
use poseidon_plan::topology::Node;
use poseidon_plan::{SwitchPort, Topology};
use poseidon_types::{BitRate, HostId, PortId, SwitchId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The maximum number of switch ports. A fat tree of 65,536 hosts has 327,680.
pub(super) const MAX_PORTS: u32 = 500_000;

/// An egress port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EgressPort {
    pub(super) switch: SwitchId,
    pub(super) port: PortId,
    pub(super) to: Node,
    pub(super) rate: BitRate,
    /// The index of the opposite direction of the link, if that direction leaves a switch too.
    pub(super) opposite: Option<usize>,
}

/// The switches and the egress ports of a network. The circuit switch of a rotor is one more switch, without ports of
/// its own.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    /// All ports, by switch and port number.
    pub(super) ports: Vec<EgressPort>,
    /// The index of the first port of each switch, and the number of ports at the end.
    first_port: Vec<usize>,
    /// The number of switches, with the circuit switch.
    pub(super) switches: u32,
    /// The circuit switch of a rotor.
    pub(super) circuits: Option<SwitchId>,
    pub(super) hosts: u32,
}

impl Wiring {
    pub(super) fn new(topology: &Topology) -> Result<Self, MapError> {
        let hosts = topology.hosts();
        if hosts > MAX_PORTS || topology.switches() > MAX_PORTS {
            return Err(MapError::TooManyPorts { limit: MAX_PORTS });
        }
        let rotor = if let Topology::Rotor(rotor) = topology { Some(rotor) } else { None };
        let circuits = rotor.map(|_| SwitchId::new(topology.switches()));
        let (mut ports, mut first_port) = (Vec::new(), vec![0]);
        for switch in topology.switch_ids() {
            let mut push = |to: Node, rate: BitRate| {
                let port = PortId::from_index(ports.len() - first_port[switch.index()]);
                ports.push(EgressPort { switch, port, to, rate, opposite: None });
            };
            topology.ports(switch).into_iter().for_each(|(to, link)| push(to, link.rate));
            if let (Some(rotor), Some(circuits)) = (rotor, circuits)
                && switch.get() < rotor.racks
            {
                push(Node::Switch(circuits), rotor.circuit_link.rate);
            }
            if ports.len() > MAX_PORTS as usize {
                return Err(MapError::TooManyPorts { limit: MAX_PORTS });
            }
            first_port.push(ports.len());
        }
        pair_directions(&mut ports);
        let switches = topology.switches() + u32::from(circuits.is_some());
        first_port.resize(switches as usize + 1, ports.len());
        Ok(Self { ports, first_port, switches, circuits, hosts })
    }

    /// Returns the indices of a switch's ports.
    pub(super) fn ports_of(&self, switch: SwitchId) -> Range<usize> {
        self.first_port[switch.index()]..self.first_port[switch.index() + 1]
    }

    /// Returns the index of a port, or `None` if it does not exist.
    pub(super) fn index(&self, port: SwitchPort) -> Option<usize> {
        let (first, next) =
            (self.first_port.get(port.switch.index())?, self.first_port.get(port.switch.index() + 1)?);
        let index = first + port.port.index();
        (index < *next).then_some(index)
    }

    /// Returns the hosts of a switch.
    pub(super) fn hosts_of(&self, switch: SwitchId) -> Vec<HostId> {
        let ports = self.ports[self.ports_of(switch)].iter();
        ports.filter_map(|port| if let Node::Host(host) = port.to { Some(host) } else { None }).collect()
    }

    /// Returns the switches that each switch has a link to.
    pub(super) fn neighbors(&self) -> Vec<BTreeSet<SwitchId>> {
        let mut neighbors = vec![BTreeSet::new(); self.switches as usize];
        for port in &self.ports {
            if let Node::Switch(other) = port.to {
                neighbors[port.switch.index()].insert(other);
                neighbors[other.index()].insert(port.switch);
            }
        }
        neighbors
    }

    /// Returns the tier of each switch: its distance to the nearest host, in links.
    pub(super) fn tiers(&self, neighbors: &[BTreeSet<SwitchId>]) -> Vec<u32> {
        let mut tiers = vec![u32::MAX; self.switches as usize];
        let mut pending = VecDeque::new();
        for port in self.ports.iter().filter(|port| matches!(port.to, Node::Host(_))) {
            if tiers[port.switch.index()] == u32::MAX {
                tiers[port.switch.index()] = 1;
                pending.push_back(port.switch);
            }
        }
        while let Some(switch) = pending.pop_front() {
            for neighbor in &neighbors[switch.index()] {
                if tiers[neighbor.index()] == u32::MAX {
                    tiers[neighbor.index()] = tiers[switch.index()] + 1;
                    pending.push_back(*neighbor);
                }
            }
        }
        tiers
    }
}

/// Finds the opposite direction of each link between switches. Parallel links are paired in the order of their ports.
fn pair_directions(ports: &mut [EgressPort]) {
    let mut by_ends: BTreeMap<(SwitchId, SwitchId), Vec<usize>> = BTreeMap::new();
    for (index, port) in ports.iter().enumerate() {
        if let Node::Switch(other) = port.to {
            by_ends.entry((port.switch, other)).or_default().push(index);
        }
    }
    for ((from, to), forward) in &by_ends {
        let Some(backward) = by_ends.get(&(*to, *from)) else { continue };
        for (port, opposite) in forward.iter().zip(backward) {
            ports[*port].opposite = Some(*opposite);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::topology::{Edges, Link};
    use poseidon_types::Picos;

    const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

    #[test]
    fn every_link_between_switches_has_two_directions() {
        let topology = Topology::fat_tree(4, LINK);
        let wiring = Wiring::new(&topology).expect("the network is small");
        // 16 ports to hosts, and two directions of 16 rack links and 16 core links.
        assert_eq!(wiring.ports.len(), 16 + 32 + 32);
        for (index, port) in wiring.ports.iter().enumerate() {
            assert_eq!(wiring.index(SwitchPort::new(port.switch, port.port)), Some(index));
            match (port.to, port.opposite) {
                (Node::Host(_), None) => {}
                (Node::Switch(other), Some(opposite)) => {
                    let opposite = wiring.ports[opposite];
                    assert_eq!((opposite.switch, opposite.to), (other, Node::Switch(port.switch)));
                    assert_eq!(opposite.opposite, Some(index));
                }
                (to, opposite) => panic!("{to} has {opposite:?}"),
            }
        }
        assert_eq!(wiring.index(SwitchPort::new(SwitchId::new(0), PortId::new(4))), None);
        assert_eq!(wiring.index(SwitchPort::new(SwitchId::new(99), PortId::new(0))), None);
    }

    #[test]
    fn parallel_links_are_paired_in_order() {
        let text = "h0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\ns0 s1 2 Gbps 1 us";
        let wiring = Wiring::new(&Topology::Edges(Edges::parse(text).expect("the list is valid")))
            .expect("the network is small");
        let opposites: Vec<_> = wiring.ports.iter().map(|port| port.opposite).collect();
        assert_eq!(opposites, [None, Some(4), Some(5), None, Some(1), Some(2)]);
        assert!(
            wiring.ports.iter().all(|port| port.opposite.is_none_or(|o| wiring.ports[o].rate == port.rate))
        );
    }

    #[test]
    fn circuit_switch_of_a_rotor_has_one_link_per_rack() {
        let wiring = Wiring::new(&Topology::powertcp_rotor(Picos::ZERO)).expect("the network is small");
        assert_eq!((wiring.switches, wiring.circuits), (27, Some(SwitchId::new(26))));
        let circuits = Node::Switch(SwitchId::new(26));
        let ports: Vec<_> = wiring.ports.iter().filter(|port| port.to == circuits).collect();
        assert_eq!(ports.len(), 25);
        assert!(ports.iter().all(|port| port.port == PortId::new(11)), "after 10 hosts and the packet link");
        assert_eq!(wiring.tiers(&wiring.neighbors())[25..], [2, 2]);
    }

    #[test]
    fn networks_beyond_the_limit_are_rejected() {
        let error = Wiring::new(&Topology::fat_tree(128, LINK)).expect_err("the network has 524,288 hosts");
        assert!(error.to_string().contains("500,000"), "{error}");
    }
}
