//! Hosts, switches and the links between them.
//!
//! Most networks have a regular shape. Their routes are computed from host numbers, so a network with 65,536 hosts
//! needs no routing table. Any other network is given as a list of links ([`Edges`]), and a breadth-first search
//! computes its routes. In a [`Rotor`], the links change during a run.
//!
//! Hosts are numbered from zero, rack by rack.

mod edges;
mod papers;
mod ports;
mod rails;
mod rotor;

pub use edges::{Edge, EdgeError, Edges, Node};
pub use rails::{Rails, RailsTier};
pub use rotor::Rotor;

use poseidon_types::{BitRate, HostId, Picos, PortId, SwitchId};

/// A full-duplex link. Both directions have the same rate and propagation delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The rate in each direction.
    pub rate: BitRate,
    /// The propagation delay.
    pub delay: Picos,
}

/// A switch port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchPort {
    /// The switch ID.
    pub switch: SwitchId,
    /// The port on that switch.
    pub port: PortId,
}

impl SwitchPort {
    /// Creates a reference to port `port` on `switch`.
    pub const fn new(switch: SwitchId, port: PortId) -> Self {
        Self { switch, port }
    }
}

/// A network topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A network with up to three tiers.
    ///
    /// A single rack without aggregation switches is a star, and a single pod is a leaf-spine network. A fat tree has
    /// `k` pods, each with `k/2` racks and `k/2` aggregation switches. It has `k/2` cores per aggregation switch.
    ///
    /// Each rack switch has a link to each aggregation switch in its pod. Aggregation switch `i` in each pod has a link
    /// to each core switch in group `i`.
    Tiers(Tiers),
    /// A chain of switches with hosts at each switch: a dumbbell (two switches) or a parking lot (three or more).
    Chain(Chain),
    /// Racks connected by a packet switch and a rotating circuit switch.
    Rotor(Rotor),
    /// Servers with several GPUs and NICs, connected by rails.
    Rails(Rails),
    /// An arbitrary network, described by a list of links.
    Edges(Edges),
}

/// A network with up to three tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// The number of pods.
    pub pods: u32,
    /// The number of racks per pod. Each rack has one switch.
    pub racks: u32,
    /// The number of hosts per rack.
    pub hosts: u32,
    /// The number of aggregation switches per pod. May be zero only if there is a single rack.
    pub aggregation: u32,
    /// The number of core switches per aggregation switch. May be zero only if there is a single pod.
    pub cores: u32,
    /// The links between hosts and rack switches.
    pub host_link: Link,
    /// The links between rack and aggregation switches.
    pub rack_link: Link,
    /// The links between aggregation and core switches.
    pub core_link: Link,
}

/// A switch's position in a network with up to three tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// A rack switch.
    Rack {
        /// The pod.
        pod: u32,
        /// The position in the pod.
        position: u32,
    },
    /// An aggregation switch.
    Aggregation {
        /// The pod.
        pod: u32,
        /// The position in the pod, which is also the group of core switches above it.
        group: u32,
    },
    /// A core switch.
    Core {
        /// The group, which has a link to one aggregation switch per pod.
        group: u32,
        /// The position in the group.
        member: u32,
    },
}

/// A chain of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The number of switches.
    pub switches: u32,
    /// The number of hosts at each switch.
    pub hosts: u32,
    /// The links between hosts and switches.
    pub host_link: Link,
    /// The links between neighboring switches.
    pub middle_link: Link,
}

impl Topology {
    /// Returns a star network, in which all hosts are connected to one switch.
    pub const fn star(hosts: u32, link: Link) -> Self {
        Self::Tiers(Tiers {
            pods: 1,
            racks: 1,
            hosts,
            aggregation: 0,
            cores: 0,
            host_link: link,
            rack_link: link,
            core_link: link,
        })
    }

    /// Returns a fat tree built from `k`-port switches, with `k³/4` hosts.
    pub const fn fat_tree(k: u32, link: Link) -> Self {
        let half = k / 2;
        Self::Tiers(Tiers {
            pods: k,
            racks: half,
            hosts: half,
            aggregation: half,
            cores: half,
            host_link: link,
            rack_link: link,
            core_link: link,
        })
    }

    /// Returns a dumbbell: two switches with `hosts` hosts each. Hosts `0..hosts` are connected to switch 0.
    pub const fn dumbbell(hosts: u32, host_link: Link, middle_link: Link) -> Self {
        Self::Chain(Chain { switches: 2, hosts, host_link, middle_link })
    }

    /// Returns the number of hosts, saturating at `u32::MAX`.
    pub fn hosts(&self) -> u32 {
        match self {
            Self::Tiers(t) => t.pods.saturating_mul(t.racks).saturating_mul(t.hosts),
            Self::Chain(c) => c.switches.saturating_mul(c.hosts),
            Self::Rotor(r) => r.racks.saturating_mul(r.hosts),
            Self::Rails(r) => r.servers.saturating_mul(r.gpus),
            Self::Edges(e) => e.hosts(),
        }
    }

    /// Returns the number of switches, saturating at `u32::MAX`.
    pub fn switches(&self) -> u32 {
        match self {
            Self::Tiers(t) => {
                let in_pods = t.pods.saturating_mul(t.racks.saturating_add(t.aggregation));
                in_pods.saturating_add(t.aggregation.saturating_mul(t.cores))
            }
            Self::Chain(c) => c.switches,
            Self::Rotor(r) => r.racks.saturating_add(1),
            Self::Rails(r) => r.servers.saturating_add(r.leaves()).saturating_add(r.spines),
            Self::Edges(e) => e.switches(),
        }
    }

    /// Returns the IDs of all hosts.
    pub fn host_ids(&self) -> impl DoubleEndedIterator<Item = HostId> + Clone + use<> {
        (0..self.hosts()).map(HostId::new)
    }

    /// Returns the IDs of all switches.
    pub fn switch_ids(&self) -> impl DoubleEndedIterator<Item = SwitchId> + Clone + use<> {
        (0..self.switches()).map(SwitchId::new)
    }

    /// Returns a host's link.
    pub fn host_link(&self, host: HostId) -> Link {
        match self {
            Self::Tiers(t) => t.host_link,
            Self::Chain(c) => c.host_link,
            Self::Rotor(r) => r.host_link,
            Self::Rails(r) => r.local_link,
            Self::Edges(e) => e.host_link(host),
        }
    }

    /// Returns the rate at which a host can send to another host. This is the rate of the host's link, or of the NIC
    /// behind that link if the NIC is slower.
    pub fn line_rate(&self, from: HostId, to: HostId) -> BitRate {
        match self {
            Self::Rails(r) if r.hops(from, to) > 2 => r.nic_rate(),
            Self::Rails(_) | Self::Tiers(_) | Self::Chain(_) | Self::Rotor(_) | Self::Edges(_) => {
                self.host_link(from).rate
            }
        }
    }

    /// Returns one link of each type in the network.
    pub fn links(&self) -> Vec<Link> {
        match self {
            Self::Tiers(t) => vec![t.host_link, t.rack_link, t.core_link],
            Self::Chain(c) => vec![c.host_link, c.middle_link],
            Self::Rotor(r) => vec![r.host_link, r.packet_link, r.circuit_link],
            Self::Rails(r) => vec![r.local_link, r.rail_link, r.spine_link],
            Self::Edges(e) => e.edges().iter().map(|edge| edge.link).collect(),
        }
    }

    /// Returns the links on a shortest path between two hosts, in order. In a rotor network, the path goes through the
    /// packet switch.
    pub fn links_between(&self, from: HostId, to: HostId) -> Vec<Link> {
        match self {
            Self::Tiers(t) => match t.hops(from, to) {
                2 => vec![t.host_link; 2],
                4 => vec![t.host_link, t.rack_link, t.rack_link, t.host_link],
                _ => vec![t.host_link, t.rack_link, t.core_link, t.core_link, t.rack_link, t.host_link],
            },
            Self::Chain(c) => {
                let hops = 2 + (from.get() / c.hosts).abs_diff(to.get() / c.hosts) as usize;
                let mut links = vec![c.middle_link; hops];
                (links[0], links[hops - 1]) = (c.host_link, c.host_link);
                links
            }
            Self::Rotor(r) => {
                if from.get() / r.hosts == to.get() / r.hosts {
                    vec![r.host_link; 2]
                } else {
                    vec![r.host_link, r.packet_link, r.packet_link, r.host_link]
                }
            }
            Self::Rails(r) => r.links_between(from, to),
            Self::Edges(e) => e.links_between(from, to),
        }
    }

    /// Returns the number of links on a shortest path between two hosts, which is one more than the number of switches.
    pub fn hops(&self, from: HostId, to: HostId) -> u32 {
        match self {
            Self::Tiers(t) => t.hops(from, to),
            Self::Chain(c) => 2 + (from.get() / c.hosts).abs_diff(to.get() / c.hosts),
            Self::Rails(r) => r.hops(from, to),
            Self::Rotor(_) | Self::Edges(_) => {
                u32::try_from(self.links_between(from, to).len()).unwrap_or(u32::MAX)
            }
        }
    }

    /// Converts the network to a list of links. Host and switch numbers stay the same.
    ///
    /// Returns `None` for a rotor, because its links change over time. For large networks, the list is large. The list
    /// does not describe the routes of [`Rails`], which use only one of several shortest paths.
    pub fn to_edges(&self) -> Option<Edges> {
        let host_edge = |host: HostId, hosts_per_switch: u32, link| Edge {
            a: Node::Host(host),
            b: Node::Switch(SwitchId::new(host.get() / hosts_per_switch)),
            link,
        };
        let switch_edge = |a: u32, b: u32, link| Edge {
            a: Node::Switch(SwitchId::new(a)),
            b: Node::Switch(SwitchId::new(b)),
            link,
        };
        let mut edges = Vec::new();
        match self {
            Self::Edges(e) => return Some(e.clone()),
            Self::Rotor(_) => return None,
            Self::Chain(c) => {
                edges.extend(self.host_ids().map(|host| host_edge(host, c.hosts, c.host_link)));
                edges.extend((1..c.switches).map(|right| switch_edge(right - 1, right, c.middle_link)));
            }
            Self::Rails(r) => {
                edges.extend(self.host_ids().map(|host| host_edge(host, r.gpus, r.local_link)));
                edges.extend(r.switch_edges());
            }
            Self::Tiers(t) => {
                edges.extend(self.host_ids().map(|host| host_edge(host, t.hosts, t.host_link)));
                let racks = t.pods * t.racks;
                for pod in 0..t.pods {
                    for group in 0..t.aggregation {
                        let aggregation = racks + pod * t.aggregation + group;
                        for rack in pod * t.racks..(pod + 1) * t.racks {
                            edges.push(switch_edge(rack, aggregation, t.rack_link));
                        }
                        for core in group * t.cores..(group + 1) * t.cores {
                            let core = racks + t.pods * t.aggregation + core;
                            edges.push(switch_edge(aggregation, core, t.core_link));
                        }
                    }
                }
            }
        }
        Edges::new(edges).ok()
    }

    /// Checks that the network is connected and does not have too many hosts or switches.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Tiers(t) => {
                if t.pods == 0 || t.racks == 0 || t.hosts == 0 {
                    return Err("there is no host: set pods, racks and hosts above zero");
                }
                if t.racks > 1 && t.aggregation == 0 {
                    return Err("racks are not connected: add aggregation switches");
                }
                if t.pods > 1 && (t.aggregation == 0 || t.cores == 0) {
                    return Err("pods are not connected: add core switches");
                }
            }
            Self::Chain(c) => {
                if c.switches == 0 || c.hosts == 0 {
                    return Err("there is no host: set switches and hosts above zero");
                }
            }
            Self::Rotor(r) => r.check()?,
            Self::Rails(r) => r.check()?,
            // `Edges::new` has already checked the network.
            Self::Edges(_) => {}
        }
        if self.hosts() > 1 << 24 || self.switches() > 1 << 24 {
            return Err("more than 16,777,216 hosts or switches");
        }
        Ok(())
    }
}

impl Tiers {
    /// Returns a switch's position. Rack switches come first, then aggregation switches by pod, then core switches by
    /// group.
    pub const fn tier(&self, switch: SwitchId) -> Tier {
        let (racks, aggregations) = (self.pods * self.racks, self.pods * self.aggregation);
        let number = switch.get();
        if number < racks {
            Tier::Rack { pod: number / self.racks, position: number % self.racks }
        } else if number < racks + aggregations {
            let aggregation = number - racks;
            Tier::Aggregation { pod: aggregation / self.aggregation, group: aggregation % self.aggregation }
        } else {
            let core = number - racks - aggregations;
            Tier::Core { group: core / self.cores, member: core % self.cores }
        }
    }

    const fn hops(&self, from: HostId, to: HostId) -> u32 {
        let (from_rack, to_rack) = (from.get() / self.hosts, to.get() / self.hosts);
        if from_rack == to_rack {
            2
        } else if from_rack / self.racks == to_rack / self.racks {
            4
        } else {
            6
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

    #[test]
    fn topologies_have_the_expected_sizes() {
        assert_eq!(Topology::fat_tree(8, LINK).hosts(), 128);
        assert_eq!(Topology::fat_tree(8, LINK).switches(), 80);
        assert_eq!(Topology::fat_tree(64, LINK).hosts(), 65_536);
        assert_eq!(Topology::star(17, LINK).switches(), 1);
        // VAI + SF section VI-A: 320 hosts in 20 racks, 20 aggregation switches and 16 spine switches.
        let vai_sf = Topology::Tiers(Tiers {
            pods: 5,
            racks: 4,
            hosts: 16,
            aggregation: 4,
            cores: 4,
            host_link: LINK,
            rack_link: LINK,
            core_link: LINK,
        });
        assert_eq!((vai_sf.hosts(), vai_sf.switches()), (320, 56));
    }

    #[test]
    fn paths_have_the_expected_number_of_hops() {
        let tree = Topology::fat_tree(4, LINK);
        let hops = |topology: &Topology, to| topology.hops(HostId::new(0), HostId::new(to));
        assert_eq!((hops(&tree, 1), hops(&tree, 2), hops(&tree, 15)), (2, 4, 6));
        let dumbbell = Topology::dumbbell(3, LINK, LINK);
        assert_eq!((hops(&dumbbell, 2), hops(&dumbbell, 3)), (2, 3));
    }

    #[test]
    fn link_list_describes_the_same_network() {
        let middle_link = Link { rate: BitRate::from_gbps(400), ..LINK };
        let chain = Chain { switches: 3, hosts: 2, host_link: LINK, middle_link };
        for topology in [
            Topology::star(5, LINK),
            Topology::fat_tree(4, LINK),
            Topology::Chain(chain),
            Topology::poseidon_clos(3),
            Topology::Rails(Rails {
                servers: 5,
                gpus: 2,
                servers_per_leaf: 2,
                spines: 2,
                local_link: Link { rate: BitRate::from_gbps(900), ..LINK },
                rail_link: LINK,
                spine_link: middle_link,
            }),
        ] {
            let list = Topology::Edges(topology.to_edges().expect("only a rotor has no edge list"));
            assert_eq!((list.hosts(), list.switches()), (topology.hosts(), topology.switches()));
            for from in topology.host_ids() {
                for to in topology.host_ids().filter(|to| *to != from) {
                    assert_eq!(list.links_between(from, to), topology.links_between(from, to), "{from} {to}");
                }
            }
        }
    }
}
