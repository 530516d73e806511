//! Which connection a datagram belongs to, although quinn does not say.
//!
//! quinn asks its controller, then its poller, then its socket, one after the other in one task and without a pause:
//!
//! ```text
//!   Controller::on_sent      knows the path   ──>  SENT
//!   UdpPoller::poll_writable  one per connection; takes SENT, remembers it  ──>  READY
//!   AsyncUdpSocket::try_send  takes READY
//! ```
//!
//! A datagram that had to wait is sent later by the last two alone, and so are probes of the MTU: the poller remembers. What the
//! endpoint itself answers to strangers goes to the socket alone, and finds READY empty.

use crate::flow::Flow;
use core::cell::Cell;
use std::sync::Arc;

thread_local! {
    static SENT: Cell<Option<Arc<Flow>>> = const { Cell::new(None) };
    static READY: Cell<Option<Outgoing>> = const { Cell::new(None) };
}

/// Whose datagram is sent next.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) flow: Arc<Flow>,
    /// Its controller has just counted this very datagram: so where it goes is where the flow goes.
    pub(crate) is_fresh: bool,
}

/// A controller has counted a datagram.
#[inline]
pub(crate) fn sent(flow: &Arc<Flow>) {
    SENT.set(Some(Arc::clone(flow)));
}

/// The flow whose controller was the last to count.
#[inline]
pub(crate) fn take_sent() -> Option<Arc<Flow>> {
    SENT.take()
}

/// The socket is about to be handed a datagram.
#[inline]
pub(crate) fn ready(outgoing: Outgoing) {
    READY.set(Some(outgoing));
}

/// Whose it is.
#[inline]
pub(crate) fn take_ready() -> Option<Outgoing> {
    READY.take()
}
