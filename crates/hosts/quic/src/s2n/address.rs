//! Converts the addresses in s2n-quic events.

use core::net::SocketAddr;
use s2n_quic_core::event::api::SocketAddress;

/// Converts an s2n-quic address into a standard library address.
pub(super) fn to_socket_addr(address: &SocketAddress<'_>) -> SocketAddr {
    match address {
        SocketAddress::IpV4 { ip, port, .. } => SocketAddr::from((**ip, *port)),
        SocketAddress::IpV6 { ip, port, .. } => SocketAddr::from((**ip, *port)),
        _ => SocketAddr::from(([0; 4], 0)),
    }
}
