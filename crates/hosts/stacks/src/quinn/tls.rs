//! TLS with a fixed certificate and a fixed time, so that handshakes have the same sizes on every run.
//!
//! The certificate protects nothing: its key is public. The key is PKCS #8 with the bytes 0 to 31, and both files were made
//! with OpenSSL 3.0:
//!
//! ```text
//! python3 -c 'import sys; sys.stdout.buffer.write(
//!     bytes.fromhex("302e020100300506032b657004220420") + bytes(range(32)))' > key.der
//! openssl pkey -inform DER -in key.der -out key.pem
//! openssl req -x509 -new -key key.pem -set_serial 1 -days 36500 -subj /CN=localhost \
//!     -addext subjectAltName=DNS:localhost -outform DER -out certificate.der
//! ```
//!
//! Ed25519 signatures have a fixed size. Session tickets and resumption are off.

use core::time::Duration;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// The name in the certificate.
pub(super) const SERVER_NAME: &str = "localhost";
const CERTIFICATE: &[u8] = include_bytes!("certificate.der");
const KEY: &[u8] = include_bytes!("key.der");
/// The time that TLS sees: 2027-01-15, within the validity of the certificate.
const TIME: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));

const VALID: &str = "the certificate and the key are valid";

/// Returns the configuration of all clients.
pub(super) fn client() -> Arc<QuicClientConfig> {
    static CONFIG: OnceLock<Arc<QuicClientConfig>> = OnceLock::new();
    Arc::clone(CONFIG.get_or_init(|| Arc::new(build_client().expect(VALID))))
}

/// Returns the configuration of all servers.
pub(super) fn server() -> Arc<QuicServerConfig> {
    static CONFIG: OnceLock<Arc<QuicServerConfig>> = OnceLock::new();
    Arc::clone(CONFIG.get_or_init(|| Arc::new(build_server().expect(VALID))))
}

fn build_client() -> Result<QuicClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(FixedCertificateVerifier { provider: Arc::clone(&provider) });
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(FixedTime))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    QuicClientConfig::try_from(config).map_err(|error| Error::General(error.to_string()))
}

fn build_server() -> Result<QuicServerConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(FixedTime))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    QuicServerConfig::try_from(config).map_err(|error| Error::General(error.to_string()))
}

/// A clock that stands still.
#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(TIME)
    }
}

/// Accepts only the fixed certificate.
#[derive(Debug)]
struct FixedCertificateVerifier {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for FixedCertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == CERTIFICATE {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
