//! Direct all-gather.

use super::{Algorithm, Channel, Operation, TransferKind, Transfers};

/// Each rank sends its block directly to every other rank, all at once.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "direct-all-gather",
    operation: Operation::AllGather,
    description: "each rank sends its block directly to every other rank",
    check: |collective| collective.check_channel_parts(collective.ranks.len()),
    count_messages: |collective| {
        collective.count_transfers(collective.ranks.len(), collective.ranks.len() - 1)
    },
    add_transfers: all_gather,
};

/// Each rank starts with the next rank, so that the receivers get equal shares from the start.
pub(super) fn all_gather(channel: &Channel<'_>, transfers: &mut Transfers) {
    let n = channel.ranks();
    for shift in 1..n {
        for from in 0..n {
            transfers.send(from, (from + shift) % n, channel.data.part(n, from), TransferKind::Copy);
        }
    }
    transfers.end_step();
}
