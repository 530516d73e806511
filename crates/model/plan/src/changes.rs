//! Links that fail, come back and change their rate while a run goes on.

use poseidon_types::{BitRate, Picos};

/// Something happens to a link, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Picos,
    /// The switch at one end.
    pub switch: u32,
    /// The port of that switch.
    pub port: u32,
    /// What.
    pub what: LinkEvent,
}

/// What happens to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// It fails. What has begun to leave still arrives; what waits for it at a switch is dropped and counted, and a
    /// host keeps it. Each end knows at once and
    /// takes another of its equal ways where it has one; nobody else is told.
    Down,
    /// It works again.
    Up,
    /// It has another rate, from the next packet on.
    Rate(BitRate),
}
