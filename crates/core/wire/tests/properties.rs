//! What holds across formats: updates in any order, codes that compare like values, checksums that stay right, and
//! parsers that take any bytes.

use poseidon_testkit::SplitMix64;
use poseidon_types::Nanos;
use poseidon_wire::checksum::{Delta, internet, internet_udp};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::int_hop::{Hop, Units};
use poseidon_wire::ioam_node::{Node, TRANSIT_DELAY};
use poseidon_wire::quantiser::{Ranges, Scale, Steps, Ticks, TimeUnit};
use poseidon_wire::{bare16, csig, hpcc, hpcc_ns3, int_md, ioam, powertcp, reflection, shim, tcp_option};
use proptest::prelude::*;

/// A table from arbitrary numbers: sorted, made to rise, then used as it is.
fn table(mut ends: [u64; Ranges::COUNT]) -> Ranges {
    ends.sort_unstable();
    for i in 1..ends.len() {
        ends[i] = ends[i].max(ends[i - 1].saturating_add(1));
    }
    // Only a pile at the very top cannot be made to rise.
    Ranges::new(ends).unwrap_or_else(|_| Ranges::new(core::array::from_fn(|i| i as u64)).expect("rises"))
}

fn order_survives(scale: &impl Scale, a: u64, b: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(scale.encode(a).max(scale.encode(b)), scale.encode(a.max(b)));
    prop_assert_eq!(scale.encode(a).min(scale.encode(b)), scale.encode(a.min(b)));
    prop_assert!(scale.encode(a) <= scale.max_code());
    // Reading a code and writing it again changes nothing (but for units finer than a nanosecond).
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
        order_survives(&Steps::new(step, bits).above_base(base), a, b)?;
        order_survives(&Steps::new(8, 16).without_all_ones(), a, b)?;
        order_survives(&TRANSIT_DELAY, a, b)?;
        order_survives(&table(ends), a, b)?;
        order_survives(&table(ends.map(|end| end >> shift)), a, b)?;
        for unit in [TimeUnit::NANO, TimeUnit::MICRO, TimeUnit::SecondOver2Pow32] {
            order_survives(&Ticks { unit, max_code: u32::MAX - 1 }, a, b)?;
        }
        let steps = Steps::new(step, bits).above_base(base);
        let code = steps.encode(a);
        prop_assert_eq!(steps.encode(steps.decode(code)), code);
        let ranges = table(ends);
        let code = ranges.encode(a);
        prop_assert_eq!(ranges.encode(ranges.decode(code)), code);
    }

    #[test]
    fn updates_commute_and_repeat_without_effect(bytes: [u8; 8], a: u64, b: u64, shift in 0_u32..64) {
        let (a, b) = (Nanos::new(a >> shift), Nanos::new(b >> shift));
        let shim = |delays: &[Nanos]| {
            let mut packet = shim::Packet::new_checked(bytes).expect("fits");
            for delay in delays {
                let _ = packet.update(*delay, &shim::SCALE);
            }
            packet
        };
        prop_assert_eq!(shim(&[a, b]), shim(&[b, a]));
        prop_assert_eq!(shim(&[a, b, b, a]).max_hop_delay(), shim(&[a, b]).max_hop_delay());
        prop_assert!(shim(&[a]).max_hop_delay() >= shim(&[]).max_hop_delay());

        let bare = |delays: &[Nanos]| {
            let mut packet = bare16::Packet::new_checked(bytes).expect("fits");
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
            let mut packet = tcp_option::Packet::new_checked(option, tcp_option::Ids::default()).expect("ours");
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
                let mut packet = csig::Packet::new_checked(bytes, layout, tpid).expect("fits");
                for (code, locator) in order {
                    packet.update(*code, *locator);
                }
                (packet.code(), packet.signal(), packet.into_inner())
            };
            let (a, b) = ((codes.0, locators.0), (codes.1, locators.1));
            prop_assert_eq!(run(&[a, b]).0, run(&[b, a]).0);
            prop_assert_eq!(run(&[a, b, b, a]).2, run(&[a, b]).2);
            prop_assert_eq!(run(&[a, b]).1, run(&[]).1);
            // A packet of this layout keeps what is not its own.
            prop_assert_eq!(&run(&[a]).2[layout.header_bytes()..], &bytes[layout.header_bytes()..]);
        }
    }

    #[test]
    fn every_parser_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), lead in 0_usize..6) {
        let mut bytes = bytes;
        // Beginnings that get past the first checks.
        let leads: [&[u8]; 6] = [
            &[], &[0x10], &[253, 8, 0x50, 0x53], &[36, 20], &[0x14, 9, 0, 0, 0x20, 0, 12, 3], &[0x31, 50, 0, 0],
        ];
        bytes.iter_mut().zip(leads[lead]).for_each(|(byte, lead)| *byte = *lead);
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
fn incremental_checksums_equal_full_ones() {
    let mut random = SplitMix64::new(2023);
    let mut zeros = 0;
    for case in 0..200_000 {
        let mut packet: [u8; 24] =
            core::array::from_fn(|_| u8::try_from(random.next_u64() & 0xff).expect("a byte"));
        // A quarter of the cases aim at the corners: words of all zeros and all ones, and a sum of zero.
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
        let delta = shim::Packet::new_checked(&mut packet[8..12]).expect("fits").update(delay, &shim::SCALE);
        zeros += usize::from(internet(&packet) == 0 || before == 0);
        assert_eq!(delta.apply(before), internet(&packet), "case {case}");
        assert_eq!(delta.apply_udp(before_udp), internet_udp(&packet), "case {case}");
        assert_eq!(delta.apply_udp(0), 0);

        let (old, new) = (u16::from_be_bytes([packet[2], packet[3]]), case % 0x1_0000);
        let new = u16::try_from(new).expect("sixteen bits");
        let before = internet(&packet);
        packet[2..4].copy_from_slice(&new.to_be_bytes());
        assert_eq!(Delta::word(old, new).apply(before), internet(&packet), "case {case}");
    }
    assert!(zeros > 10_000, "the corner of a zero checksum was met {zeros} times");
}
