//! Fixed-size messages between two groups of hosts.

use super::arrivals::Poisson;
use super::error::{check_above_zero, check_hosts};
use super::pairs::PersistentConnections;
use super::{Pattern, PatternError, Traffic, TrafficClass, count_u32};
use crate::random::RandomKey;
use crate::traffic::Amount;
use poseidon_types::{BitRate, Bytes, HostId, Picos};

/// Fixed-size messages, each sent to a random host in a group (UR in Poseidon section 5.4).
///
/// Each sender's messages arrive as a Poisson process. The paper does not specify the arrival process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformRandom {
    /// The senders.
    pub from: Vec<HostId>,
    /// The receivers. A host in both groups does not send to itself.
    pub to: Vec<HostId>,
    /// The message size.
    pub size: Bytes,
    /// The mean offered load of each sender.
    pub rate: BitRate,
    /// How messages share connections.
    pub connections: PairConnections,
    /// The time at which message arrivals begin.
    pub start: Picos,
    /// The time at which message arrivals end.
    pub until: Picos,
}

/// How messages between hosts share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairConnections {
    /// Each pair of hosts has one connection, which keeps its window between messages.
    PerPair,
    /// Each pair of hosts has one connection, and each sender has only this many randomly chosen receivers.
    PerPairLimited(u32),
    /// Each message uses a new connection, which starts with the initial window.
    PerMessage,
}

impl Pattern for UniformRandom {
    fn expected_messages(&self) -> f64 {
        let arrivals = Poisson::with_load(1.0, self.rate, self.size.get() as f64, self.start, self.until);
        self.from.len() as f64 * arrivals.map_or(0.0, Poisson::expected_events)
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        check_hosts(&self.from, 1)?;
        check_hosts(&self.to, 1)?;
        if let [only] = self.to[..]
            && self.from.contains(&only)
        {
            return Err(PatternError::SelfTraffic(only));
        }
        check_above_zero(self.size.is_zero(), "size")?;
        let arrivals = Poisson::with_load(1.0, self.rate, self.size.get() as f64, self.start, self.until)?;
        let mut traffic = Traffic::default();
        let mut connections = PersistentConnections::default();
        for &from in &self.from {
            let random = class.host_key(from);
            let target = random.named("to");
            let receivers = self.receivers(from, random.named("receivers"));
            for (counter, time) in arrivals.events(random.named("gap")) {
                let draws = (0..).map(|draw| target.nth(counter).nth(draw).below(count_u32(receivers.len())));
                let mut hosts = draws.map(|index| receivers[index as usize]);
                // At least one other host exists, because the check above rejects a list that contains only the sender.
                let Some(to) = hosts.find(|to| *to != from) else { continue };
                let connection = match self.connections {
                    PairConnections::PerPair | PairConnections::PerPairLimited(_) => {
                        connections.find_or_add(&mut traffic, class, from, to)
                    }
                    PairConnections::PerMessage => {
                        traffic.add_connection(class.connection(from, to, counter))
                    }
                };
                traffic.add_message(connection, time, Amount::Exactly(self.size));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

impl UniformRandom {
    /// Returns a sender's possible receivers.
    fn receivers(&self, from: HostId, random: RandomKey) -> Vec<HostId> {
        let mut receivers = self.to.clone();
        if let PairConnections::PerPairLimited(limit) = self.connections {
            receivers.retain(|to| *to != from);
            random.shuffle(&mut receivers);
            receivers.truncate(limit.max(1) as usize);
        }
        receivers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;

    fn time(text: &str) -> Picos {
        text.parse().expect("the time is valid")
    }

    #[test]
    fn rack_offers_the_load_of_the_paper() {
        // Poseidon section 5.4: 24 hosts offer a load of 960 Gbps in 128 KiB messages for 100 ms.
        let random = UniformRandom {
            from: hosts(0..24),
            to: hosts(24..48),
            size: Bytes::new(131_072),
            rate: BitRate::from_gbps(40),
            connections: PairConnections::PerPair,
            start: Picos::ZERO,
            until: time("100 ms"),
        };
        let traffic = random.generate(&TrafficClass::new(7, "ur")).expect("the pattern is valid");
        // The expected number of messages is 91,553, with a standard deviation of 303.
        let count = traffic.messages.len();
        assert!((90_600..92_500).contains(&count), "{count}");
        let gbps = count as f64 * 131_072.0 * 8.0 / 0.1 / 1e9;
        assert!((gbps - 960.0).abs() < 10.0, "{gbps}");
        assert_eq!(traffic.connections.len(), 24 * 24, "one connection per pair");
        // Each pair has about 159 messages. The chi-squared distribution with 575 degrees of freedom has a standard
        // deviation of 34.
        let mut per_pair = vec![0.0; 24 * 24];
        traffic.messages.iter().for_each(|message| per_pair[message.connection.index()] += 1.0);
        let expected = count as f64 / 576.0;
        let chi_squared: f64 = per_pair.iter().map(|n: &f64| (n - expected).powi(2) / expected).sum();
        assert!((chi_squared - 575.0).abs() < 4.0 * 34.0, "{chi_squared}");
    }

    #[test]
    fn connections_are_per_message_or_limited_per_sender() {
        let random = |connections| UniformRandom {
            from: hosts(0..8),
            to: hosts(8..16),
            size: Bytes::new(100_000),
            rate: BitRate::from_gbps(10),
            connections,
            start: Picos::ZERO,
            until: time("5 ms"),
        };
        let traffic = |connections| {
            random(connections).generate(&TrafficClass::new(7, "ur")).expect("the pattern is valid")
        };
        let per_message = traffic(PairConnections::PerMessage);
        assert_eq!(per_message.connections.len(), per_message.messages.len());
        assert_eq!(traffic(PairConnections::PerPairLimited(1)).connections.len(), 8);
        assert!(traffic(PairConnections::PerPairLimited(2)).connections.len() <= 16);
        // The start times do not depend on how messages share connections.
        let starts = |traffic: &Traffic| traffic.messages.iter().map(|m| m.start).collect::<Vec<_>>();
        assert_eq!(starts(&per_message), starts(&traffic(PairConnections::PerPair)));
    }

    #[test]
    fn host_does_not_send_to_itself() {
        let random = UniformRandom {
            from: hosts(0..3),
            to: hosts(0..3),
            size: Bytes::new(1_000),
            rate: BitRate::from_gbps(1),
            connections: PairConnections::PerPair,
            start: Picos::ZERO,
            until: time("5 ms"),
        };
        let traffic = random.generate(&TrafficClass::new(7, "ur")).expect("the pattern is valid");
        assert_eq!(traffic.connections.len(), 6);
        assert!(traffic.connections.iter().all(|connection| connection.from != connection.to));
        let only = HostId::new(1);
        let self_traffic = UniformRandom { to: vec![only], ..random };
        assert_eq!(self_traffic.generate(&TrafficClass::new(7, "ur")), Err(PatternError::SelfTraffic(only)));
    }
}
