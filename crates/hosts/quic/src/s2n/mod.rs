//! Poseidon for [s2n-quic](https://docs.rs/s2n-quic) 1.91.
//!
//! A program needs three additional lines:
//!
//! ```no_run
//! use poseidon_quic::s2n::{LawControllerFactory, ShimInterceptor, ShimMtu};
//! use poseidon_quic::{Config, Poseidon};
//! use poseidon_types::BitRate;
//! use std::path::Path;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(10)))?;
//! let server = s2n_quic::Server::builder()
//!     .with_tls((Path::new("certificate.pem"), Path::new("key.pem")))?
//!     .with_io("0.0.0.0:65053")?
//!     .with_congestion_controller(LawControllerFactory::new(&poseidon))? // line 1
//!     .with_packet_interceptor(ShimInterceptor::new(&poseidon))?   // line 2
//!     .with_mtu(ShimMtu::new(&poseidon))?                          // line 3
//!     .start()?;
//! # Ok(())
//! # }
//! ```
//!
//! s2n-quic marks these hooks as unstable, so this crate pins an exact version.
//!
//! # Limits of s2n-quic
//!
//! | s2n-quic does not support | this host instead | metric or error |
//! |---|---|---|
//! | a prefix on packets that bypass the interceptor | sends them as plain QUIC | [`crate::Metrics::plain`] |
//! | the send time of the oldest acknowledged packet | doubles the RTT of the newest | [`implausible`] |
//! | ECN counts in bytes, the TTL | rejects laws that need them | [`crate::ConfigError::Law`] |
//! | the connection of a received datagram | uses the tags of the prefix | |
//!
//! Close, retry, reset and version negotiation packets bypass the interceptor. A peer that refuses plain QUIC
//! therefore notices a close only when its idle timeout expires.
//!
//! s2n-quic supports two features that quinn does not: fewer than two packets in flight, and a pacing rate (a
//! controller may set the departure time of the next packet). This host uses neither, so that a law behaves
//! the same in both stacks.
//!
//! [`implausible`]: crate::FlowMetrics::implausible

mod address;
mod controller;
mod interceptor;

pub use controller::{LawController, LawControllerFactory};
pub use interceptor::{ShimInterceptor, ShimMtu};
