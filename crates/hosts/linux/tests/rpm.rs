//! Tests reverse marking in the kernel: every `CoDel` mark returns on an ACK of its flow, and no other bit of a packet
//! changes.

mod packets;

use packets::{
    Flow, TCP, UDP, byte, corrupt, datagram_with_shim, find_offsets, has_valid_checksum, packet_count,
    segment_with_option, word_at,
};
use poseidon_linux::codel::Codel;
use poseidon_linux::rpm::{Direction, Offline};
use poseidon_policies::mark::CodelTofino;
use poseidon_testkit::SplitMix64;
use poseidon_types::Nanos;
use std::collections::BTreeMap;

/// A buffer size that is large enough for every packet in these tests.
const BUFFER: usize = 2_048;

const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const TARGET: u32 = 1_000_000;

/// Loads the programs with an interval of 200 us, during which the kernel processes several packets. Marks never
/// expire.
fn router(direction: Direction) -> Offline {
    with_mark_lifetime(direction, Nanos::MAX)
}

fn with_mark_lifetime(direction: Direction, mark_lifetime: Nanos) -> Offline {
    let target = Nanos::new(u64::from(TARGET));
    let codel = Codel::Tofino(CodelTofino { target, interval: Nanos::from_micros(200) });
    Offline::load(&codel, direction, mark_lifetime).unwrap_or_else(|error| panic!("{error}"))
}

/// Needs root, so `cargo test` ignores this test; `.ci/linux` runs it.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn every_mark_returns_on_an_ack_of_its_flow() {
    for direction in [Direction::ReversePerFlow, Direction::ReversePerPort] {
        let mut router = router(direction);
        // No two of these 64 flows share a counter. With one seed in thirty, two flows would share one.
        let mut rng = SplitMix64::new(11);
        let flows: Vec<Flow> =
            (0..64).map(|_| Flow { ecn: 1 + byte(&mut rng) % 3, ..Flow::random(&mut rng) }).collect();
        // The expected number of stored marks: per flow, or for the port.
        let mut stored = BTreeMap::<usize, u64>::new();
        let (mut decisions, mut marks, mut forward) = (0, 0, 0);
        for number in 0..50_000 {
            if number % 100 == 0 {
                let delay = *rng.pick(&[TARGET - 1, TARGET, 5 * TARGET]);
                router.set_delay(delay).unwrap_or_else(|error| panic!("{error}"));
            }
            let index = rng.index(flows.len());
            let counter = if direction == Direction::ReversePerFlow { index } else { 0 };
            if rng.below(3) > 0 {
                let data = frame(&mut rng, flows[index], ACK);
                let before = counts(&router);
                let written = run_egress(&router, &data);
                let after = counts(&router);
                if let Some(marks) = stored.get_mut(&counter) {
                    assert_eq!(written, data, "the packet itself must not be marked");
                    *marks += after.stored - before.stored;
                    decisions += after.stored - before.stored;
                } else {
                    // No ACK has been seen yet, so the packet itself is marked.
                    let mut expected = data;
                    if after.marked_forward > before.marked_forward {
                        set_ce(&mut expected);
                        forward += 1;
                    }
                    assert_eq!(written, expected);
                }
            } else {
                let flags = *rng.pick(&[ACK, ACK, ACK | 8, ACK | ECE, ACK | 1, 2, ACK | 2, ACK | 4, 4]);
                let ack = frame(&mut rng, flows[index].reverse(), flags);
                let is_ack = flags & ACK != 0 && flags & 6 == 0;
                let available = stored.entry(counter).or_default();
                let marked = u64::from(is_ack && *available > 0);
                *available -= marked;
                marks += marked;
                assert_ece(&ack, &run_ingress(&router, &ack), marked == 1);
            }
        }
        println!(
            "{direction}: {decisions} decisions, {marks} marks, {forward} forward: {:?}",
            counts(&router)
        );
        assert_eq!((counts(&router).decisions(), counts(&router).ack_marked), (decisions + forward, marks));
        assert_eq!(counts(&router).pending(), stored.values().sum::<u64>());
        assert!(decisions > 500 && marks > 500, "{decisions} decisions, {marks} marks");
        for (index, remaining) in stored {
            for _ in 0..remaining {
                let ack = frame(&mut rng, flows[index].reverse(), ACK);
                assert_ece(&ack, &run_ingress(&router, &ack), true);
            }
        }
        assert_eq!((counts(&router).ack_marked, counts(&router).pending()), (decisions, 0));
    }
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn a_mark_without_an_ack_expires() {
    let mut router = with_mark_lifetime(Direction::ReversePerFlow, Nanos::from_millis(20));
    router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(12);
    let flow = Flow { ecn: 1, ..Flow::random(&mut rng) };
    let (data, ack) = (frame(&mut rng, flow, ACK), frame(&mut rng, flow.reverse(), ACK));
    // The router stores marks only if it has recently seen a packet in the reverse direction.
    while counts(&router).stored < 3 {
        let syn_ack = frame(&mut rng, flow.reverse(), ACK | 2);
        assert_eq!(run_ingress(&router, &syn_ack), syn_ack);
        let _ = run_egress(&router, &data);
    }
    #[expect(clippy::disallowed_methods, reason = "the router uses the clock of the kernel")]
    std::thread::sleep(core::time::Duration::from_millis(50));
    // The last packet in the reverse direction is too old, so packets are marked forward. The stored marks have
    // expired.
    let before = counts(&router);
    while counts(&router).marked_forward == before.marked_forward {
        let _ = run_egress(&router, &data);
    }
    assert_eq!(run_ingress(&router, &ack), ack);
    let counts = counts(&router);
    assert_eq!((counts.stored, counts.expired), (3, 3));
    assert_eq!((counts.ack_marked, counts.ack_unmarked, counts.pending()), (0, 1, 0));
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn forward_marks_are_ce_on_ecn_capable_packets() {
    let mut router = router(Direction::Forward);
    router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(8);
    let mut marks = 0;
    for number in 0..20_000 {
        let packet =
            if number % 2 == 0 { segment_with_option(&mut rng) } else { datagram_with_shim(&mut rng) };
        let before = counts(&router);
        let written = run_egress(&router, &packet);
        let is_marked = counts(&router).marked_forward > before.marked_forward;
        marks += u64::from(is_marked);
        let ecn = ecn(&packet);
        assert!(ecn != 0 || !is_marked, "packet {number} is not ECN-capable");
        let mut expected = packet.clone();
        if is_marked {
            set_ce(&mut expected);
        }
        assert_eq!(written, expected, "packet {number}");
    }
    println!("{marks} marks forward: {:?}", counts(&router));
    assert!(marks > 100, "{marks}");
}

/// Non-TCP packets are always marked forward.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn udp_is_marked_forward() {
    let mut router = router(Direction::ReversePerFlow);
    router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
    let mut rng = SplitMix64::new(9);
    let flow = Flow { ecn: 2, ..Flow::random(&mut rng) };
    let packet = flow.frame(&mut rng, UDP, &flow.udp(&[0; 100]));
    for _ in 0..5_000 {
        let _ = run_egress(&router, &packet);
    }
    let counts = counts(&router);
    assert!(counts.marked_forward > 10 && counts.stored == 0, "{counts:?}");
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn malformed_packets_change_only_in_mark_bits() {
    let packets = packet_count(300_000);
    for direction in [Direction::Forward, Direction::ReversePerPort] {
        let mut router = router(direction);
        router.set_delay(2 * TARGET).unwrap_or_else(|error| panic!("{error}"));
        let mut rng = SplitMix64::new(10);
        let (mut forward, mut reverse) = (0, 0);
        for number in 0..packets {
            let mut packet =
                if number % 2 == 0 { segment_with_option(&mut rng) } else { datagram_with_shim(&mut rng) };
            corrupt(&mut rng, &mut packet);
            let written = run_egress(&router, &packet);
            if written != packet {
                forward += 1;
                let mut expected = packet.clone();
                set_ce(&mut expected);
                assert_eq!(written, expected, "packet {number}");
            }
            let written = run_ingress(&router, &packet);
            if written != packet {
                reverse += 1;
                assert_only_ece(&packet, &written);
            }
        }
        println!(
            "{direction}: {packets} malformed packets, {forward} with CE, {reverse} with ECE: {:?}",
            counts(&router)
        );
        let least = packets / 600;
        assert!(if direction == Direction::Forward {
            forward > least && reverse == 0
        } else {
            reverse > least
        });
    }
}

/// Prints the cost without checking a bound, because the machine may be busy.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn print_cost_per_packet() {
    let mut router = router(Direction::ReversePerFlow);
    let mut rng = SplitMix64::new(5);
    let flow = Flow { is_v6: false, source: 1, destination: 2, source_port: 3, destination_port: 4, ecn: 2 };
    let (data, ack) = (frame(&mut rng, flow, ACK), frame(&mut rng, flow.reverse(), ACK));
    for (name, delay) in
        [("egress, below the target", 0), ("egress, above it, a mark at least every 200 us", 2 * TARGET)]
    {
        router.set_delay(delay).unwrap_or_else(|error| panic!("{error}"));
        println!(
            "{name}: {}",
            fastest(|output| router
                .egress(&data, output, 100_000)
                .unwrap_or_else(|error| panic!("{error}"))
                .1)
        );
    }
    println!(
        "ingress, an ACK: {}",
        fastest(|output| router.ingress(&ack, output, 100_000).unwrap_or_else(|error| panic!("{error}")).1)
    );
    let [egress, ingress] = router.verified_instructions().unwrap_or_else(|error| panic!("{error}"));
    println!("{egress} and {ingress} instructions verified");
}

fn fastest(mut run: impl FnMut(&mut [u8]) -> Nanos) -> Nanos {
    (0..10).map(|_| run(&mut [0; BUFFER])).min().expect("there are ten runs")
}

fn frame(rng: &mut SplitMix64, flow: Flow, flags: u8) -> Vec<u8> {
    let segment = flow.tcp(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8], flags, &[0; 33]);
    flow.frame(rng, TCP, &segment)
}

fn counts(router: &Offline) -> poseidon_linux::rpm::Counts {
    router.counts().unwrap_or_else(|error| panic!("{error}"))
}

fn run_egress(router: &Offline, packet: &[u8]) -> Vec<u8> {
    let mut output = [0; BUFFER];
    let (length, _) = router.egress(packet, &mut output, 1).unwrap_or_else(|error| panic!("{error}"));
    output[..length].to_vec()
}

fn run_ingress(router: &Offline, packet: &[u8]) -> Vec<u8> {
    let mut output = [0; BUFFER];
    let (length, _) = router.ingress(packet, &mut output, 1).unwrap_or_else(|error| panic!("{error}"));
    output[..length].to_vec()
}

fn ecn(packet: &[u8]) -> u8 {
    let network = find_offsets(packet).expect("the packet is valid").network;
    if packet[network] >> 4 == 4 { packet[network + 1] & 3 } else { packet[network + 1] >> 4 & 3 }
}

/// Sets CE, and updates the IPv4 checksum (RFC 1624).
fn set_ce(packet: &mut [u8]) {
    let network = find_offsets(packet).expect("only valid packets are marked").network;
    let old = word_at(packet, network).expect("the header is complete");
    if packet[network] >> 4 == 6 {
        packet[network + 1] |= 0x30;
        return;
    }
    packet[network + 1] |= 3;
    let new = word_at(packet, network).expect("the header is complete");
    let sum = word_at(packet, network + 10).expect("the header is complete");
    let sum = if new == old { sum } else { poseidon_wire::checksum::Delta::for_word(old, new).apply(sum) };
    packet[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
}

fn assert_ece(ack: &[u8], written: &[u8], marked: bool) {
    let offsets = find_offsets(ack).expect("the packet is valid");
    let flags = offsets.transport + 13;
    assert_eq!(written[flags], if marked { ack[flags] | ECE } else { ack[flags] });
    assert!(has_valid_checksum(written, &offsets));
    assert_only_ece(ack, written);
}

fn assert_only_ece(packet: &[u8], written: &[u8]) {
    let Some(offsets) = find_offsets(packet) else {
        assert_eq!(packet, written);
        return;
    };
    let (flags, checksum) = (offsets.transport + 13, offsets.transport + 16);
    assert_eq!(packet.len(), written.len());
    for index in 0..packet.len() {
        let may_change =
            offsets.protocol == TCP && (index == flags || index == checksum || index == checksum + 1);
        assert!(packet[index] == written[index] || may_change, "byte {index}");
    }
    assert!(packet == written || packet[flags] | ECE == written[flags]);
}
