//! Units, ids and in-band telemetry types for congestion control in datacenter networks.
//!
//! All other Poseidon crates build on these types. The crate contains no control law, no packet format and no
//! simulator. The crate has no dependencies and uses no heap, no `std` and no floating-point arithmetic. The same types
//! therefore work in a simulator, in a QUIC stack and in a NIC.
//!
//! # Tour
//!
//! Start with the units: [`Nanos`] and [`Picos`] for time, [`Bytes`] and [`Packets`] for sizes, [`BitRate`] for rates.
//! Then read [`telemetry`], which defines the signals that switches report to senders. A control law declares the
//! [`Signals`] that it needs and its [`params`].
//!
//! | module | contents |
//! |---|---|
//! | [`time`] | [`Picos`] for the simulator's clock, [`Nanos`] for host clocks and control laws |
//! | [`size`] | [`Bytes`], and [`Packets`] in fixed point for windows below one packet |
//! | [`rate`] | [`BitRate`], and conversions between bytes, rate and time |
//! | [`fraction`] | [`Fraction`], a fixed-point number for gains and probabilities |
//! | [`ids`] | ids of hosts, switches, ports, queues, connections, messages and joins |
//! | [`telemetry`] | [`MaxHopDelay`], [`HopRecord`] and the bounded [`HopStack`] |
//! | [`signals`] | [`Signals`], the set of signals that a law needs or a host supplies |
//! | [`params`] | parameter structs with defaults, checks and a text parser |
//! | [`text`] | exact conversion to and from text such as `"200 Gbps"` |
//! | [`random`] | a hash for stateless random numbers |
//!
//! The names of conversions that round end in `_floor` or `_ceil`. All other conversions are exact.
//!
//! ```
//! use poseidon_types::{BitRate, Bytes, Picos};
//!
//! let rate: BitRate = "200 Gbps".parse()?;
//! assert_eq!(rate.send_time_ceil(Bytes::new(4096)), Picos::new(163_840));
//! # Ok::<(), poseidon_types::text::UnitError>(())
//! ```
#![no_std]
#![deny(clippy::float_arithmetic)]

#[cfg(test)]
extern crate std;

pub mod fraction;
pub mod ids;
pub mod params;
mod quantity;
pub mod random;
pub mod rate;
pub mod signals;
pub mod size;
pub mod telemetry;
pub mod text;
pub mod time;

pub use fraction::Fraction;
pub use ids::{ConnectionId, HostId, JoinId, MessageId, PortId, QueueId, SwitchId};
pub use rate::BitRate;
pub use signals::Signals;
pub use size::{Bytes, Packets};
pub use telemetry::{CounterWrap, HopPath, HopRecord, HopStack, MaxHopDelay};
pub use time::{Nanos, Picos};

/// Runs the README example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeDoctests;
