//! A tokio runtime whose sockets limit the batch size and can stamp received datagrams like a switch.

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

/// A tokio runtime with modified sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestRuntime {
    /// The largest number of packets in a batch.
    pub(crate) max_segments: usize,
    /// Whether the sockets stamp received datagrams.
    pub(crate) stamp_received: bool,
}

impl Runtime for TestRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(deadline)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket { inner: TokioRuntime.wrap_udp_socket(socket)?, runtime: *self }))
    }
}

#[derive(Debug)]
struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    runtime: TestRuntime,
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
        let buffers = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        if self.runtime.stamp_received {
            for (bytes, meta) in bufs.iter_mut().zip(meta.iter()).take(buffers) {
                for datagram in bytes[..meta.len].chunks_mut(meta.stride.max(1)) {
                    // Writes the same bytes as poseidon_wire for one hop with an empty queue.
                    if let Some(hops) = datagram.get_mut(1) {
                        *hops = hops.saturating_add(1);
                    }
                }
            }
        }
        Poll::Ready(Ok(buffers))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments().min(self.runtime.max_segments)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
