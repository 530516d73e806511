//! The built network: who is behind which port, how long the way there is, and which port leads to a host.
//!
//! Switches are numbered first (racks, aggregation, cores; or along the chain), then racks of hosts: a rack is one node
//! with one port per host.

use poseidon_plan::topology::{Chain, Tiers};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::{BitRate, Bytes};

use crate::packet::Packet;

/// The far end of a port, and the way there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// The node at the far end.
    pub(crate) node: u32,
    /// Its port.
    pub(crate) port: u32,
    /// From the last bit out to the packet's place in the next node, ps: propagation and pipeline.
    pub(crate) delay: u64,
    pub(crate) rate: BitRate,
    /// Picoseconds per byte where that is a whole number; otherwise zero.
    ps_per_byte: u64,
}

impl Wire {
    fn new(node: u32, port: u32, link: Link, pipeline: u64) -> Self {
        let byte = link.rate.send_time_ceil(Bytes::new(1)).get();
        let exact = link.rate.send_time_ceil(Bytes::new(1 << 20)).get() == byte << 20;
        let ps_per_byte = if exact { byte } else { 0 };
        Self { node, port, delay: link.delay.get() + pipeline, rate: link.rate, ps_per_byte }
    }

    /// Time to put `size` bytes on the wire, ps.
    #[inline]
    pub(crate) fn send_time(&self, size: u16) -> u64 {
        match self.ps_per_byte {
            0 => self.rate.send_time_ceil(Bytes::new(u64::from(size))).get(),
            ps => ps * u64::from(size),
        }
    }
}

/// Where a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rack: u32,
    pub(crate) place: u16,
    pub(crate) pod: u16,
}

/// The built network.
#[derive(Debug)]
pub(crate) struct Network {
    shape: Topology,
    switches: u32,
    seed: u64,
    /// The wires of all switch ports, switch by switch.
    wires: Vec<Wire>,
    /// Where the wires of each switch begin, and where the last end.
    first: Vec<u32>,
    /// The wire of every host.
    host_wires: Vec<Wire>,
    pub(crate) racks: u32,
    pub(crate) hosts_per_rack: u32,
}

impl Network {
    pub(crate) fn new(plan: &Plan) -> Self {
        let pipeline = plan.switch.pipeline.get();
        let switches = plan.topology.switches();
        let mut network = Self {
            shape: plan.topology.clone(),
            switches,
            seed: plan.seed,
            wires: Vec::new(),
            first: vec![0],
            host_wires: Vec::new(),
            racks: 0,
            hosts_per_rack: 0,
        };
        match &plan.topology {
            Topology::Tiers(t) => network.build_tiers(t, switches, pipeline),
            Topology::Chain(c) => network.build_chain(c, switches, pipeline),
        }
        network
    }

    pub(crate) const fn switches(&self) -> u32 {
        self.switches
    }

    /// The shortest time into a switch: no switch can influence another sooner.
    pub(crate) fn shortest(&self) -> u64 {
        let to_switches = self.wires.iter().filter(|wire| wire.node < self.switches());
        to_switches.chain(&self.host_wires).map(|wire| wire.delay).min().unwrap_or(1)
    }

    /// The shard of a node, of `shards`: racks in equal parts, each with its own switch; other switches spread evenly.
    pub(crate) fn shard_of(&self, node: u32, shards: u32) -> u32 {
        let (switches, racks) = (self.switches, self.racks);
        let rack = if node >= switches { node - switches } else { node };
        let (place, all) = if rack < racks { (rack, racks) } else { (rack - racks, switches - racks) };
        u32::try_from(u64::from(place) * u64::from(shards) / u64::from(all.max(1))).unwrap_or(0)
    }

    /// The wires of a switch.
    pub(crate) fn ports(&self, switch: u32) -> core::ops::Range<u32> {
        self.first[switch as usize]..self.first[switch as usize + 1]
    }

    pub(crate) fn wire(&self, port: u32) -> &Wire {
        &self.wires[port as usize]
    }

    pub(crate) fn wires(&self) -> usize {
        self.wires.len()
    }

    pub(crate) fn host_wire(&self, host: u32) -> &Wire {
        &self.host_wires[host as usize]
    }

    /// Where a host is.
    pub(crate) fn place(&self, host: u32) -> Place {
        let (rack, place) = (host / self.hosts_per_rack, host % self.hosts_per_rack);
        let pod = match &self.shape {
            Topology::Tiers(t) => rack / t.racks,
            Topology::Chain(_) => 0,
        };
        let small = |x: u32| u16::try_from(x).expect("a plan with more was refused");
        Place { rack, place: small(place), pod: small(pod) }
    }

    /// The port of `switch`, counted from its first, that leads on towards a packet's host.
    #[inline]
    pub(crate) fn route(&self, switch: u32, packet: &Packet) -> u32 {
        match &self.shape {
            Topology::Tiers(t) => {
                let racks = t.pods * t.racks;
                if switch < racks {
                    if packet.to_rack == switch {
                        return u32::from(packet.to_place);
                    }
                    return t.hosts + self.choose(switch, packet, t.aggregation);
                }
                let aggregation = switch - racks;
                if aggregation < t.pods * t.aggregation {
                    let pod = u32::from(packet.to_pod);
                    if aggregation / t.aggregation == pod {
                        return packet.to_rack - pod * t.racks;
                    }
                    return t.racks + self.choose(switch, packet, t.cores);
                }
                u32::from(packet.to_pod)
            }
            Topology::Chain(c) => match packet.to_rack.cmp(&switch) {
                core::cmp::Ordering::Equal => u32::from(packet.to_place),
                core::cmp::Ordering::Less => c.hosts,
                // The first switch has no neighbour on its left, so its only one comes first.
                core::cmp::Ordering::Greater => c.hosts + u32::from(switch > 0),
            },
        }
    }

    /// One of `ways` equal ways, by the packet's entropy and the switch's own seed.
    fn choose(&self, switch: u32, packet: &Packet, ways: u32) -> u32 {
        let hash = mix(self.seed ^ (u64::from(switch) << 32) ^ u64::from(packet.entropy));
        // The high half of a product spreads evenly without a division.
        u32::try_from(((hash >> 32) * u64::from(ways)) >> 32).unwrap_or(0)
    }

    fn build_tiers(&mut self, t: &Tiers, switches: u32, pipeline: u64) {
        let (racks, aggregations) = (t.pods * t.racks, t.pods * t.aggregation);
        (self.racks, self.hosts_per_rack) = (racks, t.hosts);
        for rack in 0..racks {
            let (pod, in_pod) = (rack / t.racks, rack % t.racks);
            self.add_hosts(switches + rack, rack, t.hosts, t.host_link, pipeline);
            for up in 0..t.aggregation {
                let peer = racks + pod * t.aggregation + up;
                self.wires.push(Wire::new(peer, in_pod, t.rack_link, pipeline));
            }
            self.end_of_switch();
        }
        for aggregation in 0..aggregations {
            let (pod, group) = (aggregation / t.aggregation, aggregation % t.aggregation);
            for down in 0..t.racks {
                self.wires.push(Wire::new(pod * t.racks + down, t.hosts + group, t.rack_link, pipeline));
            }
            for up in 0..t.cores {
                let core = racks + aggregations + group * t.cores + up;
                self.wires.push(Wire::new(core, pod, t.core_link, pipeline));
            }
            self.end_of_switch();
        }
        for core in 0..t.aggregation * t.cores {
            let (group, member) = (core / t.cores.max(1), core % t.cores.max(1));
            for pod in 0..t.pods {
                let peer = racks + pod * t.aggregation + group;
                self.wires.push(Wire::new(peer, t.racks + member, t.core_link, pipeline));
            }
            self.end_of_switch();
        }
    }

    fn build_chain(&mut self, c: &Chain, switches: u32, pipeline: u64) {
        (self.racks, self.hosts_per_rack) = (c.switches, c.hosts);
        for switch in 0..c.switches {
            self.add_hosts(switches + switch, switch, c.hosts, c.host_link, pipeline);
            if switch > 0 {
                // The left neighbour's way to the right is behind its own way to the left, if it has one.
                let port = c.hosts + u32::from(switch > 1);
                self.wires.push(Wire::new(switch - 1, port, c.middle_link, pipeline));
            }
            if switch + 1 < c.switches {
                self.wires.push(Wire::new(switch + 1, c.hosts, c.middle_link, pipeline));
            }
            self.end_of_switch();
        }
    }

    /// The hosts of a rack behind the first ports of its switch. A host has no pipeline.
    fn add_hosts(&mut self, rack: u32, switch: u32, hosts: u32, link: Link, pipeline: u64) {
        for place in 0..hosts {
            self.wires.push(Wire::new(rack, place, link, 0));
            self.host_wires.push(Wire::new(switch, place, link, pipeline));
        }
    }

    fn end_of_switch(&mut self) {
        self.first.push(u32::try_from(self.wires.len()).expect("a plan with more was refused"));
    }
}

/// Sixty-four well-mixed bits of `x` (the finaliser of `SplitMix64`).
pub(crate) const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The low half of well-mixed bits.
#[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
pub(crate) const fn low_half(x: u64) -> u32 {
    x as u32
}
