//! The same in [s2n-quic](s2n_quic) 1.91: another stack, the same laws, the same bytes on the wire.
//!
//! ```no_run
//! use poseidon_quic::s2n::{Controllers, Mtu, Shim};
//! use poseidon_quic::{Config, Poseidon};
//! use poseidon_types::BitRate;
//! use std::path::Path;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(10)))?;
//! let server = s2n_quic::Server::builder()
//!     .with_tls((Path::new("certificate.pem"), Path::new("key.pem")))?
//!     .with_io("0.0.0.0:65053")?
//!     .with_congestion_controller(Controllers::new(&poseidon))? // line 1
//!     .with_packet_interceptor(Shim::new(&poseidon))?           // line 2
//!     .with_mtu(Mtu::new(&poseidon))?                           // line 3
//!     .start()?;
//! # Ok(())
//! # }
//! ```
//!
//! Both hooks are features that s2n-quic calls unstable, so its version is fixed.
//!
//! # What s2n-quic cannot carry
//!
//! | | what happens | where it is seen |
//! |---|---|---|
//! | a prefix before what it sends past its interceptor: the last word of a connection, a retry, a reset, the versions it knows | it goes as plain QUIC, so a peer that refuses plain QUIC waits for its idle timeout | [`crate::Metrics::plain`] of the peer |
//! | the oldest packet of an ACK frame | a hop's delay is believed up to twice the newest packet's round trip | [`crate::FlowMetrics::implausible`] |
//! | marked bytes (ECN), hop count (TTL) | laws that need them are refused | [`crate::ConfigError::Law`] |
//! | the connection of a received datagram | nothing: the tags of the prefix say it | |
//!
//! It could carry what quinn cannot: less than two packets in flight and pacing by rate (a controller may say when the next packet departs).
//! It is not used, so that a law behaves the same in both.

mod controller;
mod interceptor;

pub use controller::{Controllers, Steered};
pub use interceptor::{Mtu, Shim};

use core::net::SocketAddr;
use s2n_quic_core::event::api::SocketAddress;

/// As the rest of the world writes it.
fn address(of: &SocketAddress<'_>) -> SocketAddr {
    match of {
        SocketAddress::IpV4 { ip, port, .. } => SocketAddr::from((**ip, *port)),
        SocketAddress::IpV6 { ip, port, .. } => SocketAddr::from((**ip, *port)),
        _ => SocketAddr::from(([0; 4], 0)),
    }
}
