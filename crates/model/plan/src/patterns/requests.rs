//! A rack's servers answer a client at once.

use super::arrivals::Poisson;
use super::error::{check_above_zero, check_hosts};
use super::split::{check_parts, split};
use super::{Class, Pattern, PatternError, Racks, Traffic};
use crate::traffic::Amount;
use poseidon_types::{Bytes, Picos};

/// Requests for a file whose parts lie on several servers of one rack. Each client asks at random; the rack is another one than its own,
/// each as likely, and so are the servers in it; they answer at once, each over a new connection (PowerTCP section 4.1).
/// Requests themselves are not sent, as in its artifact. There, a server may be drawn twice; the paper has a set of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Who asks.
    pub clients: Vec<u32>,
    /// Where the servers are.
    pub racks: Racks,
    /// How many answer a request.
    pub fan: u32,
    /// How much they send together.
    pub size: Bytes,
    /// The mean time between two requests of a client.
    pub every: Picos,
    /// From here on.
    pub start: Picos,
    /// None from here on.
    pub until: Picos,
}

impl Pattern for Requests {
    fn expected_messages(&self) -> f64 {
        let arrivals = Poisson::every(self.every.get() as f64, self.start, self.until);
        self.clients.len() as f64 * f64::from(self.fan) * arrivals.map_or(0.0, Poisson::expected)
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        self.check()?;
        let arrivals = Poisson::every(self.every.get() as f64, self.start, self.until)?;
        let mut traffic = Traffic::default();
        for &client in &self.clients {
            let chance = class.chance.of(u64::from(client));
            let own = self.racks.of_host(client).ok_or(PatternError::NoSuchHost(client))?;
            for (request, at) in arrivals.events(chance.named("gap")) {
                let drawn = chance.named("rack").of(request).below(self.racks.count() - 1);
                let rack = if drawn < own { drawn } else { drawn + 1 };
                let mut servers: Vec<u32> = self.racks.hosts(rack).collect();
                chance.named("servers").of(request).shuffle(&mut servers);
                let parts = split(self.size, self.fan as usize);
                for (server, part) in servers.into_iter().zip(parts) {
                    let connection = traffic.connect(class.connection(server, client, request));
                    traffic.send(connection, at, Amount::Exactly(part));
                }
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

impl Requests {
    fn check(&self) -> Result<(), PatternError> {
        check_hosts(&self.clients, 1)?;
        check_above_zero(self.fan == 0, "fan")?;
        if self.racks.count() < 2 {
            return Err(PatternError::OneRack);
        }
        for rack in 0..self.racks.count() {
            let range = self.racks.hosts(rack);
            let hosts = range.end - range.start;
            if hosts < self.fan {
                return Err(PatternError::RackTooSmall { rack, hosts, fan: self.fan });
            }
        }
        check_parts(self.size, self.fan as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
    use std::collections::{BTreeMap, BTreeSet};

    /// PowerTCP fig. 7c: 2 MB, 16 requests per second and server, ten answer.
    fn powertcp() -> Requests {
        Requests {
            clients: (0..256).collect(),
            racks: Racks::of(&Topology::powertcp_fat_tree()),
            fan: 10,
            size: Bytes::new(2_000_000),
            every: "62.5 ms".parse().expect("a time"),
            start: Picos::ZERO,
            until: "1 s".parse().expect("a time"),
        }
    }

    #[test]
    fn ten_servers_of_one_other_rack_answer_at_once() {
        let traffic = powertcp().traffic(&Class::new(7, "requests")).expect("a pattern");
        // 4,096 requests expected, with a deviation of 64.
        let mut requests = BTreeMap::<_, Vec<_>>::new();
        for message in &traffic.messages {
            let connection = &traffic.connections[message.connection as usize];
            let key = (connection.to, message.at.get());
            requests.entry(key).or_default().push((connection.from, message.amount));
        }
        assert!((3_840..4_350).contains(&requests.len()), "{}", requests.len());
        let mut from_rack = vec![0u32; 8];
        for ((client, _), answers) in &requests {
            let servers: BTreeSet<u32> = answers.iter().map(|(from, _)| *from).collect();
            let racks: BTreeSet<u32> = servers.iter().map(|server| server / 32).collect();
            assert_eq!((servers.len(), racks.len()), (10, 1), "ten servers, one rack");
            assert!(!racks.contains(&(client / 32)), "another rack than its own");
            assert!(answers.iter().all(|(_, amount)| *amount == Amount::Exactly(Bytes::new(200_000))));
            racks.iter().for_each(|rack| from_rack[*rack as usize] += 1);
        }
        // 512 per rack, with a deviation of 23.
        assert!(from_rack.iter().all(|count| (400..625).contains(count)), "{from_rack:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |requests: Requests| requests.traffic(&Class::new(7, "requests")).expect_err("refused");
        assert_eq!(
            refused(Requests { fan: 33, ..powertcp() }),
            PatternError::RackTooSmall { rack: 0, hosts: 32, fan: 33 }
        );
        assert_eq!(refused(Requests { clients: vec![256], ..powertcp() }), PatternError::NoSuchHost(256));
        assert_eq!(
            refused(Requests { size: Bytes::new(9), ..powertcp() }),
            PatternError::TooSmall { size: Bytes::new(9), parts: 10 }
        );
    }
}
