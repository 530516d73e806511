//! Test support: exact oracles, a fluid network model for any law, random operations for any law, and test plans.
//!
//! Only tests depend on this crate, because it uses `std` and floating point.
//!
//! | module | contents |
//! |---|---|
//! | [`rng`] | [`SplitMix64`], a seeded random number generator with a fixed output |
//! | [`rational`] | [`Rational`], exact arithmetic on `u128` |
//! | [`network`] | [`Network`], links and flows, and random networks |
//! | [`maxmin`] | [`max_min()`], the exact max-min fair shares of a network |
//! | [`fluid_loop`] | [`FluidLoop`], a fluid network model that runs any law |
//! | [`operations`] | random operations for any law, and checks of its decisions |
//! | [`plans`] | a base plan for tests, and one plan per simulator feature |
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
