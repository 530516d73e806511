//! Links that lose, delay or reorder packets.

pub use poseidon_policies::impair::{AnyImpairPolicy, IMPAIR_POLICIES, Jitter, RandomLoss, Reorder};
use poseidon_types::{PortId, SwitchId};

/// An impairment of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkImpairment {
    /// The switch that sends on the link.
    pub switch: SwitchId,
    /// The egress port.
    pub port: PortId,
    /// What the link does to packets.
    pub policy: AnyImpairPolicy,
}
