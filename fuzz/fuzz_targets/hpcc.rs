#![no_main]
//! HPCC's growing stack.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_repairs, record};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::hpcc::{Packet, Repr};

fuzz_target!(|data: &[u8]| {
    let codec = Codec::new(Layout::Paper);
    let Ok(before) = Repr::parse(data) else { return };
    let used = before.buffer_len();
    let mut out = vec![0; used];
    before.emit(&mut out).expect("fits");
    assert_eq!(out, &data[..used]);
    let mut bytes = data.to_vec();
    let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
    let old = packet.hop_stack(&codec);
    let record = record(data);
    match packet.push(&record, 0xfff, &codec) {
        Ok(delta) => {
            let carried = codec.carry(&record).expect("known rate");
            if let (Ok(old), Ok(new)) = (old, packet.hop_stack(&codec)) {
                let (last, first) = new.as_slice().split_last().expect("pushed");
                assert_eq!((*last, first), (carried, old.as_slice()));
            }
            let after = Repr::parse(&bytes).expect("parses");
            assert_eq!((after.hops, after.path_id), (before.hops + 1, before.path_id ^ 0xfff));
            assert_repairs(delta, &data[..used], &bytes[..used + 8]);
            assert_eq!(bytes[used + 8..], data[used + 8..]);
        }
        Err(_) => assert_eq!(bytes, data),
    }
});
