//! Represents socket addresses as 64-bit fingerprints, which fit into one atomic word.

use core::hash::BuildHasher as _;
use core::net::{IpAddr, SocketAddr};
use std::hash::RandomState;

/// Computes the fingerprints of addresses. Each instance has a random key, so an attacker cannot search for
/// two addresses with the same fingerprint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressHasher {
    key: [u64; 2],
}

/// The fingerprint of an address. A fingerprint never equals [`Fingerprint::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) u64);

impl Fingerprint {
    /// The value that represents no address.
    pub(crate) const NONE: Self = Self(0);
}

impl AddressHasher {
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        Self { key: [random.hash_one(0), random.hash_one(1)] }
    }

    /// Returns the fingerprint of an address. An IPv4 address and its IPv4-mapped IPv6 address have the same
    /// fingerprint.
    #[inline]
    pub(crate) fn fingerprint(&self, address: SocketAddr) -> Fingerprint {
        let (high, low) = match address.ip().to_canonical() {
            IpAddr::V4(ip) => (0xffff, u64::from(u32::from(ip))),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h] = ip.segments();
                (join_segments([a, b, c, d]), join_segments([e, f, g, h]))
            }
        };
        let ip_hash = mix(high ^ self.key[0], low ^ self.key[1]);
        let hash = mix(ip_hash ^ u64::from(address.port()), self.key[0] | 1);
        Fingerprint(hash | (1 << 63))
    }
}

fn join_segments(segments: [u16; 4]) -> u64 {
    segments.into_iter().fold(0, |word, segment| (word << 16) | u64::from(segment))
}

/// Multiplies two words and XORs the halves of the product, like wyhash.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let bytes = product.to_le_bytes();
    let half = |start: usize| {
        bytes[start..start + 8].iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
    };
    half(0) ^ half(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn distinct_addresses_have_distinct_fingerprints_and_mapped_addresses_match() {
        let hasher = AddressHasher::new();
        let fingerprint = |text: &str| hasher.fingerprint(text.parse().expect("the address is valid"));
        assert_eq!(fingerprint("10.0.0.1:65053"), fingerprint("[::ffff:10.0.0.1]:65053"));
        assert_ne!(fingerprint("10.0.0.1:65053"), fingerprint("10.0.0.1:65054"));
        assert_ne!(fingerprint("10.0.0.1:65053"), fingerprint("10.0.0.2:65053"));
        assert_ne!(fingerprint("[fd00::1]:1"), fingerprint("[fd00:0:0:1::1]:1"));
        let fingerprints: BTreeSet<u64> = (1..=u16::MAX)
            .map(|port| hasher.fingerprint(SocketAddr::from(([127, 0, 0, 1], port))).0)
            .collect();
        assert_eq!(fingerprints.len(), usize::from(u16::MAX));
        assert!(!fingerprints.contains(&Fingerprint::NONE.0));
    }
}
