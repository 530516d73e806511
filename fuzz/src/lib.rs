//! What the targets share. The input is the packet itself, so that captured bytes are seeds; the numbers a switch
//! would measure are made from its last bytes.

use poseidon_types::{BitRate, Bytes, HopRecord, Nanos};
use poseidon_wire::checksum::{Delta, internet};

/// The last eight bytes, with zeros before a shorter input.
pub fn tail(data: &[u8]) -> u64 {
    data.iter().rev().take(8).rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

/// A delay of any order of magnitude.
pub fn delay(data: &[u8]) -> Nanos {
    let number = tail(data);
    Nanos::new(number >> (number % 64))
}

/// A record of any magnitude, with a rate that the published table has.
pub fn record(data: &[u8]) -> HopRecord {
    let number = tail(data);
    HopRecord {
        at: Nanos::new(number),
        sent: Bytes::new(number.rotate_left(17)),
        queue: Bytes::new(number >> (number % 64)),
        rate: BitRate::from_gbps([25, 40, 50, 100, 200, 400][usize::try_from(number % 6).expect("small")]),
    }
}

/// The change that an update reported turns the old checksum into the new one. Both lengths are even.
pub fn assert_repairs(delta: Delta, before: &[u8], after: &[u8]) {
    // All zeros have two checksums; no packet is all zeros.
    let sum = |bytes: &[u8]| internet(&[bytes, &[0, 1]].concat());
    assert_eq!(delta.apply(sum(before)), sum(after));
}
