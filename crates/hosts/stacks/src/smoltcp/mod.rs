//! TCP endpoints in smoltcp.
//!
//! | setting | value | reason |
//! |---|---|---|
//! | MTU | a full packet of the plan | its size is part of the plan |
//! | socket buffers | 1 MiB or 8 bandwidth-delay products | they do not limit a connection |
//! | Nagle's algorithm | off | a message must not wait for the ACK of the previous one |
//! | ACK delay | 10 ms, the default of smoltcp | a receiver also acknowledges more than one segment at once |
//!
//! # Limits of smoltcp
//!
//! - Its clock has microseconds, and its RTT estimate has milliseconds. The retransmission timeout is at least one second.
//! - The initial window is 2 kB. There is no pacing and no ECN, so datagrams are not ECN-capable.
//! - A receiver sends SACK blocks, but a sender ignores them. After a timeout, it sends all outstanding data again.
//! - It does not report its window, its RTT or its losses. [`StackState`](poseidon_plan::stack::StackState) therefore
//!   contains what the headers of its segments show: the bytes in flight, the RTT and the segments that were sent again.
//!   The window is zero.

mod device;
mod endpoint;
mod monitor;

use crate::common::{self, Purpose};
use ::smoltcp::socket::tcp::CongestionControl;
use device::PacketQueue;
use endpoint::{Settings, SmoltcpEndpoint};
use poseidon_plan::stack::{Controller, Side, StackEndpoint, StackKind, StackLaw};
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, ConnectionId};

/// The smallest MTU, the datagram size that every IPv4 host accepts.
const MIN_DATAGRAM: Bytes = Bytes::new(576);
/// The smallest socket buffer.
const MIN_BUFFER: Bytes = Bytes::new(1 << 20);

/// Checks that smoltcp can run the connections of a plan.
pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    common::check_datagram_size(plan, StackKind::Smoltcp, MIN_DATAGRAM)
}

/// Creates one side of a connection.
pub(crate) fn create(
    plan: &Plan,
    law: &StackLaw,
    connection: ConnectionId,
    side: Side,
) -> Box<dyn StackEndpoint> {
    let to_usize = |size: Bytes| usize::try_from(size.get()).unwrap_or(usize::MAX);
    let control = match law.controller {
        Some(Controller::Cubic) => CongestionControl::Cubic,
        _ => CongestionControl::Reno,
    };
    let settings = Settings {
        side,
        device: PacketQueue::new(to_usize(common::datagram_size(plan, StackKind::Smoltcp))),
        control,
        buffer: to_usize(common::window(plan, connection, MIN_BUFFER)),
        random_seed: common::seed(plan, connection, side, Purpose::Stack),
        message_sizes: message_sizes(plan, connection),
    };
    Box::new(SmoltcpEndpoint::new(settings))
}

/// Returns the sizes of a connection's messages, in their order. A long flow has no size.
fn message_sizes(plan: &Plan, connection: ConnectionId) -> Vec<Option<Bytes>> {
    let messages = plan.messages.iter().filter(|message| message.connection == connection);
    messages.map(|message| message.amount.bytes()).collect()
}
