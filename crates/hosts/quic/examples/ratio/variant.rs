//! Two ends of one connection, each on a thread and a core of its own.

use crate::Slice;
use crate::sockets::Below;
use core::net::SocketAddr;
use core::time::Duration;
use poseidon_laws::AnyParams;
use poseidon_quic::{Config, Poseidon};
use poseidon_types::{BitRate, Nanos, Packets};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, TransportConfig,
};
use rustix::net::sockopt;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::net::UdpSocket;
use std::sync::{Arc, mpsc};
use std::time::Instant;
use std::{fs, thread};
use tokio::runtime::{Builder, Runtime as Tokio};

const NAME: &str = "localhost";
const LINE: BitRate = BitRate::from_gbps(10);
/// CUBIC's window grows until the socket's buffer is full; the law's to this.
const WINDOW: u64 = 1 << 20;
const SOCKET_BUFFER: usize = 4 << 20;
/// The most that a datagram holds.
const MOST_BYTES: usize = 65_507;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Bare,
    BareAgain,
    Poseidon,
}

pub(crate) struct Variant {
    client: Tokio,
    connection: Connection,
    /// Kept, or its driver ends.
    _endpoint: Endpoint,
    /// The two threads' accounts of time on a core.
    accounts: [String; 2],
}

impl Variant {
    pub(crate) fn start(work: Work, mtu: u16) -> Self {
        let (tell, told) = mpsc::channel();
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let own = certificate.clone();
        thread::spawn(move || {
            pin(1);
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let endpoint = server(work, mtu, own, key);
                tell.send((endpoint.local_addr().expect("bound"), account())).expect("somebody waits");
                sink(endpoint).await;
            });
        });
        let (address, server_account) = told.recv().expect("the server starts");
        pin(0);
        let client = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (endpoint, connection) = client.block_on(connect(work, mtu, certificate, address));
        Self { client, connection, _endpoint: endpoint, accounts: [account(), server_account] }
    }

    /// Sends so many bytes and waits for the answer.
    pub(crate) fn slice(&self, bytes: usize) -> Slice {
        let cpu = self.cpu();
        let began = now();
        self.client.block_on(async {
            let (mut send, mut receive) = self.connection.open_bi().await.expect("the connection is up");
            let chunk = vec![0; 1 << 20];
            for _ in 0..bytes / chunk.len() {
                send.write_all(&chunk).await.expect("the server reads");
            }
            send.finish().expect("not before");
            receive.read_to_end(1).await.expect("the server answers");
        });
        Slice { took: began.elapsed(), cpu: self.cpu() - cpu }
    }

    /// What the law is doing, for the reader to see that it ran as said.
    pub(crate) fn state(&self) -> String {
        Poseidon::metrics_of(&self.connection).map_or_else(String::new, |flow| {
            format!(
                "law in mode {}, window {}, {} ACK frames with telemetry and {} without",
                flow.mode, flow.window, flow.acks_with_telemetry, flow.acks_without_telemetry
            )
        })
    }

    fn cpu(&self) -> Duration {
        self.accounts
            .iter()
            .map(|account| {
                let text = fs::read_to_string(account).expect("the thread runs");
                let spent = text.split(' ').next().and_then(|spent| spent.parse().ok());
                Duration::from_nanos(spent.expect("nanoseconds"))
            })
            .sum()
    }
}

fn poseidon(mtu: u16) -> Poseidon {
    let mut config = Config::for_rate(LINE);
    config.packet = mtu;
    // Two threads on one machine: a round trip is all scheduling, so it proves no queue.
    config.slack = Nanos::from_millis(100);
    if let AnyParams::Poseidon(law) = &mut config.law {
        law.max_window = Packets::whole(WINDOW / u64::from(mtu));
    }
    Poseidon::new(config).expect("a law that runs here")
}

/// Everything in which variants differ.
fn settings(
    work: Work,
    mtu: u16,
    config: &mut EndpointConfig,
    transport: &mut TransportConfig,
) -> Arc<dyn Runtime> {
    let runtime: Arc<dyn Runtime> = if work == Work::Poseidon {
        let poseidon = poseidon(mtu);
        poseidon.tune(transport, config);
        transport.congestion_controller_factory(poseidon.controllers());
        // Below only reads otherwise: what is sent may pass it.
        poseidon.direct_runtime(Below { segments: usize::MAX, stamps: true })
    } else {
        let fit = MOST_BYTES / usize::from(mtu);
        config.max_udp_payload_size(mtu.max(1_472)).expect("above 1200");
        if fit < 10 { Arc::new(Below { segments: fit, stamps: false }) } else { Arc::new(TokioRuntime) }
    };
    // The size is known: no search disturbs a slice.
    transport.initial_mtu(mtu).mtu_discovery_config(None);
    runtime
}

fn server(
    work: Work,
    mtu: u16,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
) -> Endpoint {
    let (mut config, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    let runtime = settings(work, mtu, &mut config, &mut transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate], key.into()).expect("they fit");
    server.transport_config(Arc::new(transport));
    Endpoint::new(config, Some(server), socket(), runtime).expect("an endpoint")
}

async fn connect(
    work: Work,
    mtu: u16,
    certificate: CertificateDer<'static>,
    to: SocketAddr,
) -> (Endpoint, Connection) {
    let (mut config, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    let runtime = settings(work, mtu, &mut config, &mut transport);
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client");
    client.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::new(config, None, socket(), runtime).expect("an endpoint");
    endpoint.set_default_client_config(client);
    let connection = endpoint.connect(to, NAME).expect("an address").await.expect("the server");
    (endpoint, connection)
}

/// With room for what comes while its thread does something else.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    // Refused without the right to; then the usual bound holds, for all variants alike.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER));
    socket
}

async fn sink(endpoint: Endpoint) {
    let incoming = endpoint.accept().await.expect("a client comes");
    let connection = incoming.await.expect("it connects");
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        while let Ok(Some(_)) = receive.read_chunk(1 << 20, true).await {}
        // Who has gone needs no answer.
        let _ = send.write_all(&[1]).await;
        let _ = send.finish();
    }
}

/// Of the calling thread: nanoseconds on a core come first in it.
fn account() -> String {
    let own = fs::read_link("/proc/thread-self").expect("Linux");
    format!("/proc/{}/schedstat", own.display())
}

fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // On a machine with one core, all share it.
    let _ = sched_setaffinity(None, &cores);
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    Instant::now()
}
