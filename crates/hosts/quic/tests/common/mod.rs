//! Creates QUIC endpoints in one process, which exchange real datagrams through a relay.
#![allow(dead_code, reason = "each test uses only part of this module")]

pub(crate) mod attack;
pub(crate) mod relay;
pub(crate) mod transfer;

use core::net::SocketAddr;
use core::time::Duration;
use poseidon_quic::{Config, DecisionEvent, Mode, Observer, Poseidon};
use poseidon_types::BitRate;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};
use rustix::net::sockopt;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, OnceLock};

pub(crate) const SERVER_NAME: &str = "localhost";
const LOCAL_ADDRESS: &str = "127.0.0.1:0";

/// The decisions of all laws, in order.
pub(crate) type DecisionLog = Arc<Mutex<Vec<DecisionEvent>>>;

/// Returns an observer that appends decisions to the log.
pub(crate) fn log_observer(log: &DecisionLog) -> Observer {
    let log = Arc::clone(log);
    Observer(Arc::new(move |decision| log.lock().expect("the lock is not poisoned").push(*decision)))
}

/// Returns the sequence of modes. On a busy machine, late ACKs look like the queue of another flow, so the modes of
/// coexistence count like the mode before them.
pub(crate) fn telemetry_modes(decisions: &[DecisionEvent]) -> Vec<Mode> {
    let modes = decisions.iter().map(|decision| decision.mode);
    let mut modes: Vec<Mode> = modes.filter(|mode| !matches!(mode, Mode::Compete | Mode::Yield)).collect();
    modes.dedup();
    modes
}

/// Creates a `Poseidon` for 100 Mbps that logs its decisions.
pub(crate) fn poseidon_with_log(configure: impl FnOnce(&mut Config)) -> (Poseidon, DecisionLog) {
    let log = DecisionLog::default();
    let poseidon = poseidon(|config| {
        config.observer = Some(log_observer(&log));
        configure(config);
    });
    (poseidon, log)
}

/// Creates a `Poseidon` for 100 Mbps.
pub(crate) fn poseidon(configure: impl FnOnce(&mut Config)) -> Poseidon {
    let mut config = Config::for_rate(BitRate::from_mbps(100));
    configure(&mut config);
    Poseidon::new(config).expect("the configuration is valid")
}

/// Returns a self-signed certificate and its key.
pub(crate) fn certificate() -> &'static (CertificateDer<'static>, Vec<u8>) {
    static CERTIFICATE: OnceLock<(CertificateDer<'static>, Vec<u8>)> = OnceLock::new();
    CERTIFICATE.get_or_init(|| {
        let created =
            rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).expect("the parameters are valid");
        (created.cert.der().clone(), created.signing_key.serialize_der())
    })
}

/// The idle timeout of connections, in seconds.
const IDLE_TIMEOUT_S: u32 = 10;

fn transport(idle_timeout_s: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(idle_timeout_s * 1_000).into()));
    // A connection must not time out while it waits for other connections.
    transport.keep_alive_interval(Some(Duration::from_secs(1)));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1_000));
    transport
}

fn server_config(transport: TransportConfig, alpn: Option<&[u8]>) -> ServerConfig {
    let (certificate, key) = certificate();
    let key = PrivatePkcs8KeyDer::from(key.clone());
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3 is supported")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .expect("the key matches the certificate");
    tls.alpn_protocols = alpn.into_iter().map(<[u8]>::to_vec).collect();
    let mut config =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("TLS 1.3 is supported")));
    config.transport_config(Arc::new(transport));
    config
}

fn client_config(transport: TransportConfig, alpn: Option<&[u8]>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate().0.clone()).expect("the certificate is valid");
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3 is supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = alpn.into_iter().map(<[u8]>::to_vec).collect();
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3 is supported")));
    config.transport_config(Arc::new(transport));
    config
}

/// Creates an endpoint that echoes streams and can connect. Without a `Poseidon`, the endpoint runs plain
/// quinn.
pub(crate) fn endpoint(poseidon: Option<&Poseidon>) -> Endpoint {
    endpoint_with_timeout(poseidon, IDLE_TIMEOUT_S)
}

/// Creates an echo endpoint with the given idle timeout.
pub(crate) fn endpoint_with_timeout(poseidon: Option<&Poseidon>, idle_timeout_s: u32) -> Endpoint {
    create_endpoint(poseidon, idle_timeout_s, None)
}

/// Creates an echo endpoint with an ALPN protocol.
pub(crate) fn endpoint_with_alpn(poseidon: Option<&Poseidon>, alpn: &[u8]) -> Endpoint {
    create_endpoint(poseidon, IDLE_TIMEOUT_S, Some(alpn))
}

fn create_endpoint(poseidon: Option<&Poseidon>, idle_timeout_s: u32, alpn: Option<&[u8]>) -> Endpoint {
    let (mut server, mut client) = (transport(idle_timeout_s), transport(idle_timeout_s));
    let mut config = EndpointConfig::default();
    let mut runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime);
    if let Some(poseidon) = poseidon {
        for transport in [&mut server, &mut client] {
            poseidon.tune(transport, &mut config);
            transport.congestion_controller_factory(poseidon.controller_factory());
        }
        runtime = poseidon.runtime(TokioRuntime);
    }
    let mut endpoint = Endpoint::new(config, Some(server_config(server, alpn)), bind(), runtime)
        .expect("the endpoint starts");
    endpoint.set_default_client_config(client_config(client, alpn));
    tokio::spawn(serve(endpoint.clone()));
    endpoint
}

/// Binds a socket with a large receive buffer. With the default of 208 KiB, the host drops packets when there
/// are hundreds of connections.
pub(crate) fn bind() -> UdpSocket {
    let socket = UdpSocket::bind(LOCAL_ADDRESS).expect("a port is free");
    // Only root may exceed the system limit.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, 4 << 20));
    socket
}

async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    while let Ok(Some(chunk)) = receive.read_chunk(1 << 16, true).await {
                        if send.write_chunk(chunk.bytes).await.is_err() {
                            return;
                        }
                    }
                    // The client may have disconnected.
                    let _ = send.finish();
                });
            }
        });
    }
}

/// Sends the given number of bytes and waits until all of them have been echoed.
pub(crate) async fn echo(connection: &Connection, bytes: usize) {
    let (mut send, mut receive) = connection.open_bi().await.expect("the connection is open");
    let send_all = async {
        let chunk = vec![0x5a; 1 << 14];
        let mut remaining = bytes;
        while remaining > 0 {
            let length = remaining.min(chunk.len());
            send.write_all(&chunk[..length]).await.expect("the peer reads");
            remaining -= length;
        }
        send.finish().expect("the stream is open");
    };
    let receive_all = async {
        let mut echoed = 0;
        while let Some(chunk) = receive.read_chunk(1 << 16, true).await.expect("the peer sends") {
            echoed += chunk.bytes.len();
        }
        echoed
    };
    let ((), echoed) = tokio::join!(send_all, receive_all);
    assert_eq!(echoed, bytes);
}

pub(crate) async fn connect(endpoint: &Endpoint, server: SocketAddr) -> Connection {
    endpoint.connect(server, SERVER_NAME).expect("the arguments are valid").await.expect("the server accepts")
}

/// Waits until a condition holds. If a close packet is lost, the peer waits for the idle timeout.
pub(crate) async fn wait_until(condition: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..IDLE_TIMEOUT_S * 2 * 100 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("condition not met within twice the idle timeout: {condition}");
}
