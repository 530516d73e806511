//! Poseidon for [quinn](https://docs.rs/quinn) 0.11.
//!
//! Only two lines of a program change:
//!
//! ```no_run
//! use poseidon_quic::{Config, Poseidon};
//! use poseidon_types::BitRate;
//! use quinn::{Endpoint, EndpointConfig, TokioRuntime, TransportConfig};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (mut transport, mut endpoint) = (TransportConfig::default(), EndpointConfig::default());
//! # let (server, socket) = (None, std::net::UdpSocket::bind("[::]:65053")?);
//! let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(10)))?;
//! poseidon.tune(&mut transport, &mut endpoint);
//! transport.congestion_controller_factory(poseidon.controller_factory());                  // line 1
//! let endpoint = Endpoint::new(endpoint, server, socket, poseidon.runtime(TokioRuntime))?; // line 2
//! # Ok(())
//! # }
//! ```
//!
//! A program that drives quinn-proto itself, without quinn's sockets, passes its datagrams through a [`PrefixLayer`].
//!
//! # Limits of quinn
//!
//! | quinn does not support | this host instead | metric or error |
//! |---|---|---|
//! | fewer than two packets in flight (in quinn, a window of three) | uses two packets | [`FlowMetrics::below_floor`] |
//! | a pacing rate | converts the rate into a window, and quinn paces by the window | [`FlowMetrics::unpaced`] |
//! | NIC timestamps | subtracts [`Config::slack`] for the scheduling delay of both hosts | [`UNSUPPORTED`] |
//! | ECN counts in bytes, the TTL | rejects laws that need them | [`ConfigError::Law`] |
//!
//! [`FlowMetrics::below_floor`]: crate::FlowMetrics::below_floor
//! [`FlowMetrics::unpaced`]: crate::FlowMetrics::unpaced
//! [`Config::slack`]: crate::Config::slack
//! [`UNSUPPORTED`]: crate::metrics::UNSUPPORTED
//! [`ConfigError::Law`]: crate::ConfigError::Law

mod connect;
mod controller;
mod prefix_layer;
mod runtime;
#[cfg(target_os = "linux")]
mod sendmsg;
mod setup;
mod socket;

pub use connect::ConnectError;
pub use prefix_layer::PrefixLayer;
