#![no_main]
//! Fuzzes PowerTCP's TCP option.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_checksum_delta, record};
use poseidon_wire::hop_word::{Codec, Layout};
use poseidon_wire::powertcp::{Packet, Repr};

fuzz_target!(|data: &[u8]| {
    let codec = Codec::new(Layout::Paper);
    let kind = data.first().copied().unwrap_or(0);
    let Ok(before) = Repr::parse(data, kind) else {
        return;
    };
    let len = before.buffer_len();
    let mut out = vec![0; len];
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(Repr::parse(&out, kind), Ok(before));
    let mut bytes = data.to_vec();
    let mut packet = Packet::new_checked(&mut bytes[..], kind).expect("the header is valid");
    let _ = packet.hop_stack(&codec);
    match packet.push(&record(data), 1, &codec) {
        Ok(delta) => {
            let after = Repr::parse(&bytes, kind).expect("the header is valid");
            assert_eq!((after.slots, after.stack.hops), (before.slots, before.stack.hops + 1));
            assert_checksum_delta(delta, &data[..len], &bytes[..len]);
            assert_eq!(bytes[len..], data[len..]);
        }
        Err(_) => {
            assert_eq!(before.stack.hops, before.slots);
            assert_eq!(bytes, data);
        }
    }
});
