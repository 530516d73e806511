//! Servers with several GPUs and NICs, connected by rails.

use super::{Edge, Link, Node};
use core::ops::Range;
use poseidon_types::{BitRate, HostId, SwitchId};

/// A rail-optimised network of servers with several GPUs.
///
/// Hosts are GPUs: GPU `j` of server `i` is host `i * gpus + j`. Each server has one switch, which represents the
/// server's internal network and its NICs. This switch has a link to each GPU of the server and one link to each rail.
/// Rail `j` carries the packets for GPU `j` of every server (as NCCL does with PXN): a sender's server switch forwards a
/// packet to the rail of the receiver.
///
/// `servers_per_leaf` consecutive servers form a group. A group has one leaf switch per rail, which has a link to each
/// server of the group. Each leaf switch has a link to each spine switch. Groups are connected only through the spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rails {
    /// The number of servers.
    pub servers: u32,
    /// The number of GPUs per server, which is also the number of rails.
    pub gpus: u32,
    /// The number of servers in a group. The last group may have fewer.
    pub servers_per_leaf: u32,
    /// The number of spine switches. May be zero only if there is a single group.
    pub spines: u32,
    /// The links between GPUs and server switches.
    pub local_link: Link,
    /// The links between server switches and leaf switches.
    pub rail_link: Link,
    /// The links between leaf and spine switches.
    pub spine_link: Link,
}

/// A switch's position in a rail-optimised network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailsTier {
    /// The switch of a server. The server has the same number as its switch.
    Server,
    /// The leaf switch of one rail in one group.
    Leaf {
        /// The group.
        group: u32,
        /// The rail.
        rail: u32,
    },
    /// A spine switch.
    Spine {
        /// The position in the spine.
        position: u32,
    },
}

impl Rails {
    /// Returns the number of groups.
    pub fn groups(&self) -> u32 {
        self.servers.div_ceil(self.servers_per_leaf.max(1))
    }

    /// Returns the number of leaf switches, saturating at `u32::MAX`.
    pub fn leaves(&self) -> u32 {
        self.groups().saturating_mul(self.gpus)
    }

    /// Returns the servers in a group.
    pub fn servers_in(&self, group: u32) -> Range<u32> {
        let first = group * self.servers_per_leaf;
        first..self.servers.min(first + self.servers_per_leaf)
    }

    /// Returns the number of a leaf switch.
    pub fn leaf(&self, group: u32, rail: u32) -> u32 {
        self.servers + group * self.gpus + rail
    }

    /// Returns the number of a spine switch.
    pub fn spine(&self, position: u32) -> u32 {
        self.servers + self.leaves() + position
    }

    /// Returns a switch's position. Server switches come first, then leaf switches by group and rail, then the spine.
    pub fn tier(&self, switch: SwitchId) -> RailsTier {
        match switch.get().checked_sub(self.servers) {
            None => RailsTier::Server,
            Some(leaf) if leaf < self.leaves() => {
                RailsTier::Leaf { group: leaf / self.gpus, rail: leaf % self.gpus }
            }
            Some(number) => RailsTier::Spine { position: number - self.leaves() },
        }
    }

    /// Returns the rate at which a GPU can send to another server, which is the rate of its slower link.
    pub fn nic_rate(&self) -> BitRate {
        self.local_link.rate.min(self.rail_link.rate)
    }

    pub(super) const fn hops(&self, from: HostId, to: HostId) -> u32 {
        let (from, to) = (from.get() / self.gpus, to.get() / self.gpus);
        if from == to {
            2
        } else if from / self.servers_per_leaf == to / self.servers_per_leaf {
            4
        } else {
            6
        }
    }

    pub(super) fn links_between(&self, from: HostId, to: HostId) -> Vec<Link> {
        let Self { local_link, rail_link, spine_link, .. } = *self;
        match self.hops(from, to) {
            2 => vec![local_link; 2],
            4 => vec![local_link, rail_link, rail_link, local_link],
            _ => vec![local_link, rail_link, spine_link, spine_link, rail_link, local_link],
        }
    }

    /// Returns the links between switches, in the order of the ports at both ends.
    pub(super) fn switch_edges(&self) -> impl Iterator<Item = Edge> + use<'_> {
        let edge =
            |a, b, link| Edge { a: Node::Switch(SwitchId::new(a)), b: Node::Switch(SwitchId::new(b)), link };
        let rails = (0..self.servers).flat_map(move |server| {
            let group = server / self.servers_per_leaf;
            (0..self.gpus).map(move |rail| edge(server, self.leaf(group, rail), self.rail_link))
        });
        let leaves = self.servers..self.servers + self.leaves();
        let spine = leaves.flat_map(move |leaf| {
            (0..self.spines).map(move |position| edge(leaf, self.spine(position), self.spine_link))
        });
        rails.chain(spine)
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.servers == 0 || self.gpus == 0 || self.servers_per_leaf == 0 {
            return Err("there is no host: set servers, gpus and servers-per-leaf above zero");
        }
        if self.groups() > 1 && self.spines == 0 {
            return Err("groups of servers are not connected: add spine switches");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use poseidon_types::Picos;

    const fn link(gbps: u64) -> Link {
        Link { rate: BitRate::from_gbps(gbps), delay: Picos::new(500_000) }
    }

    /// Seven servers of four GPUs, in groups of three, three and one.
    const RAILS: Rails = Rails {
        servers: 7,
        gpus: 4,
        servers_per_leaf: 3,
        spines: 2,
        local_link: link(3_600),
        rail_link: link(400),
        spine_link: link(800),
    };

    #[test]
    fn a_network_has_one_switch_per_server_and_one_leaf_per_group_and_rail() {
        assert_eq!(RAILS.check(), Ok(()));
        assert_eq!((RAILS.groups(), RAILS.leaves(), RAILS.servers_in(2)), (3, 12, 6..7));
        let topology = Topology::Rails(RAILS);
        assert_eq!((topology.hosts(), topology.switches()), (28, 7 + 12 + 2));
        let tier = |switch| RAILS.tier(SwitchId::new(switch));
        assert_eq!((tier(6), tier(7)), (RailsTier::Server, RailsTier::Leaf { group: 0, rail: 0 }));
        assert_eq!(
            (tier(18), tier(20)),
            (RailsTier::Leaf { group: 2, rail: 3 }, RailsTier::Spine { position: 1 })
        );
    }

    #[test]
    fn path_crosses_one_three_or_five_switches() {
        let topology = Topology::Rails(RAILS);
        let hops = |to| topology.hops(HostId::new(0), HostId::new(to));
        assert_eq!((hops(3), hops(4), hops(11), hops(12), hops(27)), (2, 4, 4, 6, 6));
        let rates: Vec<u64> = topology
            .links_between(HostId::new(1), HostId::new(27))
            .iter()
            .map(|link| link.rate.get() / 1_000_000_000)
            .collect();
        assert_eq!(rates, [3_600, 400, 800, 800, 400, 3_600]);
    }

    #[test]
    fn line_rate_to_another_server_is_the_rate_of_the_nic() {
        let line_rate = |rails, to| Topology::Rails(rails).line_rate(HostId::new(0), HostId::new(to));
        assert_eq!(
            (line_rate(RAILS, 3), line_rate(RAILS, 4)),
            (BitRate::from_gbps(3_600), BitRate::from_gbps(400))
        );
        let slow_gpus = Rails { local_link: link(100), ..RAILS };
        assert_eq!(line_rate(slow_gpus, 4), BitRate::from_gbps(100));
    }

    #[test]
    fn disconnected_networks_are_rejected() {
        let with = |change: fn(&mut Rails)| {
            let mut rails = RAILS;
            change(&mut rails);
            Topology::Rails(rails).check()
        };
        assert!(with(|r| r.spines = 0).is_err_and(|reason| reason.contains("spine")));
        assert!(with(|r| r.gpus = 0).is_err());
        assert!(with(|r| r.servers = 0).is_err());
        assert!(with(|r| r.servers_per_leaf = 0).is_err());
        assert!(with(|r| r.servers = u32::MAX).is_err());
        let one_group = with(|r| (r.servers_per_leaf, r.spines) = (7, 0));
        assert_eq!(one_group, Ok(()));
    }
}
