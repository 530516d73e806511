//! All-to-all.

use super::{Algorithm, Operation, TransferKind};

/// Each rank sends a different block of its data to every other rank, all at once.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "all-to-all",
    operation: Operation::AllToAll,
    description: "each rank sends a block directly to every other rank",
    check: |collective| collective.check_channel_parts(collective.ranks.len()),
    count_messages: |collective| {
        collective.count_transfers(collective.ranks.len(), collective.ranks.len() - 1)
    },
    add_transfers: |channel, transfers| {
        let n = channel.ranks();
        for shift in 1..n {
            for from in 0..n {
                let to = (from + shift) % n;
                transfers.send(from, to, channel.data.part(n, to), TransferKind::Exchange);
            }
        }
    },
};
