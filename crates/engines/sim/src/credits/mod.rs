//! Credits of receivers (RCCC of Ultra Ethernet): a sender may send only what its receiver has asked for.
//!
//! A receiver has one [`pacer`] per NIC. It sends pull packets at slightly less than its link rate, round robin over the
//! connections that have demand. Each pull packet carries the connection's total credit so far, so a lost one does not
//! matter. A sender states its demand in each data packet ([`sender`]).

pub(crate) mod oversubscription;
pub(crate) mod pacer;
pub(crate) mod sender;

use poseidon_types::Bytes;

/// The unit of credit on the wire: 256 bytes.
pub(crate) const QUANTUM: u64 = 256;

/// Converts bytes to quanta, rounded up. A connection's total saturates at 2^32 quanta, about 1 TB.
pub(crate) fn to_quanta(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(QUANTUM)).unwrap_or(u32::MAX)
}

/// Converts quanta to bytes.
pub(crate) fn to_bytes(quanta: u32) -> Bytes {
    Bytes::new(u64::from(quanta) * QUANTUM)
}
