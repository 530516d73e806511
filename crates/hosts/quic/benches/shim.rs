//! Instructions that the shim adds to a batch of ten packets, out and in.
//!
//! `cargo bench -p poseidon-quic --bench shim`
//!
//! Each row is a hundred batches through the socket that quinn is given, above a socket that does nothing. The rows `nothing_*` are that socket
//! alone. Copies of packets are most of it: a prefix cannot be put before each packet of a batch otherwise. Counts come from callgrind:
//! they do not depend on what else the machine does. Above the limits the benchmark fails.

#![allow(missing_docs, unused_qualifications, reason = "in what the benchmark macros generate")]

use core::hint::black_box;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use gungraun::prelude::*;
use gungraun::{Callgrind, CallgrindMetrics, EventKind, OutputFormat};
use poseidon_quic::prefix::{PREFIX_BYTES, Prefix, Tag};
use poseidon_quic::{Config, Poseidon};
use poseidon_types::BitRate;
use poseidon_wire::{reflection, shim};
use quinn::congestion::Controller;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const BATCHES: usize = 100;
const PACKETS: usize = 10;
const PACKET: usize = 1_452;

/// A socket that sends nothing and receives what it is told.
#[derive(Debug, Default)]
struct Still {
    /// The first prefix that was sent.
    first: Mutex<Option<Tag>>,
    message: Mutex<Vec<u8>>,
    stride: usize,
}

#[derive(Debug)]
struct Always;

impl UdpPoller for Always {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncUdpSocket for Still {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Always)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut first = self.first.lock().expect("nobody panics");
        if first.is_none() {
            *first = Prefix::parse(transmit.contents).ok().map(|prefix| prefix.mine);
        }
        black_box(transmit);
        Ok(())
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        // Prefixes alone are put back: the rest is what it was.
        let message = self.message.lock().expect("nobody panics");
        for (to, from) in bufs[0].chunks_mut(self.stride).zip(message.chunks(self.stride)) {
            to[..PREFIX_BYTES].copy_from_slice(&from[..PREFIX_BYTES]);
        }
        meta[0] = RecvMeta { addr: peer(), len: message.len(), stride: self.stride, ecn: None, dst_ip: None };
        Poll::Ready(Ok(1))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(peer())
    }
}

/// Hands out the socket that it is given.
#[derive(Debug)]
struct Hand(Arc<Still>);

impl Runtime for Hand {
    fn new_timer(&self, _: Instant) -> Pin<Box<dyn AsyncTimer>> {
        unreachable!("nothing here waits")
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}

    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::clone(&self.0) as Arc<dyn AsyncUdpSocket>)
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 65_053))
}

/// A connection whose peer has answered.
struct Ready {
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
    controller: Box<dyn Controller>,
    began: Instant,
    contents: Vec<u8>,
    room: Vec<u8>,
}

fn ready(with_shim: bool) -> Ready {
    let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(10))).expect("a law that runs here");
    let still = Arc::new(Still { stride: PACKET + PREFIX_BYTES, ..Still::default() });
    let runtime: Arc<dyn Runtime> = if with_shim {
        poseidon.runtime(Hand(Arc::clone(&still)))
    } else {
        Arc::new(Hand(Arc::clone(&still)))
    };
    let socket = runtime.wrap_udp_socket(UdpSocket::bind("127.0.0.1:0").expect("a port")).expect("a socket");
    #[expect(clippy::disallowed_methods, reason = "quinn's interface takes an instant, whichever")]
    let began = Instant::now();
    let mut ready = Ready {
        poller: Arc::clone(&socket).create_io_poller(),
        controller: poseidon.controllers().build(began, 1_452),
        socket,
        began,
        contents: vec![0x40; PACKETS * PACKET],
        room: vec![0x40; 1 << 16],
    };
    send(&mut ready);
    let tag = still.first.lock().expect("nobody panics").unwrap_or(1);
    let shim = shim::Repr { int_hops: 3, max_hop_delay: 40, ..shim::Repr::default() };
    let told = reflection::Repr { int_hops: 3, max_hop_delay: 70, ..reflection::Repr::default() };
    let prefix = Prefix { shim: Some(shim), reflection: Some(told), mine: 9, yours: tag };
    let datagram = [prefix.emit().as_slice(), &[0x40; PACKET]].concat();
    *still.message.lock().expect("nobody panics") = datagram.repeat(PACKETS);
    receive(&mut ready);
    ready
}

#[inline(always)]
fn send(ready: &mut Ready) {
    ready.controller.on_sent(ready.began, (PACKETS * PACKET) as u64, 1);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(ready.poller.as_mut().poll_writable(&mut cx).is_ready());
    let transmit = Transmit {
        destination: peer(),
        ecn: None,
        contents: &ready.contents,
        segment_size: Some(PACKET),
        src_ip: None,
    };
    black_box(ready.socket.try_send(black_box(&transmit))).expect("it is sent");
}

#[inline(always)]
fn receive(ready: &mut Ready) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut bufs = [IoSliceMut::new(&mut ready.room)];
    let mut meta = [RecvMeta::default()];
    let done = ready.socket.poll_recv(&mut cx, &mut bufs, &mut meta);
    assert!(black_box(done).is_ready());
}

fn out(mut ready: Ready) -> Ready {
    for _ in 0..BATCHES {
        send(&mut ready);
    }
    ready
}

fn back(mut ready: Ready) -> Ready {
    for _ in 0..BATCHES {
        receive(&mut ready);
    }
    ready
}

#[library_benchmark]
#[bench::hundred_batches(ready(false))]
fn nothing_out(input: Ready) -> Ready {
    out(input)
}

#[library_benchmark]
#[bench::hundred_batches(ready(false))]
fn nothing_in(input: Ready) -> Ready {
    back(input)
}

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, 265_000)])
))]
#[bench::hundred_batches(ready(true))]
fn shim_out(input: Ready) -> Ready {
    out(input)
}

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, 400_000)])
))]
#[bench::hundred_batches(ready(true))]
fn shim_in(input: Ready) -> Ready {
    back(input)
}

library_benchmark_group!(name = shim_cost, benchmarks = [nothing_out, shim_out, nothing_in, shim_in]);

main!(
    config = LibraryBenchmarkConfig::default()
        .output_format(OutputFormat::default().truncate_description(None))
        .tool(Callgrind::default().format([CallgrindMetrics::SingleEvent(EventKind::Ir)])),
    library_benchmark_groups = shim_cost
);
