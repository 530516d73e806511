//! The socket between quinn and UDP: a prefix before every packet on the way out, none on the way in.

use crate::context::{self, Outgoing};
use crate::flow::Flow;
#[cfg(target_os = "linux")]
use crate::gather;
use crate::peers::Form;
use crate::prefix::{PREFIX_BYTES, Prefix};
use crate::shared::Shared;
use core::cell::RefCell;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::sync::Arc;

/// The most that one UDP datagram, or one batch of them (GSO), may hold: 65,535 less the headers of IPv4 and UDP.
const MOST_BYTES: usize = 65_507;

thread_local! {
    /// Where a batch is put together. It keeps its room: a megabyte per thread at most.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    /// The same socket, where packets may go past the inner one.
    direct: Option<UdpSocket>,
    shared: Arc<Shared>,
}

impl Socket {
    pub(crate) fn new(
        inner: Arc<dyn AsyncUdpSocket>,
        direct: Option<UdpSocket>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { inner, direct, shared }
    }

    /// Sends each packet behind a prefix.
    fn send_with_prefix(&self, transmit: &Transmit<'_>, prefix: &[u8; PREFIX_BYTES]) -> io::Result<()> {
        // Where the kernel does not take it, the inner socket is asked: it knows how to wait, and what an error means.
        if self.direct.as_ref().is_some_and(|direct| gather::send(direct, transmit, prefix)) {
            return Ok(());
        }
        let packet = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        BATCH.with_borrow_mut(|batch| {
            batch.clear();
            let packets = transmit.contents.len().div_ceil(packet);
            batch.reserve(transmit.contents.len() + packets * PREFIX_BYTES);
            for packet in transmit.contents.chunks(packet) {
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

    /// Follows a flow to where it goes; whether this datagram goes there too.
    fn follow(&self, outgoing: &Outgoing, destination: SocketAddr) -> bool {
        let Outgoing { flow, is_fresh } = outgoing;
        let print = self.shared.prints.of(destination);
        if flow.remote() == print {
            return true;
        }
        // A challenge to an old address, sent past the controller, moves nothing.
        if *is_fresh {
            self.shared.flows.moved(flow, print, destination);
        }
        *is_fresh
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let inner = Arc::clone(&self.inner).create_io_poller();
        Box::pin(Poller { inner, flow: None, is_fresh: false })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let outgoing = context::take_ready();
        let on_path = outgoing.as_ref().filter(|outgoing| self.follow(outgoing, transmit.destination));
        let flow = on_path.map(|outgoing| &outgoing.flow);
        if self.shared.form(flow.map(Arc::as_ref), transmit.destination) == Form::Plain {
            return self.inner.try_send(transmit);
        }
        let Some(flow) = flow else {
            return self.send_with_prefix(transmit, &Prefix::default().emit());
        };
        let (prefix, echo) = self.shared.prefix(flow, transmit.contents);
        self.send_with_prefix(transmit, &prefix.emit()).inspect_err(|_| flow.heard.put_back(echo))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let messages = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        self.shared.strip(|stripper| {
            for (bytes, meta) in bufs.iter_mut().zip(meta.iter_mut()).take(messages) {
                stripper.strip(bytes, meta);
            }
        });
        Poll::Ready(Ok(messages))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// quinn asks for ten packets at a time. Of jumbo frames those are more than a datagram may hold: the kernel then refuses, quinn takes that
    /// for sent, and the connection starves.
    fn max_transmit_segments(&self) -> usize {
        let fit = MOST_BYTES / (usize::from(self.shared.packet) + PREFIX_BYTES);
        self.inner.max_transmit_segments().min(fit.max(1))
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Elsewhere packets take the inner socket.
#[cfg(not(target_os = "linux"))]
mod gather {
    use super::{PREFIX_BYTES, Transmit, UdpSocket};

    pub(super) fn send(_: &UdpSocket, _: &Transmit<'_>, _: &[u8; PREFIX_BYTES]) -> bool {
        false
    }
}

/// One per connection: see [`crate::context`].
#[derive(Debug)]
struct Poller {
    inner: Pin<Box<dyn UdpPoller>>,
    flow: Option<Arc<Flow>>,
    is_fresh: bool,
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(flow) = context::take_sent() {
            self.flow = Some(flow);
            self.is_fresh = true;
        }
        ready!(self.inner.as_mut().poll_writable(cx))?;
        let is_fresh = core::mem::take(&mut self.is_fresh);
        if let Some(flow) = &self.flow {
            context::ready(Outgoing { flow: Arc::clone(flow), is_fresh });
        }
        Poll::Ready(Ok(()))
    }
}
