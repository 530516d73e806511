//! The telemetry formats that carry a record per hop: HPCC's stack and P4-INT in embed-data mode.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

use crate::border::{self, status};
use crate::error::{Failure, poseidon_status};
use crate::structs::{POSEIDON_MAX_HOPS, poseidon_hop, poseidon_max_hop_delay};
use crate::telemetry::{POSEIDON_CHECKSUM_UDP, apply};
use poseidon_types::{BitRate, HopStack, Nanos};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::int_hop::{Hop, Units};
use poseidon_wire::int_md::PushOutcome;
use poseidon_wire::quantiser::TimeUnit;
use poseidon_wire::{hpcc, int_md};

/// The records of a packet, in the form that poseidon_ack takes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct poseidon_hop_stack {
    /// The records, first hop first.
    pub hops: [poseidon_hop; 8],
    /// The number of records.
    pub count: u32,
    /// 1 if the packet had more records than fit, else 0.
    pub overflow: u32,
    /// The modulus of timestamp_ns, for hop_wrap_timestamp_ns. Zero means 2^64.
    pub wrap_timestamp_ns: u64,
    /// The modulus of sent_bytes, for hop_wrap_sent_bytes. Zero means 2^64.
    pub wrap_sent_bytes: u64,
}

const _: () = assert!(size_of::<[poseidon_hop; POSEIDON_MAX_HOPS]>() == size_of::<[poseidon_hop; 8]>());

impl poseidon_hop_stack {
    fn new(stack: &HopStack, wrap: poseidon_types::CounterWrap) -> Self {
        let mut result = Self {
            overflow: u32::from(stack.overflowed()),
            wrap_timestamp_ns: wrap.timestamp.get(),
            wrap_sent_bytes: wrap.sent.get(),
            ..Self::default()
        };
        for (slot, record) in result.hops.iter_mut().zip(stack.as_slice()) {
            *slot = poseidon_hop::from_record(record);
            result.count += 1;
        }
        result
    }
}

/// Appends a switch's record to HPCC's stack (figure 7 of the paper) in place, and corrects a checksum.
///
/// The packet grows by 8 bytes: the caller makes room for them after the stack before the call and updates the length
/// fields of the outer headers. size: the bytes up to the end of that room. checksum: the two bytes of the checksum in
/// the packet, or null. kind: one of the POSEIDON_CHECKSUM_... constants. The rate must be one of HPCC's: 25, 40, 50,
/// 100, 200 or 400 Gbps.
///
/// # Safety
///
/// bytes must be null or point to size bytes; hop must be null or point to a poseidon_hop; checksum must be null or
/// point to two bytes outside of the stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_hpcc_stamp(
    bytes: *mut u8,
    size: usize,
    hop: *const poseidon_hop,
    switch_id: u16,
    checksum: *mut u8,
    kind: u32,
) -> poseidon_status {
    if kind > POSEIDON_CHECKSUM_UDP {
        return Failure::UnknownFlags.code();
    }
    // SAFETY: the caller guarantees the struct.
    let hop = unsafe { border::read_plain(hop) };
    status(hop.and_then(|hop| {
        // SAFETY: the caller guarantees the buffer.
        let bytes = unsafe { border::bytes_mut(bytes, size) }?;
        let codec = Codec::new(Layout::Paper);
        let delta = hpcc::Packet::new_checked(bytes)?.push(&hop.to_record(), switch_id, &codec)?;
        // SAFETY: the caller guarantees the checksum.
        unsafe { apply(delta, checksum, kind) }
    }))
}

/// Parses HPCC's stack. The records carry wrapping counters, and their moduli come with them.
///
/// # Safety
///
/// bytes must be null or point to size bytes; stack must be null or point to a poseidon_hop_stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_hpcc_parse(
    bytes: *const u8,
    size: usize,
    stack: *mut poseidon_hop_stack,
) -> poseidon_status {
    // SAFETY: the caller guarantees the buffer.
    let bytes = unsafe { border::bytes(bytes, size) };
    status(bytes.and_then(|bytes| {
        let codec = Codec::new(Layout::Paper);
        let records = hpcc::Packet::new_checked(bytes)?.hop_stack(&codec)?;
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(stack, poseidon_hop_stack::new(&records, codec.wrap())) }
    }))
}

/// The units of a P4-INT device. Headers do not carry them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_int_units {
    /// The tick of the hop latency in ns: 1 for Tofino, 1000 for bmv2. Zero means 2^-32 s.
    pub latency_tick_ns: u32,
    /// The tick of the timestamps in ns. Zero means 2^-32 s.
    pub timestamp_tick_ns: u32,
    /// The unit of the queue occupancy in bytes: 1, or the cell size.
    pub queue_unit_bytes: u32,
    /// The unit of the transmit field in bytes.
    pub transmitted_unit_bytes: u32,
}

impl poseidon_int_units {
    const fn to_units(self) -> Units {
        const fn tick(nanos: u32) -> TimeUnit {
            match nanos {
                0 => TimeUnit::SecondOver2Pow32,
                nanos => TimeUnit::Nanos(nanos),
            }
        }
        Units {
            latency: tick(self.latency_tick_ns),
            timestamp: tick(self.timestamp_tick_ns),
            queue_bytes: self.queue_unit_bytes,
            transmitted_bytes: self.transmitted_unit_bytes,
        }
    }
}

/// The line rate of a node's ports, which P4-INT headers do not carry.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_node_rate {
    /// The node's ID.
    pub node_id: u32,
    /// Zero.
    pub reserved: u32,
    /// The line rate.
    pub rate_bps: u64,
}

/// Pushes a hop's metadata onto a P4-INT stack in place (version 2.1, embed data), and corrects a checksum.
///
/// Returns the number of bytes by which the packet grew; the caller updates the length fields of the outer headers. The
/// stack grows into the free space at the end of the buffer, so size includes that space. If the packet's hop limit or
/// its space is exhausted, the function says so in the packet and returns POSEIDON_ERROR_HOP_LIMIT or
/// POSEIDON_ERROR_NO_SPACE. hop: the port's state, whose rate is not written. checksum and kind: as for
/// poseidon_hpcc_stamp.
///
/// # Safety
///
/// bytes must be null or point to size bytes; the other pointers must be null or valid; checksum must point outside of
/// the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_int_md_stamp(
    bytes: *mut u8,
    size: usize,
    node_id: u32,
    delay_ns: u64,
    hop: *const poseidon_hop,
    units: *const poseidon_int_units,
    checksum: *mut u8,
    kind: u32,
) -> poseidon_status {
    if kind > POSEIDON_CHECKSUM_UDP {
        return Failure::UnknownFlags.code();
    }
    // SAFETY: the caller guarantees the struct.
    let hop = unsafe { border::read_plain(hop) };
    // SAFETY: the caller guarantees the struct.
    let units = unsafe { border::read_plain(units) };
    let result = hop.and_then(|hop| {
        let units = units?.to_units();
        // SAFETY: the caller guarantees the buffer.
        let bytes = unsafe { border::bytes_mut(bytes, size) }?;
        let hop = Hop::from_measurement(node_id, Nanos::new(delay_ns), &hop.to_record(), &units);
        let (result, delta) = match int_md::Packet::new_checked(bytes)?.push(&hop) {
            PushOutcome::Pushed { bytes, delta } => {
                (i32::try_from(bytes).map_err(|_| Failure::Format), delta)
            }
            PushOutcome::HopLimitExceeded { delta } => (Err(Failure::HopLimit), delta),
            PushOutcome::MtuExceeded { delta } => (Err(Failure::NoSpace), delta),
            PushOutcome::NothingRequested => return Ok(0),
            _ => return Err(Failure::Format),
        };
        // SAFETY: the caller guarantees the checksum.
        unsafe { apply(delta, checksum, kind) }?;
        result
    });
    result.unwrap_or_else(Failure::code)
}

/// Converts a P4-INT stack to the largest hop latency.
///
/// # Safety
///
/// bytes must be null or point to size bytes; the other pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_int_md_signal(
    bytes: *const u8,
    size: usize,
    units: *const poseidon_int_units,
    signal: *mut poseidon_max_hop_delay,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let units = unsafe { border::read_plain(units) };
    status(units.and_then(|units| {
        // SAFETY: the caller guarantees the buffer.
        let bytes = unsafe { border::bytes(bytes, size) }?;
        let found = int_md::Packet::new_checked(bytes)?.telemetry(&units.to_units());
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(signal, poseidon_max_hop_delay::from_signal(found)) }
    }))
}

/// Converts a P4-INT stack with the instructions of HPCC++ (0xd500) to hop records.
///
/// rates: the line rates of the nodes, in any order. A packet with a hop that is not in the table, or that lacks a
/// field, is refused with POSEIDON_ERROR_INCOMPLETE.
///
/// # Safety
///
/// bytes must be null or point to size bytes; rates must be null or point to rate_count entries; the other pointers must
/// be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_int_md_parse(
    bytes: *const u8,
    size: usize,
    units: *const poseidon_int_units,
    rates: *const poseidon_node_rate,
    rate_count: usize,
    stack: *mut poseidon_hop_stack,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let units = unsafe { border::read_plain(units) };
    status(units.and_then(|units| {
        let units = units.to_units();
        // SAFETY: the caller guarantees the table.
        let rates = unsafe { border::table(rates, rate_count) }?;
        // SAFETY: the caller guarantees the buffer.
        let bytes = unsafe { border::bytes(bytes, size) }?;
        let rate_of_node = |node_id| {
            let entry = rates.iter().find(|entry| entry.node_id == node_id)?;
            Some(BitRate::from_bps(entry.rate_bps))
        };
        let records =
            int_md::Packet::new_checked(bytes)?.hop_stack(&units, rate_of_node).ok_or(Failure::Incomplete)?;
        // SAFETY: the caller guarantees the struct.
        unsafe { border::write_plain(stack, poseidon_hop_stack::new(&records, units.hop_scale().wrap())) }
    }))
}
