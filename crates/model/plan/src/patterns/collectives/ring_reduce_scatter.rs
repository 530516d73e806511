//! Ring reduce-scatter.

use super::{Algorithm, Operation, Span, TransferKind, Transfers};

/// Each block of the sum is collected along the ring and ends at its rank.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "ring-reduce-scatter",
    operation: Operation::ReduceScatter,
    description: "each block is summed up along the ring",
    check: |collective| collective.check_channel_parts(collective.ranks.len()),
    count_messages: |collective| {
        collective.count_transfers(collective.ranks.len(), collective.ranks.len() - 1)
    },
    add_transfers: |channel, transfers| {
        let ring: Vec<usize> = (0..channel.ranks()).collect();
        reduce_scatter(transfers, &ring, channel.data);
    },
};

/// In step `s`, rank `i` of the ring sends block `i - 1 - s` to the next rank. Block `i` ends at rank `i`.
pub(super) fn reduce_scatter(transfers: &mut Transfers, ring: &[usize], data: Span) {
    let n = ring.len();
    for step in 0..n - 1 {
        for (i, from) in ring.iter().enumerate() {
            let block = data.part(n, (i + n - 1 - step) % n);
            transfers.send(*from, ring[(i + 1) % n], block, TransferKind::Reduce);
        }
        transfers.end_step();
    }
}
