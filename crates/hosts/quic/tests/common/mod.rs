//! Two ends and a switch between them, in one process and with real datagrams.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod attack;
pub(crate) mod relay;

use core::net::SocketAddr;
use core::time::Duration;
use poseidon_quic::{Config, Decided, Observer, Poseidon};
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

pub(crate) const NAME: &str = "localhost";
const LOCAL: &str = "127.0.0.1:0";

/// Decisions as they were taken.
pub(crate) type Log = Arc<Mutex<Vec<Decided>>>;

/// For paths of 100 Mbps, whose decisions are written down.
pub(crate) fn logged(change: impl FnOnce(&mut Config)) -> (Poseidon, Log) {
    let log = Log::default();
    let write = Arc::clone(&log);
    let poseidon = poseidon(|config| {
        config.observer =
            Some(Observer(Arc::new(move |decided| write.lock().expect("nobody panics").push(*decided))));
        change(config);
    });
    (poseidon, log)
}

pub(crate) fn poseidon(change: impl FnOnce(&mut Config)) -> Poseidon {
    let mut config = Config::for_rate(BitRate::from_mbps(100));
    change(&mut config);
    Poseidon::new(config).expect("a law that runs here")
}

pub(crate) fn certificate() -> &'static (CertificateDer<'static>, Vec<u8>) {
    static MADE: OnceLock<(CertificateDer<'static>, Vec<u8>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        (made.cert.der().clone(), made.signing_key.serialize_der())
    })
}

/// Seconds without a word after which a connection is given up.
const IDLE: u32 = 10;

fn transport(idle_s: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(idle_s * 1_000).into()));
    // A connection that waits until others are done is not a silent one.
    transport.keep_alive_interval(Some(Duration::from_secs(1)));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1_000));
    transport
}

fn server_config(transport: TransportConfig, protocol: Option<&[u8]>) -> ServerConfig {
    let (certificate, key) = certificate();
    let key = PrivatePkcs8KeyDer::from(key.clone());
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("QUIC's version")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .expect("they fit");
    tls.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    let mut config =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("QUIC's version")));
    config.transport_config(Arc::new(transport));
    config
}

fn client_config(transport: TransportConfig, protocol: Option<&[u8]>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate().0.clone()).expect("a certificate");
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("QUIC's version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("QUIC's version")));
    config.transport_config(Arc::new(transport));
    config
}

/// An endpoint that echoes, and connects too. Without Poseidon it is plain quinn.
pub(crate) fn endpoint(poseidon: Option<&Poseidon>) -> Endpoint {
    endpoint_with(poseidon, IDLE)
}

/// The same with less patience.
pub(crate) fn endpoint_with(poseidon: Option<&Poseidon>, idle_s: u32) -> Endpoint {
    endpoint_of(poseidon, idle_s, None)
}

/// The same for peers that name what they speak.
pub(crate) fn endpoint_speaking(poseidon: Option<&Poseidon>, protocol: &[u8]) -> Endpoint {
    endpoint_of(poseidon, IDLE, Some(protocol))
}

fn endpoint_of(poseidon: Option<&Poseidon>, idle_s: u32, protocol: Option<&[u8]>) -> Endpoint {
    let (mut transport, mut clients) = (transport(idle_s), transport(idle_s));
    let mut config = EndpointConfig::default();
    let mut runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime);
    if let Some(poseidon) = poseidon {
        for transport in [&mut transport, &mut clients] {
            poseidon.tune(transport, &mut config);
            transport.congestion_controller_factory(poseidon.controllers());
        }
        runtime = poseidon.runtime(TokioRuntime);
    }
    let mut endpoint = Endpoint::new(config, Some(server_config(transport, protocol)), bind(), runtime)
        .expect("an endpoint");
    endpoint.set_default_client_config(client_config(clients, protocol));
    tokio::spawn(serve(endpoint.clone()));
    endpoint
}

/// With room for a burst of all connections: with the usual 208 KiB, hundreds of them lose packets that no network lost.
pub(crate) fn bind() -> UdpSocket {
    let socket = UdpSocket::bind(LOCAL).expect("a port is free");
    // Only root may ask for more than the machine allows to all.
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
                    // Who has gone needs no end.
                    let _ = send.finish();
                });
            }
        });
    }
}

/// Sends so much and waits until all of it has come back.
pub(crate) async fn echo(connection: &Connection, bytes: usize) {
    let (mut send, mut receive) = connection.open_bi().await.expect("the connection is up");
    let out = async {
        let chunk = vec![0x5a; 1 << 14];
        let mut left = bytes;
        while left > 0 {
            let now = left.min(chunk.len());
            send.write_all(&chunk[..now]).await.expect("the peer reads");
            left -= now;
        }
        send.finish().expect("not finished before");
    };
    let back = async {
        let mut all = 0;
        while let Some(chunk) = receive.read_chunk(1 << 16, true).await.expect("the peer sends") {
            all += chunk.bytes.len();
        }
        all
    };
    let ((), all) = tokio::join!(out, back);
    assert_eq!(all, bytes);
}

pub(crate) async fn connect(endpoint: &Endpoint, to: SocketAddr) -> Connection {
    endpoint.connect(to, NAME).expect("an address").await.expect("a peer")
}

/// Waits for what must come true: where the word that a connection ends is lost, its other end waits for [`IDLE`].
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..IDLE * 2 * 100 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within twice the time that a silent connection lives: {what}");
}
