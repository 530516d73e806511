//! Tree all-reduce.

use super::error::{check_above_zero, check_hosts};
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::{Amount, Event};
use poseidon_types::{Bytes, HostId, MessageId, Picos};

/// Tree all-reduce. Partial sums travel up a binary tree to the first host, and the result travels back down.
///
/// The parent of host `i` is host `(i - 1) / 2`. A host sends to its parent after it has received data from all of its
/// children, and it sends to its children after it has the result. The pattern has `2 (n - 1)` messages, and each
/// message is as large as the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeAllReduce {
    /// The hosts in level order, at least two.
    pub hosts: Vec<HostId>,
    /// The data size per host.
    pub size: Bytes,
    /// The time at which the leaf hosts start sending.
    pub start: Picos,
    /// The delay between the last arrival and the next send, which models the reduction time.
    pub pause: Picos,
}

impl Pattern for TreeAllReduce {
    fn expected_messages(&self) -> f64 {
        2.0 * (self.hosts.len() as f64 - 1.0).max(0.0)
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        let n = self.hosts.len();
        check_hosts(&self.hosts, 2)?;
        check_above_zero(self.size.is_zero(), "size")?;
        let mut traffic = Traffic::default();
        // For each host, the message to its parent and the message from its parent. The root has neither.
        let (mut up, mut down) = (vec![MessageId::default(); n], vec![MessageId::default(); n]);
        let children = |host: usize| (2 * host + 1..=2 * host + 2).filter(|child| *child < n);
        for host in (1..n).rev() {
            let parent = self.hosts[(host - 1) / 2];
            let connection = traffic.add_connection(class.connection(self.hosts[host], parent, 0));
            let start = if children(host).next().is_none() { self.start } else { self.pause };
            up[host] = traffic.add_message(connection, start, Amount::Exactly(self.size));
            children(host).for_each(|child| traffic.add_dependency(up[host], Event::Received, up[child]));
        }
        for host in 1..n {
            let parent = (host - 1) / 2;
            let connection =
                traffic.add_connection(class.connection(self.hosts[parent], self.hosts[host], 0));
            // Only the root reduces data before sending. The other hosts just forward the result.
            let start = if parent == 0 { self.pause } else { Picos::ZERO };
            down[host] = traffic.add_message(connection, start, Amount::Exactly(self.size));
            if parent == 0 {
                children(0).for_each(|child| traffic.add_dependency(down[host], Event::Received, up[child]));
            } else {
                traffic.add_dependency(down[host], Event::Received, down[parent]);
            }
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;
    use proptest::prelude::*;

    fn tree(n: u32) -> Traffic {
        let tree = TreeAllReduce {
            hosts: hosts(0..n),
            size: Bytes::new(1_000),
            start: Picos::new(100),
            pause: Picos::new(7),
        };
        tree.generate(&TrafficClass::new(1, "tree")).expect("the pattern is valid")
    }

    #[test]
    fn tree_of_five_hosts_has_the_expected_messages_and_dependencies() {
        //     0
        //    1 2
        //   3 4
        let traffic = tree(5);
        let sent: Vec<_> = traffic
            .messages
            .iter()
            .map(|m| (traffic.connections[m.connection.index()], m.start.get()))
            .map(|(connection, start)| (connection.from.get(), connection.to.get(), start))
            .collect();
        #[rustfmt::skip]
        assert_eq!(sent, [
            (4, 1, 100), (3, 1, 100), (2, 0, 100), (1, 0, 7), // up; host 1 reduces the data of hosts 3 and 4
            (0, 1, 7), (0, 2, 7), (1, 3, 0), (1, 4, 0),       // down; host 1 forwards the result
        ]);
        let dependencies: Vec<_> =
            traffic.dependencies.iter().map(|d| (d.prerequisite.get(), d.dependent.get())).collect();
        assert_eq!(dependencies, [(1, 3), (0, 3), (3, 4), (2, 4), (3, 5), (2, 5), (4, 6), (4, 7)]);
    }

    proptest! {
        #[test]
        fn every_host_sends_up_once_and_receives_the_result_once(n in 2u32..200) {
            let traffic = tree(n);
            prop_assert_eq!(traffic.messages.len(), 2 * (n as usize - 1));
            let (up, down) = traffic.connections.split_at(n as usize - 1);
            let mut senders: Vec<HostId> = up.iter().map(|connection| connection.from).collect();
            senders.sort_unstable();
            let receivers: Vec<HostId> = down.iter().map(|connection| connection.to).collect();
            prop_assert_eq!(&senders, &hosts(1..n));
            prop_assert_eq!(receivers, senders);
        }
    }
}
