#![no_main]
//! The shim and the reflection block.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_repairs, delay};
use poseidon_wire::{reflection, shim};

fuzz_target!(|data: &[u8]| {
    if let Ok(repr) = reflection::Repr::parse(data) {
        let mut out = [0; reflection::HEADER_BYTES];
        repr.emit(&mut out).expect("fits");
        assert_eq!(reflection::Repr::parse(&out), Ok(repr));
        let _ = (repr.coverage(), repr.telemetry(&shim::SCALE));
    }
    let Some(bytes) = data.first_chunk::<{ shim::HEADER_BYTES }>() else {
        assert!(shim::Repr::parse(data).is_err());
        return;
    };
    let mut packet = shim::Packet::new_checked(*bytes).expect("long enough");
    let delta = packet.update(delay(data), &shim::SCALE);
    let (hops, code) = (packet.int_hops(), packet.max_hop_delay());
    let after = packet.into_inner();
    assert_repairs(delta, bytes, &after);
    let Ok(before) = shim::Repr::parse(data) else {
        assert_eq!(after, *bytes, "a foreign packet was changed");
        return;
    };
    let mut out = [0; shim::HEADER_BYTES];
    before.emit(&mut out).expect("fits");
    assert_eq!(shim::Repr::parse(&out), Ok(before));
    assert_eq!(shim::Repr::parse(&after).expect("still ours").flags, before.flags);
    assert!(hops >= before.int_hops && code >= before.max_hop_delay);
    if before.flags.frozen {
        assert_eq!(after, *bytes);
    }
});
