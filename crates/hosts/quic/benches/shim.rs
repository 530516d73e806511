//! Counts the instructions that the shim adds when it sends or receives a batch of ten packets.
//!
//! `cargo bench -p poseidon-quic --features quinn --bench shim`
//!
//! Each benchmark passes 100 batches through the shim's socket, which wraps a null socket. The `null_*`
//! benchmarks use only the null socket. Copying packets dominates the cost. Callgrind counts instructions, so
//! other load on the machine does not affect the results. A benchmark fails if its count exceeds the limit.

#![allow(missing_docs, unused_qualifications, reason = "the benchmark macros generate such code")]

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

/// A socket that discards sent packets and always receives the same buffer.
#[derive(Debug, Default)]
struct NullSocket {
    /// The sender tag of the first sent datagram.
    first_tag: Mutex<Option<Tag>>,
    received: Mutex<Vec<u8>>,
    stride: usize,
}

#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncUdpSocket for NullSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut first_tag = self.first_tag.lock().expect("the lock is not poisoned");
        if first_tag.is_none() {
            *first_tag = Prefix::parse(transmit.contents).ok().map(|prefix| prefix.sender_tag);
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
        // Restore only the prefixes. The rest of the buffer has not changed since the last call.
        let received = self.received.lock().expect("the lock is not poisoned");
        for (target, source) in bufs[0].chunks_mut(self.stride).zip(received.chunks(self.stride)) {
            target[..PREFIX_BYTES].copy_from_slice(&source[..PREFIX_BYTES]);
        }
        meta[0] = RecvMeta {
            addr: peer_address(),
            len: received.len(),
            stride: self.stride,
            ecn: None,
            dst_ip: None,
        };
        Poll::Ready(Ok(1))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(peer_address())
    }
}

/// A runtime that returns the null socket.
#[derive(Debug)]
struct NullRuntime(Arc<NullSocket>);

impl Runtime for NullRuntime {
    fn new_timer(&self, _: Instant) -> Pin<Box<dyn AsyncTimer>> {
        unreachable!("the benchmark uses no timer")
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}

    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::clone(&self.0) as Arc<dyn AsyncUdpSocket>)
    }
}

fn peer_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 65_053))
}

/// A connection that has negotiated the shim.
struct Connection {
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
    controller: Box<dyn Controller>,
    created: Instant,
    contents: Vec<u8>,
    receive_buffer: Vec<u8>,
}

fn connect(with_shim: bool) -> Connection {
    let poseidon =
        Poseidon::new(Config::for_rate(BitRate::from_gbps(10))).expect("the configuration is valid");
    let null_socket = Arc::new(NullSocket { stride: PACKET + PREFIX_BYTES, ..NullSocket::default() });
    let runtime: Arc<dyn Runtime> = if with_shim {
        poseidon.runtime(NullRuntime(Arc::clone(&null_socket)))
    } else {
        Arc::new(NullRuntime(Arc::clone(&null_socket)))
    };
    let socket = runtime
        .wrap_udp_socket(UdpSocket::bind("127.0.0.1:0").expect("a port is free"))
        .expect("the socket is valid");
    #[expect(
        clippy::disallowed_methods,
        reason = "quinn's interface needs an instant, but its value does not matter"
    )]
    let created = Instant::now();
    let mut connection = Connection {
        poller: Arc::clone(&socket).create_io_poller(),
        controller: poseidon.controller_factory().build(created, 1_452),
        socket,
        created,
        contents: vec![0x40; PACKETS * PACKET],
        receive_buffer: vec![0x40; 1 << 16],
    };
    send(&mut connection);
    let tag = null_socket.first_tag.lock().expect("the lock is not poisoned").unwrap_or(1);
    let shim = shim::Repr { int_hops: 3, max_hop_delay: 40, ..shim::Repr::default() };
    let reflection = reflection::Repr { int_hops: 3, max_hop_delay: 70, ..reflection::Repr::default() };
    let prefix = Prefix { shim: Some(shim), reflection: Some(reflection), sender_tag: 9, receiver_tag: tag };
    let datagram = [prefix.emit().as_slice(), &[0x40; PACKET]].concat();
    *null_socket.received.lock().expect("the lock is not poisoned") = datagram.repeat(PACKETS);
    receive(&mut connection);
    connection
}

#[inline(always)]
fn send(connection: &mut Connection) {
    connection.controller.on_sent(connection.created, (PACKETS * PACKET) as u64, 1);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(connection.poller.as_mut().poll_writable(&mut cx).is_ready());
    let transmit = Transmit {
        destination: peer_address(),
        ecn: None,
        contents: &connection.contents,
        segment_size: Some(PACKET),
        src_ip: None,
    };
    black_box(connection.socket.try_send(black_box(&transmit))).expect("the null socket accepts all packets");
}

#[inline(always)]
fn receive(connection: &mut Connection) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut bufs = [IoSliceMut::new(&mut connection.receive_buffer)];
    let mut meta = [RecvMeta::default()];
    let poll = connection.socket.poll_recv(&mut cx, &mut bufs, &mut meta);
    assert!(black_box(poll).is_ready());
}

fn send_batches(mut connection: Connection) -> Connection {
    for _ in 0..BATCHES {
        send(&mut connection);
    }
    connection
}

fn receive_batches(mut connection: Connection) -> Connection {
    for _ in 0..BATCHES {
        receive(&mut connection);
    }
    connection
}

#[library_benchmark]
#[bench::hundred_batches(connect(false))]
fn null_send(input: Connection) -> Connection {
    send_batches(input)
}

#[library_benchmark]
#[bench::hundred_batches(connect(false))]
fn null_receive(input: Connection) -> Connection {
    receive_batches(input)
}

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, 265_000)])
))]
#[bench::hundred_batches(connect(true))]
fn shim_send(input: Connection) -> Connection {
    send_batches(input)
}

#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(
    Callgrind::default().hard_limits([(EventKind::Ir, 400_000)])
))]
#[bench::hundred_batches(connect(true))]
fn shim_receive(input: Connection) -> Connection {
    receive_batches(input)
}

library_benchmark_group!(name = shim_cost, benchmarks = [null_send, shim_send, null_receive, shim_receive]);

main!(
    config = LibraryBenchmarkConfig::default()
        .output_format(OutputFormat::default().truncate_description(None))
        .tool(Callgrind::default().format([CallgrindMetrics::SingleEvent(EventKind::Ir)])),
    library_benchmark_groups = shim_cost
);
