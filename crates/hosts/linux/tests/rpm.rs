//! Reverse marking in the kernel: every hit of `CoDel` comes back on an ACK of its flow, and no other bit of any packet changes.

mod packets;

use packets::{Flow, TCP, UDP, byte, is_sum_right, place, spoil, with_option, with_shim, word_at};
use poseidon_linux::codel::Codel;
use poseidon_linux::rpm::{Direction, Offline};
use poseidon_policies::mark::CodelTofino;
use poseidon_testkit::SplitMix64;
use poseidon_types::Nanos;
use std::collections::BTreeMap;

/// Longer than any packet here.
const ROOM: usize = 2_048;

const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const TARGET: u32 = 1_000_000;

/// With an interval of 200 us, in which the kernel is handed some packets; a mark waits as long as it takes.
fn router(direction: Direction) -> Offline {
    with_patience(direction, Nanos::MAX)
}

fn with_patience(direction: Direction, patience: Nanos) -> Offline {
    let target = Nanos::new(u64::from(TARGET));
    let codel = Codel::Tofino(CodelTofino { target, interval: Nanos::from_micros(200) });
    Offline::load(&codel, direction, patience).unwrap_or_else(|error| panic!("{error}"))
}

/// Not among what `cargo test` runs, because it needs root; `.ci/linux` runs it, or says why it does not.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn every_hit_comes_back_on_an_ack_of_its_flow() {
    for direction in [Direction::ReversePerFlow, Direction::ReversePerPort] {
        let mut router = router(direction);
        // 64 flows of which no two share a counter; one seed in thirty has a pair that does.
        let mut rng = SplitMix64::new(11);
        let flows: Vec<Flow> =
            (0..64).map(|_| Flow { ecn: 1 + byte(&mut rng) % 3, ..Flow::random(&mut rng) }).collect();
        // What must be waiting: by flow, or in one place.
        let mut waits = BTreeMap::<usize, u64>::new();
        let (mut hits, mut marks, mut forward) = (0, 0, 0);
        for number in 0..50_000 {
            if number % 100 == 0 {
                let delay = *rng.pick(&[TARGET - 1, TARGET, 5 * TARGET]);
                router.set_delay(delay).unwrap_or_else(|error| panic!("{error}"));
            }
            let at = rng.index(flows.len());
            let here = if direction == Direction::ReversePerFlow { at } else { 0 };
            if rng.below(3) > 0 {
                let data = frame(&mut rng, flows[at], ACK);
                let before = counts(&router);
                let written = out(&router, &data);
                let after = counts(&router);
                if let Some(waiting) = waits.get_mut(&here) {
                    assert_eq!(written, data, "the mark does not go with the packet");
                    *waiting += after.mark_waits - before.mark_waits;
                    hits += after.mark_waits - before.mark_waits;
                } else {
                    // Nothing has come back yet.
                    let mut expected = data;
                    if after.marked_forward > before.marked_forward {
                        set_ce(&mut expected);
                        forward += 1;
                    }
                    assert_eq!(written, expected);
                }
            } else {
                let flags = *rng.pick(&[ACK, ACK, ACK | 8, ACK | ECE, ACK | 1, 2, ACK | 2, ACK | 4, 4]);
                let ack = frame(&mut rng, flows[at].back(), flags);
                let is_ack = flags & ACK != 0 && flags & 6 == 0;
                let waiting = waits.entry(here).or_default();
                let marked = u64::from(is_ack && *waiting > 0);
                *waiting -= marked;
                marks += marked;
                assert_ece(&ack, &into(&router, &ack), marked == 1);
            }
        }
        println!("{direction}: {hits} hits, {marks} marks, {forward} forward: {:?}", counts(&router));
        assert_eq!((counts(&router).decisions(), counts(&router).ack_marked), (hits + forward, marks));
        assert_eq!(counts(&router).waiting(), waits.values().sum::<u64>());
        assert!(hits > 500 && marks > 500, "{hits} hits, {marks} marks");
        for (at, waiting) in waits {
            for _ in 0..waiting {
                let ack = frame(&mut rng, flows[at].back(), ACK);
                assert_ece(&ack, &into(&router, &ack), true);
            }
        }
        assert_eq!((counts(&router).ack_marked, counts(&router).waiting()), (hits, 0));
    }
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn a_mark_that_nobody_fetches_is_forgotten() {
    let mut router = with_patience(Direction::ReversePerFlow, Nanos::from_millis(20));
    router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(12);
    let flow = Flow { ecn: 1, ..Flow::random(&mut rng) };
    let (data, ack) = (frame(&mut rng, flow, ACK), frame(&mut rng, flow.back(), ACK));
    // The way back must have been seen lately.
    while counts(&router).mark_waits < 3 {
        let syn_ack = frame(&mut rng, flow.back(), ACK | 2);
        assert_eq!(into(&router, &syn_ack), syn_ack);
        let _ = out(&router, &data);
    }
    #[expect(clippy::disallowed_methods, reason = "the router goes by the kernel's clock")]
    std::thread::sleep(core::time::Duration::from_millis(50));
    // Not seen for too long: forward. And what waited is gone.
    let before = counts(&router);
    while counts(&router).marked_forward == before.marked_forward {
        let _ = out(&router, &data);
    }
    assert_eq!(into(&router, &ack), ack);
    let counts = counts(&router);
    assert_eq!((counts.mark_waits, counts.forgotten), (3, 3));
    assert_eq!((counts.ack_marked, counts.ack_passed, counts.waiting()), (0, 1, 0));
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn forward_marks_are_ce_and_only_of_packets_that_speak_ecn() {
    let mut router = router(Direction::Forward);
    router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(8);
    let mut marks = 0;
    for number in 0..20_000 {
        let packet = if number % 2 == 0 { with_option(&mut rng) } else { with_shim(&mut rng) };
        let before = counts(&router);
        let written = out(&router, &packet);
        let hit = counts(&router).marked_forward > before.marked_forward;
        marks += u64::from(hit);
        let ecn = ecn(&packet);
        assert!(ecn != 0 || !hit, "packet {number} does not speak ECN");
        let mut expected = packet.clone();
        if hit {
            set_ce(&mut expected);
        }
        assert_eq!(written, expected, "packet {number}");
    }
    println!("{marks} marks forward: {:?}", counts(&router));
    assert!(marks > 100, "{marks}");
}

/// A mark for what is no TCP goes forward even here.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn what_no_ack_can_carry_goes_forward() {
    let mut router = router(Direction::ReversePerFlow);
    router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(9);
    let flow = Flow { ecn: 2, ..Flow::random(&mut rng) };
    let packet = flow.frame(&mut rng, UDP, &flow.udp(&[0; 100]));
    for _ in 0..5_000 {
        let _ = out(&router, &packet);
    }
    let counts = counts(&router);
    assert!(counts.marked_forward > 10 && counts.mark_waits == 0, "{counts:?}");
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn hostile_packets_change_nothing_but_the_bits_for_marks() {
    const PACKETS: u64 = 300_000;
    for direction in [Direction::Forward, Direction::ReversePerPort] {
        let mut router = router(direction);
        router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
        let mut rng = SplitMix64::new(10);
        let (mut forward, mut back) = (0, 0);
        for number in 0..PACKETS {
            let mut packet = if number % 2 == 0 { with_option(&mut rng) } else { with_shim(&mut rng) };
            spoil(&mut rng, &mut packet);
            let written = out(&router, &packet);
            if written != packet {
                forward += 1;
                let mut expected = packet.clone();
                set_ce(&mut expected);
                assert_eq!(written, expected, "packet {number}");
            }
            let written = into(&router, &packet);
            if written != packet {
                back += 1;
                assert_only_ece(&packet, &written);
            }
        }
        println!(
            "{direction}: {PACKETS} hostile packets, {forward} with CE, {back} with ECE: {:?}",
            counts(&router)
        );
        assert!(if direction == Direction::Forward { forward > 500 && back == 0 } else { back > 500 });
    }
}

/// Printed, and not held to a bound: the machine may be busy.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn what_a_packet_costs() {
    let mut router = router(Direction::ReversePerFlow);
    let mut rng = SplitMix64::new(5);
    let flow = Flow { is_v6: false, source: 1, destination: 2, source_port: 3, destination_port: 4, ecn: 2 };
    let (data, ack) = (frame(&mut rng, flow, ACK), frame(&mut rng, flow.back(), ACK));
    for (name, delay) in
        [("out, below the target", 0), ("out, above, a hit every 200 us and less", 2 * TARGET)]
    {
        router.set_delay(delay).unwrap_or_else(|error| panic!("{error}"));
        println!(
            "{name}: {}",
            best(|room| router.egress(&data, room, 100_000).unwrap_or_else(|error| panic!("{error}")).1)
        );
    }
    println!(
        "in, an ACK: {}",
        best(|room| router.ingress(&ack, room, 100_000).unwrap_or_else(|error| panic!("{error}")).1)
    );
    let [egress, ingress] = router.verified_instructions().unwrap_or_else(|error| panic!("{error}"));
    println!("{egress} and {ingress} instructions verified");
}

fn best(mut run: impl FnMut(&mut [u8]) -> Nanos) -> Nanos {
    (0..10).map(|_| run(&mut [0; ROOM])).min().expect("ten of them")
}

fn frame(rng: &mut SplitMix64, flow: Flow, flags: u8) -> Vec<u8> {
    let segment = flow.tcp(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8], flags, &[0; 33]);
    flow.frame(rng, TCP, &segment)
}

fn counts(router: &Offline) -> poseidon_linux::rpm::Counts {
    router.counts().unwrap_or_else(|error| panic!("{error}"))
}

fn out(router: &Offline, packet: &[u8]) -> Vec<u8> {
    let mut room = [0; ROOM];
    let (length, _) = router.egress(packet, &mut room, 1).unwrap_or_else(|error| panic!("{error}"));
    room[..length].to_vec()
}

fn into(router: &Offline, packet: &[u8]) -> Vec<u8> {
    let mut room = [0; ROOM];
    let (length, _) = router.ingress(packet, &mut room, 1).unwrap_or_else(|error| panic!("{error}"));
    room[..length].to_vec()
}

fn ecn(packet: &[u8]) -> u8 {
    let network = place(packet).expect("it is sound").network;
    if packet[network] >> 4 == 4 { packet[network + 1] & 3 } else { packet[network + 1] >> 4 & 3 }
}

/// CE, and IPv4's checksum by RFC 1624.
fn set_ce(packet: &mut [u8]) {
    let network = place(packet).expect("only what can be read is marked").network;
    let old = word_at(packet, network).expect("in the header");
    if packet[network] >> 4 == 6 {
        packet[network + 1] |= 0x30;
        return;
    }
    packet[network + 1] |= 3;
    let new = word_at(packet, network).expect("in the header");
    let sum = word_at(packet, network + 10).expect("in the header");
    let sum = if new == old { sum } else { poseidon_wire::checksum::Delta::word(old, new).apply(sum) };
    packet[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
}

fn assert_ece(ack: &[u8], written: &[u8], marked: bool) {
    let place = place(ack).expect("it is sound");
    let flags = place.transport + 13;
    assert_eq!(written[flags], if marked { ack[flags] | ECE } else { ack[flags] });
    assert!(is_sum_right(written, &place));
    assert_only_ece(ack, written);
}

fn assert_only_ece(packet: &[u8], written: &[u8]) {
    let Some(place) = place(packet) else {
        assert_eq!(packet, written);
        return;
    };
    let (flags, sum) = (place.transport + 13, place.transport + 16);
    assert_eq!(packet.len(), written.len());
    for at in 0..packet.len() {
        let is_ours = place.protocol == TCP && (at == flags || at == sum || at == sum + 1);
        assert!(packet[at] == written[at] || is_ours, "byte {at}");
    }
    assert!(packet == written || packet[flags] | ECE == written[flags]);
}
