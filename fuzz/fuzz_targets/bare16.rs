#![no_main]
//! Fuzzes the 16-bit header from the Poseidon paper.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_checksum_delta, delay};
use poseidon_wire::bare16;

fuzz_target!(|data: &[u8]| {
    let Ok(before) = bare16::Repr::parse(data) else {
        assert!(data.len() < bare16::HEADER_BYTES);
        return;
    };
    let mut out = [0; bare16::HEADER_BYTES];
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(&out[..], &data[..2]);
    let mut packet = bare16::Packet::new_checked(out).expect("the buffer is large enough");
    let delta = packet.update(delay(data), &bare16::SCALE);
    assert!(packet.max_hop_delay() >= before.max_hop_delay);
    assert_checksum_delta(delta, &out, &packet.into_inner());
    let mut truncated = bare16::Packet::new_checked(out).expect("the buffer is large enough");
    let _ = truncated.update_truncating(delay(data));
    assert!(truncated.max_hop_delay() >= before.max_hop_delay);
    assert!(truncated.max_hop_delay() <= packet.max_hop_delay());
});
