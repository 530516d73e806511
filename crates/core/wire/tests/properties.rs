//! Property tests for all formats: updates commute, codes sort in the same order as values, checksum updates are
//! correct, and parsers never panic.

use poseidon_testkit::SplitMix64;
use poseidon_types::Nanos;
use poseidon_wire::checksum::{Delta, internet, internet_udp};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::int_hop::{Hop, Units};
use poseidon_wire::ioam_node::{Node, TRANSIT_DELAY};
use poseidon_wire::quantiser::{LinearScale, Scale, TableScale, TickScale, TimeUnit};
use poseidon_wire::{bare16, csig, hpcc, hpcc_ns3, int_md, ioam, powertcp, reflection, shim, tcp_option};
use proptest::prelude::*;

/// Creates a strictly increasing table from arbitrary numbers.
fn table(mut ends: [u64; TableScale::COUNT]) -> TableScale {
    ends.sort_unstable();
    for i in 1..ends.len() {
        ends[i] = ends[i].max(ends[i - 1].saturating_add(1));
    }
    // Entries near the maximum cannot be made strictly increasing. Use a fixed table in that case.
    TableScale::new(ends).unwrap_or_else(|_| {
        TableScale::new(core::array::from_fn(|i| i as u64)).expect("the table is increasing")
    })
}

fn check_that_encoding_is_monotone(scale: &impl Scale, a: u64, b: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(scale.encode(a).max(scale.encode(b)), scale.encode(a.max(b)));
    prop_assert_eq!(scale.encode(a).min(scale.encode(b)), scale.encode(a.min(b)));
    prop_assert!(scale.encode(a) <= scale.max_code());
    // Decoding and re-encoding a code returns the same code, or a smaller code if the unit is below one nanosecond.
    let code = scale.encode(a);
    prop_assert!(scale.encode(scale.decode(code)) <= code);
    Ok(())
}

proptest! {
    #[test]
    fn maximum_of_codes_is_code_of_maximum(
            a: u64, b: u64, shift in 0_u32..64, ends: [u64; 32], base in 0_u8..64, step in 0_u8..32, bits in 1_u8..=32
        ) {
        let (a, b) = (a >> shift, b >> shift);
        check_that_encoding_is_monotone(&LinearScale::new(step, bits).with_base_log2(base), a, b)?;
        check_that_encoding_is_monotone(&LinearScale::new(8, 16).without_all_ones(), a, b)?;
        check_that_encoding_is_monotone(&TRANSIT_DELAY, a, b)?;
        check_that_encoding_is_monotone(&table(ends), a, b)?;
        check_that_encoding_is_monotone(&table(ends.map(|end| end >> shift)), a, b)?;
        for unit in [TimeUnit::NANO, TimeUnit::MICRO, TimeUnit::SecondOver2Pow32] {
            check_that_encoding_is_monotone(&TickScale { unit, max_code: u32::MAX - 1 }, a, b)?;
        }
        let steps = LinearScale::new(step, bits).with_base_log2(base);
        let code = steps.encode(a);
        prop_assert_eq!(steps.encode(steps.decode(code)), code);
        let ranges = table(ends);
        let code = ranges.encode(a);
        prop_assert_eq!(ranges.encode(ranges.decode(code)), code);
    }

    #[test]
    fn updates_commute_and_are_idempotent(bytes: [u8; 8], a: u64, b: u64, shift in 0_u32..64) {
        let (a, b) = (Nanos::new(a >> shift), Nanos::new(b >> shift));
        let shim = |delays: &[Nanos]| {
            let mut packet = shim::Packet::new_checked(bytes).expect("the buffer is large enough");
            for delay in delays {
                let _ = packet.update(*delay, &shim::SCALE);
            }
            packet
        };
        prop_assert_eq!(shim(&[a, b]), shim(&[b, a]));
        prop_assert_eq!(shim(&[a, b, b, a]).max_hop_delay(), shim(&[a, b]).max_hop_delay());
        prop_assert!(shim(&[a]).max_hop_delay() >= shim(&[]).max_hop_delay());

        let bare = |delays: &[Nanos]| {
            let mut packet = bare16::Packet::new_checked(bytes).expect("the buffer is large enough");
            for delay in delays {
                let _ = packet.update(*delay, &bare16::SCALE);
            }
            packet
        };
        prop_assert_eq!(bare(&[a, b]), bare(&[b, a]));
        prop_assert_eq!(bare(&[a, b, a, b]), bare(&[a, b]));

        let option = |delays: &[Nanos]| {
            let mut option = bytes;
            option[..4].copy_from_slice(&[253, 8, 0x50, 0x53]);
            let ids = tcp_option::Ids::default();
            let mut packet = tcp_option::Packet::new_checked(option, ids).expect("the header is valid");
            for delay in delays {
                let _ = packet.update(*delay, &tcp_option::SCALE);
            }
            packet
        };
        prop_assert_eq!(option(&[a, b]), option(&[b, a]));
        prop_assert_eq!(option(&[a, b, a, b]), option(&[a, b]));
        prop_assert_eq!(option(&[a, b]).echo(), option(&[]).echo());
    }

    #[test]
    fn csig_updates_commute_on_the_signal(bytes: [u8; 8], codes: (u32, u32), locators: (u16, u16)) {
        for layout in csig::Layout::ALL {
            let run = |order: &[(u32, u16)]| {
                let tpid = u16::from_be_bytes([bytes[0], bytes[1]]);
                let mut packet = csig::Packet::new_checked(bytes, layout, tpid).expect("the buffer is large enough");
                for (code, locator) in order {
                    packet.update(*code, *locator);
                }
                (packet.code(), packet.signal(), packet.into_inner())
            };
            let (a, b) = ((codes.0, locators.0), (codes.1, locators.1));
            prop_assert_eq!(run(&[a, b]).0, run(&[b, a]).0);
            prop_assert_eq!(run(&[a, b, b, a]).2, run(&[a, b]).2);
            prop_assert_eq!(run(&[a, b]).1, run(&[]).1);
            // The update must not change the bytes after the tag.
            prop_assert_eq!(&run(&[a]).2[layout.header_bytes()..], &bytes[layout.header_bytes()..]);
        }
    }

    #[test]
    fn parsers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), prefix in 0_usize..6) {
        let mut bytes = bytes;
        // These prefixes pass the parsers' initial checks.
        let prefixes: [&[u8]; 6] = [
            &[], &[0x10], &[253, 8, 0x50, 0x53], &[36, 20], &[0x14, 9, 0, 0, 0x20, 0, 12, 3], &[0x31, 50, 0, 0],
        ];
        bytes.iter_mut().zip(prefixes[prefix]).for_each(|(byte, prefix)| *byte = *prefix);
        let codec = Codec::new(Layout::Paper);
        let _ = shim::Repr::parse(&bytes);
        let _ = reflection::Repr::parse(&bytes).map(|repr| repr.coverage());
        let _ = bare16::Repr::parse(&bytes);
        let _ = tcp_option::Repr::parse(&bytes, tcp_option::Ids::default());
        let _ = tcp_option::find(&bytes, tcp_option::Ids::default());
        for layout in csig::Layout::ALL {
            let _ = csig::Repr::parse(&bytes, layout, 0x9900);
        }
        let _ = hpcc::Packet::new_checked(&bytes).map(|packet| packet.hop_stack(&codec));
        let _ = hpcc_ns3::Packet::new_checked(&bytes).map(|packet| packet.hop_stack(&Codec::new(Layout::Ns3)));
        let _ = powertcp::Packet::new_checked(&bytes, 36).map(|packet| packet.hop_stack(&codec));
        if let Ok(mut packet) = int_md::Packet::new_checked(&mut bytes[..]) {
            let _ = packet.telemetry(&Units::NANOS_AND_BYTES);
            packet.push(&Hop::default());
            prop_assert!(int_md::Repr::parse(&bytes).is_ok());
        }
        if let Ok(mut packet) = ioam::Packet::new_checked(&mut bytes[..]) {
            let _ = packet.telemetry();
            packet.update(&Node::default());
            prop_assert!(ioam::Repr::parse(&bytes).is_ok());
        }
    }
}

#[test]
fn incremental_checksum_equals_the_full_checksum() {
    let mut random = SplitMix64::new(2023);
    let mut zeros = 0;
    for case in 0..200_000 {
        let mut packet: [u8; 24] = core::array::from_fn(|_| {
            u8::try_from(random.next_u64() & 0xff).expect("the value is masked to a byte")
        });
        // A quarter of the inputs are corner cases: all-zero words, all-ones words, and packets whose checksum is zero.
        if case % 4 == 0 {
            packet.fill(if case % 8 == 0 { 0 } else { 0xff });
            packet[1] = 1;
        }
        packet[8] = 0x10 | (packet[8] & 0x0b);
        if case % 16 == 0 {
            let fill = internet(&packet[..22]);
            packet[22..].copy_from_slice(&fill.to_be_bytes());
        }
        let (before, before_udp) = (internet(&packet), internet_udp(&packet));
        let delay = Nanos::new(random.next_u64() >> (random.next_u64() % 64));
        let delta = shim::Packet::new_checked(&mut packet[8..12])
            .expect("the buffer is large enough")
            .update(delay, &shim::SCALE);
        zeros += usize::from(internet(&packet) == 0 || before == 0);
        assert_eq!(delta.apply(before), internet(&packet), "case {case}");
        assert_eq!(delta.apply_udp(before_udp), internet_udp(&packet), "case {case}");
        assert_eq!(delta.apply_udp(0), 0);

        let (old, new) = (u16::from_be_bytes([packet[2], packet[3]]), case % 0x1_0000);
        let new = u16::try_from(new).expect("the value is below 2^16");
        let before = internet(&packet);
        packet[2..4].copy_from_slice(&new.to_be_bytes());
        assert_eq!(Delta::for_word(old, new).apply(before), internet(&packet), "case {case}");
    }
    assert!(zeros > 10_000, "only {zeros} cases had a checksum of zero");
}
