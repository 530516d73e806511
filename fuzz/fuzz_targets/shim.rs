#![no_main]
//! Fuzzes the shim and the reflection block.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_checksum_delta, delay};
use poseidon_wire::{reflection, shim};

fuzz_target!(|data: &[u8]| {
    if let Ok(repr) = reflection::Repr::parse(data) {
        let mut out = [0; reflection::HEADER_BYTES];
        repr.emit(&mut out).expect("the buffer is large enough");
        assert_eq!(reflection::Repr::parse(&out), Ok(repr));
        let _ = (repr.coverage(), repr.telemetry(&shim::SCALE));
    }
    let Some(bytes) = data.first_chunk::<{ shim::HEADER_BYTES }>() else {
        assert!(shim::Repr::parse(data).is_err());
        return;
    };
    let mut packet = shim::Packet::new_checked(*bytes).expect("the buffer is large enough");
    let delta = packet.update(delay(data), &shim::SCALE);
    let (hops, code) = (packet.int_hops(), packet.max_hop_delay());
    let after = packet.into_inner();
    assert_checksum_delta(delta, bytes, &after);
    let Ok(before) = shim::Repr::parse(data) else {
        assert_eq!(after, *bytes, "the update changed a packet of another version");
        return;
    };
    let mut out = [0; shim::HEADER_BYTES];
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(shim::Repr::parse(&out), Ok(before));
    assert_eq!(shim::Repr::parse(&after).expect("the header is still valid").flags, before.flags);
    assert!(hops >= before.int_hops && code >= before.max_hop_delay);
    if before.flags.frozen {
        assert_eq!(after, *bytes);
    }
});
