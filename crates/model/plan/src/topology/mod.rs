//! Hosts, switches and the links between them.
//!
//! Most networks are shapes: a route follows from the numbers of its ends, so a network of 65,536 hosts needs no table. Any other is
//! a list of links ([`Edges`]), with routes found by breadth-first search. A [`Rotor`] changes its links while it runs.
//!
//! Hosts are numbered from zero, rack by rack.

mod edges;
mod papers;
mod rotor;

pub use edges::{Edge, EdgeError, Edges, End};
pub use rotor::Rotor;

use poseidon_types::{BitRate, Picos};

/// A cable: both directions have this rate and this propagation delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bits per second, each way.
    pub rate: BitRate,
    /// From the last bit in to the last bit out.
    pub delay: Picos,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Up to three tiers. One rack without aggregation is a star; one pod is a leaf-spine; `k` pods of `k/2` racks, `k/2`
    /// aggregation switches and `k/2` cores behind each of them are a fat tree.
    ///
    /// Each rack switch has a link to each aggregation switch of its pod; aggregation switch `i` of each pod has a link to
    /// each core of group `i`.
    Tiers(Tiers),
    /// Switches in a row, each with hosts of its own: two are a dumbbell, more are a parking lot.
    Chain(Chain),
    /// Racks behind a packet switch and a circuit switch that rotates.
    Rotor(Rotor),
    /// Any network, link by link.
    Edges(Edges),
}

/// A network of up to three tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// Pods.
    pub pods: u32,
    /// Racks in a pod, each with one switch.
    pub racks: u32,
    /// Hosts in a rack.
    pub hosts: u32,
    /// Aggregation switches in a pod; zero only with a single rack.
    pub aggregation: u32,
    /// Core switches behind each aggregation switch; zero only with a single pod.
    pub cores: u32,
    /// Host to rack.
    pub host_link: Link,
    /// Rack to aggregation.
    pub rack_link: Link,
    /// Aggregation to core.
    pub core_link: Link,
}

/// Switches in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Switches.
    pub switches: u32,
    /// Hosts at each switch.
    pub hosts: u32,
    /// Host to switch.
    pub host_link: Link,
    /// Switch to switch.
    pub middle_link: Link,
}

impl Topology {
    /// All hosts on one switch.
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

    /// The classic fat tree of `k`-port switches: `k³/4` hosts.
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

    /// Two switches with a link between them and `hosts` at each: hosts `0..hosts` on the left.
    pub const fn dumbbell(hosts: u32, host_link: Link, middle_link: Link) -> Self {
        Self::Chain(Chain { switches: 2, hosts, host_link, middle_link })
    }

    /// How many hosts there are; saturates.
    pub fn hosts(&self) -> u32 {
        match self {
            Self::Tiers(t) => t.pods.saturating_mul(t.racks).saturating_mul(t.hosts),
            Self::Chain(c) => c.switches.saturating_mul(c.hosts),
            Self::Rotor(r) => r.racks.saturating_mul(r.hosts),
            Self::Edges(e) => e.hosts(),
        }
    }

    /// How many switches there are; saturates.
    pub fn switches(&self) -> u32 {
        match self {
            Self::Tiers(t) => {
                let in_pods = t.pods.saturating_mul(t.racks.saturating_add(t.aggregation));
                in_pods.saturating_add(t.aggregation.saturating_mul(t.cores))
            }
            Self::Chain(c) => c.switches,
            Self::Rotor(r) => r.racks.saturating_add(1),
            Self::Edges(e) => e.switches(),
        }
    }

    /// The link of a host.
    pub fn host_link(&self, host: u32) -> Link {
        match self {
            Self::Tiers(t) => t.host_link,
            Self::Chain(c) => c.host_link,
            Self::Rotor(r) => r.host_link,
            Self::Edges(e) => e.host_link(host),
        }
    }

    /// Every kind of link there is.
    pub fn links(&self) -> Vec<Link> {
        match self {
            Self::Tiers(t) => vec![t.host_link, t.rack_link, t.core_link],
            Self::Chain(c) => vec![c.host_link, c.middle_link],
            Self::Rotor(r) => vec![r.host_link, r.packet_link, r.circuit_link],
            Self::Edges(e) => e.edges().iter().map(|edge| edge.link).collect(),
        }
    }

    /// The links that a packet crosses between two hosts, in order. Where several paths are equally short, those of one of them; in
    /// a rotor, those of the packet network.
    pub fn links_between(&self, from: u32, to: u32) -> Vec<Link> {
        match self {
            Self::Tiers(t) => match t.hops(from, to) {
                2 => vec![t.host_link; 2],
                4 => vec![t.host_link, t.rack_link, t.rack_link, t.host_link],
                _ => vec![t.host_link, t.rack_link, t.core_link, t.core_link, t.rack_link, t.host_link],
            },
            Self::Chain(c) => {
                let hops = 2 + (from / c.hosts).abs_diff(to / c.hosts) as usize;
                let mut links = vec![c.middle_link; hops];
                (links[0], links[hops - 1]) = (c.host_link, c.host_link);
                links
            }
            Self::Rotor(r) => {
                if from / r.hosts == to / r.hosts {
                    vec![r.host_link; 2]
                } else {
                    vec![r.host_link, r.packet_link, r.packet_link, r.host_link]
                }
            }
            Self::Edges(e) => e.links_between(from, to),
        }
    }

    /// How many links a packet crosses between two hosts; one more than the switches.
    pub fn hops(&self, from: u32, to: u32) -> u32 {
        match self {
            Self::Tiers(t) => t.hops(from, to),
            Self::Chain(c) => 2 + (from / c.hosts).abs_diff(to / c.hosts),
            Self::Rotor(_) | Self::Edges(_) => {
                u32::try_from(self.links_between(from, to).len()).unwrap_or(u32::MAX)
            }
        }
    }

    /// The same network link by link, hosts and switches under the same numbers; `None` for a rotor, whose links change. For small
    /// ones: a shape needs no list.
    pub fn to_edges(&self) -> Option<Edges> {
        let edge = |a, b, link| Edge { a, b, link };
        let mut edges = Vec::new();
        match self {
            Self::Edges(e) => return Some(e.clone()),
            Self::Rotor(_) => return None,
            Self::Chain(c) => {
                for host in 0..self.hosts() {
                    edges.push(edge(End::Host(host), End::Switch(host / c.hosts), c.host_link));
                }
                for right in 1..c.switches {
                    edges.push(edge(End::Switch(right - 1), End::Switch(right), c.middle_link));
                }
            }
            Self::Tiers(t) => {
                for host in 0..self.hosts() {
                    edges.push(edge(End::Host(host), End::Switch(host / t.hosts), t.host_link));
                }
                let racks = t.pods * t.racks;
                for pod in 0..t.pods {
                    for at in 0..t.aggregation {
                        let aggregation = racks + pod * t.aggregation + at;
                        for rack in pod * t.racks..(pod + 1) * t.racks {
                            edges.push(edge(End::Switch(rack), End::Switch(aggregation), t.rack_link));
                        }
                        for core in at * t.cores..(at + 1) * t.cores {
                            let core = racks + t.pods * t.aggregation + core;
                            edges.push(edge(End::Switch(aggregation), End::Switch(core), t.core_link));
                        }
                    }
                }
            }
        }
        Edges::new(edges).ok()
    }

    /// Refuses networks that are not connected or too large to number.
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
            // Checked when it was made.
            Self::Edges(_) => {}
        }
        if self.hosts() > 1 << 24 || self.switches() > 1 << 24 {
            return Err("more than 16,777,216 hosts or switches");
        }
        Ok(())
    }
}

impl Tiers {
    const fn hops(&self, from: u32, to: u32) -> u32 {
        let (rack, other) = (from / self.hosts, to / self.hosts);
        if rack == other {
            2
        } else if rack / self.racks == other / self.racks {
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
    fn shapes_of_the_papers_have_their_sizes() {
        assert_eq!(Topology::fat_tree(8, LINK).hosts(), 128);
        assert_eq!(Topology::fat_tree(8, LINK).switches(), 80);
        assert_eq!(Topology::fat_tree(64, LINK).hosts(), 65_536);
        assert_eq!(Topology::star(17, LINK).switches(), 1);
        // VAI + SF section VI-A: 320 hosts, 20 racks of 16, 20 aggregation, 16 spines.
        let duke = Topology::Tiers(Tiers {
            pods: 5,
            racks: 4,
            hosts: 16,
            aggregation: 4,
            cores: 4,
            host_link: LINK,
            rack_link: LINK,
            core_link: LINK,
        });
        assert_eq!((duke.hosts(), duke.switches()), (320, 56));
    }

    #[test]
    fn paths_are_as_long_as_their_shape_says() {
        let tree = Topology::fat_tree(4, LINK);
        assert_eq!((tree.hops(0, 1), tree.hops(0, 2), tree.hops(0, 15)), (2, 4, 6));
        let dumbbell = Topology::dumbbell(3, LINK, LINK);
        assert_eq!((dumbbell.hops(0, 2), dumbbell.hops(0, 3)), (2, 3));
    }

    #[test]
    fn a_shape_and_its_list_are_one_network() {
        let other = Link { rate: BitRate::from_gbps(400), ..LINK };
        let chain = Chain { switches: 3, hosts: 2, host_link: LINK, middle_link: other };
        for shape in [
            Topology::star(5, LINK),
            Topology::fat_tree(4, LINK),
            Topology::Chain(chain),
            Topology::poseidon_clos(3),
        ] {
            let list = Topology::Edges(shape.to_edges().expect("not a rotor"));
            assert_eq!((list.hosts(), list.switches()), (shape.hosts(), shape.switches()));
            for from in 0..shape.hosts() {
                for to in (0..shape.hosts()).filter(|to| *to != from) {
                    assert_eq!(list.links_between(from, to), shape.links_between(from, to), "{from} {to}");
                }
            }
        }
    }
}
