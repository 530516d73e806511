//! Seeds, connection IDs and keys of fixed size that depend only on the plan.

use core::time::Duration;
use poseidon_types::random::splitmix64;
use quinn_proto::crypto::{CryptoError, HmacKey};
use quinn_proto::{ConnectionId, ConnectionIdGenerator};

/// The length of connection IDs, quinn's own default.
const ID_BYTES: usize = 8;

/// Expands a seed to the size that quinn's random number generator takes.
pub(super) fn rng_seed(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (word, number) in bytes.chunks_exact_mut(8).zip(0..) {
        word.copy_from_slice(&splitmix64(seed ^ number).to_be_bytes());
    }
    bytes
}

/// Returns the connection ID with this number.
pub(super) fn connection_id(number: u64) -> ConnectionId {
    ConnectionId::new(&splitmix64(number).to_be_bytes())
}

/// Generates connection IDs from a seed. They do not repeat, because the hash is a bijection.
#[derive(Debug)]
pub(super) struct SeededConnectionIds {
    next: u64,
}

impl SeededConnectionIds {
    pub(super) const fn new(seed: u64) -> Self {
        Self { next: seed }
    }
}

impl ConnectionIdGenerator for SeededConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let id = connection_id(self.next);
        self.next = self.next.wrapping_add(1);
        id
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The key of stateless reset tokens. It is public, because a simulation has nothing to protect.
#[derive(Debug)]
pub(super) struct FixedResetKey;

/// The size of a signature.
const SIGNATURE_BYTES: usize = 32;

impl HmacKey for FixedResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let hash = data.iter().fold(0, |hash, byte| splitmix64(hash ^ u64::from(*byte)));
        for (word, number) in signature_out.chunks_mut(8).zip(0..) {
            word.copy_from_slice(&splitmix64(hash ^ number).to_be_bytes()[..word.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        SIGNATURE_BYTES
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = [0; SIGNATURE_BYTES];
        self.sign(data, &mut expected);
        if signature == expected { Ok(()) } else { Err(CryptoError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn connection_ids_do_not_repeat_and_have_one_length() {
        let mut generator = SeededConnectionIds::new(u64::MAX - 3);
        let ids: BTreeSet<Vec<u8>> = (0..1_000).map(|_| generator.generate_cid().to_vec()).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.len() == generator.cid_len()));
    }

    #[test]
    fn reset_token_depends_on_the_data() {
        let sign = |data: &[u8]| {
            let mut signature = [0; SIGNATURE_BYTES];
            FixedResetKey.sign(data, &mut signature);
            signature
        };
        assert!(FixedResetKey.verify(b"id", &sign(b"id")).is_ok());
        assert!(FixedResetKey.verify(b"id", &sign(b"other")).is_err());
    }
}
