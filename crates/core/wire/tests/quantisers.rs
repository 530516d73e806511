//! A quantiser says what real bytes do: for every format, the value that went through bytes equals the value that
//! went through the quantiser.

use poseidon_types::{BitRate, Bytes, HopRecord, MaxHopDelay, Nanos};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::int_hop::{Hop, Instructions, Units};
use poseidon_wire::ioam_node::{Node, TRANSIT_DELAY, TraceType};
use poseidon_wire::quantiser::{Ranges, Scale, Steps, TimeUnit};
use poseidon_wire::{bare16, csig, hpcc, hpcc_ns3, int_md, ioam, powertcp, reflection, shim, tcp_option};
use proptest::prelude::*;

/// Delays of one path; every order of magnitude is as likely as any other.
fn delays(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let delay = (0_u32..=64).prop_flat_map(|bits| 0..=u64::MAX.checked_shr(64 - bits).unwrap_or(0));
    prop::collection::vec(delay, 0..=most)
}

fn exact(delays: &[u64]) -> MaxHopDelay {
    let mut signal = MaxHopDelay::default();
    for delay in delays {
        signal.update(Nanos::new(*delay));
    }
    signal
}

fn records(most: usize) -> impl Strategy<Value = Vec<HopRecord>> {
    let rate = prop::sample::select(vec![25, 40, 50, 100, 200, 400]);
    let record =
        (any::<u64>(), any::<u64>(), 0_u64..1 << 26, rate).prop_map(|(at, sent, queue, rate)| HopRecord {
            at: Nanos::new(at),
            sent: Bytes::new(sent),
            queue: Bytes::new(queue),
            rate: BitRate::from_gbps(rate),
        });
    prop::collection::vec(record, 0..=most)
}

/// A rising table with ranges of every size, from nanoseconds to minutes.
fn table() -> Ranges {
    Ranges::new(core::array::from_fn(|i| (i as u64) << i)).expect("rises")
}

proptest! {
    #[test]
    fn shim_and_reflection(delays in delays(20)) {
        let mut packet = shim::Packet::new_checked([0x10, 0, 0, 0]).expect("fits");
        for delay in &delays {
            let _ = packet.update(Nanos::new(*delay), &shim::SCALE);
        }
        let read = shim::Repr::parse(&packet.into_inner()).expect("parses");
        prop_assert_eq!(read.telemetry(&shim::SCALE), shim::QUANTISER.carry(exact(&delays)));
        let mut block = [0; 4];
        reflection::Repr::reflect(&read, 60, 64).emit(&mut block).expect("fits");
        let back = reflection::Repr::parse(&block).expect("parses");
        prop_assert_eq!(back.telemetry(&shim::SCALE), reflection::QUANTISER.carry(exact(&delays)));
    }

    #[test]
    fn bare_sixteen_bits(delays in delays(20), hops: u8) {
        let mut packet = bare16::Packet::new_checked([0; 2]).expect("fits");
        for delay in &delays {
            let _ = packet.update(Nanos::new(*delay), &bare16::SCALE);
        }
        let read = bare16::Repr::parse(&packet.into_inner()).expect("parses");
        prop_assert_eq!(
            read.telemetry(&bare16::SCALE, hops),
            bare16::quantiser(hops).carry(exact(&delays))
        );
    }

    #[test]
    fn tcp_option_and_its_echo(delays in delays(20), hops: u8) {
        let mut bytes = [0; 8];
        tcp_option::Repr::default().emit(&mut bytes).expect("fits");
        let mut packet = tcp_option::Packet::new_checked(bytes, tcp_option::Ids::default()).expect("ours");
        for delay in &delays {
            let _ = packet.update(Nanos::new(*delay), &tcp_option::SCALE);
        }
        let read = tcp_option::Repr::parse(&packet.into_inner(), tcp_option::Ids::default()).expect("parses");
        let expected = tcp_option::quantiser(hops).carry(exact(&delays));
        prop_assert_eq!(read.telemetry(&tcp_option::SCALE, hops), expected);
        tcp_option::Repr::default().echoing(&read).emit(&mut bytes).expect("fits");
        let back = tcp_option::Repr::parse(&bytes, tcp_option::Ids::default()).expect("parses");
        let expected = tcp_option::echo_quantiser(hops).carry(exact(&delays));
        prop_assert_eq!(back.echo_telemetry(&tcp_option::SCALE, hops), Some(expected));
    }

    #[test]
    fn csig(delays in delays(20), hops: u8, base in 0_u8..20, step in 0_u8..20) {
        let wide = Steps::new(step, 20).above_base(base);
        for layout in csig::Layout::ALL {
            let fresh = csig::Repr::fresh(layout, 0x9900, csig::Signal::HopDelay);
            let mut bytes = [0; 8];
            fresh.emit(&mut bytes).expect("fits");
            let mut packet = csig::Packet::new_checked(&mut bytes[..], layout, 0x9900).expect("ours");
            let compact = layout.header_bytes() == 4;
            for delay in delays.iter().map(|delay| Nanos::new(*delay)) {
                let code = if compact { table().delay_code(delay) } else { wide.delay_code(delay) };
                packet.update(code, 1);
            }
            let read = csig::Repr::parse(&bytes, layout, 0x9900).expect("parses");
            let (read, expected) = if compact {
                (read.telemetry(&table(), hops), csig::compact_quantiser(table(), hops).carry(exact(&delays)))
            } else {
                (read.telemetry(&wide, hops), csig::wide_quantiser(wide, hops).carry(exact(&delays)))
            };
            prop_assert_eq!(read, Some(expected));
        }
    }

    #[test]
    fn hpcc_and_powertcp(records in records(5), multi in 1_u16..9, id: u16) {
        let codec = Codec { multi, ..Codec::new(Layout::Paper) };
        let carried: Vec<_> = records.iter().map(|r| codec.carry(r).expect("known rate")).collect();
        let mut packet = hpcc::Packet::new_checked([0; 42]).expect("an empty stack");
        for record in &records {
            let _ = packet.push(record, id, &codec).expect("room");
        }
        let stack = packet.hop_stack(&codec).expect("known rates");
        prop_assert_eq!(stack.as_slice(), &carried[..]);

        let mut bytes = [0; 36];
        powertcp::Repr { kind: 36, slots: 4, ..Default::default() }.emit(&mut bytes).expect("fits");
        let mut packet = powertcp::Packet::new_checked(bytes, 36).expect("ours");
        for record in records.iter().take(4) {
            let _ = packet.push(record, id, &codec).expect("a free slot");
        }
        let stack = packet.hop_stack(&codec).expect("known rates");
        prop_assert_eq!(stack.as_slice(), &carried[..carried.len().min(4)]);
    }

    #[test]
    fn hpcc_in_ns3(records in records(5), multi in 1_u16..9) {
        let codec = Codec { multi, ..Codec::new(Layout::Ns3) };
        let mut packet = hpcc_ns3::Packet::new_checked([0; 42]).expect("fits");
        for record in &records {
            let _ = packet.push(record, &codec).expect("known rate");
        }
        let carried: Vec<_> = records.iter().map(|r| codec.carry(r).expect("known rate")).collect();
        let stack = packet.hop_stack(&codec).expect("known rates");
        prop_assert_eq!(stack.as_slice(), &carried[..]);
    }

    #[test]
    fn int_md(
        records in records(8), delays in delays(8), unit in 0_usize..3, cell in 1_u32..300, budget in 1_u8..9,
    ) {
        let time = [TimeUnit::NANO, TimeUnit::MICRO, TimeUnit::SecondOver2Pow32][unit];
        let units = Units { latency: time, timestamp: time, queue_bytes: cell, transmitted_bytes: 128 };
        let asked = Instructions(Instructions::HPCC.0 | Instructions::LATENCY.0);
        let repr = int_md::Repr {
            hop_words: u8::try_from(asked.words()).expect("few"),
            remaining_hops: budget,
            instructions: asked,
            ..Default::default()
        };
        let mut bytes = [0; 16 + 8 * 28];
        repr.emit(&mut bytes).expect("fits");
        let mut packet = int_md::Packet::new_checked(bytes).expect("parses");
        let hops = records.len().min(delays.len());
        for (node, (record, delay)) in (1..).zip(records.iter().zip(&delays)) {
            packet.push(&Hop::measured(node, Nanos::new(*delay), record, &units));
        }
        let quantiser = int_md::quantiser(&units, repr.hop_words, budget);
        let measured = delays[..hops].iter().copied().map(Nanos::new);
        prop_assert_eq!(packet.telemetry(&units), quantiser.carry_hops(measured));
        if hops > usize::from(budget) {
            prop_assert!(quantiser.carry(exact(&delays[..hops])).incomplete);
            prop_assert_eq!(packet.hop_stack(&units, |_| None), None);
            return Ok(());
        }
        prop_assert_eq!(packet.telemetry(&units), quantiser.carry(exact(&delays[..hops])));
        let rate = |node: u32| records.get(node as usize - 1).map(|record| record.rate);
        let stack = packet.hop_stack(&units, rate).expect("complete");
        let carried: Vec<_> = records[..hops].iter().map(|r| units.hop_scale().carry(r)).collect();
        prop_assert_eq!(stack.as_slice(), &carried[..]);
    }

    #[test]
    fn ioam(delays in delays(8), room in 1_u8..9) {
        let repr = ioam::Repr::fresh(1, TraceType(0x88_0000), usize::from(room)).expect("fits");
        let mut bytes = [0; 12 + 8 * 8];
        repr.emit(&mut bytes).expect("fits");
        let mut packet = ioam::Packet::new_checked(bytes).expect("parses");
        for delay in &delays {
            let transit_delay = Some(TRANSIT_DELAY.delay_code(Nanos::new(*delay)));
            let node = Node { transit_delay, ..Node::default() };
            let _ = packet.update(&node);
        }
        let measured = delays.iter().copied().map(Nanos::new);
        prop_assert_eq!(packet.telemetry(), ioam::quantiser(room).carry_hops(measured));
        if delays.len() <= usize::from(room) {
            prop_assert_eq!(packet.telemetry(), ioam::quantiser(room).carry(exact(&delays)));
        }
    }
}
