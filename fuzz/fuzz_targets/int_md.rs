#![no_main]
//! Fuzzes P4 INT in embed-data mode (INT-MD).
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::{assert_checksum_delta, delay, record};
use poseidon_types::BitRate;
use poseidon_wire::int_hop::{Hop, Units};
use poseidon_wire::int_md::{Packet, PushOutcome, Repr};

fuzz_target!(|data: &[u8]| {
    let units = Units::NANOS_AND_BYTES;
    let Ok(before) = Repr::parse(data) else { return };
    let len = before.buffer_len();
    let mut out = data.to_vec();
    before.emit(&mut out).expect("the buffer is large enough");
    assert_eq!(Repr::parse(&out), Ok(before));
    assert_eq!(out[16..], data[16..]);

    let mut bytes = data.to_vec();
    let mut packet = Packet::new_checked(&mut bytes[..]).expect("the header is valid");
    let old: Vec<_> = packet.hops().collect();
    assert_eq!(old.len(), packet.hop_count());
    let signal = packet.telemetry(&units);
    let _ = packet.hop_stack(&units, |_| Some(BitRate::from_gbps(100)));
    let outcome = packet.push(&Hop::from_measurement(7, delay(data), &record(data), &units));
    let new: Vec<_> = packet.hops().collect();
    assert!(packet.telemetry(&units).worst >= signal.worst);
    let after = Repr::parse(&bytes).expect("the header is valid");
    match outcome {
        PushOutcome::Pushed { bytes: added, delta } => {
            assert_eq!(added, 4 * usize::from(before.hop_words));
            assert_eq!(after.remaining_hops, before.remaining_hops - 1);
            assert_eq!(new[1..], old[..]);
            assert_eq!(bytes[len + added..], data[len + added..]);
            assert_checksum_delta(delta, &data[..len], &bytes[..len + added]);
        }
        PushOutcome::HopLimitExceeded { delta } => {
            assert!(before.remaining_hops == 0 && after.hop_limit_exceeded);
            assert_eq!(after, Repr { hop_limit_exceeded: true, ..before });
            assert_checksum_delta(delta, &data[..len], &bytes[..len]);
            assert_eq!(new, old);
        }
        PushOutcome::MtuExceeded { delta } => {
            assert_eq!(after, Repr { mtu_exceeded: true, ..before });
            assert_checksum_delta(delta, &data[..len], &bytes[..len]);
            assert_eq!(new, old);
        }
        PushOutcome::NothingRequested => assert_eq!(bytes, data),
        _ => unreachable!("all outcomes are handled"),
    }
});
