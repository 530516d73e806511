//! Reports every law decision to the program.

use super::mode::Mode;
use super::prefix::Tag;
use core::fmt;
use poseidon_types::{Bytes, Nanos, Packets};
use std::sync::Arc;

/// A callback that receives every decision. It runs in the connection's task and must not block.
#[derive(Clone)]
pub struct Observer(pub Arc<dyn Fn(&DecisionEvent) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A law's decision, together with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionEvent {
    /// The flow's serial number, as in [`crate::FlowMetrics::number`].
    pub flow: u64,
    /// The tag that the flow's datagrams carry.
    pub tag: Tag,
    /// The time since the path was created.
    pub time: Nanos,
    /// The event that triggered the decision.
    pub cause: Cause,
    /// The signal that controls the window.
    pub mode: Mode,
    /// The round-trip time that the law received. After a loss, this is the path's smallest round-trip time.
    pub rtt: Nanos,
    /// The delay that the peer echoed, before any plausibility check.
    pub echoed_delay: Option<Nanos>,
    /// The delay that the law received: the echoed delay, limited to what the round-trip time allows.
    pub max_hop_delay: Option<Nanos>,
    /// The newly acknowledged bytes.
    pub acked: Bytes,
    /// The bytes in flight after the event. Available only for ACKs.
    pub in_flight: Option<Bytes>,
    /// The window that the law chose.
    pub law_window: Packets,
    /// The window passed to the stack.
    pub window: Bytes,
}

/// The event that triggered a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An ACK frame.
    Ack,
    /// A loss. Reported once per recovery period.
    Loss,
    /// Persistent congestion.
    Timeout,
}

impl Cause {
    /// Returns the name used in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Loss => "loss",
            Self::Timeout => "timeout",
        }
    }
}
