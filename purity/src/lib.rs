//! C functions that call every control law and every wire format, linked without an operating system.
//!
//! The object is linked without `std`, `alloc` or a C library. The panic handler calls an undefined function, so a
//! reachable panic appears as an undefined symbol.
#![no_std]

use poseidon_laws::{Ack, AnyLaw, AnyParams, Law, Loss, Pacing, Path, Timeout, Trim};
use poseidon_types::{
    BitRate, Bytes, CounterWrap, HopPath, HopRecord, HopStack, MaxHopDelay, Nanos, Signals,
};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::int_hop::{Hop, Units};
use poseidon_wire::ioam_node::Node;
use poseidon_wire::{bare16, csig, hpcc, hpcc_ns3, int_md, ioam, powertcp, reflection, shim, tcp_option};

unsafe extern "C" {
    /// This function is never defined.
    fn poseidon_core_can_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: this code never runs. If it is linked, `purity/check` fails.
    unsafe { poseidon_core_can_panic() }
}

/// Runs the law with this index for one ACK, a loss and a timeout. Returns a hash of its decision.
#[unsafe(no_mangle)]
pub extern "C" fn poseidon_law(law_index: usize, numbers: &[u64; 16], hops: &[HopRecord; 8]) -> u64 {
    let Some(info) = poseidon_laws::LAWS.get(law_index) else { return 0 };
    let Some(params) = AnyParams::for_law(info.name) else { return 0 };
    let path = Path {
        mtu: Bytes::new(numbers[0]),
        line_rate: BitRate::from_bps(numbers[1]),
        base_rtt: Nanos::new(numbers[2]),
    };
    let Ok(mut law) = params.build(&path, Signals::ALL) else { return 0 };
    run_events(&mut law, numbers, hops);
    let decision = law.decision();
    decision.window.q24()
        ^ match decision.pacing {
            Pacing::Off => 0,
            Pacing::Gap(gap) => gap.get(),
            Pacing::Rate(rate) => rate.get(),
        }
}

fn run_events(law: &mut AnyLaw, numbers: &[u64; 16], hops: &[HopRecord; 8]) {
    let wrap = CounterWrap { timestamp: Nanos::new(numbers[3]), sent: Bytes::new(numbers[4]) };
    let ack = Ack {
        now: Nanos::new(numbers[5]),
        rtt: Nanos::new(numbers[6]),
        packets: u32::try_from(numbers[7]).unwrap_or(u32::MAX),
        bytes: Bytes::new(numbers[8]),
        marked: Bytes::new(numbers[9]),
        in_flight: Bytes::new(numbers[8]),
        rtt_ambiguous: numbers[15] & 4 != 0,
        acked_seq: numbers[10],
        next_seq: numbers[11],
        max_hop_delay: Some(Nanos::new(numbers[12])),
        reverse_max_hop_delay: Some(Nanos::new(numbers[13])),
        hops: HopPath { records: hops, wrap },
        endpoint_delay: Nanos::new(numbers[14]),
        circuit_up: numbers[15] & 1 != 0,
        app_limited: numbers[15] & 2 != 0,
        random: 7,
        hop_count: 5,
    };
    law.on_ack(&ack);
    law.on_loss(&Loss { now: ack.now });
    law.on_timeout(&Timeout { now: ack.now, bytes: ack.bytes });
    law.on_trim(&Trim {
        now: ack.now,
        bytes: ack.bytes,
        in_flight: ack.in_flight,
        last_hop: ack.app_limited,
        rtt: Some(ack.rtt),
    });
}

/// Sets a law parameter from text. Returns whether the text is valid.
///
/// # Safety
///
/// `text` must point to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_set(law_index: usize, text: *const u8, len: usize) -> bool {
    // SAFETY: the caller guarantees `len` bytes.
    let text = unsafe { core::slice::from_raw_parts(text, len) };
    let (Some(info), Ok(text)) = (poseidon_laws::LAWS.get(law_index), core::str::from_utf8(text)) else {
        return false;
    };
    let Some(mut params) = AnyParams::for_law(info.name) else { return false };
    info.params.iter().any(|row| params.set(row.name, text).is_ok())
}

/// Parses and updates the bytes in every format. Returns a hash of the telemetry.
///
/// # Safety
///
/// `bytes` must point to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_wire(bytes: *mut u8, len: usize, hop: &HopRecord) -> u64 {
    // SAFETY: the caller guarantees `len` bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(bytes, len) };
    run_delay_formats(bytes, hop)
        ^ run_csig(bytes)
        ^ run_record_formats(bytes, hop)
        ^ run_metadata_formats(bytes, hop)
}

/// Runs this project's formats: shim, reflection block, 16-bit header and TCP option.
fn run_delay_formats(bytes: &mut [u8], hop: &HopRecord) -> u64 {
    let delay = Nanos::new(hop.timestamp.get());
    let mut hash = 0;
    let mut add = |signal: MaxHopDelay| hash ^= signal.worst.get();
    if let Ok(mut packet) = shim::Packet::new_checked(&mut *bytes) {
        let delta =
            packet.update(delay, &shim::SCALE).combine(packet.mark_incomplete()).combine(packet.freeze());
        add(shim::QUANTISER
            .quantise_hops([delay, Nanos::new(u64::from(delta.at_offset(1).apply_udp(7)))].into_iter()));
    }
    if let Ok(repr) = shim::Repr::parse(bytes) {
        add(repr.telemetry(&shim::SCALE));
        let _ = repr.emit(bytes);
        let _ = reflection::Repr::reflect(&repr, 60, 64).emit(bytes);
    }
    if let Ok(repr) = reflection::Repr::parse(bytes) {
        add(repr.telemetry(&shim::SCALE));
        add(reflection::QUANTISER.quantise(repr.telemetry(&shim::SCALE)));
    }
    if let Ok(mut packet) = bare16::Packet::new_checked(&mut *bytes) {
        let _ = packet.update(delay, &bare16::SCALE).combine(packet.update_truncating(delay));
    }
    if let Ok(repr) = bare16::Repr::parse(bytes) {
        add(bare16::quantiser(3).quantise(repr.telemetry(&bare16::SCALE, 3)));
        let _ = repr.emit(bytes);
    }
    let ids = tcp_option::Ids::default();
    if let Some(option) = tcp_option::find(bytes, ids).and_then(|offset| bytes.get_mut(offset..)) {
        if let Ok(mut packet) = tcp_option::Packet::new_checked(&mut *option, ids) {
            let _ = packet.update(delay, &tcp_option::SCALE);
        }
        if let Ok(repr) = tcp_option::Repr::parse(option, ids) {
            add(tcp_option::quantiser(3).quantise(repr.telemetry(&tcp_option::SCALE, 3)));
            add(repr.echo_telemetry(&tcp_option::SCALE, 3).unwrap_or_default());
            let _ = repr.with_echo_of(&repr).emit(option);
        }
    }
    hash
}

/// Runs the four CSIG tags.
fn run_csig(bytes: &mut [u8]) -> u64 {
    let mut hash = 0;
    let mut add = |signal: MaxHopDelay| hash ^= signal.worst.get();
    for layout in csig::Layout::ALL {
        if let Ok(mut packet) = csig::Packet::new_checked(&mut *bytes, layout, 0x9900) {
            let _ = packet.update(9, 3);
            packet.mark_trimmed();
        }
        if let Ok(repr) = csig::Repr::parse(bytes, layout, 0x9900) {
            let _ = repr.emit(bytes);
            add(repr.telemetry(&shim::SCALE, 3).unwrap_or_default());
        }
    }
    hash
}

/// Runs the formats with hop records: HPCC, HPCC in ns-3 and PowerTCP.
fn run_record_formats(bytes: &mut [u8], hop: &HopRecord) -> u64 {
    let mut hash = 0;
    let mut add = |stack: Result<HopStack, poseidon_wire::Error>| {
        hash ^= stack.map_or(0, |stack| stack.as_slice().len() as u64);
    };
    let codec = Codec::new(Layout::Paper);
    if let Ok(mut packet) = hpcc::Packet::new_checked(&mut *bytes) {
        let _ = packet.push(hop, 7, &codec);
        add(packet.hop_stack(&codec));
    }
    if let Ok(repr) = hpcc::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    let codec = Codec::new(Layout::Ns3);
    if let Ok(mut packet) = hpcc_ns3::Packet::new_checked(&mut *bytes) {
        let _ = packet.push(hop, &codec);
        add(packet.hop_stack(&codec));
        let _ = codec.quantise(hop);
    }
    if let Ok(repr) = hpcc_ns3::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    if let Ok(mut packet) = powertcp::Packet::new_checked(&mut *bytes, powertcp::DEFAULT_KIND) {
        let _ = packet.push(hop, 7, &codec);
        add(packet.hop_stack(&codec));
    }
    if let Ok(repr) = powertcp::Repr::parse(bytes, powertcp::DEFAULT_KIND) {
        let _ = repr.emit(bytes);
    }
    hash
}

/// Runs P4-INT and IOAM.
fn run_metadata_formats(bytes: &mut [u8], hop: &HopRecord) -> u64 {
    let delay = Nanos::new(hop.timestamp.get());
    let mut hash = 0;
    let mut add = |signal: MaxHopDelay| hash ^= signal.worst.get();
    let units = Units::NANOS_AND_BYTES;
    if let Ok(mut packet) = int_md::Packet::new_checked(&mut *bytes) {
        let _ = packet.push(&Hop::from_measurement(7, delay, hop, &units));
        add(int_md::quantiser(&units, 3, 5).quantise(packet.telemetry(&units)));
        let _ = packet.hop_stack(&units, |_| Some(hop.rate)).map(|stack| stack.as_slice().len());
    }
    if let Ok(repr) = int_md::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    if let Ok(mut packet) = ioam::Packet::new_checked(&mut *bytes) {
        let _ = packet.update(&Node::default());
        add(ioam::quantiser(3).quantise(packet.telemetry()));
        add(packet.queue_telemetry(|_| Some(hop.rate)));
    }
    if let Ok(repr) = ioam::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    hash
}

unsafe extern "C" {
    fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32;
}

/// The compiler calls `bcmp` instead of `memcmp` if it needs only equality.
///
/// # Safety
///
/// The caller must meet the requirements of `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the caller satisfies the requirements of `memcmp`.
    unsafe { memcmp(a, b, len) }
}
