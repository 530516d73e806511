//! The names of hosts and switches, as selectors write them.

use poseidon_plan::Topology;
use poseidon_plan::patterns::Racks;
use poseidon_types::{HostId, SwitchId};

/// Returns a switch's name, as selectors write it: by tier if the network has tiers, otherwise by number.
pub fn switch_name(topology: &Topology, switch: SwitchId) -> String {
    let number = switch.get();
    // The words of consecutive switches, and the number of switches with each word.
    let words = match topology {
        Topology::Tiers(t) => {
            vec![("rack", t.pods * t.racks), ("agg", t.pods * t.aggregation), ("core", u32::MAX)]
        }
        Topology::Rails(r) => {
            vec![("server", r.servers), ("leaf", r.spine(0) - r.servers), ("spine", u32::MAX)]
        }
        Topology::Chain(c) => vec![("rack", c.switches)],
        Topology::Rotor(r) => vec![("rack", r.racks)],
        Topology::Edges(_) => Vec::new(),
    };
    let mut first = 0;
    for (word, count) in words {
        if number - first < count {
            return format!("{word}{}", number - first);
        }
        first += count;
    }
    format!("s{number}")
}

/// Returns a host's name, as selectors write it: `rack0.host3`, or `server0.gpu3` in a network of rails.
pub fn host_name(topology: &Topology, racks: &Racks, host: HostId) -> String {
    let (rack_word, host_word) =
        if matches!(topology, Topology::Rails(_)) { ("server", "gpu") } else { ("rack", "host") };
    let Some(rack) = racks.rack_of(host) else { return format!("{host_word}{}", host.get()) };
    let first = racks.hosts(rack).next().map_or(0, HostId::get);
    format!("{rack_word}{rack}.{host_word}{}", host.get() - first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{OneOrMore, select_hosts, select_switches};
    use poseidon_plan::topology::{Chain, Edges, Link, Rails};
    use poseidon_types::{BitRate, Picos};

    const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

    #[test]
    fn every_name_selects_its_host_or_switch() {
        let links = "h0 s0 1 Gbps 1 us\nh1 s2 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\ns1 s2 1 Gbps 1 us";
        let rails = Rails {
            servers: 4,
            gpus: 2,
            servers_per_leaf: 2,
            spines: 3,
            local_link: LINK,
            rail_link: LINK,
            spine_link: LINK,
        };
        for (topology, some) in [
            (Topology::powertcp_fat_tree(), ["rack7", "agg0", "core3", "rack7.host31"]),
            (Topology::poseidon_clos(4), ["rack3", "agg31", "core7", "rack1.host0"]),
            (Topology::star(3, LINK), ["rack0", "rack0", "rack0", "rack0.host2"]),
            (
                Topology::Chain(Chain { switches: 3, hosts: 1, host_link: LINK, middle_link: LINK }),
                ["rack0", "rack1", "rack2", "rack2.host0"],
            ),
            (Topology::powertcp_rotor(Picos::ZERO), ["rack0", "rack24", "s25", "rack24.host9"]),
            (Topology::Rails(rails), ["server0", "leaf0", "spine2", "server3.gpu1"]),
            (
                Topology::Edges(Edges::parse(links).expect("the list is valid")),
                ["s0", "s1", "s2", "rack1.host0"],
            ),
        ] {
            let racks = Racks::new(&topology);
            let mut names = Vec::new();
            for switch in topology.switch_ids() {
                let name = switch_name(&topology, switch);
                let selected = select_switches(&OneOrMore(vec![name.clone()]), &topology);
                assert_eq!(selected, Ok(vec![switch]), "{name}");
                names.push(name);
            }
            for host in topology.host_ids() {
                let name = host_name(&topology, &racks, host);
                assert_eq!(select_hosts(&OneOrMore(vec![name.clone()]), &racks), Ok(vec![host]), "{name}");
                names.push(name);
            }
            assert!(some.iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
        }
    }
}
