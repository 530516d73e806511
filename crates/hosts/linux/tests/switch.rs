//! The router writes what the formats in Rust write, and nothing else: packets go through `bpf/switch.bpf.c` in the kernel, one by
//! one, and through `wire`.

mod packets;

use packets::{Place, TCP, UDP, checksum_at, is_sum_right, place, spoil, with_option, with_shim, word_at};
use poseidon_linux::switch::{Counts, Offline};
use poseidon_testkit::SplitMix64;
use poseidon_types::Nanos;
use poseidon_wire::checksum::Delta;
use poseidon_wire::{shim, tcp_option};

/// Longer than any packet here.
const ROOM: usize = 2_048;

/// Not among what `cargo test` runs, because it needs root; `.ci/linux` runs it, or says why it does not.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn the_router_writes_what_the_formats_write() {
    let router = Offline::load().unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(1);
    let (mut changed, mut raised) = (0, 0);
    for number in 0..100_000 {
        let delay = any_delay(&mut rng);
        router.set_delay(delay, true).unwrap_or_else(|error| panic!("{error}"));
        let packet = if number % 2 == 0 { with_option(&mut rng) } else { with_shim(&mut rng) };
        let written = through(&router, &packet);
        let expected = by_wire(&packet, delay);
        assert!(
            is_same(&packet, &written, &expected),
            "packet {number}: {}",
            show(&packet, &written, &expected)
        );
        let place = place(&packet).expect("it is sound");
        let sums = [&packet, &written].map(|bytes| is_sum_right(bytes, &place));
        assert_eq!(sums, [true; 2], "packet {number}: {}", show(&packet, &written, &expected));
        changed += u64::from(written != packet);
        // Where the delay is: anywhere in TCP, whose only change it is.
        let field =
            if place.protocol == TCP { 0..packet.len() } else { place.transport + 10..place.transport + 12 };
        raised += u64::from(written[field.clone()] != packet[field]);
    }
    let (counts, delays) = router.stats().unwrap_or_else(|error| panic!("{error}"));
    println!("100000 packets, {changed} changed: {counts:?}");
    assert_eq!(counts.tcp_stamped, 50_000);
    assert_eq!(counts.udp_stamped + counts.frozen, 50_000);
    assert_eq!(delays.count(), 100_000);
    assert_eq!(counts.raised, raised);
    assert!(changed > 50_000 && raised > 20_000, "{changed} {raised}");
}

/// Also the test that a packet is left alone where it lies about itself, and that nothing can hurt the router.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn a_million_hostile_packets_change_nothing_that_they_should_not() {
    const PACKETS: u64 = 1_000_000;
    let router = Offline::load().unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(2);
    let (mut changed, mut delay) = (0, 0);
    for number in 0..PACKETS {
        if number % 1_000 == 0 {
            delay = any_delay(&mut rng);
            router.set_delay(delay, true).unwrap_or_else(|error| panic!("{error}"));
        }
        let mut packet = if number % 2 == 0 { with_option(&mut rng) } else { with_shim(&mut rng) };
        spoil(&mut rng, &mut packet);
        let written = through(&router, &packet);
        let expected = by_wire(&packet, delay);
        assert!(
            is_same(&packet, &written, &expected),
            "packet {number}: {}",
            show(&packet, &written, &expected)
        );
        changed += u64::from(written != packet);
    }
    let (counts, _) = router.stats().unwrap_or_else(|error| panic!("{error}"));
    println!("{PACKETS} hostile packets, {changed} changed, all as the formats would: {counts:?}");
    assert_eq!(counts.packets(), PACKETS);
    let Counts { not_ip, malformed, fragments, other_protocol, no_option, no_shim, frozen, .. } = counts;
    let reasons = [not_ip, malformed, fragments, other_protocol, no_option, no_shim, frozen];
    assert!(reasons.iter().all(|packets| *packets > PACKETS / 500), "{counts:?}");
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn switched_off_it_measures_and_writes_nothing() {
    let router = Offline::load().unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(3);
    router.set_delay(1_000_000, false).unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..1_000 {
        let packet = with_option(&mut rng);
        assert_eq!(through(&router, &packet), packet);
    }
    let (counts, delays) = router.stats().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((counts.switched_off, counts.packets(), counts.raised), (1_000, 1_000, 0));
    assert_eq!(delays.mean(), Some(Nanos::from_millis(1)));
}

/// Printed, and not held to a bound: the machine may be busy.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn what_a_packet_costs() {
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
    let mut plain = SplitMix64::new(5);
    let mut option = [0; 20];
    option[..12].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
    tcp_option::Repr::default().emit(&mut option[12..]).expect("fits");
    let mut shim_bytes = [0; 4];
    shim::Repr::default().emit(&mut shim_bytes).expect("fits");
    let ours = packets::Flow { destination_port: shim::DEFAULT_UDP_PORT, ..flow };
    let table = [
        (
            "TCP with the option, not raised",
            flow.frame(&mut plain, TCP, &flow.tcp(&option, 0x10, &[0; 1_000])),
        ),
        ("TCP without", flow.frame(&mut plain, TCP, &flow.tcp(&[], 0x10, &[0; 1_000]))),
        (
            "UDP with the shim, written",
            flow.frame(&mut plain, UDP, &ours.udp(&[&shim_bytes[..], &[0; 1_000]].concat())),
        ),
        ("UDP without", flow.frame(&mut plain, UDP, &flow.udp(&[0; 1_000]))),
    ];
    for (name, packet) in table {
        let mut best = Nanos::MAX;
        for _ in 0..10 {
            let (_, took) =
                router.run(&packet, &mut [0; ROOM], 100_000).unwrap_or_else(|error| panic!("{error}"));
            best = best.min(took);
        }
        println!("{name}: {best}");
    }
    println!(
        "{} instructions verified",
        router.verified_instructions().unwrap_or_else(|error| panic!("{error}"))
    );
}

/// What the router makes of a packet.
fn through(router: &Offline, packet: &[u8]) -> Vec<u8> {
    let mut room = [0; ROOM];
    let (length, _) =
        router.run(packet, &mut room, 1).unwrap_or_else(|error| panic!("{error}: {packet:02x?}"));
    room[..length].to_vec()
}

/// What the formats make of it: the reference.
fn by_wire(packet: &[u8], delay: u32) -> Vec<u8> {
    let mut expected = packet.to_vec();
    let delay = Nanos::new(u64::from(delay));
    if let Some(place) = place(packet) {
        let _ = if place.protocol == TCP {
            stamp_tcp(&mut expected, &place, delay)
        } else {
            stamp_udp(&mut expected, &place, delay)
        };
    }
    expected
}

fn stamp_tcp(packet: &mut [u8], place: &Place, delay: Nanos) -> Option<()> {
    let segment = packet.get_mut(place.transport..place.end)?;
    let header = usize::from(segment.get(..20)?[12] >> 4) * 4;
    let options = segment.get_mut(20..header)?;
    let at = tcp_option::find(options, tcp_option::Ids::default())?;
    let mut option = tcp_option::Packet::new_checked(&mut options[at..], tcp_option::Ids::default()).ok()?;
    let delta = option.update(delay, &tcp_option::SCALE).at(at);
    repair(segment, TCP, |sum| delta.apply(sum));
    Some(())
}

fn stamp_udp(packet: &mut [u8], place: &Place, delay: Nanos) -> Option<()> {
    let datagram = packet.get_mut(place.transport..place.end)?;
    let length = usize::from(word_at(datagram, 4)?);
    let fits = length <= datagram.len() || place.is_first_fragment;
    if word_at(datagram, 2)? != shim::DEFAULT_UDP_PORT || length < 12 || !fits {
        return None;
    }
    let delta = shim::Packet::new_checked(datagram.get_mut(8..)?).ok()?.update(delay, &shim::SCALE);
    repair(datagram, UDP, |sum| if delta == Delta::NONE { sum } else { delta.apply_udp(sum) });
    Some(())
}

fn repair(transport: &mut [u8], protocol: u8, new: impl Fn(u16) -> u16) {
    let at = checksum_at(protocol);
    let sum = new(word_at(transport, at).expect("in the header"));
    transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Equal, but that a wrong checksum of all zeros may become one of all ones: in ones' complement both are zero.
fn is_same(packet: &[u8], written: &[u8], expected: &[u8]) -> bool {
    if written == expected {
        return true;
    }
    let Some(place) = place(packet) else { return false };
    let at = place.transport + checksum_at(place.protocol);
    let zero = |sum| matches!(sum, Some(0 | 0xffff));
    let mut written = written.to_vec();
    if place.protocol == TCP && zero(word_at(&written, at)) && zero(word_at(expected, at)) {
        written[at..at + 2].copy_from_slice(&expected[at..at + 2]);
    }
    written == expected
}

fn any_delay(rng: &mut SplitMix64) -> u32 {
    let any = rng.next_u64() >> 32;
    let short = rng.below(20_000_000);
    u32::try_from(*rng.pick(&[0, 255, 256, 25_600, (1 << 24) - 1, 1 << 24, short, short, any]))
        .expect("32 bits")
}

fn show(packet: &[u8], written: &[u8], expected: &[u8]) -> String {
    format!("{:?}\npacket   {packet:02x?}\nwritten  {written:02x?}\nexpected {expected:02x?}", place(packet))
}
