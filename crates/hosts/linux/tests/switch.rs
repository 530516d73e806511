//! Tests that the router changes packets exactly like the Rust code for the wire formats. Each packet passes through
//! `bpf/switch.bpf.c` in the kernel and through `poseidon-wire`.

mod packets;

use packets::{
    Offsets, TCP, UDP, checksum_offset, corrupt, datagram_with_shim, find_offsets, has_valid_checksum,
    packet_count, segment_with_option, word_at,
};
use poseidon_linux::switch::{Counts, Offline};
use poseidon_testkit::SplitMix64;
use poseidon_types::Nanos;
use poseidon_wire::checksum::Delta;
use poseidon_wire::{shim, tcp_option};

/// A buffer size that is large enough for every packet in these tests.
const BUFFER: usize = 2_048;

/// Needs root, so `cargo test` ignores this test; `.ci/linux` runs it.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn router_stamps_packets_like_the_rust_formats() {
    let packets = packet_count(100_000);
    let router = Offline::load().unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(1);
    let (mut changed, mut raised) = (0, 0);
    for number in 0..packets {
        let delay = random_delay(&mut rng);
        router.set_delay(delay, true).unwrap_or_else(|error| panic!("{error}"));
        let packet =
            if number % 2 == 0 { segment_with_option(&mut rng) } else { datagram_with_shim(&mut rng) };
        let written = pass_through(&router, &packet);
        let expected = expected_packet(&packet, delay);
        assert!(
            are_equal(&packet, &written, &expected),
            "packet {number}: {}",
            describe(&packet, &written, &expected)
        );
        let offsets = find_offsets(&packet).expect("the packet is valid");
        let valid = [&packet, &written].map(|bytes| has_valid_checksum(bytes, &offsets));
        assert_eq!(valid, [true; 2], "packet {number}: {}", describe(&packet, &written, &expected));
        changed += u64::from(written != packet);
        // In a TCP segment, only the delay changes, so any difference counts.
        let field = if offsets.protocol == TCP {
            0..packet.len()
        } else {
            offsets.transport + 10..offsets.transport + 12
        };
        raised += u64::from(written[field.clone()] != packet[field]);
    }
    let (counts, delays) = router.stats().unwrap_or_else(|error| panic!("{error}"));
    println!("{packets} packets, {changed} changed: {counts:?}");
    assert_eq!(counts.tcp_stamped, packets / 2);
    assert_eq!(counts.udp_stamped + counts.frozen, packets / 2);
    assert_eq!(delays.count(), packets);
    assert_eq!(counts.raised, raised);
    assert!(changed > packets / 2 && raised > packets / 5, "{changed} {raised}");
}

/// The router leaves malformed packets unchanged, and no packet can crash it.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn a_million_malformed_packets_are_handled_as_in_rust() {
    let packets = packet_count(1_000_000);
    let router = Offline::load().unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(2);
    let (mut changed, mut delay) = (0, 0);
    for number in 0..packets {
        if number % 1_000 == 0 {
            delay = random_delay(&mut rng);
            router.set_delay(delay, true).unwrap_or_else(|error| panic!("{error}"));
        }
        let mut packet =
            if number % 2 == 0 { segment_with_option(&mut rng) } else { datagram_with_shim(&mut rng) };
        corrupt(&mut rng, &mut packet);
        let written = pass_through(&router, &packet);
        let expected = expected_packet(&packet, delay);
        assert!(
            are_equal(&packet, &written, &expected),
            "packet {number}: {}",
            describe(&packet, &written, &expected)
        );
        changed += u64::from(written != packet);
    }
    let (counts, _) = router.stats().unwrap_or_else(|error| panic!("{error}"));
    println!("{packets} malformed packets, {changed} changed, all like the formats: {counts:?}");
    assert_eq!(counts.packets(), packets);
    let Counts { not_ip, malformed, fragments, other_protocol, no_option, no_shim, frozen, .. } = counts;
    let reasons = [not_ip, malformed, fragments, other_protocol, no_option, no_shim, frozen];
    assert!(reasons.iter().all(|count| *count > packets / 500), "{counts:?}");
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn router_only_measures_with_stamps_off() {
    let router = Offline::load().unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(3);
    router.set_delay(1_000_000, false).unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..1_000 {
        let packet = segment_with_option(&mut rng);
        assert_eq!(pass_through(&router, &packet), packet);
    }
    let (counts, delays) = router.stats().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((counts.switched_off, counts.packets(), counts.raised), (1_000, 1_000, 0));
    assert_eq!(delays.mean(), Some(Nanos::from_millis(1)));
}

/// Prints the cost without checking a bound, because the machine may be busy.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn print_cost_per_packet() {
    let router = Offline::load().unwrap_or_else(|error| panic!("{error}"));
    router.set_delay(1_000_000, true).unwrap_or_else(|error| panic!("{error}"));
    let flow = packets::Flow {
        is_v6: false,
        source: 1,
        destination: 2,
        source_port: 3,
        destination_port: 4,
        ecn: 0,
    };
    let mut rng = SplitMix64::new(5);
    let mut option = [0; 20];
    option[..12].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
    tcp_option::Repr::default().emit(&mut option[12..]).expect("the buffer is large enough");
    let mut shim_bytes = [0; 4];
    shim::Repr::default().emit(&mut shim_bytes).expect("the buffer is large enough");
    let to_shim_port = packets::Flow { destination_port: shim::DEFAULT_UDP_PORT, ..flow };
    let table = [
        ("TCP with the option, not raised", flow.frame(&mut rng, TCP, &flow.tcp(&option, 0x10, &[0; 1_000]))),
        ("TCP without", flow.frame(&mut rng, TCP, &flow.tcp(&[], 0x10, &[0; 1_000]))),
        (
            "UDP with the shim, written",
            flow.frame(&mut rng, UDP, &to_shim_port.udp(&[&shim_bytes[..], &[0; 1_000]].concat())),
        ),
        ("UDP without", flow.frame(&mut rng, UDP, &flow.udp(&[0; 1_000]))),
    ];
    for (name, packet) in table {
        let mut best = Nanos::MAX;
        for _ in 0..10 {
            let (_, time) =
                router.run(&packet, &mut [0; BUFFER], 100_000).unwrap_or_else(|error| panic!("{error}"));
            best = best.min(time);
        }
        println!("{name}: {best}");
    }
    println!(
        "{} instructions verified",
        router.verified_instructions().unwrap_or_else(|error| panic!("{error}"))
    );
}

/// Returns the packet as the router forwards it.
fn pass_through(router: &Offline, packet: &[u8]) -> Vec<u8> {
    let mut output = [0; BUFFER];
    let (length, _) =
        router.run(packet, &mut output, 1).unwrap_or_else(|error| panic!("{error}: {packet:02x?}"));
    output[..length].to_vec()
}

/// Returns the reference: the packet as stamped by the Rust code for the wire formats.
fn expected_packet(packet: &[u8], delay: u32) -> Vec<u8> {
    let mut expected = packet.to_vec();
    let delay = Nanos::new(u64::from(delay));
    if let Some(offsets) = find_offsets(packet) {
        let _ = if offsets.protocol == TCP {
            stamp_tcp(&mut expected, &offsets, delay)
        } else {
            stamp_udp(&mut expected, &offsets, delay)
        };
    }
    expected
}

fn stamp_tcp(packet: &mut [u8], offsets: &Offsets, delay: Nanos) -> Option<()> {
    let segment = packet.get_mut(offsets.transport..offsets.end)?;
    let header = usize::from(segment.get(..20)?[12] >> 4) * 4;
    let options = segment.get_mut(20..header)?;
    let offset = tcp_option::find(options, tcp_option::Ids::default())?;
    let mut option =
        tcp_option::Packet::new_checked(&mut options[offset..], tcp_option::Ids::default()).ok()?;
    let delta = option.update(delay, &tcp_option::SCALE).at_offset(offset);
    update_checksum(segment, TCP, |sum| delta.apply(sum));
    Some(())
}

fn stamp_udp(packet: &mut [u8], offsets: &Offsets, delay: Nanos) -> Option<()> {
    let datagram = packet.get_mut(offsets.transport..offsets.end)?;
    let length = usize::from(word_at(datagram, 4)?);
    let fits = length <= datagram.len() || offsets.is_first_fragment;
    if word_at(datagram, 2)? != shim::DEFAULT_UDP_PORT || length < 12 || !fits {
        return None;
    }
    let delta = shim::Packet::new_checked(datagram.get_mut(8..)?).ok()?.update(delay, &shim::SCALE);
    update_checksum(datagram, UDP, |sum| if delta == Delta::NONE { sum } else { delta.apply_udp(sum) });
    Some(())
}

fn update_checksum(transport: &mut [u8], protocol: u8, update: impl Fn(u16) -> u16) {
    let checksum = checksum_offset(protocol);
    let sum = update(word_at(transport, checksum).expect("the header is complete"));
    transport[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns whether the packets are equal. A checksum of 0 may become 0xffff, because both represent zero in ones'
/// complement.
fn are_equal(packet: &[u8], written: &[u8], expected: &[u8]) -> bool {
    if written == expected {
        return true;
    }
    let Some(offsets) = find_offsets(packet) else { return false };
    let checksum = offsets.transport + checksum_offset(offsets.protocol);
    let is_zero = |sum| matches!(sum, Some(0 | 0xffff));
    let mut written = written.to_vec();
    if offsets.protocol == TCP && is_zero(word_at(&written, checksum)) && is_zero(word_at(expected, checksum))
    {
        written[checksum..checksum + 2].copy_from_slice(&expected[checksum..checksum + 2]);
    }
    written == expected
}

fn random_delay(rng: &mut SplitMix64) -> u32 {
    let random = rng.next_u64() >> 32;
    let short = rng.below(20_000_000);
    u32::try_from(*rng.pick(&[0, 255, 256, 25_600, (1 << 24) - 1, 1 << 24, short, short, random]))
        .expect("all values have 32 bits")
}

fn describe(packet: &[u8], written: &[u8], expected: &[u8]) -> String {
    format!(
        "{:?}\npacket   {packet:02x?}\nwritten  {written:02x?}\nexpected {expected:02x?}",
        find_offsets(packet)
    )
}
