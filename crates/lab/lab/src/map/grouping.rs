//! Decides which hosts and switches the map draws as one box.
//!
//! A network of up to [`MAX_LINKS`] links is drawn with every switch and every host. If it has many hosts, the hosts of
//! a rack are cells of one box. A larger network is drawn by rack: a rack switch and its hosts are one box, and so are
//! switches of a higher tier that have links to the same boxes below them.

use super::MapError;
use super::wiring::Wiring;
use crate::scenario::{host_name, switch_name};
use poseidon_plan::Topology;
use poseidon_plan::patterns::Racks;
use poseidon_plan::topology::Node;
use poseidon_types::{HostId, SwitchId};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of links that are drawn. A network with more links is drawn by rack.
pub(super) const MAX_LINKS: usize = 4_000;
/// With at most this many hosts, each host is a box of its own.
const MAX_HOST_BOXES: u32 = 64;
/// With more racks, those that have links to the same switches are one box.
const MAX_RACK_BOXES: usize = 600;

/// How much of the network is drawn separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Every host is a box.
    Hosts,
    /// The hosts of a rack are cells of one box.
    Cells,
    /// A rack is one box, and links between the same boxes are one bundle.
    Racks,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoxKind {
    Host,
    /// The hosts of a rack, one cell per host.
    Hosts,
    Switch,
    /// Several switches of a higher tier.
    Switches,
    /// One or more rack switches with their hosts.
    Rack,
}

impl BoxKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Hosts => "hosts",
            Self::Switch => "switch",
            Self::Switches => "switches",
            Self::Rack => "rack",
        }
    }
}

/// A box: one or more hosts or switches that are drawn together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapBox {
    pub(super) name: String,
    pub(super) kind: BoxKind,
    /// The distance to the nearest host, in links. Hosts have tier zero.
    pub(super) tier: u32,
    /// The switches in the box.
    pub(super) switches: Vec<SwitchId>,
    /// The hosts in the box.
    pub(super) hosts: Vec<HostId>,
}

/// The boxes of a map.
#[derive(Clone, Debug)]
pub(super) struct Grouping {
    pub(super) detail: Detail,
    /// The boxes of switches by tier, then the boxes of hosts.
    pub(super) boxes: Vec<MapBox>,
    pub(super) box_of_switch: Vec<usize>,
    pub(super) box_of_host: Vec<usize>,
}

impl Grouping {
    pub(super) fn new(topology: &Topology, wiring: &Wiring) -> Result<Self, MapError> {
        let neighbors = wiring.neighbors();
        let tiers = wiring.tiers(&neighbors);
        let is_first_direction = |index: usize| wiring.ports[index].opposite.is_none_or(|o| index < o);
        let links = (0..wiring.ports.len()).filter(|index| is_first_direction(*index)).count();
        let detail = match links {
            _ if links > MAX_LINKS => Detail::Racks,
            _ if wiring.hosts > MAX_HOST_BOXES => Detail::Cells,
            _ => Detail::Hosts,
        };
        let groups = match detail {
            Detail::Hosts | Detail::Cells => (0..wiring.switches as usize).collect(),
            Detail::Racks => group_switches(&tiers, &neighbors),
        };
        let mut members: BTreeMap<(u32, usize), Vec<SwitchId>> = BTreeMap::new();
        for (switch, group) in groups.iter().enumerate() {
            members.entry((tiers[switch], *group)).or_default().push(SwitchId::from_index(switch));
        }
        let names = Names::new(topology, wiring);
        let mut grouping = Self {
            detail,
            boxes: Vec::new(),
            box_of_switch: vec![0; wiring.switches as usize],
            box_of_host: vec![0; wiring.hosts as usize],
        };
        for ((tier, _), switches) in members {
            grouping.push_switches(&names, tier, switches, wiring);
        }
        match detail {
            Detail::Racks => {}
            Detail::Hosts => (0..wiring.hosts).for_each(|host| grouping.push_host(&names, HostId::new(host))),
            Detail::Cells => {
                for switch in (0..wiring.switches).map(SwitchId::new) {
                    let hosts = wiring.hosts_of(switch);
                    if !hosts.is_empty() {
                        grouping.push_cells(&names, hosts);
                    }
                }
            }
        }
        grouping.check_link_count(wiring)?;
        Ok(grouping)
    }

    fn push_switches(&mut self, names: &Names<'_>, tier: u32, switches: Vec<SwitchId>, wiring: &Wiring) {
        let is_by_rack = self.detail == Detail::Racks;
        for switch in &switches {
            self.box_of_switch[switch.index()] = self.boxes.len();
        }
        let hosts: Vec<HostId> = match is_by_rack {
            true => switches.iter().flat_map(|switch| wiring.hosts_of(*switch)).collect(),
            false => Vec::new(),
        };
        for host in &hosts {
            self.box_of_host[host.index()] = self.boxes.len();
        }
        let kind = match switches.len() {
            _ if is_by_rack && tier == 1 => BoxKind::Rack,
            1 => BoxKind::Switch,
            _ => BoxKind::Switches,
        };
        self.boxes.push(MapBox { name: names.switches(&switches), kind, tier, switches, hosts });
    }

    fn push_host(&mut self, names: &Names<'_>, host: HostId) {
        self.box_of_host[host.index()] = self.boxes.len();
        let (name, kind) = (names.host(host), BoxKind::Host);
        self.boxes.push(MapBox { name, kind, tier: 0, switches: Vec::new(), hosts: vec![host] });
    }

    fn push_cells(&mut self, names: &Names<'_>, hosts: Vec<HostId>) {
        for host in &hosts {
            self.box_of_host[host.index()] = self.boxes.len();
        }
        let name = range_name(&names.host(hosts[0]), &names.host(hosts[hosts.len() - 1]), hosts.len());
        self.boxes.push(MapBox { name, kind: BoxKind::Hosts, tier: 0, switches: Vec::new(), hosts });
    }

    /// Checks that the drawing has at most [`MAX_LINKS`] links, where a bundle counts once.
    fn check_link_count(&self, wiring: &Wiring) -> Result<(), MapError> {
        if self.detail != Detail::Racks {
            return Ok(());
        }
        let mut pairs = BTreeSet::new();
        for port in &wiring.ports {
            if let Node::Switch(other) = port.to {
                let ends = [port.switch, other].map(|switch| self.box_of_switch[switch.index()]);
                pairs.insert((ends[0].min(ends[1]), ends[0].max(ends[1])));
            }
        }
        if pairs.len() > MAX_LINKS {
            return Err(MapError::TooManyLinks { links: pairs.len().into(), limit: MAX_LINKS.into() });
        }
        Ok(())
    }
}

/// Groups the switches of a large network, and returns the group of each switch. Groups of different tiers may have the
/// same number.
fn group_switches(tiers: &[u32], neighbors: &[BTreeSet<SwitchId>]) -> Vec<usize> {
    let racks: Vec<usize> = (0..tiers.len()).collect();
    let groups = group_higher_tiers(tiers, neighbors, racks.clone());
    if tiers.iter().filter(|tier| **tier == 1).count() <= MAX_RACK_BOXES {
        return groups;
    }
    let mut by_switches_above: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let merged = racks.iter().map(|rack| {
        let above = groups_in_tier(tiers, neighbors, &groups, *rack, 2);
        if tiers[*rack] != 1 || above.is_empty() {
            *rack
        } else {
            *by_switches_above.entry(above).or_insert(*rack)
        }
    });
    group_higher_tiers(tiers, neighbors, merged.collect())
}

/// Groups the switches of each tier above the racks by the groups that they have links to in the tier below.
fn group_higher_tiers(tiers: &[u32], neighbors: &[BTreeSet<SwitchId>], mut groups: Vec<usize>) -> Vec<usize> {
    let top = tiers.iter().copied().max().unwrap_or(0);
    for tier in 2..=top {
        let mut by_groups_below: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for switch in (0..tiers.len()).filter(|switch| tiers[*switch] == tier) {
            let below = groups_in_tier(tiers, neighbors, &groups, switch, tier - 1);
            groups[switch] = *by_groups_below.entry(below).or_insert(switch);
        }
    }
    groups
}

/// Returns the groups of a switch's neighbors in a tier, sorted.
fn groups_in_tier(
    tiers: &[u32],
    neighbors: &[BTreeSet<SwitchId>],
    groups: &[usize],
    switch: usize,
    tier: u32,
) -> Vec<usize> {
    let in_tier = neighbors[switch].iter().filter(|neighbor| tiers[neighbor.index()] == tier);
    let groups: BTreeSet<usize> = in_tier.map(|neighbor| groups[neighbor.index()]).collect();
    groups.into_iter().collect()
}

/// The names of hosts and switches.
pub(super) struct Names<'a> {
    topology: &'a Topology,
    racks: Racks,
    circuits: Option<SwitchId>,
}

impl<'a> Names<'a> {
    pub(super) fn new(topology: &'a Topology, wiring: &Wiring) -> Self {
        Self { topology, racks: Racks::new(topology), circuits: wiring.circuits }
    }

    pub(super) fn host(&self, host: HostId) -> String {
        host_name(self.topology, &self.racks, host)
    }

    pub(super) fn switch(&self, switch: SwitchId) -> String {
        if self.circuits == Some(switch) { "circuits".to_owned() } else { switch_name(self.topology, switch) }
    }

    pub(super) fn node(&self, node: Node) -> String {
        match node {
            Node::Host(host) => self.host(host),
            Node::Switch(switch) => self.switch(switch),
        }
    }

    fn switches(&self, switches: &[SwitchId]) -> String {
        let [first, last] = [0, switches.len() - 1].map(|index| self.switch(switches[index]));
        range_name(&first, &last, switches.len())
    }
}

/// Returns the name of several nodes: `agg[0-7]` if their numbers are consecutive, otherwise `agg0 and 7 more`.
fn range_name(first: &str, last: &str, count: usize) -> String {
    let split = |name: &'_ str| {
        let word = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (name[..word].to_owned(), name[word..].parse::<usize>().ok())
    };
    let ((word, from), (last_word, to)) = (split(first), split(last));
    match (from, to) {
        _ if count == 1 => first.to_owned(),
        (Some(from), Some(to)) if word == last_word && to.checked_sub(from) == Some(count - 1) => {
            format!("{word}[{from}-{to}]")
        }
        _ => format!("{first} and {} more", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::topology::{Chain, Link, Rails};
    use poseidon_types::{BitRate, Picos};

    const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

    fn group(topology: &Topology) -> Grouping {
        Grouping::new(topology, &Wiring::new(topology).expect("below the limit")).expect("below the limit")
    }

    fn names(grouping: &Grouping) -> Vec<&str> {
        grouping.boxes.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn small_networks_have_a_box_per_host() {
        let grouping = group(&Topology::dumbbell(2, LINK, LINK));
        assert_eq!(grouping.detail, Detail::Hosts);
        assert_eq!(
            names(&grouping),
            ["rack0", "rack1", "rack0.host0", "rack0.host1", "rack1.host0", "rack1.host1"]
        );
    }

    #[test]
    fn many_hosts_of_a_rack_are_cells_of_a_box() {
        let grouping = group(&Topology::poseidon_clos(8));
        assert_eq!(grouping.detail, Detail::Cells);
        // 8 rack switches, 64 aggregation switches, 8 core switches and 8 boxes of 24 hosts.
        assert_eq!(grouping.boxes.len(), 8 + 64 + 8 + 8);
        assert_eq!(grouping.boxes[80].name, "rack0.host[0-23]");
        assert_eq!(grouping.boxes[80].hosts.len(), 24);
    }

    #[test]
    fn large_networks_are_drawn_by_rack() {
        // 8,192 hosts in 512 racks of 32 pods.
        let grouping = group(&Topology::fat_tree(32, LINK));
        assert_eq!(grouping.detail, Detail::Racks);
        assert_eq!(grouping.boxes.len(), 512 + 32 + 1);
        assert_eq!(grouping.boxes[0].name, "rack0");
        assert_eq!(grouping.boxes[0].hosts.len(), 16);
        assert_eq!((grouping.boxes[512].name.as_str(), grouping.boxes[512].tier), ("agg[0-15]", 2));
        assert_eq!((grouping.boxes[544].name.as_str(), grouping.boxes[544].tier), ("core[0-255]", 3));
    }

    #[test]
    fn many_racks_of_a_pod_are_one_box() {
        let grouping = group(&Topology::fat_tree(64, LINK));
        assert_eq!(grouping.boxes.len(), 64 + 64 + 1);
        assert_eq!(grouping.boxes[1].name, "rack[32-63]");
        assert_eq!(grouping.boxes[1].hosts.len(), 32 * 32);
    }

    #[test]
    fn rails_are_grouped_by_group_of_servers() {
        let rails = Rails {
            servers: 256,
            gpus: 8,
            servers_per_leaf: 16,
            spines: 16,
            local_link: LINK,
            rail_link: LINK,
            spine_link: LINK,
        };
        let grouping = group(&Topology::Rails(rails));
        assert_eq!(grouping.detail, Detail::Racks);
        assert_eq!(grouping.boxes.len(), 256 + 16 + 1);
        assert_eq!(grouping.boxes[256].name, "leaf[0-7]");
        assert_eq!(grouping.boxes[272].name, "spine[0-15]");
    }

    #[test]
    fn every_host_and_switch_is_in_one_box() {
        for topology in [
            Topology::star(5, LINK),
            Topology::powertcp_rotor(Picos::ZERO),
            Topology::fat_tree(32, LINK),
            Topology::fat_tree(64, LINK),
        ] {
            let grouping = group(&topology);
            let hosts: usize = grouping.boxes.iter().map(|one| one.hosts.len()).sum();
            assert_eq!(hosts, topology.hosts() as usize);
            for (index, one) in grouping.boxes.iter().enumerate() {
                assert!(one.hosts.iter().all(|host| grouping.box_of_host[host.index()] == index));
                assert!(one.switches.iter().all(|switch| grouping.box_of_switch[switch.index()] == index));
            }
        }
    }

    #[test]
    fn chains_of_too_many_racks_are_rejected() {
        let chain = Topology::Chain(Chain { switches: 9_000, hosts: 1, host_link: LINK, middle_link: LINK });
        let wiring = Wiring::new(&chain).expect("below the limit of ports");
        let error = Grouping::new(&chain, &wiring).expect_err("8,999 links between racks").to_string();
        assert!(error.contains("8,999") && error.contains("4,000"), "{error}");
    }

    #[test]
    fn ranges_of_names_are_short() {
        assert_eq!(range_name("agg3", "agg3", 1), "agg3");
        assert_eq!(range_name("agg0", "agg7", 8), "agg[0-7]");
        assert_eq!(range_name("agg0", "agg14", 8), "agg0 and 7 more");
        assert_eq!(range_name("s1", "circuits", 2), "s1 and 1 more");
    }
}
