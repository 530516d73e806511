//! Requests to several servers in one rack.

use super::arrivals::Poisson;
use super::error::{check_above_zero, check_hosts};
use super::split::{check_parts, split};
use super::{Pattern, PatternError, Racks, Traffic, TrafficClass, count_u32};
use crate::random::RandomKey;
use crate::traffic::Amount;
use poseidon_types::{Bytes, HostId, Picos};

/// Requests for a file that is spread across several servers in one rack (PowerTCP section 4.1).
///
/// Each client sends requests at random times. For each request, the client selects a random rack other than its own
/// and random servers in that rack. The servers respond simultaneously, each on a new connection. As in PowerTCP's
/// artifact, the request packets themselves are not simulated. Unlike in the artifact, a request never selects the same
/// server twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// The clients.
    pub clients: Vec<HostId>,
    /// The racks that contain the servers.
    pub racks: Racks,
    /// The servers. If `None`, every host is a server. Racks with fewer than `fan` servers answer no requests.
    pub servers: Option<Vec<HostId>>,
    /// The number of servers that respond to a request.
    pub fan: u32,
    /// The total size of the responses to one request.
    pub size: Bytes,
    /// The mean time between a client's requests.
    pub every: Picos,
    /// The time at which requests begin.
    pub start: Picos,
    /// The time at which requests end.
    pub until: Picos,
}

impl Pattern for Requests {
    fn expected_messages(&self) -> f64 {
        let arrivals = Poisson::with_mean_gap(self.every.get() as f64, self.start, self.until);
        self.clients.len() as f64 * f64::from(self.fan) * arrivals.map_or(0.0, Poisson::expected_events)
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        self.check()?;
        let arrivals = Poisson::with_mean_gap(self.every.get() as f64, self.start, self.until)?;
        let server_racks = self.server_racks()?;
        let mut traffic = Traffic::default();
        for &client in &self.clients {
            let random = class.host_key(client);
            let client_rack = self.racks.rack_of(client).ok_or(PatternError::UnknownHost(client))?;
            for (request, time) in arrivals.events(random.named("gap")) {
                let draw = random.named("rack").nth(request);
                let mut servers = draw_other_rack(&server_racks, client_rack, draw)?.to_vec();
                random.named("servers").nth(request).shuffle(&mut servers);
                let parts = split(self.size, self.fan as usize);
                for (server, part) in servers.into_iter().zip(parts) {
                    let connection = traffic.add_connection(class.connection(server, client, request));
                    traffic.add_message(connection, time, Amount::Exactly(part));
                }
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

/// Draws a rack other than the client's rack, and returns its servers. The racks are sorted by number.
fn draw_other_rack(
    racks: &[(u32, Vec<HostId>)],
    client_rack: u32,
    random: RandomKey,
) -> Result<&[HostId], PatternError> {
    let own = racks.iter().position(|(rack, _)| *rack == client_rack);
    let others = count_u32(racks.len() - usize::from(own.is_some()));
    if others == 0 {
        return Err(PatternError::SingleRack);
    }
    let draw = random.below(others) as usize;
    let index = if own.is_some_and(|own| draw >= own) { draw + 1 } else { draw };
    Ok(&racks[index].1)
}

impl Requests {
    /// Returns the racks with enough servers, and their servers.
    fn server_racks(&self) -> Result<Vec<(u32, Vec<HostId>)>, PatternError> {
        let mut racks = Vec::new();
        for rack in 0..self.racks.count() {
            let is_server =
                |host: &HostId| self.servers.as_ref().is_none_or(|servers| servers.contains(host));
            let servers: Vec<HostId> = self.racks.hosts(rack).filter(is_server).collect();
            if servers.len() >= self.fan as usize {
                racks.push((rack, servers));
            } else if self.servers.is_none() {
                let hosts = count_u32(servers.len());
                return Err(PatternError::RackTooSmall { rack, hosts, fan: self.fan });
            }
        }
        if racks.is_empty() {
            let actual = self.servers.as_ref().map_or(0, Vec::len);
            return Err(PatternError::TooFewHosts { needed: self.fan as usize, actual });
        }
        Ok(racks)
    }

    fn check(&self) -> Result<(), PatternError> {
        check_hosts(&self.clients, 1)?;
        check_above_zero(self.fan == 0, "fan")?;
        if self.racks.count() < 2 {
            return Err(PatternError::SingleRack);
        }
        check_parts(self.size, self.fan as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;
    use crate::topology::Topology;
    use std::collections::{BTreeMap, BTreeSet};

    /// The requests from PowerTCP fig. 7c: 2 MB from ten servers, with 16 requests per second per client.
    fn powertcp() -> Requests {
        Requests {
            clients: hosts(0..256),
            racks: Racks::new(&Topology::powertcp_fat_tree()),
            servers: None,
            fan: 10,
            size: Bytes::new(2_000_000),
            every: "62.5 ms".parse().expect("the time is valid"),
            start: Picos::ZERO,
            until: "1 s".parse().expect("the time is valid"),
        }
    }

    #[test]
    fn ten_servers_of_another_rack_respond_to_each_request() {
        let traffic = powertcp().generate(&TrafficClass::new(7, "requests")).expect("the pattern is valid");
        // The expected number of requests is 4,096, with a standard deviation of 64.
        let mut requests = BTreeMap::<_, Vec<_>>::new();
        for message in &traffic.messages {
            let connection = &traffic.connections[message.connection.index()];
            let key = (connection.to.get(), message.start.get());
            requests.entry(key).or_default().push((connection.from.get(), message.amount));
        }
        assert!((3_840..4_350).contains(&requests.len()), "{}", requests.len());
        let mut requests_per_rack = vec![0u32; 8];
        for ((client, _), responses) in &requests {
            let servers: BTreeSet<u32> = responses.iter().map(|(from, _)| *from).collect();
            let racks: BTreeSet<u32> = servers.iter().map(|server| server / 32).collect();
            assert_eq!((servers.len(), racks.len()), (10, 1), "expected ten servers in one rack");
            assert!(!racks.contains(&(client / 32)), "a server is in the client's rack");
            assert!(responses.iter().all(|(_, amount)| *amount == Amount::Exactly(Bytes::new(200_000))));
            racks.iter().for_each(|rack| requests_per_rack[*rack as usize] += 1);
        }
        // The expected number of requests per rack is 512, with a standard deviation of 23.
        assert!(requests_per_rack.iter().all(|count| (400..625).contains(count)), "{requests_per_rack:?}");
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let error = |requests: Requests| {
            requests.generate(&TrafficClass::new(7, "requests")).expect_err("the pattern is invalid")
        };
        assert_eq!(
            error(Requests { fan: 33, ..powertcp() }),
            PatternError::RackTooSmall { rack: 0, hosts: 32, fan: 33 }
        );
        let few = Requests { servers: Some(hosts(0..9)), ..powertcp() };
        assert_eq!(error(few), PatternError::TooFewHosts { needed: 10, actual: 9 });
        let own_rack = Requests { servers: Some(hosts(0..32)), ..powertcp() };
        assert_eq!(error(own_rack), PatternError::SingleRack);
        let unknown = HostId::new(256);
        assert_eq!(
            error(Requests { clients: vec![unknown], ..powertcp() }),
            PatternError::UnknownHost(unknown)
        );
        assert_eq!(
            error(Requests { size: Bytes::new(9), ..powertcp() }),
            PatternError::TooSmall { size: Bytes::new(9), parts: 10 }
        );
    }
}
