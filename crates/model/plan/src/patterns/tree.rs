//! All-reduce over a tree.

use super::error::{check_above_zero, check_hosts};
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::{Amount, Event};
use poseidon_types::{Bytes, Picos};

/// All-reduce over a binary tree: sums go up to the first host, and the result comes down. Host `i` hangs under host `(i - 1) / 2`.
/// `2 (n - 1)` messages of all the data; a host sends up once both below it have, and down once it has the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeAllReduce {
    /// Who takes part, level by level; at least two.
    pub hosts: Vec<u32>,
    /// The data of each.
    pub size: Bytes,
    /// When they begin.
    pub start: Picos,
    /// From the last arrival to sending on: what adding up takes.
    pub pause: Picos,
}

impl Pattern for TreeAllReduce {
    fn expected_messages(&self) -> f64 {
        2.0 * (self.hosts.len() as f64 - 1.0).max(0.0)
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        let n = self.hosts.len();
        check_hosts(&self.hosts, 2)?;
        check_above_zero(self.size.is_zero(), "size")?;
        let mut traffic = Traffic::default();
        // By host: what it sends up, and what it is sent from above. The first host has neither.
        let (mut up, mut down) = (vec![0; n], vec![0; n]);
        let children = |host: usize| (2 * host + 1..=2 * host + 2).filter(|child| *child < n);
        for host in (1..n).rev() {
            let above = self.hosts[(host - 1) / 2];
            let connection = traffic.connect(class.connection(self.hosts[host], above, 0));
            let at = if children(host).next().is_none() { self.start } else { self.pause };
            up[host] = traffic.send(connection, at, Amount::Exactly(self.size));
            children(host).for_each(|child| traffic.wait(up[host], Event::Received, up[child]));
        }
        for host in 1..n {
            let above = (host - 1) / 2;
            let connection = traffic.connect(class.connection(self.hosts[above], self.hosts[host], 0));
            // Only the top has something to add up; below it, the result is passed on.
            let at = if above == 0 { self.pause } else { Picos::ZERO };
            down[host] = traffic.send(connection, at, Amount::Exactly(self.size));
            if above == 0 {
                children(0).for_each(|child| traffic.wait(down[host], Event::Received, up[child]));
            } else {
                traffic.wait(down[host], Event::Received, down[above]);
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree(n: u32) -> Traffic {
        let tree = TreeAllReduce {
            hosts: (0..n).collect(),
            size: Bytes::new(1_000),
            start: Picos::new(100),
            pause: Picos::new(7),
        };
        tree.traffic(&Class::new(1, "tree")).expect("a pattern")
    }

    #[test]
    fn five_hosts_written_out() {
        //     0
        //    1 2
        //   3 4
        let traffic = tree(5);
        let sent: Vec<_> = traffic
            .messages
            .iter()
            .map(|m| (traffic.connections[m.connection as usize], m.at.get()))
            .map(|(connection, at)| (connection.from, connection.to, at))
            .collect();
        #[rustfmt::skip]
        assert_eq!(sent, [
            (4, 1, 100), (3, 1, 100), (2, 0, 100), (1, 0, 7), // up; host 1 adds up what 3 and 4 sent
            (0, 1, 7), (0, 2, 7), (1, 3, 0), (1, 4, 0),       // down; host 1 passes on
        ]);
        let after: Vec<_> = traffic.after.iter().map(|after| (after.message, after.then)).collect();
        assert_eq!(after, [(1, 3), (0, 3), (3, 4), (2, 4), (3, 5), (2, 5), (4, 6), (4, 7)]);
    }

    proptest! {
        #[test]
        fn every_host_is_told_once_and_tells_once(n in 2u32..200) {
            let traffic = tree(n);
            prop_assert_eq!(traffic.messages.len(), 2 * (n as usize - 1));
            let (up, down) = traffic.connections.split_at(n as usize - 1);
            let mut tells: Vec<u32> = up.iter().map(|connection| connection.from).collect();
            tells.sort_unstable();
            let told: Vec<u32> = down.iter().map(|connection| connection.to).collect();
            prop_assert_eq!(&tells, &(1..n).collect::<Vec<_>>());
            prop_assert_eq!(told, tells);
        }
    }
}
