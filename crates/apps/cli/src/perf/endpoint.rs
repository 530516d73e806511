//! Creates the QUIC endpoints of the client and the server, with or without the telemetry prefix.

use super::options::{CongestionControl, Identity, PerfError};
use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use poseidon_quic::{Config, Poseidon};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, Runtime, ServerConfig,
    TokioRuntime, TransportConfig,
};
use rustix::net::sockopt;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;

/// The name in a server's self-signed certificate.
pub(super) const SERVER_NAME: &str = "localhost";

/// The time without packets after which a connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The size of the socket's receive buffer in bytes. With the default of 208 KiB, the receiving host drops
/// bursts. Neither the law nor the switches see these drops, so the test would measure the socket.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The combined size of the IPv6 and UDP headers.
const IPV6_AND_UDP_BYTES: u16 = 48;
/// The UDP payload size that every endpoint accepts (RFC 9000, section 14).
const MIN_UDP_PAYLOAD: u16 = 1_200;
/// The largest packet size at which a batch of ten fits into one UDP message. quinn 0.11 loses larger batches.
const MAX_BATCHED_PACKET: u16 = 6_500;

/// The role of an endpoint.
pub(super) enum Role<'a> {
    Server { identity: Option<&'a Identity> },
    Client { authority: Option<&'a Path> },
}

/// Creates an endpoint. If a law controls its connections, also creates the `Poseidon` that they share.
pub(super) fn create_endpoint(
    control: &CongestionControl,
    address: SocketAddr,
    ip_mtu: u16,
    role: Role<'_>,
) -> Result<(Endpoint, Option<Poseidon>), PerfError> {
    let (mut config, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    // Half of the greased packets with a clear spin bit look like a shim. On the shim's port, a switch would
    // overwrite them, and they would be lost.
    config.grease_quic_bit(false);
    transport.max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok());
    let (runtime, poseidon): (Arc<dyn Runtime>, _) = match control {
        CongestionControl::QuinnCubic => {
            set_packet_size(ip_mtu.saturating_sub(IPV6_AND_UDP_BYTES), &mut transport, &mut config)?;
            (Arc::new(TokioRuntime), None)
        }
        CongestionControl::Law(law_config) => {
            let mut law_config = law_config.as_ref().clone();
            law_config.packet_size = Config::packet_size_for_mtu(ip_mtu);
            let poseidon = Poseidon::new(law_config)?;
            poseidon.tune(&mut transport, &mut config);
            transport.congestion_controller_factory(poseidon.controller_factory());
            (poseidon.runtime(TokioRuntime), Some(poseidon))
        }
    };
    let transport = Arc::new(transport);
    let socket = bind(address).map_err(PerfError::io("binding the socket"))?;
    // Only root may exceed the system limit.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER));
    let (server, client) = match role {
        Role::Server { identity } => (Some(server_config(identity, transport)?), None),
        Role::Client { authority } => (None, Some(client_config(authority, transport)?)),
    };
    let mut endpoint =
        Endpoint::new(config, server, socket, runtime).map_err(PerfError::io("starting the endpoint"))?;
    if let Some(client) = client {
        endpoint.set_default_client_config(client);
    }
    Ok((endpoint, poseidon))
}

/// Sets the packet size for plain quinn.
fn set_packet_size(
    packet_size: u16,
    transport: &mut TransportConfig,
    config: &mut EndpointConfig,
) -> Result<(), PerfError> {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(packet_size);
    transport.mtu_discovery_config(Some(discovery));
    transport.enable_segmentation_offload(packet_size <= MAX_BATCHED_PACKET);
    config.max_udp_payload_size(packet_size.max(MIN_UDP_PAYLOAD)).map_err(PerfError::connection_failed)?;
    Ok(())
}

/// Binds a socket. On a machine without IPv6, `[::]` falls back to `0.0.0.0`.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind(address).or_else(|error| {
        let is_any_v6 = address.is_ipv6() && address.ip().is_unspecified();
        if is_any_v6 { UdpSocket::bind((Ipv4Addr::UNSPECIFIED, address.port())) } else { Err(error) }
    })
}

fn server_config(
    identity: Option<&Identity>,
    transport: Arc<TransportConfig>,
) -> Result<ServerConfig, PerfError> {
    let (chain, key) = match identity {
        Some(Identity { certificate, key }) => (
            read_certificates(certificate)?,
            PrivateKeyDer::from_pem_file(key).map_err(certificate_error(key))?,
        ),
        None => {
            let self_signed = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])
                .map_err(PerfError::connection_failed)?;
            let key = PrivatePkcs8KeyDer::from(self_signed.signing_key.serialize_der());
            (vec![self_signed.cert.der().clone()], key.into())
        }
    };
    let crypto = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(PerfError::connection_failed)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(PerfError::connection_failed)?;
    let mut config = ServerConfig::with_crypto(Arc::new(
        QuicServerConfig::try_from(crypto).map_err(PerfError::connection_failed)?,
    ));
    config.transport_config(transport);
    Ok(config)
}

fn client_config(
    authority: Option<&Path>,
    transport: Arc<TransportConfig>,
) -> Result<ClientConfig, PerfError> {
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(PerfError::connection_failed)?;
    let builder = match authority {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots.add(certificate).map_err(certificate_error(path))?;
            }
            builder.with_root_certificates(roots)
        }
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyServer(provider))),
    };
    let crypto = builder.with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(crypto).map_err(PerfError::connection_failed)?,
    ));
    config.transport_config(transport);
    Ok(config)
}

/// Reads the certificates in a PEM file. The file must contain at least one certificate.
fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PerfError> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(certificate_error(path))?.collect();
    let certificates = certificates.map_err(certificate_error(path))?;
    if certificates.is_empty() {
        return Err(certificate_error(path)("the file contains no certificate"));
    }
    Ok(certificates)
}

fn certificate_error<E: fmt::Display>(path: &Path) -> impl Fn(E) -> PerfError {
    move |error| PerfError::Certificate { path: path.to_owned(), reason: error.to_string() }
}

/// Accepts any server certificate, because a self-signed certificate cannot be verified.
#[derive(Debug)]
struct AcceptAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
