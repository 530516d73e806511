//! The networks of the four papers.

use super::{Edge, Edges, End, Link, Rotor, Tiers, Topology};
use poseidon_types::{BitRate, Nanos, Picos};

const fn link(gbps: u64, delay_ns: u64) -> Link {
    Link { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(Nanos::new(delay_ns)) }
}

impl Topology {
    /// Poseidon section 5: racks of 24 hosts with 8 uplinks, 200 Gbps and 245 ns everywhere; five switches between any two
    /// racks, so each rack is a pod of its own.
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

    /// PowerTCP section 4.1, in the shape of its artifact: 256 servers at 25 Gbps behind 8 rack, 8 aggregation and 4 core switches at
    /// 100 Gbps; 1 us per link, 5 us to the cores.
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

    /// PowerTCP section 5: 25 racks of 10 servers at 25 Gbps, a packet network of 25 Gbps per rack and a circuit switch of 100 Gbps that
    /// stands for 225 us and turns for 20 us. Delays give its largest base RTT of 24 us.
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

    /// VAI + SF section III-D: a star at 100 Gbps with links of 1 us.
    pub const fn vai_sf_star(hosts: u32) -> Self {
        Self::star(hosts, link(100, 1_000))
    }

    /// VAI + SF section VI-A, HPCC's fat tree: 320 hosts at 100 Gbps in 20 racks, 20 aggregation and 16 core switches at 400 Gbps,
    /// 1 us per link.
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

    /// RPM section V-B: ten hosts behind s0, ten behind s2, a router s1 between; the link from s1 to s2 is the bottleneck. Host `i`
    /// talks to host `i + 10`, whose link has the delay `far[i]` (the paper's table I); the near links have 10 ms.
    pub fn rpm_testbed(far: &[Nanos; 10]) -> Self {
        let near = link(10, 10_000_000);
        // Wires between switches, of which the paper says nothing.
        let (wide, narrow) = (link(100, 5_000), link(10, 5_000));
        let number = |i: usize| u32::try_from(i).unwrap_or(0);
        let hosts = far.iter().enumerate();
        let left = (0..10).map(|host| Edge { a: End::Host(host), b: End::Switch(0), link: near });
        let middle = [
            Edge { a: End::Switch(0), b: End::Switch(1), link: wide },
            Edge { a: End::Switch(1), b: End::Switch(2), link: narrow },
        ];
        let right = hosts.map(|(i, delay)| Edge {
            a: End::Host(10 + number(i)),
            b: End::Switch(2),
            link: Link { rate: near.rate, delay: Picos::from_nanos(*delay) },
        });
        Self::Edges(Edges::new(left.chain(middle).chain(right).collect()).expect("a network"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_the_papers_have_their_sizes() {
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
    fn poseidons_racks_are_six_links_apart() {
        assert_eq!(Topology::poseidon_clos(12).hops(0, 24), 6);
        assert_eq!(Topology::poseidon_clos(12).hops(0, 1), 2);
    }
}
