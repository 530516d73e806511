//! The telemetry formats that carry a maximum hop delay: shim, reflection block, TCP option, 16-bit header.
//!
//! A switch updates a header in place. An update returns what changed as a checksum delta, and these functions apply it to
//! the checksum that covers the header, if the caller passes it: two bytes in network byte order, as in the packet.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

use crate::border::{self, status, yes_or_no};
use crate::error::{Failure, poseidon_status};
use crate::structs::poseidon_max_hop_delay;
use poseidon_types::Nanos;
use poseidon_wire::checksum::Delta;
use poseidon_wire::quantiser::LinearScale;
use poseidon_wire::{bare16, reflection, shim, tcp_option};

/// The step of the delay codes is 2^8 = 256 ns: pass this as step_log2. Slow links need a larger step, which both ends
/// and all switches must share.
pub const POSEIDON_STEP_LOG2: u8 = 8;
/// The suggested UDP destination port of packets with a shim.
pub const POSEIDON_SHIM_UDP_PORT: u16 = 65053;
/// The size of a shim.
pub const POSEIDON_SHIM_BYTES: usize = 4;
/// The size of a reflection block.
pub const POSEIDON_REFLECTION_BYTES: usize = 4;
/// The size of a TCP option.
pub const POSEIDON_TCP_OPTION_BYTES: usize = 8;
/// The size of the paper's header.
pub const POSEIDON_BARE16_BYTES: usize = 2;
/// The TCP option's kind: 253 is reserved for experiments (RFC 6994).
pub const POSEIDON_TCP_OPTION_KIND: u8 = 253;
/// The TCP option's experiment identifier.
pub const POSEIDON_TCP_OPTION_EXID: u16 = 20563;

const _: () = assert!(POSEIDON_SHIM_BYTES == shim::HEADER_BYTES);
const _: () = assert!(POSEIDON_SHIM_UDP_PORT == shim::DEFAULT_UDP_PORT);
const _: () = assert!(POSEIDON_REFLECTION_BYTES == reflection::HEADER_BYTES);
const _: () = assert!(POSEIDON_TCP_OPTION_BYTES == tcp_option::HEADER_BYTES);
const _: () = assert!(POSEIDON_BARE16_BYTES == bare16::HEADER_BYTES);

/// Checksum kind: IPv4, TCP and ICMP.
pub const POSEIDON_CHECKSUM_INTERNET: u32 = 0;
/// Checksum kind: UDP. Zero means "no checksum" and stays zero.
pub const POSEIDON_CHECKSUM_UDP: u32 = 1;

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

/// Coverage: no hop measured its delay. The sender relies on the end-to-end delay alone.
pub const POSEIDON_COVERAGE_NONE: i32 = 0;
/// Coverage: some hops measured their delay.
pub const POSEIDON_COVERAGE_PARTIAL: i32 = 1;
/// Coverage: all hops measured their delay.
pub const POSEIDON_COVERAGE_FULL: i32 = 2;
/// Coverage: unknown, because the counts are saturated or contradict each other.
pub const POSEIDON_COVERAGE_UNKNOWN: i32 = 3;

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
