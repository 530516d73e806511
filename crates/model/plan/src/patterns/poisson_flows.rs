//! Flows of a size distribution at a load.

use super::arrivals::Poisson;
use super::{Class, Pattern, PatternError, Racks, SizeDistribution, Traffic};
use crate::chance::Chance;
use crate::traffic::Amount;
use poseidon_types::{BitRate, Fraction, Picos};

/// Every host begins flows at random, each over a new connection. Sizes are drawn from a distribution; their rate is `load` x
/// `capacity` / mean size, per host, as in the generators of HPCC and PowerTCP.
#[derive(Clone, Debug, PartialEq)]
pub struct PoissonFlows {
    /// All hosts, and what they share.
    pub racks: Racks,
    /// To whom.
    pub destinations: Destinations,
    /// How large.
    pub sizes: SizeDistribution,
    /// How much of the capacity they offer.
    pub load: Fraction,
    /// What one host could send: its link (VAI + SF), or its share of the rack's uplinks (PowerTCP).
    pub capacity: BitRate,
    /// From here on.
    pub start: Picos,
    /// None from here on.
    pub until: Picos,
}

/// To whom a host sends; each host there is as likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destinations {
    /// All other hosts, those of the same rack among them (HPCC's generator).
    OtherHosts,
    /// The hosts of other racks: all of the load crosses the uplinks.
    OtherRacks,
    /// Other hosts of the same rack and of racks with higher numbers: what PowerTCP's artifact does. The last rack stays among
    /// itself, and receives more than others.
    SameAndLaterRacks,
}

impl Pattern for PoissonFlows {
    fn expected_messages(&self) -> f64 {
        f64::from(self.racks.all_hosts()) * self.arrivals().map_or(0.0, Poisson::expected)
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        self.check()?;
        let arrivals = self.arrivals()?;
        let mut traffic = Traffic::default();
        for from in 0..self.racks.all_hosts() {
            let host = class.chance.of(u64::from(from));
            let (target, size) = (host.named("to"), host.named("size"));
            for (flow, at) in arrivals.events(host.named("gap")) {
                let to = self.destination(from, target.of(flow));
                let connection = traffic.connect(class.connection(from, to, flow));
                traffic.send(connection, at, Amount::Exactly(self.sizes.draw(size.of(flow))));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

impl PoissonFlows {
    /// The flows of one host.
    fn arrivals(&self) -> Result<Poisson, PatternError> {
        let load = self.load.q32() as f64 / Fraction::ONE.q32() as f64;
        Poisson::offering(load, self.capacity, self.sizes.mean(), self.start, self.until)
    }

    fn check(&self) -> Result<(), PatternError> {
        let racks = &self.racks;
        let given = match self.destinations {
            Destinations::OtherHosts => racks.all_hosts() as usize,
            Destinations::OtherRacks if racks.count() < 2 => return Err(PatternError::OneRack),
            Destinations::OtherRacks => racks.all_hosts() as usize,
            // A host alone in the last rack has nobody.
            Destinations::SameAndLaterRacks => racks.hosts(racks.count().saturating_sub(1)).len(),
        };
        if given < 2 { Err(PatternError::TooFewHosts { needed: 2, given }) } else { Ok(()) }
    }

    /// Draws among all hosts but those that are left out, which are a range.
    fn destination(&self, from: u32, chance: Chance) -> u32 {
        let all = self.racks.all_hosts();
        let rack = self.racks.of_host(from).map_or(from..from, |rack| self.racks.hosts(rack));
        let (first, left_out) = match self.destinations {
            Destinations::OtherHosts => (0, from..from + 1),
            Destinations::OtherRacks => (0, rack),
            Destinations::SameAndLaterRacks => (rack.start, from..from + 1),
        };
        let gap = left_out.end - left_out.start;
        let drawn = first + chance.below(all - first - gap);
        if drawn < left_out.start { drawn } else { drawn + gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    /// PowerTCP section 4.1: web search over its fat tree, 80 % of the uplinks, which are 2 x 100 Gbps for 32 servers.
    fn powertcp(destinations: Destinations) -> PoissonFlows {
        PoissonFlows {
            racks: Racks::of(&Topology::powertcp_fat_tree()),
            destinations,
            sizes: SizeDistribution::named("websearch-powertcp").expect("a workload"),
            load: Fraction::ratio(4, 5),
            capacity: BitRate::from_mbps(6_250),
            start: "100 ms".parse().expect("a time"),
            until: "1.1 s".parse().expect("a time"),
        }
    }

    fn bytes(traffic: &Traffic) -> f64 {
        traffic.messages.iter().filter_map(|m| m.amount.bytes()).map(|b| b.get() as f64).sum()
    }

    #[test]
    fn the_offered_load_is_what_was_asked_for() {
        let traffic = powertcp(Destinations::OtherRacks).traffic(&Class::new(7, "ws")).expect("a pattern");
        // 93,500 flows in a second, with a standard deviation of 306.
        let count = traffic.messages.len();
        assert!((92_500..94_500).contains(&count), "{count}");
        // 256 x 6.25 Gbps x 0.8; sizes have a deviation of 2.3 times their mean: 0.8 % over so many flows.
        let gbps = bytes(&traffic) * 8.0 / 1e9;
        assert!((gbps / 1_280.0 - 1.0).abs() < 0.03, "{gbps}");
        assert_eq!(traffic.connections.len(), count, "a new connection per flow");
    }

    #[test]
    fn destinations_are_drawn_evenly_where_they_are_allowed() {
        for destinations in
            [Destinations::OtherHosts, Destinations::OtherRacks, Destinations::SameAndLaterRacks]
        {
            let flows = powertcp(destinations);
            let from = 40;
            let mut seen = vec![0; 256];
            for i in 0..100_000 {
                seen[flows.destination(from, Chance::new(i, "to")) as usize] += 1;
            }
            let allowed = |host: u32| match destinations {
                Destinations::OtherHosts => host != from,
                Destinations::OtherRacks => host / 32 != 1,
                Destinations::SameAndLaterRacks => host >= 32 && host != from,
            };
            let count = (0..256).filter(|host| allowed(*host)).count();
            for (host, seen) in (0..).zip(seen) {
                let expected = if allowed(host) { 100_000 / count } else { 0 };
                let deviation = 5.0 * (expected as f64).sqrt();
                assert!(
                    (f64::from(seen) - expected as f64).abs() <= deviation,
                    "{destinations:?} {host}: {seen}"
                );
            }
        }
    }

    #[test]
    fn what_one_host_sends_does_not_depend_on_how_many_there_are() {
        let from_host_0 = |hosts| {
            let link = Topology::vai_sf_star(3).host_link(0);
            let flows = PoissonFlows {
                racks: Racks::of(&Topology::star(hosts, link)),
                destinations: Destinations::OtherHosts,
                ..powertcp(Destinations::OtherHosts)
            };
            let traffic = flows.traffic(&Class::new(7, "ws")).expect("a pattern");
            let of_it = |m: &&crate::traffic::Message| traffic.connections[m.connection as usize].from == 0;
            traffic.messages.iter().filter(of_it).map(|m| (m.at, m.amount)).collect::<Vec<_>>()
        };
        assert_eq!(from_host_0(4), from_host_0(9));
    }

    #[test]
    fn one_rack_has_no_other() {
        let racks = Racks::of(&Topology::vai_sf_star(4));
        let flows = PoissonFlows { racks, ..powertcp(Destinations::OtherRacks) };
        assert_eq!(flows.traffic(&Class::new(7, "ws")), Err(PatternError::OneRack));
    }
}
