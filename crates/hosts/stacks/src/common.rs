//! What both stacks need: datagram sizes, buffer sizes and seeds.

use crate::STACKS;
use poseidon_plan::stack::{Side, StackKind};
use poseidon_plan::stack_factory::StackFactory as _;
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, ConnectionId, random};

/// The data that a long flow keeps in its stack beyond a multiple of the window.
pub(crate) const LONG_FLOW_RESERVE: u64 = 128 << 10;
/// A long flow keeps at most this many windows in its stack: one in flight, and two for the round trips in which lost data
/// is sent again.
pub(crate) const LONG_FLOW_WINDOWS: u64 = 3;

/// Returns the largest datagram that fits into a full packet of the plan.
pub(crate) fn datagram_size(plan: &Plan, stack: StackKind) -> Bytes {
    plan.data_size() - STACKS.overhead(stack) - plan.switch.stamp.data_bytes()
}

/// Checks that a full packet has room for a datagram of `min` bytes.
pub(crate) fn check_datagram_size(plan: &Plan, stack: StackKind, min: Bytes) -> Result<(), PlanError> {
    let size = datagram_size(plan, stack);
    if size >= min {
        return Ok(());
    }
    // The size is zero if the overhead alone exceeds the packet, so compute from the packet.
    let needed = min + STACKS.overhead(stack) + plan.switch.stamp.data_bytes() - plan.transport.header;
    Err(PlanError::BackendFailed(format!(
        "{} sends datagrams of at least {} bytes, but a full packet has room for {}; set transport.mtu to at least {} bytes",
        stack.name(),
        min.get(),
        size.get(),
        needed.get()
    )))
}

/// Returns a buffer or window size that does not limit a connection: at least `min`, and eight times the bandwidth-delay
/// product.
pub(crate) fn window(plan: &Plan, connection: ConnectionId, min: Bytes) -> Bytes {
    const WINDOWS: u64 = 8;
    let path = plan.path(&plan.connections[connection.index()]);
    min.max(path.line_rate.bytes_in_floor(path.base_rtt) * WINDOWS)
}

/// The numbers that an endpoint derives from the plan's seed.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(feature = "quinn", feature = "smoltcp")),
    allow(dead_code, reason = "each stack uses only some seeds")
)]
pub(crate) enum Purpose {
    /// Random numbers of the stack.
    Stack,
    /// Connection IDs that the endpoint issues.
    ConnectionIds,
    /// The connection ID that a client chooses for its server.
    InitialConnectionId,
    /// Random numbers of a law.
    Law,
}

/// Returns the seed of one side of a connection.
pub(crate) fn seed(plan: &Plan, connection: ConnectionId, side: Side, purpose: Purpose) -> u64 {
    let side = match side {
        Side::Sender => 0,
        Side::Receiver => 1,
    };
    let identity = (u64::from(connection.get()) << 8) | (side << 4) | purpose as u64;
    random::splitmix64(random::splitmix64(plan.seed) ^ identity)
}
