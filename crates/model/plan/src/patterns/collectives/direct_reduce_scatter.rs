//! Direct reduce-scatter.

use super::{Algorithm, Channel, Operation, TransferKind, Transfers};

/// Each rank sends each block directly to the block's rank, all at once.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "direct-reduce-scatter",
    operation: Operation::ReduceScatter,
    description: "each rank sends each block directly to the block's rank",
    check: |collective| collective.check_channel_parts(collective.ranks.len()),
    count_messages: |collective| {
        collective.count_transfers(collective.ranks.len(), collective.ranks.len() - 1)
    },
    add_transfers: reduce_scatter,
};

/// Each rank starts with the next rank. If all ranks used the same order, a backend that serves connections in order
/// would overload the first receiver.
pub(super) fn reduce_scatter(channel: &Channel<'_>, transfers: &mut Transfers) {
    let n = channel.ranks();
    for shift in 1..n {
        for from in 0..n {
            let to = (from + shift) % n;
            transfers.send(from, to, channel.data.part(n, to), TransferKind::Reduce);
        }
    }
    transfers.end_step();
}
