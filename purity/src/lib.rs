//! The core crates without an operating system: every law and every format behind C functions, nothing else.
//!
//! Linked without `std`, without `alloc` and without a C library. The panic handler calls a function that does not exist,
//! so a path that can panic shows up as an undefined symbol.
#![no_std]

use poseidon_laws::{Ack, AnyLaw, AnyParams, Loss, Pacing, Path};
use poseidon_types::{BitRate, Bytes, HopPath, HopRecord, MaxHopDelay, Nanos, Signals, Wrap};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::int_hop::{Hop, Units};
use poseidon_wire::ioam_node::Node;
use poseidon_wire::{bare16, csig, hpcc, hpcc_ns3, int_md, ioam, powertcp, reflection, shim, tcp_option};

unsafe extern "C" {
    /// Nobody defines it.
    fn poseidon_core_can_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never runs; if it is linked at all, the check fails.
    unsafe { poseidon_core_can_panic() }
}

/// Runs law number `which` for one ACK, a loss and a timeout; its window.
#[unsafe(no_mangle)]
pub extern "C" fn poseidon_law(which: usize, numbers: &[u64; 16], hops: &[HopRecord; 8]) -> u64 {
    let Some(info) = poseidon_laws::LAWS.get(which) else { return 0 };
    let Some(params) = AnyParams::of(info.name) else { return 0 };
    let path = Path {
        mtu: Bytes::new(numbers[0]),
        line_rate: BitRate::from_bps(numbers[1]),
        base_rtt: Nanos::new(numbers[2]),
    };
    let Ok(mut law) = params.build(&path, Signals::ALL) else { return 0 };
    drive(&mut law, numbers, hops);
    let decision = law.decision();
    decision.window.q24()
        ^ match decision.pacing {
            Pacing::Off => 0,
            Pacing::Gap(gap) => gap.get(),
            Pacing::Rate(rate) => rate.get(),
        }
}

fn drive(law: &mut AnyLaw, numbers: &[u64; 16], hops: &[HopRecord; 8]) {
    let wrap = Wrap { at: Nanos::new(numbers[3]), sent: Bytes::new(numbers[4]) };
    let ack = Ack {
        now: Nanos::new(numbers[5]),
        rtt: Nanos::new(numbers[6]),
        packets: u32::try_from(numbers[7]).unwrap_or(u32::MAX),
        bytes: Bytes::new(numbers[8]),
        marked: Bytes::new(numbers[9]),
        acked_seq: numbers[10],
        next_seq: numbers[11],
        max_hop_delay: Some(Nanos::new(numbers[12])),
        reverse_max_hop_delay: Some(Nanos::new(numbers[13])),
        hops: HopPath { records: hops, wrap },
        endpoint_delay: Nanos::new(numbers[14]),
        circuit_up: numbers[15] & 1 != 0,
        app_limited: numbers[15] & 2 != 0,
        chance: 7,
        hop_count: 5,
    };
    law.on_ack(&ack);
    law.on_loss(&Loss { now: ack.now });
    law.on_timeout(ack.now);
}

/// Sets a parameter of a law from text; whether it was understood.
///
/// # Safety
/// `text` must point at `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_set(which: usize, text: *const u8, len: usize) -> bool {
    // SAFETY: the caller's promise.
    let text = unsafe { core::slice::from_raw_parts(text, len) };
    let (Some(info), Ok(text)) = (poseidon_laws::LAWS.get(which), core::str::from_utf8(text)) else {
        return false;
    };
    let Some(mut params) = AnyParams::of(info.name) else { return false };
    info.params.iter().any(|row| params.set(row.name, text).is_ok())
}

/// Reads and updates the bytes as every format; a sum of what they say.
///
/// # Safety
/// `bytes` must point at `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_wire(bytes: *mut u8, len: usize, hop: &HopRecord) -> u64 {
    // SAFETY: the caller's promise.
    let bytes = unsafe { core::slice::from_raw_parts_mut(bytes, len) };
    let delay = Nanos::new(hop.at.get());
    let mut told = 0u64;
    let mut tell = |signal: MaxHopDelay| told ^= signal.worst.get();
    if let Ok(mut packet) = shim::Packet::new_checked(&mut *bytes) {
        let change = packet.update(delay, &shim::SCALE).and(packet.mark_incomplete()).and(packet.freeze());
        tell(
            shim::QUANTISER.carry_hops([delay, Nanos::new(u64::from(change.at(1).apply_udp(7)))].into_iter()),
        );
    }
    if let Ok(repr) = shim::Repr::parse(bytes) {
        tell(repr.telemetry(&shim::SCALE));
        let _ = repr.emit(bytes);
        let _ = reflection::Repr::reflect(&repr, 60, 64).emit(bytes);
    }
    if let Ok(repr) = reflection::Repr::parse(bytes) {
        tell(repr.telemetry(&shim::SCALE));
        tell(reflection::QUANTISER.carry(repr.telemetry(&shim::SCALE)));
    }
    if let Ok(mut packet) = bare16::Packet::new_checked(&mut *bytes) {
        let _ = packet.update(delay, &bare16::SCALE).and(packet.update_truncating(delay));
    }
    if let Ok(repr) = bare16::Repr::parse(bytes) {
        tell(bare16::quantiser(3).carry(repr.telemetry(&bare16::SCALE, 3)));
        let _ = repr.emit(bytes);
    }
    let ids = tcp_option::Ids::default();
    if let Some(option) = tcp_option::find(bytes, ids).and_then(|at| bytes.get_mut(at..)) {
        if let Ok(mut packet) = tcp_option::Packet::new_checked(&mut *option, ids) {
            let _ = packet.update(delay, &tcp_option::SCALE);
        }
        if let Ok(repr) = tcp_option::Repr::parse(option, ids) {
            tell(tcp_option::quantiser(3).carry(repr.telemetry(&tcp_option::SCALE, 3)));
            tell(repr.echo_telemetry(&tcp_option::SCALE, 3).unwrap_or_default());
            let _ = repr.echoing(&repr).emit(option);
        }
    }
    use csig::Layout as Tag;
    for layout in [Tag::CompactDraft, Tag::CompactUec, Tag::ExpandedDraft, Tag::WideUec] {
        if let Ok(mut packet) = csig::Packet::new_checked(&mut *bytes, layout, 0x9900) {
            let _ = packet.update(9, 3);
            packet.mark_trimmed();
        }
        if let Ok(repr) = csig::Repr::parse(bytes, layout, 0x9900) {
            let _ = repr.emit(bytes);
            tell(repr.telemetry(&shim::SCALE, 3).unwrap_or_default());
        }
    }
    let codec = Codec::new(Layout::Paper);
    if let Ok(mut packet) = hpcc::Packet::new_checked(&mut *bytes) {
        let _ = packet.push(hop, 7, &codec);
        let _ = packet.hop_stack(&codec).map(|stack| stack.as_slice().len());
    }
    if let Ok(repr) = hpcc::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    let codec = Codec::new(Layout::Ns3);
    if let Ok(mut packet) = hpcc_ns3::Packet::new_checked(&mut *bytes) {
        let _ = packet.push(hop, &codec);
        let _ = packet.hop_stack(&codec).map(|stack| stack.as_slice().len());
        let _ = codec.carry(hop);
    }
    if let Ok(repr) = hpcc_ns3::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    if let Ok(mut packet) = powertcp::Packet::new_checked(&mut *bytes, powertcp::DEFAULT_KIND) {
        let _ = packet.push(hop, 7, &codec);
        let _ = packet.hop_stack(&codec).map(|stack| stack.as_slice().len());
    }
    if let Ok(repr) = powertcp::Repr::parse(bytes, powertcp::DEFAULT_KIND) {
        let _ = repr.emit(bytes);
    }
    let units = Units::NANOS_AND_BYTES;
    if let Ok(mut packet) = int_md::Packet::new_checked(&mut *bytes) {
        let _ = packet.push(&Hop::measured(7, delay, hop, &units));
        tell(int_md::quantiser(&units, 3, 5).carry(packet.telemetry(&units)));
        let _ = packet.hop_stack(&units, |_| Some(hop.rate)).map(|stack| stack.as_slice().len());
    }
    if let Ok(repr) = int_md::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    if let Ok(mut packet) = ioam::Packet::new_checked(&mut *bytes) {
        let _ = packet.update(&Node::default());
        tell(ioam::quantiser(3).carry(packet.telemetry()));
        tell(packet.queue_telemetry(|_| Some(hop.rate)));
    }
    if let Ok(repr) = ioam::Repr::parse(bytes) {
        let _ = repr.emit(bytes);
    }
    told
}

unsafe extern "C" {
    fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32;
}

/// The compiler writes `bcmp` for a `memcmp` of which only equality is asked.
///
/// # Safety
/// As `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, len) }
}
