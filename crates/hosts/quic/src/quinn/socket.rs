//! The socket between quinn and UDP. It adds the prefix to outgoing packets and removes it from incoming
//! packets.

#[cfg(target_os = "linux")]
use super::sendmsg;
use crate::core::flow::Flow;
use crate::core::peers::Encapsulation;
use crate::core::prefix::{PREFIX_BYTES, Prefix};
use crate::core::send_context::{self, Outgoing};
use crate::core::shared::Shared;
use core::cell::RefCell;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::sync::Arc;

/// The largest UDP payload, which also limits a GSO batch: 65,535 bytes less the IPv4 and UDP headers.
const MAX_BATCH_BYTES: usize = 65_507;

thread_local! {
    /// The buffer in which a batch is assembled. It stays allocated and takes at most one megabyte per thread.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct ShimSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    /// A second handle to the same socket, if packets may bypass the inner socket.
    direct: Option<UdpSocket>,
    shared: Arc<Shared>,
}

impl ShimSocket {
    pub(crate) fn new(
        inner: Arc<dyn AsyncUdpSocket>,
        direct: Option<UdpSocket>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { inner, direct, shared }
    }

    /// Sends each packet with a prefix.
    fn send_with_prefix(&self, transmit: &Transmit<'_>, prefix: &[u8; PREFIX_BYTES]) -> io::Result<()> {
        // If the direct send fails, the inner socket handles waiting and errors.
        if self.direct.as_ref().is_some_and(|direct| sendmsg::try_send(direct, transmit, prefix)) {
            return Ok(());
        }
        let segment_size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        BATCH.with_borrow_mut(|batch| {
            batch.clear();
            let packets = transmit.contents.len().div_ceil(segment_size);
            batch.reserve(transmit.contents.len() + packets * PREFIX_BYTES);
            for packet in transmit.contents.chunks(segment_size) {
                batch.extend_from_slice(prefix);
                batch.extend_from_slice(packet);
            }
            self.inner.try_send(&Transmit {
                destination: transmit.destination,
                ecn: transmit.ecn,
                contents: batch,
                segment_size: transmit.segment_size.map(|size| size + PREFIX_BYTES),
                src_ip: transmit.src_ip,
            })
        })
    }

    /// Updates the remote address of a flow. Returns whether the datagram is sent to that address.
    fn update_remote(&self, outgoing: &Outgoing, destination: SocketAddr) -> bool {
        let Outgoing { flow, is_counted } = outgoing;
        let fingerprint = self.shared.address_hasher.fingerprint(destination);
        if flow.remote() == fingerprint {
            return true;
        }
        // A path challenge to an old address bypasses the controller. It does not change the flow's address.
        if *is_counted {
            self.shared.flows.change_remote(flow, fingerprint, destination);
        }
        *is_counted
    }
}

impl AsyncUdpSocket for ShimSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let inner = Arc::clone(&self.inner).create_io_poller();
        Box::pin(ShimPoller { inner, flow: None, is_counted: false })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let outgoing = send_context::take_outgoing();
        let outgoing_on_path =
            outgoing.as_ref().filter(|outgoing| self.update_remote(outgoing, transmit.destination));
        let flow = outgoing_on_path.map(|outgoing| &outgoing.flow);
        let encapsulation = self.shared.encapsulation(flow.map(Arc::as_ref), transmit.destination);
        if encapsulation == Encapsulation::Plain {
            return self.inner.try_send(transmit);
        }
        let Some(flow) = flow else {
            return self.send_with_prefix(transmit, &Prefix::default().emit());
        };
        let (prefix, echo) = self.shared.next_prefix(flow, transmit.contents);
        self.send_with_prefix(transmit, &prefix.emit()).inspect_err(|_| flow.echo.put_back(echo))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let buffers = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        self.shared.parse_batch(|parser| {
            for (bytes, meta) in bufs.iter_mut().zip(meta.iter_mut()).take(buffers) {
                let received = meta.len.min(bytes.len());
                let packets = parser.decap(&mut bytes[..received], meta.stride, meta.addr);
                (meta.len, meta.stride) = (packets.length, packets.stride);
            }
        });
        Poll::Ready(Ok(buffers))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// quinn sends up to ten packets at a time. Ten jumbo frames exceed the largest UDP payload: the kernel
    /// rejects them, quinn counts them as sent, and the connection stalls.
    fn max_transmit_segments(&self) -> usize {
        let max_packets = MAX_BATCH_BYTES / (usize::from(self.shared.packet_size) + PREFIX_BYTES);
        self.inner.max_transmit_segments().min(max_packets.max(1))
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// On other systems, the inner socket sends all packets.
#[cfg(not(target_os = "linux"))]
mod sendmsg {
    use super::{PREFIX_BYTES, Transmit, UdpSocket};

    pub(super) fn try_send(_: &UdpSocket, _: &Transmit<'_>, _: &[u8; PREFIX_BYTES]) -> bool {
        false
    }
}

/// The poller of one connection. See [`crate::core::send_context`].
#[derive(Debug)]
struct ShimPoller {
    inner: Pin<Box<dyn UdpPoller>>,
    flow: Option<Arc<Flow>>,
    is_counted: bool,
}

impl UdpPoller for ShimPoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(flow) = send_context::take_counted_flow() {
            self.flow = Some(flow);
            self.is_counted = true;
        }
        ready!(self.inner.as_mut().poll_writable(cx))?;
        let is_counted = core::mem::take(&mut self.is_counted);
        if let Some(flow) = &self.flow {
            send_context::set_outgoing(Outgoing { flow: Arc::clone(flow), is_counted });
        }
        Poll::Ready(Ok(()))
    }
}
