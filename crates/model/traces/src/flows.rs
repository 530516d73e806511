//! The flows of a file, in the file's node numbers.

use core::fmt;
use core::num::NonZeroU32;
use poseidon_types::{Bytes, Picos};

/// The contents of a flow list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowFile {
    /// The flows, in the order of the file.
    pub flows: Vec<TraceFlow>,
    /// The triggers, which start flows when other flows finish.
    pub triggers: Vec<Trigger>,
    /// The links that are down during the whole run.
    pub failures: Vec<LinkFailure>,
    /// The number of nodes, if the file announces it.
    pub nodes: Option<u32>,
}

impl FlowFile {
    /// Removes the node count, and the ids of flows that need none. The traffic stays the same.
    ///
    /// Formats other than `.cm` have no node count and no ids, so their writers refuse a file that has them.
    pub fn remove_labels(&mut self) {
        self.nodes = None;
        for flow in &mut self.flows {
            if flow.message.is_none() && matches!(flow.start, FlowStart::At(_)) {
                flow.id = None;
            }
        }
    }
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFlow {
    /// The sending node.
    pub from: u32,
    /// The receiving node.
    pub to: u32,
    /// The flow size, above zero.
    pub size: Bytes,
    /// The time or the trigger that starts the flow.
    pub start: FlowStart,
    /// The flow id. Flows with a [`TraceFlow::message`] number and the same id share a connection.
    pub id: Option<NonZeroU32>,
    /// The priority, in the numbers of the file.
    pub priority: Option<u32>,
    /// The trigger that fires when the sender has received all acknowledgements.
    pub send_done: Option<NonZeroU32>,
    /// The trigger that fires when the receiver has received all bytes.
    pub receive_done: Option<NonZeroU32>,
    /// The message number on the connection with this flow's id, or zero for a message without a number. A flow that is
    /// not a message has a connection of its own.
    pub message: Option<u32>,
}

// A file with 10^8 flows takes 6.4 GB.
const _: () = assert!(size_of::<TraceFlow>() <= 64);

impl TraceFlow {
    /// Returns a flow with only its required properties.
    pub const fn new(from: u32, to: u32, size: Bytes, start: FlowStart) -> Self {
        Self {
            from,
            to,
            size,
            start,
            id: None,
            priority: None,
            send_done: None,
            receive_done: None,
            message: None,
        }
    }
}

/// The time or the event that starts a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStart {
    /// The flow starts at this time.
    At(Picos),
    /// The flow starts when the trigger with this id fires.
    OnTrigger(NonZeroU32),
}

/// A trigger of a `.cm` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The trigger id.
    pub id: NonZeroU32,
    /// When the trigger fires.
    pub kind: TriggerKind,
}

/// When a trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerKind {
    /// At the first activation.
    OneShot,
    /// At each activation.
    MultiShot,
    /// At activation number `count`.
    Barrier {
        /// The number of activations.
        count: NonZeroU32,
    },
}

impl fmt::Display for TriggerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneShot => f.write_str("oneshot"),
            Self::MultiShot => f.write_str("multishot"),
            Self::Barrier { count } => write!(f, "barrier count {count}"),
        }
    }
}

/// A link that is down during the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFailure {
    /// The tier of the switch.
    pub tier: SwitchTier,
    /// The number of the switch in its tier. Aggregation switches are numbered pod by pod.
    pub switch: u32,
    /// The number of the link among the links that lead up from the switch.
    pub link: u32,
}

/// A tier of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchTier {
    /// Top-of-rack switches.
    Tor,
    /// Aggregation switches.
    Aggregation,
    /// Core switches.
    Core,
}

impl fmt::Display for SwitchTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tor => "TOR",
            Self::Aggregation => "AGG",
            Self::Core => "CORE",
        })
    }
}

/// The unit of the start times in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartUnit {
    /// Picoseconds: csg-htsim and spcl/HTSIM.
    Picoseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds: uet-htsim.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl StartUnit {
    /// All units.
    pub const ALL: [Self; 5] =
        [Self::Picoseconds, Self::Nanoseconds, Self::Microseconds, Self::Milliseconds, Self::Seconds];

    /// Returns the symbol, for example `us`.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Picoseconds => "ps",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// Returns the number of decimals that a time in this unit needs for whole picoseconds.
    pub(crate) const fn decimals(self) -> u32 {
        match self {
            Self::Picoseconds => 0,
            Self::Nanoseconds => 3,
            Self::Microseconds => 6,
            Self::Milliseconds => 9,
            Self::Seconds => 12,
        }
    }
}

impl fmt::Display for StartUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}
