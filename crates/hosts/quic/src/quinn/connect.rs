//! The errors that `Poseidon::connect` returns.

use crate::core::config::PlainPeers;
use core::fmt;
use core::net::SocketAddr;
use quinn::ConnectionError;

/// The reason a connection attempt failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConnectError {
    /// quinn rejected the arguments.
    Rejected(quinn::ConnectError),
    /// The peer answered without the prefix, and plain peers are refused.
    PlainPeer(SocketAddr),
    /// No answer with the prefix arrived, and plain peers are refused.
    NoShim(SocketAddr),
    /// The connection failed.
    Failed(ConnectionError),
}

impl ConnectError {
    pub(crate) fn from_failure(
        error: ConnectionError,
        peer: SocketAddr,
        plain_peers: PlainPeers,
        shim_negotiated: Option<bool>,
    ) -> Self {
        if error != ConnectionError::TimedOut || plain_peers != PlainPeers::Refuse {
            return Self::Failed(error);
        }
        match shim_negotiated {
            Some(false) => Self::PlainPeer(peer),
            None => Self::NoShim(peer),
            Some(true) => Self::Failed(error),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(error) => error.fmt(f),
            Self::PlainPeer(peer) => {
                write!(
                    f,
                    "{peer} uses plain QUIC; set plain_peers to Serve, or use Poseidon's runtime on the peer"
                )
            }
            Self::NoShim(peer) => {
                write!(
                    f,
                    "{peer} did not answer packets with the shim; if it uses plain QUIC, set plain_peers to Serve"
                )
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {}
