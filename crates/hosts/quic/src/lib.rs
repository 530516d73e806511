//! Poseidon in [quinn]: a program changes two lines, and its connections are steered by the switches on their path.
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
//! transport.congestion_controller_factory(poseidon.controllers());                        // line 1
//! let endpoint = Endpoint::new(endpoint, server, socket, poseidon.runtime(TokioRuntime))?; // line 2
//! # Ok(())
//! # }
//! ```
//!
//! Both ends need it: one to be told, the other to tell. A switch stamps what goes to UDP port 65053
//! ([`poseidon_wire::shim::DEFAULT_UDP_PORT`]), so that is where both should listen: a server for what clients send, a client's socket for what
//! comes back.
//!
//! ```text
//!   quinn ──Controller──> law            window        steer.rs, signal.rs
//!     │                    ^
//!     │ packets            │ largest hop delay         flow.rs: one per path of a connection
//!     v                    │
//!   socket.rs  ──prefix + packet──>  UDP … switches stamp … UDP  ──>  strip.rs: the other end notes the stamp,
//!     ^                                                                reflects it with its next datagram
//!     └───────────────────────────── prefix + packet ─────────────────────┘
//! ```
//!
//! # Which connection a stamp belongs to
//!
//! quinn tells neither its controllers which connection they are for nor its socket whose packets it sends. On the way out, the three
//! calls that a datagram makes follow each other on one thread (`context.rs`). On the way in, two tags stand beside the stamp
//! ([`prefix`]): sixteen connections between two addresses are sixteen pairs of tags. A path that moves to another address gets
//! another tag, so a stamp of the old path is nobody's. Two ends learn each other's tags from the connection ids of the handshake
//! (`handshake.rs`). No address, connection id or header is believed beyond that: a tag counts only from the address where its flow sends to.
//!
//! # What quinn cannot carry
//!
//! | | what happens | where it is seen |
//! |---|---|---|
//! | windows below two packets in flight (quinn's gate makes that a window of three) | two packets | [`FlowMetrics::below_floor`] |
//! | pacing, by gap or by rate | quinn's own, from the window; a rate becomes a window | [`FlowMetrics::unpaced`] |
//! | timestamps of a NIC | round trips have both hosts' scheduling in them; [`Config::slack`] | [`metrics::NOT_CARRIED`] |
//! | ECN in bytes, hop count (TTL) | laws that need them are refused | [`ConfigError::Law`] |
//!
//! Tags are 16 bits: beyond 65,535 paths at a time, connections go without telemetry.

mod address;
mod config;
mod connect;
mod context;
mod controller;
mod flow;
mod flows;
#[cfg(target_os = "linux")]
mod gather;
mod handshake;
pub mod metrics;
mod peers;
#[cfg(feature = "perf")]
pub mod perf;
mod poseidon;
pub mod prefix;
mod running;
mod runtime;
#[cfg(feature = "s2n")]
pub mod s2n;
mod shared;
mod signal;
mod socket;
mod stamp;
mod steer;
mod strip;

pub use config::{Cause, Config, ConfigError, Decided, Observer, PlainPeers, SUPPLIED};
pub use connect::ConnectError;
pub use metrics::{FlowMetrics, Metrics};
pub use poseidon::Poseidon;
pub use signal::Mode;
