//! Node numbering. Switches come first, then racks. A rack of hosts is one node.

use poseidon_types::SwitchId;

/// A switch or a rack of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct NodeId(u32);

impl NodeId {
    #[inline]
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    #[inline]
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<SwitchId> for NodeId {
    #[inline]
    fn from(switch: SwitchId) -> Self {
        Self(switch.get())
    }
}

/// The two kinds of nodes. In each window, the simulator visits switches first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Switch,
    Rack,
}
