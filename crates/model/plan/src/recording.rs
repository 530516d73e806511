//! What a backend records in addition to a plan's own rows.
//!
//! A recording never changes a run: the same packets reach the same hosts at the same times. It is therefore not part of
//! the plan, and a plan has the same hash with and without a recording.

use crate::topology::Node;
use core::fmt;
use core::ops::Range;
use poseidon_types::{Picos, PortId};

/// The additional rows of a run. The default records nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Whether to record the ECN marks of switches.
    pub marks: bool,
    /// Whether to record PFC pauses. Pauses are recorded during the whole run, so that their state is always known.
    pub pauses: bool,
    /// The shortest time between two recorded law states of a watched connection. Zero records no law states.
    pub law_states_every: Picos,
    /// The ports whose packets are captured, in sorted order.
    pub captured_ports: Vec<NodePort>,
    /// The time window of marks, law states and captured packets.
    pub window: Range<Picos>,
}

impl Recording {
    /// The recording without any rows.
    pub const NOTHING: Self = Self {
        marks: false,
        pauses: false,
        law_states_every: Picos::ZERO,
        captured_ports: Vec::new(),
        window: Picos::ZERO..Picos::MAX,
    };

    /// Returns whether nothing is recorded.
    pub const fn is_empty(&self) -> bool {
        !self.marks && !self.pauses && self.law_states_every.is_zero() && self.captured_ports.is_empty()
    }
}

impl Default for Recording {
    fn default() -> Self {
        Self::NOTHING
    }
}

/// A port of a host or a switch. A host has one port, with the number zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePort {
    /// The host or the switch.
    pub node: Node,
    /// The port.
    pub port: PortId,
}

impl NodePort {
    /// Creates a reference to port `port` of `node`.
    pub const fn new(node: Node, port: PortId) -> Self {
        Self { node, port }
    }
}

impl fmt::Display for NodePort {
    /// Prints the port as the command line names it: `host3:0`, `switch5:2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Node::Host(host) => write!(f, "host{}:{}", host.get(), self.port.get()),
            Node::Switch(switch) => write!(f, "switch{}:{}", switch.get(), self.port.get()),
        }
    }
}
