//! The shim after the UDP header, and the reflection block that echoes it.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

use super::{POSEIDON_CHECKSUM_UDP, apply, scale};
use crate::border::{self, status};
use crate::error::{Failure, poseidon_status};
use crate::structs::poseidon_max_hop_delay;
use poseidon_types::Nanos;
use poseidon_wire::checksum::Delta;
use poseidon_wire::{reflection, shim};

/// The suggested UDP destination port of packets with a shim.
pub const POSEIDON_SHIM_UDP_PORT: u16 = 65053;
/// The size of a shim.
pub const POSEIDON_SHIM_BYTES: usize = 4;
/// The size of a reflection block.
pub const POSEIDON_REFLECTION_BYTES: usize = 4;

const _: () = assert!(POSEIDON_SHIM_BYTES == shim::HEADER_BYTES);
const _: () = assert!(POSEIDON_SHIM_UDP_PORT == shim::DEFAULT_UDP_PORT);
const _: () = assert!(POSEIDON_REFLECTION_BYTES == reflection::HEADER_BYTES);

/// Flag of shim and reflection block: a hop that supports telemetry could not measure its delay.
pub const POSEIDON_SHIM_INCOMPLETE: u8 = 1;
/// Flag of shim and reflection block: hops must not update the shim.
pub const POSEIDON_SHIM_FROZEN: u8 = 2;
/// Flag of shim and reflection block: the sender requests path coverage.
pub const POSEIDON_SHIM_WANTS_COVERAGE: u8 = 4;

/// A parsed shim: four bytes after the UDP header that switches update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct poseidon_shim {
    /// POSEIDON_SHIM_... flags.
    pub flags: u8,
    /// The number of hops that measured a delay.
    pub int_hops: u8,
    /// The code of the largest delay, in steps of 2^step_log2 ns.
    pub max_hop_delay: u16,
}

/// A parsed reflection block: four bytes in an acknowledgement that echo the received shim to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct poseidon_reflection {
    /// The shim's flags.
    pub flags: u8,
    /// The number of hops on the path, from the TTL: at most 15.
    pub hops_seen: u8,
    /// The number of hops that measured a delay: at most 15.
    pub int_hops: u8,
    /// Zero.
    pub reserved: u8,
    /// The shim's code of the largest delay.
    pub max_hop_delay: u16,
}

/// Coverage: no hop measured its delay. The sender relies on the end-to-end delay alone.
pub const POSEIDON_COVERAGE_NONE: i32 = 0;
/// Coverage: some hops measured their delay.
pub const POSEIDON_COVERAGE_PARTIAL: i32 = 1;
/// Coverage: all hops measured their delay.
pub const POSEIDON_COVERAGE_FULL: i32 = 2;
/// Coverage: unknown, because the counts are saturated or contradict each other.
pub const POSEIDON_COVERAGE_UNKNOWN: i32 = 3;

impl poseidon_shim {
    const fn from_repr(repr: &shim::Repr) -> Self {
        Self { flags: flag_bits(repr.flags), int_hops: repr.int_hops, max_hop_delay: repr.max_hop_delay }
    }

    const fn to_repr(self) -> Result<shim::Repr, Failure> {
        match flags_from_bits(self.flags) {
            Some(flags) => {
                Ok(shim::Repr { flags, int_hops: self.int_hops, max_hop_delay: self.max_hop_delay })
            }
            None => Err(Failure::UnknownFlags),
        }
    }
}

const fn flag_bits(flags: shim::Flags) -> u8 {
    let mut bits = 0;
    if flags.incomplete {
        bits |= POSEIDON_SHIM_INCOMPLETE;
    }
    if flags.frozen {
        bits |= POSEIDON_SHIM_FROZEN;
    }
    if flags.wants_coverage {
        bits |= POSEIDON_SHIM_WANTS_COVERAGE;
    }
    bits
}

const fn flags_from_bits(bits: u8) -> Option<shim::Flags> {
    if bits > 7 {
        return None;
    }
    Some(shim::Flags {
        incomplete: bits & POSEIDON_SHIM_INCOMPLETE != 0,
        frozen: bits & POSEIDON_SHIM_FROZEN != 0,
        wants_coverage: bits & POSEIDON_SHIM_WANTS_COVERAGE != 0,
    })
}

/// Parses the shim at the start of a UDP payload.
///
/// # Safety
///
/// bytes must be null or point to size bytes; parsed must be null or point to a poseidon_shim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_shim_parse(
    bytes: *const u8,
    size: usize,
    parsed: *mut poseidon_shim,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let bytes = unsafe { border::bytes(bytes, size) };
    status(bytes.and_then(|bytes| {
        let repr = shim::Repr::parse(bytes)?;
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(parsed, poseidon_shim::from_repr(&repr)) }
    }))
}

/// Writes a shim, as the sender does. A struct of zeros is a new shim.
///
/// # Safety
///
/// bytes must be null or point to size bytes; header must be null or point to a poseidon_shim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_shim_emit(
    header: *const poseidon_shim,
    bytes: *mut u8,
    size: usize,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let header = unsafe { border::read_plain(header) };
    status(header.and_then(|header| {
        let repr = header.to_repr()?;
        // SAFETY: the caller guarantees the buffer.
        let bytes = unsafe { border::bytes_mut(bytes, size) }?;
        Ok(repr.emit(bytes)?)
    }))
}

/// Changes a shim in place and corrects the UDP checksum.
///
/// # Safety
///
/// `bytes` must be null or point to `size` bytes; `udp_checksum` must be null or point to two bytes outside of them.
unsafe fn change_shim<'a>(
    bytes: *mut u8,
    size: usize,
    udp_checksum: *mut u8,
    change: impl FnOnce(&mut shim::Packet<&'a mut [u8]>) -> Delta,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let bytes = unsafe { border::bytes_mut(bytes, size) };
    status(bytes.and_then(|bytes| {
        let mut packet = shim::Packet::new_checked(bytes)?;
        if !packet.is_supported_version() {
            return Err(Failure::BadVersion);
        }
        let delta = change(&mut packet);
        // SAFETY: the caller guarantees the checksum.
        unsafe { apply(delta, udp_checksum, POSEIDON_CHECKSUM_UDP) }
    }))
}

/// Updates a shim in place at a switch that measured delay_ns, and corrects the UDP checksum.
///
/// A frozen shim stays unchanged. udp_checksum: the two bytes of the checksum in the packet, or null.
///
/// # Safety
///
/// bytes must be null or point to size bytes; udp_checksum must be null or point to two bytes outside of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_shim_stamp(
    bytes: *mut u8,
    size: usize,
    delay_ns: u64,
    step_log2: u8,
    udp_checksum: *mut u8,
) -> poseidon_status {
    let delay = Nanos::new(delay_ns);
    // SAFETY: the caller guarantees the pointers.
    unsafe { change_shim(bytes, size, udp_checksum, |packet| packet.update(delay, &scale(step_log2))) }
}

/// Sets the flag POSEIDON_SHIM_INCOMPLETE in place at a switch that could not measure its delay.
///
/// # Safety
///
/// As for poseidon_shim_stamp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_shim_mark_incomplete(
    bytes: *mut u8,
    size: usize,
    udp_checksum: *mut u8,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointers.
    unsafe { change_shim(bytes, size, udp_checksum, shim::Packet::mark_incomplete) }
}

/// Sets the flag POSEIDON_SHIM_FROZEN in place at a switch that trims or copies the packet.
///
/// # Safety
///
/// As for poseidon_shim_stamp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_shim_freeze(
    bytes: *mut u8,
    size: usize,
    udp_checksum: *mut u8,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointers.
    unsafe { change_shim(bytes, size, udp_checksum, shim::Packet::freeze) }
}

/// Converts a shim to the signal that it carries.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_shim_signal(
    header: *const poseidon_shim,
    step_log2: u8,
    signal: *mut poseidon_max_hop_delay,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let header = unsafe { border::read_plain(header) };
    status(header.and_then(|header| {
        let found = poseidon_max_hop_delay::from_signal(header.to_repr()?.telemetry(&scale(step_log2)));
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(signal, found) }
    }))
}

/// Converts a signal to the shim that carries it.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_shim_from_signal(
    signal: *const poseidon_max_hop_delay,
    step_log2: u8,
    header: *mut poseidon_shim,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let signal = unsafe { border::read_plain(signal) };
    status(signal.and_then(|signal| {
        let repr = shim::Repr::from_telemetry(signal.to_signal(), &scale(step_log2));
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(header, poseidon_shim::from_repr(&repr)) }
    }))
}

impl poseidon_reflection {
    const fn from_repr(repr: &reflection::Repr) -> Self {
        Self {
            flags: flag_bits(repr.flags),
            hops_seen: repr.hops_seen,
            int_hops: repr.int_hops,
            reserved: 0,
            max_hop_delay: repr.max_hop_delay,
        }
    }

    const fn to_repr(self) -> Result<reflection::Repr, Failure> {
        match flags_from_bits(self.flags) {
            Some(flags) if self.reserved == 0 => Ok(reflection::Repr {
                flags,
                hops_seen: self.hops_seen,
                int_hops: self.int_hops,
                max_hop_delay: self.max_hop_delay,
            }),
            _ => Err(Failure::UnknownFlags),
        }
    }
}

/// Creates the block that a receiver returns for a packet that arrived with this shim and this TTL.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_reflection_of_shim(
    header: *const poseidon_shim,
    received_ttl: u8,
    initial_ttl: u8,
    block: *mut poseidon_reflection,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let header = unsafe { border::read_plain(header) };
    status(header.and_then(|header| {
        let repr = reflection::Repr::reflect(&header.to_repr()?, received_ttl, initial_ttl);
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(block, poseidon_reflection::from_repr(&repr)) }
    }))
}

/// Parses a reflection block.
///
/// # Safety
///
/// bytes must be null or point to size bytes; parsed must be null or point to a poseidon_reflection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_reflection_parse(
    bytes: *const u8,
    size: usize,
    parsed: *mut poseidon_reflection,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let bytes = unsafe { border::bytes(bytes, size) };
    status(bytes.and_then(|bytes| {
        let repr = reflection::Repr::parse(bytes)?;
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(parsed, poseidon_reflection::from_repr(&repr)) }
    }))
}

/// Writes a reflection block. Counts above 15 are written as 15.
///
/// # Safety
///
/// bytes must be null or point to size bytes; block must be null or point to a poseidon_reflection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_reflection_emit(
    block: *const poseidon_reflection,
    bytes: *mut u8,
    size: usize,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let block = unsafe { border::read_plain(block) };
    status(block.and_then(|block| {
        let repr = block.to_repr()?;
        // SAFETY: the caller guarantees the buffer.
        let bytes = unsafe { border::bytes_mut(bytes, size) }?;
        Ok(repr.emit(bytes)?)
    }))
}

/// Converts a reflection block to the signal that it carries.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_reflection_signal(
    block: *const poseidon_reflection,
    step_log2: u8,
    signal: *mut poseidon_max_hop_delay,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let block = unsafe { border::read_plain(block) };
    status(block.and_then(|block| {
        let found = poseidon_max_hop_delay::from_signal(block.to_repr()?.telemetry(&scale(step_log2)));
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(signal, found) }
    }))
}

/// Returns how many of the hops on the path measured their delay: one of the POSEIDON_COVERAGE_... constants, or an
/// error.
///
/// # Safety
///
/// block must be null or point to a poseidon_reflection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_reflection_coverage(block: *const poseidon_reflection) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let block = unsafe { border::read_plain(block) };
    match block.and_then(poseidon_reflection::to_repr) {
        Ok(repr) => match repr.coverage() {
            reflection::Coverage::None => POSEIDON_COVERAGE_NONE,
            reflection::Coverage::Partial => POSEIDON_COVERAGE_PARTIAL,
            reflection::Coverage::Full => POSEIDON_COVERAGE_FULL,
            reflection::Coverage::Unknown => POSEIDON_COVERAGE_UNKNOWN,
        },
        Err(failure) => failure.code(),
    }
}
