//! Checks that each format's quantiser matches the result of encoding to bytes and decoding.

use poseidon_types::{BitRate, Bytes, HopRecord, MaxHopDelay, Nanos};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::int_hop::{Hop, Instructions, Units};
use poseidon_wire::ioam_node::{Node, TRANSIT_DELAY, TraceType};
use poseidon_wire::quantiser::{LinearScale, Scale, TableScale, TimeUnit};
use poseidon_wire::{bare16, csig, hpcc, hpcc_ns3, int_md, ioam, powertcp, reflection, shim, tcp_option};
use proptest::prelude::*;

/// Generates the hop delays of one path. All orders of magnitude are equally likely.
fn delays(max_hops: usize) -> impl Strategy<Value = Vec<u64>> {
    let delay = (0_u32..=64).prop_flat_map(|bits| 0..=u64::MAX.checked_shr(64 - bits).unwrap_or(0));
    prop::collection::vec(delay, 0..=max_hops)
}

fn exact(delays: &[u64]) -> MaxHopDelay {
    let mut signal = MaxHopDelay::default();
    for delay in delays {
        signal.update(Nanos::new(*delay));
    }
    signal
}

fn records(max_hops: usize) -> impl Strategy<Value = Vec<HopRecord>> {
    let rate = prop::sample::select(vec![25, 40, 50, 100, 200, 400]);
    let record =
        (any::<u64>(), any::<u64>(), 0_u64..1 << 26, rate).prop_map(|(timestamp, sent, queue, rate)| {
            HopRecord {
                timestamp: Nanos::new(timestamp),
                sent: Bytes::new(sent),
                queue: Bytes::new(queue),
                rate: BitRate::from_gbps(rate),
            }
        });
    prop::collection::vec(record, 0..=max_hops)
}

/// Returns a table whose ranges span nanoseconds to minutes.
fn table() -> TableScale {
    TableScale::new(core::array::from_fn(|i| (i as u64) << i)).expect("the table is increasing")
}

proptest! {
    #[test]
    fn shim_and_reflection_quantisers_match_the_bytes(delays in delays(20)) {
        let mut packet = shim::Packet::new_checked([0x10, 0, 0, 0]).expect("the buffer is large enough");
        for delay in &delays {
            let _ = packet.update(Nanos::new(*delay), &shim::SCALE);
        }
        let read = shim::Repr::parse(&packet.into_inner()).expect("the header is valid");
        prop_assert_eq!(read.telemetry(&shim::SCALE), shim::QUANTISER.quantise(exact(&delays)));
        let mut block = [0; 4];
        reflection::Repr::reflect(&read, 60, 64).emit(&mut block).expect("the buffer is large enough");
        let reflected = reflection::Repr::parse(&block).expect("the header is valid");
        prop_assert_eq!(reflected.telemetry(&shim::SCALE), reflection::QUANTISER.quantise(exact(&delays)));
    }

    #[test]
    fn bare16_quantiser_matches_the_bytes(delays in delays(20), hops: u8) {
        let mut packet = bare16::Packet::new_checked([0; 2]).expect("the buffer is large enough");
        for delay in &delays {
            let _ = packet.update(Nanos::new(*delay), &bare16::SCALE);
        }
        let read = bare16::Repr::parse(&packet.into_inner()).expect("the header is valid");
        prop_assert_eq!(
            read.telemetry(&bare16::SCALE, hops),
            bare16::quantiser(hops).quantise(exact(&delays))
        );
    }

    #[test]
    fn tcp_option_quantisers_match_the_bytes(delays in delays(20), hops: u8) {
        let mut bytes = [0; 8];
        tcp_option::Repr::default().emit(&mut bytes).expect("the buffer is large enough");
        let ids = tcp_option::Ids::default();
        let mut packet = tcp_option::Packet::new_checked(bytes, ids).expect("the header is valid");
        for delay in &delays {
            let _ = packet.update(Nanos::new(*delay), &tcp_option::SCALE);
        }
        let read = tcp_option::Repr::parse(&packet.into_inner(), ids).expect("the header is valid");
        let expected = tcp_option::quantiser(hops).quantise(exact(&delays));
        prop_assert_eq!(read.telemetry(&tcp_option::SCALE, hops), expected);
        tcp_option::Repr::default().with_echo_of(&read).emit(&mut bytes).expect("the buffer is large enough");
        let echoed = tcp_option::Repr::parse(&bytes, ids).expect("the header is valid");
        let expected = tcp_option::echo_quantiser(hops).quantise(exact(&delays));
        prop_assert_eq!(echoed.echo_telemetry(&tcp_option::SCALE, hops), Some(expected));
    }

    #[test]
    fn csig_quantisers_match_the_bytes(delays in delays(20), hops: u8, base in 0_u8..20, step in 0_u8..20) {
        let wide = LinearScale::new(step, 20).with_base_log2(base);
        for layout in csig::Layout::ALL {
            let initial = csig::Repr::new(layout, 0x9900, csig::Signal::HopDelay);
            let mut bytes = [0; 8];
            initial.emit(&mut bytes).expect("the buffer is large enough");
            let mut packet = csig::Packet::new_checked(&mut bytes[..], layout, 0x9900).expect("the header is valid");
            let compact = layout.header_bytes() == 4;
            for delay in delays.iter().map(|delay| Nanos::new(*delay)) {
                let code = if compact { table().encode_delay(delay) } else { wide.encode_delay(delay) };
                packet.update(code, 1);
            }
            let read = csig::Repr::parse(&bytes, layout, 0x9900).expect("the header is valid");
            let (read, expected) = if compact {
                (read.telemetry(&table(), hops), csig::compact_quantiser(table(), hops).quantise(exact(&delays)))
            } else {
                (read.telemetry(&wide, hops), csig::wide_quantiser(wide, hops).quantise(exact(&delays)))
            };
            prop_assert_eq!(read, Some(expected));
        }
    }

    #[test]
    fn hpcc_and_powertcp_quantisers_match_the_bytes(records in records(5), multi in 1_u16..9, id: u16) {
        let codec = Codec { multi, ..Codec::new(Layout::Paper) };
        let expected: Vec<_> = records.iter().map(|r| codec.quantise(r).expect("the rate is in the table")).collect();
        let mut packet = hpcc::Packet::new_checked([0; 42]).expect("an empty stack is valid");
        for record in &records {
            let _ = packet.push(record, id, &codec).expect("the buffer has room");
        }
        let stack = packet.hop_stack(&codec).expect("the rates are in the table");
        prop_assert_eq!(stack.as_slice(), &expected[..]);

        let mut bytes = [0; 36];
        let repr = powertcp::Repr { kind: 36, slots: 4, ..Default::default() };
        repr.emit(&mut bytes).expect("the buffer is large enough");
        let mut packet = powertcp::Packet::new_checked(bytes, 36).expect("the header is valid");
        for record in records.iter().take(4) {
            let _ = packet.push(record, id, &codec).expect("a slot is free");
        }
        let stack = packet.hop_stack(&codec).expect("the rates are in the table");
        prop_assert_eq!(stack.as_slice(), &expected[..expected.len().min(4)]);
    }

    #[test]
    fn hpcc_ns3_quantiser_matches_the_bytes(records in records(5), multi in 1_u16..9) {
        let codec = Codec { multi, ..Codec::new(Layout::Ns3) };
        let mut packet = hpcc_ns3::Packet::new_checked([0; 42]).expect("the buffer is large enough");
        for record in &records {
            let _ = packet.push(record, &codec).expect("the rate is in the table");
        }
        let expected: Vec<_> = records.iter().map(|r| codec.quantise(r).expect("the rate is in the table")).collect();
        let stack = packet.hop_stack(&codec).expect("the rates are in the table");
        prop_assert_eq!(stack.as_slice(), &expected[..]);
    }

    #[test]
    fn int_md_quantisers_match_the_bytes(
        records in records(8), delays in delays(8), unit in 0_usize..3, cell in 1_u32..300, hop_limit in 1_u8..9,
    ) {
        let time = [TimeUnit::NANO, TimeUnit::MICRO, TimeUnit::SecondOver2Pow32][unit];
        let units = Units { latency: time, timestamp: time, queue_bytes: cell, transmitted_bytes: 128 };
        let instructions = Instructions(Instructions::HPCC.0 | Instructions::LATENCY.0);
        let repr = int_md::Repr {
            hop_words: u8::try_from(instructions.words()).expect("the count is small"),
            remaining_hops: hop_limit,
            instructions,
            ..Default::default()
        };
        let mut bytes = [0; 16 + 8 * 28];
        repr.emit(&mut bytes).expect("the buffer is large enough");
        let mut packet = int_md::Packet::new_checked(bytes).expect("the header is valid");
        let hops = records.len().min(delays.len());
        for (node, (record, delay)) in (1..).zip(records.iter().zip(&delays)) {
            packet.push(&Hop::from_measurement(node, Nanos::new(*delay), record, &units));
        }
        let quantiser = int_md::quantiser(&units, repr.hop_words, hop_limit);
        let measured = delays[..hops].iter().copied().map(Nanos::new);
        prop_assert_eq!(packet.telemetry(&units), quantiser.quantise_hops(measured));
        if hops > usize::from(hop_limit) {
            prop_assert!(quantiser.quantise(exact(&delays[..hops])).incomplete);
            prop_assert_eq!(packet.hop_stack(&units, |_| None), None);
            return Ok(());
        }
        prop_assert_eq!(packet.telemetry(&units), quantiser.quantise(exact(&delays[..hops])));
        let rate = |node: u32| records.get(node as usize - 1).map(|record| record.rate);
        let stack = packet.hop_stack(&units, rate).expect("all hops reported");
        let expected: Vec<_> = records[..hops].iter().map(|r| units.hop_scale().quantise(r)).collect();
        prop_assert_eq!(stack.as_slice(), &expected[..]);
    }

    #[test]
    fn ioam_quantiser_matches_the_bytes(delays in delays(8), capacity in 1_u8..9) {
        let trace_type = TraceType::new(0x88_0000);
        let repr = ioam::Repr::new(1, trace_type, usize::from(capacity)).expect("the option is large enough");
        let mut bytes = [0; 12 + 8 * 8];
        repr.emit(&mut bytes).expect("the buffer is large enough");
        let mut packet = ioam::Packet::new_checked(bytes).expect("the header is valid");
        for delay in &delays {
            let transit_delay = Some(TRANSIT_DELAY.encode_delay(Nanos::new(*delay)));
            let node = Node { transit_delay, ..Node::default() };
            let _ = packet.update(&node);
        }
        let measured = delays.iter().copied().map(Nanos::new);
        prop_assert_eq!(packet.telemetry(), ioam::quantiser(capacity).quantise_hops(measured));
        if delays.len() <= usize::from(capacity) {
            prop_assert_eq!(packet.telemetry(), ioam::quantiser(capacity).quantise(exact(&delays)));
        }
    }
}
