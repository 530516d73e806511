#![no_main]
//! P4-INT, embed data.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_repairs, delay, record};
use poseidon_types::BitRate;
use poseidon_wire::int_hop::{Hop, Units};
use poseidon_wire::int_md::{Packet, Repr, Transit};

fuzz_target!(|data: &[u8]| {
    let units = Units::NANOS_AND_BYTES;
    let Ok(before) = Repr::parse(data) else { return };
    let used = before.buffer_len();
    let mut out = data.to_vec();
    before.emit(&mut out).expect("fits");
    assert_eq!(Repr::parse(&out), Ok(before));
    assert_eq!(out[16..], data[16..]);

    let mut bytes = data.to_vec();
    let mut packet = Packet::new_checked(&mut bytes[..]).expect("parses");
    let old: Vec<_> = packet.hops().collect();
    assert_eq!(old.len(), packet.hop_count());
    let signal = packet.telemetry(&units);
    let _ = packet.hop_stack(&units, |_| Some(BitRate::from_gbps(100)));
    let transit = packet.push(&Hop::measured(7, delay(data), &record(data), &units));
    let new: Vec<_> = packet.hops().collect();
    assert!(packet.telemetry(&units).worst >= signal.worst);
    let after = Repr::parse(&bytes).expect("parses");
    match transit {
        Transit::Pushed { bytes: added, delta } => {
            assert_eq!(added, 4 * usize::from(before.hop_words));
            assert_eq!(after.remaining_hops, before.remaining_hops - 1);
            assert_eq!(new[1..], old[..]);
            assert_eq!(bytes[used + added..], data[used + added..]);
            assert_repairs(delta, &data[..used], &bytes[..used + added]);
        }
        Transit::NoBudget { delta } => {
            assert!(before.remaining_hops == 0 && after.exceeded);
            assert_eq!(after, Repr { exceeded: true, ..before });
            assert_repairs(delta, &data[..used], &bytes[..used]);
            assert_eq!(new, old);
        }
        Transit::NoRoom { delta } => {
            assert_eq!(after, Repr { without_room: true, ..before });
            assert_repairs(delta, &data[..used], &bytes[..used]);
            assert_eq!(new, old);
        }
        Transit::Nothing => assert_eq!(bytes, data),
    }
});
