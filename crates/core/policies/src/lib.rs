//! Policies of switches, links and senders: buffer admission ([`buffer`]), congestion marking ([`mark`]), link
//! impairments ([`impair`]) and path selection ([`path`]).
//!
//! # Tour
//!
//! A [`BufferPolicy`](buffer::BufferPolicy) decides how many more bytes a queue may hold. A
//! [`MarkPolicy`](mark::MarkPolicy) decides whether to set a congestion mark (ECN) on a packet that leaves a queue. An
//! [`ImpairPolicy`](impair::ImpairPolicy) decides whether a link loses or delays a packet. A
//! [`PathPolicy`](path::PathPolicy) chooses the entropy value that determines a packet's path. [`AnyBufferPolicy`],
//! [`AnyMarkPolicy`], [`AnyImpairPolicy`] and [`AnyPathPolicy`] hold a policy chosen by name at run time.
//! [`buffer::BUFFER_POLICIES`], [`mark::MARK_POLICIES`], [`impair::IMPAIR_POLICIES`] and [`path::PATH_POLICIES`] list
//! all policies.
//!
//! A policy has no clock, no random number generator and no heap. The caller passes the time and a random seed with
//! each packet, and stores the [`mark::MarkState`] of each queue. The same code therefore runs in a simulator and on a
//! real queue.
//!
//! A new policy needs one file with its parameters and its decision, one `mod` line and one line in the matching
//! registry. The registry adds the policy to the enum, the dispatch, the list and the conformance tests.
//!
//! ```
//! use poseidon_policies::AnyMarkPolicy;
//! use poseidon_policies::mark::{Departure, MarkState};
//! use poseidon_types::{BitRate, Bytes, Picos};
//!
//! let mut policy = AnyMarkPolicy::from_name("step").expect("the policy is registered");
//! policy.set("threshold", "100 kB")?;
//! let packet = Departure {
//!     now: Picos::new(1_000_000),
//!     sojourn_time: Picos::new(500_000),
//!     queue_len: Bytes::new(120_000),
//!     max_packet: Bytes::new(1_500),
//!     link_rate: BitRate::from_gbps(10),
//!     random_seed: 1,
//! };
//! assert!(policy.should_mark(&mut MarkState::default(), &packet));
//! # Ok::<(), poseidon_types::params::ParamError>(())
//! ```
#![no_std]
#![deny(clippy::float_arithmetic)]

#[cfg(test)]
extern crate std;

pub mod buffer;
pub mod impair;
pub mod mark;
pub mod path;
mod registry;

pub use buffer::AnyBufferPolicy;
pub use impair::AnyImpairPolicy;
pub use mark::AnyMarkPolicy;
pub use path::AnyPathPolicy;
pub use registry::PolicyInfo;

/// Runs the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeDoctests;
