//! Ring all-reduce.

use super::error::check_hosts;
use super::split::{check_parts, split};
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::{Amount, Event};
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Picos};

/// Ring all-reduce. Each host contributes data of the same size, and all hosts receive the sum (Patarasuk and Yuan,
/// 2009).
///
/// The data is divided into `n` chunks. In step `s`, host `i` sends chunk `i - s` to host `i + 1`, once it has received
/// that chunk in the previous step. After `n - 1` steps, each host has one chunk of the sum (reduce-scatter). After
/// `n - 1` more steps, each host has all chunks (all-gather). The pattern has `2 n (n - 1)` messages. Each host sends
/// `2 (n - 1) / n` times the data size, which is optimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingAllReduce {
    /// The hosts in ring order, at least two.
    pub hosts: Vec<HostId>,
    /// The data size per host.
    pub size: Bytes,
    /// The time at which all hosts start sending.
    pub start: Picos,
    /// The delay between receiving a chunk and forwarding it, which models the reduction time.
    pub pause: Picos,
}

impl Pattern for RingAllReduce {
    fn expected_messages(&self) -> f64 {
        let hosts = self.hosts.len() as f64;
        2.0 * hosts * (hosts - 1.0).max(0.0)
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        let n = self.hosts.len();
        check_hosts(&self.hosts, 2)?;
        check_parts(self.size, n)?;
        let chunks: Vec<Bytes> = split(self.size, n).collect();
        let mut traffic = Traffic::default();
        let next = self.hosts.iter().cycle().skip(1);
        let ring: Vec<ConnectionId> = self
            .hosts
            .iter()
            .zip(next)
            .map(|(from, to)| traffic.add_connection(class.connection(*from, *to, 0)))
            .collect();
        // Each host's message from the previous step.
        let mut sent: Vec<MessageId> = Vec::new();
        for step in 0..2 * (n - 1) {
            let start = if step == 0 { self.start } else { self.pause };
            let send = |(host, connection): (usize, &ConnectionId)| {
                let chunk = chunks[(host + 2 * n - step) % n];
                let message = traffic.add_message(*connection, start, Amount::Exactly(chunk));
                if step > 0 {
                    traffic.add_dependency(message, Event::Received, sent[(host + n - 1) % n]);
                }
                message
            };
            sent = ring.iter().enumerate().map(send).collect();
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::{connection_ends, hosts};
    use proptest::prelude::*;

    fn ring(n: u32, size: u64) -> Traffic {
        let hosts = hosts(10..10 + n);
        let ring =
            RingAllReduce { hosts, size: Bytes::new(size), start: Picos::new(100), pause: Picos::new(7) };
        ring.generate(&TrafficClass::new(1, "ring")).expect("the pattern is valid")
    }

    #[test]
    fn ring_of_four_hosts_has_the_expected_messages_and_dependencies() {
        // Chunks 0, 1, 2 and 3 have 4, 3, 3 and 3 bytes.
        let traffic = ring(4, 13);
        assert_eq!(connection_ends(&traffic), [(10, 11), (11, 12), (12, 13), (13, 10)]);
        let sizes: Vec<u64> = traffic.messages.iter().map(|m| m.amount.bytes().unwrap().get()).collect();
        // Chunk 0 starts at host 0. The chunk is reduced on its way to host 3 and then distributed to all hosts.
        #[rustfmt::skip]
        assert_eq!(sizes, [
            4, 3, 3, 3, // step 0: host i sends chunk i
            3, 4, 3, 3, // step 1: host i sends chunk i - 1
            3, 3, 4, 3,
            3, 3, 3, 4, // step 3: host 3 has the sum of chunk 0 and forwards it
            4, 3, 3, 3,
            3, 4, 3, 3,
        ]);
        // In step s, host i sends message 4 s + i. This message depends on the message from host i - 1 in step s - 1.
        #[rustfmt::skip]
        let expected = [
            (3, 4), (0, 5), (1, 6), (2, 7),
            (7, 8), (4, 9), (5, 10), (6, 11),
            (11, 12), (8, 13), (9, 14), (10, 15),
            (15, 16), (12, 17), (13, 18), (14, 19),
            (19, 20), (16, 21), (17, 22), (18, 23),
        ];
        let dependencies: Vec<_> =
            traffic.dependencies.iter().map(|d| (d.prerequisite.get(), d.dependent.get())).collect();
        assert_eq!(dependencies, expected);
        assert!(traffic.dependencies.iter().all(|dependency| dependency.event == Event::Received));
        let starts: Vec<u64> = traffic.messages.iter().map(|message| message.start.get()).collect();
        assert_eq!((starts[3], starts[4]), (100, 7), "the first step has a start time, later steps a delay");
    }

    proptest! {
        #[test]
        fn each_host_sends_the_optimal_amount(n in 2u32..40, size in 40u64..100_000) {
            let traffic = ring(n, size);
            let hosts = u64::from(n);
            prop_assert_eq!(traffic.messages.len() as u64, 2 * hosts * (hosts - 1));
            prop_assert_eq!(traffic.dependencies.len() as u64, hosts * (2 * hosts - 3));
            // Every chunk is sent 2 (n - 1) times.
            let sum: u64 = traffic.messages.iter().filter_map(|m| m.amount.bytes()).map(Bytes::get).sum();
            prop_assert_eq!(sum, 2 * (hosts - 1) * size);
        }
    }
}
