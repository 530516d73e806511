#![no_main]
//! Fuzzes the five-slot header from HPCC's ns-3 artifact.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_checksum_delta, record};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::hpcc_ns3::{HEADER_BYTES, Packet, Repr};

fuzz_target!(|data: &[u8]| {
    let codec = Codec::new(Layout::Ns3);
    let Ok(before) = Repr::parse(data) else { return };
    let mut out = [0; HEADER_BYTES];
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(out, data[..HEADER_BYTES]);
    let mut packet = Packet::new_checked(&mut out[..]).expect("the buffer is large enough");
    let _ = packet.hop_stack(&codec);
    let record = record(data);
    let delta = packet.push(&record, &codec).expect("the rate is in the table");
    let after = Repr::parse(&out).expect("the buffer is large enough");
    assert_eq!(after.hops, before.hops.saturating_add(1));
    let slot = usize::from(before.hops) % before.slots.len();
    assert_eq!(codec.decode(after.slots[slot]), codec.quantise(&record));
    assert_checksum_delta(delta, &data[..HEADER_BYTES], &out);
});
