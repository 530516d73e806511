//! Networks from the papers that the lab evaluates.

use super::{Edge, Edges, Link, Node, Rotor, Tiers, Topology};
use poseidon_types::{BitRate, HostId, Nanos, Picos, SwitchId};

const fn link(gbps: u64, delay_ns: u64) -> Link {
    Link { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(Nanos::new(delay_ns)) }
}

impl Topology {
    /// Returns the network from Poseidon section 5: racks of 24 hosts with 8 uplinks per rack.
    ///
    /// All links run at 200 Gbps with a delay of 245 ns. Each rack is its own pod, so paths between racks cross five
    /// switches.
    pub const fn poseidon_clos(racks: u32) -> Self {
        let link = link(200, 245);
        Self::Tiers(Tiers {
            pods: racks,
            racks: 1,
            hosts: 24,
            aggregation: 8,
            cores: 1,
            host_link: link,
            rack_link: link,
            core_link: link,
        })
    }

    /// Returns the network from PowerTCP section 4.1, as configured in the paper's artifact.
    ///
    /// The network has 256 servers with 25 Gbps links. Its 8 rack switches, 8 aggregation switches and 4 core switches
    /// are connected at 100 Gbps. Core links have a delay of 5 us, and all other links have a delay of 1 us.
    pub const fn powertcp_fat_tree() -> Self {
        Self::Tiers(Tiers {
            pods: 4,
            racks: 2,
            hosts: 32,
            aggregation: 2,
            cores: 2,
            host_link: link(25, 1_000),
            rack_link: link(100, 1_000),
            core_link: link(100, 5_000),
        })
    }

    /// Returns the network from PowerTCP section 5: 25 racks of 10 servers with 25 Gbps links.
    ///
    /// Each rack has a 25 Gbps link to the packet switch and a 100 Gbps link to the circuit switch. A circuit stays up
    /// for 225 us, and reconfiguration takes 20 us. The link delays are chosen to match the paper's maximum base RTT of
    /// 24 us.
    pub const fn powertcp_rotor(notice: Picos) -> Self {
        Self::Rotor(Rotor {
            racks: 25,
            hosts: 10,
            host_link: link(25, 1_000),
            packet_link: link(25, 5_000),
            circuit_link: link(100, 10_000),
            day: Picos::from_nanos(Nanos::from_micros(225)),
            night: Picos::from_nanos(Nanos::from_micros(20)),
            notice,
        })
    }

    /// Returns the network from VAI + SF section III-D: a star with 100 Gbps links and link delays of 1 us.
    pub const fn vai_sf_star(hosts: u32) -> Self {
        Self::star(hosts, link(100, 1_000))
    }

    /// Returns the network from VAI + SF section VI-A, which is HPCC's fat tree.
    ///
    /// The network has 320 hosts with 100 Gbps links in 20 racks. The 20 aggregation switches and 16 core switches have
    /// 400 Gbps links. All links have a delay of 1 us.
    pub const fn vai_sf_fat_tree() -> Self {
        Self::Tiers(Tiers {
            pods: 5,
            racks: 4,
            hosts: 16,
            aggregation: 4,
            cores: 4,
            host_link: link(100, 1_000),
            rack_link: link(400, 1_000),
            core_link: link(400, 1_000),
        })
    }

    /// Returns the network from RPM section V-B: ten senders at switch s0, a router s1, and ten receivers at switch s2.
    ///
    /// The link from s1 to s2 is the bottleneck. Host `i` sends to host `i + 10`, whose link delay is
    /// `receiver_delays[i]` (the paper's table I). The sender links have a delay of 10 ms.
    pub fn rpm_testbed(receiver_delays: &[Nanos; 10]) -> Self {
        let sender_link = link(10, 10_000_000);
        // The paper does not specify the links between switches.
        let (uplink, bottleneck) = (link(100, 5_000), link(10, 5_000));
        let switch = |number| Node::Switch(SwitchId::new(number));
        let host_edge = |host, peer, link| Edge { a: Node::Host(HostId::new(host)), b: switch(peer), link };
        let senders = (0..10).map(|host| host_edge(host, 0, sender_link));
        let middle = [
            Edge { a: switch(0), b: switch(1), link: uplink },
            Edge { a: switch(1), b: switch(2), link: bottleneck },
        ];
        let receivers = (10..).zip(receiver_delays).map(|(host, delay)| {
            host_edge(host, 2, Link { rate: sender_link.rate, delay: Picos::from_nanos(*delay) })
        });
        let edges = senders.chain(middle).chain(receivers).collect();
        Self::Edges(Edges::new(edges).expect("the network is connected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_sizes_of_the_papers() {
        let size = |t: Topology| {
            assert_eq!(t.check(), Ok(()));
            (t.hosts(), t.switches())
        };
        assert_eq!(size(Topology::poseidon_clos(12)), (288, 12 + 96 + 8));
        assert_eq!(size(Topology::powertcp_fat_tree()), (256, 20));
        assert_eq!(size(Topology::powertcp_rotor(Picos::ZERO)), (250, 26));
        assert_eq!(size(Topology::vai_sf_star(17)), (17, 1));
        assert_eq!(size(Topology::vai_sf_fat_tree()), (320, 56));
        assert_eq!(size(Topology::rpm_testbed(&[Nanos::from_millis(10); 10])), (20, 3));
    }

    #[test]
    fn poseidon_racks_are_six_links_apart() {
        let hops = |to| Topology::poseidon_clos(12).hops(HostId::new(0), HostId::new(to));
        assert_eq!((hops(24), hops(1)), (6, 2));
    }
}
