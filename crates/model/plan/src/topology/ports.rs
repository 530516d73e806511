//! The neighbors of a switch.

use super::{Link, Node, RailsTier, Tier, Topology};
use core::ops::Range;
use poseidon_types::{HostId, SwitchId};

/// A port's neighbor and link.
type Port = (Node, Link);

fn to_hosts(hosts: Range<u32>, link: Link) -> impl Iterator<Item = Port> {
    hosts.map(move |host| (Node::Host(HostId::new(host)), link))
}

fn to_switches(switches: Range<u32>, link: Link) -> impl Iterator<Item = Port> {
    switches.map(move |switch| to_switch(switch, link))
}

const fn to_switch(switch: u32, link: Link) -> Port {
    (Node::Switch(SwitchId::new(switch)), link)
}

impl Topology {
    /// Returns the neighbor and the link on each port of a switch. Ports to hosts come first, followed by ports to
    /// lower tiers and ports to higher tiers. The circuit ports of a rotor, which come last, are omitted because their
    /// neighbors change.
    pub fn ports(&self, switch: SwitchId) -> Vec<(Node, Link)> {
        let number = switch.get();
        let hosts_of = |hosts: u32, link| to_hosts(number * hosts..(number + 1) * hosts, link);
        match self {
            Self::Tiers(t) => {
                let (racks, aggregations) = (t.pods * t.racks, t.pods * t.aggregation);
                match t.tier(switch) {
                    Tier::Rack { pod, .. } => {
                        let first = racks + pod * t.aggregation;
                        let uplinks = to_switches(first..first + t.aggregation, t.rack_link);
                        hosts_of(t.hosts, t.host_link).chain(uplinks).collect()
                    }
                    Tier::Aggregation { pod, group } => {
                        let downlinks = to_switches(pod * t.racks..(pod + 1) * t.racks, t.rack_link);
                        let first = racks + aggregations + group * t.cores;
                        downlinks.chain(to_switches(first..first + t.cores, t.core_link)).collect()
                    }
                    Tier::Core { group, .. } => {
                        let pods = 0..t.pods;
                        pods.map(|pod| to_switch(racks + pod * t.aggregation + group, t.core_link)).collect()
                    }
                }
            }
            Self::Chain(c) => {
                let right = Some(number + 1).filter(|right| *right < c.switches);
                let neighbors = number.checked_sub(1).into_iter().chain(right);
                let neighbors = neighbors.map(|neighbor| to_switch(neighbor, c.middle_link));
                hosts_of(c.hosts, c.host_link).chain(neighbors).collect()
            }
            Self::Rotor(r) if number == r.racks => to_switches(0..r.racks, r.packet_link).collect(),
            Self::Rotor(r) => {
                hosts_of(r.hosts, r.host_link).chain([to_switch(r.racks, r.packet_link)]).collect()
            }
            Self::Rails(r) => match r.tier(switch) {
                RailsTier::Server => {
                    let first = r.leaf(number / r.servers_per_leaf, 0);
                    let rails = to_switches(first..first + r.gpus, r.rail_link);
                    hosts_of(r.gpus, r.local_link).chain(rails).collect()
                }
                RailsTier::Leaf { group, .. } => {
                    let spine = to_switches(r.spine(0)..r.spine(r.spines), r.spine_link);
                    to_switches(r.servers_in(group), r.rail_link).chain(spine).collect()
                }
                RailsTier::Spine { .. } => to_switches(r.servers..r.spine(0), r.spine_link).collect(),
            },
            Self::Edges(e) => e.ports(switch).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Chain, Rails};
    use poseidon_types::{BitRate, Picos};

    #[test]
    fn ports_match_the_list_of_links() {
        let link = |gbps| Link { rate: BitRate::from_gbps(gbps), delay: Picos::new(1_000) };
        let rails = Rails {
            servers: 5,
            gpus: 3,
            servers_per_leaf: 2,
            spines: 2,
            local_link: link(900),
            rail_link: link(400),
            spine_link: link(800),
        };
        let chain = Chain { switches: 4, hosts: 2, host_link: link(1), middle_link: link(2) };
        for topology in [
            Topology::star(3, link(100)),
            Topology::powertcp_fat_tree(),
            Topology::poseidon_clos(3),
            Topology::Chain(chain),
            Topology::Rails(rails),
            Topology::Rails(Rails { spines: 0, servers_per_leaf: 9, ..rails }),
        ] {
            let list = topology.to_edges().expect("the network has a list of links");
            for switch in topology.switch_ids() {
                assert_eq!(topology.ports(switch), list.ports(switch), "{switch} of {topology:?}");
            }
        }
    }

    #[test]
    fn packet_network_of_a_rotor_has_a_port_per_rack() {
        let rotor = Topology::powertcp_rotor(Picos::ZERO);
        assert_eq!(rotor.ports(SwitchId::new(25)).len(), 25);
        let uplink = rotor.ports(SwitchId::new(3)).pop().map(|(neighbor, _)| neighbor);
        assert_eq!(uplink, Some(Node::Switch(SwitchId::new(25))));
    }
}
