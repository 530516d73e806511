//! Ring all-gather.

use super::{Algorithm, Operation, Span, TransferKind, Transfers};

/// Each block travels along the ring from its rank to all other ranks.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "ring-all-gather",
    operation: Operation::AllGather,
    description: "each block is forwarded along the ring",
    check: |collective| collective.check_channel_parts(collective.ranks.len()),
    count_messages: |collective| {
        collective.count_transfers(collective.ranks.len(), collective.ranks.len() - 1)
    },
    add_transfers: |channel, transfers| {
        let ring: Vec<usize> = (0..channel.ranks()).collect();
        all_gather(transfers, &ring, channel.data);
    },
};

/// In step `s`, rank `i` of the ring sends block `i - s` to the next rank.
pub(super) fn all_gather(transfers: &mut Transfers, ring: &[usize], data: Span) {
    let n = ring.len();
    for step in 0..n - 1 {
        for (i, from) in ring.iter().enumerate() {
            let block = data.part(n, (i + n - step) % n);
            transfers.send(*from, ring[(i + 1) % n], block, TransferKind::Copy);
        }
        transfers.end_step();
    }
}
