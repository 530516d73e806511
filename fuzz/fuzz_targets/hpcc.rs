#![no_main]
//! Fuzzes HPCC's growing hop-record stack.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_checksum_delta, record};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::hpcc::{Packet, Repr};

fuzz_target!(|data: &[u8]| {
    let codec = Codec::new(Layout::Paper);
    let Ok(before) = Repr::parse(data) else { return };
    let len = before.buffer_len();
    let mut out = vec![0; len];
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(out, &data[..len]);
    let mut bytes = data.to_vec();
    let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
    let old = packet.hop_stack(&codec);
    let record = record(data);
    match packet.push(&record, 0xfff, &codec) {
        Ok(delta) => {
            let expected = codec.quantise(&record).expect("the rate is in the table");
            if let (Ok(old), Ok(new)) = (old, packet.hop_stack(&codec)) {
                let (last, earlier) = new.as_slice().split_last().expect("a record was pushed");
                assert_eq!((*last, earlier), (expected, old.as_slice()));
            }
            let after = Repr::parse(&bytes).expect("the header is valid");
            assert_eq!((after.hops, after.path_id), (before.hops + 1, before.path_id ^ 0xfff));
            assert_checksum_delta(delta, &data[..len], &bytes[..len + 8]);
            assert_eq!(bytes[len + 8..], data[len + 8..]);
        }
        Err(_) => assert_eq!(bytes, data),
    }
});
