#![no_main]
//! The TCP option, alone and in an option list.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_repairs, delay};
use poseidon_wire::tcp_option::{HEADER_BYTES, Ids, Packet, Repr, SCALE, find};

fuzz_target!(|data: &[u8]| {
    let ids = Ids::default();
    let Some(at) = find(data, ids) else {
        // At the very start the walk cannot miss it.
        assert!(Repr::parse(data, ids).is_err());
        return;
    };
    let bytes = &data[at..at + HEADER_BYTES];
    let before = Repr::parse(bytes, ids).expect("found");
    let mut out = [0; HEADER_BYTES];
    before.emit(&mut out).expect("fits");
    assert_eq!(out, bytes);
    let mut packet = Packet::new_checked(out, ids).expect("ours");
    let delta = packet.update(delay(data), &SCALE);
    assert_eq!(packet.echo(), before.echo);
    assert!(packet.max_hop_delay() >= before.max_hop_delay);
    let after = packet.into_inner();
    assert_repairs(delta, bytes, &after);
    // In the whole list, where the option may begin at an odd byte.
    let mut list = data.to_vec();
    list[at..at + HEADER_BYTES].copy_from_slice(&after);
    if list.len() % 2 == 0 {
        assert_repairs(delta.at(at), data, &list);
    }
    assert!(Repr::parse(&after, ids).is_ok());
});
