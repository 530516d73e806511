//! Deadlocks of priority flow control: ports that pause each other in a cycle.

use crate::records::PauseWaitRow;
use crate::topology::SwitchPort;
use std::collections::BTreeSet;

/// Returns the ports that wait for each other in a cycle when the run ends, and ports between two such cycles, in
/// sorted order.
///
/// A port in the result cannot send until another one sends, so the network has a deadlock.
pub fn deadlocked_ports(waits: &[PauseWaitRow]) -> Vec<SwitchPort> {
    let mut edges: BTreeSet<_> =
        waits.iter().map(|row| ((row.waiting, row.priority), (row.blocked_by, row.priority))).collect();
    // A port on a cycle waits for a port, and another port waits for it. Other ports drop out one after the other.
    loop {
        let waiting: BTreeSet<_> = edges.iter().map(|(from, _)| *from).collect();
        let blocking: BTreeSet<_> = edges.iter().map(|(_, to)| *to).collect();
        let before = edges.len();
        edges.retain(|(from, to)| blocking.contains(from) && waiting.contains(to));
        if edges.len() == before {
            break;
        }
    }
    let ports: BTreeSet<_> = edges.iter().map(|((port, _), _)| *port).collect();
    ports.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{PortId, SwitchId};

    /// Returns rows for ports named by numbers: the first waits for the second.
    fn waits(edges: &[(u32, u32)]) -> Vec<PauseWaitRow> {
        let port = |number| SwitchPort::new(SwitchId::new(number), PortId::new(0));
        let row = |&(from, to)| PauseWaitRow { waiting: port(from), blocked_by: port(to), priority: 0 };
        edges.iter().map(row).collect()
    }

    fn deadlocked(edges: &[(u32, u32)]) -> Vec<u32> {
        deadlocked_ports(&waits(edges)).iter().map(|port| port.switch.get()).collect()
    }

    #[test]
    fn only_cycles_are_deadlocks() {
        assert_eq!(deadlocked(&[]), []);
        assert_eq!(deadlocked(&[(0, 1), (1, 2), (2, 3)]), []);
        assert_eq!(deadlocked(&[(0, 1), (1, 2), (2, 0)]), [0, 1, 2]);
        // Ports that lead to a cycle, or that a cycle leads to, are not part of it.
        assert_eq!(deadlocked(&[(7, 0), (0, 1), (1, 0), (1, 8), (8, 9)]), [0, 1]);
    }

    #[test]
    fn priorities_do_not_wait_for_each_other() {
        let mut rows = waits(&[(0, 1), (1, 0)]);
        rows[1].priority = 1;
        assert!(deadlocked_ports(&rows).is_empty());
    }
}
