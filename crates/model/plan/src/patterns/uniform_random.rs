//! Messages of one size between two groups of hosts.

use super::arrivals::Poisson;
use super::error::{check_above_zero, check_hosts};
use super::pairs::Pairs;
use super::{Class, Pattern, PatternError, Traffic, number};
use crate::chance::Chance;
use crate::traffic::Amount;
use poseidon_types::{BitRate, Bytes, Picos};

/// Messages of one size, each to a host drawn from a group (Poseidon section 5.4, UR). Each sender is a Poisson process, which the
/// paper leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformRandom {
    /// Who sends.
    pub from: Vec<u32>,
    /// To whom; a sender among them does not draw itself.
    pub to: Vec<u32>,
    /// How large a message is.
    pub size: Bytes,
    /// What each sender offers on average.
    pub rate: BitRate,
    /// What carries them.
    pub over: Carried,
    /// From here on.
    pub start: Picos,
    /// None from here on.
    pub until: Picos,
}

/// What carries messages between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// A pair of hosts keeps its connection, and so its window, from message to message.
    ByPair,
    /// The same, and a sender has only so many receivers, drawn once.
    ByFewPairs(u32),
    /// Each message has a connection of its own, and begins with its first window.
    ByItself,
}

impl Pattern for UniformRandom {
    fn expected_messages(&self) -> f64 {
        let arrivals = Poisson::offering(1.0, self.rate, self.size.get() as f64, self.start, self.until);
        self.from.len() as f64 * arrivals.map_or(0.0, Poisson::expected)
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        check_hosts(&self.from, 1)?;
        check_hosts(&self.to, 1)?;
        if let [only] = self.to[..]
            && self.from.contains(&only)
        {
            return Err(PatternError::ToItself(only));
        }
        check_above_zero(self.size.is_zero(), "size")?;
        let arrivals = Poisson::offering(1.0, self.rate, self.size.get() as f64, self.start, self.until)?;
        let mut traffic = Traffic::default();
        let mut pairs = Pairs::default();
        for &from in &self.from {
            let sender = class.chance.of(u64::from(from));
            let target = sender.named("to");
            let receivers = self.receivers(from, sender.named("receivers"));
            for (counter, at) in arrivals.events(sender.named("gap")) {
                let draws = (0..).map(|draw| target.of(counter).of(draw).below(number(receivers.len())));
                let mut hosts = draws.map(|index| receivers[index as usize]);
                // There is another: see above.
                let Some(to) = hosts.find(|to| *to != from) else { continue };
                let connection = match self.over {
                    Carried::ByPair | Carried::ByFewPairs(_) => {
                        pairs.connection(&mut traffic, class, from, to)
                    }
                    Carried::ByItself => traffic.connect(class.connection(from, to, counter)),
                };
                traffic.send(connection, at, Amount::Exactly(self.size));
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

impl UniformRandom {
    /// Whom a host sends to.
    fn receivers(&self, from: u32, chance: Chance) -> Vec<u32> {
        let mut all = self.to.clone();
        if let Carried::ByFewPairs(few) = self.over {
            all.retain(|to| *to != from);
            chance.shuffle(&mut all);
            all.truncate(few.max(1) as usize);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Picos {
        text.parse().expect("a time")
    }

    #[test]
    fn a_rack_offers_what_the_paper_says() {
        // Poseidon section 5.4: 24 hosts offer 960 Gbps in messages of 128 KiB, over 100 ms.
        let random = UniformRandom {
            from: (0..24).collect(),
            to: (24..48).collect(),
            size: Bytes::new(131_072),
            rate: BitRate::from_gbps(40),
            over: Carried::ByPair,
            start: Picos::ZERO,
            until: ms("100 ms"),
        };
        let traffic = random.traffic(&Class::new(7, "ur")).expect("a pattern");
        // 91,553 expected, with a standard deviation of 303.
        let count = traffic.messages.len();
        assert!((90_600..92_500).contains(&count), "{count}");
        let gbps = count as f64 * 131_072.0 * 8.0 / 0.1 / 1e9;
        assert!((gbps - 960.0).abs() < 10.0, "{gbps}");
        assert_eq!(traffic.connections.len(), 24 * 24, "one connection per pair");
        // 159 messages per pair, with a standard deviation of 12.6: chi squared over 575 has a deviation of 34.
        let mut per_pair = vec![0.0; 24 * 24];
        traffic.messages.iter().for_each(|message| per_pair[message.connection as usize] += 1.0);
        let expected = count as f64 / 576.0;
        let chi_squared: f64 = per_pair.iter().map(|n: &f64| (n - expected).powi(2) / expected).sum();
        assert!((chi_squared - 575.0).abs() < 4.0 * 34.0, "{chi_squared}");
    }

    #[test]
    fn messages_may_have_connections_of_their_own_or_few_receivers() {
        let random = |over| UniformRandom {
            from: (0..8).collect(),
            to: (8..16).collect(),
            size: Bytes::new(100_000),
            rate: BitRate::from_gbps(10),
            over,
            start: Picos::ZERO,
            until: ms("5 ms"),
        };
        let traffic = |over| random(over).traffic(&Class::new(7, "ur")).expect("a pattern");
        let alone = traffic(Carried::ByItself);
        assert_eq!(alone.connections.len(), alone.messages.len());
        assert_eq!(traffic(Carried::ByFewPairs(1)).connections.len(), 8);
        assert!(traffic(Carried::ByFewPairs(2)).connections.len() <= 16);
        // The same messages at the same times, whatever carries them.
        let at = |traffic: &Traffic| traffic.messages.iter().map(|m| m.at).collect::<Vec<_>>();
        assert_eq!(at(&alone), at(&traffic(Carried::ByPair)));
    }

    #[test]
    fn a_host_does_not_draw_itself() {
        let random = UniformRandom {
            from: vec![0, 1, 2],
            to: vec![0, 1, 2],
            size: Bytes::new(1_000),
            rate: BitRate::from_gbps(1),
            over: Carried::ByPair,
            start: Picos::ZERO,
            until: ms("5 ms"),
        };
        let traffic = random.traffic(&Class::new(7, "ur")).expect("a pattern");
        assert_eq!(traffic.connections.len(), 6);
        assert!(traffic.connections.iter().all(|connection| connection.from != connection.to));
        let alone = UniformRandom { to: vec![1], ..random };
        assert_eq!(alone.traffic(&Class::new(7, "ur")), Err(PatternError::ToItself(1)));
    }
}
