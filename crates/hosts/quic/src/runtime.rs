//! quinn's runtime, with our socket in the place of its own.

use crate::shared::Shared;
use crate::socket::Socket;
use core::pin::Pin;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct WithShim<R> {
    pub(crate) inner: R,
    /// Whether packets go to the kernel past the inner socket.
    pub(crate) is_direct: bool,
    pub(crate) shared: Arc<Shared>,
}

impl<R: Runtime> Runtime for WithShim<R> {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.inner.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        // Without a second handle packets take the inner socket.
        let direct = self.is_direct.then(|| socket.try_clone().ok()).flatten();
        let inner = self.inner.wrap_udp_socket(socket)?;
        Ok(Arc::new(Socket::new(inner, direct, Arc::clone(&self.shared))))
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }
}
