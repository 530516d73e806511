//! A quinn runtime whose sockets add and remove the prefix.

use super::socket::ShimSocket;
use crate::core::shared::Shared;
use core::pin::Pin;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct ShimRuntime<R> {
    pub(crate) inner: R,
    /// Whether packets bypass the inner socket on their way to the kernel.
    pub(crate) is_direct: bool,
    pub(crate) shared: Arc<Shared>,
}

impl<R: Runtime> Runtime for ShimRuntime<R> {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.inner.new_timer(deadline)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        // If the socket cannot be cloned, the inner socket sends all packets.
        let direct = self.is_direct.then(|| socket.try_clone().ok()).flatten();
        let inner = self.inner.wrap_udp_socket(socket)?;
        Ok(Arc::new(ShimSocket::new(inner, direct, Arc::clone(&self.shared))))
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }
}
