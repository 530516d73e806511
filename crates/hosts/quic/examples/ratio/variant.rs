//! One connection whose client and server run on separate threads and cores.

use crate::Slice;
use crate::sockets::TestRuntime;
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

const SERVER_NAME: &str = "localhost";
const LINE_RATE: BitRate = BitRate::from_gbps(10);
/// The law's maximum window. CUBIC's window grows until the socket buffer is full.
const MAX_WINDOW_BYTES: u64 = 1 << 20;
const SOCKET_BUFFER: usize = 4 << 20;
/// The largest UDP payload.
const MAX_UDP_PAYLOAD: usize = 65_507;

/// The stack that a variant uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Plain quinn.
    Bare,
    /// A second plain quinn connection, to measure the noise.
    BareAgain,
    /// quinn with the shim and the law.
    Poseidon,
}

pub(crate) struct Variant {
    client: Tokio,
    connection: Connection,
    /// Keeps the endpoint's driver alive.
    _endpoint: Endpoint,
    /// The schedstat files of both threads.
    schedstats: [String; 2],
}

impl Variant {
    pub(crate) fn start(kind: Kind, mtu: u16) -> Self {
        let (sender, receiver) = mpsc::channel();
        let self_signed =
            rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("valid parameters");
        let certificate = self_signed.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(self_signed.signing_key.serialize_der());
        let server_certificate = certificate.clone();
        thread::spawn(move || {
            pin_to_core(1);
            let runtime = Builder::new_current_thread().enable_all().build().expect("the runtime starts");
            runtime.block_on(async {
                let endpoint = create_server(kind, mtu, server_certificate, key);
                let address = endpoint.local_addr().expect("the socket is bound");
                sender.send((address, schedstat_path())).expect("the client waits for the address");
                receive_all(endpoint).await;
            });
        });
        let (address, server_schedstat) = receiver.recv().expect("the server starts");
        pin_to_core(0);
        let client = Builder::new_current_thread().enable_all().build().expect("the runtime starts");
        let (endpoint, connection) = client.block_on(connect(kind, mtu, certificate, address));
        Self { client, connection, _endpoint: endpoint, schedstats: [schedstat_path(), server_schedstat] }
    }

    /// Sends the given number of bytes and waits for the reply.
    pub(crate) fn run_slice(&self, bytes: usize) -> Slice {
        let cpu_before = self.cpu_time();
        let start = now();
        self.client.block_on(async {
            let (mut send, mut receive) = self.connection.open_bi().await.expect("the connection is up");
            let chunk = vec![0; 1 << 20];
            for _ in 0..bytes / chunk.len() {
                send.write_all(&chunk).await.expect("the server reads");
            }
            send.finish().expect("the stream is open");
            receive.read_to_end(1).await.expect("the server answers");
        });
        Slice { elapsed: start.elapsed(), cpu: self.cpu_time() - cpu_before }
    }

    /// Describes the law's state, to show that the law ran as intended.
    pub(crate) fn describe_state(&self) -> String {
        Poseidon::metrics_of(&self.connection).map_or_else(String::new, |flow| {
            format!(
                "law in mode {}, window {}, {} ACK frames with telemetry and {} without",
                flow.mode, flow.window, flow.acks_with_telemetry, flow.acks_without_telemetry
            )
        })
    }

    /// Returns the CPU time of both threads.
    fn cpu_time(&self) -> Duration {
        self.schedstats
            .iter()
            .map(|path| {
                let text = fs::read_to_string(path).expect("the thread is running");
                let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
                Duration::from_nanos(nanos.expect("the first word is a number"))
            })
            .sum()
    }
}

fn poseidon(mtu: u16) -> Poseidon {
    let mut config = Config::for_rate(LINE_RATE);
    config.packet_size = mtu;
    // On a single machine, the RTT consists of scheduling delay and does not indicate a queue.
    config.slack = Nanos::from_millis(100);
    if let AnyParams::Poseidon(law) = &mut config.law {
        law.max_window = Packets::whole(MAX_WINDOW_BYTES / u64::from(mtu));
    }
    Poseidon::new(config).expect("the configuration is valid")
}

/// Applies the settings that differ between variants. Returns the runtime.
fn configure(
    kind: Kind,
    mtu: u16,
    config: &mut EndpointConfig,
    transport: &mut TransportConfig,
) -> Arc<dyn Runtime> {
    let runtime: Arc<dyn Runtime> = if kind == Kind::Poseidon {
        let poseidon = poseidon(mtu);
        poseidon.tune(transport, config);
        transport.congestion_controller_factory(poseidon.controller_factory());
        // The test sockets change only received datagrams, so outgoing datagrams may bypass them.
        poseidon.direct_runtime(TestRuntime { max_segments: usize::MAX, stamp_received: true })
    } else {
        let max_segments = MAX_UDP_PAYLOAD / usize::from(mtu);
        config.max_udp_payload_size(mtu.max(1_472)).expect("the size is above 1200");
        if max_segments < 10 {
            Arc::new(TestRuntime { max_segments, stamp_received: false })
        } else {
            Arc::new(TokioRuntime)
        }
    };
    // The packet size is known. Without MTU discovery, no probes disturb a slice.
    transport.initial_mtu(mtu).mtu_discovery_config(None);
    runtime
}

fn create_server(
    kind: Kind,
    mtu: u16,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
) -> Endpoint {
    let (mut config, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    let runtime = configure(kind, mtu, &mut config, &mut transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate], key.into())
        .expect("the key matches the certificate");
    server.transport_config(Arc::new(transport));
    Endpoint::new(config, Some(server), bind_socket(), runtime).expect("the endpoint starts")
}

async fn connect(
    kind: Kind,
    mtu: u16,
    certificate: CertificateDer<'static>,
    server: SocketAddr,
) -> (Endpoint, Connection) {
    let (mut config, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    let runtime = configure(kind, mtu, &mut config, &mut transport);
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("the certificate is valid");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("the roots are valid");
    client.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::new(config, None, bind_socket(), runtime).expect("the endpoint starts");
    endpoint.set_default_client_config(client);
    let connection = endpoint
        .connect(server, SERVER_NAME)
        .expect("the arguments are valid")
        .await
        .expect("the server accepts");
    (endpoint, connection)
}

/// Binds a socket whose receive buffer does not overflow while its thread is busy.
fn bind_socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    // Without the required privilege, the system limit applies to all variants.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER));
    socket
}

async fn receive_all(endpoint: Endpoint) {
    let incoming = endpoint.accept().await.expect("the client connects");
    let connection = incoming.await.expect("the handshake succeeds");
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        while let Ok(Some(_)) = receive.read_chunk(1 << 20, true).await {}
        // The client may have disconnected.
        let _ = send.write_all(&[1]).await;
        let _ = send.finish();
    }
}

/// Returns the path of the calling thread's schedstat file. The file's first number is the CPU time in
/// nanoseconds.
fn schedstat_path() -> String {
    let thread = fs::read_link("/proc/thread-self").expect("the system is Linux");
    format!("/proc/{}/schedstat", thread.display())
}

fn pin_to_core(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // On a single-core machine, all threads share the core.
    let _ = sched_setaffinity(None, &cores);
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    Instant::now()
}
