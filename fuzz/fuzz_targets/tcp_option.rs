#![no_main]
//! Fuzzes the TCP option, alone and in an option list.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_checksum_delta, delay};
use poseidon_wire::tcp_option::{HEADER_BYTES, Ids, Packet, Repr, SCALE, find};

fuzz_target!(|data: &[u8]| {
    let ids = Ids::default();
    let Some(offset) = find(data, ids) else {
        // An option at the start of the list is always found.
        assert!(Repr::parse(data, ids).is_err());
        return;
    };
    let bytes = &data[offset..offset + HEADER_BYTES];
    let before = Repr::parse(bytes, ids).expect("the option is valid");
    let mut out = [0; HEADER_BYTES];
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(out, bytes);
    let mut packet = Packet::new_checked(out, ids).expect("the header is valid");
    let delta = packet.update(delay(data), &SCALE);
    assert_eq!(packet.echo(), before.echo);
    assert!(packet.max_hop_delay() >= before.max_hop_delay);
    let after = packet.into_inner();
    assert_checksum_delta(delta, bytes, &after);
    // In the complete list, the option may start at an odd byte.
    let mut list = data.to_vec();
    list[offset..offset + HEADER_BYTES].copy_from_slice(&after);
    if list.len() % 2 == 0 {
        assert_checksum_delta(delta.at_offset(offset), data, &list);
    }
    assert!(Repr::parse(&after, ids).is_ok());
});
