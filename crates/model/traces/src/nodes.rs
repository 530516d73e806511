//! The map from a file's node numbers to hosts.

use poseidon_types::HostId;

/// A map from a file's node numbers to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMap {
    /// Node `n` is host `n`, for all nodes below this number.
    Identity(u32),
    /// Node `n` is the host at index `n`. The value is `None` for a node that is not a host.
    Table(Vec<Option<HostId>>),
}

impl NodeMap {
    /// Returns the host of a node, or `None` if the node does not exist or is not a host.
    pub fn host(&self, node: u32) -> Option<HostId> {
        match self {
            Self::Identity(hosts) => (node < *hosts).then_some(HostId::new(node)),
            Self::Table(hosts) => {
                usize::try_from(node).ok().and_then(|node| hosts.get(node).copied().flatten())
            }
        }
    }
}
