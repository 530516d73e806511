//! Identifies the flow of an outgoing datagram, because the stack does not tell its socket.
//!
//! quinn calls the controller, the poller and the socket in sequence, in one task and without yielding:
//!
//! ```text
//!   Controller::on_sent        one per path          sets COUNTED
//!   UdpPoller::poll_writable   one per connection    takes COUNTED, stores the flow, sets OUTGOING
//!   AsyncUdpSocket::try_send   one per endpoint      takes OUTGOING
//! ```
//!
//! A datagram that had to wait for the socket bypasses the controller, and so do MTU probes. In both cases, the
//! poller uses the stored flow. An endpoint's replies to unknown peers bypass the poller too, so OUTGOING is
//! empty.
//!
//! s2n-quic calls the controller and then the interceptor, which takes COUNTED.

use super::flow::Flow;
use core::cell::Cell;
use std::sync::Arc;

thread_local! {
    static COUNTED: Cell<Option<Arc<Flow>>> = const { Cell::new(None) };
    static OUTGOING: Cell<Option<Outgoing>> = const { Cell::new(None) };
}

/// The flow of the next outgoing datagram.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) flow: Arc<Flow>,
    /// Whether the controller has just counted this datagram. If so, its destination is the flow's remote
    /// address.
    pub(crate) is_counted: bool,
}

/// Records that the controller of this flow has counted a datagram.
#[inline]
pub(crate) fn set_counted_flow(flow: &Arc<Flow>) {
    COUNTED.set(Some(Arc::clone(flow)));
}

/// Takes the flow whose controller counted the last datagram.
#[inline]
pub(crate) fn take_counted_flow() -> Option<Arc<Flow>> {
    COUNTED.take()
}

/// Records the flow of the next datagram that the stack passes to the socket.
#[inline]
pub(crate) fn set_outgoing(outgoing: Outgoing) {
    OUTGOING.set(Some(outgoing));
}

/// Takes the flow of the datagram that the stack has passed to the socket.
#[inline]
pub(crate) fn take_outgoing() -> Option<Outgoing> {
    OUTGOING.take()
}
