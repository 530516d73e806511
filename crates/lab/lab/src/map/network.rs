//! The network of a map: boxes, the links between them, and the channels whose load and queue are drawn.

use super::MapError;
use super::grouping::{Detail, Grouping, MapBox, Names};
use super::layout::{self, DrawnLink, Layout};
use super::rates::RateSchedule;
use super::wiring::Wiring;
use poseidon_plan::topology::Node;
use poseidon_plan::{Plan, SwitchPort};
use poseidon_types::{HostId, Picos};
use std::collections::BTreeMap;

/// One direction of a link, or of all links between two boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Channel {
    /// The box that sends.
    pub(super) from: usize,
    /// The box that receives. In a network drawn by rack, it is the sending box for ports to the rack's hosts.
    pub(super) to: usize,
    /// The egress ports, as indices into the ports of the network.
    pub(super) ports: Vec<usize>,
}

/// The network of a map.
#[derive(Clone, Debug)]
pub(super) struct MapNetwork {
    pub(super) wiring: Wiring,
    pub(super) grouping: Grouping,
    pub(super) channels: Vec<Channel>,
    /// The channel of each port.
    pub(super) channel_of_port: Vec<usize>,
    /// The rates of each port over time.
    pub(super) schedules: Vec<RateSchedule>,
    pub(super) links: Vec<DrawnLink>,
    pub(super) layout: Layout,
}

impl MapNetwork {
    /// Arranges the network of a plan.
    pub(super) fn new(plan: &Plan) -> Result<Self, MapError> {
        let wiring = Wiring::new(&plan.topology)?;
        let grouping = Grouping::new(&plan.topology, &wiring)?;
        let (channels, channel_of_port) = match grouping.detail {
            Detail::Hosts | Detail::Cells => channels_by_port(&wiring, &grouping),
            Detail::Racks => channels_by_box(&wiring, &grouping),
        };
        let mut links = drawn_links(&wiring, &grouping, &channels, &channel_of_port);
        let layout = layout::place(&grouping, &mut links);
        let schedules = RateSchedule::of_ports(&wiring, plan);
        Ok(Self { wiring, grouping, channels, channel_of_port, schedules, links, layout })
    }

    /// Returns how much of the network is drawn separately.
    pub(super) fn detail(&self) -> Detail {
        self.grouping.detail
    }

    /// Returns all ports whose queues the map needs, sorted.
    pub(super) fn ports(&self) -> Vec<SwitchPort> {
        self.wiring.ports.iter().map(|port| SwitchPort::new(port.switch, port.port)).collect()
    }

    /// Returns the number of channels.
    pub(super) fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// Returns the bits that a channel can send in an interval.
    pub(super) fn capacity_bits(&self, channel: usize, from: Picos, to: Picos) -> f64 {
        self.channels[channel].ports.iter().map(|port| self.schedules[*port].bits(from, to)).sum()
    }

    /// Returns the channels on the route of a connection.
    pub(super) fn channels_on(&self, route: &[SwitchPort]) -> Vec<usize> {
        route.iter().filter_map(|port| Some(self.channel_of_port[self.wiring.index(*port)?])).collect()
    }

    /// Returns the box of a host.
    pub(super) fn box_of(&self, host: HostId) -> usize {
        self.grouping.box_of_host[host.index()]
    }

    pub(super) fn boxes(&self) -> &[MapBox] {
        &self.grouping.boxes
    }

    /// Returns the names of a channel's ends.
    pub(super) fn channel_ends(&self, channel: usize, names: &Names<'_>) -> [String; 2] {
        let Channel { from, to, ports } = &self.channels[channel];
        if self.grouping.detail == Detail::Racks {
            let receiver = if from == to { "its hosts".to_owned() } else { self.boxes()[*to].name.clone() };
            return [self.boxes()[*from].name.clone(), receiver];
        }
        self.port_ends(ports[0], names)
    }

    /// Returns the names of a port's switch and neighbor.
    pub(super) fn port_ends(&self, port: usize, names: &Names<'_>) -> [String; 2] {
        let port = &self.wiring.ports[port];
        [names.switch(port.switch), names.node(port.to)]
    }
}

/// Creates one channel per port.
fn channels_by_port(wiring: &Wiring, grouping: &Grouping) -> (Vec<Channel>, Vec<usize>) {
    let channel =
        |(index, ends): (usize, [usize; 2])| Channel { from: ends[0], to: ends[1], ports: vec![index] };
    let channels = port_ends(wiring, grouping).enumerate().map(channel).collect();
    (channels, (0..wiring.ports.len()).collect())
}

/// Creates one channel for all ports from one box to another.
fn channels_by_box(wiring: &Wiring, grouping: &Grouping) -> (Vec<Channel>, Vec<usize>) {
    let mut ports: BTreeMap<[usize; 2], Vec<usize>> = BTreeMap::new();
    for (port, ends) in port_ends(wiring, grouping).enumerate() {
        ports.entry(ends).or_default().push(port);
    }
    let mut channel_of_port = vec![0; wiring.ports.len()];
    let mut channels = Vec::new();
    for ([from, to], ports) in ports {
        ports.iter().for_each(|port| channel_of_port[*port] = channels.len());
        channels.push(Channel { from, to, ports });
    }
    (channels, channel_of_port)
}

/// Returns the boxes at both ends of each port.
fn port_ends<'a>(wiring: &'a Wiring, grouping: &'a Grouping) -> impl Iterator<Item = [usize; 2]> + 'a {
    let box_of = |node: Node| match node {
        Node::Host(host) => grouping.box_of_host[host.index()],
        Node::Switch(switch) => grouping.box_of_switch[switch.index()],
    };
    wiring.ports.iter().map(move |port| [box_of(Node::Switch(port.switch)), box_of(port.to)])
}

/// Returns the links to draw. A link between boxes of the same tier starts at the box with the smaller number.
fn drawn_links(
    wiring: &Wiring,
    grouping: &Grouping,
    channels: &[Channel],
    channel_of_port: &[usize],
) -> Vec<DrawnLink> {
    let by_ends: BTreeMap<(usize, usize), usize> =
        channels.iter().enumerate().map(|(index, channel)| ((channel.from, channel.to), index)).collect();
    let mut links: Vec<DrawnLink> = Vec::new();
    for (index, channel) in channels.iter().enumerate() {
        let Channel { from, to, ports } = channel;
        let opposite = match grouping.detail {
            Detail::Racks => by_ends.get(&(*to, *from)).copied(),
            Detail::Hosts | Detail::Cells => {
                wiring.ports[ports[0]].opposite.map(|port| channel_of_port[port])
            }
        };
        let is_cell = grouping.detail == Detail::Cells && grouping.boxes[*to].tier == 0;
        let link = DrawnLink { a: *from, b: *to, forward: Some(index), backward: opposite, bend: 0.0 };
        if is_cell {
            // One line leads to all cells of a rack, which have consecutive ports.
            let is_new = links.last().is_none_or(|last| (last.a, last.b) != (*from, *to));
            if is_new {
                links.push(DrawnLink { forward: None, ..link });
            }
        } else if from != to && opposite.is_none_or(|opposite| index < opposite) {
            links.push(link);
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::grouping::BoxKind;
    use poseidon_plan::Topology;
    use poseidon_plan::topology::{Edges, Link, Rails};
    use poseidon_types::BitRate;

    const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

    fn network(topology: Topology) -> MapNetwork {
        MapNetwork::new(&poseidon_testkit::plans::plan(topology, "poseidon", &[])).expect("below the limits")
    }

    fn topologies() -> Vec<Topology> {
        let rails = Rails {
            servers: 6,
            gpus: 4,
            servers_per_leaf: 3,
            spines: 2,
            local_link: LINK,
            rail_link: LINK,
            spine_link: LINK,
        };
        // A ring of four switches, three of them with hosts, and a parallel link.
        let text = "h0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us\nh2 s3 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\ns1 s2 1 Gbps 1 us\n\
                    s2 s3 1 Gbps 1 us\ns3 s0 1 Gbps 1 us\ns0 s1 1 Gbps 1 us";
        vec![
            Topology::star(17, LINK),
            Topology::star(300, LINK),
            Topology::dumbbell(5, LINK, LINK),
            Topology::fat_tree(4, LINK),
            Topology::fat_tree(16, LINK),
            Topology::fat_tree(32, LINK),
            Topology::poseidon_clos(8),
            Topology::powertcp_fat_tree(),
            Topology::powertcp_rotor(Picos::ZERO),
            Topology::Rails(rails),
            Topology::Rails(Rails { servers: 20, gpus: 8, servers_per_leaf: 8, ..rails }),
            Topology::Edges(Edges::parse(text).expect("the list is valid")),
        ]
    }

    #[test]
    fn no_two_boxes_overlap() {
        for topology in topologies() {
            let network = network(topology.clone());
            let places = &network.layout.places;
            assert_eq!(places.len(), network.boxes().len());
            for (index, a) in places.iter().enumerate() {
                assert!(a.x >= 0.0 && a.x + a.width <= network.layout.width, "{topology:?}");
                assert!(a.y >= 0.0 && a.y + a.height <= network.layout.height, "{topology:?}");
                for b in &places[index + 1..] {
                    let is_apart = a.x + a.width <= b.x
                        || b.x + b.width <= a.x
                        || a.y + a.height <= b.y
                        || b.y + b.height <= a.y;
                    assert!(is_apart, "{a:?} and {b:?} overlap in {topology:?}");
                }
            }
        }
    }

    #[test]
    fn tiers_are_drawn_in_order() {
        for topology in topologies() {
            let network = network(topology.clone());
            for (a, place) in network.boxes().iter().zip(&network.layout.places) {
                for (b, other) in network.boxes().iter().zip(&network.layout.places) {
                    if a.tier > b.tier {
                        assert!(place.y + place.height < other.y, "{} is not above {}", a.name, b.name);
                    }
                }
            }
        }
    }

    #[test]
    fn every_link_has_both_ends_and_every_port_is_drawn_once() {
        for topology in topologies() {
            let network = network(topology.clone());
            let mut drawn = vec![0_u32; network.channels.len()];
            for link in &network.links {
                assert_ne!(link.a, link.b);
                assert!(link.a.max(link.b) < network.boxes().len());
                for (channel, ends) in [(link.forward, [link.a, link.b]), (link.backward, [link.b, link.a])] {
                    if let Some(channel) = channel {
                        drawn[channel] += 1;
                        let Channel { from, to, .. } = network.channels[channel];
                        assert_eq!([from, to], ends, "{topology:?}");
                    }
                }
            }
            for (index, channel) in network.channels.iter().enumerate() {
                let is_inside = channel.from == channel.to;
                let is_cell = network.boxes()[channel.to].kind == BoxKind::Hosts;
                assert_eq!(drawn[index], u32::from(!is_inside && !is_cell), "{topology:?}");
            }
            let ports: usize = network.channels.iter().map(|channel| channel.ports.len()).sum();
            assert_eq!(ports, network.wiring.ports.len());
        }
    }

    #[test]
    fn cells_of_a_rack_have_consecutive_channels() {
        let network = network(Topology::poseidon_clos(8));
        for (index, one) in network.boxes().iter().enumerate().filter(|(_, one)| one.kind == BoxKind::Hosts) {
            let channels: Vec<usize> = (0..network.channels.len())
                .filter(|channel| network.channels[*channel].to == index)
                .collect();
            assert_eq!(channels.len(), one.hosts.len());
            assert!(channels.windows(2).all(|pair| pair[1] == pair[0] + 1));
            let hosts: Vec<Node> = channels.iter().map(|channel| network.wiring.ports[*channel].to).collect();
            let expected: Vec<Node> = one.hosts.iter().map(|host| Node::Host(*host)).collect();
            assert_eq!(hosts, expected, "the cells are in the order of the hosts");
        }
    }

    #[test]
    fn bundles_contain_all_ports_between_two_boxes() {
        let network = network(Topology::fat_tree(32, LINK));
        let names = |channel: usize| {
            let Channel { from, to, .. } = network.channels[channel];
            (network.boxes()[from].name.as_str(), network.boxes()[to].name.as_str())
        };
        let ports = |from: &str, to: &str| {
            let channel = (0..network.channels.len()).find(|channel| names(*channel) == (from, to));
            network.channels[channel.expect("the boxes have a link")].ports.len()
        };
        assert_eq!(ports("rack0", "rack0"), 16, "the ports to the hosts of the rack");
        assert_eq!(ports("rack0", "agg[0-15]"), 16);
        assert_eq!(ports("agg[0-15]", "core[0-255]"), 16 * 16);
        let capacity = network.capacity_bits(0, Picos::ZERO, Picos::new(1_000_000));
        assert!((capacity - 16.0 * 100e9 * 1e-6).abs() < 1e-3, "16 links of 100 Gbps for 1 us: {capacity}");
    }
}
