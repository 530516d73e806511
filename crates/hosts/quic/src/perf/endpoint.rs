//! The endpoints of both sides, with or without the shim.

use super::args::{Identity, PerfError, Steering};
use crate::config::Config;
use crate::poseidon::Poseidon;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
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

/// In the certificate of a server that was given none.
pub(super) const SERVER_NAME: &str = "localhost";

/// Seconds without a word after which the other end is gone.
const IDLE: Duration = Duration::from_secs(5);

/// Of the socket, bytes. With the usual 208 KiB a burst is lost in the receiver, where no law and no switch sees it, and what is measured is
/// the socket and not the network.
const ROOM: usize = 4 << 20;

/// IPv6 and UDP: what is not QUIC in an IP packet.
const HEADERS: u16 = 48;
/// RFC 9000, section 14: what every endpoint takes.
const SMALLEST_PAYLOAD: u16 = 1_200;
/// From this size on, ten packets of quinn's are more than one UDP message can hold, and quinn 0.11 loses them.
const LARGEST_BATCHED: u16 = 6_500;

/// Which end.
pub(super) enum Role<'a> {
    Server { identity: Option<&'a Identity> },
    Client { authority: Option<&'a Path> },
}

/// An endpoint, and Poseidon where it steers.
pub(super) fn endpoint(
    steering: &Steering,
    address: SocketAddr,
    ip_mtu: u16,
    role: Role<'_>,
) -> Result<(Endpoint, Option<Poseidon>), PerfError> {
    let (mut config, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    // Half of the packets that quinn greases begin like a shim where their spin bit is clear. On the shim's port a switch would write into them, and they
    // would be lost.
    config.grease_quic_bit(false);
    transport.max_idle_timeout(IdleTimeout::try_from(IDLE).ok());
    let (runtime, poseidon): (Arc<dyn Runtime>, _) = match steering {
        Steering::Quinn => {
            set_packet_size(ip_mtu.saturating_sub(HEADERS), &mut transport, &mut config)?;
            (Arc::new(TokioRuntime), None)
        }
        Steering::Law(law) => {
            let mut law = law.as_ref().clone();
            law.packet = Config::packet_within(ip_mtu);
            let poseidon = Poseidon::new(law)?;
            poseidon.tune(&mut transport, &mut config);
            transport.congestion_controller_factory(poseidon.controllers());
            (poseidon.runtime(TokioRuntime), Some(poseidon))
        }
    };
    let transport = Arc::new(transport);
    let socket = bind(address).map_err(PerfError::io("binding the socket"))?;
    // Root may have more than the machine allows to all; nobody is refused what it allows.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, ROOM)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, ROOM));
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

/// Plain quinn with packets of this size.
fn set_packet_size(
    packet: u16,
    transport: &mut TransportConfig,
    config: &mut EndpointConfig,
) -> Result<(), PerfError> {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(packet);
    transport.mtu_discovery_config(Some(discovery));
    transport.enable_segmentation_offload(packet <= LARGEST_BATCHED);
    config.max_udp_payload_size(packet.max(SMALLEST_PAYLOAD)).map_err(PerfError::broken)?;
    Ok(())
}

/// Every address of a machine without IPv6 is every address of IPv4.
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
        Some(Identity { certificate, key }) => {
            (certificates(certificate)?, PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?)
        }
        None => {
            let made =
                rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).map_err(PerfError::broken)?;
            let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
            (vec![made.cert.der().clone()], key.into())
        }
    };
    let crypto = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(PerfError::broken)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(PerfError::broken)?;
    let mut config =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto).map_err(PerfError::broken)?));
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
        .map_err(PerfError::broken)?;
    let builder = match authority {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(unreadable(path))?;
            }
            builder.with_root_certificates(roots)
        }
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    };
    let crypto = builder.with_no_client_auth();
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto).map_err(PerfError::broken)?));
    config.transport_config(transport);
    Ok(config)
}

/// All of a file in PEM: at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PerfError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unreadable(path))?.collect();
    let all = all.map_err(unreadable(path))?;
    if all.is_empty() {
        return Err(unreadable(path)("there is no certificate in it"));
    }
    Ok(all)
}

fn unreadable<E: fmt::Display>(path: &Path) -> impl Fn(E) -> PerfError {
    move |error| PerfError::Certificate { path: path.to_owned(), why: error.to_string() }
}

/// Takes whoever answers for the server: its certificate was made a moment ago, and nobody knows it.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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
