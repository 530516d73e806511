//! Which hosts share a switch.

use super::number;
use crate::topology::Topology;
use core::ops::Range;

/// The racks of a topology: hosts that share a switch. Hosts are numbered rack by rack, so a rack is a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Racks {
    /// By rack: one more than its last host.
    ends: Vec<u32>,
}

impl Racks {
    /// The racks of a topology. A switch without hosts is none.
    pub fn of(topology: &Topology) -> Self {
        let per_rack = |racks: u32, hosts: u32| (1..=racks).map(|rack| rack.saturating_mul(hosts)).collect();
        let ends = match topology {
            Topology::Tiers(t) => per_rack(t.pods.saturating_mul(t.racks), t.hosts),
            Topology::Chain(c) => per_rack(c.switches, c.hosts),
            Topology::Rotor(r) => per_rack(r.racks, r.hosts),
            Topology::Edges(e) => {
                let last = |host: &u32| host + 1 == e.hosts() || e.switch_of(*host) != e.switch_of(host + 1);
                (0..e.hosts()).filter(last).map(|host| host + 1).collect()
            }
        };
        Self { ends }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        number(self.ends.len())
    }

    /// How many hosts they have together.
    pub fn all_hosts(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The hosts of a rack; none where there is no such rack.
    pub fn hosts(&self, rack: u32) -> Range<u32> {
        let end = |rack: u32| self.ends.get(rack as usize).copied().unwrap_or_else(|| self.all_hosts());
        rack.checked_sub(1).map_or(0, end)..end(rack)
    }

    /// The rack of a host.
    pub fn of_host(&self, host: u32) -> Option<u32> {
        (host < self.all_hosts()).then(|| number(self.ends.partition_point(|end| *end <= host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Edges;

    #[test]
    fn racks_are_what_shares_a_switch() {
        let racks = Racks::of(&Topology::powertcp_fat_tree());
        assert_eq!((racks.count(), racks.all_hosts()), (8, 256));
        assert_eq!((racks.hosts(0), racks.hosts(7), racks.hosts(8)), (0..32, 224..256, 256..256));
        assert_eq!((racks.of_host(31), racks.of_host(32), racks.of_host(256)), (Some(0), Some(1), None));

        let text = "h0 s0 1 Gbps 1 us\n h1 s2 1 Gbps 1 us\n h2 s2 1 Gbps 1 us\n s0 s1 1 Gbps 1 us\n s1 s2 1 Gbps 1 us";
        let racks = Racks::of(&Topology::Edges(Edges::parse(text).expect("a network")));
        assert_eq!((racks.count(), racks.hosts(0), racks.hosts(1)), (2, 0..1, 1..3));
    }
}
