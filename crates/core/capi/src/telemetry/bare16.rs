//! The 16-bit header of the Poseidon paper.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

use super::{POSEIDON_CHECKSUM_UDP, apply, scale};
use crate::border::{self, status};
use crate::error::{Failure, poseidon_status};
use crate::structs::poseidon_max_hop_delay;
use poseidon_types::Nanos;
use poseidon_wire::bare16;

/// The size of the paper's header.
pub const POSEIDON_BARE16_BYTES: usize = 2;

const _: () = assert!(POSEIDON_BARE16_BYTES == bare16::HEADER_BYTES);

/// Updates the paper's 16-bit header in place at a switch that measured delay_ns, and corrects a checksum.
///
/// checksum: the two bytes of the checksum in the packet, or null. kind: one of the POSEIDON_CHECKSUM_... constants.
///
/// # Safety
///
/// bytes must be null or point to size bytes; checksum must be null or point to two bytes outside of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_bare16_stamp(
    bytes: *mut u8,
    size: usize,
    delay_ns: u64,
    step_log2: u8,
    checksum: *mut u8,
    kind: u32,
) -> poseidon_status {
    if kind > POSEIDON_CHECKSUM_UDP {
        return Failure::UnknownFlags.code();
    }
    // SAFETY: the caller guarantees the buffer.
    let bytes = unsafe { border::bytes_mut(bytes, size) };
    status(bytes.and_then(|bytes| {
        let delta = bare16::Packet::new_checked(bytes)?.update(Nanos::new(delay_ns), &scale(step_log2));
        // SAFETY: the caller guarantees the checksum.
        unsafe { apply(delta, checksum, kind) }
    }))
}

/// Converts the paper's 16-bit header to the signal that it carries. The header has no hop count: assumed_hops is the
/// number of telemetry-capable hops on the path.
///
/// # Safety
///
/// bytes must be null or point to size bytes; signal must be null or point to a poseidon_max_hop_delay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_bare16_signal(
    bytes: *const u8,
    size: usize,
    step_log2: u8,
    assumed_hops: u8,
    signal: *mut poseidon_max_hop_delay,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let bytes = unsafe { border::bytes(bytes, size) };
    status(bytes.and_then(|bytes| {
        let found = bare16::Repr::parse(bytes)?.telemetry(&scale(step_log2), assumed_hops);
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(signal, poseidon_max_hop_delay::from_signal(found)) }
    }))
}
