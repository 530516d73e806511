//! What the two ends are asked to do.

use crate::config::{Config, ConfigError};
use crate::connect::ConnectError;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use poseidon_wire::shim;
use std::io;
use std::path::PathBuf;

/// Who steers connections.
#[derive(Clone, Debug)]
pub enum Steering {
    /// A law of the registry, with the shim.
    Law(Box<Config>),
    /// quinn's own CUBIC without a shim: plain quinn, to compare with.
    Quinn,
}

/// On which switches stamp.
pub const DEFAULT_PORT: u16 = shim::DEFAULT_UDP_PORT;

/// The size of IP packets on Ethernet.
const ETHERNET_MTU: u16 = 1_500;

/// Who a server is: files in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its certificate, and those between it and an authority that clients know.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The end that counts.
#[derive(Clone, Debug)]
pub struct ServerArgs {
    /// Where it listens. Switches stamp only what goes to port 65053.
    pub listen: SocketAddr,
    /// The largest IP packet of the path.
    pub ip_mtu: u16,
    /// Without one it makes a certificate that nobody knows.
    pub identity: Option<Identity>,
    /// Who steers what it sends, which is little.
    pub steering: Steering,
    /// End when the first client has gone.
    pub once: bool,
}

/// The end that sends.
#[derive(Clone, Debug)]
pub struct ClientArgs {
    /// The server.
    pub server: SocketAddr,
    /// The name in its certificate.
    pub server_name: Option<String>,
    /// The certificates of the authorities that the server's must come from, in PEM. Without them any certificate will do.
    pub authority: Option<PathBuf>,
    /// The largest IP packet of the path.
    pub ip_mtu: u16,
    /// From where; port 65053 has the way back stamped too.
    pub bind: SocketAddr,
    /// Who steers.
    pub steering: Steering,
    /// Connections, all between the same two sockets.
    pub connections: usize,
    /// Streams of each connection.
    pub streams: usize,
    /// How long.
    pub duration: Duration,
    /// How often there is a report.
    pub interval: Duration,
    /// A file for decisions of the law: qlog as a sequence of JSON texts (RFC 7464).
    pub qlog: Option<PathBuf>,
    /// Of decisions on ACKs, at most one per connection and this time is written; zero: all.
    pub qlog_interval: Duration,
}

impl ServerArgs {
    /// A server on every address, of IPv6 and IPv4.
    pub fn new(steering: Steering) -> Self {
        Self {
            listen: SocketAddr::from(([0_u16; 8], DEFAULT_PORT)),
            ip_mtu: ETHERNET_MTU,
            identity: None,
            steering,
            once: false,
        }
    }
}

impl ClientArgs {
    /// One connection with one stream, ten seconds.
    pub fn new(server: SocketAddr, steering: Steering) -> Self {
        Self {
            server,
            server_name: None,
            authority: None,
            ip_mtu: ETHERNET_MTU,
            bind: if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() },
            steering,
            connections: 1,
            streams: 1,
            duration: Duration::from_secs(10),
            interval: Duration::from_secs(1),
            qlog: None,
            qlog_interval: Duration::ZERO,
        }
    }
}

/// Why nothing was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum PerfError {
    /// The law cannot run.
    Config(ConfigError),
    /// A socket or the file of the log.
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// A certificate or a key cannot be read.
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is no connection.
    Connect(ConnectError),
    /// It broke.
    Broken(String),
}

impl PerfError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { what, error }
    }

    pub(super) fn broken(error: impl fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }
}

impl fmt::Display for PerfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
            Self::Certificate { path, why } => {
                write!(f, "{}: {why}; give certificates and keys in PEM", path.display())
            }
            Self::Connect(error) => write!(f, "no connection: {error}; is the server running?"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

impl core::error::Error for PerfError {}

impl From<ConfigError> for PerfError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}
