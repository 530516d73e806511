//! Racks, which are groups of hosts that share a switch.

use super::count_u32;
use crate::topology::Topology;
use core::iter::Map;
use core::ops::Range;
use poseidon_types::HostId;

/// The racks in a topology. A rack is a group of hosts that share a switch. Hosts are numbered rack by rack, so each
/// rack is a contiguous range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Racks {
    /// For each rack, the number of the last host plus one.
    ends: Vec<u32>,
    /// The number of racks per pod, or `None` if the topology has no pods.
    racks_per_pod: Option<u32>,
}

/// The hosts in a rack.
pub type RackHosts = Map<Range<u32>, fn(u32) -> HostId>;

impl Racks {
    /// Returns the racks in a topology. A switch without hosts does not count as a rack.
    pub fn new(topology: &Topology) -> Self {
        let equal_racks =
            |racks: u32, hosts: u32| (1..=racks).map(|rack| rack.saturating_mul(hosts)).collect();
        let ends = match topology {
            Topology::Tiers(t) => equal_racks(t.pods.saturating_mul(t.racks), t.hosts),
            Topology::Chain(c) => equal_racks(c.switches, c.hosts),
            Topology::Rotor(r) => equal_racks(r.racks, r.hosts),
            Topology::Rails(r) => equal_racks(r.servers, r.gpus),
            Topology::Edges(e) => {
                let switch_of = |host: u32| e.switch_of(HostId::new(host));
                let is_last = |host: &u32| host + 1 == e.hosts() || switch_of(*host) != switch_of(host + 1);
                (0..e.hosts()).filter(is_last).map(|host| host + 1).collect()
            }
        };
        let racks_per_pod = if let Topology::Tiers(t) = topology { Some(t.racks) } else { None };
        Self { ends, racks_per_pod }
    }

    /// Returns the number of racks.
    pub fn count(&self) -> u32 {
        count_u32(self.ends.len())
    }

    /// Returns the number of pods, or zero if the topology has no pods.
    pub fn pods(&self) -> u32 {
        self.racks_per_pod.and_then(|racks| self.count().checked_div(racks)).unwrap_or(0)
    }

    /// Returns the racks in a pod. The result is empty if the pod does not exist.
    pub fn racks_in_pod(&self, pod: u32) -> Range<u32> {
        match self.racks_per_pod {
            Some(racks) if pod < self.pods() => pod * racks..(pod + 1) * racks,
            Some(_) | None => 0..0,
        }
    }

    /// Returns the hosts in a pod. The result is empty if the pod does not exist.
    pub fn hosts_in_pod(&self, pod: u32) -> RackHosts {
        let racks = self.racks_in_pod(pod);
        let hosts = match racks.end.checked_sub(1) {
            Some(last) => self.host_range(racks.start).start..self.host_range(last).end,
            None => 0..0,
        };
        hosts.map(HostId::new)
    }

    /// Returns the total number of hosts in all racks.
    pub fn host_count(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the hosts in a rack. The result is empty if the rack does not exist.
    pub fn hosts(&self, rack: u32) -> RackHosts {
        self.host_range(rack).map(HostId::new)
    }

    /// Returns the range of host numbers in a rack.
    pub(super) fn host_range(&self, rack: u32) -> Range<u32> {
        let end = |rack: u32| self.ends.get(rack as usize).copied().unwrap_or_else(|| self.host_count());
        rack.checked_sub(1).map_or(0, end)..end(rack)
    }

    /// Returns a host's rack, or `None` if the host does not exist.
    pub fn rack_of(&self, host: HostId) -> Option<u32> {
        let host = host.get();
        (host < self.host_count()).then(|| count_u32(self.ends.partition_point(|end| *end <= host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Edges;

    #[test]
    fn hosts_of_a_rack_share_a_switch() {
        let racks = Racks::new(&Topology::powertcp_fat_tree());
        assert_eq!((racks.count(), racks.host_count()), (8, 256));
        assert_eq!(
            (racks.host_range(0), racks.host_range(7), racks.host_range(8)),
            (0..32, 224..256, 256..256)
        );
        let rack_of = |host| racks.rack_of(HostId::new(host));
        assert_eq!((rack_of(31), rack_of(32), rack_of(256)), (Some(0), Some(1), None));

        let pod = |pod| racks.hosts_in_pod(pod).map(HostId::get).collect::<Vec<_>>();
        assert_eq!((racks.pods(), racks.racks_in_pod(3), racks.racks_in_pod(4)), (4, 6..8, 0..0));
        assert_eq!((pod(1), pod(4)), ((64..128).collect(), Vec::new()));

        let text = "h0 s0 1 Gbps 1 us\n h1 s2 1 Gbps 1 us\n h2 s2 1 Gbps 1 us\n s0 s1 1 Gbps 1 us\n s1 s2 1 Gbps 1 us";
        let racks = Racks::new(&Topology::Edges(Edges::parse(text).expect("the list is valid")));
        assert_eq!((racks.count(), racks.host_range(0), racks.host_range(1)), (2, 0..1, 1..3));
        assert_eq!((racks.pods(), racks.hosts_in_pod(0).len()), (0, 0));
    }
}
