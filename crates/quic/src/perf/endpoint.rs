//! The endpoints of both sides, with or without the shim.

use super::args::{PerfError, Steering};
use crate::poseidon::Poseidon;
use core::net::SocketAddr;
use core::time::Duration;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, IdleTimeout, Runtime, ServerConfig, TokioRuntime, TransportConfig,
};
use rustix::net::sockopt;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::net::UdpSocket;
use std::sync::Arc;

pub(super) const NAME: &str = "localhost";

/// Seconds without a word after which the other end is gone.
const IDLE: Duration = Duration::from_secs(10);

/// Of the socket, bytes. With the usual 208 KiB a burst is lost in the receiver, where no law and no switch sees it, and what is measured is
/// the socket and not the network.
const ROOM: usize = 4 << 20;

/// An endpoint, and Poseidon where it steers.
pub(super) fn endpoint(
    steering: &Steering,
    bind: SocketAddr,
    serves: bool,
) -> Result<(Endpoint, Option<Poseidon>), PerfError> {
    let (mut config, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    // Half of the packets that quinn greases begin like a shim where their spin bit is clear. On the shim's port a switch would write into them, and they
    // would be lost.
    config.grease_quic_bit(false);
    transport.max_idle_timeout(IdleTimeout::try_from(IDLE).ok());
    let (runtime, poseidon): (Arc<dyn Runtime>, _) = match steering {
        Steering::Quinn => (Arc::new(TokioRuntime), None),
        Steering::Law(law) => {
            let poseidon = Poseidon::new(law.as_ref().clone())?;
            poseidon.tune(&mut transport, &mut config);
            transport.congestion_controller_factory(poseidon.controllers());
            (poseidon.runtime(TokioRuntime), Some(poseidon))
        }
    };
    let transport = Arc::new(transport);
    let socket = UdpSocket::bind(bind).map_err(PerfError::io("binding the socket"))?;
    // Root may have more than the machine allows to all; nobody is refused what it allows.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, ROOM)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, ROOM));
    let server = if serves { Some(server_config(Arc::clone(&transport))?) } else { None };
    let mut endpoint =
        Endpoint::new(config, server, socket, runtime).map_err(PerfError::io("starting the endpoint"))?;
    if !serves {
        endpoint.set_default_client_config(client_config(transport)?);
    }
    Ok((endpoint, poseidon))
}

fn server_config(transport: Arc<TransportConfig>) -> Result<ServerConfig, PerfError> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(PerfError::broken)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())
        .map_err(PerfError::broken)?;
    config.transport_config(transport);
    Ok(config)
}

fn client_config(transport: Arc<TransportConfig>) -> Result<ClientConfig, PerfError> {
    let provider = Arc::new(ring::default_provider());
    let crypto = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(PerfError::broken)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto).map_err(PerfError::broken)?));
    config.transport_config(transport);
    Ok(config)
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
