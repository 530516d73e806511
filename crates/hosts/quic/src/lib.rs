//! Poseidon's congestion control laws and in-band telemetry for QUIC.
//!
//! The crate runs a law as the congestion controller of a QUIC stack. It also prepends a 16-byte prefix to each
//! QUIC packet. Switches record the path's largest queueing delay in that prefix, and the receiver echoes the
//! delay to the sender.
//!
//! | feature | stack | start here |
//! |---|---|---|
//! | `quinn` | [quinn](https://docs.rs/quinn) 0.11 | `quinn` |
//! | `s2n` | [s2n-quic](https://docs.rs/s2n-quic) 1.91 | `s2n` |
//!
//! No feature is enabled by default. Neither stack is modified, and both use the same wire format.
//!
//! Both ends of a connection must use the prefix, because the receiver echoes the telemetry that the sender's
//! law needs. Switches stamp datagrams to UDP port 65053 ([`DEFAULT_UDP_PORT`]). A server should listen on that
//! port. A client should bind to it if the server sends bulk data.
//!
//! ```text
//!   QUIC stack ──ACK, loss──> FlowDriver ──> law ──> window         core/driver.rs, core/mode.rs
//!     │                           ^
//!     │ packets                   │ largest hop delay               core/flow.rs: one Flow per path
//!     v                           │
//!   socket ──prefix + packet──> switches stamp ──> DatagramParser   core/datagram.rs, at the peer
//!     ^                                                  │
//!     └──────── echo in the prefix of the next packet ───┘
//! ```
//!
//! # How telemetry is matched to a connection
//!
//! A QUIC stack does not tell its socket which connection a packet belongs to.
//!
//! - On the send path, the stack calls the controller and then the socket on the same thread. The controller
//!   stores its flow in a thread-local variable (`core/send_context.rs`).
//! - On the receive path, the prefix carries two tags ([`prefix`]), one for each end of the path. The ends
//!   learn each other's tags from the connection IDs of the handshake (`core/handshake.rs`).
//!
//! A path that migrates to another address is assigned a new tag, so telemetry from the old path is ignored. A
//! tag is accepted only if the datagram comes from the address that the flow sends to.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg_attr(
    not(all(feature = "quinn", feature = "s2n")),
    allow(dead_code, reason = "each stack uses only part of the core")
)]
mod core;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "s2n")]
pub mod s2n;

pub use crate::core::config::{Config, ConfigError, PlainPeers, SUPPLIED_SIGNALS};
pub use crate::core::metrics::{self, FlowMetrics, Metrics};
pub use crate::core::mode::Mode;
pub use crate::core::observer::{Cause, DecisionEvent, Observer};
pub use crate::core::poseidon::Poseidon;
pub use crate::core::prefix;
pub use poseidon_wire::shim::DEFAULT_UDP_PORT;

/// Compiles the example in the README.
#[cfg(all(doctest, feature = "quinn"))]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
