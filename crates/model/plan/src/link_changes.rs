//! Link failures, recoveries, and changes of rate and delay during a run.

use poseidon_types::{BitRate, Picos, PortId, SwitchId};

/// A change to one link, which affects both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The time of the change.
    pub time: Picos,
    /// The switch at one end of the link.
    pub switch: SwitchId,
    /// The port on that switch.
    pub port: PortId,
    /// The type of change.
    pub event: LinkEvent,
}

/// The types of link change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The link fails.
    ///
    /// Packets already in transmission still arrive. A switch drops the packets queued for the link and counts them as
    /// drops, whereas a host keeps its queued packets. Both ends detect the failure immediately and switch to another
    /// equal-cost link if possible. Other nodes do not learn about the failure.
    Down,
    /// The link recovers.
    Up,
    /// The link rate changes to this value, starting with the next packet.
    Rate(BitRate),
    /// The propagation delay changes to this value, starting with the next packet. After a decrease, packets can
    /// overtake earlier ones, as after a change of the route. Only links between switches can change their delay.
    Delay(Picos),
}
