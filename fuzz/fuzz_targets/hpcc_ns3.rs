#![no_main]
//! HPCC's five slots, as ns-3 carries them.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_repairs, record};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::hpcc_ns3::{HEADER_BYTES, Packet, Repr};

fuzz_target!(|data: &[u8]| {
    let codec = Codec::new(Layout::Ns3);
    let Ok(before) = Repr::parse(data) else { return };
    let mut out = [0; HEADER_BYTES];
    before.emit(&mut out).expect("fits");
    assert_eq!(out, data[..HEADER_BYTES]);
    let mut packet = Packet::new_checked(&mut out[..]).expect("fits");
    let _ = packet.hop_stack(&codec);
    let record = record(data);
    let delta = packet.push(&record, &codec).expect("known rate");
    let after = Repr::parse(&out).expect("fits");
    assert_eq!(after.hops, before.hops.saturating_add(1));
    let slot = usize::from(before.hops) % before.slots.len();
    assert_eq!(codec.decode(after.slots[slot]), codec.carry(&record));
    assert_repairs(delta, &data[..HEADER_BYTES], &out);
});
