//! Broadcast over a binary tree.

use super::{Algorithm, Operation, TransferKind};

/// Each rank forwards the data to its two children. The parent of rank `i` is rank `(i - 1) / 2`.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "broadcast-tree",
    operation: Operation::Broadcast,
    description: "each rank forwards the data to two children in a binary tree",
    check: |collective| collective.check_channel_parts(1),
    count_messages: |collective| collective.count_transfers(1, collective.ranks.len() - 1),
    add_transfers: |channel, transfers| {
        for rank in 1..channel.ranks() {
            transfers.send((rank - 1) / 2, rank, channel.data, TransferKind::Copy);
            transfers.end_step();
        }
    },
};
