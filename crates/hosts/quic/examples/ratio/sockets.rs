//! The sockets below quinn: one that hands out fewer packets at a time, and one with a switch in it.

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

/// tokio, with a change to what is received and a bound on what is sent at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    pub(crate) segments: usize,
    /// Whether a hop stamps what comes.
    pub(crate) stamps: bool,
}

impl Runtime for Below {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket { inner: TokioRuntime.wrap_udp_socket(socket)?, below: *self }))
    }
}

#[derive(Debug)]
struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    below: Below,
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let messages = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        if self.below.stamps {
            for (bytes, meta) in bufs.iter_mut().zip(meta.iter()).take(messages) {
                for datagram in bytes[..meta.len].chunks_mut(meta.stride.max(1)) {
                    // One hop, an empty queue: what poseidon_wire's update would write.
                    if let Some(hops) = datagram.get_mut(1) {
                        *hops = hops.saturating_add(1);
                    }
                }
            }
        }
        Poll::Ready(Ok(messages))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments().min(self.below.segments)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
