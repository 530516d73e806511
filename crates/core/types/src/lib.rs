//! The words every other Poseidon crate speaks: time, sizes, rates, ids, and what in-band telemetry means.
//!
//! Nothing here knows a control law, a packet format or a simulator. The crate has no dependencies, no heap,
//! no `std` and no floating point, so the same types stand in a simulator, in a QUIC stack and in a NIC.
//!
//! | module | what it holds |
//! |---|---|
//! | [`time`] | [`Picos`], the simulator's clock, and [`Nanos`], what a host measures and a law sees |
//! | [`size`] | [`Bytes`] and [`Packets`] (fixed point: windows below one packet exist) |
//! | [`rate`] | [`BitRate`] and the conversions between bytes, rate and time |
//! | [`fraction`] | [`Fraction`], a fixed-point number for gains and probabilities |
//! | [`ids`] | flows, nodes, ports, links |
//! | [`telemetry`] | [`MaxHopDelay`], [`HopRecord`], the bounded [`HopStack`] |
//! | [`chance`] | randomness as a hash |
//! | [`signals`] | what a law needs and a host supplies |
//! | [`params`] | parameters declared once: struct, defaults, checks, text |
//! | [`text`] | `"200 Gbps"` in and out, exactly |
//!
//! Every conversion says in its name how it rounds (`_floor`, `_ceil`) or is exact.
//!
//! ```
//! use poseidon_types::{BitRate, Bytes, Picos};
//! let rate: BitRate = "200 Gbps".parse()?;
//! assert_eq!(rate.send_time_ceil(Bytes::new(4096)), Picos::new(163_840));
//! # Ok::<(), poseidon_types::text::UnitError>(())
//! ```
#![no_std]
#![deny(clippy::float_arithmetic)]

#[cfg(test)]
extern crate std;

pub mod chance;
pub mod fraction;
pub mod ids;
pub mod params;
mod quantity;
pub mod rate;
pub mod signals;
pub mod size;
pub mod telemetry;
pub mod text;
pub mod time;

pub use fraction::Fraction;
pub use ids::{FlowId, LinkId, NodeId, PortId};
pub use rate::BitRate;
pub use signals::Signals;
pub use size::{Bytes, Packets};
pub use telemetry::{HopPath, HopRecord, HopStack, MaxHopDelay, Wrap};
pub use time::{Nanos, Picos};
