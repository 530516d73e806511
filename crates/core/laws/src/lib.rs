//! Datacenter congestion-control laws: Poseidon and the peers it is measured against.
//!
//! A law turns events (an ACK and what it carried, a loss, a timeout) into a decision (a window and pacing). It has no
//! clock, no generator, no heap and no errors; everything arrives as an argument, so the same events give the same
//! decisions, bit for bit, wherever the law runs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`law`] | the trait [`Law`], the [`Path`] it starts on, the [`Decision`] it takes |
//! | [`event`] | [`Ack`] and [`Loss`] |
//! | [`laws`] | one file per law |
//! | [`parts`] | mechanisms that several laws share |
//! | [`params`] | parameters with defaults, presets, units and checks |
//! | [`registry`] | the table: one line per law |
//!
//! ```
//! use poseidon_laws::{Ack, AnyParams, Path};
//! use poseidon_types::{BitRate, Bytes, Nanos, Signals};
//!
//! let mut params = AnyParams::of("poseidon").expect("in the table");
//! params.set("max-rate", "100 Gbps")?;
//! let path = Path {
//!     mtu: Bytes::new(4096),
//!     line_rate: BitRate::from_gbps(100),
//!     base_rtt: Nanos::from_micros(10),
//! };
//! let mut law = params.build(&path, Signals::RTT | Signals::MAX_HOP_DELAY)?;
//! law.on_ack(&Ack {
//!     now: Nanos::from_micros(30),
//!     rtt: Nanos::from_micros(20),
//!     packets: 1,
//!     max_hop_delay: Some(Nanos::from_micros(12)),
//!     ..Ack::EMPTY
//! });
//! println!("{:?}", law.decision());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]

#[cfg(test)]
extern crate std;

pub mod event;
pub mod law;
#[macro_use]
pub mod laws;
pub mod parts;
pub mod registry;

pub use event::{Ack, Loss};
pub use law::{Decision, Law, Pacing, Path};
pub use poseidon_types::params;
pub use registry::{AnyLaw, AnyParams, BuildError, LAWS};
