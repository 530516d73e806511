//! Poisson flow arrivals with a size distribution and a load.

use super::arrivals::Poisson;
use super::error::check_hosts;
use super::{Pattern, PatternError, Racks, SizeDistribution, Traffic, TrafficClass, count_u32};
use crate::random::RandomKey;
use crate::traffic::Amount;
use poseidon_types::{BitRate, Fraction, HostId, Picos};

/// Hosts start flows at random times. Each flow uses a new connection, and flow sizes follow a distribution.
///
/// The flow arrival rate per host is `load` x `capacity` / mean size, as in HPCC's and PowerTCP's generators.
#[derive(Clone, Debug, PartialEq)]
pub struct PoissonFlows {
    /// All hosts, grouped by rack.
    pub racks: Racks,
    /// The hosts that start flows. If `None`, all hosts start flows.
    pub senders: Option<Vec<HostId>>,
    /// Which hosts may receive a flow.
    pub destinations: Destinations,
    /// The flow size distribution.
    pub sizes: SizeDistribution,
    /// The offered load as a fraction of the capacity.
    pub load: Fraction,
    /// The capacity of one host: its link rate (VAI + SF), or its share of the rack's uplinks (PowerTCP).
    pub capacity: BitRate,
    /// The time at which arrivals begin.
    pub start: Picos,
    /// The time at which arrivals end.
    pub until: Picos,
}

/// The possible receivers for a host's flows. All of them are equally likely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destinations {
    /// All other hosts, including hosts in the same rack (HPCC's generator).
    OtherHosts,
    /// Hosts in other racks, so all traffic crosses the uplinks.
    OtherRacks,
    /// Other hosts in the same rack or in higher-numbered racks, as in PowerTCP's artifact.
    ///
    /// Hosts in the last rack send only within their rack, and they receive more traffic than hosts in other racks.
    SameAndLaterRacks,
    /// These hosts, except for the sender itself. Sorted, without duplicates.
    Hosts(Vec<HostId>),
}

impl Pattern for PoissonFlows {
    fn expected_messages(&self) -> f64 {
        let all_hosts = || f64::from(self.racks.host_count());
        let senders = self.senders.as_ref().map_or_else(all_hosts, |hosts| hosts.len() as f64);
        senders * self.arrivals().map_or(0.0, Poisson::expected_events)
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        self.check()?;
        let arrivals = self.arrivals()?;
        let mut traffic = Traffic::default();
        let all_hosts = || (0..self.racks.host_count()).map(HostId::new).collect();
        for from in self.senders.clone().unwrap_or_else(all_hosts) {
            let random = class.host_key(from);
            let (target, size) = (random.named("to"), random.named("size"));
            for (flow, time) in arrivals.events(random.named("gap")) {
                let to = self.draw_destination(from, target.nth(flow));
                let connection = traffic.add_connection(class.connection(from, to, flow));
                traffic.add_message(connection, time, Amount::Exactly(self.sizes.draw(size.nth(flow))));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

impl PoissonFlows {
    /// Returns the arrival process for one host's flows.
    fn arrivals(&self) -> Result<Poisson, PatternError> {
        let load = self.load.q32() as f64 / Fraction::ONE.q32() as f64;
        Poisson::with_load(load, self.capacity, self.sizes.mean(), self.start, self.until)
    }

    fn check(&self) -> Result<(), PatternError> {
        let racks = &self.racks;
        if let Some(senders) = &self.senders {
            check_hosts(senders, 1)?;
        }
        let actual = match &self.destinations {
            Destinations::Hosts(hosts) => {
                check_hosts(hosts, 1)?;
                if let [only] = hosts.as_slice()
                    && self.senders.as_ref().is_none_or(|senders| senders.contains(only))
                {
                    return Err(PatternError::SelfTraffic(*only));
                }
                return Ok(());
            }
            Destinations::OtherHosts => racks.host_count() as usize,
            Destinations::OtherRacks if racks.count() < 2 => return Err(PatternError::SingleRack),
            Destinations::OtherRacks => racks.host_count() as usize,
            // If the last rack had only one host, that host would have no receiver.
            Destinations::SameAndLaterRacks => racks.hosts(racks.count().saturating_sub(1)).len(),
        };
        if actual < 2 { Err(PatternError::TooFewHosts { needed: 2, actual }) } else { Ok(()) }
    }

    /// Draws a receiver uniformly at random from a host's allowed destinations.
    fn draw_destination(&self, from: HostId, random: RandomKey) -> HostId {
        let hosts = self.racks.host_count();
        let rack = self.racks.rack_of(from);
        let from = from.get();
        let rack = rack.map_or(from..from, |rack| self.racks.host_range(rack));
        // The candidates are all hosts numbered `first` or higher, except for the excluded range.
        let (first, excluded) = match &self.destinations {
            Destinations::Hosts(hosts) => return draw_other_host(hosts, HostId::new(from), random),
            Destinations::OtherHosts => (0, from..from + 1),
            Destinations::OtherRacks => (0, rack),
            Destinations::SameAndLaterRacks => (rack.start, from..from + 1),
        };
        let excluded_count = excluded.end - excluded.start;
        let draw = first + random.below(hosts - first - excluded_count);
        HostId::new(if draw < excluded.start { draw } else { draw + excluded_count })
    }
}

/// Draws a host other than `from` uniformly at random. `hosts` is sorted and contains another host.
fn draw_other_host(hosts: &[HostId], from: HostId, random: RandomKey) -> HostId {
    match hosts.binary_search(&from) {
        Ok(position) => {
            let draw = random.below(count_u32(hosts.len() - 1)) as usize;
            hosts[if draw < position { draw } else { draw + 1 }]
        }
        Err(_) => hosts[random.below(count_u32(hosts.len())) as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    /// PowerTCP section 4.1: web search at 80 % uplink load. Each rack has 32 servers and two 100 Gbps uplinks.
    fn powertcp(destinations: Destinations) -> PoissonFlows {
        PoissonFlows {
            racks: Racks::new(&Topology::powertcp_fat_tree()),
            senders: None,
            destinations,
            sizes: SizeDistribution::named("websearch-powertcp").expect("the workload exists"),
            load: Fraction::ratio(4, 5),
            capacity: BitRate::from_mbps(6_250),
            start: "100 ms".parse().expect("the time is valid"),
            until: "1.1 s".parse().expect("the time is valid"),
        }
    }

    fn total_bytes(traffic: &Traffic) -> f64 {
        traffic.messages.iter().filter_map(|m| m.amount.bytes()).map(|b| b.get() as f64).sum()
    }

    #[test]
    fn offered_load_matches_the_configured_load() {
        let traffic = powertcp(Destinations::OtherRacks)
            .generate(&TrafficClass::new(7, "ws"))
            .expect("the pattern is valid");
        // The expected number of flows is 93,500, with a standard deviation of 306.
        let count = traffic.messages.len();
        assert!((92_500..94_500).contains(&count), "{count}");
        // The load is 256 x 6.25 Gbps x 0.8. The standard deviation of the flow sizes is 2.3 times the mean, so the
        // standard error is 0.8 %.
        let gbps = total_bytes(&traffic) * 8.0 / 1e9;
        assert!((gbps / 1_280.0 - 1.0).abs() < 0.03, "{gbps}");
        assert_eq!(traffic.connections.len(), count, "each flow has a new connection");
    }

    #[test]
    fn allowed_destinations_are_equally_likely() {
        let chosen = Destinations::Hosts([3, 40, 41, 200].map(HostId::new).to_vec());
        for destinations in
            [Destinations::OtherHosts, Destinations::OtherRacks, Destinations::SameAndLaterRacks, chosen]
        {
            let flows = powertcp(destinations.clone());
            let from = 40;
            let mut counts = vec![0; 256];
            for i in 0..100_000 {
                let random = RandomKey::new(i, "to");
                counts[flows.draw_destination(HostId::new(from), random).index()] += 1;
            }
            let allowed = |host: u32| match &destinations {
                Destinations::Hosts(hosts) => host != from && hosts.contains(&HostId::new(host)),
                Destinations::OtherHosts => host != from,
                Destinations::OtherRacks => host / 32 != 1,
                Destinations::SameAndLaterRacks => host >= 32 && host != from,
            };
            let allowed_hosts = (0..256).filter(|host| allowed(*host)).count();
            for (host, count) in (0..).zip(counts) {
                let expected = if allowed(host) { 100_000 / allowed_hosts } else { 0 };
                let deviation = 5.0 * (expected as f64).sqrt();
                assert!(
                    (f64::from(count) - expected as f64).abs() <= deviation,
                    "{destinations:?} {host}: {count}"
                );
            }
        }
    }

    #[test]
    fn flows_of_a_host_do_not_depend_on_the_number_of_hosts() {
        let from_host_0 = |hosts| {
            let link = Topology::vai_sf_star(3).host_link(HostId::new(0));
            let flows = PoissonFlows {
                racks: Racks::new(&Topology::star(hosts, link)),
                destinations: Destinations::OtherHosts,
                ..powertcp(Destinations::OtherHosts)
            };
            let traffic = flows.generate(&TrafficClass::new(7, "ws")).expect("the pattern is valid");
            let is_sender = |m: &&crate::traffic::Message| {
                traffic.connections[m.connection.index()].from == HostId::new(0)
            };
            traffic.messages.iter().filter(is_sender).map(|m| (m.start, m.amount)).collect::<Vec<_>>()
        };
        assert_eq!(from_host_0(4), from_host_0(9));
    }

    #[test]
    fn only_the_named_senders_start_flows_and_their_flows_stay_the_same() {
        let class = TrafficClass::new(7, "ws");
        let all = powertcp(Destinations::OtherHosts);
        let some = PoissonFlows { senders: Some(vec![HostId::new(3), HostId::new(90)]), ..all.clone() };
        let flows_of = |traffic: &Traffic, host: u32| {
            let connections = traffic.connections.iter().filter(|c| c.from == HostId::new(host));
            connections.map(|connection| connection.to).collect::<Vec<_>>()
        };
        let (all, some) = (all.generate(&class).expect("valid"), some.generate(&class).expect("valid"));
        assert_eq!(flows_of(&some, 3), flows_of(&all, 3));
        assert_eq!(some.connections.len(), flows_of(&all, 3).len() + flows_of(&all, 90).len());
    }

    #[test]
    fn sender_that_is_the_only_destination_is_rejected() {
        let flows = powertcp(Destinations::Hosts(vec![HostId::new(3)]));
        let error = Err(PatternError::SelfTraffic(HostId::new(3)));
        assert_eq!(flows.generate(&TrafficClass::new(7, "ws")), error);
        let flows = PoissonFlows { senders: Some(vec![HostId::new(4)]), ..flows };
        assert!(flows.generate(&TrafficClass::new(7, "ws")).is_ok());
    }

    #[test]
    fn single_rack_is_rejected() {
        let racks = Racks::new(&Topology::vai_sf_star(4));
        let flows = PoissonFlows { racks, ..powertcp(Destinations::OtherRacks) };
        assert_eq!(flows.generate(&TrafficClass::new(7, "ws")), Err(PatternError::SingleRack));
    }
}
