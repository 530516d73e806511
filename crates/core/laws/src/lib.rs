//! Congestion-control laws for datacenters: Poseidon and the laws it is compared with.
//!
//! A law controls one flow. A host reports events to it and asks for a decision:
//!
//! ```
//! use poseidon_laws::types::{BitRate, Bytes, Nanos, Signals};
//! use poseidon_laws::{Ack, AnyParams, Law, Pacing, Path};
//!
//! // Select a law by name and set a parameter. `Path` describes what is known when the flow starts.
//! let mut params = AnyParams::for_law("poseidon").expect("the law is registered");
//! params.set("max-rate", "100 Gbps")?;
//! let path = Path::new(Bytes::new(4096), BitRate::from_gbps(100), Nanos::from_micros(10));
//!
//! // The host lists the signals that it supplies. `build` fails if the law needs any other signal.
//! let mut law = params.build(&path, Signals::RTT | Signals::MAX_HOP_DELAY)?;
//!
//! // An `Ack` contains its arrival time and the signals that it carries.
//! law.on_ack(&Ack {
//!     now: Nanos::from_micros(30),
//!     rtt: Nanos::from_micros(20),
//!     packets: 1,
//!     max_hop_delay: Some(Nanos::from_micros(12)),
//!     ..Ack::EMPTY
//! });
//!
//! // A `Decision` limits the packets in flight and sets their spacing.
//! let decision = law.decision();
//! match decision.pacing {
//!     Pacing::Off => println!("send while fewer than {} are in flight", decision.window),
//!     Pacing::Gap(gap) => println!("send one packet per {gap}"),
//!     Pacing::Rate(rate) => println!("send at {rate} or less"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A law has no clock, no random number generator and no heap, and it never returns an error. Time and random numbers
//! are part of the events. The same events therefore produce the same decisions, bit for bit, on every platform.
//!
//! | module | contents |
//! |---|---|
//! | [`law`] | the traits [`Law`] and [`LawDefinition`], the [`Path`] and the [`Decision`] |
//! | [`event`] | the events [`Ack`], [`Loss`], [`Trim`] and [`Timeout`] |
//! | [`laws`] | the laws, each in its own file or folder |
//! | [`registry`] | [`AnyLaw`] and [`AnyParams`], which select a law by name |
//! | [`params`] | parameters with defaults, presets, units and checks |
//! | [`coexistence`] | a host policy for flows that share queues with loss-based flows |
//! | `custom` | laws that a program supplies at run time, behind the feature `custom` |
//! | [`plb`] | a host policy that decides when a flow changes its path |
//! | [`fixed_math`] | log2 and exp2 in integer arithmetic |
//! | [`types`] | the crate `poseidon-types`: units, signals and telemetry |
//!
//! A host that selects its law at run time uses [`AnyLaw`]. A host that is generic over laws uses `L: Law`.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod coexistence;
#[cfg(feature = "custom")]
pub mod custom;
pub mod event;
pub mod fixed_math;
pub mod law;
pub mod laws;
mod parts;
pub mod plb;
pub mod registry;

pub use event::{Ack, Loss, Timeout, Trim};
pub use law::{Decision, Law, LawDefinition, Pacing, Path, PathError};
pub use poseidon_types as types;
pub use poseidon_types::params;
pub use registry::{AnyLaw, AnyParams, BuildError, LAWS, LawInfo};

/// Compiles and runs the README example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
