//! What people send: patterns that make connections, messages and what waits for what.
//!
//! A pattern is a struct that says what is sent, and [`Pattern::traffic`] makes it, for a [`Class`] that says what its
//! connections are called, which law they run and where their chance comes from. [`Traffic::add`] puts patterns together and
//! [`Traffic::finish`] puts them in a plan's order.
//!
//! | pattern | what is sent | where it comes from |
//! |---|---|---|
//! | [`LongFlows`] | flows that run from one time to another | everywhere |
//! | [`Phases`] | long flows that join and leave | Poseidon fig. 14, 16, 18; PowerTCP fig. 5 |
//! | [`Incast`] | many to one, at once or staggered | PowerTCP fig. 4; VAI + SF section III-D |
//! | [`RotatingIncast`] | many to one, and the one advances | Poseidon section 5.4 |
//! | [`UniformRandom`] | messages of one size between two groups | Poseidon section 5.4 |
//! | [`PoissonFlows`] | flows of a size distribution at a load | PowerTCP section 4.1; VAI + SF section VI-A |
//! | [`Requests`] | a rack's servers answer a client at once | PowerTCP section 4.1 |
//! | [`Permutation`] | each host to one other | the usual worst case of a fabric |
//! | [`AllToAll`], [`RingAllReduce`], [`TreeAllReduce`] | collectives | training of models |
//! | [`ClosedLoop`] | one message after the other | RPM fig. 5 |
//! | [`FlowList`] | what a file says | a user's trace |
//!
//! ```
//! use poseidon_plan::patterns::{Class, Incast, LongFlows, Pattern, Stagger, Traffic};
//! use poseidon_plan::traffic::Amount;
//! use poseidon_types::{Bytes, Picos};
//!
//! let seed = 7;
//! let mut traffic = Traffic::default();
//! let victim = LongFlows { ends: vec![(0, 9)], start: Picos::ZERO, spread: Picos::ZERO, stop: Picos::MAX };
//! traffic.add(victim.traffic(&Class::new(seed, "victim"))?);
//! let incast = Incast {
//!     senders: (1..9).collect(),
//!     target: 9,
//!     amount: Amount::Exactly(Bytes::new(1_000_000)),
//!     start: "1 ms".parse()?,
//!     stagger: Stagger::NONE,
//! };
//! traffic.add(incast.traffic(&Class::new(seed, "incast"))?);
//!
//! let traffic = traffic.finish();
//! assert_eq!((traffic.connections.len(), traffic.messages.len()), (9, 9));
//! assert_eq!(traffic.group("incast").map(|group| group.messages.len()), Some(8));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod all_to_all;
mod arrivals;
mod closed_loop;
mod error;
mod flow_list;
mod group;
mod incast;
mod long_flows;
mod pairs;
mod permutation;
mod phases;
mod poisson_flows;
mod racks;
mod requests;
mod ring;
mod rotating_incast;
mod sizes;
mod split;
mod traffic;
mod tree;
mod uniform_random;
mod workloads;

pub use all_to_all::AllToAll;
pub use closed_loop::{ClosedLoop, Over};
pub use error::{PatternError, TextError};
pub use flow_list::{Flow, FlowList};
pub use group::Group;
pub use incast::{Incast, Stagger};
pub use long_flows::LongFlows;
pub use permutation::Permutation;
pub use phases::{Phase, Phases};
pub use poisson_flows::{Destinations, PoissonFlows};
pub use racks::Racks;
pub use requests::Requests;
pub use ring::RingAllReduce;
pub use rotating_incast::RotatingIncast;
pub use sizes::{SizeDistribution, SizePoint};
pub use traffic::Traffic;
pub use tree::TreeAllReduce;
pub use uniform_random::{Carried, UniformRandom};
pub use workloads::{WORKLOADS, Workload};

use crate::chance::Chance;
use crate::traffic::Connection;

/// Something that is sent.
pub trait Pattern {
    /// How many messages [`Pattern::traffic`] would make, without making them; where their number is drawn, its mean. A pattern never
    /// makes more connections than messages.
    fn expected_messages(&self) -> f64;

    /// Its connections and messages, as one [`Group`] with the name of the class.
    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError>;
}

/// What the connections of a pattern have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// What the pattern is called. Patterns of one name and seed draw the same numbers: give each its own.
    pub name: String,
    /// Which of the plan's laws they run.
    pub law: u32,
    /// The queue that their packets wait in.
    pub priority: u8,
    /// Where their chance comes from.
    pub chance: Chance,
}

impl Class {
    /// A class of this name that runs the plan's first law in the first queue.
    pub fn new(seed: u64, name: &str) -> Self {
        Self { name: name.into(), law: 0, priority: 0, chance: Chance::new(seed, name) }
    }

    /// The connection with this number from one host to another. Each has a path of its own: what it is hashed by depends on
    /// its ends and its number, not on other connections.
    pub fn connection(&self, from: u32, to: u32, number: u64) -> Connection {
        let entropy = self.chance_of(from, to, number).named("path").half();
        Connection { from, to, law: self.law, entropy, priority: self.priority }
    }

    /// What the connection with this number from one host to another draws from.
    fn chance_of(&self, from: u32, to: u32, number: u64) -> Chance {
        self.chance.of(u64::from(from)).of(u64::from(to)).of(number)
    }
}

/// An index as plans have it.
fn number(index: usize) -> u32 {
    u32::try_from(index).expect("a plan numbers fewer than 2^32 of anything")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, Topology};
    use crate::traffic::Amount;
    use poseidon_types::{BitRate, Bytes, Fraction, Picos};

    #[test]
    fn patterns_know_how_many_messages_they_make() {
        let ms = |ms: u64| Picos::new(ms * 1_000_000_000);
        let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
        let racks = Racks::of(&Topology::fat_tree(4, link));
        let (hosts, size): (Vec<u32>, _) = ((0..8).collect(), Bytes::new(10_000));
        let (ends, start, until) = (vec![(0, 9), (1, 9), (2, 9)], ms(1), ms(11));
        let amount = Amount::Exactly(size);
        let sizes = SizeDistribution::named("websearch-powertcp").expect("a workload");
        let phases = vec![Phase { at: ms(0), flows: ends.clone() }, Phase { at: ms(5), flows: Vec::new() }];
        let exact: [(&str, &dyn Pattern); 9] = [
            ("long", &LongFlows { ends: ends.clone(), start, spread: Picos::ZERO, stop: until }),
            ("phases", &Phases { phases, end: until }),
            ("incast", &Incast { senders: hosts.clone(), target: 9, amount, start, stagger: Stagger::NONE }),
            ("permutation", &Permutation { hosts: hosts.clone(), amount, start }),
            ("all to all", &AllToAll { hosts: hosts.clone(), size, start }),
            ("ring", &RingAllReduce { hosts: hosts.clone(), size, start, pause: Picos::ZERO }),
            ("tree", &TreeAllReduce { hosts: hosts.clone(), size, start, pause: Picos::ZERO }),
            (
                "closed loop",
                &ClosedLoop {
                    ends,
                    size,
                    count: 5,
                    think: Picos::ZERO,
                    over: Over::NewConnections,
                    start,
                    spread: Picos::ZERO,
                },
            ),
            (
                "rotating",
                &RotatingIncast {
                    senders: hosts.clone(),
                    targets: vec![9, 10],
                    size,
                    period: ms(3),
                    start,
                    until,
                },
            ),
        ];
        let made = |name: &str, pattern: &dyn Pattern| {
            let made = pattern.traffic(&Class::new(7, name)).expect("a pattern");
            assert!(made.connections.len() <= made.messages.len(), "{name}");
            made.messages.len() as f64
        };
        for (name, pattern) in exact {
            assert!((pattern.expected_messages() - made(name, pattern)).abs() < 0.5, "{name}");
        }
        let drawn: [(&str, &dyn Pattern); 3] = [
            (
                "uniform",
                &UniformRandom {
                    from: hosts.clone(),
                    to: vec![9, 10],
                    size,
                    rate: BitRate::from_gbps(10),
                    over: Carried::ByPair,
                    start,
                    until,
                },
            ),
            (
                "poisson",
                &PoissonFlows {
                    racks: racks.clone(),
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
                    clients: hosts,
                    racks,
                    fan: 2,
                    size,
                    every: Picos::new(50_000_000),
                    start,
                    until,
                },
            ),
        ];
        for (name, pattern) in drawn {
            let (expected, made) = (pattern.expected_messages(), made(name, pattern));
            // Each answer of a request counts, so its deviation is larger than that of a Poisson process by sqrt(2).
            let deviation = (2.0 * expected).sqrt();
            assert!(
                expected > 1_000.0 && (expected - made).abs() < 5.0 * deviation,
                "{name}: {expected}, {made}"
            );
        }
    }
}
