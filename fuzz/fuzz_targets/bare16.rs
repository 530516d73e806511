#![no_main]
//! The paper's sixteen bits.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_repairs, delay};
use poseidon_wire::bare16;

fuzz_target!(|data: &[u8]| {
    let Ok(before) = bare16::Repr::parse(data) else {
        assert!(data.len() < bare16::HEADER_BYTES);
        return;
    };
    let mut out = [0; bare16::HEADER_BYTES];
    before.emit(&mut out).expect("fits");
    assert_eq!(&out[..], &data[..2]);
    let mut packet = bare16::Packet::new_checked(out).expect("fits");
    let delta = packet.update(delay(data), &bare16::SCALE);
    assert!(packet.max_hop_delay() >= before.max_hop_delay);
    assert_repairs(delta, &out, &packet.into_inner());
    let mut paper = bare16::Packet::new_checked(out).expect("fits");
    let _ = paper.update_truncating(delay(data));
    assert!(paper.max_hop_delay() >= before.max_hop_delay);
    assert!(paper.max_hop_delay() <= packet.max_hop_delay());
});
