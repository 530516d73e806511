//! All-reduce over a ring.

use super::error::check_hosts;
use super::split::{check_parts, split};
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::{Amount, Event};
use poseidon_types::{Bytes, Picos};

/// All-reduce over a ring: every host has as much data, and all end with the sum (Patarasuk and Yuan, 2009).
///
/// The data are `n` chunks. In step `s`, host `i` sends chunk `i - s` to host `i + 1`, once it has received it in the step before.
/// After `n - 1` steps each host has one chunk of the sum (reduce-scatter), after as many more all of them (all-gather): `2 n (n -
/// 1)` messages, and each host sends `2 (n - 1) / n` of the data, which is the least that does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingAllReduce {
    /// Who takes part, in the order of the ring; at least two.
    pub hosts: Vec<u32>,
    /// The data of each.
    pub size: Bytes,
    /// When they begin.
    pub start: Picos,
    /// From the arrival of a chunk to its sending on: what adding it up takes.
    pub pause: Picos,
}

impl Pattern for RingAllReduce {
    fn expected_messages(&self) -> f64 {
        let hosts = self.hosts.len() as f64;
        2.0 * hosts * (hosts - 1.0).max(0.0)
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        let n = self.hosts.len();
        check_hosts(&self.hosts, 2)?;
        check_parts(self.size, n)?;
        let chunks: Vec<Bytes> = split(self.size, n).collect();
        let mut traffic = Traffic::default();
        let next = self.hosts.iter().cycle().skip(1);
        let ring: Vec<u32> = self
            .hosts
            .iter()
            .zip(next)
            .map(|(from, to)| traffic.connect(class.connection(*from, *to, 0)))
            .collect();
        // What each host sent in the step before.
        let mut sent: Vec<u32> = Vec::new();
        for step in 0..2 * (n - 1) {
            let at = if step == 0 { self.start } else { self.pause };
            let send = |(host, connection): (usize, &u32)| {
                let chunk = chunks[(host + 2 * n - step) % n];
                let message = traffic.send(*connection, at, Amount::Exactly(chunk));
                if step > 0 {
                    traffic.wait(message, Event::Received, sent[(host + n - 1) % n]);
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
    use proptest::prelude::*;

    fn ring(n: u32, size: u64) -> Traffic {
        let hosts = (10..10 + n).collect();
        let ring =
            RingAllReduce { hosts, size: Bytes::new(size), start: Picos::new(100), pause: Picos::new(7) };
        ring.traffic(&Class::new(1, "ring")).expect("a pattern")
    }

    #[test]
    fn four_hosts_written_out() {
        // Chunks 0, 1, 2, 3 have 4, 3, 3, 3 bytes.
        let traffic = ring(4, 13);
        let ends: Vec<_> = traffic.connections.iter().map(|c| (c.from, c.to)).collect();
        assert_eq!(ends, [(10, 11), (11, 12), (12, 13), (13, 10)]);
        let sizes: Vec<u64> = traffic.messages.iter().map(|m| m.amount.bytes().unwrap().get()).collect();
        // Chunk 0 starts at host 0 and goes round: to host 3 it is reduced, and then gathered.
        #[rustfmt::skip]
        assert_eq!(sizes, [
            4, 3, 3, 3, // step 0: host i sends chunk i
            3, 4, 3, 3, // step 1: host i sends chunk i - 1
            3, 3, 4, 3,
            3, 3, 3, 4, // step 3: host 3 has the sum of chunk 0 and gives it on
            4, 3, 3, 3,
            3, 4, 3, 3,
        ]);
        // Message 4 s + i is what host i sends in step s; it waits for what host i - 1 sent in step s - 1.
        #[rustfmt::skip]
        let expected = [
            (3, 4), (0, 5), (1, 6), (2, 7),
            (7, 8), (4, 9), (5, 10), (6, 11),
            (11, 12), (8, 13), (9, 14), (10, 15),
            (15, 16), (12, 17), (13, 18), (14, 19),
            (19, 20), (16, 21), (17, 22), (18, 23),
        ];
        let after: Vec<_> = traffic.after.iter().map(|after| (after.message, after.then)).collect();
        assert_eq!(after, expected);
        assert!(traffic.after.iter().all(|after| after.event == Event::Received));
        let at: Vec<u64> = traffic.messages.iter().map(|message| message.at.get()).collect();
        assert_eq!((at[3], at[4]), (100, 7), "the first step begins at the start, later ones a pause after");
    }

    proptest! {
        #[test]
        fn each_host_sends_the_least_that_does_it(n in 2u32..40, size in 40u64..100_000) {
            let traffic = ring(n, size);
            let hosts = u64::from(n);
            prop_assert_eq!(traffic.messages.len() as u64, 2 * hosts * (hosts - 1));
            prop_assert_eq!(traffic.after.len() as u64, hosts * (2 * hosts - 3));
            // Every chunk is sent 2 (n - 1) times.
            let sum: u64 = traffic.messages.iter().filter_map(|m| m.amount.bytes()).map(Bytes::get).sum();
            prop_assert_eq!(sum, 2 * (hosts - 1) * size);
        }
    }
}
