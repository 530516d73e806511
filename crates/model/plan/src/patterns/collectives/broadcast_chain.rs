//! Broadcast along a chain.

use super::{Algorithm, Operation, TransferKind};

/// Each rank forwards the data to the next rank. With chunks, all links of the chain are busy at the same time.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "broadcast-chain",
    operation: Operation::Broadcast,
    description: "each rank forwards the data to the next rank; set a chunk size to pipeline them",
    check: |collective| collective.check_channel_parts(1),
    count_messages: |collective| collective.count_transfers(1, collective.ranks.len() - 1),
    add_transfers: |channel, transfers| {
        for rank in 1..channel.ranks() {
            transfers.send(rank - 1, rank, channel.data, TransferKind::Copy);
            transfers.end_step();
        }
    },
};
