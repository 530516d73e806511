//! The constants and structs of the interface, and their conversion to the types of the laws.
//!
//! The names are the same in Rust and in C. Sizes are in bytes, times in nanoseconds and rates in bits per second.

#![allow(non_camel_case_types, reason = "the names are the same in C")]

use crate::error::{Failure, Place, Report, poseidon_status};
use core::ffi::c_char;
use poseidon_laws::law::DelaySignal;
use poseidon_laws::{Ack, Decision, Pacing, Path, Timeout, Trim};
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, MaxHopDelay, Nanos, Signals};

/// The version of this interface. It increases by one with each addition. An incompatible change also changes the
/// library's soname.
pub const POSEIDON_ABI_VERSION: u32 = 2;
/// The size of poseidon_law. The state needs less: see poseidon_law_size.
pub const POSEIDON_LAW_SIZE: usize = 512;
/// An alignment that is always sufficient for poseidon_law and poseidon_flow.
pub const POSEIDON_LAW_ALIGN: usize = 8;
/// The size of poseidon_flow.
pub const POSEIDON_FLOW_SIZE: usize = 80;
/// The largest number of hop records that an ACK can carry.
pub const POSEIDON_MAX_HOPS: usize = 8;
/// The longest text that the library reads, in bytes, without the zero byte at its end.
pub const POSEIDON_MAX_TEXT: usize = 4096;
/// One packet, in the unit of windows: windows have 24 fractional bits.
pub const POSEIDON_ONE_PACKET: u64 = 16777216;
/// The number 1, in the unit of gains and factors: they have 32 fractional bits.
pub const POSEIDON_ONE: u64 = 4294967296;

/// Signal: the round-trip time of each ACK, from NIC to NIC, without the receiver's processing time.
pub const POSEIDON_SIGNAL_RTT: u32 = 1;
/// Signal: the number of acknowledged bytes that carried a congestion mark.
pub const POSEIDON_SIGNAL_ECN_ECHO: u32 = 2;
/// Signal: the largest queueing delay at any hop on the data path.
pub const POSEIDON_SIGNAL_MAX_HOP_DELAY: u32 = 4;
/// Signal: the largest queueing delay at any hop on the ACK path.
pub const POSEIDON_SIGNAL_REVERSE_MAX_HOP_DELAY: u32 = 8;
/// Signal: one record per hop on the data path.
pub const POSEIDON_SIGNAL_HOP_RECORDS: u32 = 16;
/// Signal: the time spent inside the two hosts.
pub const POSEIDON_SIGNAL_ENDPOINT_DELAY: u32 = 32;
/// Signal: the number of switches on the data path.
pub const POSEIDON_SIGNAL_HOP_COUNT: u32 = 64;
/// Signal: whether the optical circuit to the destination is up.
pub const POSEIDON_SIGNAL_CIRCUIT_STATE: u32 = 128;

const SIGNALS: [(u32, Signals); 8] = [
    (POSEIDON_SIGNAL_RTT, Signals::RTT),
    (POSEIDON_SIGNAL_ECN_ECHO, Signals::ECN_ECHO),
    (POSEIDON_SIGNAL_MAX_HOP_DELAY, Signals::MAX_HOP_DELAY),
    (POSEIDON_SIGNAL_REVERSE_MAX_HOP_DELAY, Signals::REVERSE_MAX_HOP_DELAY),
    (POSEIDON_SIGNAL_HOP_RECORDS, Signals::HOP_RECORDS),
    (POSEIDON_SIGNAL_ENDPOINT_DELAY, Signals::ENDPOINT_DELAY),
    (POSEIDON_SIGNAL_HOP_COUNT, Signals::HOP_COUNT),
    (POSEIDON_SIGNAL_CIRCUIT_STATE, Signals::CIRCUIT_STATE),
];

/// Converts the bits of C to a set of signals. Fails if a bit is unknown.
pub(crate) fn signals_from_bits(bits: u32) -> Result<Signals, Failure> {
    let known = SIGNALS.iter().fold(0, |known, (bit, _)| known | bit);
    if bits & !known != 0 {
        return Err(Failure::UnknownFlags);
    }
    let selected = SIGNALS.iter().filter(|(bit, _)| bits & bit != 0);
    Ok(selected.fold(Signals::NONE, |set, (_, signal)| set | *signal))
}

/// Converts a set of signals to the bits of C.
pub(crate) fn bits_from_signals(signals: Signals) -> u32 {
    SIGNALS.iter().filter(|(_, signal)| signals.contains(*signal)).fold(0, |bits, (bit, _)| bits | bit)
}

/// Text with a length. It is not terminated by zero: print it with "%.*s". It is valid forever.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_text {
    /// The bytes, in UTF-8. Null if there is no text.
    pub data: *const c_char,
    /// The number of bytes.
    pub size: usize,
}

impl poseidon_text {
    pub(crate) const NONE: Self = Self { data: core::ptr::null(), size: 0 };

    pub(crate) const fn new(text: &'static str) -> Self {
        Self { data: text.as_ptr().cast(), size: text.len() }
    }
}

/// What was wrong, for a person who reads a log. Pass null to functions that take it if only the code matters.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_error {
    /// sizeof(poseidon_error).
    pub struct_size: u32,
    /// The code that the function also returns.
    pub code: poseidon_status,
    /// The first byte of the parameters that caused the error.
    pub position: u32,
    /// The number of bytes of the parameters that caused the error. Zero if the parameters did not cause it.
    pub length: u32,
    /// The cause and the remedy, terminated by zero. A longer message is cut.
    pub message: [c_char; 240],
}

impl poseidon_error {
    pub(crate) const ZERO: Self = Self { struct_size: 0, code: 0, position: 0, length: 0, message: [0; 240] };

    /// Creates the struct for C.
    pub(crate) fn from_report(report: &Report) -> Self {
        let Place { position, length } = report.place;
        let mut error = Self { code: report.failure.code(), position, length, ..Self::ZERO };
        // The last byte stays zero.
        for (slot, byte) in error.message.iter_mut().zip(report.message.as_bytes().iter().take(239)) {
            *slot = (*byte).cast_signed() as c_char;
        }
        error
    }
}

/// The properties of a path that are known when the flow starts.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_path {
    /// sizeof(poseidon_path).
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// The payload of a full packet: 1 to 65535. Windows count packets of this size.
    pub mtu_bytes: u64,
    /// The sender's line rate, at least 1 Mbit/s.
    pub line_rate_bps: u64,
    /// The configured round-trip time of the unloaded path: 1 ns to 4.29 s.
    pub base_rtt_ns: u64,
}

impl poseidon_path {
    pub(crate) const ZERO: Self =
        Self { struct_size: 0, reserved: 0, mtu_bytes: 0, line_rate_bps: 0, base_rtt_ns: 0 };

    /// Converts to the laws' type.
    pub(crate) const fn to_path(self) -> Path {
        Path::new(
            Bytes::new(self.mtu_bytes),
            BitRate::from_bps(self.line_rate_bps),
            Nanos::new(self.base_rtt_ns),
        )
    }
}

/// The state of a hop's egress port when a packet leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct poseidon_hop {
    /// The dequeue time on the hop's clock. Only timestamps of the same hop are compared.
    pub timestamp_ns: u64,
    /// The number of bytes that the port has sent, without this packet.
    pub sent_bytes: u64,
    /// The port's queue, without this packet.
    pub queue_bytes: u64,
    /// The port's line rate.
    pub rate_bps: u64,
}

impl poseidon_hop {
    /// Converts to the laws' type.
    #[inline]
    pub(crate) const fn to_record(self) -> HopRecord {
        HopRecord {
            timestamp: Nanos::new(self.timestamp_ns),
            sent: Bytes::new(self.sent_bytes),
            queue: Bytes::new(self.queue_bytes),
            rate: BitRate::from_bps(self.rate_bps),
        }
    }

    /// Converts from the laws' type.
    pub(crate) const fn from_record(record: &HopRecord) -> Self {
        Self {
            timestamp_ns: record.timestamp.get(),
            sent_bytes: record.sent.get(),
            queue_bytes: record.queue.get(),
            rate_bps: record.rate.get(),
        }
    }
}

/// Flag of poseidon_ack: max_hop_delay_ns is known. Without this flag, the law ignores the field.
pub const POSEIDON_ACK_MAX_HOP_DELAY: u16 = 1;
/// Flag of poseidon_ack: reverse_max_hop_delay_ns is known.
pub const POSEIDON_ACK_REVERSE_MAX_HOP_DELAY: u16 = 2;
/// Flag of poseidon_ack: the circuit to the destination is up.
pub const POSEIDON_ACK_CIRCUIT_UP: u16 = 4;
/// Flag of poseidon_ack: the flow is application-limited. Less than half of the window was in flight.
pub const POSEIDON_ACK_APP_LIMITED: u16 = 8;

/// Flag of poseidon_ack: rtt_ns may belong to another transmission of the packet, as after a retransmission (Karn's
/// rule).
pub const POSEIDON_ACK_RTT_AMBIGUOUS: u16 = 16;

/// The flags that this library does not know.
const UNKNOWN_ACK_FLAGS: u16 = 0xffe0;

/// The first eight bytes of an ACK, as one number that a single comparison checks.
const fn ack_header(struct_size: u32, flags: u16, hop_count: u8, reserved: u8) -> u64 {
    let [a, b, c, d] = struct_size.to_ne_bytes();
    let [e, f] = flags.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, hop_count, reserved])
}

/// The bits of an ACK's first eight bytes that are the same in every ACK of this version.
pub(crate) const ACK_HEADER_MASK: u64 = ack_header(u32::MAX, UNKNOWN_ACK_FLAGS, 0, u8::MAX);
/// What these bits are.
#[expect(clippy::cast_possible_truncation, reason = "the struct is small")]
pub(crate) const ACK_HEADER: u64 = ack_header(size_of::<poseidon_ack>() as u32, 0, 0, 0);

/// An ACK and the signals that it carries. Fields of signals that the host does not supply are zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_ack {
    /// sizeof(poseidon_ack).
    pub struct_size: u32,
    /// POSEIDON_ACK_... flags.
    pub flags: u16,
    /// The number of switches on the data path.
    pub hop_count: u8,
    /// Zero.
    pub reserved: u8,
    /// When the ACK arrived, on the host's clock.
    pub now_ns: u64,
    /// The raw NIC-to-NIC round-trip time of the acknowledged packet, without the receiver's processing time.
    pub rtt_ns: u64,
    /// The number of newly acknowledged bytes.
    pub bytes: u64,
    /// The newly acknowledged bytes that carried a congestion mark.
    pub marked_bytes: u64,
    /// The cumulative acknowledgement: all bytes before this sequence number are acknowledged.
    pub acked_seq: u64,
    /// The sequence number of the next new byte to send. Laws use it to detect the end of a round trip.
    pub next_seq: u64,
    /// The largest queueing delay at any hop on the data path, if the flag says that it is known.
    pub max_hop_delay_ns: u64,
    /// The largest queueing delay at any hop on the ACK path, if the flag says that it is known.
    pub reverse_max_hop_delay_ns: u64,
    /// The time spent inside the two hosts.
    pub endpoint_delay_ns: u64,
    /// One record per hop on the data path, first hop first. Null without such telemetry. Read only during the call.
    pub hops: *const poseidon_hop,
    /// The number of records, at most POSEIDON_MAX_HOPS.
    pub hop_record_count: usize,
    /// The modulus of timestamp_ns in the records. Zero means 2^64.
    pub hop_wrap_timestamp_ns: u64,
    /// The modulus of sent_bytes in the records. Zero means 2^64.
    pub hop_wrap_sent_bytes: u64,
    /// The number of newly acknowledged packets. Zero for a duplicate ACK.
    pub packets: u32,
    /// A uniformly distributed random number, drawn for each ACK.
    pub random: u32,
    /// The bytes in flight after this ACK, without headers.
    pub in_flight_bytes: u64,
}

impl poseidon_ack {
    pub(crate) const ZERO: Self = Self {
        struct_size: 0,
        flags: 0,
        hop_count: 0,
        reserved: 0,
        now_ns: 0,
        rtt_ns: 0,
        bytes: 0,
        marked_bytes: 0,
        acked_seq: 0,
        next_seq: 0,
        max_hop_delay_ns: 0,
        reverse_max_hop_delay_ns: 0,
        endpoint_delay_ns: 0,
        hops: core::ptr::null(),
        hop_record_count: 0,
        hop_wrap_timestamp_ns: 0,
        hop_wrap_sent_bytes: 0,
        packets: 0,
        random: 0,
        in_flight_bytes: 0,
    };

    /// Checks what every law relies on, apart from the pointer to the hop records.
    pub(crate) const fn check(&self) -> Result<(), Failure> {
        if self.flags & UNKNOWN_ACK_FLAGS != 0 || self.reserved != 0 {
            return Err(Failure::UnknownFlags);
        }
        Ok(())
    }

    /// Converts to the laws' type.
    #[inline(always)]
    pub(crate) const fn event<'a>(&self, records: &'a [HopRecord]) -> Ack<'a> {
        let wrap = CounterWrap {
            timestamp: Nanos::new(self.hop_wrap_timestamp_ns),
            sent: Bytes::new(self.hop_wrap_sent_bytes),
        };
        Ack {
            now: Nanos::new(self.now_ns),
            rtt: Nanos::new(self.rtt_ns),
            packets: self.packets,
            bytes: Bytes::new(self.bytes),
            marked: Bytes::new(self.marked_bytes),
            in_flight: Bytes::new(self.in_flight_bytes),
            rtt_ambiguous: self.flags & POSEIDON_ACK_RTT_AMBIGUOUS != 0,
            acked_seq: self.acked_seq,
            next_seq: self.next_seq,
            max_hop_delay: self.delay_if(POSEIDON_ACK_MAX_HOP_DELAY, self.max_hop_delay_ns),
            reverse_max_hop_delay: self
                .delay_if(POSEIDON_ACK_REVERSE_MAX_HOP_DELAY, self.reverse_max_hop_delay_ns),
            hops: HopPath { records, wrap },
            endpoint_delay: Nanos::new(self.endpoint_delay_ns),
            hop_count: self.hop_count,
            circuit_up: self.flags & POSEIDON_ACK_CIRCUIT_UP != 0,
            app_limited: self.flags & POSEIDON_ACK_APP_LIMITED != 0,
            random: self.random,
        }
    }

    #[inline]
    const fn delay_if(&self, flag: u16, delay_ns: u64) -> Option<Nanos> {
        if self.flags & flag != 0 { Some(Nanos::new(delay_ns)) } else { None }
    }
}

/// A packet loss that starts fast recovery.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_loss {
    /// sizeof(poseidon_loss).
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// When the host detected the loss.
    pub now_ns: u64,
}

impl poseidon_loss {
    pub(crate) const ZERO: Self = Self { struct_size: 0, reserved: 0, now_ns: 0 };
}

/// Flag of poseidon_trim: the last switch before the receiver trimmed the packet.
pub const POSEIDON_TRIM_LAST_HOP: u32 = 1;
/// Flag of poseidon_trim: rtt_ns is known. Without this flag, the law ignores the field.
pub const POSEIDON_TRIM_RTT: u32 = 2;

/// A packet that a switch trimmed to its header, as the receiver's NACK reports it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_trim {
    /// sizeof(poseidon_trim).
    pub struct_size: u32,
    /// POSEIDON_TRIM_... flags.
    pub flags: u32,
    /// When the NACK arrived, on the host's clock.
    pub now_ns: u64,
    /// The trimmed payload.
    pub bytes: u64,
    /// The bytes in flight without the trimmed packet.
    pub in_flight_bytes: u64,
    /// The time from sending the packet to receiving the NACK, if the flag says that it is known.
    pub rtt_ns: u64,
}

impl poseidon_trim {
    pub(crate) const ZERO: Self =
        Self { struct_size: 0, flags: 0, now_ns: 0, bytes: 0, in_flight_bytes: 0, rtt_ns: 0 };

    /// Converts to the laws' type. Fails if a flag is unknown.
    pub(crate) const fn to_event(self) -> Result<Trim, Failure> {
        if self.flags & !(POSEIDON_TRIM_LAST_HOP | POSEIDON_TRIM_RTT) != 0 {
            return Err(Failure::UnknownFlags);
        }
        Ok(Trim {
            now: Nanos::new(self.now_ns),
            bytes: Bytes::new(self.bytes),
            in_flight: Bytes::new(self.in_flight_bytes),
            last_hop: self.flags & POSEIDON_TRIM_LAST_HOP != 0,
            rtt: if self.flags & POSEIDON_TRIM_RTT != 0 { Some(Nanos::new(self.rtt_ns)) } else { None },
        })
    }
}

/// A retransmission timeout.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_timeout {
    /// sizeof(poseidon_timeout).
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// When the timer expired, on the host's clock.
    pub now_ns: u64,
    /// The bytes that the host now considers lost, without headers. Zero if the host does not know them.
    pub bytes: u64,
}

impl poseidon_timeout {
    pub(crate) const ZERO: Self = Self { struct_size: 0, reserved: 0, now_ns: 0, bytes: 0 };

    /// Converts to the laws' type. Fails if the reserved field is not zero.
    pub(crate) const fn to_event(self) -> Result<Timeout, Failure> {
        if self.reserved != 0 {
            return Err(Failure::UnknownFlags);
        }
        Ok(Timeout { now: Nanos::new(self.now_ns), bytes: Bytes::new(self.bytes) })
    }
}

/// Pacing: none. ACKs clock the flow.
pub const POSEIDON_PACING_OFF: u32 = 0;
/// Pacing: gap_ns is the time between the starts of two consecutive packets. If the decision changes while the host
/// waits, the new gap applies, measured from the last send.
pub const POSEIDON_PACING_GAP: u32 = 1;
/// Pacing: rate_bps is the largest sending rate.
pub const POSEIDON_PACING_RATE: u32 = 2;

/// How much the host may send, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct poseidon_decision {
    /// sizeof(poseidon_decision).
    pub struct_size: u32,
    /// One of the POSEIDON_PACING_... constants.
    pub pacing: u32,
    /// How much may be in flight, in packets with 24 fractional bits: never zero, at most 2^15 packets. Below one
    /// packet (POSEIDON_ONE_PACKET), at most one packet is in flight and the pacing sets the spacing.
    pub window_q24: u64,
    /// The gap, or zero.
    pub gap_ns: u64,
    /// The rate, or zero.
    pub rate_bps: u64,
}

impl poseidon_decision {
    pub(crate) const ZERO: Self = Self { struct_size: 0, pacing: 0, window_q24: 0, gap_ns: 0, rate_bps: 0 };

    #[inline]
    pub(crate) const fn new(decision: &Decision) -> Self {
        let (pacing, gap_ns, rate_bps) = match decision.pacing {
            Pacing::Off => (POSEIDON_PACING_OFF, 0, 0),
            Pacing::Gap(gap) => (POSEIDON_PACING_GAP, gap.get(), 0),
            Pacing::Rate(rate) => (POSEIDON_PACING_RATE, 0, rate.get()),
        };
        Self { struct_size: 0, pacing, window_q24: decision.window.q24(), gap_ns, rate_bps }
    }
}

/// An ACK's delay as the law interprets it, for hosts whose flows share queues with other laws.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_delay_signal {
    /// sizeof(poseidon_delay_signal).
    pub struct_size: u32,
    /// 1 if the delay is at or below the target, else 0.
    pub within_target: u32,
    /// The delay that the law compares with its target.
    pub delay_ns: u64,
    /// The delay above which other traffic must be filling the queue.
    pub limit_ns: u64,
}

impl poseidon_delay_signal {
    pub(crate) const ZERO: Self = Self { struct_size: 0, within_target: 0, delay_ns: 0, limit_ns: 0 };

    pub(crate) fn new(signal: &DelaySignal) -> Self {
        Self {
            struct_size: 0,
            within_target: u32::from(signal.within_target),
            delay_ns: signal.delay.get(),
            limit_ns: signal.limit.get(),
        }
    }
}

/// A law's description.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_law_info {
    /// sizeof(poseidon_law_info).
    pub struct_size: u32,
    /// The number of parameters: see poseidon_param_info_get.
    pub param_count: u32,
    /// The number of presets: see poseidon_preset_info_get.
    pub preset_count: u32,
    /// The signals that the law needs with its default parameters: POSEIDON_SIGNAL_... bits.
    pub needs: u32,
    /// The size of the law's own state, without what all laws share.
    pub state_bytes: u64,
    /// The law's name.
    pub name: poseidon_text,
    /// The paper, algorithm and equations that the law implements.
    pub source: poseidon_text,
}

impl poseidon_law_info {
    pub(crate) const ZERO: Self = Self {
        struct_size: 0,
        param_count: 0,
        preset_count: 0,
        needs: 0,
        state_bytes: 0,
        name: poseidon_text::NONE,
        source: poseidon_text::NONE,
    };
}

/// A parameter's description.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_param_info {
    /// sizeof(poseidon_param_info).
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// The parameter's name. In texts, - and _ are equivalent.
    pub name: poseidon_text,
    /// The parameter's meaning and the source of its default value.
    pub description: poseidon_text,
    /// The default value, terminated by zero, in the form that poseidon_law_init parses.
    pub default_value: [c_char; 64],
}

impl poseidon_param_info {
    pub(crate) const ZERO: Self = Self {
        struct_size: 0,
        reserved: 0,
        name: poseidon_text::NONE,
        description: poseidon_text::NONE,
        default_value: [0; 64],
    };
}

/// A preset's description. A preset sets all parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_preset_info {
    /// sizeof(poseidon_preset_info).
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// The preset's name.
    pub name: poseidon_text,
    /// The source of the values.
    pub description: poseidon_text,
}

impl poseidon_preset_info {
    pub(crate) const ZERO: Self =
        Self { struct_size: 0, reserved: 0, name: poseidon_text::NONE, description: poseidon_text::NONE };
}

/// The largest queueing delay at any hop on a path, as telemetry reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct poseidon_max_hop_delay {
    /// The largest delay. It means nothing if hops is zero: a delay that no hop measured is unknown, not zero.
    pub worst_ns: u64,
    /// The number of hops that measured a delay. At most 255.
    pub hops: u8,
    /// 1 if a hop that supports telemetry could not measure its delay, else 0.
    pub incomplete: u8,
    /// 1 if the delay exceeds the format's range, so the true delay is worst_ns or more, else 0.
    pub saturated: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

impl poseidon_max_hop_delay {
    pub(crate) fn from_signal(signal: MaxHopDelay) -> Self {
        Self {
            worst_ns: signal.worst.get(),
            hops: signal.hops,
            incomplete: u8::from(signal.incomplete),
            saturated: u8::from(signal.saturated),
            reserved: [0; 5],
        }
    }

    pub(crate) const fn to_signal(self) -> MaxHopDelay {
        MaxHopDelay {
            worst: Nanos::new(self.worst_ns),
            hops: self.hops,
            incomplete: self.incomplete != 0,
            saturated: self.saturated != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_convert_both_ways() {
        for bits in 0..256 {
            assert_eq!(signals_from_bits(bits).map(bits_from_signals), Ok(bits));
        }
        assert_eq!(signals_from_bits(255), Ok(Signals::ALL));
        assert_eq!(signals_from_bits(256), Err(Failure::UnknownFlags));
    }

    #[test]
    fn constants_agree_with_the_laws() {
        assert_eq!(poseidon_types::Packets::ONE.q24(), POSEIDON_ONE_PACKET);
        assert_eq!(poseidon_types::Fraction::ONE.q32(), POSEIDON_ONE);
        assert_eq!(poseidon_types::telemetry::MAX_HOPS, POSEIDON_MAX_HOPS);
    }

    /// `examples/layout.c` asserts the same numbers in C.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn layout_is_the_one_in_the_header() {
        use core::mem::offset_of;
        assert_eq!(size_of::<poseidon_text>(), 16);
        assert_eq!((size_of::<poseidon_error>(), offset_of!(poseidon_error, message)), (256, 16));
        assert_eq!((size_of::<poseidon_path>(), offset_of!(poseidon_path, base_rtt_ns)), (32, 24));
        assert_eq!(size_of::<poseidon_hop>(), 32);
        assert_eq!((size_of::<poseidon_ack>(), offset_of!(poseidon_ack, hops)), (128, 80));
        assert_eq!((offset_of!(poseidon_ack, packets), offset_of!(poseidon_ack, random)), (112, 116));
        assert_eq!(offset_of!(poseidon_ack, in_flight_bytes), 120);
        assert_eq!(size_of::<poseidon_loss>(), 16);
        assert_eq!((size_of::<poseidon_trim>(), offset_of!(poseidon_trim, rtt_ns)), (40, 32));
        assert_eq!(size_of::<poseidon_timeout>(), 24);
        assert_eq!((size_of::<poseidon_decision>(), offset_of!(poseidon_decision, rate_bps)), (32, 24));
        assert_eq!(size_of::<poseidon_delay_signal>(), 24);
        assert_eq!((size_of::<poseidon_law_info>(), offset_of!(poseidon_law_info, source)), (56, 40));
        assert_eq!(size_of::<poseidon_param_info>(), 104);
        assert_eq!(size_of::<poseidon_preset_info>(), 40);
        assert_eq!(size_of::<poseidon_max_hop_delay>(), 16);
    }
}
