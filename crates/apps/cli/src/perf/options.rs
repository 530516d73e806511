//! The client and server options, and their errors.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use poseidon_quic::quinn::ConnectError;
use poseidon_quic::{Config, ConfigError};
use std::io;
use std::path::PathBuf;

/// The connections' congestion control.
#[derive(Clone, Debug)]
pub(super) enum CongestionControl {
    /// A law from the registry, with the telemetry prefix.
    Law(Box<Config>),
    /// quinn's own CUBIC without the prefix, for comparison.
    QuinnCubic,
}

/// A server's certificate and key, as PEM files.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// The certificate, and the intermediate certificates up to an authority that clients trust.
    pub(super) certificate: PathBuf,
    /// The private key.
    pub(super) key: PathBuf,
}

/// The server options.
#[derive(Clone, Debug)]
pub(super) struct ServerOptions {
    /// The address to listen on. Switches stamp only packets to port 65053.
    pub(super) listen: SocketAddr,
    /// The path MTU in bytes.
    pub(super) ip_mtu: u16,
    /// The certificate. If absent, the server creates a self-signed certificate.
    pub(super) identity: Option<Identity>,
    /// The congestion control for the few packets that the server sends.
    pub(super) control: CongestionControl,
    /// Whether the server exits when the first client has disconnected.
    pub(super) once: bool,
    /// The address at which the metrics are served.
    pub(super) metrics: Option<SocketAddr>,
}

/// The client options.
#[derive(Clone, Debug)]
pub(super) struct ClientOptions {
    /// The server's address.
    pub(super) server: SocketAddr,
    /// The name in the server's certificate.
    pub(super) server_name: Option<String>,
    /// The certificates of trusted authorities, in PEM. Without them, the client accepts any certificate.
    pub(super) authority: Option<PathBuf>,
    /// The path MTU in bytes.
    pub(super) ip_mtu: u16,
    /// The local address. With port 65053, switches also stamp the reverse path.
    pub(super) bind: SocketAddr,
    /// The congestion control.
    pub(super) control: CongestionControl,
    /// The number of connections, all between the same two sockets.
    pub(super) connections: usize,
    /// The number of streams per connection.
    pub(super) streams: usize,
    /// The duration of the transfer.
    pub(super) duration: Duration,
    /// The time between two reports.
    pub(super) interval: Duration,
    /// The log file for the law's decisions, in qlog format: a JSON text sequence (RFC 7464).
    pub(super) qlog: Option<PathBuf>,
    /// The minimum time between two logged ACK decisions of a connection. If zero, all decisions are logged.
    pub(super) qlog_interval: Duration,
    /// The address at which the metrics are served.
    pub(super) metrics: Option<SocketAddr>,
}

/// Why the client or the server failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PerfError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An operation on a socket or on the log file failed.
    #[error("{operation}: {source}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A certificate or a key cannot be read.
    #[error("{}: {reason}; certificates and keys must be in PEM", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The client could not connect.
    #[error("cannot connect: {0}; is the server running?")]
    Connect(ConnectError),
    /// The connection failed during the transfer.
    #[error("the connection failed: {0}")]
    ConnectionFailed(String),
}

impl PerfError {
    /// Returns a function for `map_err` that adds the operation to an I/O error.
    pub(super) fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }

    pub(super) fn connection_failed(error: impl fmt::Display) -> Self {
        Self::ConnectionFailed(error.to_string())
    }
}
