//! What tests compare with and drive laws by: exact oracles, a fluid loop around any law, and random operations for
//! any law. Only tests may depend on this crate: it uses `std` and floating point.
//!
//! | module | what it holds |
//! |---|---|
//! | [`rng`] | [`SplitMix64`], a seeded generator whose numbers never change |
//! | [`rational`] | [`Rational`], exact arithmetic on `u128` |
//! | [`network`] | [`Network`] of links and flows, and random ones |
//! | [`maxmin`] | [`max_min()`], the exact max-min fair shares of a network |
//! | [`fluid_loop`] | a network without packets around any law: does it converge, and where to |
//! | [`operations`] | random operations for any law: does it survive, and replay |
//! | [`plans`] | a plan to start from, and a list of varied ones |
//!
//! ```
//! use poseidon_testkit::{Flow, Network, Rational, max_min};
//! let parking_lot = Network {
//!     capacities_mbps: vec![100_000, 100_000],
//!     flows: vec![Flow::through([0, 1]), Flow::through([0]), Flow::through([0]), Flow::through([1])],
//! };
//! let shares = max_min(&parking_lot);
//! assert_eq!(shares[0].rate_mbps, Rational::new(100_000, 3));
//! assert_eq!(shares[3].rate_mbps, Rational::new(200_000, 3));
//! ```

pub mod fluid_loop;
pub mod maxmin;
pub mod network;
pub mod operations;
pub mod plans;
pub mod rational;
pub mod rng;

pub use fluid_loop::FluidLoop;
pub use maxmin::{Bottleneck, Share, max_min};
pub use network::{Flow, Network, random_network};
pub use rational::Rational;
pub use rng::SplitMix64;
