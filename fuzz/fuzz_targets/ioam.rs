#![no_main]
//! Fuzzes the IOAM pre-allocated trace option.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{delay, tail};
use poseidon_types::BitRate;
use poseidon_wire::ioam::{Packet, Repr};
use poseidon_wire::ioam_node::{Node, TRANSIT_DELAY};
use poseidon_wire::quantiser::Scale;

fuzz_target!(|data: &[u8]| {
    let Ok(before) = Repr::parse(data) else { return };
    let mut out = data.to_vec();
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(Repr::parse(&out), Ok(before));
    assert_eq!(out[12..], data[12..]);

    let mut bytes = data.to_vec();
    let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
    let old: Vec<_> = packet.nodes().collect();
    let signal = packet.telemetry();
    let _ = packet.queue_telemetry(|_| Some(BitRate::from_gbps(100)));
    let written = packet.update(&Node {
        hop_limit: 63,
        node_id: Some(7),
        transit_delay: Some(TRANSIT_DELAY.encode_delay(delay(data))),
        queue_depth: u32::try_from(tail(data)).ok(),
        ..Node::default()
    });
    let new: Vec<_> = packet.nodes().collect();
    assert!(packet.telemetry().worst >= signal.worst);
    let after = Repr::parse(&bytes).expect("the header is valid");
    assert_eq!(bytes[before.buffer_len()..], data[before.buffer_len()..]);
    if written {
        assert!(after.remaining_words < before.remaining_words);
        assert_eq!(new[1..], old[..]);
        assert_eq!(after, Repr { remaining_words: after.remaining_words, ..before });
    } else if bytes != data {
        assert_eq!(after, Repr { overflowed: true, ..before });
        assert_eq!(new, old);
    }
});
