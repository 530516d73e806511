//! What a switch may do with a queue: how much may wait in it ([`buffer`]), and which packets get a congestion mark
//! ([`mark`]).
//!
//! A policy is one file and one line in the table of its kind. The file declares its parameters (text with units, defaults,
//! checks) and its decision; the line makes the variant, the dispatch, the row that people read and the conformance
//! tests. A policy has no clock, no generator and no heap: time and chance arrive with the packet, and what it remembers of a
//! queue is a [`mark::Memory`] that the switch keeps. So the same decision runs in a simulator and in front of a real queue.
#![no_std]
#![deny(clippy::float_arithmetic)]

#[cfg(test)]
extern crate std;

pub mod buffer;
pub mod mark;
mod table;

pub use buffer::AnyBuffer;
pub use mark::AnyMark;
pub use table::PolicyInfo;
