//! The network as built: who is behind which port, how long the way there is, and which port leads to a host.
//!
//! Switches are numbered first (racks, aggregation, cores; or along the chain), then racks of hosts: a rack is one node
//! with one port per host, behind the first ports of the switch of its number. Nothing of a shape is stored: wires and routes
//! follow from numbers. Only a network given link by link has tables.

use poseidon_plan::changes::LinkEvent;
use poseidon_plan::topology::{Chain, Edges, End, Rotor, Tiers};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::BitRate;

use crate::chance::{low_half, mix};
use crate::packet::Packet;
use crate::wire::Wire;

/// Where a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rack: u32,
    pub(crate) place: u16,
    pub(crate) pod: u16,
}

/// The network as built.
#[derive(Debug)]
pub(crate) struct Network<'a> {
    shape: &'a Topology,
    seed: u64,
    /// From the last bit of a packet into a switch to its place in a queue, ps.
    pub(crate) pipeline: u64,
    switches: u32,
    pub(crate) racks: u32,
    /// Every rate that a link has at any time, sorted.
    rates: Vec<BitRate>,
    tables: Option<Tables>,
}

/// Routes of a network that has no shape.
#[derive(Debug)]
struct Tables {
    /// The first host of each rack, and the number of hosts.
    first_host: Vec<u32>,
    /// Where the ports that lead nearer begin, by switch and goal; one more at the end.
    first: Vec<u32>,
    ports: Vec<u16>,
}

impl<'a> Network<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let shape = &plan.topology;
        let switches = shape.switches();
        let (racks, tables) = match shape {
            Topology::Tiers(t) => (t.pods * t.racks, None),
            Topology::Chain(c) => (c.switches, None),
            Topology::Rotor(r) => (r.racks, None),
            Topology::Edges(e) => (switches, Some(Tables::new(e))),
        };
        let later = plan.changes.iter().filter_map(|change| match change.what {
            LinkEvent::Rate(rate) => Some(rate),
            LinkEvent::Down | LinkEvent::Up => None,
        });
        let mut rates: Vec<BitRate> = shape.links().iter().map(|link| link.rate).chain(later).collect();
        rates.sort_unstable();
        rates.dedup();
        Self { shape, seed: plan.seed, pipeline: plan.switch.pipeline.get(), switches, racks, rates, tables }
    }

    pub(crate) const fn switches(&self) -> u32 {
        self.switches
    }

    /// Every rate that a link has at any time.
    pub(crate) fn rates(&self) -> &[BitRate] {
        &self.rates
    }

    /// The place of a rate among them.
    pub(crate) fn rate_code(&self, rate: BitRate) -> u16 {
        self.rates.binary_search(&rate).ok().and_then(|at| u16::try_from(at).ok()).unwrap_or(0)
    }

    /// The rotor, where the network is one.
    pub(crate) const fn rotor(&self) -> Option<&'a Rotor> {
        match self.shape {
            Topology::Rotor(rotor) => Some(rotor),
            Topology::Tiers(_) | Topology::Chain(_) | Topology::Edges(_) => None,
        }
    }

    /// The hosts of a rack.
    pub(crate) fn hosts_in(&self, rack: u32) -> core::ops::Range<u32> {
        let each = match (self.shape, &self.tables) {
            (_, Some(tables)) => {
                return tables.first_host[rack as usize]..tables.first_host[rack as usize + 1];
            }
            (Topology::Tiers(t), None) => t.hosts,
            (Topology::Chain(c), None) => c.hosts,
            (Topology::Rotor(r), None) => r.hosts,
            (Topology::Edges(_), None) => 0,
        };
        rack * each..(rack + 1) * each
    }

    /// Where a host is.
    pub(crate) fn place(&self, host: u32) -> Place {
        let (rack, place, pod) = match self.shape {
            Topology::Tiers(t) => (host / t.hosts, host % t.hosts, host / t.hosts / t.racks),
            Topology::Chain(c) => (host / c.hosts, host % c.hosts, 0),
            Topology::Rotor(r) => (host / r.hosts, host % r.hosts, 0),
            Topology::Edges(e) => {
                let rack = e.switch_of(host);
                (rack, host - self.hosts_in(rack).start, 0)
            }
        };
        let small = |x: u32| u16::try_from(x).expect("a plan with more was refused");
        Place { rack, place: small(place), pod: small(pod) }
    }

    /// The wire of a host.
    pub(crate) fn host_wire(&self, host: u32) -> Wire {
        let place = self.place(host);
        let link = self.shape.host_link(host);
        Wire::new(place.rack, u32::from(place.place), link, self.pipeline, self.rate_code(link.rate))
    }

    /// How many ports a switch has.
    pub(crate) fn ports(&self, switch: u32) -> u32 {
        match self.shape {
            Topology::Tiers(t) => match tier(t, switch) {
                Tier::Rack { .. } => t.hosts.saturating_add(t.aggregation),
                Tier::Aggregation { .. } => t.racks.saturating_add(t.cores),
                Tier::Core { .. } => t.pods,
            },
            Topology::Chain(c) => {
                let neighbours = u32::from(switch > 0) + u32::from(switch + 1 < c.switches);
                c.hosts.saturating_add(neighbours)
            }
            Topology::Rotor(r) => {
                if switch < r.racks {
                    r.hosts.saturating_add(2)
                } else {
                    r.racks
                }
            }
            Topology::Edges(e) => u32::try_from(e.ports(switch).len()).unwrap_or(u32::MAX),
        }
    }

    /// The link of a port of a switch, and what is behind it: a node and its port.
    pub(crate) fn behind(&self, switch: u32, port: u32) -> (Link, u32, u32) {
        match self.shape {
            Topology::Tiers(t) => self.behind_tiers(t, switch, port),
            Topology::Chain(c) => self.behind_chain(c, switch, port),
            Topology::Rotor(r) => {
                if switch == r.racks {
                    (r.packet_link, port, r.hosts)
                } else if port < r.hosts {
                    (r.host_link, self.rack_node(switch), port)
                } else if port == r.hosts {
                    (r.packet_link, r.racks, switch)
                } else {
                    // Whoever the circuit leads to, it arrives at the port of its circuit.
                    (r.circuit_link, switch, r.hosts + 1)
                }
            }
            Topology::Edges(e) => {
                let (end, link) = e.ports(switch)[port as usize];
                match end {
                    End::Host(host) => (link, self.rack_node(switch), host - self.hosts_in(switch).start),
                    End::Switch(other) => (link, other, twin(e, switch, other, port)),
                }
            }
        }
    }

    /// The wire of a port of a switch. A host has no pipeline.
    pub(crate) fn wire(&self, switch: u32, port: u32) -> Wire {
        let (link, node, far_port) = self.behind(switch, port);
        let pipeline = if node < self.switches { self.pipeline } else { 0 };
        Wire::new(node, far_port, link, pipeline, self.rate_code(link.rate))
    }

    /// The node of a rack of hosts.
    pub(crate) const fn rack_node(&self, rack: u32) -> u32 {
        self.switches + rack
    }

    /// The shortest time into a switch: no switch can influence another sooner. Pause frames do not pass the pipeline.
    pub(crate) fn shortest(&self, with_pauses: bool) -> u64 {
        let pipeline = if with_pauses { 0 } else { self.pipeline };
        let mut shortest = u64::MAX;
        for switch in 0..self.switches {
            for port in 0..self.ports(switch) {
                // A link to a host has the same delay the other way.
                shortest = shortest.min(self.behind(switch, port).0.delay.get());
            }
        }
        shortest.saturating_add(pipeline).max(1)
    }

    /// The shard of a node, of `shards`: racks in equal parts, each with its own switch; other switches spread evenly.
    pub(crate) fn shard_of(&self, node: u32, shards: u32) -> u32 {
        let (switches, racks) = (self.switches, self.racks);
        let rack = if node >= switches { node - switches } else { node };
        let (place, all) = if rack < racks { (rack, racks) } else { (rack - racks, switches - racks) };
        u32::try_from(u64::from(place) * u64::from(shards) / u64::from(all.max(1))).unwrap_or(0)
    }

    /// What a switch needs to know to choose a packet's way.
    pub(crate) fn crossroads(&self, switch: u32) -> Crossroads {
        match self.shape {
            Topology::Tiers(t) => match tier(t, switch) {
                Tier::Rack { .. } => Crossroads::Rack { first_up: t.hosts, ups: t.aggregation },
                Tier::Aggregation { pod, .. } => Crossroads::Aggregation {
                    pod,
                    first_rack: pod * t.racks,
                    first_up: t.racks,
                    ups: t.cores,
                },
                Tier::Core { .. } => Crossroads::Core,
            },
            Topology::Chain(c) => Crossroads::Chain { left: c.hosts, right: c.hosts + u32::from(switch > 0) },
            Topology::Rotor(r) if switch == r.racks => Crossroads::Middle,
            Topology::Rotor(r) => Crossroads::Rack { first_up: r.hosts, ups: 1 },
            Topology::Edges(_) => Crossroads::Table,
        }
    }

    /// The port of `switch` that leads on towards a packet's host. Where several are as good, one by the packet's entropy
    /// first, and the others in later turns; `None` when there are no more.
    #[inline]
    pub(crate) fn route(&self, switch: u32, here: Crossroads, packet: &Packet, turn: u32) -> Option<u32> {
        let one = |port: u32| (turn == 0).then_some(port);
        match here {
            Crossroads::Rack { first_up, ups } => {
                if packet.to_rack == switch {
                    return one(u32::from(packet.to_place));
                }
                self.any(switch, packet, turn, ups).map(|way| first_up + way)
            }
            Crossroads::Aggregation { pod, first_rack, first_up, ups } => {
                if u32::from(packet.to_pod) == pod {
                    return one(packet.to_rack - first_rack);
                }
                self.any(switch, packet, turn, ups).map(|way| first_up + way)
            }
            Crossroads::Core => one(u32::from(packet.to_pod)),
            Crossroads::Middle => one(packet.to_rack),
            Crossroads::Chain { left, right } => match packet.to_rack.cmp(&switch) {
                core::cmp::Ordering::Equal => one(u32::from(packet.to_place)),
                core::cmp::Ordering::Less => one(left),
                core::cmp::Ordering::Greater => one(right),
            },
            Crossroads::Table => {
                if packet.to_rack == switch {
                    return one(u32::from(packet.to_place));
                }
                let ways = self.tables.as_ref()?.nearer(switch, packet.to_rack, self.switches);
                let way = self.any(switch, packet, turn, u32::try_from(ways.len()).ok()?)?;
                ways.get(way as usize).map(|port| u32::from(*port))
            }
        }
    }

    /// One of `ways` equal ways, by the packet's entropy and the switch's own seed; the next one in the next turn.
    #[inline]
    fn any(&self, switch: u32, packet: &Packet, turn: u32, ways: u32) -> Option<u32> {
        let hash = mix(self.seed ^ (u64::from(switch) << 32) ^ u64::from(packet.entropy));
        // The high half of a product spreads evenly without a division.
        let first = low_half(((hash >> 32) * u64::from(ways)) >> 32);
        if turn == 0 && ways > 0 {
            return Some(first);
        }
        (turn < ways).then(|| (first + turn) % ways)
    }

    fn behind_tiers(&self, t: &Tiers, switch: u32, port: u32) -> (Link, u32, u32) {
        let (racks, aggregations) = (t.pods * t.racks, t.pods * t.aggregation);
        match tier(t, switch) {
            Tier::Rack { .. } if port < t.hosts => (t.host_link, self.rack_node(switch), port),
            Tier::Rack { pod, place } => (t.rack_link, racks + pod * t.aggregation + (port - t.hosts), place),
            Tier::Aggregation { pod, group } if port < t.racks => {
                (t.rack_link, pod * t.racks + port, t.hosts + group)
            }
            Tier::Aggregation { pod, group } => {
                (t.core_link, racks + aggregations + group * t.cores + (port - t.racks), pod)
            }
            Tier::Core { group, member } => {
                (t.core_link, racks + port * t.aggregation + group, t.racks + member)
            }
        }
    }

    fn behind_chain(&self, c: &Chain, switch: u32, port: u32) -> (Link, u32, u32) {
        if port < c.hosts {
            return (c.host_link, self.rack_node(switch), port);
        }
        if switch > 0 && port == c.hosts {
            // The left neighbour's way to the right is behind its own way to the left, if it has one.
            return (c.middle_link, switch - 1, c.hosts + u32::from(switch > 1));
        }
        (c.middle_link, switch + 1, c.hosts)
    }
}

/// What a switch needs to know to choose a packet's way: worked out once, so that a hop costs no division.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crossroads {
    /// Hosts at the first ports, equal ways up behind them.
    Rack { first_up: u32, ups: u32 },
    /// The racks of a pod at the first ports, equal ways up behind them.
    Aggregation { pod: u32, first_rack: u32, first_up: u32, ups: u32 },
    /// A pod at each port.
    Core,
    /// A rack at each port.
    Middle,
    /// Hosts at the first ports, neighbours behind them. The first switch has none on its left.
    Chain { left: u32, right: u32 },
    /// Whatever the table says.
    Table,
}

/// Where a switch stands in a network of tiers.
enum Tier {
    Rack { pod: u32, place: u32 },
    Aggregation { pod: u32, group: u32 },
    Core { group: u32, member: u32 },
}

const fn tier(t: &Tiers, switch: u32) -> Tier {
    let (racks, aggregations) = (t.pods * t.racks, t.pods * t.aggregation);
    if switch < racks {
        Tier::Rack { pod: switch / t.racks, place: switch % t.racks }
    } else if switch < racks + aggregations {
        let aggregation = switch - racks;
        Tier::Aggregation { pod: aggregation / t.aggregation, group: aggregation % t.aggregation }
    } else {
        let core = switch - racks - aggregations;
        Tier::Core { group: core / t.cores, member: core % t.cores }
    }
}

/// The port of `other` at the far end of a port of `switch`: of several links between them, the one of the same rank.
fn twin(e: &Edges, switch: u32, other: u32, port: u32) -> u32 {
    let leads_to = |at: u32, to: u32| {
        let ports = (0..).zip(e.ports(at));
        ports.filter(move |(_, (end, _))| *end == End::Switch(to)).map(|(port, _)| port)
    };
    let rank = leads_to(switch, other).take_while(|before| *before != port).count();
    leads_to(other, switch).nth(rank).expect("a link has two ends")
}

impl Tables {
    fn new(e: &Edges) -> Self {
        let switches = e.switches();
        let mut first_host = vec![0; switches as usize + 1];
        for host in 0..e.hosts() {
            first_host[e.switch_of(host) as usize + 1] += 1;
        }
        for rack in 0..switches as usize {
            first_host[rack + 1] += first_host[rack];
        }
        let goals: Vec<Vec<u32>> = (0..switches).map(|goal| e.distances(goal)).collect();
        let mut tables = Self { first_host, first: vec![0], ports: Vec::new() };
        for switch in 0..switches {
            for distances in &goals {
                let nearer = (0_u32..).zip(e.ports(switch)).filter(|(_, (end, _))| match end {
                    End::Host(_) => false,
                    End::Switch(other) => distances[*other as usize] < distances[switch as usize],
                });
                // A switch with more is refused.
                tables.ports.extend(nearer.map(|(port, _)| u16::try_from(port).unwrap_or(u16::MAX)));
                tables.first.push(u32::try_from(tables.ports.len()).expect("fewer than 2^32 routes"));
            }
        }
        tables
    }

    /// The ports of `switch` that lead nearer to `goal`.
    fn nearer(&self, switch: u32, goal: u32, switches: u32) -> &[u16] {
        let row = (switch * switches + goal) as usize;
        &self.ports[self.first[row] as usize..self.first[row + 1] as usize]
    }
}
