//! An address as one number, to be compared in one step and held in one atomic word.

use core::hash::BuildHasher as _;
use core::net::{IpAddr, SocketAddr};
use std::hash::RandomState;

/// Turns addresses into fingerprints. The key is this process's own, so nobody outside can look for two addresses with one fingerprint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprints {
    key: [u64; 2],
}

/// Of an address; never [`Fingerprint::NONE`], which is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) u64);

impl Fingerprint {
    pub(crate) const NONE: Self = Self(0);
}

impl Fingerprints {
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        Self { key: [random.hash_one(0), random.hash_one(1)] }
    }

    /// An IPv4 address means the same inside an IPv6 one.
    #[inline]
    pub(crate) fn of(&self, address: SocketAddr) -> Fingerprint {
        let (high, low) = match address.ip().to_canonical() {
            IpAddr::V4(ip) => (0xffff, u64::from(u32::from(ip))),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h] = ip.segments();
                (join([a, b, c, d]), join([e, f, g, h]))
            }
        };
        let once = fold(high ^ self.key[0], low ^ self.key[1]);
        let twice = fold(once ^ u64::from(address.port()), self.key[0] | 1);
        Fingerprint(twice | (1 << 63))
    }
}

fn join(words: [u16; 4]) -> u64 {
    words.into_iter().fold(0, |all, word| (all << 16) | u64::from(word))
}

/// The product's halves, mixed: as wyhash does it.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let bytes = product.to_le_bytes();
    let half = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |all, byte| (all << 8) | u64::from(*byte));
    half(0) ^ half(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_differ_and_families_do_not() {
        let prints = Fingerprints::new();
        let of = |text: &str| prints.of(text.parse().expect("an address"));
        assert_eq!(of("10.0.0.1:65053"), of("[::ffff:10.0.0.1]:65053"));
        assert_ne!(of("10.0.0.1:65053"), of("10.0.0.1:65054"));
        assert_ne!(of("10.0.0.1:65053"), of("10.0.0.2:65053"));
        assert_ne!(of("[fd00::1]:1"), of("[fd00:0:0:1::1]:1"));
        let many: BTreeSet<u64> =
            (1..=u16::MAX).map(|port| prints.of(SocketAddr::from(([127, 0, 0, 1], port))).0).collect();
        assert_eq!(many.len(), usize::from(u16::MAX));
        assert!(!many.contains(&Fingerprint::NONE.0));
    }
}
