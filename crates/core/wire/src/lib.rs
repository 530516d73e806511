//! In-band telemetry formats, which define how packets carry congestion signals.
//!
//! # Tour
//!
//! Each format has its own module, and all modules share the same structure. The module documentation shows a byte
//! diagram and cites the source. `Packet` is a view of a buffer: the constructor checks the length, and the getters
//! never panic. Switches call `update` or `push`. `Repr` is the parsed header: it provides `parse`, `emit` and
//! `buffer_len`, and converts to the types in [`poseidon_types::telemetry`].
//!
//! | module | bytes | signal | source |
//! |---|---|---|---|
//! | [`shim`] | 4 | maximum hop delay, number of hops | this project, after UDP |
//! | [`reflection`] | 4 | echo of the shim | this project, in the acknowledgement |
//! | [`bare16`] | 2 | maximum hop delay | Poseidon, NSDI'23, listing 1 |
//! | [`tcp_option`] | 8 | maximum hop delay and its echo | this project, RFC 6994 experiment |
//! | [`csig`] | 4 or 8 | one of four bottleneck signals | draft-ravi-ippm-csig-01, UEC |
//! | [`hpcc`] | 2 + 8 per hop | hop records | HPCC, SIGCOMM'19, figure 7 |
//! | [`hpcc_ns3`] | 42 | hop records | HPCC's ns-3 artifact |
//! | [`powertcp`] | 4 + 8 per slot | hop records | PowerTCP, NSDI'22, section 3.6 |
//! | [`int_md`] | 16 + 4 per word | requested per-hop metadata | P4-INT v2.1, embed data |
//! | [`ioam`] | 12 + 4 per word | requested per-node data | RFC 9197, RFC 9486 |
//!
//! All formats follow three rules:
//!
//! * Parsers accept arbitrary bytes. They return either a value or a descriptive [`Error`].
//! * An update changes only the fields that a switch may write. All values saturate, except that a hop's timestamp and
//!   byte counter wrap.
//! * If a checksum covers the bytes, the update returns the [`checksum::Delta`] that corrects it.
//!
//! Headers do not carry units, so the caller must supply them. [`quantiser`] applies a format's rounding to plain
//! values, for simulators that do not encode bytes.
//!
//! ```
//! use poseidon_types::Nanos;
//! use poseidon_wire::shim;
//!
//! let mut packet = shim::Packet::new_checked([0x10, 0, 0, 0])?;
//! let delta = packet.update(Nanos::new(25_600), &shim::SCALE);
//! let udp_checksum = delta.apply_udp(0x1234);
//! let signal = shim::Repr::parse(&packet.into_inner())?.telemetry(&shim::SCALE);
//! assert_eq!(signal.delay(), Some(Nanos::new(25_600)));
//! # assert_eq!(udp_checksum, 0x11cf);
//! # Ok::<(), poseidon_wire::Error>(())
//! ```
#![no_std]
#![deny(clippy::float_arithmetic)]

#[cfg(test)]
extern crate std;

pub mod bare16;
mod bytes;
pub mod checksum;
pub mod csig;
mod error;
pub mod hop_word;
pub mod hpcc;
pub mod hpcc_ns3;
pub mod int_hop;
pub mod int_md;
pub mod ioam;
pub mod ioam_node;
pub mod powertcp;
pub mod quantiser;
pub mod reflection;
pub mod shim;
pub mod tcp_option;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};

/// Runs the README example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeDoctests;
