//! Traffic patterns, which generate connections, messages and dependencies.
//!
//! A pattern is a struct of parameters. [`Pattern::generate`] creates the traffic for a [`TrafficClass`], which
//! specifies the pattern's name, law, priority and random key. [`Traffic::merge`] combines the traffic of several
//! patterns, and [`Traffic::into_plan_order`] sorts the result for use in a plan.
//!
//! | pattern | traffic | source |
//! |---|---|---|
//! | [`LongFlows`] | long flows with start and stop times | common |
//! | [`Phases`] | long flows that join and leave | Poseidon fig. 14, 16, 18; PowerTCP fig. 5 |
//! | [`Incast`] | many senders to one receiver, simultaneous or staggered | PowerTCP fig. 4; VAI + SF section III-D |
//! | [`RotatingIncast`] | periodic incasts with changing receivers | Poseidon section 5.4 |
//! | [`UniformRandom`] | fixed-size messages between two groups of hosts | Poseidon section 5.4 |
//! | [`PoissonFlows`] | Poisson flow arrivals with a size distribution | PowerTCP section 4.1; VAI + SF section VI-A |
//! | [`Requests`] | several servers in a rack respond to one client | PowerTCP section 4.1 |
//! | [`Permutation`] | each host sends to one other host | a common worst case for a fabric |
//! | [`Collective`] | collectives of machine learning, with one of the [`ALGORITHMS`] | NCCL; ASTRA-sim |
//! | [`ClosedLoop`] | each message starts after the previous message | RPM fig. 5 |
//! | [`FlowList`] | flows listed in a file | user traces |
//!
//! ```
//! use poseidon_plan::patterns::{Incast, LongFlows, Pattern, Stagger, Traffic, TrafficClass};
//! use poseidon_plan::traffic::Amount;
//! use poseidon_types::{Bytes, HostId, Picos};
//!
//! let seed = 7;
//! let mut traffic = Traffic::default();
//! let receiver = HostId::new(9);
//! let victim = LongFlows {
//!     ends: vec![(HostId::new(0), receiver)],
//!     start: Picos::ZERO,
//!     spread: Picos::ZERO,
//!     stop: Picos::MAX,
//! };
//! traffic.merge(victim.generate(&TrafficClass::new(seed, "victim"))?);
//! let incast = Incast {
//!     senders: (1..9).map(HostId::new).collect(),
//!     target: receiver,
//!     amount: Amount::Exactly(Bytes::new(1_000_000)),
//!     start: "1 ms".parse()?,
//!     stagger: Stagger::NONE,
//! };
//! traffic.merge(incast.generate(&TrafficClass::new(seed, "incast"))?);
//!
//! let traffic = traffic.into_plan_order();
//! assert_eq!((traffic.connections.len(), traffic.messages.len()), (9, 9));
//! assert_eq!(traffic.group("incast").map(|group| group.messages.len()), Some(8));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod arrivals;
mod closed_loop;
mod collective_runs;
pub mod collectives;
mod error;
mod flow_list;
mod group;
mod incast;
mod long_flows;
mod operation;
mod pairs;
mod permutation;
mod phases;
mod poisson_flows;
mod racks;
mod requests;
mod rotating_incast;
mod sizes;
mod split;
mod traffic;
mod uniform_random;
mod workloads;

pub use closed_loop::{ClosedLoop, ConnectionReuse};
pub use collective_runs::{CollectiveInfo, CollectiveRuns, RankFinish, RepetitionTimes};
pub use collectives::{ALGORITHMS, Algorithm, Collective};
pub use error::{PatternError, TextError};
pub use flow_list::{Flow, FlowList};
pub use group::Group;
pub use incast::{Incast, Stagger};
pub use long_flows::LongFlows;
pub use operation::Operation;
pub use permutation::Permutation;
pub use phases::{Phase, Phases};
pub use poisson_flows::{Destinations, PoissonFlows};
pub use racks::{RackHosts, Racks};
pub use requests::Requests;
pub use rotating_incast::RotatingIncast;
pub use sizes::{SizeDistribution, SizePoint, SizePointError};
pub use traffic::Traffic;
pub use uniform_random::{PairConnections, UniformRandom};
pub use workloads::{WORKLOADS, Workload};

use crate::random::RandomKey;
use crate::traffic::Connection;
use poseidon_types::HostId;

/// A traffic generator.
pub trait Pattern {
    /// Returns the number of messages that [`Pattern::generate`] creates, or the expected number if it is random.
    ///
    /// A pattern never creates more connections than messages. For a ring whose messages are computed when they are
    /// due, this is the number of its connections, plus one for each repetition of each rank.
    fn expected_messages(&self) -> f64;

    /// Generates the pattern's connections and messages. The messages form one [`Group`], named after the class.
    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError>;
}

/// The properties shared by all of a pattern's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficClass {
    /// The pattern name. Names must be unique, because patterns with the same name and seed draw the same random
    /// numbers.
    pub name: String,
    /// The law's index in the plan.
    pub law: u32,
    /// The priority queue for the pattern's packets.
    pub priority: u8,
    /// The parent key for all of the pattern's random numbers.
    pub random: RandomKey,
}

impl TrafficClass {
    /// Returns a class that uses the plan's first law and the first queue.
    pub fn new(seed: u64, name: &str) -> Self {
        Self { name: name.into(), law: 0, priority: 0, random: RandomKey::new(seed, name) }
    }

    /// Creates connection number `number` between two hosts.
    ///
    /// The connection's entropy depends on its hosts and its number, but not on other connections.
    pub fn connection(&self, from: HostId, to: HostId, number: u64) -> Connection {
        let entropy = self.connection_key(from, to, number).named("path").upper_bits();
        Connection { from, to, law: self.law, entropy, priority: self.priority }
    }

    /// Returns the random key for connection number `number` between two hosts.
    fn connection_key(&self, from: HostId, to: HostId, number: u64) -> RandomKey {
        self.host_key(from).nth(u64::from(to.get())).nth(number)
    }

    /// Returns a host's random key.
    fn host_key(&self, host: HostId) -> RandomKey {
        self.random.nth(u64::from(host.get()))
    }
}

/// Converts an item count to `u32`.
fn count_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a plan has fewer than 2^32 items of any kind")
}

#[cfg(test)]
mod test_hosts {
    //! Test helpers for creating hosts.

    use super::Traffic;
    use poseidon_types::HostId;

    /// Returns the hosts with these numbers.
    pub(super) fn hosts(numbers: impl IntoIterator<Item = u32>) -> Vec<HostId> {
        numbers.into_iter().map(HostId::new).collect()
    }

    /// Returns the host pairs with these numbers.
    pub(super) fn ends(pairs: &[(u32, u32)]) -> Vec<(HostId, HostId)> {
        pairs.iter().map(|(from, to)| (HostId::new(*from), HostId::new(*to))).collect()
    }

    /// Returns each connection's sender and receiver.
    pub(super) fn connection_ends(traffic: &Traffic) -> Vec<(u32, u32)> {
        traffic.connections.iter().map(|connection| (connection.from.get(), connection.to.get())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, Topology};
    use crate::traffic::Amount;
    use poseidon_types::{BitRate, Bytes, Fraction, Picos};
    use test_hosts::{ends, hosts};

    #[test]
    fn expected_messages_match_the_generated_traffic() {
        let ms = |ms: u64| Picos::new(ms * 1_000_000_000);
        let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
        let racks = Racks::new(&Topology::fat_tree(4, link));
        let (eight_hosts, size) = (hosts(0..8), Bytes::new(10_000));
        let (pairs, start, until) = (ends(&[(0, 9), (1, 9), (2, 9)]), ms(1), ms(11));
        let amount = Amount::Exactly(size);
        let sizes = SizeDistribution::named("websearch-powertcp").expect("the workload exists");
        let phases =
            vec![Phase { start: ms(0), flows: pairs.clone() }, Phase { start: ms(5), flows: Vec::new() }];
        let exact: [(&str, &dyn Pattern); 7] = [
            ("long", &LongFlows { ends: pairs.clone(), start, spread: Picos::ZERO, stop: until }),
            ("phases", &Phases { phases, end: until }),
            (
                "incast",
                &Incast {
                    senders: eight_hosts.clone(),
                    target: HostId::new(9),
                    amount,
                    start,
                    stagger: Stagger::NONE,
                },
            ),
            ("permutation", &Permutation { hosts: eight_hosts.clone(), receivers: None, amount, start }),
            ("ring", &Collective::new(&ALGORITHMS[0], eight_hosts.clone(), size)),
            (
                "closed loop",
                &ClosedLoop {
                    ends: pairs,
                    size,
                    count: 5,
                    think: Picos::ZERO,
                    connections: ConnectionReuse::NewConnections,
                    start,
                    spread: Picos::ZERO,
                },
            ),
            (
                "rotating",
                &RotatingIncast {
                    senders: eight_hosts.clone(),
                    targets: hosts(9..11),
                    size,
                    last_size: None,
                    period: ms(3),
                    start,
                    until,
                },
            ),
        ];
        let count_messages = |name: &str, pattern: &dyn Pattern| {
            let traffic = pattern.generate(&TrafficClass::new(7, name)).expect("the pattern is valid");
            assert!(traffic.connections.len() <= traffic.messages.len(), "{name}");
            traffic.messages.len() as f64
        };
        for (name, pattern) in exact {
            assert!((pattern.expected_messages() - count_messages(name, pattern)).abs() < 0.5, "{name}");
        }
        let random: [(&str, &dyn Pattern); 3] = [
            (
                "uniform",
                &UniformRandom {
                    from: eight_hosts.clone(),
                    to: hosts(9..11),
                    size,
                    rate: BitRate::from_gbps(10),
                    connections: PairConnections::PerPair,
                    start,
                    until,
                },
            ),
            (
                "poisson",
                &PoissonFlows {
                    racks: racks.clone(),
                    senders: None,
                    destinations: Destinations::OtherRacks,
                    sizes,
                    load: Fraction::ratio(1, 2),
                    capacity: BitRate::from_gbps(1_000),
                    start,
                    until,
                },
            ),
            (
                "requests",
                &Requests {
                    clients: eight_hosts,
                    racks,
                    servers: None,
                    fan: 2,
                    size,
                    every: Picos::new(50_000_000),
                    start,
                    until,
                },
            ),
        ];
        for (name, pattern) in random {
            let (expected, count) = (pattern.expected_messages(), count_messages(name, pattern));
            // Each request has two responses, so the standard deviation is sqrt(2) times that of a Poisson process.
            let deviation = (2.0 * expected).sqrt();
            assert!(
                expected > 1_000.0 && (expected - count).abs() < 5.0 * deviation,
                "{name}: {expected}, {count}"
            );
        }
    }
}
