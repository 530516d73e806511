//! ACKs from C: the checks before a law gets one.
//!
//! A valid ACK passes a few comparisons, each of which covers several fields or pointers and says only whether all of them
//! are valid. If one is not, [`process_unusual`] checks again, one by one, and returns the code of what is wrong.

#![allow(unsafe_code, reason = "this module reads memory that C owns")]

use crate::border::{self, check_pointer, status};
use crate::error::{Failure, poseidon_status};
use crate::state::{self, Stored};
use crate::structs::{ACK_HEADER, ACK_HEADER_MASK, POSEIDON_MAX_HOPS, poseidon_ack, poseidon_hop};
use core::mem::offset_of;
use poseidon_laws::Ack;
use poseidon_types::HopRecord;

// The records of C are those of the laws, so a pointer to them is enough.
const _: () = assert!(size_of::<poseidon_hop>() == size_of::<HopRecord>());
const _: () = assert!(align_of::<poseidon_hop>() == align_of::<HopRecord>());
const _: () = assert!(offset_of!(poseidon_hop, timestamp_ns) == offset_of!(HopRecord, timestamp));
const _: () = assert!(offset_of!(poseidon_hop, sent_bytes) == offset_of!(HopRecord, sent));
const _: () = assert!(offset_of!(poseidon_hop, queue_bytes) == offset_of!(HopRecord, queue));
const _: () = assert!(offset_of!(poseidon_hop, rate_bps) == offset_of!(HopRecord, rate));
// One mask of address bits serves for the state, the ACK and the records, and the first word of an ACK is a u64.
const _: () = assert!(align_of::<poseidon_ack>() == align_of::<u64>());
const _: () = assert!(align_of::<poseidon_hop>() == align_of::<u64>());

/// An ACK that has passed all checks, with the records to which it points.
#[derive(Clone, Copy)]
pub(crate) struct ValidAck<'a> {
    ack: &'a poseidon_ack,
}

impl<'a> ValidAck<'a> {
    /// Returns the hop records.
    #[inline]
    pub(crate) fn records(&self) -> &'a [HopRecord] {
        if self.ack.hop_record_count == 0 {
            return &[];
        }
        // SAFETY: the checks have shown that the pointer is valid for at most POSEIDON_MAX_HOPS records, and the caller in C
        // guarantees them during the call. The types have the same layout.
        unsafe { core::slice::from_raw_parts(self.ack.hops.cast(), self.ack.hop_record_count) }
    }
}

/// Passes an ACK to a flow's law, or returns the code of what is wrong with the arguments.
///
/// # Safety
///
/// `memory` as for [`state::law_mut`]. `ack` must be null or point to a struct that is as large as its struct_size says,
/// with valid hop records.
#[inline(always)]
pub(crate) unsafe fn process<L: Stored>(memory: *mut u8, ack: *const poseidon_ack) -> poseidon_status {
    let is_missing = memory.is_null() || ack.is_null();
    if is_missing || !(memory.addr() | ack.addr()).is_multiple_of(align_of::<u64>()) {
        // SAFETY: the caller guarantees the pointers.
        return unsafe { process_unusual::<L>(memory, ack) };
    }
    // SAFETY: the pointer is neither null nor misaligned, and the caller guarantees the rest.
    let Some(law) = (unsafe { state::paper_mut::<L>(memory) }) else {
        // SAFETY: as above.
        return unsafe { process_any::<L>(memory, ack) };
    };
    // SAFETY: as above.
    let Some(ack) = (unsafe { check::<L>(ack) }) else {
        // SAFETY: as above.
        return unsafe { process_any::<L>(memory, ack) };
    };
    let event = || ack.ack.event(&[]);
    law.on_ack_of_paper(event);
    0
}

/// Returns the ACK if it is valid and of this library's version.
///
/// # Safety
///
/// `pointer` must be aligned and not null. As for [`process`] otherwise.
#[inline(always)]
unsafe fn check<'a, L: Stored>(pointer: *const poseidon_ack) -> Option<ValidAck<'a>> {
    // SAFETY: the struct begins with its size, flags and two more bytes, and the pointer is aligned.
    let header = unsafe { pointer.cast::<u64>().read() };
    if header & ACK_HEADER_MASK != ACK_HEADER {
        return None;
    }
    // SAFETY: the size in the header is that of the struct, and every bit pattern is valid.
    let ack = unsafe { &*pointer };
    if L::READS_HOPS && !are_hops_valid(ack) {
        return None;
    }
    Some(ValidAck { ack })
}

/// Passes an ACK to any law.
///
/// # Safety
///
/// The pointers must be aligned and not null. As for [`process`] otherwise.
#[inline(never)]
unsafe fn process_any<L: Stored>(memory: *mut u8, ack: *const poseidon_ack) -> poseidon_status {
    // SAFETY: the caller guarantees the memory.
    let law = unsafe { state::law_mut::<L>(memory) };
    // SAFETY: the caller guarantees the struct.
    let valid = unsafe { check::<L>(ack) };
    let (Ok(law), Some(valid)) = (law, valid) else {
        // SAFETY: the caller guarantees the pointers.
        return unsafe { process_unusual::<L>(memory, ack) };
    };
    law.on_ack(&valid.ack.event(if L::READS_HOPS { valid.records() } else { &[] }));
    0
}

/// Returns whether the pointer to the hop records and their number are valid.
#[inline(always)]
fn are_hops_valid(ack: &poseidon_ack) -> bool {
    if ack.hops.is_null() && ack.hop_record_count != 0 {
        return false;
    }
    // A misaligned pointer does not matter without records, but that is rare enough for the slow path.
    if !ack.hops.is_aligned() {
        return false;
    }
    ack.hop_record_count <= POSEIDON_MAX_HOPS
}

/// Checks the arguments one by one, and processes an ACK from a program that was compiled with another version of the
/// header.
///
/// # Safety
///
/// As for [`process`].
#[cold]
#[inline(never)]
unsafe fn process_unusual<L: Stored>(memory: *mut u8, ack: *const poseidon_ack) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law_mut::<L>(memory) };
    // SAFETY: the caller guarantees the struct.
    status(law.and_then(|law| unsafe { with_event(ack, L::READS_HOPS, |ack| law.on_ack(ack)) }))
}

/// Calls `use_event` with the ACK as the laws' type. Without `reads_hops`, the ACK has no hop records.
///
/// # Safety
///
/// `ack` as for [`process`].
pub(crate) unsafe fn with_event<R>(
    ack: *const poseidon_ack,
    reads_hops: bool,
    use_event: impl FnOnce(&Ack<'_>) -> R,
) -> Result<R, Failure> {
    // SAFETY: the caller guarantees the struct.
    let ack = unsafe { border::read(ack) }?;
    ack.check()?;
    if !reads_hops {
        return Ok(use_event(&ack.event(&[])));
    }
    check_hops(&ack)?;
    let ack = ValidAck { ack: &ack };
    Ok(use_event(&ack.ack.event(ack.records())))
}

/// Checks the hop records of an ACK without reading them.
fn check_hops(ack: &poseidon_ack) -> Result<(), Failure> {
    if ack.hop_record_count == 0 {
        return Ok(());
    }
    if ack.hop_record_count > POSEIDON_MAX_HOPS {
        return Err(Failure::TooManyHops);
    }
    check_pointer(ack.hops).map(|_| ())
}
