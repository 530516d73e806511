//! The interface that creates the endpoints of connections in real transport stacks.

use crate::stack::{Side, StackEndpoint, StackKind};
use crate::{Plan, PlanError};
use core::fmt;
use poseidon_types::{Bytes, ConnectionId};

/// Creates the endpoints of connections that run in real stacks.
pub trait StackFactory: Sync + fmt::Debug {
    /// Returns the bytes that a link carries in addition to each datagram: Ethernet, IP and, for QUIC, UDP headers.
    fn overhead(&self, stack: StackKind) -> Bytes;

    /// Checks that the stacks can run the plan, for example that its packets are large enough.
    fn check(&self, plan: &Plan) -> Result<(), PlanError>;

    /// Creates one side of a connection at time zero. The same plan, connection and side always give an endpoint that
    /// sends datagrams of the same sizes at the same times.
    fn create(&self, plan: &Plan, connection: ConnectionId, side: Side) -> Box<dyn StackEndpoint>;
}
