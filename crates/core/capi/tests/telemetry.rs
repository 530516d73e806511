//! The telemetry functions give the same bytes and signals as `poseidon-wire`, and keep checksums correct.

#![allow(unsafe_code, reason = "the tests call the C functions")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block calls several functions with the same arguments"
)]

use core::ptr::{null, null_mut};
use poseidon_capi::error::*;
use poseidon_capi::records::*;
use poseidon_capi::structs::*;
use poseidon_capi::telemetry::*;
use poseidon_testkit::rng::SplitMix64;
use poseidon_types::{BitRate, Bytes, HopRecord, Nanos};
use poseidon_wire::checksum::{internet, internet_udp};
use poseidon_wire::int_hop::{Instructions, Units};
use poseidon_wire::{bare16, int_md, shim, tcp_option};

#[test]
fn stamped_shim_has_the_golden_bytes_and_a_correct_checksum() {
    // A UDP header's checksum at bytes 6 and 7, then a shim and a payload.
    let mut packet = *b"\x01\x02\x03\x04\x00\x10\0\0\x10\0\0\0data";
    let sum = internet_udp(&packet).to_be_bytes();
    packet[6..8].copy_from_slice(&sum);
    let (header, payload) = packet.split_at_mut(8);
    for delay in [300, 25_700, 9_000] {
        // SAFETY: all pointers are valid.
        let status = unsafe {
            poseidon_shim_stamp(payload.as_mut_ptr(), 4, delay, POSEIDON_STEP_LOG2, header[6..].as_mut_ptr())
        };
        assert_eq!(status, POSEIDON_OK);
    }
    assert_eq!(packet[8..12], [0x10, 3, 0, 100]);
    assert_eq!(internet(&packet), 0, "the sum over data and checksum is zero");
    let (mut parsed, mut signal, mut back) =
        (poseidon_shim::default(), poseidon_max_hop_delay::default(), poseidon_shim::default());
    // SAFETY: all pointers are valid.
    unsafe {
        assert_eq!(poseidon_shim_parse(packet[8..].as_ptr(), 8, &raw mut parsed), POSEIDON_OK);
        assert_eq!(poseidon_shim_signal(&raw const parsed, POSEIDON_STEP_LOG2, &raw mut signal), POSEIDON_OK);
        assert_eq!(
            poseidon_shim_from_signal(&raw const signal, POSEIDON_STEP_LOG2, &raw mut back),
            POSEIDON_OK
        );
    }
    assert_eq!((signal.worst_ns, signal.hops, signal.saturated), (25_600, 3, 0));
    assert_eq!(parsed, back);
    let mut out = [0; 4];
    // SAFETY: all pointers are valid.
    assert_eq!(unsafe { poseidon_shim_emit(&raw const parsed, out.as_mut_ptr(), 4) }, POSEIDON_OK);
    assert_eq!(out, packet[8..12]);
    // SAFETY: all pointers are valid.
    let short = unsafe { poseidon_shim_emit(&raw const parsed, out.as_mut_ptr(), 3) };
    assert_eq!(short, POSEIDON_ERROR_TRUNCATED);
}

#[test]
fn shim_flags_and_other_versions() {
    let mut bytes = [0x10, 0, 0, 0];
    // SAFETY: all pointers are valid.
    unsafe {
        assert_eq!(poseidon_shim_mark_incomplete(bytes.as_mut_ptr(), 4, null_mut()), POSEIDON_OK);
        assert_eq!(poseidon_shim_freeze(bytes.as_mut_ptr(), 4, null_mut()), POSEIDON_OK);
        // A frozen shim stays unchanged.
        assert_eq!(poseidon_shim_stamp(bytes.as_mut_ptr(), 4, 9_000, 8, null_mut()), POSEIDON_OK);
    }
    assert_eq!(bytes, [0x1c, 0, 0, 0]);
    let mut payload = *b"GET /";
    // SAFETY: all pointers are valid.
    let status = unsafe { poseidon_shim_stamp(payload.as_mut_ptr(), 5, 9_000, 8, null_mut()) };
    assert_eq!((status, &payload), (POSEIDON_ERROR_BAD_VERSION, b"GET /"));
    let unknown = poseidon_shim { flags: 8, ..poseidon_shim::default() };
    // SAFETY: all pointers are valid.
    let status = unsafe { poseidon_shim_emit(&raw const unknown, bytes.as_mut_ptr(), 4) };
    assert_eq!(status, POSEIDON_ERROR_UNKNOWN_FLAGS);
}

#[test]
fn reflection_block_echoes_the_shim() {
    let header = poseidon_shim { flags: 0, int_hops: 3, max_hop_delay: 100 };
    let (mut block, mut parsed, mut signal, mut bytes) =
        (poseidon_reflection::default(), poseidon_reflection::default(), Default::default(), [0; 4]);
    // SAFETY: all pointers are valid.
    unsafe {
        assert_eq!(poseidon_reflection_of_shim(&raw const header, 59, 64, &raw mut block), POSEIDON_OK);
        assert_eq!(poseidon_reflection_emit(&raw const block, bytes.as_mut_ptr(), 4), POSEIDON_OK);
        assert_eq!(poseidon_reflection_parse(bytes.as_ptr(), 4, &raw mut parsed), POSEIDON_OK);
        assert_eq!(poseidon_reflection_signal(&raw const parsed, 8, &raw mut signal), POSEIDON_OK);
        assert_eq!(poseidon_reflection_coverage(&raw const parsed), POSEIDON_COVERAGE_PARTIAL);
        assert_eq!(poseidon_reflection_coverage(null()), POSEIDON_ERROR_NULL_POINTER);
    }
    // The golden vector of `poseidon_wire::reflection`.
    assert_eq!(bytes, [0x10, 0x53, 0x00, 0x64]);
    assert_eq!((block, signal.worst_ns, signal.hops), (parsed, 25_600, 3));
}

/// Random TCP option lists: the C function updates the same bytes as the Rust functions, and the checksum stays correct.
#[test]
fn stamped_tcp_option_keeps_the_checksum_correct_at_any_offset() {
    let ids = tcp_option::Ids::default();
    let (kind, exid) = (POSEIDON_TCP_OPTION_KIND, POSEIDON_TCP_OPTION_EXID);
    assert_eq!((kind, exid), (ids.kind, ids.exid));
    let mut rng = SplitMix64::new(1);
    let mut found = 0;
    for _ in 0..2_000 {
        // Twenty bytes of TCP header with the checksum at byte 16, then NOPs with the option at a random place.
        let mut packet = [1_u8; 60];
        packet[..20].fill_with(|| rng.next_u64().to_le_bytes()[0]);
        let start = 20 + rng.index(36);
        let option = [0xfd, 8, 0x50, 0x53, 0, 7, 0, 100];
        let end = (start + 8).min(60);
        packet[start..end].copy_from_slice(&option[..end - start]);
        packet[16..18].fill(0);
        let sum = internet(&packet).to_be_bytes();
        packet[16..18].copy_from_slice(&sum);
        let delay = rng.below(20_000_000);
        let (header, options) = packet.split_at_mut(20);
        let mut expected = options.to_vec();
        // SAFETY: all pointers are valid.
        let status = unsafe {
            poseidon_tcp_option_stamp(
                options.as_mut_ptr(),
                40,
                kind,
                exid,
                delay,
                8,
                header[16..].as_mut_ptr(),
            )
        };
        let mut offset = 99;
        // SAFETY: all pointers are valid.
        let is_found = unsafe { poseidon_tcp_option_find(options.as_ptr(), 40, kind, exid, &raw mut offset) };
        assert_eq!(status, is_found);
        if let Some(at) = tcp_option::find(&expected, ids) {
            let mut option = tcp_option::Packet::new_checked(&mut expected[at..], ids).expect("it was found");
            let _ = option.update(Nanos::new(delay), &tcp_option::SCALE);
            assert_eq!((status, offset), (1, at));
            found += 1;
        } else {
            assert_eq!((status, offset), (0, 99));
        }
        assert_eq!(options, expected);
        assert_eq!(internet(&packet), 0);
    }
    assert!((1_000..2_000).contains(&found), "{found}");
}

#[test]
fn tcp_option_carries_signal_and_echo() {
    let option = poseidon_tcp_option {
        kind: POSEIDON_TCP_OPTION_KIND,
        has_echo: 1,
        exid: POSEIDON_TCP_OPTION_EXID,
        max_hop_delay: 7,
        echo: 100,
    };
    let (mut bytes, mut parsed) = ([0; 8], poseidon_tcp_option::default());
    let (mut forward, mut echo) = (poseidon_max_hop_delay::default(), poseidon_max_hop_delay::default());
    // SAFETY: all pointers are valid.
    unsafe {
        assert_eq!(poseidon_tcp_option_emit(&raw const option, bytes.as_mut_ptr(), 8), POSEIDON_OK);
        let status = poseidon_tcp_option_parse(bytes.as_ptr(), 8, option.kind, option.exid, &raw mut parsed);
        assert_eq!(status, POSEIDON_OK);
        assert_eq!(poseidon_tcp_option_signal(&raw const parsed, 8, 3, &raw mut forward), POSEIDON_OK);
        assert_eq!(poseidon_tcp_option_echo_signal(&raw const parsed, 8, 3, &raw mut echo), 1);
        let silent = poseidon_tcp_option { has_echo: 0, ..parsed };
        assert_eq!(poseidon_tcp_option_echo_signal(&raw const silent, 8, 3, &raw mut echo), 0);
        let status = poseidon_tcp_option_parse(bytes.as_ptr(), 8, option.kind, 1, &raw mut parsed);
        assert_eq!(status, POSEIDON_ERROR_BAD_IDENTIFIER);
    }
    assert_eq!(bytes, [0xfd, 8, 0x50, 0x53, 0, 7, 0, 100]);
    assert_eq!((parsed, forward.worst_ns, echo.worst_ns, echo.hops), (option, 1_792, 25_600, 3));
}

#[test]
fn bare_header_and_general_checksum_update() {
    let mut packet = [0, 7, 0, 0];
    let sum = internet(&packet).to_be_bytes();
    packet[2..].copy_from_slice(&sum);
    let before = packet;
    let (header, checksum) = packet.split_at_mut(2);
    let mut signal = poseidon_max_hop_delay::default();
    // SAFETY: all pointers are valid.
    unsafe {
        let status = poseidon_bare16_stamp(
            header.as_mut_ptr(),
            2,
            25_600,
            8,
            checksum.as_mut_ptr(),
            POSEIDON_CHECKSUM_INTERNET,
        );
        assert_eq!(status, POSEIDON_OK);
        assert_eq!(poseidon_bare16_signal(header.as_ptr(), 2, 8, 3, &raw mut signal), POSEIDON_OK);
    }
    assert_eq!((packet[1], internet(&packet), signal.worst_ns), (100, 0, 25_600));
    let mut checksum = [before[2], before[3]];
    // SAFETY: all pointers are valid.
    let status = unsafe {
        poseidon_checksum_update(
            before.as_ptr(),
            packet.as_ptr(),
            2,
            0,
            checksum.as_mut_ptr(),
            POSEIDON_CHECKSUM_INTERNET,
        )
    };
    assert_eq!((status, checksum.as_slice()), (POSEIDON_OK, &packet[2..]));
    // UDP without a checksum stays without one.
    let mut none = [0, 0];
    // SAFETY: all pointers are valid.
    let status = unsafe {
        poseidon_checksum_update(
            before.as_ptr(),
            packet.as_ptr(),
            2,
            0,
            none.as_mut_ptr(),
            POSEIDON_CHECKSUM_UDP,
        )
    };
    assert_eq!((status, none), (POSEIDON_OK, [0, 0]));
    assert_eq!(bare16::SCALE, shim::SCALE);
}

static HOP: poseidon_hop = poseidon_hop {
    timestamp_ns: 0x12_3456,
    sent_bytes: 0xa_bcde * 128,
    queue_bytes: 0xf0f0 * 80,
    rate_bps: 100_000_000_000,
};

#[test]
fn hpcc_stack_has_the_golden_word() {
    let mut packet = [0_u8; 2 + 2 * 8 + 2];
    let (stack, checksum) = packet.split_at_mut(18);
    checksum.copy_from_slice(&internet(&[0, 0]).to_be_bytes());
    for switch in [5, 9] {
        // SAFETY: all pointers are valid.
        let status = unsafe {
            poseidon_hpcc_stamp(
                stack.as_mut_ptr(),
                18,
                &raw const HOP,
                switch,
                checksum.as_mut_ptr(),
                POSEIDON_CHECKSUM_INTERNET,
            )
        };
        assert_eq!(status, POSEIDON_OK);
    }
    // SAFETY: all pointers are valid.
    let full = unsafe { poseidon_hpcc_stamp(stack.as_mut_ptr(), 18, &raw const HOP, 1, null_mut(), 0) };
    assert_eq!(full, POSEIDON_ERROR_TRUNCATED);
    let mut parsed = poseidon_hop_stack::default();
    // SAFETY: all pointers are valid.
    assert_eq!(unsafe { poseidon_hpcc_parse(stack.as_ptr(), 18, &raw mut parsed) }, POSEIDON_OK);
    assert_eq!(packet[..10], [0x20, 5 ^ 9, 0x21, 0x23, 0x45, 0x6a, 0xbc, 0xde, 0xf0, 0xf0]);
    assert_eq!(internet(&packet), 0);
    assert_eq!((parsed.count, parsed.hops[1], parsed.overflow), (2, HOP, 0));
    assert_eq!((parsed.wrap_timestamp_ns, parsed.wrap_sent_bytes), (1 << 24, 1 << 27));
}

static UNITS: poseidon_int_units = poseidon_int_units {
    latency_tick_ns: 1,
    timestamp_tick_ns: 1,
    queue_unit_bytes: 1,
    transmitted_unit_bytes: 1,
};

/// Returns an empty P4-INT packet with room for `hops` hops, and its size with room.
fn int_packet(instructions: Instructions, remaining_hops: u8, hops: usize) -> Vec<u8> {
    let hop_words = u8::try_from(instructions.words()).expect("there are few words");
    let repr = int_md::Repr { hop_words, remaining_hops, instructions, ..int_md::Repr::default() };
    let mut bytes = vec![0; int_md::header_bytes(usize::from(hop_words), hops)];
    repr.emit(&mut bytes).expect("the buffer is large enough");
    bytes
}

#[test]
fn int_stack_becomes_hop_records() {
    let mut bytes = int_packet(Instructions::HPCC, 8, 2);
    let size = bytes.len();
    let hop = poseidon_hop { queue_bytes: 5_000, ..HOP };
    let stamp = |bytes: &mut [u8], node| {
        // SAFETY: all pointers are valid.
        unsafe {
            poseidon_int_md_stamp(
                bytes.as_mut_ptr(),
                bytes.len(),
                node,
                25_600,
                &raw const hop,
                &raw const UNITS,
                null_mut(),
                0,
            )
        }
    };
    assert_eq!((stamp(&mut bytes, 1), stamp(&mut bytes, 2)), (24, 24));
    assert_eq!(stamp(&mut bytes, 3), POSEIDON_ERROR_NO_SPACE);
    let mut bytes = int_packet(Instructions::HPCC, 8, 2);
    let _ = (stamp(&mut bytes, 1), stamp(&mut bytes, 2));
    let rate = |node_id, rate_bps| poseidon_node_rate { node_id, reserved: 0, rate_bps };
    let rates = [rate(2, 200_000_000_000), rate(1, 100_000_000_000)];
    let parse = |count| {
        let mut stack = poseidon_hop_stack::default();
        // SAFETY: all pointers are valid.
        let status = unsafe {
            poseidon_int_md_parse(
                bytes.as_ptr(),
                size,
                &raw const UNITS,
                rates.as_ptr(),
                count,
                &raw mut stack,
            )
        };
        (status, stack)
    };
    let (status, stack) = parse(2);
    assert_eq!((status, stack.count), (POSEIDON_OK, 2));
    assert_eq!(stack.hops[0], hop);
    assert_eq!(stack.hops[1], poseidon_hop { rate_bps: 200_000_000_000, ..hop });
    assert_eq!(parse(1).0, POSEIDON_ERROR_INCOMPLETE);
    // The same records as in Rust.
    let record = HopRecord {
        timestamp: Nanos::new(hop.timestamp_ns),
        sent: Bytes::new(hop.sent_bytes),
        queue: Bytes::new(hop.queue_bytes),
        rate: BitRate::from_gbps(100),
    };
    let packet = int_md::Packet::new_checked(&bytes[..]).expect("the header is valid");
    let expected = packet.hop_stack(&Units::NANOS_AND_BYTES, |_| Some(BitRate::from_gbps(100)));
    assert_eq!(expected.expect("all hops are complete").as_slice(), [record, record]);
}

#[test]
fn int_latency_is_the_signal_and_the_hop_limit_is_reported() {
    let mut bytes = int_packet(Instructions::LATENCY, 1, 2);
    let size = bytes.len();
    let mut signal = poseidon_max_hop_delay::default();
    // SAFETY: all pointers are valid.
    unsafe {
        let (hop, units) = (&raw const HOP, &raw const UNITS);
        assert_eq!(poseidon_int_md_stamp(bytes.as_mut_ptr(), size, 7, 900, hop, units, null_mut(), 0), 8);
        let status = poseidon_int_md_stamp(bytes.as_mut_ptr(), size, 7, 900, hop, units, null_mut(), 0);
        assert_eq!(status, POSEIDON_ERROR_HOP_LIMIT);
        assert_eq!(poseidon_int_md_signal(bytes.as_ptr(), size, units, &raw mut signal), POSEIDON_OK);
    }
    assert_eq!((signal.worst_ns, signal.hops, signal.incomplete), (900, 1, 1));
    assert_eq!((signal.worst_ns, POSEIDON_MAX_HOPS), (900, 8));
}
