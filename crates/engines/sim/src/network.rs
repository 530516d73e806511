//! The network: port peers, wires and routes.
//!
//! Switches come first in the node numbering (racks, aggregation, cores; servers, leaves, spines; or along
//! the chain), followed by racks of hosts. A rack is one node with one port per host. Its hosts connect to the first ports of the
//! switch that has the same number as the rack. In regular topologies, wires and routes are computed from
//! these numbers instead of being stored. Only a network described by a list of links has route tables.

use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::topology::{Chain, Edges, Node, Rails, RailsTier, Rotor, Tier, Tiers};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::{HostId, Picos, PortId, SwitchId};

use crate::hash::{low32, splitmix64};
use crate::node::NodeId;
use crate::packet::Packet;
use crate::wire::{LinkRates, Wire, slow_rate};

/// A host's position in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostLocation {
    pub(crate) rack: u32,
    /// The host's index within its rack.
    pub(crate) slot: u16,
    pub(crate) pod: u16,
}

/// A port's link, and the node and port at its far end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortPeer {
    pub(crate) link: Link,
    pub(crate) node: NodeId,
    pub(crate) port: PortId,
}

impl PortPeer {
    const fn new(link: Link, node: NodeId, port: u32) -> Self {
        Self { link, node, port: PortId::new(port) }
    }
}

/// A plan's network.
#[derive(Debug)]
pub(crate) struct Network<'a> {
    topology: &'a Topology,
    seed: u64,
    /// The delay from the arrival of a packet's last bit at a switch until the packet is enqueued.
    pub(crate) pipeline: Picos,
    switches: u32,
    pub(crate) racks: u32,
    /// The number of switches directly above the racks: aggregation switches, or leaves of rails.
    middle_switches: u32,
    rates: LinkRates,
    route_tables: Option<RouteTables>,
    /// The smallest delay to which a link changes, or [`Picos::MAX`].
    min_later_delay: Picos,
}

/// The routes of a network described by a list of links.
#[derive(Debug)]
struct RouteTables {
    /// The first host of each rack. The final entry is the number of hosts.
    first_host: Vec<u32>,
    /// For each switch and destination, the index of the first next hop in `ports`. A final entry marks the
    /// end.
    offsets: Vec<u32>,
    ports: Vec<u16>,
}

impl<'a> Network<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let topology = &plan.topology;
        let switches = topology.switches();
        let (racks, route_tables) = match topology {
            Topology::Tiers(t) => (t.pods * t.racks, None),
            Topology::Chain(c) => (c.switches, None),
            Topology::Rotor(r) => (r.racks, None),
            Topology::Rails(r) => (r.servers, None),
            Topology::Edges(e) => (switches, Some(RouteTables::new(e))),
        };
        let later_rates = plan.link_changes.iter().filter_map(|change| match change.event {
            LinkEvent::Rate(rate) => Some(rate),
            LinkEvent::Down | LinkEvent::Up | LinkEvent::Delay(_) => None,
        });
        let slow_rates = plan.slow_ports.iter().filter_map(|slow| {
            let (_, link) = *topology.ports(slow.switch).get(slow.port.index())?;
            Some(slow_rate(link.rate, slow.divisor))
        });
        let links = topology.links();
        let rates = links.iter().map(|link| link.rate).chain(later_rates).chain(slow_rates);
        let rates = LinkRates::new(rates);
        let pipeline = plan.switch.pipeline;
        let later_delays = plan.link_changes.iter().filter_map(|change| match change.event {
            LinkEvent::Delay(delay) => Some(delay),
            LinkEvent::Down | LinkEvent::Up | LinkEvent::Rate(_) => None,
        });
        let min_later_delay = later_delays.min().unwrap_or(Picos::MAX);
        let middle_switches = match topology {
            Topology::Tiers(t) => t.pods * t.aggregation,
            Topology::Rails(r) => r.leaves(),
            Topology::Chain(_) | Topology::Rotor(_) | Topology::Edges(_) => 0,
        };
        let seed = plan.seed;
        Self {
            topology,
            seed,
            pipeline,
            switches,
            racks,
            middle_switches,
            rates,
            route_tables,
            min_later_delay,
        }
    }

    /// Returns the number of switches.
    pub(crate) const fn switches(&self) -> u32 {
        self.switches
    }

    pub(crate) fn switch_ids(&self) -> impl DoubleEndedIterator<Item = SwitchId> + use<> {
        (0..self.switches).map(SwitchId::new)
    }

    pub(crate) fn port_ids(&self, switch: SwitchId) -> impl DoubleEndedIterator<Item = PortId> + use<> {
        (0..self.port_count(switch)).map(PortId::new)
    }

    #[inline]
    pub(crate) const fn is_switch(&self, node: NodeId) -> bool {
        node.get() < self.switches
    }

    /// Returns all link rates that occur during the run.
    pub(crate) const fn rates(&self) -> &LinkRates {
        &self.rates
    }

    /// Returns the rotor parameters if the topology is a rotor.
    pub(crate) const fn rotor(&self) -> Option<&'a Rotor> {
        match self.topology {
            Topology::Rotor(rotor) => Some(rotor),
            Topology::Tiers(_) | Topology::Chain(_) | Topology::Rails(_) | Topology::Edges(_) => None,
        }
    }

    /// Returns the host numbers in a rack.
    pub(crate) fn hosts_in(&self, rack: u32) -> core::ops::Range<u32> {
        let hosts_per_rack = match (self.topology, &self.route_tables) {
            (_, Some(tables)) => {
                return tables.first_host[rack as usize]..tables.first_host[rack as usize + 1];
            }
            (Topology::Tiers(t), None) => t.hosts,
            (Topology::Chain(c), None) => c.hosts,
            (Topology::Rotor(r), None) => r.hosts,
            (Topology::Rails(r), None) => r.gpus,
            (Topology::Edges(_), None) => 0,
        };
        rack * hosts_per_rack..(rack + 1) * hosts_per_rack
    }

    /// Returns a host's position.
    pub(crate) fn locate(&self, host: HostId) -> HostLocation {
        let number = host.get();
        let (rack, slot, pod) = match self.topology {
            Topology::Tiers(t) => (number / t.hosts, number % t.hosts, number / t.hosts / t.racks),
            Topology::Chain(c) => (number / c.hosts, number % c.hosts, 0),
            Topology::Rotor(r) => (number / r.hosts, number % r.hosts, 0),
            Topology::Rails(r) => {
                let server = number / r.gpus;
                (server, number % r.gpus, server / r.servers_per_leaf)
            }
            Topology::Edges(e) => {
                let rack = e.switch_of(host).get();
                (rack, number - self.hosts_in(rack).start, 0)
            }
        };
        let narrow = |x: u32| u16::try_from(x).expect("the plan was validated");
        HostLocation { rack, slot: narrow(slot), pod: narrow(pod) }
    }

    /// Returns the wire from a host to its switch.
    pub(crate) fn host_wire(&self, host: HostId) -> Wire {
        let location = self.locate(host);
        let (node, port) = (NodeId::new(location.rack), PortId::new(u32::from(location.slot)));
        Wire::new(node, port, self.topology.host_link(host), self.pipeline, &self.rates)
    }

    /// Returns the number of ports on a switch.
    pub(crate) fn port_count(&self, switch: SwitchId) -> u32 {
        match self.topology {
            Topology::Tiers(t) => match t.tier(switch) {
                Tier::Rack { .. } => t.hosts.saturating_add(t.aggregation),
                Tier::Aggregation { .. } => t.racks.saturating_add(t.cores),
                Tier::Core { .. } => t.pods,
            },
            Topology::Chain(c) => {
                let neighbours = u32::from(switch.get() > 0) + u32::from(switch.get() + 1 < c.switches);
                c.hosts.saturating_add(neighbours)
            }
            Topology::Rotor(r) => {
                if switch.get() < r.racks {
                    r.hosts.saturating_add(2)
                } else {
                    r.racks
                }
            }
            Topology::Rails(r) => match r.tier(switch) {
                RailsTier::Server => r.gpus.saturating_mul(2),
                RailsTier::Leaf { group, .. } => r.spines.saturating_add(servers_in(r, group)),
                RailsTier::Spine { .. } => r.leaves(),
            },
            Topology::Edges(e) => u32::try_from(e.ports(switch).len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the link and peer of a switch port.
    pub(crate) fn peer_of(&self, switch: SwitchId, port: PortId) -> PortPeer {
        match self.topology {
            Topology::Tiers(t) => self.peer_in_tiers(t, switch, port.get()),
            Topology::Chain(c) => self.peer_in_chain(c, switch.get(), port.get()),
            Topology::Rotor(r) => self.peer_in_rotor(r, switch.get(), port.get()),
            Topology::Rails(r) => self.peer_in_rails(r, switch, port.get()),
            Topology::Edges(e) => {
                let (peer, link) = e.ports(switch)[port.index()];
                match peer {
                    Node::Host(host) => {
                        let rack = switch.get();
                        PortPeer::new(link, self.rack_node(rack), host.get() - self.hosts_in(rack).start)
                    }
                    Node::Switch(other) => {
                        PortPeer { link, node: other.into(), port: matching_port(e, switch, other, port) }
                    }
                }
            }
        }
    }

    /// Returns the wire attached to a switch port. A wire to a host has no pipeline delay.
    pub(crate) fn wire(&self, switch: SwitchId, port: PortId) -> Wire {
        let peer = self.peer_of(switch, port);
        let pipeline = if self.is_switch(peer.node) { self.pipeline } else { Picos::ZERO };
        Wire::new(peer.node, peer.port, peer.link, pipeline, &self.rates)
    }

    /// Returns the node that represents a rack.
    #[inline]
    pub(crate) const fn rack_node(&self, rack: u32) -> NodeId {
        NodeId::new(self.switches + rack)
    }

    /// Returns the smallest delay into any switch. No switch can influence another switch sooner than this.
    /// PFC frames skip the pipeline.
    pub(crate) fn min_delay_into_switch(&self, with_pfc: bool) -> Picos {
        let pipeline = if with_pfc { Picos::ZERO } else { self.pipeline };
        let mut min_delay = self.min_later_delay;
        for switch in self.switch_ids() {
            for port in self.port_ids(switch) {
                // A host's link has the same delay in both directions.
                min_delay = min_delay.min(self.peer_of(switch, port).link.delay);
            }
        }
        (min_delay + pipeline).max(Picos::new(1))
    }

    /// Returns a node's shard. Each tier is divided evenly among the shards: racks and their switches, the switches
    /// above them, and the rest. A pod's aggregation switches are in the shard of its racks, so a packet changes
    /// shards only near a core switch.
    pub(crate) fn shard_of(&self, node: NodeId, shards: u32) -> u32 {
        let (switches, racks) = (self.switches, self.racks);
        let number = if self.is_switch(node) { node.get() } else { node.get() - switches };
        let middle_end = racks + self.middle_switches;
        let (position, total) = if number < racks {
            (number, racks)
        } else if number < middle_end {
            (number - racks, self.middle_switches)
        } else {
            (number - middle_end, switches - middle_end)
        };
        u32::try_from(u64::from(position) * u64::from(shards) / u64::from(total.max(1))).unwrap_or(0)
    }

    /// Returns a switch's routing parameters.
    pub(crate) fn switch_routes(&self, switch: SwitchId) -> SwitchRoutes {
        match self.topology {
            Topology::Tiers(t) => match t.tier(switch) {
                Tier::Rack { .. } => SwitchRoutes::Rack { first_uplink: t.hosts, uplinks: t.aggregation },
                Tier::Aggregation { pod, .. } => SwitchRoutes::Aggregation {
                    pod,
                    first_rack: pod * t.racks,
                    first_uplink: t.racks,
                    uplinks: t.cores,
                },
                Tier::Core { .. } => SwitchRoutes::Core,
            },
            Topology::Chain(c) => {
                SwitchRoutes::Chain { left: c.hosts, right: c.hosts + u32::from(switch.get() > 0) }
            }
            Topology::Rotor(r) if switch.get() == r.racks => SwitchRoutes::RotorPacketSwitch,
            Topology::Rotor(r) => SwitchRoutes::Rack { first_uplink: r.hosts, uplinks: 1 },
            Topology::Rails(r) => match r.tier(switch) {
                RailsTier::Server => SwitchRoutes::Server { first_rail: r.gpus },
                // A group of servers is a pod with one aggregation switch per rail.
                RailsTier::Leaf { group, .. } => SwitchRoutes::Aggregation {
                    pod: group,
                    first_rack: group * r.servers_per_leaf,
                    first_uplink: servers_in(r, group),
                    uplinks: r.spines,
                },
                RailsTier::Spine { .. } => SwitchRoutes::Spine { rails: r.gpus },
            },
            Topology::Edges(_) => SwitchRoutes::Table,
        }
    }

    /// Returns the egress port for a packet. ECMP chooses among equal-cost ports by hashing the packet's
    /// entropy. Later attempts return the remaining equal-cost ports and then `None`.
    #[inline]
    pub(crate) fn route(
        &self,
        switch: SwitchId,
        routes: SwitchRoutes,
        packet: &Packet,
        attempt: u32,
    ) -> Option<PortId> {
        let single_port = |port: u32| (attempt == 0).then_some(port);
        let port = match routes {
            SwitchRoutes::Rack { first_uplink, uplinks } => {
                if packet.dst_rack == switch.get() {
                    single_port(u32::from(packet.dst_slot))
                } else {
                    self.ecmp_choice(switch, packet, attempt, uplinks).map(|choice| first_uplink + choice)
                }
            }
            SwitchRoutes::Aggregation { pod, first_rack, first_uplink, uplinks } => {
                if u32::from(packet.dst_pod) == pod {
                    single_port(packet.dst_rack - first_rack)
                } else {
                    self.ecmp_choice(switch, packet, attempt, uplinks).map(|choice| first_uplink + choice)
                }
            }
            SwitchRoutes::Core => single_port(u32::from(packet.dst_pod)),
            SwitchRoutes::RotorPacketSwitch => single_port(packet.dst_rack),
            SwitchRoutes::Chain { left, right } => match packet.dst_rack.cmp(&switch.get()) {
                core::cmp::Ordering::Equal => single_port(u32::from(packet.dst_slot)),
                core::cmp::Ordering::Less => single_port(left),
                core::cmp::Ordering::Greater => single_port(right),
            },
            SwitchRoutes::Table => {
                if packet.dst_rack == switch.get() {
                    single_port(u32::from(packet.dst_slot))
                } else {
                    let next_hops =
                        self.route_tables.as_ref()?.next_hops(switch, packet.dst_rack, self.switches);
                    let choices = u32::try_from(next_hops.len()).ok()?;
                    let choice = self.ecmp_choice(switch, packet, attempt, choices)?;
                    next_hops.get(choice as usize).map(|port| u32::from(*port))
                }
            }
            SwitchRoutes::Server { first_rail } => {
                let is_local = packet.dst_rack == switch.get();
                single_port(u32::from(packet.dst_slot) + if is_local { 0 } else { first_rail })
            }
            SwitchRoutes::Spine { rails } => {
                single_port(u32::from(packet.dst_pod) * rails + u32::from(packet.dst_slot))
            }
        };
        port.map(PortId::new)
    }

    /// Chooses one of `choices` equal-cost ports by hashing the packet's entropy and the switch id. Each
    /// later attempt returns the next port in cyclic order.
    #[inline]
    fn ecmp_choice(&self, switch: SwitchId, packet: &Packet, attempt: u32, choices: u32) -> Option<u32> {
        let hash = splitmix64(self.seed ^ (u64::from(switch.get()) << 32) ^ u64::from(packet.entropy));
        // The high half of the product is uniformly distributed and requires no division.
        let first = low32(((hash >> 32) * u64::from(choices)) >> 32);
        if attempt == 0 && choices > 0 {
            return Some(first);
        }
        (attempt < choices).then(|| (first + attempt) % choices)
    }

    fn peer_in_tiers(&self, t: &Tiers, switch: SwitchId, port: u32) -> PortPeer {
        let (racks, aggregations) = (t.pods * t.racks, t.pods * t.aggregation);
        match t.tier(switch) {
            Tier::Rack { .. } if port < t.hosts => {
                PortPeer::new(t.host_link, self.rack_node(switch.get()), port)
            }
            Tier::Rack { pod, position } => {
                let aggregation = racks + pod * t.aggregation + (port - t.hosts);
                PortPeer::new(t.rack_link, NodeId::new(aggregation), position)
            }
            Tier::Aggregation { pod, group } if port < t.racks => {
                PortPeer::new(t.rack_link, NodeId::new(pod * t.racks + port), t.hosts + group)
            }
            Tier::Aggregation { pod, group } => {
                let core = racks + aggregations + group * t.cores + (port - t.racks);
                PortPeer::new(t.core_link, NodeId::new(core), pod)
            }
            Tier::Core { group, member } => {
                let aggregation = racks + port * t.aggregation + group;
                PortPeer::new(t.core_link, NodeId::new(aggregation), t.racks + member)
            }
        }
    }

    const fn peer_in_chain(&self, c: &Chain, switch: u32, port: u32) -> PortPeer {
        if port < c.hosts {
            return PortPeer::new(c.host_link, self.rack_node(switch), port);
        }
        if switch > 0 && port == c.hosts {
            // The left neighbour's right-hand port follows its left-hand port, if any.
            return PortPeer::new(c.middle_link, NodeId::new(switch - 1), c.hosts + (switch > 1) as u32);
        }
        PortPeer::new(c.middle_link, NodeId::new(switch + 1), c.hosts)
    }

    const fn peer_in_rotor(&self, r: &Rotor, switch: u32, port: u32) -> PortPeer {
        if switch == r.racks {
            PortPeer::new(r.packet_link, NodeId::new(port), r.hosts)
        } else if port < r.hosts {
            PortPeer::new(r.host_link, self.rack_node(switch), port)
        } else if port == r.hosts {
            PortPeer::new(r.packet_link, NodeId::new(r.racks), switch)
        } else {
            // A circuit's peer changes over time, but packets always arrive at the peer's circuit port.
            PortPeer::new(r.circuit_link, NodeId::new(switch), r.hosts + 1)
        }
    }

    fn peer_in_rails(&self, r: &Rails, switch: SwitchId, port: u32) -> PortPeer {
        match r.tier(switch) {
            RailsTier::Server if port < r.gpus => {
                PortPeer::new(r.local_link, self.rack_node(switch.get()), port)
            }
            RailsTier::Server => {
                let (group, position) =
                    (switch.get() / r.servers_per_leaf, switch.get() % r.servers_per_leaf);
                PortPeer::new(r.rail_link, NodeId::new(r.leaf(group, port - r.gpus)), position)
            }
            RailsTier::Leaf { group, rail } => match port.checked_sub(servers_in(r, group)) {
                None => {
                    let server = group * r.servers_per_leaf + port;
                    PortPeer::new(r.rail_link, NodeId::new(server), r.gpus + rail)
                }
                Some(position) => {
                    PortPeer::new(r.spine_link, NodeId::new(r.spine(position)), group * r.gpus + rail)
                }
            },
            RailsTier::Spine { position } => {
                let (group, rail) = (port / r.gpus, port % r.gpus);
                let peer_port = servers_in(r, group) + position;
                PortPeer::new(r.spine_link, NodeId::new(r.leaf(group, rail)), peer_port)
            }
        }
    }
}

/// Returns the number of servers in a group.
fn servers_in(r: &Rails, group: u32) -> u32 {
    let servers = r.servers_in(group);
    servers.end - servers.start
}

/// A switch's routing parameters, computed once so that forwarding a packet requires no division.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SwitchRoutes {
    /// The first ports lead to hosts, and the remaining ports are equal-cost uplinks.
    Rack { first_uplink: u32, uplinks: u32 },
    /// The first ports lead to the pod's racks, and the remaining ports are equal-cost uplinks.
    Aggregation { pod: u32, first_rack: u32, first_uplink: u32, uplinks: u32 },
    /// Each port leads to one pod.
    Core,
    /// The packet switch of a rotor. Each port leads to one rack.
    RotorPacketSwitch,
    /// The first ports lead to hosts, and the remaining ports lead to neighbours. The first switch has no
    /// left neighbour.
    Chain { left: u32, right: u32 },
    /// The switch uses a route table.
    Table,
    /// A server of a rail-optimised network. The first ports lead to GPUs, and the remaining ports lead to
    /// one rail each. A packet for another server takes the rail of its destination.
    Server { first_rail: u32 },
    /// A spine switch of a rail-optimised network. Each port leads to the leaf of one group and rail.
    Spine { rails: u32 },
}

/// Returns the port of `other` that is connected to the given port of `switch`. The n-th link from `switch`
/// to `other` is also the n-th link from `other` to `switch`.
fn matching_port(e: &Edges, switch: SwitchId, other: SwitchId, port: PortId) -> PortId {
    let ports_between = |from: SwitchId, to: SwitchId| {
        let ports = (0..).map(PortId::new).zip(e.ports(from));
        ports.filter(move |(_, (peer, _))| *peer == Node::Switch(to)).map(|(port, _)| port)
    };
    let rank = ports_between(switch, other).take_while(|candidate| *candidate != port).count();
    ports_between(other, switch).nth(rank).expect("a link has two ends")
}

impl RouteTables {
    fn new(e: &Edges) -> Self {
        let switches = e.switches();
        let mut first_host = vec![0; switches as usize + 1];
        for host in (0..e.hosts()).map(HostId::new) {
            first_host[e.switch_of(host).index() + 1] += 1;
        }
        for rack in 0..switches as usize {
            first_host[rack + 1] += first_host[rack];
        }
        let switch_ids = || (0..switches).map(SwitchId::new);
        let distances_to: Vec<Vec<u32>> = switch_ids().map(|destination| e.distances(destination)).collect();
        let mut tables = Self { first_host, offsets: vec![0], ports: Vec::new() };
        for switch in switch_ids() {
            for distances in &distances_to {
                let next_hops = (0_u32..).zip(e.ports(switch)).filter(|(_, (peer, _))| match peer {
                    Node::Host(_) => false,
                    Node::Switch(other) => distances[other.index()] < distances[switch.index()],
                });
                // The simulator rejects switches whose port numbers do not fit in 16 bits.
                tables.ports.extend(next_hops.map(|(port, _)| u16::try_from(port).unwrap_or(u16::MAX)));
                tables.offsets.push(u32::try_from(tables.ports.len()).expect("fewer than 2^32 routes"));
            }
        }
        tables
    }

    /// Returns the ports of `switch` that lie on shortest paths to the switch of rack `destination`.
    fn next_hops(&self, switch: SwitchId, destination: u32, switches: u32) -> &[u16] {
        let row = (switch.get() * switches + destination) as usize;
        &self.ports[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_testkit::plans::{self, LINK};
    use poseidon_types::BitRate;

    /// Five servers of three GPUs, in groups of two, two and one.
    const RAILS: Rails = Rails {
        servers: 5,
        gpus: 3,
        servers_per_leaf: 2,
        spines: 2,
        local_link: Link { rate: BitRate::from_gbps(900), delay: Picos::new(100_000) },
        rail_link: LINK,
        spine_link: Link { rate: BitRate::from_gbps(800), delay: Picos::new(700_000) },
    };

    #[test]
    fn pods_stay_whole_and_each_tier_is_divided_evenly() {
        let plan = plans::plan(Topology::fat_tree(8, LINK), "fixed", &[]);
        let network = Network::new(&plan);
        for shards in [1, 2, 4, 8] {
            let shard_of = |switch: u32| network.shard_of(SwitchId::new(switch).into(), shards);
            for pod in 0..8 {
                // Four rack switches and four aggregation switches per pod.
                let [racks, aggregation] = [4 * pod..4 * pod + 4, 32 + 4 * pod..32 + 4 * pod + 4];
                assert!(racks.chain(aggregation).all(|switch| shard_of(switch) == pod * shards / 8));
            }
            let in_shard = |shard| (64..80).filter(|core| shard_of(*core) == shard).count();
            assert!((0..shards).all(|shard| in_shard(shard) == 16 / shards as usize));
        }
    }

    #[test]
    fn both_ends_of_a_link_agree_with_the_topology() {
        let chain = Chain { switches: 4, hosts: 2, host_link: LINK, middle_link: LINK };
        let edges = Topology::powertcp_fat_tree().to_edges().expect("the network has a list of links");
        for topology in [
            Topology::powertcp_fat_tree(),
            Topology::poseidon_clos(3),
            Topology::Chain(chain),
            Topology::Edges(edges),
            Topology::Rails(RAILS),
            Topology::Rails(Rails { servers_per_leaf: 8, spines: 0, ..RAILS }),
        ] {
            let plan = plans::plan(topology, "fixed", &[]);
            let network = Network::new(&plan);
            for switch in network.switch_ids() {
                let ports = plan.topology.ports(switch);
                assert_eq!(network.port_count(switch) as usize, ports.len());
                for (port, (neighbor, link)) in (0..).map(PortId::new).zip(ports) {
                    let peer = network.peer_of(switch, port);
                    assert_eq!(peer.link, link, "{switch} {port}");
                    match neighbor {
                        Node::Host(host) => {
                            let location = network.locate(host);
                            let slot = PortId::new(u32::from(location.slot));
                            assert_eq!((peer.node, peer.port), (network.rack_node(location.rack), slot));
                        }
                        Node::Switch(neighbor) => {
                            assert_eq!(peer.node, neighbor.into(), "{switch} {port}");
                            let back = network.peer_of(neighbor, peer.port);
                            assert_eq!((back.node, back.port), (switch.into(), port), "{switch} {port}");
                        }
                    }
                }
            }
        }
    }
}
