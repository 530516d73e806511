//! The telemetry formats that carry a maximum hop delay, and checksums.
//!
//! A switch updates a header in place. An update returns what changed as a checksum delta, and these functions apply it to
//! the checksum that covers the header, if the caller passes it: two bytes in network byte order, as in the packet.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

mod bare16;
mod shim;
mod tcp_option;

pub use bare16::*;
pub use shim::*;
pub use tcp_option::*;

use crate::border::{self, status};
use crate::error::{Failure, poseidon_status};
use poseidon_wire::checksum::Delta;
use poseidon_wire::quantiser::LinearScale;

/// The step of the delay codes is 2^8 = 256 ns: pass this as step_log2. Slow links need a larger step, which both ends
/// and all switches must share.
pub const POSEIDON_STEP_LOG2: u8 = 8;

/// Checksum kind: IPv4, TCP and ICMP.
pub const POSEIDON_CHECKSUM_INTERNET: u32 = 0;
/// Checksum kind: UDP. Zero means "no checksum" and stays zero.
pub const POSEIDON_CHECKSUM_UDP: u32 = 1;

/// Returns the scale of 16-bit codes with this step.
const fn scale(step_log2: u8) -> LinearScale {
    LinearScale::new(step_log2, 16)
}

/// Applies a delta to a checksum in a packet.
///
/// # Safety
///
/// `checksum` must be null or point to two writable bytes.
pub(crate) unsafe fn apply(delta: Delta, checksum: *mut u8, kind: u32) -> Result<(), Failure> {
    if checksum.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees two bytes.
    let field = unsafe { border::bytes_mut(checksum, 2) }?;
    let [high, low] = field else { return Err(Failure::Truncated) };
    let old = u16::from_be_bytes([*high, *low]);
    let new = if kind == POSEIDON_CHECKSUM_UDP { delta.apply_udp(old) } else { delta.apply(old) };
    [*high, *low] = new.to_be_bytes();
    Ok(())
}

/// Corrects a checksum after bytes that it covers have changed.
///
/// before, after: the bytes before and after the change. size: their number. offset: where they start in the covered
/// data; only whether it is odd matters. checksum: the two bytes of the checksum in the packet. kind: one of the
/// POSEIDON_CHECKSUM_... constants.
///
/// # Safety
///
/// The pointers must be null or valid for their sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_checksum_update(
    before: *const u8,
    after: *const u8,
    size: usize,
    offset: usize,
    checksum: *mut u8,
    kind: u32,
) -> poseidon_status {
    if kind > POSEIDON_CHECKSUM_UDP {
        return Failure::UnknownFlags.code();
    }
    if checksum.is_null() {
        return Failure::NullPointer.code();
    }
    // SAFETY: the caller guarantees the buffer.
    let before = unsafe { border::bytes(before, size) };
    // SAFETY: the caller guarantees the buffer.
    let after = unsafe { border::bytes(after, size) };
    let delta = before.and_then(|before| Ok(Delta::for_bytes(before, after?).at_offset(offset)));
    // SAFETY: the caller guarantees the checksum.
    status(delta.and_then(|delta| unsafe { apply(delta, checksum, kind) }))
}
