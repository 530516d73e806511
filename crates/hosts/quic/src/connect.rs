//! Why there is no connection.

use crate::config::PlainPeers;
use crate::poseidon::Poseidon;
use core::fmt;
use core::net::SocketAddr;
use quinn::ConnectionError;

/// See the variants.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConnectError {
    /// quinn did not even try.
    Refused(quinn::ConnectError),
    /// The peer answered without the shim, and such peers are refused here.
    PlainPeer(SocketAddr),
    /// Nobody answered with the shim, and peers without are refused here.
    NoShim(SocketAddr),
    /// The connection failed.
    Failed(ConnectionError),
}

impl ConnectError {
    pub(crate) fn new(error: ConnectionError, poseidon: &Poseidon, peer: SocketAddr) -> Self {
        if error != ConnectionError::TimedOut || poseidon.config().plain_peers != PlainPeers::Refuse {
            return Self::Failed(error);
        }
        match poseidon.speaks_shim(peer) {
            Some(false) => Self::PlainPeer(peer),
            None => Self::NoShim(peer),
            Some(true) => Self::Failed(error),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::PlainPeer(peer) => {
                write!(
                    f,
                    "{peer} speaks plain QUIC; set plain_peers to Serve, or give the peer Poseidon's runtime"
                )
            }
            Self::NoShim(peer) => {
                write!(
                    f,
                    "{peer} did not answer to QUIC with the shim; if it speaks plain QUIC, set plain_peers to Serve"
                )
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {}
