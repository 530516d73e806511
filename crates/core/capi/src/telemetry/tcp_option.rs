//! The TCP option.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

use super::{POSEIDON_CHECKSUM_INTERNET, apply, scale};
use crate::border::{self, status, yes_or_no};
use crate::error::poseidon_status;
use crate::structs::poseidon_max_hop_delay;
use poseidon_types::Nanos;
use poseidon_wire::tcp_option;

/// The size of a TCP option.
pub const POSEIDON_TCP_OPTION_BYTES: usize = 8;
/// The TCP option's kind: 253 is reserved for experiments (RFC 6994).
pub const POSEIDON_TCP_OPTION_KIND: u8 = 253;
/// The TCP option's experiment identifier.
pub const POSEIDON_TCP_OPTION_EXID: u16 = 20563;

const _: () = assert!(POSEIDON_TCP_OPTION_BYTES == tcp_option::HEADER_BYTES);

/// A parsed TCP option: this packet's largest hop delay and an echo of the last one that the peer received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct poseidon_tcp_option {
    /// The option's kind: POSEIDON_TCP_OPTION_KIND.
    pub kind: u8,
    /// 1 if the option carries an echo, else 0.
    pub has_echo: u8,
    /// The experiment identifier: POSEIDON_TCP_OPTION_EXID.
    pub exid: u16,
    /// The code of this packet's largest delay, in steps of 2^step_log2 ns.
    pub max_hop_delay: u16,
    /// The code of the last delay that the peer received, if has_echo is 1.
    pub echo: u16,
}

impl poseidon_tcp_option {
    fn from_repr(repr: &tcp_option::Repr) -> Self {
        Self {
            kind: repr.ids.kind,
            has_echo: u8::from(repr.echo.is_some()),
            exid: repr.ids.exid,
            max_hop_delay: repr.max_hop_delay,
            echo: repr.echo.unwrap_or(0),
        }
    }

    fn to_repr(self) -> tcp_option::Repr {
        tcp_option::Repr {
            ids: tcp_option::Ids { kind: self.kind, exid: self.exid },
            max_hop_delay: self.max_hop_delay,
            echo: (self.has_echo != 0).then_some(self.echo),
        }
    }
}

/// Finds the option in a TCP option list, which starts at byte 20 of the TCP header. Writes its offset and returns 1, or
/// returns 0 if the option is missing or the list is malformed before it.
///
/// # Safety
///
/// options must be null or point to size bytes; offset must be null or point to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_tcp_option_find(
    options: *const u8,
    size: usize,
    kind: u8,
    exid: u16,
    offset: *mut usize,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let options = unsafe { border::bytes(options, size) };
    yes_or_no(options.and_then(|options| {
        border::check_pointer(offset)?;
        let Some(found) = tcp_option::find(options, tcp_option::Ids { kind, exid }) else { return Ok(false) };
        // SAFETY: the caller guarantees the pointer.
        unsafe { border::write_plain(offset, found) }?;
        Ok(true)
    }))
}

/// Parses the option at the start of a buffer.
///
/// # Safety
///
/// bytes must be null or point to size bytes; parsed must be null or point to a poseidon_tcp_option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_tcp_option_parse(
    bytes: *const u8,
    size: usize,
    kind: u8,
    exid: u16,
    parsed: *mut poseidon_tcp_option,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let bytes = unsafe { border::bytes(bytes, size) };
    status(bytes.and_then(|bytes| {
        let repr = tcp_option::Repr::parse(bytes, tcp_option::Ids { kind, exid })?;
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(parsed, poseidon_tcp_option::from_repr(&repr)) }
    }))
}

/// Writes an option. To echo a received option, set has_echo to 1 and echo to the received max_hop_delay; an echo of
/// 65535 is written as 65534, because 65535 means "none".
///
/// # Safety
///
/// bytes must be null or point to size bytes; option must be null or point to a poseidon_tcp_option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_tcp_option_emit(
    option: *const poseidon_tcp_option,
    bytes: *mut u8,
    size: usize,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let option = unsafe { border::read_plain(option) };
    status(option.and_then(|option| {
        // SAFETY: the caller guarantees the buffer.
        let bytes = unsafe { border::bytes_mut(bytes, size) }?;
        Ok(option.to_repr().emit(bytes)?)
    }))
}

/// Finds the option in a TCP option list, updates it in place at a switch that measured delay_ns, and corrects the TCP
/// checksum, also if the option starts at an odd byte. Returns 1, or 0 if the option is missing.
///
/// options: the list, which starts at byte 20 of the TCP header. tcp_checksum: the two bytes of the checksum, or null.
///
/// # Safety
///
/// options must be null or point to size bytes; tcp_checksum must be null or point to two bytes outside of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_tcp_option_stamp(
    options: *mut u8,
    size: usize,
    kind: u8,
    exid: u16,
    delay_ns: u64,
    step_log2: u8,
    tcp_checksum: *mut u8,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let options = unsafe { border::bytes_mut(options, size) };
    yes_or_no(options.and_then(|options| {
        let ids = tcp_option::Ids { kind, exid };
        let Some(offset) = tcp_option::find(options, ids) else { return Ok(false) };
        let option = options.get_mut(offset..).unwrap_or(&mut []);
        let mut packet = tcp_option::Packet::new_checked(option, ids)?;
        let delta = packet.update(Nanos::new(delay_ns), &scale(step_log2)).at_offset(offset);
        // SAFETY: the caller guarantees the checksum.
        unsafe { apply(delta, tcp_checksum, POSEIDON_CHECKSUM_INTERNET) }?;
        Ok(true)
    }))
}

/// Converts an option to the signal of the path that the packet took. The option has no hop count: assumed_hops is the
/// number of telemetry-capable hops on the path.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_tcp_option_signal(
    option: *const poseidon_tcp_option,
    step_log2: u8,
    assumed_hops: u8,
    signal: *mut poseidon_max_hop_delay,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let option = unsafe { border::read_plain(option) };
    status(option.and_then(|option| {
        let found = option.to_repr().telemetry(&scale(step_log2), assumed_hops);
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(signal, poseidon_max_hop_delay::from_signal(found)) }
    }))
}

/// Converts an option's echo to the signal of the path from this host to its peer, and returns 1. Returns 0 if the
/// option carries no echo. A sender gives this signal to its law.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_tcp_option_echo_signal(
    option: *const poseidon_tcp_option,
    step_log2: u8,
    assumed_hops: u8,
    signal: *mut poseidon_max_hop_delay,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let option = unsafe { border::read_plain(option) };
    yes_or_no(option.and_then(|option| {
        border::check_pointer(signal)?;
        let Some(found) = option.to_repr().echo_telemetry(&scale(step_log2), assumed_hops) else {
            return Ok(false);
        };
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(signal, poseidon_max_hop_delay::from_signal(found)) }?;
        Ok(true)
    }))
}
