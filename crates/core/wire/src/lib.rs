//! In-band telemetry formats: how the signals of congestion control look in bytes.
//!
//! | module | bytes | signal | source |
//! |---|---|---|---|
//! | [`shim`] | 4 | largest hop delay, hops that measured | this project, after UDP |
//! | [`reflection`] | 4 | the same, back to the sender | this project, in the acknowledgement |
//! | [`bare16`] | 2 | largest hop delay | Poseidon, NSDI'23, listing 1 |
//! | [`tcp_option`] | 8 | largest hop delay and its echo | this project, RFC 6994 experiment |
//! | [`csig`] | 4 or 8 | one of four bottleneck signals | draft-ravi-ippm-csig-01, UEC |
//! | [`hpcc`] | 2 + 8 per hop | hop records | HPCC, SIGCOMM'19, figure 7 |
//! | [`hpcc_ns3`] | 42 | hop records | HPCC's ns-3 artifact |
//! | [`powertcp`] | 4 + 8 per slot | hop records | PowerTCP, NSDI'22, section 3.6 |
//! | [`int_md`] | 16 + 4 per word | what each hop was asked for | P4-INT v2.1, embed data |
//! | [`ioam`] | 12 + 4 per word | what each node was asked for | RFC 9197, RFC 9486 |
//!
//! Every file has the same shape: the byte diagram and its source; `Packet`, a view over bytes whose checked
//! constructor is the only one and whose getters cannot panic; `update`, what a switch does; `Repr`, what the
//! bytes say, with `parse`, `emit` and `buffer_len`; and the way to and from [`poseidon_types::telemetry`].
//!
//! Three rules hold in all of them. Any bytes are safe input: the answer is a value or an [`Error`] that names the
//! cause. An update leaves alone what it must not touch and saturates; only a hop's clock and byte counter wrap, and
//! their format says where. Where a checksum covers the bytes, the update returns the [`checksum::Delta`] that repairs
//! it. Units are the caller's to give, because headers do not name them.
//!
//! [`quantiser`] does to plain values what the formats do to them, for simulators that carry no bytes.
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
